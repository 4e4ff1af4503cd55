"""Sentence pairs through filters: what stays, what goes and why.

Cleaner            runs filters over blocks of pairs, and counts
chosen             some pairs of a block
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vaswani.corpus_filters import PairBlock, parse_filters
from vaswani.corpus_readers import Pairs

# As many pairs as keep the arrays of a block in the processor's cache.
_PAIRS_AT_A_TIME = 4096


class Cleaner:
    """Runs filters over the blocks of one corpus, in order, and counts what each one drops.

    Args:
        words: filters as `parse_filters` has them; a pair counts for the first that objects.
        source: language code of the sources.
        target: language code of the targets.

    Raises:
        InputError: for a filter that is unknown, wrongly set or not for these languages.
    """

    def __init__(self, words: Sequence[str], *, source: str, target: str) -> None:
        self.filters = parse_filters(words)
        for each in self.filters:
            each.prepare(source, target)
        self.names = [str(each) for each in self.filters]
        self.read = 0
        self.dropped = dict.fromkeys(self.names, 0)

    @property
    def kept(self) -> int:
        """How many pairs no filter has objected to."""
        return self.read - sum(self.dropped.values())

    def judge(self, pairs: Pairs) -> NDArray[np.int64]:
        """The number in `names` of the first filter that objects to each pair; -1 for none."""
        parts = [
            self._judge_part((pairs[0][start:end], pairs[1][start:end]))
            for start in range(0, len(pairs[0]), _PAIRS_AT_A_TIME)
            for end in [start + _PAIRS_AT_A_TIME]
        ]
        verdicts = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        self.read += len(verdicts)
        for number, name in enumerate(self.names):
            self.dropped[name] += int(np.count_nonzero(verdicts == number))
        return verdicts

    def _judge_part(self, pairs: Pairs) -> NDArray[np.int64]:
        block = PairBlock(pairs)
        verdicts = np.full(len(pairs[0]), -1, dtype=np.int64)
        left = np.ones(len(pairs[0]), dtype=np.bool_)
        for number, each in enumerate(self.filters):
            objected = left & each.objects(block, left)
            verdicts[objected] = number
            left &= ~objected
        return verdicts

    def table(self) -> list[str]:
        """Lines of a table: each filter and its pairs, what was kept, and the sum of them."""
        rows = [*self.dropped.items(), ("kept", self.kept), ("read", self.read)]
        width = max(len(name) for name, _ in rows)
        digits = len(f"{self.read:,}")
        return [
            f"{name:<{width}}  {count:>{digits},}  {count / max(self.read, 1):>6.1%}"
            for name, count in rows
        ]

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in self.dropped.items() if count)
        left_out = sum(self.dropped.values())
        return f"{left_out:,} of {self.read:,} pairs left out by filters" + (
            f" ({counts})" if counts else ""
        )


def chosen(pairs: Pairs, wanted: NDArray[np.bool_]) -> Pairs:
    """The flagged pairs, in order."""
    if wanted.all():
        return pairs
    places = np.flatnonzero(wanted).tolist()
    return [pairs[0][k] for k in places], [pairs[1][k] for k in places]
