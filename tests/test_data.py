"""What comes out of parallel text, and what is said where it breaks a rule."""

import gzip
import io
import json
import logging
from pathlib import Path
from typing import Any

import datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani.data import (
    ReadReport,
    check_words,
    clean_text,
    load_parallel,
    read_lines,
    read_texts,
)
from vaswani.errors import InputError

PAIRS = [
    ("The bridge is open.", "Die Brücke ist offen."),
    ('He shouted "stop', "„Halt“, rief er"),
    ("Tom &amp; <b>Eva</b>", "Tom &amp; <b>Eva</b>"),
    ("Café\u2028au lait", "ein\x0bMilch\x85kaffee\rhier"),
]
TSV = "".join(f"{source}\t{target}\n" for source, target in PAIRS).encode()


@pytest.fixture
def write(tmp_path: Path):
    def write(name: str, content: bytes | str) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def pairs_of(data: Any, **options: Any) -> list[tuple[str, str]]:
    options = {"source": "en", "target": "de"} | options
    dataset = load_parallel(data, **options)
    assert dataset.column_names == ["translation"]
    return [(row[options["source"]], row[options["target"]]) for row in dataset["translation"]]


def json_lines(pairs: list[tuple[str, str]]) -> str:
    return "".join(
        json.dumps({"translation": {"en": source, "de": target}}) + "\n" for source, target in pairs
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plain.tsv", TSV),
        ("without_suffix", TSV),
        ("crlf.tsv", TSV.replace(b"\n", b"\r\n")),
        ("mixed.tsv", TSV.replace(b"\n", b"\r\n", 2)),
        ("bom.tsv", b"\xef\xbb\xbf" + TSV),
        ("unended.tsv", TSV.removesuffix(b"\n")),
        ("attributed.txt", TSV.replace(b"\n", b"\tCC-BY by someone\tmore\n")),
        ("packed.tsv.gz", gzip.compress(TSV, mtime=0)),
        ("packed_but_named_plain.tsv", gzip.compress(TSV, mtime=0)),
        (
            "packed_in_two.tsv.gz",
            gzip.compress(TSV[:40], mtime=0) + gzip.compress(TSV[40:], mtime=0),
        ),
        ("records.jsonl", json_lines(PAIRS)),
        ("records.json.gz", gzip.compress(json_lines(PAIRS).encode(), mtime=0)),
        ("flat.jsonl", "\n".join(json.dumps({"de": t, "en": s, "id": 1}) for s, t in PAIRS)),
    ],
)
def test_same_pairs_come_out_of_every_form_of_a_file(write, name: str, content: bytes) -> None:
    assert pairs_of(write(name, content)) == PAIRS


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_line_of_a_pair_of_files_stays_that_pair_whatever_is_in_it(write, suffix: str) -> None:
    pack = gzip.compress if suffix else bytes
    paths = [
        write(f"text.{code}{suffix}", pack("".join(text + "\n" for text in texts).encode()))
        for code, texts in zip(("en", "de"), zip(*PAIRS, strict=True), strict=True)
    ]
    assert pairs_of(paths) == PAIRS


def test_blocks_join_without_a_seam(write, monkeypatch) -> None:
    monkeypatch.setattr("vaswani.text_lines._BLOCK_BYTES", 7)
    monkeypatch.setattr("vaswani.corpus_readers.BLOCK_PAIRS", 3)
    assert pairs_of(write("text.tsv", TSV)) == PAIRS
    paths = [write(f"text.{n}", "".join(pair[n] + "\n" for pair in PAIRS)) for n in (0, 1)]
    assert pairs_of(paths) == PAIRS
    # Only at the start of a file is U+FEFF a byte order mark, not at the start of a block.
    assert list(read_lines(write("marks", "\ufeffabc\n\ufeffdef\n"))) == ["abc", "\ufeffdef"]
    broken = write("broken.tsv", TSV + b"caf\xe9\tx\n")
    with pytest.raises(InputError, match=r"broken.tsv, line 5: .* 0xe9 at position 4"):
        pairs_of(broken)


