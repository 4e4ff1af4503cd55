"""What comes out of translation memories, and that reading one cannot do harm."""

import gzip
import http.server
import threading
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani.data import load_parallel, read_pairs
from vaswani.errors import InputError
from vaswani.text_lines import ReadReport
from vaswani.tmx import units

HEADER = (
    '<header creationtool="t" creationtoolversion="1" segtype="sentence" o-tmf="t" '
    'adminlang="en" srclang="en" datatype="plaintext"/>'
)
PAIRS = [("The bridge is open.", "Die Brücke ist offen."), ("Tom & <b>Eva</b>", "Tom & Eva 😀")]


def variant(language: str, segment: str, attribute: str = "xml:lang") -> str:
    return f'<tuv {attribute}="{language}"><seg>{segment}</seg></tuv>\n'


def memory(*bodies: str, start: str = '<?xml version="1.0"?>\n') -> str:
    body = "".join(f"<tu>{body}</tu>\n" for body in bodies)
    return f'{start}<tmx version="1.4">\n{HEADER}\n<body>\n{body}</body>\n</tmx>\n'


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


GOOD = memory(*(variant("en-US", escaped(s)) + variant("de", escaped(t)) for s, t in PAIRS))


def read(path: Path, content: str | bytes, **options) -> list[tuple[str, str]]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    options = {"source": "en", "target": "de"} | options
    return [pair for block in read_pairs(path, **options) for pair in zip(*block, strict=True)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.tmx"


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "UTF-8"),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16"),
        ("utf-16-be", "utf-16"),
        ("latin-1", "ISO-8859-1"),
        ("cp1252", "windows-1252"),
    ],
)
def test_encoding_is_what_the_file_says(path: Path, encoding: str, declared: str) -> None:
    start = f'<?xml version="1.0" encoding="{declared}"?>\n'
    content = memory(variant("en", "a café"), variant("de", "x"), start=start)
    both = memory(variant("en", "a café") + variant("de", "größer"), start=start)
    assert read(path, both.encode(encoding)) == [("a café", "größer")]
    with pytest.raises(InputError, match="No unit has both; there are 'de', 'en'"):
        read(path, content.encode(encoding))


def test_same_pairs_come_out_packed_and_swapped(path: Path) -> None:
    assert read(path, GOOD) == PAIRS
    assert read(path, GOOD, source="de", target="en") == [pair[::-1] for pair in PAIRS]
    assert read(path, gzip.compress(GOOD.encode(), mtime=0)) == PAIRS
    assert read(path.with_name("renamed"), GOOD, format="tmx") == PAIRS
    rows = load_parallel(path, source="en", target="de")["translation"]
    assert [(row["en"], row["de"]) for row in rows] == PAIRS


def test_base_language_takes_any_region_and_a_region_only_itself(path: Path) -> None:
    content = memory(
        variant("en-GB", "colour") + variant("en-US", "color") + variant("DE_at", "Farbe"),
        variant("en-US", "gray") + variant("de", "grau", attribute="lang"),
    )
    report = ReadReport()
    assert read(path, content, report=report) == [("colour", "Farbe"), ("gray", "grau")]
    assert report.skipped == {"further variant of a language": 1}
    assert read(path, content, source="en-US") == [("color", "Farbe"), ("gray", "grau")]
    report = ReadReport()
    assert read(path, content, source="en-GB", report=report) == [("colour", "Farbe")]
    assert report.skipped == {"without the language": 1}
    assert read(path, content, source="en", target="en-GB") == [("color", "colour")]
    with pytest.raises(InputError, match=r"must be languages of .*'fr'.* there are 'DE_at', 'de'"):
        read(path, content, source="fr")


@pytest.mark.parametrize(
    ("segment", "text"),
    [
        ('<bpt i="1">&lt;b&gt;</bpt>bold<ept i="1">&lt;/b&gt;</ept> face', "bold face"),
        ('un<bpt i="1"/>believ<ept i="1"/>able', "unbelievable"),
        ("one<ph>&lt;br/&gt;</ph>two", "one two"),
        ("one <ph>{0}</ph> two<ph/>.", "one  two."),
        ("one<ut>\\par</ut>two", "one two"),
        ('end<it pos="end">&lt;/i&gt;</it>ing', "ending"),
        ("a <hi type='x'>marked</hi> word", "a marked word"),
        ("see<ph>fn <sub>A <hi>foot</hi> <ph/>note</sub> x</ph>.", "see."),
        ("<g id='1'>kept</g> text", "kept text"),
        ("<![CDATA[<b> & ]]>&#233;&lt;", "<b> & é<"),
        ("two\n   lines,\tone&#10;text", "two lines, one text"),
        ("\u2028in\u0085side\u2029 &#x20; twice  ", "in\u0085side\u2029   twice"),
    ],
)
def test_inline_elements_and_white_space_follow_the_rule(
    path: Path, segment: str, text: str
) -> None:
    content = memory(variant("en", segment) + variant("de", "x"))
    expected = text.strip()
    assert read(path, content) == [(expected, "x")]


