"""No bytes make a reader raise anything but the error for bad input, hang, or shift a line.

Each format gets random bytes and damaged copies of good files: 300 by default, 10,000 when slow.
Lines are compared with readers written here, as naively as their rules can be put.
"""

import gzip
import json
import lzma
import random
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
import zstandard
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import write_po
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vaswani.data import read_pairs
from vaswani.errors import InputError
from vaswani.text_lines import ReadReport

Pair = tuple[str, str]
PAIRS = [
    ("The _mast\u2028is %s.", "Der _Mast\u0085ist %s."),
    ("a\rb\x1c", "ü\x0b\x0c ß"),
    ("c", "😀"),
]
TSV = "".join(f"{s}\t{t}\r\n" for s, t in PAIRS).encode() + b"\n  \nonly\t\n\tone\na\tb\tc\n"
JSON = b"".join(
    json.dumps(record, ensure_ascii=False).encode() + b"\n"
    for s, t in PAIRS
    for record in ({"translation": {"en": s, "de": t}}, {"en": s, "de": t, "id": 3}, {"en": [s]})
)
TMX = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">'
    '<header srclang="en"/><body>\n'
    + "".join(
        f'<tu><note>n</note><tuv xml:lang="en-US"><seg>{s}<ph>&lt;</ph>x</seg></tuv>'
        f'<tuv lang="de"><seg><hi>{t}</hi>&#233;<bpt i="1"><sub>b</sub></bpt></seg></tuv></tu>\n'
        for s, t in (("a", "b"), ("c &amp; d", "e"), ("f\ng", "<![CDATA[h]]>"))
    )
    + "</body></tmx>\n"
).encode()


def _catalog(write: Callable[[BytesIO, Catalog], None]) -> bytes:
    catalog = Catalog(locale="de")
    catalog.add("_Row the %s\n", "%s _rudern\n", flags=["c-format"])
    catalog.add("Sail", "Segeln", context="verb")
    catalog.add("Mast", "Mast hoch", flags=["fuzzy"])
    catalog.add(("%d boat", "%d boats"), ("%d Boot", "%d Boote"))
    catalog.add("A <b>tag</b> {name}", "{name} <b>x</b>")
    stream = BytesIO()
    write(stream, catalog)
    return stream.getvalue()


GOOD = {
    "a.tsv": TSV,
    "a.jsonl": JSON,
    "a.tmx": TMX,
    "a.po": _catalog(write_po) + b'\n#~ msgid "Steam"\n#~ msgstr "Dampf"\n',
    "a.mo": _catalog(write_mo),
    "a.tsv.gz": gzip.compress(TSV, mtime=0),
    "a.tsv.xz": lzma.compress(TSV),
    "a.tsv.zst": zstandard.ZstdCompressor(write_checksum=True).compress(TSV),
}
TOKENS = [
    b"\t",
    b"\n",
    b"\r",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    "\u2028\x85\ufeff".encode(),
    b'"',
    b"\\",
]
TOKENS += [b"<", b"&", b"<seg>", b"</tu>", b"<!ENTITY a 'b'>", b"&a;", b"[", b"{", b"null", b"NaN"]
TOKENS += [b"msgid", b"msgstr[1] ", b"#, fuzzy\n", b"\xff\xff\xff\xff", b"\\ud800", b"1" * 5000]
TOKENS += [b"Language: x\\n", b"charset=utf-16\\n", b"Plural-Forms: nplurals=9\\n", b"%(", b"\x04"]

PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0")


def damaged(content: bytes, seed: int) -> bytes:
    """The bytes after one to four accidents."""
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 4)):
        start, end = sorted(chance.choices(range(len(content) + 1), k=2))
        piece = chance.choice([*TOKENS, chance.randbytes(chance.randint(1, 4))])
        content = chance.choice(
            [
                content[:start] + piece + content[start:],
                content[:start] + piece + content[start + len(piece) :],
                content[:start] + content[end:],
                content[:end] + content[start:],
                content[:end],
            ]
        )
    return content


def bytes_for(good: bytes) -> st.SearchStrategy[bytes]:
    """Random bytes, or a damaged copy of good ones; no plain text that is taken for packed."""
    chaos = st.binary(max_size=200) | st.lists(st.sampled_from(TOKENS)).map(b"".join)
    # A seed is drawn much faster than the accidents themselves.
    accidents = st.integers(0, 2**64).map(lambda seed: damaged(good, seed))
    return (chaos | accidents).filter(lambda c: not c.startswith(PACKED) or good.startswith(PACKED))


def read(data: Path | list[Path], bad_lines: str) -> tuple[list[Pair], ReadReport]:
    report = ReadReport()
    blocks = read_pairs(
        data,
        source="en",
        target="de",
        bad_lines=bad_lines,
        report=report,  # type: ignore[arg-type]
    )
    return [pair for block in blocks for pair in zip(*block, strict=True)], report