def test_datasets_of_all_kinds_give_the_same_pairs(tmp_path: Path) -> None:
    rows = [{"translation": {"en": source, "de": target}} for source, target in PAIRS]
    dataset = datasets.Dataset.from_list(rows)
    assert pairs_of(dataset) == PAIRS
    assert pairs_of(load_parallel(dataset, source="de", target="en")) == PAIRS
    dataset.save_to_disk(tmp_path / "one")
    assert pairs_of(tmp_path / "one") == PAIRS
    splits = datasets.DatasetDict({"train": dataset.select([0]), "dev": dataset})
    splits.save_to_disk(tmp_path / "splits")
    assert pairs_of(str(tmp_path / "splits")) == PAIRS[:1]
    assert pairs_of(tmp_path / "splits", split="dev") == PAIRS
    with pytest.raises(InputError, match="`split` must be one of train, dev, got 'test'"):
        pairs_of(tmp_path / "splits", split="test")
    with pytest.raises(InputError, match=r"`data` must be a path.*got DatasetDict"):
        pairs_of(splits)
    with pytest.raises(InputError, match="must have the column `translation`, got text"):
        pairs_of(datasets.Dataset.from_dict({"text": ["a"]}))


def test_hub_id_goes_to_the_hub_with_its_configuration_and_split(monkeypatch) -> None:
    asked = []

    def load_dataset(*arguments: Any, **options: Any) -> datasets.Dataset:
        asked.append((arguments, options))
        return datasets.Dataset.from_list([{"translation": {"en": "a", "de": "b"}}])

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    for name in ("someone/corpus", "someone/corpus:de-en", "someone/corpus:de-en:test"):
        assert pairs_of(name, split="dev") == [("a", "b")]
    assert asked == [
        (("someone/corpus", None), {"split": "dev"}),
        (("someone/corpus", "de-en"), {"split": "dev"}),
        (("someone/corpus", "de-en"), {"split": "test"}),
    ]


def test_result_is_a_translation_feature_with_a_fingerprint_of_its_text(write) -> None:
    one = load_parallel(write("one.tsv", TSV), source="en", target="de")
    same = load_parallel(write("two.jsonl", json_lines(PAIRS)), source="en", target="de")
    other = load_parallel(write("three.tsv", TSV + b"a\tb\n"), source="en", target="de")
    assert one.features["translation"] == datasets.Translation(languages=["de", "en"])
    assert one._fingerprint == same._fingerprint != other._fingerprint
    assert one.cache_files == []


def test_columns_can_be_chosen(write) -> None:
    path = write("text.tsv", "1\tja\tyes\n2\tnein\tno\n")
    assert pairs_of(path, source_column=3, target_column=2) == [("yes", "ja"), ("no", "nein")]
    with pytest.raises(InputError, match=r"line 1: there must be 4 columns.* got 3 in '1"):
        pairs_of(path, source_column=4)


def test_white_space_is_stripped_at_the_ends_and_kept_inside(write) -> None:
    path = write("text.tsv", "\u00a0 Is it\u202f? \t\u202f\u2003War\u00a0 es\u202f?\u00a0\n")
    assert pairs_of(path) == [("Is it\u202f?", "War\u00a0 es\u202f?")]


def test_nul_is_removed_and_counted_everywhere(write) -> None:
    report = ReadReport()
    assert pairs_of(write("a.tsv", "a\0b\tc\0\n"), report=report) == [("ab", "c")]
    assert report.removed_nul == 2
    record = json_lines([("a\0b", "c")])
    assert "\\u0000" in record
    assert pairs_of(write("a.jsonl", record)) == [("ab", "c")]
    assert list(read_lines(io.BytesIO(b"a\0b\n\0\n"))) == ["ab", ""]


