"""What is written is read as it went in, or counted; files appear whole or not at all."""

import json
from collections import Counter
from pathlib import Path

import datasets
import defusedxml.ElementTree
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vaswani.corpus_folders import folder_writer
from vaswani.corpus_writers import corpus_writer, format_to_write
from vaswani.data import read_pairs
from vaswani.errors import InputError
from vaswani.text_lines import clean_text

PAIRS = [
    ("The bridge is open.", "Die Brücke ist offen."),
    ('He shouted "stop', "„Halt“, rief er"),
    ("Tom &amp; <b>Eva</b> ]]>", "Tom &amp; <b>Eva</b>"),
    ("Café\u2028au lait", "Milch\x85kaffee\u2029hier"),
]
OUTPUTS = ["a.tsv", "a.txt", "a.jsonl", "a.tmx", ("a.en", "a.de")]


def in_folder(folder: Path, output: str | tuple[str, str], packing: str = "") -> Path | list[Path]:
    if isinstance(output, str):
        return folder / f"{output}{packing}"
    return [folder / f"{name}{packing}" for name in output]


def written(output: Path | list[Path], *blocks, **options):
    with corpus_writer(output, **{"source": "en", "target": "de"} | options) as writer:
        for block in blocks:
            writer.write(([source for source, _ in block], [target for _, target in block]))
    return writer.report


def read(output: Path | list[Path]) -> list[tuple[str, str]]:
    blocks = read_pairs(output, source="en", target="de")
    return [pair for block in blocks for pair in zip(*block, strict=True)]


@pytest.mark.parametrize("packing", ["", ".gz", ".xz", ".zst"])
@pytest.mark.parametrize("output", OUTPUTS, ids=str)
def test_every_format_gives_back_what_was_written(tmp_path: Path, output, packing: str) -> None:
    path = in_folder(tmp_path, output, packing)
    report = written(path, PAIRS[:3], [], PAIRS[3:])
    assert read(path) == PAIRS
    assert (report.pairs, report.skipped, report.changed) == (4, {}, {})


def test_formats_are_what_other_programs_read(tmp_path: Path) -> None:
    for name in ("a.tsv", "a.jsonl", "a.tmx"):
        written(tmp_path / name, PAIRS)
    written([tmp_path / "a.en", tmp_path / "a.de"], PAIRS)
    assert (tmp_path / "a.tsv").read_bytes().decode() == "".join(f"{s}\t{t}\n" for s, t in PAIRS)
    assert (tmp_path / "a.de").read_bytes().decode() == "".join(f"{t}\n" for _, t in PAIRS)
    # One record a line for readers that take U+2028 and U+0085 for ends of lines, too.
    records = map(json.loads, (tmp_path / "a.jsonl").read_text("utf-8").splitlines())
    assert list(records) == [{"translation": {"en": s, "de": t}} for s, t in PAIRS]
    assert "Brücke" in (tmp_path / "a.jsonl").read_text("utf-8")
    tree = defusedxml.ElementTree.parse(tmp_path / "a.tmx")
    languages = [v.get("{http://www.w3.org/XML/1998/namespace}lang") for v in tree.iter("tuv")]
    assert languages == ["en", "de"] * 4
    assert [s.text for s in tree.iter("seg")] == [text for pair in PAIRS for text in pair]
    header = tree.find("header")
    required = [
        "creationtool",
        "creationtoolversion",
        "segtype",
        "o-tmf",
        "adminlang",
        "srclang",
        "datatype",
    ]
    assert tree.getroot().get("version") == "1.4" and sorted(header.keys()) == sorted(required)


@pytest.mark.parametrize(
    ("output", "text", "held"),
    [
        ("a.tsv", "a\tb \n c\r\nd", "a b c d"),
        ("a.tsv", "a\rb", "a\rb"),
        ("a.tmx", "a\tb\nc\rd", "a b c d"),
        (("a.en", "a.de"), "a\tb\nc", "a b c"),
        ("a.jsonl", "a\tb\nc\rd", "a\tb\nc\rd"),
        ("a.tsv", " a\0b\x0b", "ab"),
        ("a.tsv", "a\x0bb\x0cc\x1cd", "a\x0bb\x0cc\x1cd"),
        ("a.tmx", "a\x0bb", None),
        ("a.tmx", "a\x1fb", None),
        ("a.tmx", "a\uffffb", None),
        ("a.tmx", "a\x7f\x85\ufeffb", "a\x7f\x85\ufeffb"),
        ("a.tsv", "a\ud800b", None),
        ("a.jsonl", "a\ud800b", None),
        ("a.tmx", "a\udfffb", None),
        ("a.tsv", " \n ", ""),
        ("a.jsonl", "\0", ""),
    ],
)
def test_what_a_format_cannot_hold_follows_its_rule_and_is_counted(
    tmp_path: Path, output, text: str, held: str | None
) -> None:
    path = in_folder(tmp_path, output)
    report = written(path, [("one", "eins"), (text, "zwei"), ("drei", text)])
    expected = [("one", "eins"), (held, "zwei"), ("drei", held)] if held else [("one", "eins")]
    assert read(path) == expected
    reason = "empty side" if held == "" else "control character"
    if held is None and output != "a.tmx":
        reason = "not valid Unicode"
    assert report.skipped == ({} if held else {reason: 2})
    joined = bool(held) and output != "a.jsonl" and bool({"\t", "\n"} & set(text))
    assert report.changed == ({"joined to one line": 2} if joined else {})
    assert report.removed_nul == 2 * text.count("\0")