def naive_lines(content: bytes) -> list[str | None]:
    """Lines without line ends; None for one that is not UTF-8."""
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    texts: list[str | None] = []
    for line in lines:
        try:
            texts.append(line.decode("utf-8").replace("\0", ""))
        except UnicodeDecodeError:
            texts.append(None)
    return texts


def naive_tsv_line(line: str) -> list[str] | None:
    fields = line.split("\t")
    return fields[:2] if len(fields) > 1 else None


def naive_json_line(line: str) -> list[str] | None:
    try:
        record = json.loads(line)
        record = record.get("translation", record)
        values = [record["en"], record["de"]]
        "".join(values).encode("utf-8")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return [value.replace("\0", "") for value in values]


def naive(content: bytes, values_of: Callable) -> tuple[list[Pair], set[int]]:
    """The pairs of a file, and the numbers of its malformed lines."""
    pairs, bad = [], set()
    for number, line in enumerate(naive_lines(content), 1):
        if line is not None and not line.strip():
            continue
        values = None if line is None else values_of(line)
        if values is None:
            bad.add(number)
        elif values[0].strip() and values[1].strip():
            pairs.append((values[0].strip(), values[1].strip()))
    return pairs, bad


def check_lines(path: Path, content: bytes, values_of: Callable) -> None:
    path.write_bytes(content)
    pairs, bad = naive(content, values_of)
    found, report = read(path, "skip")
    assert found == pairs
    assert report.pairs + sum(report.skipped.values()) == len(naive_lines(content))
    if bad:
        with pytest.raises(InputError) as caught:
            read(path, "error")
        assert int(re.search(r", line (\d+): ", str(caught.value))[1]) in bad  # type: ignore[index]
    else:
        assert read(path, "error")[0] == pairs


def check_no_other_error(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for bad_lines in ("error", "skip"):
        try:
            pairs, _ = read(path, bad_lines)
        except InputError as error:
            assert "\n" not in str(error) and path.name in str(error)
        else:
            for pair in pairs:
                assert all(pair) and not set("".join(pair)) & set("\n\t\r\0")
                assert [text.strip() for text in pair] == list(pair)


def check_packed(path: Path, content: bytes) -> None:
    """Damage is found by checksums: what does come out is whole parts of what was packed."""
    path.write_bytes(content)
    try:
        pairs, _ = read(path, "skip")
    except InputError as error:
        assert "truncated or damaged" in str(error)
    else:
        whole = naive(TSV, naive_tsv_line)[0]
        assert pairs == whole * (len(pairs) // len(whole))


CHECKS: dict[str, Callable[[Path, bytes], None]] = {
    "a.tsv": lambda path, content: check_lines(path, content, naive_tsv_line),
    "a.jsonl": lambda path, content: check_lines(path, content, naive_json_line),
    "a.tmx": check_no_other_error,
    "a.po": check_no_other_error,
    "a.mo": check_no_other_error,
    "a.tsv.gz": check_packed,
    "a.tsv.xz": check_packed,
    "a.tsv.zst": check_packed,
}
COUNTS = [300, pytest.param(10_000, marks=pytest.mark.slow)]
QUIET = {"deadline": 20_000, "suppress_health_check": list(HealthCheck)}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", GOOD)
def test_any_bytes_give_their_pairs_or_one_line_of_error(
    tmp_path: Path, name: str, count: int
) -> None:
    @settings(max_examples=count, **QUIET)
    @given(bytes_for(GOOD[name]))
    def check(content: bytes) -> None:
        CHECKS[name](tmp_path / name, content)

    check()
    CHECKS[name](tmp_path / name, GOOD[name])


@pytest.mark.parametrize("count", COUNTS)
def test_line_aligned_files_stay_aligned_or_are_refused(tmp_path: Path, count: int) -> None:
    paths = [tmp_path / "a.en", tmp_path / "a.de"]
    sides = bytes_for("".join(s + "\r\n" for s, _ in PAIRS * 3).encode())

    @settings(max_examples=count, **QUIET)
    @given(sides, sides, st.booleans())
    def check(source: bytes, target: bytes, same: bool) -> None:
        if same:  # files of equal length, which random ones seldom are
            count = min(len(naive_lines(source)), len(naive_lines(target)))
            bom = b"\xef\xbb\xbf"
            source, target = (
                b"".join(b + b"\n" for b in side.removeprefix(bom).split(b"\n")[:count])
                for side in (source, target)
            )
        for path, content in zip(paths, (source, target), strict=True):
            path.write_bytes(content)
        lines = [naive_lines(content) for content in (source, target)]
        if len(lines[0]) != len(lines[1]):
            with pytest.raises(InputError, match=f"got {len(lines[0])} and {len(lines[1])}"):
                read(paths, "skip")
            return
        expected = [
            (s.strip(), t.strip())
            for s, t in zip(*lines, strict=True)
            if s is not None and t is not None and s.strip() and t.strip()
        ]
        assert read(paths, "skip")[0] == expected
        if None in lines[0] + lines[1]:
            with pytest.raises(InputError, match="text must be UTF-8"):
                read(paths, "error")

    check()
