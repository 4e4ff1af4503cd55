"""Options of the commands that read parallel text, and the reading with a bar."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from vaswani.cli._model import is_terminal
from vaswani.corpus_readers import Pairs
from vaswani.errors import InputError
from vaswani.output_folder import check_apart
from vaswani.text_lines import ReadReport, check_lasting


@dataclass
class CorpusArguments:
    """Which parallel text."""

    _argument_group_name = "parallel text"

    data: list[str] = field(
        metadata={
            "metavar": "CORPUS",
            "help": "a file (.tsv, .jsonl, .tmx, .po, .mo), SOURCE_FILE,TARGET_FILE, a folder of "
            "`datasets` or a dataset of the Hub; several are read one after the other",
        }
    )
    source: str = field(metadata={"metavar": "CODE", "help": "source language, such as en"})
    target: str = field(metadata={"metavar": "CODE", "help": "target language, such as de"})
    format: str | None = field(
        default=None,
        metadata={
            "help": "format of the files: tsv, jsonl, tmx, po, mo (default: by the name of each)"
        },
    )
    source_column: int = field(
        default=1, metadata={"help": "column of the source in a .tsv file, from 1"}
    )
    target_column: int = field(
        default=2, metadata={"help": "column of the target in a .tsv file, from 1"}
    )
    encoding: str = field(default="utf-8", metadata={"help": "encoding of the files"})
    bad_lines: Literal["error", "skip"] = field(
        default="error", metadata={"help": "what to do with malformed lines"}
    )

    def check_outputs(self, setting: str, *outputs: str | None) -> None:
        """Raises InputError if one of the outputs would take the place of a corpus."""
        for output in filter(None, outputs):
            check_apart(setting, output, self._paths())

    def check_lasting(self) -> None:
        """Raises InputError if a corpus can be read only once."""
        for path in self._paths():
            check_lasting(path)

    def _paths(self) -> list[Path]:
        from vaswani.data import corpus_of

        found = map(corpus_of, self.data)
        return [Path(path) for each in found for path in ([each] if type(each) is str else each)]

    def blocks(self, report: ReadReport) -> Iterator[Pairs]:
        """Yields the pairs of all corpora, block by block, with a bar where a person watches.

        Raises:
            InputError, FileNotFoundError: as `read_pairs`, and at the end if there was no pair.
        """
        from tqdm import tqdm

        from vaswani.data import corpus_of, read_pairs

        # Opened at once, so that a missing file is found before another is read.
        corpora = [
            read_pairs(
                corpus_of(word),
                source=self.source,
                target=self.target,
                format=self.format,
                source_column=self.source_column,
                target_column=self.target_column,
                encoding=self.encoding,
                bad_lines=self.bad_lines,
                report=report,
            )
            for word in self.data
        ]
        with tqdm(unit=" pairs", unit_scale=True, disable=not is_terminal(), leave=False) as bar:
            for corpus in corpora:
                for block in corpus:
                    yield block
                    bar.update(len(block[0]))
        if not report.pairs:
            raise InputError(
                f"`data` must hold at least one pair, got {report} in {' '.join(self.data)}."
            )


def print_skipped(report: ReadReport) -> None:
    """Tells on stderr, in one line, what reading left out or changed, if anything."""
    if report.skipped or report.removed_nul or report.changed:
        print(f"Reading: {report}.", file=sys.stderr)
