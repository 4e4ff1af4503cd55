"""What comes out of message catalogs; .mo files are written by the library that reads .po files."""

import gzip
import sys
import time
from io import BytesIO
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog as BabelCatalog
from babel.messages.mofile import write_mo

from vaswani.data import load_parallel, read_pairs
from vaswani.errors import InputError
from vaswani.gettext_catalogs import package_catalogs, read_catalog
from vaswani.text_lines import ReadReport

CATALOG = r"""# A translation
#, fuzzy
msgid ""
msgstr ""
"Project-Id-Version: boats\n"
"Language: de\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#: boat.c:3
msgid "Row the _boat"
msgstr "Das _Boot rudern"

msgctxt "verb"
msgid "Row"
msgstr "Rudern"

msgctxt "noun"
msgid "Row"
msgstr "Reihe"

msgid ""
"The harbor\n"
"is \"closed\"\tnow."
msgstr ""
"Der Hafen\n"
"ist „geschlossen“.\n"

#, fuzzy
msgid "Anchor"
msgstr "Apfel"

#, fuzzy
#| msgid "old"
msgid "Mast"
msgstr "Mast hoch"

msgid "Sail"
msgstr ""

msgid "Ahoy"
msgstr "Ahoy"

msgid "%d boat"
msgid_plural "%d boats"
msgstr[0] "%d Boot"
msgstr[1] "%d Boote"

#, c-format
msgid "Lost %s at %s"
msgstr "%s verloren"

#, python-format
msgid "Lost %(what)s at %(where)s"
msgstr "Bei %(where)s ging %(what)s verloren"

#, c-format
msgid "%s: %s"
msgstr "%s - %s"

#~ msgid "Steam"
#~ msgstr "Dampf"

#~ msgid "Coal"
#~ msgstr "Kohle"
"""
PAIRS = [
    ("Row the boat", "Das Boot rudern"),
    ("Row", "Rudern"),
    ("Row", "Reihe"),
    ('The harbor is "closed" now.', "Der Hafen ist „geschlossen“."),
    ("Lost %(what)s at %(where)s", "Bei %(where)s ging %(what)s verloren"),
]
SKIPPED = {
    "header": 1,
    "fuzzy": 2,
    "untranslated": 1,
    "same as the message": 1,
    "plural": 1,
    "with other placeholders": 1,
    "without words": 1,
    "obsolete": 2,
}


def mo_bytes() -> bytes:
    catalog = BabelCatalog(locale="de")
    catalog.add("Row the _boat", "Das _Boot rudern")
    catalog.add("Row", "Rudern", context="verb")
    catalog.add("Row", "Reihe", context="noun")
    catalog.add(("%d boat", "%d boats"), ("%d Boot", "%d Boote"))
    stream = BytesIO()
    write_mo(stream, catalog)
    return stream.getvalue()


def pairs_of(path: Path, content: str | bytes, **options) -> list[tuple[str, str]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    options = {"source": "en", "target": "de"} | options
    return [pair for block in read_pairs(path, **options) for pair in zip(*block, strict=True)]


def test_entries_that_are_no_pair_are_left_out_and_counted_by_reason(tmp_path: Path) -> None:
    report = ReadReport()
    assert pairs_of(tmp_path / "boats.po", CATALOG, report=report) == PAIRS
    assert report.skipped == SKIPPED
    assert report.changed == {"without accelerator": 2, "joined to one line": 2}
    assert report.pairs == 5


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("crlf.po", CATALOG.replace("\n", "\r\n").encode()),
        ("bom.po", b"\xef\xbb\xbf" + CATALOG.encode()),
        ("packed.po.gz", gzip.compress(CATALOG.encode(), mtime=0)),
        ("cp.po", CATALOG.replace("UTF-8", "windows-1252").encode("cp1252")),
        ("unended.po", CATALOG.removesuffix("\n").encode()),
    ],
)
def test_same_pairs_come_out_of_every_form(tmp_path: Path, name: str, content: bytes) -> None:
    assert pairs_of(tmp_path / name, content) == PAIRS
    dataset = load_parallel(tmp_path / name, source="de", target="en")
    assert [(row["en"], row["de"]) for row in dataset["translation"]] == PAIRS


def test_compiled_catalog_keeps_contexts_out_of_the_text(tmp_path: Path) -> None:
    report = ReadReport()
    assert sorted(pairs_of(tmp_path / "a.mo", mo_bytes(), report=report)) == sorted(PAIRS[:3])
    assert report.skipped == {"header": 1, "plural": 1}
    path = tmp_path / "without_suffix"
    assert sorted(pairs_of(path, mo_bytes(), format="mo")) == sorted(PAIRS[:3])
    assert pairs_of(path, CATALOG, format="po") == PAIRS


