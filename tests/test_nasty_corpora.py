"""Odd files as people have them: what each must give, kind by kind; lenient and strict.

The rule of every row is in docs/corpus_formats.md. Expected pairs are written out by hand.
"""

import gzip
import lzma
import unicodedata
from pathlib import Path

import pytest
import zstandard

from vaswani.data import load_parallel
from vaswani.errors import InputError
from vaswani.text_lines import ReadReport

PAIRS = [
    ("Stop.", "Halt."),
    ("Good morning", "Guten Morgen"),
    ("The café is closed.", "Das Café ist geschlossen."),
    ("Two ships", "Zwei Schiffe"),
    ("It snows.", "Es schneit."),
]


def lines(pairs: list[tuple[str, str]], end: str = "\n") -> bytes:
    return "".join(f"{source}\t{target}{end}" for source, target in pairs).encode()


NFC = lines(PAIRS)
NBSP = [("Really\u00a0?", "Wirklich\u202f?"), ("1\u202f000", "1\u00a0000")]
QUOTES = [('He said "no', "Er sagte „nein"), ('"', '"'), ('"a', 'b"'), ('a "" b', "''")]
ENTITIES = [("Tom &amp; Eva", "Tom &amp; Eva"), ("<b>x</b> &lt;", "<b>y</b> &#39;")]
ODD_ENDS = [("a\u2028b\u2029", "c\u0085d"), ("e\x0cf", "g\x0bh"), ("i\rj", "k\x1cl\x1dm\x1en")]
LONG = [("word " * 1999 + "word", "Wort " * 1999 + "Wort")]
TMX = (
    '<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4"><header/><body>'
    + "".join(
        f'<tu><tuv xml:lang="en-US"><seg>{s}</seg></tuv>'
        f'<tuv xml:lang="de"><seg>{t}</seg></tuv></tu>'
        for s, t in PAIRS
    )
    + "</body></tmx>"
).encode()
RECORDS = [
    '{"translation": {"en": "One", "de": "Eins"}}',
    '{"translation": {"en": "No target"}}',
    '{"translation": {"en": "Nothing", "de": null}}',
    '{"translation": {"en": 5, "de": ["x"]}}',
    '{"translation": {"en": "Broken", "de": "Kap',
    "[]",
    '"text"',
    '{"en": "Flat", "de": "Flach"}',
    "",
    '{"translation": {"en": "End", "de": "Ende"}, "id": 4}',
]

# name: files, the pairs of a lenient reader, its skipped lines by reason, the strict one's message.
FILES: dict[str, tuple[list[bytes], list[tuple[str, str]], dict[str, int], str]] = {
    "nfc.tsv": ([NFC], PAIRS, {}, ""),
    "attributed.txt": ([lines(PAIRS, "\tCC-BY by somebody (No. 3)\n")], PAIRS, {}, ""),
    "crlf.tsv": ([lines(PAIRS, "\r\n")], PAIRS, {}, ""),
    "mixed_ends.tsv": ([lines(PAIRS[:2], "\r\n") + lines(PAIRS[2:])], PAIRS, {}, ""),
    "bom.tsv": ([b"\xef\xbb\xbf" + NFC], PAIRS, {}, ""),
    "no_final_newline.tsv": ([NFC.rstrip(b"\n")], PAIRS, {}, ""),
    "one_bad_byte.tsv": (
        [NFC.replace("é".encode(), b"\xe9", 1)],
        [*PAIRS[:2], *PAIRS[3:]],
        {"not utf-8": 1},
        r"line 3: text must be UTF-8, got the byte 0xe9 .* Set `encoding`",
    ),
    "blank_lines.tsv": (
        [b"\n \r\n" + lines(PAIRS[:2]) + b"\n" + lines(PAIRS[2:]) + b"\n\n"],
        PAIRS,
        {"blank": 5},
        "",
    ),
    "missing_tab.tsv": (
        [lines(PAIRS[:2]) + b"no tab\n" + lines(PAIRS[2:])],
        PAIRS,
        {"without a tab": 1},
        r"line 3: there must be 2 columns",
    ),
    "extra_tabs.tsv": (
        [lines(PAIRS[:2]) + b"One\tEins\tx\t\ty\n\tleer\nempty\t\n" + lines(PAIRS[2:])],
        [*PAIRS[:2], ("One", "Eins"), *PAIRS[2:]],
        {"empty source": 1, "empty target": 1},
        "",
    ),
    "quotes.tsv": ([lines(QUOTES)], QUOTES, {}, ""),
    "no_break_spaces.tsv": (
        [lines([*NBSP, ("\u00a0a ", "\u202fb\u00a0")])],
        [*NBSP, ("a", "b")],
        {},
        "",
    ),
    "nul.tsv": ([NFC.replace(b"Stop", b"St\0op\0")], PAIRS, {}, ""),
    "nfd.tsv": (
        [unicodedata.normalize("NFD", NFC.decode()).encode() + "\u0301a\tb\u0323\u0307\n".encode()],
        [
            *((s, t) for s, t in PAIRS[:2]),
            ("The cafe\u0301 is closed.", "Das Cafe\u0301 ist geschlossen."),
            *PAIRS[3:],
            ("\u0301a", "b\u0323\u0307"),
        ],
        {},
        "",
    ),
    "long_line.tsv": ([lines(PAIRS + LONG)], PAIRS + LONG, {}, ""),
    "entities.tsv": ([lines(ENTITIES)], ENTITIES, {}, ""),
    "odd_ends.tsv": ([lines(ODD_ENDS)], [("a\u2028b", "c\u0085d"), *ODD_ENDS[1:]], {}, ""),
    "good.jsonl": (
        ["".join(f'{{"translation": {{"en": "{s}", "de": "{t}"}}}}\n' for s, t in PAIRS).encode()],
        PAIRS,
        {},
        "",
    ),
    "bad_records.jsonl": (
        ["\n".join(RECORDS).encode()],
        [("One", "Eins"), ("Flat", "Flach"), ("End", "Ende")],
        {"without the language": 1, "not a string": 2, "not a JSON object": 3, "blank": 1},
        "line 2: `translation` must have the keys 'en' and 'de', got 'en'",
    ),
    "moses": (
        ["".join(side + "\n" for side in sides).encode() for sides in zip(*PAIRS, strict=True)],
        PAIRS,
        {},
        "",
    ),
    "packed.tsv.gz": ([gzip.compress(NFC, mtime=0)], PAIRS, {}, ""),
    "packed.tsv.xz": ([lzma.compress(NFC)], PAIRS, {}, ""),
    "packed.tsv.zst": ([zstandard.compress(NFC)], PAIRS, {}, ""),
    "good.tmx": ([TMX], PAIRS, {}, ""),
}


