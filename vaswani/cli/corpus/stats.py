"""Counts pairs, lengths, copies, scripts and odd characters, and shows pairs that stand out.

Lengths are in words, and with a tokenizer in tokens too. Pairs are numbered from 1, as they are
read. See docs/cleaning.md.
"""

import json
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaswani.cli._model import check_writable, written_whole
from vaswani.cli.corpus._corpora import CorpusArguments
from vaswani.errors import InputError
from vaswani.text_lines import ReadReport

if TYPE_CHECKING:
    from vaswani.corpus_statistics import CountTokens

_MOST_CHARACTERS = 160
_TITLES = ("least", "1 %", "25 %", "median", "75 %", "99 %", "most")


@dataclass
class StatsArguments:
    """What to show."""

    _argument_group_name = "statistics"

    tokenizer: str | None = field(
        default=None,
        metadata={
            "metavar": "FOLDER",
            "help": "tokenizer, or the model it belongs to, to count tokens",
            "aliases": ["--model"],
        },
    )
    examples: int = field(
        default=3, metadata={"help": "pairs to show of each kind that stands out"}
    )
    plot: str | None = field(
        default=None,
        metadata={"metavar": "FILE", "help": "picture of the lengths to write: .png or .svg"},
    )
    json: str | None = field(
        default=None, metadata={"metavar": "FILE", "help": "write the figures here too"}
    )

    def __post_init__(self) -> None:
        if self.examples < 0:
            raise InputError(f"`--examples` must not be negative, got {self.examples}.")
        if self.plot is not None:
            from vaswani.plotting import check_picture

            check_picture(self.plot)
        for path in (self.plot, self.json):
            if path is not None:
                check_writable(path)


ARGUMENTS = (CorpusArguments, StatsArguments)
EXAMPLES = """
vaswani corpus stats --data train.tsv.gz --source en --target de
vaswani corpus stats --data train.tsv --source en --target de --tokenizer runs/en-de
vaswani corpus stats --data train.tsv --source en --target de --plot lengths.png --json stats.json
"""


def run(corpus: CorpusArguments, what: StatsArguments) -> int:
    """Prints the figures; see `--help`."""
    from vaswani.corpus_statistics import CorpusStatistics

    corpus.check_outputs("--json", what.json)
    corpus.check_outputs("--plot", what.plot)
    if what.examples:
        corpus.check_lasting()
    statistics = CorpusStatistics(_token_counter(what.tokenizer))
    report = ReadReport()
    for pairs in corpus.blocks(report):
        statistics.add(pairs)
    summary = {"read": str(report), **statistics.summary()}
    outliers = statistics.outliers(what.examples)
    numbers = {number for found in outliers.values() for number, _ in found}
    texts = _texts_of(corpus, numbers)
    codes = {"source": corpus.source, "target": corpus.target}
    summary["outliers"] = {
        kind: [
            {"pair": number, "why": why, **dict(zip(codes, texts[number], strict=True))}
            for number, why in found
        ]
        for kind, found in outliers.items()
    }
    print("\n".join([*_lines_of_figures(summary, codes), *_lines_of_outliers(summary, codes)]))
    if what.json is not None:
        with written_whole(what.json) as stream:
            stream.write(json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
    if what.plot is not None:
        from vaswani.length_pictures import lengths_figure
        from vaswani.plotting import save_figure

        figure = lengths_figure(
            statistics.lengths(),
            labels=(corpus.source, corpus.target),
            unit=statistics.unit,
            title=", ".join(Path(word).name for word in corpus.data),
        )
        print(f"\n{save_figure(figure, what.plot)}")
    return 0


def _token_counter(folder: str | None) -> "CountTokens | None":
    if folder is None:
        return None
    from vaswani.model_folder import open_tokenizer

    tokenizer = open_tokenizer(folder)

    def count(pairs: Any) -> tuple[list[int], list[int]]:
        encoded = tokenizer(pairs[0], text_target=pairs[1], verbose=False)
        return [*map(len, encoded["input_ids"])], [*map(len, encoded["labels"])]

    return count


def _texts_of(corpus: CorpusArguments, numbers: set[int]) -> dict[int, tuple[str, str]]:
    """Reads the corpus once more for the texts of some pairs.

    Raises:
        InputError: if they are no longer there.
    """
    texts: dict[int, tuple[str, str]] = {}
    start = 1
    for sources, targets in corpus.blocks(ReadReport()) if numbers else ():
        for number in numbers:
            if start <= number < start + len(sources):
                texts[number] = sources[number - start], targets[number - start]
        start += len(sources)
    if len(texts) < len(numbers):
        raise InputError(
            "`--data` must stay as it is while it is read twice, got fewer pairs. Write what comes "
            "through a pipe to a file first, or ask for no `--examples`."
        )
    return texts


def _lines_of_figures(summary: dict[str, Any], codes: dict[str, str]) -> Iterator[str]:
    yield f"read             {summary['read']}"
    for key in ("identical", "duplicates", "near_duplicates"):
        share = summary[key] / summary["pairs"]
        yield f"{key.replace('_', '-'):<16} {summary[key]:,} ({share:.1%})"
    rows = [["", "sum", *_TITLES]]
    for unit in summary["source"]["lengths"]:
        for side, code in codes.items():
            quantiles = summary[side]["lengths"][unit]
            rows.append(
                [f"{code} {unit}", f"{summary[side][unit]:,}", *(f"{n:,}" for n in quantiles)]
            )
    ratio = [f"{value:.2f}" for value in summary["ratio"]]
    rows.append([f"{codes['target']}/{codes['source']} characters", "", *ratio])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    yield ""
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells])
    yield ""
    for side, code in codes.items():
        scripts = summary[side]["scripts"].items()
        shares = ", ".join(f"{script} {_percent(share)}" for script, share in scripts)
        yield f"{code} scripts: {shares or 'no letters'}"
    for side, code in codes.items():
        odd = summary[side]["odd_characters"].items()
        found = ", ".join(f"{_name(char)} {count:,}" for char, count in odd)
        yield f"{code} odd characters: {found or 'none'}"


def _percent(share: float) -> str:
    return f"{share:.2%}" if share >= 0.0001 else "below 0.01%"


def _name(char: str) -> str:
    name = unicodedata.name(
        char, {"Cc": "control", "Co": "private"}.get(unicodedata.category(char), "unnamed")
    )
    return f"U+{ord(char):04X} {name}"


def _lines_of_outliers(summary: dict[str, Any], codes: dict[str, str]) -> Iterator[str]:
    width = max(map(len, codes.values()))
    for kind, found in summary["outliers"].items():
        if found:
            yield f"\n{kind}:"
        for example in found:
            yield f"  pair {example['pair']:,}: {example['why']}"
            for side, code in codes.items():
                yield f"    {code:<{width}}  {_shown(example[side])}"


def _shown(text: str) -> str:
    """The beginning of a text, with what a terminal would obey spelled out."""
    short = text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."
    return "".join(
        char if char.isprintable() or unicodedata.category(char) == "Zs" else ascii(char)[1:-1]
        for char in short
    )
