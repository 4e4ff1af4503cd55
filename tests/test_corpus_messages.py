"""Claims about what is text in a message; the expected values are written by the stated rules."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani.corpus_messages import (
    SentencePair,
    placeholders,
    sentence_pair,
    tags,
    without_accelerators,
)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Open %s", "%s öffnen"),
        ("%s of %d", "%2$d: davon %1$s"),
        ("%s of %d", "%1$s von %2$d"),
        ("%(name)s is %(age)d", "%(age)d ist %(name)s"),
        ("%5.1f km", "%.2f km"),
        ("%lu bytes", "%u Byte"),
        ("{0} of {1}", "{1} hat {0}"),
        ("{} of {}", "{0} von {1}"),
        ("{name!r:>10} x", "x {name!r:>10}"),
        ("{{count}} left", "noch {{count}}"),
        ("Hi ${user}, $home", "$home, hallo ${user}"),
        ("%1 files in %2", "in %2: %1 Dateien"),
        ("%n files", "%n Dateien"),
        ("50 % of all", "50 Prozent aller"),
        ("100% full", "100 % voll"),
        ("100%% of %s", "100 % von %s"),
        ("costs $5", "kostet 5 $"),
    ],
)
def test_placeholders_that_agree_in_any_order_are_kept(source: str, target: str) -> None:
    assert placeholders(source) == placeholders(target)
    assert sentence_pair(source, target) == SentencePair(source, target, Counter())


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Open %s", "Öffnen"),
        ("Open", "%s öffnen"),
        ("%s and %s", "%s"),
        ("%s of %d", "%d von %s"),
        ("%(name)s", "%(nom)s x"),
        ("%(name)s x", "%(name)d x"),
        ("{0} a", "{1} a"),
        ("{name} a", "{Name} a"),
        ("{} {} a", "{} a"),
        ("${user} a", "{user} a"),
        ("%1 a", "%2 a"),
        ("$home a", "$haus a"),
    ],
)
def test_pair_whose_placeholders_differ_is_left_out(source: str, target: str) -> None:
    assert sentence_pair(source, target) == "with other placeholders"


@pytest.mark.parametrize(
    ("source", "target", "fit"),
    [
        ("A <b>bold</b> word", "Ein <b>fettes</b> Wort", True),
        ("<a href='x'>here</a><br/>", "<br><A title=y>hier</A>", True),
        ("A <b>bold</b> word", "Ein fettes Wort", False),
        ("A <b>bold</b> word", "Ein <i>fettes</i> Wort", False),
        ("<b>a</b> b", "<b>a b", False),
        ("People with the <count>", "Leute mit der <Anzahl>", True),
        ("if a < b and c > d", "wenn a < b", True),
    ],
)
def test_tags_must_agree_and_stay(source: str, target: str, fit: bool) -> None:
    expected = SentencePair(source, target, Counter()) if fit else "with other tags"
    assert sentence_pair(source, target) == expected


def test_tags_are_counted_by_name() -> None:
    assert tags('<b>x</b><b class="y">z</b> <br/> <count>') == {"<b>": 2, "</b>": 2, "<br>": 1}


@pytest.mark.parametrize(
    ("source", "target", "plain_source", "plain_target"),
    [
        ("_File", "_Datei", "File", "Datei"),
        ("&Open...", "Ö&ffnen ...", "Open...", "Öffnen ..."),
        ("~Edit", "~Bearbeiten", "Edit", "Bearbeiten"),
        ("Save _As", "Speichern _unter", "Save As", "Speichern unter"),
        ("E_xit", "B_eenden", "Exit", "Beenden"),
        ("_File", "Datei", "File", "Datei"),
        ("_File", "ファイル(_F)", "File", "ファイル"),
        ("&Save", "保存 (&S)...", "Save", "保存..."),
        ("<b>_Bold</b>", "<b>_Fett</b>", "<b>Bold</b>", "<b>Fett</b>"),
        ("_Open %s_%s", "%s_%s _öffnen", "_Open %s_%s", "%s_%s _öffnen"),  # not once
    ],
)
def test_marks_of_accelerators_go(source, target, plain_source, plain_target) -> None:
    assert without_accelerators(source, target) == (plain_source, plain_target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("the file_name here", "hier der file_name"),
        ("Edit a_b_c", "a_b_c bearbeiten"),
        ("R&D", "F&E"),
        ("B&W outline", "S/W-Umriss"),
        ("Tom & Eva", "Tom & Eva!"),
        ("a &amp; b", "c &amp; d"),
        ("about ~5 km", "etwa 5 km"),
        ("%(male_name)s lives", "%(male_name)s lebt"),
        ("{short_month} now", "jetzt {short_month}"),
        ("the name my_file", "der Name"),
        ("File", "_Datei"),
        ("about", "~ungefähr"),
        ("~/.config is read", "~/.config wird gelesen"),
    ],
)
def test_what_is_no_accelerator_stays(source: str, target: str) -> None:
    assert without_accelerators(source, target) == (source, target)


def test_several_lines_become_one_and_both_changes_are_counted() -> None:
    pair = sentence_pair("  _First line\n\n\tsecond  part\n", "_Erste Zeile\r\nzweiter Teil\n")
    assert pair == SentencePair(
        "First line second  part",
        "Erste Zeile zweiter Teil",
        Counter({"without accelerator": 2, "joined to one line": 2}),
    )


@pytest.mark.parametrize("text", ["%s: %s", "{short_month} {year}", "<b></b>", "&nbsp;", "12", "…"])
def test_message_without_words_is_left_out(text: str) -> None:
    assert sentence_pair(text, text) == "without words"


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_message_gives_a_reason_or_two_single_lines(source: str, target: str) -> None:
    pair = sentence_pair(source, target)
    if isinstance(pair, SentencePair):
        for text in (pair.source, pair.target):
            assert text == text.strip() and not set(text) & set("\n\r\t\0")
    assert isinstance(sentence_pair(source, source), SentencePair | str)


@given(st.text(st.sampled_from("ab _&~%s{}()<>1$\n"), max_size=30))
def test_placeholders_of_a_text_agree_with_themselves(text: str) -> None:
    assert sentence_pair(text, text) not in ("with other placeholders", "with other tags")
