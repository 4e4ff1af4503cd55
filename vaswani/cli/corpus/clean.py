"""Writes the pairs that no filter objects to, and tells how many were dropped by which filter.

A pair is dropped by the first filter that objects to it. What is kept stays in its order, with
its texts as they were. See docs/cleaning.md for the rule of every filter.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vaswani.cli._model import check_writable, written_whole
from vaswani.cli.corpus._corpora import CorpusArguments, print_skipped
from vaswani.cli.corpus.convert import OutputArguments, print_written
from vaswani.corpus_filters import FILTERS, parse_filters
from vaswani.errors import InputError
from vaswani.text_lines import ReadReport, joined_lines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaswani.corpus_readers import Pairs

# Numbers, sources, targets and reasons of dropped pairs.
Dropped = tuple[Sequence[int], Sequence[str], Sequence[str], Sequence[str]]


@dataclass
class CleanArguments:
    """What to drop."""

    _argument_group_name = "cleaning"

    dropped: str | None = field(
        default=None,
        metadata={
            "metavar": "FILE",
            "help": "file of the dropped pairs, each with the filter and its number among the "
            "pairs read: tab-separated, a text as one line, or JSON lines if the name ends in "
            ".jsonl",
        },
    )
    filters: list[str] = field(
        default_factory=lambda: ["default"],
        metadata={
            "metavar": "FILTER",
            "help": f"filters in their order, with settings as in length-ratio:most=2.5, of "
            f"{', '.join(FILTERS)}; `default` is all but language",
        },
    )

    def __post_init__(self) -> None:
        parse_filters(self.filters)
        if self.dropped is not None:
            check_writable(self.dropped)


ARGUMENTS = (CorpusArguments, CleanArguments, OutputArguments)
EXAMPLES = """
vaswani corpus clean --data raw.tsv.gz --source en --target de --output kept.tsv
vaswani corpus clean --data raw.tsv --source en --target de --output kept.tsv --dropped rest.tsv
vaswani corpus clean --data a.tsv b.en,b.de --source en --target de --output kept.tsv
vaswani corpus clean --data a.tsv --source en --target de --output b.tsv --filters length:most=80
"""


def run(corpus: CorpusArguments, cleaning: CleanArguments, output: OutputArguments) -> int:
    """Prints a table of counts by filter; see `--help`."""
    from vaswani.corpus_cleaning import Cleaner, chosen

    paths = {Path(path).resolve() for path in (output.output, *output.output.split(","))}
    if cleaning.dropped is not None and Path(cleaning.dropped).resolve() in paths:
        raise InputError(
            f"`--dropped` must be another file than `--output`, got {cleaning.dropped} twice."
        )
    corpus.check_outputs("output", *output.files())
    corpus.check_outputs("--dropped", cleaning.dropped)
    cleaner = Cleaner(cleaning.filters, source=corpus.source, target=corpus.target)
    report = ReadReport()
    record = (
        nullcontext(None)
        if cleaning.dropped is None
        else _open_record(cleaning.dropped, corpus.source, corpus.target)
    )
    with record as write_dropped, output.opened(corpus.source, corpus.target) as writer:
        for pairs in corpus.blocks(report):
            first = cleaner.read + 1
            verdicts = cleaner.judge(pairs)
            writer.write(chosen(pairs, verdicts < 0))
            if write_dropped is not None:
                write_dropped(_dropped(pairs, verdicts, cleaner.names, first))
    print_skipped(report)
    print_written(writer.report)
    print("\n".join(cleaner.table()))
    return 0


def _dropped(
    pairs: "Pairs", verdicts: "NDArray[np.int64]", names: Sequence[str], first: int
) -> Dropped:
    from vaswani.corpus_cleaning import chosen

    places = (verdicts >= 0).nonzero()[0].tolist()
    return (
        [first + k for k in places],
        *chosen(pairs, verdicts >= 0),
        [names[verdicts[k]] for k in places],
    )


@contextmanager
def _open_record(path: str, source: str, target: str) -> Iterator[Callable[[Dropped], None]]:
    """Gives a function that writes dropped pairs.

    The source and the target come first, so that the file can be read as a corpus again.
    """
    with written_whole(path) as stream:

        def write_lines(dropped: Dropped) -> None:
            for number, *texts, reason in zip(*dropped, strict=True):
                source, target = map(joined_lines, texts)
                stream.write(f"{source}\t{target}\t{reason}\t{number}\n")

        def write_records(dropped: Dropped) -> None:
            for number, *texts, reason in zip(*dropped, strict=True):
                record = {
                    "translation": dict(zip((source, target), texts, strict=True)),
                    "reason": reason,
                    "pair": number,
                }
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")

        yield write_records if Path(path).suffix == ".jsonl" else write_lines