def test_what_was_changed_or_left_out_is_counted(path: Path) -> None:
    report = ReadReport()
    content = memory(
        variant("en", "a<ph/>b") + variant("de", "c\nd"),
        variant("en", "<ph/>") + variant("de", "e"),
        variant("en", "f"),
        variant("en", " ") + variant("de", ""),
        "<note>nothing</note>",
    )
    assert read(path, content, report=report) == [("a b", "c d")]
    assert report.skipped == {"empty source": 1, "without the language": 2, "blank": 1}
    assert report.changed["joined to one line"] == 1
    assert report.changed["without inline codes"] == 2


@pytest.mark.parametrize("length", range(40, len(GOOD.encode()) - 1, 7))
def test_truncated_file_is_never_passed_off_as_whole(path: Path, length: int) -> None:
    with pytest.raises(InputError, match=r"memory.tmx, line \d+: must be well-formed TMX"):
        read(path, GOOD.encode()[:length])
    with pytest.raises(InputError, match=r"memory\.tmx"):
        load_parallel(path, source="en", target="de", bad_lines="skip")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "got an empty file"),
        (b"not xml", "got syntax error"),
        (b"<html></html>", "got the root element <html>"),
        (b"<tmx><body></tmx>", "got mismatched tag"),
        (b"<tmx><body>\x01</body></tmx>", "got not well-formed"),
        (b"<tmx>caf\xe9</tmx>", "got not well-formed"),
        (b"<tmx>&nothing;</tmx>", "got undefined entity"),
        (b'<!DOCTYPE tmx SYSTEM "x.dtd"><tmx>&nothing;</tmx>', "got the undeclared entity"),
        (b'<?xml version="1.0" encoding="no-such"?><tmx/>', "Convert the file to UTF-8|encoding"),
        (b'<?xml version="1.0" encoding="shift-jis"?><tmx/>', "Convert the file to UTF-8"),
        (b'<?xml version="1.0" encoding="hex"?><tmx/>', "Convert the file to UTF-8"),
    ],
)
def test_file_that_is_no_tmx_is_one_line(path: Path, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(path, content)
    assert "memory.tmx, line 1" in str(caught.value) and "\n" not in str(caught.value)


def test_declared_entities_are_refused_before_they_grow(path: Path) -> None:
    bomb = "<!DOCTYPE tmx [<!ENTITY a0 'ha'>\n"
    bomb += "".join(f"<!ENTITY a{k} '{f'&a{k - 1};' * 10}'>\n" for k in range(1, 12))
    content = memory(variant("en", "&a11;") + variant("de", "x"), start=f"{bomb}]>\n")
    began = time.monotonic()
    with pytest.raises(InputError, match="got the entity 'a0'"):
        read(path, content)
    assert time.monotonic() - began < 5


def test_nothing_is_fetched_from_anywhere(path: Path) -> None:
    """The DTD of every form is named by an address that somebody listens at."""
    asked: list[str] = []

    class Listener(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

    with http.server.HTTPServer(("127.0.0.1", 0), Listener) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_address[1]}"
        start = f'<!DOCTYPE tmx SYSTEM "{base}/tmx14.dtd">\n'
        body = [variant("en", "a") + variant("de", "b")]
        assert read(path, memory(*body, start=start)) == [("a", "b")]
        start = f'<!DOCTYPE tmx PUBLIC "-//LISA OSCAR:1998//DTD for TMX//EN" "{base}/tmx14.dtd">\n'
        assert read(path, memory(*body, start=start)) == [("a", "b")]
        for declaration in (
            f'<!ENTITY x SYSTEM "{base}/x">',
            f'<!ENTITY % x SYSTEM "{base}/x"> %x;',
        ):
            with pytest.raises(InputError, match="got the entity 'x'"):
                read(path, memory(*body, start=f"<!DOCTYPE tmx [{declaration}]>\n"))
        server.shutdown()
    assert asked == []


def test_memory_does_not_grow_with_the_file(path: Path) -> None:
    peaks = []
    for count in (2_000, 20_000):
        path.write_text(memory(*[variant("en", "a" * 50) + variant("de", "b" * 50)] * count))
        tracemalloc.start()
        assert sum(1 for _ in units(path)) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


XML_TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff")
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(XML_TEXT, XML_TEXT), min_size=1))
def test_segments_come_out_as_they_went_in(tmp_path_factory, pairs) -> None:
    path = tmp_path_factory.mktemp("tmx") / "a.tmx"
    bodies = (
        variant("en", escaped(s).replace(">", "&gt;"))
        + variant("de", escaped(t).replace(">", "&gt;"))
        for s, t in pairs
    )
    expected = [(s.strip(), t.strip()) for s, t in pairs if s.strip() and t.strip()]
    assert read(path, memory(*bodies)) == expected
