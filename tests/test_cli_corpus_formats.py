"""Claims about `vaswani corpus convert` and `vaswani corpus gettext`."""

import gzip
import itertools
from pathlib import Path

import datasets
import pytest

from vaswani.cli import main
from vaswani.data import read_pairs

PAIRS = [(f"The boat number {k}.", f"Das Boot Nummer {k}.") for k in range(5)]
PO = r"""msgid ""
msgstr ""
"Language: de\n"
"Content-Type: text/plain; charset=UTF-8\n"

msgid "_Row"
msgstr "_Rudern"

msgctxt "again"
msgid "Row"
msgstr "Rudern"

msgid "Sail"
msgstr ""

msgid "A <b>mast</b>"
msgstr "Ein Mast"

msgid "Two\nlines"
msgstr "Zwei\nZeilen"
"""


def convert(*words: object) -> int:
    languages = ["--source", "en", "--target", "de"]
    return main(["corpus", "convert", *languages, *map(str, words)])


def gettext(*words: object) -> int:
    return main(["corpus", "gettext", "--language", "de", *map(str, words)])


def read(data: str | Path | list[str]) -> list[tuple[str, str]]:
    blocks = read_pairs(data, source="en", target="de")
    return [pair for block in blocks for pair in zip(*block, strict=True)]


def test_any_format_becomes_any_other(tmp_path: Path, capsys) -> None:
    """A chain through all of them ends with the pairs it began with."""
    names = ["a.tsv", "b.jsonl.xz", "c.tmx.gz", "d.en,d.de", "e.tsv.zst", "folder", "f.tmx"]
    first = tmp_path / names[0]
    first.write_text("".join(f"{s}\t{t}\n" for s, t in PAIRS), encoding="utf-8")
    for before, after in itertools.pairwise(names):
        data, output = (
            ",".join(str(tmp_path / part) for part in name.split(",")) for name in (before, after)
        )
        options = ["--output-format", "datasets"] if after == "folder" else []
        assert convert("--data", data, "--output", output, *options) == 0
        assert capsys.readouterr() == (f"{output}: 5 pairs\n", "")
    assert read(tmp_path / "f.tmx") == PAIRS
    assert datasets.load_from_disk(str(tmp_path / "folder")).num_rows == 5


def test_corpora_of_several_formats_become_one_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(b"a\tA\n", mtime=0))
    (tmp_path / "b.en").write_text("b\n")
    (tmp_path / "b.de").write_text("B\n")
    (tmp_path / "c.po").write_text(PO)
    corpora = [tmp_path / "a.tsv.gz", f"{tmp_path}/b.en,{tmp_path}/b.de", tmp_path / "c.po"]
    assert convert("--data", *corpora, "--output", tmp_path / "all.tsv") == 0
    expected = [("a", "A"), ("b", "B"), ("Row", "Rudern"), ("Row", "Rudern")]
    assert read(tmp_path / "all.tsv") == [*expected, ("Two lines", "Zwei Zeilen")]


def test_what_was_left_out_or_changed_is_told_once(tmp_path: Path, capsys) -> None:
    data = tmp_path / "a.jsonl"
    lines = [
        '{"en": "a\\nb", "de": "c"}',
        "",
        '{"en": "", "de": "d"}',
        '{"en": "e", "de": "\\u0001"}',
    ]
    data.write_text("\n".join(lines))
    assert convert("--data", data, "--output", tmp_path / "b.tmx") == 0
    output, errors = capsys.readouterr()
    assert output == f"{tmp_path}/b.tmx: 1 pair\n"
    assert errors.splitlines() == [
        "Reading: 2 pairs; skipped 2 (1 blank, 1 empty source).",
        "Writing: 1 pair; skipped 1 (1 control character); changed 1 (1 joined to one line).",
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.tmx", b'<tmx version="1.4"><body><tu><tuv xml:lang="en"><seg>a'),
        ("cut.tsv.gz", gzip.compress(b"a\tb\n" * 1000, mtime=0)[:-9]),
        ("bad.tsv", b"a\tb\nno tab\n"),
        ("empty.tsv", b""),
        ("blank.po", b""),
    ],
)
def test_corpus_that_ends_in_an_error_is_not_written(
    tmp_path: Path, capsys, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    for output in ("b.tsv", "b.tmx", "folder"):
        options = ["--output-format", "datasets"] if output == "folder" else []
        words = ["--data", tmp_path / name, "--output", tmp_path / output, *options]
        assert convert(*words) == 2
        errors = capsys.readouterr().err
        assert name in errors and errors.count("\n") == 1
        assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data", "none.tsv", "--output", "b.tsv"], "none.tsv must exist"),
        (["--data", "a.tsv", "--output", "b.po"], "format to write must be one of"),
        (["--data", "a.tsv", "--output", "none/b.tsv"], "must be in an existing folder"),
        (["--data", "a.tsv", "--output", "b", "--output-format", "csv"], "got csv for 1"),
        (["--data", "a.tsv", "--output", "b", "--format", "csv"], "`format` must be one of"),
    ],
)
def test_wrong_word_is_one_line(tmp_path: Path, monkeypatch, capsys, words, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.tsv").write_text("a\tb\n")
    assert convert(*words) == 2
    errors = capsys.readouterr().err
    assert message in errors and errors.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.tsv"]


def test_catalogs_become_a_corpus_with_counts_by_reason(tmp_path: Path, capsys) -> None:
    (tmp_path / "a.po").write_text(PO)
    (tmp_path / "b.po").write_text(PO.replace("Zwei", "2"))
    output = tmp_path / "pairs.tsv"
    assert gettext("--data", tmp_path / "a.po", tmp_path / "b.po", "--output", output) == 0
    assert read(output) == [
        ("Row", "Rudern"),
        ("Two lines", "Zwei Zeilen"),
        ("Two lines", "2 Zeilen"),
    ]
    rows = [line.rsplit(None, 1) for line in capsys.readouterr().out.splitlines()]
    assert {title.strip(): int(count) for title, count in rows} == {
        "catalogs": 2,
        f"pairs in {output}": 3,
        "entries left out": 9,
        "header": 2,
        "untranslated": 2,
        "with other tags": 2,
        "the same pair again": 3,
        "texts changed": 8,
        "joined to one line": 4,
        "without accelerator": 4,
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "`--package` or `--data` must name catalogs"),
        (["--package", "no-such-package"], "must be an installed package"),
        (["--package", "pytest"], "It has no catalogs"),
        (["--data", "a.tsv"], "`--data` must be catalogs"),
        (["--data", "none.po"], "none.po must exist"),
        (["--data", "fr.po"], "fr.po, which are 'en' and 'fr', got 'en' and 'de'"),
        (["--data", "de.po"], "must hold at least one pair, got 0 pairs"),
    ],
)
def test_catalogs_that_give_nothing_are_one_line(
    tmp_path: Path, monkeypatch, capsys, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("fr.po", "de.po"):
        Path(name).write_text('msgid "a"\nmsgstr ""\n')
    assert gettext(*words, "--output", "b.tsv") == 2
    errors = capsys.readouterr().err
    assert message in errors.splitlines()[-1] and "Traceback" not in errors
    assert not Path("b.tsv").exists()
