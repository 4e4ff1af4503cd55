"""Parts a corpus into training, validation and test so that no near copy stands in two of them.

All pairs whose sources are alike but for case, punctuation, white space and numbers fall into one
split, chosen by a hash of the source. See docs/cleaning.md.
"""

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vaswani.cli.corpus._corpora import CorpusArguments, print_skipped
from vaswani.cli.corpus.convert import print_written
from vaswani.errors import InputError
from vaswani.output_folder import check_free, written_aside
from vaswani.text_lines import ReadReport

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaswani.corpus_splits import Hashes

# By the numbers of `assign_splits`.
_NAMES = ("training", "validation", "test", "left out")
_FILES = ("train.tsv", "validation.tsv", "test.tsv", "left_out.tsv")


@dataclass
class SplitArguments:
    """How large the splits are, and where they go."""

    _argument_group_name = "splits"

    output_dir: str = field(
        metadata={
            "metavar": "FOLDER",
            "help": f"new folder for {', '.join(_FILES[:3])}, and {_FILES[3]} for what is in "
            "none of them",
        }
    )
    validation: float = field(
        default=1000, metadata={"help": "pairs of the validation set, or their share, such as 0.01"}
    )
    test: float = field(default=1000, metadata={"help": "pairs of the test set, or their share"})
    overwrite: bool = field(
        default=False, metadata={"help": "replace the splits that the folder holds"}
    )

    def __post_init__(self) -> None:
        for name in ("validation", "test"):
            value = getattr(self, name)
            if not (0 <= value < 1 or (value < float("inf") and value == int(value))):
                raise InputError(
                    f"`--{name}` must be a whole number of pairs, or a share of them from 0 to "
                    f"below 1, got {value:g}."
                )
        if self.validation == self.test == 0:
            raise InputError("`--validation` or `--test` must be above 0, got 0 for both.")
        if self.validation < 1 and self.test < 1 and self.validation + self.test >= 1:
            raise InputError(
                "`--validation` and `--test` must leave a share to train on, got "
                f"{self.validation:g} and {self.test:g}."
            )
        check_free(
            Path(self.output_dir),
            "output_dir",
            kind="split corpus",
            mark=_FILES[0],
            overwrite=self.overwrite,
        )


ARGUMENTS = (CorpusArguments, SplitArguments)
EXAMPLES = """
vaswani corpus split --data kept.tsv --source en --target de --output-dir splits
vaswani corpus split --data a.tsv --source en --target de --output-dir parts --validation 0.01
"""


def run(corpus: CorpusArguments, wanted: SplitArguments) -> int:
    """Prints how many pairs each split has; see `--help`."""
    import numpy as np

    from vaswani.corpus_splits import LEFT_OUT, assign_splits

    corpus.check_outputs("output_dir", wanted.output_dir)
    corpus.check_lasting()
    report = ReadReport()
    sources, targets = _read_hashes(corpus, report)
    splits = assign_splits(sources, targets, validation=wanted.validation, test=wanted.test)
    counts = np.bincount(splits, minlength=LEFT_OUT + 1).tolist()
    for name, count in zip(_NAMES, counts, strict=True):
        if not count and (name == "training" or getattr(wanted, name, False)):
            raise InputError(
                f"`--validation` and `--test` must leave pairs for each split, got none for "
                f"{name} of {report.pairs:,} pairs."
            )
    with written_aside(Path(wanted.output_dir)) as folder:
        _write_splits(corpus, splits, folder)
    print_skipped(report)
    width = len(f"{report.pairs:,}")
    for name, count in zip(_NAMES, counts, strict=True):
        reason = "  with the target of a held-out pair" if name == "left out" and count else ""
        print(f"{name:<10}  {count:>{width},}{reason}")
    print(f"{'read':<10}  {report.pairs:,}")
    return 0


def _read_hashes(corpus: CorpusArguments, report: ReadReport) -> tuple["Hashes", "Hashes"]:
    import numpy as np

    from vaswani.corpus_splits import fold_hashes

    parts = [
        (fold_hashes(sources), fold_hashes(targets)) for sources, targets in corpus.blocks(report)
    ]
    sources, targets = zip(*parts, strict=True)
    return np.concatenate(sources), np.concatenate(targets)


def _write_splits(corpus: CorpusArguments, splits: "NDArray[np.int8]", folder: Path) -> None:
    """Reads the corpus once more and writes each pair to the file of its split.

    Raises:
        InputError: if the corpus has changed in between.
    """
    from vaswani.corpus_writers import corpus_writer

    report = ReadReport()
    with ExitStack() as stack:
        writers = {
            number: stack.enter_context(
                corpus_writer(folder / _FILES[number], source=corpus.source, target=corpus.target)
            )
            for number in sorted(set(splits.tolist()))
        }
        start = 0
        for sources, targets in corpus.blocks(report):
            part = splits[start : start + len(sources)]
            start += len(sources)
            for number, writer in writers.items():
                places = (part == number).nonzero()[0].tolist()
                writer.write(([sources[k] for k in places], [targets[k] for k in places]))
    if start != len(splits):
        raise InputError(
            f"`--data` must stay as it is while it is read twice, got {len(splits):,} pairs and "
            f"then {start:,}. Write what comes through a pipe to a file first."
        )
    for writer in writers.values():
        print_written(writer.report)