def data_of(folder: Path, name: str, contents: list[bytes]) -> Path | list[Path]:
    paths = [folder / (name if len(contents) == 1 else f"{name}.{k}") for k in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths[0] if len(paths) == 1 else paths


def read(data, report: ReadReport | None = None, **options) -> list[tuple[str, str]]:
    dataset = load_parallel(data, source="en", target="de", report=report, **options)
    return [(row["en"], row["de"]) for row in dataset["translation"]]


@pytest.mark.parametrize("name", FILES)
def test_file_gives_its_pairs_and_counts_the_rest(tmp_path: Path, name: str) -> None:
    contents, pairs, skipped, message = FILES[name]
    data = data_of(tmp_path, name, contents)
    report = ReadReport()
    assert read(data, report, bad_lines="skip") == pairs
    assert report.skipped == skipped
    if message:
        with pytest.raises(InputError, match=f"{name}, {message}") as caught:
            read(data)
        assert "\n" not in str(caught.value)
    else:
        assert read(data) == pairs


REFUSED: dict[str, tuple[list[bytes], str]] = {
    "latin1.tsv": ([NFC.decode().encode("latin-1")], r"line 3: text must be UTF-8, got the byte"),
    "empty.tsv": ([b""], "must hold at least one pair, got 0 pairs"),
    "empty.jsonl": ([b""], "must hold at least one pair, got 0 pairs"),
    "unequal": ([b"a\nb\nc\n", b"x\ny"], "must have as many lines as each other, got 3 and 2"),
    "cut.tsv.gz": ([gzip.compress(NFC, mtime=0)[:-5]], "truncated or damaged gzip"),
    "cut.tsv.xz": ([lzma.compress(NFC)[:-5]], "truncated or damaged xz"),
    "cut.tsv.zst": ([zstandard.compress(NFC)[:-5]], "truncated or damaged zstd"),
    "cut.tmx": ([TMX[:-60]], "line 1: must be well-formed TMX, got"),
}


@pytest.mark.parametrize("bad_lines", ["error", "skip"])
@pytest.mark.parametrize("name", REFUSED)
def test_file_that_is_not_whole_is_refused_by_name(
    tmp_path: Path, name: str, bad_lines: str
) -> None:
    contents, message = REFUSED[name]
    data = data_of(tmp_path, name, contents)
    if name == "latin1.tsv":
        assert read(data, encoding="latin-1") == PAIRS
        if bad_lines == "skip":
            return
    with pytest.raises(InputError, match=message) as caught:
        read(data, bad_lines=bad_lines)
    assert name in str(caught.value) and "\n" not in str(caught.value)


def test_thousand_lines_and_one_less_are_refused_and_blanks_take_one_pair_each(
    tmp_path: Path,
) -> None:
    sources = [f"line {k}" for k in range(1, 1001)]
    targets = [f"Zeile {k}" for k in range(1, 1001)]
    sources[9], targets[19] = "", "\u00a0"
    whole = ["\n".join(side).encode() for side in (sources, targets)]
    with pytest.raises(InputError, match="got 1000 and 999"):
        read(data_of(tmp_path, "short", [whole[0], whole[1].rpartition(b"\n")[0]]))
    report = ReadReport()
    pairs = read(data_of(tmp_path, "blank", whole), report)
    assert pairs == [(f"line {k}", f"Zeile {k}") for k in range(1, 1001) if k not in (10, 20)]
    assert report.skipped == {"empty source": 1, "empty target": 1}