def test_blank_lines_and_empty_sides_are_skipped_and_counted(write) -> None:
    """A blank on one side takes its pair with it, and no other pair moves."""
    report = ReadReport()
    path = write("text.tsv", "\n \na\tb\n\tb\na\t\u00a0\n\t\nc\td\n\n")
    assert pairs_of(path, report=report) == [("a", "b"), ("c", "d")]
    assert report.skipped == {"blank": 4, "empty source": 1, "empty target": 1}
    sources = [f"s{k}" if k != 9 else "" for k in range(100)]
    targets = [f"t{k}" if k != 19 else "  " for k in range(100)]
    paths = [write(n, "\n".join(lines)) for n, lines in (("s", sources), ("t", targets))]
    report = ReadReport()
    expected = [(f"s{k}", f"t{k}") for k in range(100) if k not in (9, 19)]
    assert pairs_of(paths, report=report) == expected
    assert report.skipped == {"empty source": 1, "empty target": 1}


def test_what_was_skipped_is_logged_once(write, caplog) -> None:
    with caplog.at_level(logging.INFO):
        pairs_of(write("text.tsv", "\n\na\tb\n\tb\nnone\n"), bad_lines="skip")
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().endswith(
        "text.tsv: 1 pair; skipped 4 (2 blank, 1 empty source, 1 without a tab)"
    )


BAD_LINES = [
    ("a.tsv", b"no tab here", "without a tab", "there must be 2 columns with a tab.*'no tab here'"),
    ("a.tsv", b"caf\xe9\tb", "not utf-8", "text must be UTF-8, got the byte 0xe9 at position 4"),
    ("a.jsonl", b'{"translation": {"en": "a"}}', "without the language", "'de', got 'en'"),
    ("a.jsonl", b'{"translation": ["a", "b"]}', "without the language", "got no record"),
    ("a.jsonl", b'{"translation": {"en": "a", "de": null}}', "not a string", "'de' must be.* None"),
    ("a.jsonl", b'{"translation": {"en": 7, "de": "b"}}', "not a string", "'en' must be.*got 7"),
    ("a.jsonl", b'{"translation": {"en": "a', "not a JSON object", "must be one JSON object"),
    ("a.jsonl", b"[]", "not a JSON object", "must be one JSON object"),
    ("a.jsonl", b'"text"', "not a JSON object", "must be one JSON object"),
    ("a.jsonl", b"[" * 100_000, "not a JSON object", "must be one JSON object"),
    ("a.jsonl", b'{"en": "\\ud800", "de": "b"}', "not valid Unicode", "must be valid Unicode"),
    ("a.jsonl", b'{"en": "\xe9", "de": "b"}', "not utf-8", "got the byte 0xe9 at position 9"),
]