@pytest.mark.parametrize(
    ("place", "header", "target"),
    [
        ("fr_FR/LC_MESSAGES/a.po", "de", "fr-FR"),  # the folder is what programs go by
        ("fr_FR/LC_MESSAGES/a.po", "de", "fr"),
        ("a.po", "fr", "fr"),
        ("de.po", "fr_CA", "fr-CA"),
        ("nl_BE.po", "", "nl"),
        ("a_b_c.po", "", "anything"),
    ],
)
def test_language_of_a_catalog(tmp_path: Path, place: str, header: str, target: str) -> None:
    content = CATALOG.replace("Language: de", f"Language: {header}")
    assert pairs_of(tmp_path / place, content, target=target) == PAIRS


def test_catalog_of_other_languages_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    with pytest.raises(InputError, match=r"a\.po, which are 'en' and 'de', got 'en' and 'fr'"):
        pairs_of(path, CATALOG, target="fr")
    with pytest.raises(InputError, match="which are 'en' and 'de', got 'fr' and 'de'"):
        pairs_of(path, CATALOG, source="fr")
    other = CATALOG.replace("Language:", 'X-Source-Language: fr_FR\\n"\n"Language:')
    assert pairs_of(path, other, source="fr") == PAIRS
    assert pairs_of(path, other, source="de", target="fr") == [pair[::-1] for pair in PAIRS]
    with pytest.raises(InputError, match="which are 'fr_FR' and 'de', got 'en' and 'de'"):
        pairs_of(path, other)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.po", b"msgid not quoted\n", r"got .*line 1"),
        ("a.po", b'msgid "a"\nmsgstr "b"\nnonsense\n', r"got .*line 3"),
        ("a.po", b'msgid "a"\nmsgstr "\xff"\n', "got"),
        ("a.po", "\ufeff".encode("utf-16") + CATALOG.encode("utf-16"), "got"),
        ("a.po", CATALOG.replace("UTF-8", "no-such").encode(), "got"),
        ("a.mo", b"", "got"),
        ("a.mo", b"no catalog at all", "got Bad magic number"),
        ("a.mo", CATALOG.encode(), "got Bad magic number"),
        ("a.mo", mo_bytes()[:-3], "got"),
        ("a.mo", mo_bytes()[:30], "got"),
        ("a.mo", mo_bytes()[:4] + b"\xff" * 24, "got"),
    ],
)
def test_damaged_catalog_is_one_line(
    tmp_path: Path, name: str, content: bytes, message: str, capsys
) -> None:
    for bad_lines in ("error", "skip"):
        with pytest.raises(
            InputError, match=rf"{name} must be a {name[1:]} catalog, {message}"
        ) as e:
            pairs_of(tmp_path / name, content, bad_lines=bad_lines)
        assert "\n" not in str(e.value)
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def install(tmp_path: Path, monkeypatch):
    """Makes a package that the standard library takes for installed."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def install(package: str, files: dict[str, bytes]) -> Path:
        info = tmp_path / f"{package}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        (info / "RECORD").write_text("".join(f"{name},,\n" for name in files))
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return tmp_path.resolve()

    return install


def test_catalogs_of_an_installed_package_are_found_by_language(install) -> None:
    names = [
        "boats/locale/de/LC_MESSAGES/boats.mo",
        "boats/locale/de/LC_MESSAGES/boats.po",
        "boats/locale/de/LC_MESSAGES/ships.mo",
        "boats/locale/de_AT/LC_MESSAGES/boats.mo",
        "boats/locale/fr_FR/LC_MESSAGES/boats.mo",
        "boats/locale/fr_FR/LC_MESSAGES/boats.json",
        "boats/po/nl.po",
        "boats/code.py",
    ]
    root = install("boats", {name: b"" for name in names})

    def found(language: str) -> list[str]:
        return [str(p.relative_to(root)) for p in package_catalogs("boats", language)]

    assert found("de") == names[1:3]
    assert found("DE-at") == names[3:4] == found("de_AT")
    assert found("fr-FR") == names[4:5] == found("fr")
    assert found("nl") == ["boats/po/nl.po"]
    with pytest.raises(InputError, match=r"got 'it'\. It has de, de_AT, fr_FR, nl\."):
        found("it")
    with pytest.raises(InputError, match="got 'de_CH'"):
        found("de_CH")
    install("empty", {"empty/code.py": b""})
    with pytest.raises(InputError, match="It has no catalogs"):
        package_catalogs("empty", "de")


@pytest.mark.parametrize("name", ["no-such-package", "../boats", ""])
def test_package_that_is_not_installed_is_named(name: str) -> None:
    with pytest.raises(InputError, match="must be an installed package, got"):
        package_catalogs(name, "de")


@pytest.mark.parametrize("unit", ["_ & ~ ", "%( ", "{{", "<b ", "&a", "% % ", "   ", "(_", "_%("])
def test_long_message_takes_no_longer_than_its_length(tmp_path: Path, unit: str) -> None:
    text = unit * 20_000
    path = tmp_path / "a.po"
    path.write_text(f'msgid "x{text}y"\nmsgstr "z{text}y"\n')
    began = time.monotonic()
    assert sum(read_catalog(path, "po").skipped.values()) <= 1
    assert time.monotonic() - began < 2
