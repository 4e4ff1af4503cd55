"""What happened to which lines, in a few lines of text however many there are.

LineReport    counts by reason, with the first ten line numbers of each
"""

from dataclasses import dataclass, field

_NAMED = 10


@dataclass
class LineReport:
    """Counts lines by what happened to them.

    Args:
        reasons: what each key means, in the order of the report.
        found: count and first line numbers by key.
    """

    reasons: dict[str, str]
    found: dict[str, tuple[int, list[int]]] = field(default_factory=dict)

    def add(self, key: str, line: int) -> None:
        """Counts one line."""
        count, lines = self.found.get(key, (0, []))
        self.found[key] = (count + 1, [*lines, line][:_NAMED])

    def count(self, key: str) -> int:
        """How many lines there are of a kind."""
        return self.found.get(key, (0, []))[0]

    def __str__(self) -> str:
        """One line for each reason that occurred."""
        told = []
        for key, reason in self.reasons.items():
            count, lines = self.found.get(key, (0, []))
            if count:
                named = ", ".join(map(str, lines))
                more = f" and {count - len(lines)} more" if count > len(lines) else ""
                told.append(f"{reason}: {count} (line{'s' * (count != 1)} {named}{more})")
        return "\n".join(told)