@pytest.mark.parametrize(("name", "line", "reason", "message"), BAD_LINES)
def test_malformed_line_stops_or_is_counted(write, name, line, reason, message) -> None:
    good = TSV if name.endswith("tsv") else json_lines(PAIRS).encode()
    # The byte order mark and the blank line must not shift the count.
    path = write(name, b"\xef\xbb\xbf" + good + b"\r\n" + line + b"\n" + good)
    with pytest.raises(InputError, match=rf"{name}, line 6: .*{message}") as caught:
        pairs_of(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 200
    report = ReadReport()
    assert pairs_of(path, bad_lines="skip", report=report) == PAIRS * 2
    assert report.skipped == {"blank": 1, reason: 1}
    assert report.pairs == 2 * len(PAIRS)


def test_undecodable_line_of_a_pair_of_files_takes_its_partner_along(write) -> None:
    paths = [write("s", b"a\n\xff\nc\n"), write("t", b"x\ny\nz\n")]
    with pytest.raises(InputError, match=r"s, line 2: text must be UTF-8, got the byte 0xff"):
        pairs_of(paths)
    assert pairs_of(paths, bad_lines="skip") == [("a", "x"), ("c", "z")]


def test_other_encodings_are_read_when_named(write) -> None:
    path = write("latin.tsv", "café\tKaffee\n".encode("latin-1"))
    assert pairs_of(path, encoding="latin-1") == [("café", "Kaffee")]
    assert pairs_of(write("bom.tsv", b"\xef\xbb\xbfa\tb\n"), encoding="UTF-8-SIG") == [("a", "b")]
    with pytest.raises(InputError, match="Set `encoding`"):
        pairs_of(path)
    wide = write("wide.tsv", "a\tb\n".encode("utf-16"))
    with pytest.raises(InputError, match=r"line 1: .*0xff.*looks like UTF-16: convert it"):
        pairs_of(wide)


@pytest.mark.parametrize("encoding", ["utf-16", "rot13", "hex", "no-such"])
def test_unusable_encoding_is_refused(write, encoding: str) -> None:
    with pytest.raises(InputError, match=f"`encoding` must be one that.* got '{encoding}'"):
        pairs_of(write("text.tsv", TSV), encoding=encoding)


@pytest.mark.parametrize("bad_lines", ["error", "skip"])
def test_files_of_unequal_length_are_refused_with_both_counts(write, bad_lines: str) -> None:
    paths = [write("s", "a\n" * 1000), write("t", "a\n" * 998 + "a")]
    with pytest.raises(InputError, match=r"s and .*t must have as many lines.*got 1000 and 999"):
        pairs_of(paths, bad_lines=bad_lines)


@pytest.mark.parametrize("bad_lines", ["error", "skip"])
def test_damaged_gzip_is_named_and_not_passed_off_as_whole(write, bad_lines: str) -> None:
    packed = gzip.compress(TSV * 50, mtime=0)
    flipped = packed[:-6] + bytes([packed[-6] ^ 1]) + packed[-5:]
    garbled = packed[:12] + b"\xff" * 8 + packed[20:]
    kinds = (packed[:-20], flipped, garbled, b"plain\ttext\n", packed + b"tail")
    for number, content in enumerate(kinds):
        path = write(f"text{number}.tsv.gz", content)
        with pytest.raises(InputError, match=f"text{number}.tsv.gz .*truncated or damaged gzip"):
            pairs_of(path, bad_lines=bad_lines)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", b"a\t\n"])
def test_file_without_pairs_is_refused(write, content: bytes) -> None:
    for name in ("text.tsv", "text.tsv.gz"):
        path = write(name, gzip.compress(content, mtime=0) if name.endswith("gz") else content)
        with pytest.raises(InputError, match=f"{name} must hold at least one pair, got 0 pairs"):
            pairs_of(path)


def test_missing_paths_and_folders_are_named(tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(FileNotFoundError, match=r"none.tsv must exist"):
        pairs_of(tmp_path / "none.tsv")
    with pytest.raises(FileNotFoundError, match=r"data/none.tsv must exist"):
        pairs_of("data/none.tsv")
    with pytest.raises(InputError, match="a folder written by `save_to_disk`, got the folder"):
        pairs_of(tmp_path)
    with pytest.raises(InputError, match="must be a file, got a folder"):
        pairs_of([tmp_path, tmp_path])
    with pytest.raises(FileNotFoundError, match=r"none.txt must exist"):
        read_lines(tmp_path / "none.txt")
    monkeypatch.setattr(datasets, "load_dataset", _offline)
    with pytest.raises(FileNotFoundError, match="or a dataset on the Hub, got no/such"):
        pairs_of("no/such")


def _offline(*_: Any, **__: Any) -> None:
    raise ConnectionError("offline")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "en"}, "must be two different language codes, got 'en' and 'en'"),
        ({"source": ""}, "must be two different language codes"),
        ({"bad_lines": "ignore"}, "`bad_lines` must be error or skip, got 'ignore'"),
        ({"format": "xml"}, r"`format` must be one of tsv, .*tmx.* for one file, got 'xml'"),
        ({"target_column": 1}, "must be two different numbers from 1 up, got 1 and 1"),
        ({"data": ["a", "b", "c"]}, "`data` must be one file or a pair of files, got 3"),
        ({"data": 7}, "`data` must be a path.*got int"),
    ],
)
def test_wrong_argument_is_named(write, options: dict[str, Any], message: str) -> None:
    arguments = {"data": write("text.tsv", TSV)} | options
    with pytest.raises(InputError, match=message):
        pairs_of(**arguments)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"))), st.booleans())
