"""The folded form of texts, what is counted of them, and their hashes."""

import hashlib
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani.text_folding import (
    TextBlock,
    fold_texts,
    hash_texts,
    letter_table,
    space_table,
    width_table,
    word_character_table,
)

ANY_TEXT = st.text(st.characters(), max_size=20)  # half surrogate pairs too
ODD_TEXT = st.text(
    st.sampled_from("aÉe\u0301ß-, \t\0\n12٣Ⅷ½ﬁ漢ｱ\u200d\ufe0f\U0010ffff\ud800!😀"), max_size=12
)
TEXTS = st.lists(ANY_TEXT | ODD_TEXT, max_size=8)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Page 12: see  Naïve-Bayes!", "page0seenaïvebayes"),
        ("page 7 see nai\u0308ve bayes", "page0seenaïvebayes"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("1,000.50 km", "0km"),
        ("٣٤ كم", "0كم"),
        ("a1b22", "a0b0"),
        ("e-mail", "email"),
        ("ﬁ ｱ", "fiア"),
        ("soft\u00adhyphen\u200d", "softhyphen"),
        ("love \u2764\ufe0f", "love"),
        ("a-\u0301", "\u00e1"),
        ("क्या", "क्या"),
        ("?! ...", "?!..."),
        ("", ""),
    ],
)
def test_folded_form_is_as_stated(text: str, folded: str) -> None:
    assert fold_texts([text]) == [folded]


def test_folding_keeps_accents_and_letters_of_other_scripts() -> None:
    assert len(set(fold_texts(["schon", "schön", "скоро", "漢字", "कल", "काल"]))) == 6


@settings(deadline=None)
@given(TEXTS)
def test_folding_twice_is_folding_once(texts: list[str]) -> None:
    folded = fold_texts(texts)
    assert fold_texts(folded) == folded


@settings(deadline=None)
@given(TEXTS)
def test_folding_does_not_depend_on_neighbors(texts: list[str]) -> None:
    assert fold_texts(texts) == [fold_texts([text])[0] for text in texts]


@settings(deadline=None)
@given(TEXTS)
def test_folding_does_not_see_case_form_or_white_space(texts: list[str]) -> None:
    folded = fold_texts(texts)
    assert fold_texts([unicodedata.normalize("NFD", text) for text in texts]) == folded
    assert fold_texts([f" {text}\t\n" for text in texts]) == folded


@settings(deadline=None)
@given(TEXTS)
def test_counts_are_those_of_python(texts: list[str]) -> None:
    block = TextBlock(texts)
    assert block.lengths.tolist() == [len(text) for text in texts]
    words = [len(text.split()) for text in texts]
    assert block.count_words().tolist() == words
    assert block.count(space_table()).tolist() == [sum(map(str.isspace, text)) for text in texts]
    for table, kinds in ((letter_table(), "L"), (word_character_table(), "LM")):
        counts = [sum(unicodedata.category(char)[0] in kinds for char in text) for text in texts]
        assert block.count(table).tolist() == counts


def test_wide_characters_take_two_columns() -> None:
    assert TextBlock(["abc", "漢字", "カｶ", "\U000e0100"]).count(width_table()).tolist() == [
        3,
        4,
        3,
        1,
    ]


def test_hash_is_blake2b_of_the_bytes() -> None:
    digest = hashlib.blake2b("Grüße".encode(), digest_size=8).digest()
    assert hash_texts(["Grüße"]).tolist() == [int.from_bytes(digest, "little")]
    assert len(set(hash_texts(["a", "b", "", "\ud800"]).tolist())) == 4
