"""Writes parallel text in another format: TSV, JSON lines, TMX, line-aligned, a `datasets` folder.

Several corpora become one, in their order. See docs/corpus_formats.md for what each format holds.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vaswani.cli.corpus._corpora import CorpusArguments, print_skipped
from vaswani.text_lines import ReadReport
from vaswani.wording import counted

if TYPE_CHECKING:
    from vaswani.corpus_folders import FolderWriter
    from vaswani.corpus_writers import CorpusWriter


@dataclass
class OutputArguments:
    """Where the pairs go."""

    _argument_group_name = "output"

    output: str = field(
        metadata={
            "metavar": "FILE",
            "help": "file to write, or SOURCE_FILE,TARGET_FILE; packed if it ends in .gz, .xz "
            "or .zst",
        }
    )
    output_format: str | None = field(
        default=None,
        metadata={
            "help": "tsv, jsonl, tmx, aligned, or datasets for a folder "
            "(default: by the name; else tsv)"
        },
    )

    def files(self) -> list[str]:
        """The one file, or the two of line-aligned texts."""
        from vaswani.data import corpus_of

        found = corpus_of(self.output)
        return [found] if isinstance(found, str) else found

    @contextmanager
    def opened(self, source: str, target: str) -> "Iterator[CorpusWriter | FolderWriter]":
        """Opens the output, which appears when the block ends well."""
        from vaswani.corpus_folders import folder_writer
        from vaswani.corpus_writers import corpus_writer
        from vaswani.data import corpus_of

        if self.output_format == "datasets":
            with folder_writer(self.output, source=source, target=target) as folder:
                yield folder
        else:
            with corpus_writer(
                corpus_of(self.output), source=source, target=target, format=self.output_format
            ) as writer:
                yield writer


ARGUMENTS = (CorpusArguments, OutputArguments)
EXAMPLES = """
vaswani corpus convert --data memory.tmx --source en --target de --output pairs.tsv.gz
vaswani corpus convert --data a.tsv b.en,b.de c.jsonl.xz --source en --target de --output all.tmx
vaswani corpus convert --data all.tmx --source de --target en --output text.de,text.en
"""


def run(corpus: CorpusArguments, output: OutputArguments) -> int:
    """Writes the output and prints how many pairs it holds; see `--help`."""
    report = ReadReport()
    corpus.check_outputs("output", *output.files())
    with output.opened(corpus.source, corpus.target) as writer:
        for block in corpus.blocks(report):
            writer.write(block)
    print_skipped(report)
    print_written(writer.report)
    print(f"{output.output}: {counted(writer.report.pairs, 'pair')}")
    return 0


def print_written(report: ReadReport) -> None:
    """Tells on stderr, in one line, what the format could not hold, if anything."""
    if report.skipped or report.removed_nul or report.changed:
        print(f"Writing: {report}.", file=sys.stderr)
