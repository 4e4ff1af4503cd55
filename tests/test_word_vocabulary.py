"""Word-level vocabularies: what is a word, which ones have an entry, what decoding gives back."""

import random
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from vaswani.errors import InputError
from vaswani.tokenization_vaswani import VaswaniTokenizer
from vaswani.vocabulary import SPECIAL_TOKENS, train_tokenizer

CONTROL = list(SPECIAL_TOKENS)
KNOWN = ["the", "cat", "l'été", "peut-être", "don't", "12", ".", ",", "?", "(", ")", '"', "-", "'"]


@pytest.fixture(scope="module")
def tokenizer() -> VaswaniTokenizer:
    return train_tokenizer([" ".join(KNOWN)] * 2, model="word", model_max_length=20)


def train(*texts: str, **settings: int) -> VaswaniTokenizer:
    return train_tokenizer(texts, model="word", **settings)


def words_of(text: str) -> list[str]:
    return train(text, min_frequency=1).tokenize(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Go on, TOM!", ["go", "on", ",", "tom", "!"]),
        ("Don't (ever).", ["don't", "(", "ever", ")", "."]),
        ("L\u2019été, peut-être\u202f?", ["l\u2019été", ",", "peut-être", "?"]),
        ("'quoted' - and...", ["'", "quoted", "'", "-", "and", ".", ".", "."]),
        ("3.14 €", ["3", ".", "14", "€"]),
        ("a\u00a0b\tc\nd", ["a", "b", "c", "d"]),
        ("Привет, мир", ["привет", ",", "мир"]),
    ],
)
def test_text_is_cut_into_lower_case_words_and_single_marks(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_words_seen_once_become_unknown(caplog: pytest.LogCaptureFixture) -> None:
    """The seed write-ups: seen fewer than twice."""
    tokenizer = train("one two", "two three three")
    assert "1 of 3 words have no entry" in caplog.text and "20.0 % of the running" in caplog.text
    assert set(tokenizer.get_vocab()) == {*CONTROL, "two", "three"}
    assert tokenizer("one two")["input_ids"] == [3, tokenizer.get_vocab()["two"], 2]


def test_ids_are_control_tokens_then_words_by_frequency_then_code_point() -> None:
    tokenizer = train("b b b a a c c d d d")
    assert tokenizer.convert_ids_to_tokens(list(range(8))) == [*CONTROL, "b", "d", "a", "c"]
    assert len(tokenizer) == 8


def test_most_frequent_words_are_kept_where_there_is_no_room_for_all() -> None:
    tokenizer = train("b b b a a c c d d d", vocab_size=6)
    assert tokenizer.convert_ids_to_tokens([4, 5]) == ["b", "d"] and len(tokenizer) == 6


@settings(max_examples=300, deadline=None)
@given(text=st.text() | st.lists(st.sampled_from([*CONTROL, " ", *KNOWN])).map("".join))
@example(text="".join(CONTROL))
@example(text=" ".join(CONTROL))
def test_text_reaches_no_control_id_but_that_of_unknown_words(
    tokenizer: VaswaniTokenizer, text: str
) -> None:
    text = text.encode("utf-8", "replace").decode("utf-8")
    ids = tokenizer(text, verbose=False)["input_ids"]
    assert ids[-1] == 2 and not {0, 1, 2} & set(ids[:-1])


def test_spelt_control_tokens_of_the_training_text_get_no_entry() -> None:
    tokenizer = train("<pad> <s> </s> <unk> x " * 3)
    assert set(tokenizer.get_vocab()) == {*CONTROL, "<", ">", "/", "pad", "s", "unk", "x"}
    assert not {0, 1, 2, 3} & set(tokenizer(" ".join(CONTROL))["input_ids"][:-1])


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.characters(exclude_categories=("Cs", "Cn"))))
@example(text="L'E\u0301TE\u0301")
def test_composed_and_decomposed_text_have_the_same_ids(
    tokenizer: VaswaniTokenizer, text: str
) -> None:
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    encode = tokenizer(composed, verbose=False)["input_ids"]
    assert encode == tokenizer(decomposed, verbose=False)["input_ids"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The  CAT , don't !", "the cat, don't <unk>"),
        ("( the ) cat .", "(the) cat."),
        ("The dog.", "the <unk>."),
        ("", ""),
    ],
)
def test_decoding_joins_words_and_shows_unknown_ones(
    tokenizer: VaswaniTokenizer, text: str, found: str
) -> None:
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode([1, *ids, 0], skip_special_tokens=True) == found


@settings(max_examples=200, deadline=None)
@given(words=st.lists(st.sampled_from(KNOWN), max_size=12))
def test_decoded_text_has_the_same_ids_again(tokenizer: VaswaniTokenizer, words: list[str]) -> None:
    """Decoding loses spaces and case, but no word."""
    ids = tokenizer.convert_tokens_to_ids(words)
    text = tokenizer.decode(ids, skip_special_tokens=True)
    assert tokenizer(text, verbose=False)["input_ids"] == [*ids, 2]


def test_saving_and_loading_keeps_ids_and_bytes(
    tokenizer: VaswaniTokenizer, tmp_path: Path
) -> None:
    tokenizer.save_pretrained(tmp_path / "first")
    again = AutoTokenizer.from_pretrained(tmp_path / "first")
    again.save_pretrained(tmp_path / "second")
    rng = random.Random(0)
    texts = [" ".join(rng.choices([*KNOWN, "Dog", "</s>"], k=8)) for _ in range(200)]
    assert again(texts)["input_ids"] == tokenizer(texts)["input_ids"]
    assert again.decode([4, 3, 5], skip_special_tokens=True).count("<unk>") == 1
    for file in (tmp_path / "first").iterdir():
        assert (tmp_path / "second" / file.name).read_bytes() == file.read_bytes()


def test_same_texts_give_the_same_vocabulary_in_any_order() -> None:
    texts = ["b a c", "c a d", "d b e", "e f f"]
    backend = train(*texts, min_frequency=1).backend_tokenizer.to_str()
    assert train(*reversed(texts), min_frequency=1).backend_tokenizer.to_str() == backend


def test_training_anew_gives_words_without_bytes(tokenizer: VaswaniTokenizer) -> None:
    anew = tokenizer.train_new_from_iterator([["Ein Hund, ein Hund"]], vocab_size=50)
    assert type(anew) is VaswaniTokenizer
    assert set(anew.get_vocab()) == {*CONTROL, "ein", "hund", ","}
    assert anew.convert_tokens_to_ids(CONTROL) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("texts", "settings", "message"),
    [
        (["a b c"], {}, r"`min_frequency` must let some words through, got 2 .* seen 1 time"),
        (["a a"], {"limit_alphabet": 9}, r"`limit_alphabet` must be left out with .* got 9"),
        (["a a"], {"vocab_size": 4}, r"`vocab_size` must be more than 4 \(4 control .*, got 4"),
        ([" "], {}, r"`texts` must hold text to train on"),
        (["a\ud800"], {}, r"`texts` must be valid Unicode"),
    ],
)
def test_impossible_word_vocabularies_are_refused(
    texts: list[str], settings: dict, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        train(*texts, **settings)