def test_first_text_keeps_a_mark_that_looks_like_that_of_the_encoding(tmp_path: Path) -> None:
    pairs = [("\ufeffa", "\ufeffb"), ("\ufeffc", "d")]
    for output in OUTPUTS:
        path = in_folder(tmp_path, output)
        written(path, pairs[:1], pairs[1:])
        assert read(path) == pairs, output


@pytest.mark.parametrize("output", [*OUTPUTS, "a.tsv.gz", "a.tmx.xz"], ids=str)
def test_failure_leaves_no_half_a_corpus(tmp_path: Path, output) -> None:
    path = in_folder(tmp_path, output)
    with (
        pytest.raises(RuntimeError, match="stop"),
        corpus_writer(path, source="en", target="de") as writer,
    ):
        writer.write((["a"], ["b"]))
        raise RuntimeError("stop")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("output", "format", "expected"),
    [
        ("a.tsv", None, "tsv"),
        ("a.txt.gz", None, "tsv"),
        ("a.ndjson.zst", None, "jsonl"),
        ("a.TMX", None, "tmx"),
        (["a", "b"], None, "aligned"),
        ("a.tsv", "tmx", "tmx"),
        ("a.po", None, "got po for 1"),
        ("a.tsv", "aligned", "got aligned for 1"),
        (["a", "b"], "tsv", "got tsv for 2"),
        (["a", "b", "c"], "aligned", "got aligned for 3"),
        ("a", "xml", "must be one of tsv, jsonl, tmx for one file or aligned for two"),
    ],
)
def test_format_goes_by_the_name(output, format: str | None, expected: str) -> None:
    if " " not in expected:
        assert format_to_write(output, format) == expected
        return
    with pytest.raises(InputError, match=expected):
        format_to_write(output, format)


def test_outputs_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be two different files"):
        written([tmp_path / "a", tmp_path / "x" / ".." / "a"])
    with pytest.raises(InputError, match="must be language codes in a TMX, got 'e n'"):
        written(tmp_path / "a.tmx", source="e n")
    with pytest.raises(InputError, match="must be a file to write, got a folder"):
        written(tmp_path)


def test_folder_loads_in_the_library_and_here(tmp_path: Path) -> None:
    odd = [("two\nlines\t", "x"), *PAIRS]
    folder = tmp_path / "corpus"
    with folder_writer(folder, source="en", target="de") as writer:
        for block in (odd[:2], odd[2:]):
            writer.write(([s for s, _ in block], [t for _, t in block]))
        assert not folder.exists()
    saved = datasets.load_from_disk(str(folder))
    assert saved.features["translation"] == datasets.Translation(languages=["de", "en"])
    assert [(row["en"], row["de"]) for row in saved["translation"]] == odd
    assert read(folder) == [("two\nlines", "x"), *PAIRS]
    assert list(tmp_path.iterdir()) == [folder]
    assert not [path for path in folder.iterdir() if path.is_dir()]
    with (
        pytest.raises(InputError, match="must be new or empty"),
        folder_writer(folder, source="en", target="de"),
    ):
        pass
    with (
        pytest.raises(InputError, match="must get at least one pair"),
        folder_writer(tmp_path / "none", source="en", target="de"),
    ):
        pass
    assert list(tmp_path.iterdir()) == [folder]


TEXT = st.text(st.characters(), max_size=30) | st.text(st.sampled_from("a \t\n\r\0\x85\ufeff\x1c"))


@settings(max_examples=300, deadline=None)
@given(
    blocks=st.lists(st.lists(st.tuples(TEXT, TEXT), max_size=4), max_size=3),
    output=st.sampled_from(OUTPUTS),
)
@example(blocks=[[("\ufeff", "\ufeff")]], output="a.tsv")
def test_reading_gives_the_writer_s_rule_of_any_texts(tmp_path_factory, blocks, output) -> None:
    """The rule is written out a second time, character by character."""
    path = in_folder(tmp_path_factory.mktemp("corpus"), output)
    report = written(path, *blocks)
    expected, skipped = [], 0
    for pair in (pair for block in blocks for pair in block):
        texts = [_held_by(clean_text(text), output) for text in pair]
        if None in texts or "" in texts:
            skipped += 1
        else:
            expected.append(tuple(texts))
    assert read(path) == expected
    assert (report.pairs, sum(report.skipped.values())) == (len(expected), skipped)


def _held_by(text: str, output: str | tuple[str, str]) -> str | None:
    breaks = {"a.jsonl": "", "a.tmx": "\t\n\r"}.get(str(output), "\t\n")
    if any("\ud800" <= c <= "\udfff" for c in text):
        return None
    if set(breaks) & set(text):
        runs: list[str] = []
        for c in text:
            if runs and c.isspace() == runs[-1][0].isspace():
                runs[-1] += c
            else:
                runs.append(c)
        text = "".join(" " if set("\t\n\r") & set(run) else run for run in runs)
    if output == "a.tmx" and any(c < " " or c in "\ufffe\uffff" for c in text):
        return None
    return text


def test_report_names_what_was_done(tmp_path: Path) -> None:
    report = written(tmp_path / "a.tmx", [("a\nb", "c"), ("d", "\x01"), ("e", "f")])
    assert str(report) == (
        "2 pairs; skipped 1 (1 control character); changed 1 (1 joined to one line)"
    )
    assert report.skipped == Counter({"control character": 1})
