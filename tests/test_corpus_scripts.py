"""Scripts of languages and of characters."""

import unicodedata

import pytest

from vaswani.corpus_scripts import script_letters, script_table, scripts_of


@pytest.mark.parametrize(
    ("language", "scripts"),
    [
        ("de", {"Latn"}),
        ("pt-BR", {"Latn"}),
        ("deu", {"Latn"}),
        ("ru", {"Cyrl"}),
        ("sr", {"Cyrl"}),
        ("sr-Latn", {"Latn"}),
        ("sr@latin", {"Latn"}),
        ("de_DE.UTF-8", {"Latn"}),
        ("sr_Latn_RS", {"Latn"}),
        ("ja", {"Hani", "Hira", "Kana"}),
        ("ko", {"Hang", "Hani"}),
        ("zh", {"Hani", "Bopo"}),
        ("zh_TW", {"Hani", "Bopo"}),
        ("hi", {"Deva"}),
        ("xx", set()),
        ("", set()),
    ],
)
def test_language_has_its_scripts(language: str, scripts: set[str]) -> None:
    assert scripts_of(language) == scripts


def test_script_of_a_character_agrees_with_its_name() -> None:
    codes, table = script_table()
    names = {"Latn": "LATIN", "Grek": "GREEK", "Cyrl": "CYRILLIC", "Deva": "DEVANAGARI"}
    for code, name in names.items():
        found = [
            chr(point)
            for point in range(0x250, 0x1000)
            if codes[table[point]] == code and unicodedata.category(chr(point)) == "Ll"
        ]
        assert all(unicodedata.name(char).startswith(name) for char in found)
    assert table.shape == (0x110000,)


def test_shared_letters_belong_to_no_script() -> None:
    own, other = script_letters(frozenset({"Kana"}))
    assert [int(own[ord(char)]) for char in "カーa1"] == [1, 0, 0, 0]
    assert [int(other[ord(char)]) for char in "カーa1"] == [0, 0, 1, 0]
