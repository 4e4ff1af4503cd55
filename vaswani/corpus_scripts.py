"""Scripts of characters, and the scripts that a language is written in.

    script_table       the script of every code point, as a number of `SCRIPTS`
    scripts_of         the codes of the scripts of a language
    script_letters     which letters are of these scripts, and which of others

Scripts are those of Unicode by their ISO 15924 codes, from fontTools; the script of a language is
the likely one of Unicode's CLDR, from Babel.
"""

from functools import lru_cache

import numpy as np

from vaswani.corpus_languages import language_tag
from vaswani.text_folding import CharacterTable, letter_table

# What the codes of several scripts at once stand for.
_SEVERAL = {
    "Hans": {"Hani", "Bopo"},
    "Hant": {"Hani", "Bopo"},
    "Jpan": {"Hani", "Hira", "Kana"},
    "Hrkt": {"Hira", "Kana"},
    "Kore": {"Hang", "Hani"},
}
# Scripts as locales name them, after an @.
_MODIFIERS = {"latin": "Latn", "cyrillic": "Cyrl", "devanagari": "Deva", "arabic": "Arab"}
# Letters that several scripts share, such as the Japanese mark of a long vowel.
SHARED = ("Zyyy", "Zinh", "Zzzz")


@lru_cache(maxsize=1)
def script_table() -> tuple[list[str], CharacterTable]:
    """Codes of scripts, and the place in that list of the script of every code point."""
    from fontTools.unicodedata import Scripts

    codes = sorted(set(Scripts.VALUES))
    numbers = {code: number for number, code in enumerate(codes)}
    values = np.array([numbers[code] for code in Scripts.VALUES], dtype=np.uint8)
    table = np.repeat(values, np.diff([*Scripts.RANGES, 0x110000]))
    return codes, table


def scripts_of(language: str) -> frozenset[str]:
    """The ISO 15924 codes of the scripts that a language is written in; empty if none is known.

    Args:
        language: such as `de`, `zh_TW`, `pt-BR`, `deu`, or `sr-Latn` and `sr@latin`, which name a
            script themselves.
    """
    from babel.core import get_global

    base, *parts = language_tag(language).split("-")
    named = [_MODIFIERS.get(part, part).title() for part in parts]
    named = [code for code in named if len(code) == 4 and code.isalpha()]
    base = get_global("language_aliases").get(base, base).split("_")[0]
    likely = get_global("likely_subtags")
    region = "_".join([base, *(part.upper() for part in parts[:1])])
    full = likely.get(region) or likely.get(base)
    if named:
        code = named[0]
    elif full:
        code = full.split("_")[1]
    else:
        return frozenset()
    return frozenset(_SEVERAL.get(code, {code}))


@lru_cache(maxsize=8)
def script_letters(scripts: frozenset[str]) -> tuple[CharacterTable, CharacterTable]:
    """1 for letters of these scripts, and 1 for letters of others, not counting shared ones."""
    codes, table = script_table()
    letters = letter_table()
    own = np.isin(table, [codes.index(code) for code in scripts if code in codes])
    shared = np.isin(table, [codes.index(code) for code in SHARED])
    return letters * own, letters * ~(own | shared)