def test_reading_lines_gives_one_for_each_line_in_order(lines: list[str], crlf: bool) -> None:
    content = "".join(line + ("\r\n" if crlf else "\n") for line in lines)
    # A file that starts with U+FEFF has a byte order mark.
    expected = [clean_text(line) for line in content.removeprefix("\ufeff").split("\n")[:-1]]
    assert list(read_lines(io.BytesIO(content.encode()))) == expected
    assert len(expected) == len(lines)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\n", ["a", ""]),
        (b"\xef\xbb\xbfa\r\n\r\n  \nb", ["a", "", "", "b"]),
        ("a\u2028b\x0cc\x1cd\re\n".encode(), ["a\u2028b\x0cc\x1cd\re"]),
    ],
)
def test_lines_are_the_same_from_path_gzip_and_stream(write, content, expected) -> None:
    assert list(read_lines(io.BytesIO(content))) == expected
    assert list(read_lines(write("text", content))) == expected
    assert list(read_lines(str(write("text.gz", gzip.compress(content, mtime=0))))) == expected


def test_stream_is_named_with_the_line_of_its_bad_byte() -> None:
    content = b"a\n\nb\xff\n"
    with pytest.raises(InputError, match=r"standard input, line 3: .*0xff at position 2"):
        list(read_lines(io.BytesIO(content)))
    with pytest.raises(InputError, match=r"pipe, line 3: "):
        list(read_lines(io.BytesIO(content), name="pipe"))


@given(st.binary(max_size=200), st.sampled_from(["a.tsv", "a.jsonl", "a.tsv.gz"]))
def test_no_bytes_raise_anything_but_the_error_for_bad_input(tmp_path_factory, content, name):
    path = tmp_path_factory.mktemp("fuzz") / name
    path.write_bytes(content)
    for bad_lines in ("error", "skip"):
        try:
            pairs_of(path, bad_lines=bad_lines)
        except InputError as error:
            assert "\n" not in str(error)


def test_texts_of_several_corpora_follow_one_another(tmp_path: Path) -> None:
    """Each word is a corpus; one of them is two line-aligned files."""
    for name, text in {"a.tsv": "x\ty\n", "b.en": "one\ntwo\n", "b.de": "eins\nzwei\n"}.items():
        (tmp_path / name).write_text(text)
    words = [str(tmp_path / "a.tsv"), f"{tmp_path / 'b.en'},{tmp_path / 'b.de'}"]
    found = read_texts(words, source="en", target="de")
    assert found == (["x", "one", "two"], ["y", "eins", "zwei"])


def test_an_empty_one_of_several_corpora_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("x\ty\n")
    (tmp_path / "b.tsv").write_text("\n")
    words = [str(tmp_path / "a.tsv"), str(tmp_path / "b.tsv")]
    with pytest.raises(InputError, match=r"b\.tsv must hold at least one pair"):
        read_texts(words, source="en", target="de")


def test_source_and_target_file_as_two_words_are_refused_with_the_remedy(tmp_path: Path) -> None:
    paths = [tmp_path / "a.en", tmp_path / "a.de"]
    for path in paths:
        path.write_bytes(b"\xff one\ntwo\n")
    words = list(map(str, paths))
    with pytest.raises(InputError, match=r"join them with a comma, as in \S+a\.en,\S+a\.de$"):
        check_words(words)
    check_words([",".join(words)])
    check_words(words[:1])
