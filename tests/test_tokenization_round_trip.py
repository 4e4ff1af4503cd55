"""Decoding gives the normal form back: every kind of text, every lossless tokenizer, each side."""

import time
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trained_tokenizers import ANY_TEXT, TEXTS, WORDS, hostile_texts, trained, trained_pair

from vaswani.tokenization_vaswani import VaswaniTokenizer
from vaswani.vocabulary import train_tokenizer

LOSSLESS = ["bpe", "unigram"]


def round_trip(tokenizer: VaswaniTokenizer, text: str) -> str:
    ids = tokenizer(text, verbose=False)["input_ids"]
    return tokenizer.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("model", LOSSLESS)
@settings(max_examples=300, deadline=None)
@given(text=TEXTS)
@example(text="")
@example(text=" ")
@example(text="   leading, trailing   ")
@example(text="two  spaces, a tab\tand a\nnewline\r\n")
@example(text="a word , a space before the comma")
@example(text="\u0301starts with a mark")
@example(text=" \u0301starts with a space and a mark")
@example(text="\u200fright to left\u200f")
@example(text="nul\x00\x00 \x00")
@example(text="\u3053\u308c\u306f\u732b\u3067\u3059")
@example(text="</s><pad> <0x41><0xC3><0xA9> <unk>")
def test_every_text_comes_back_in_nfc(model: str, text: str) -> None:
    """Trial 37."""
    assert round_trip(trained(model), text) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("model", LOSSLESS)
@settings(max_examples=150, deadline=None)
@given(text=TEXTS)
@example(text="\u00b4 begins with a space in this form only")
@example(text="\uff1c/s\uff1e \ufb01 \uff11\uff12 \ufe30 \u00a0")
def test_every_text_comes_back_in_nfkc_where_that_was_chosen(model: str, text: str) -> None:
    assert round_trip(trained(model, "nfkc"), text) == unicodedata.normalize("NFKC", text)


@pytest.mark.parametrize("model", LOSSLESS)
@settings(max_examples=150, deadline=None)
@given(text=TEXTS)
def test_each_side_of_two_vocabularies_gives_its_text_back(model: str, text: str) -> None:
    tokenizer = trained_pair(model)
    batch = tokenizer(text, text_target=text, verbose=False)
    expected = unicodedata.normalize("NFC", text)
    for name, side in (("input_ids", "source"), ("labels", "target")):
        assert tokenizer.decode(batch[name], skip_special_tokens=True, side=side) == expected


@pytest.mark.parametrize("model", LOSSLESS)
@settings(max_examples=150, deadline=None)
@given(text=TEXTS)
def test_second_round_trip_changes_nothing(model: str, text: str) -> None:
    once = round_trip(trained(model), text)
    assert round_trip(trained(model), once) == once


# Normal forms


@pytest.mark.parametrize("model", [*LOSSLESS, "word"])
@pytest.mark.parametrize("normalization", ["nfc", "nfkc"])
@settings(max_examples=60, deadline=None)
@given(text=ANY_TEXT | st.lists(st.sampled_from(WORDS)).map(" ".join))
@example(text="P\u0159\u00edli\u0161 \u017elu\u0165ou\u010dk\u00fd k\u016f\u0148")
@example(text="Ti\u1ebfng Vi\u1ec7t \u0111\u01b0\u1ee3c")
def test_composed_and_decomposed_text_have_the_same_ids(
    model: str, normalization: str, text: str
) -> None:
    """Trial 38."""
    tokenizer = trained(model, normalization)
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    expected = tokenizer(composed, verbose=False)["input_ids"]
    assert tokenizer(decomposed, verbose=False)["input_ids"] == expected


# What NFC leaves alone and NFKC replaces: full-width digits, ligature, bar, no-break space.
COMPATIBLE = {"\uff11\uff12": "12", "\ufb01": "fi", "\ufe30": "..", "a\u00a0b": "a b"}


@pytest.mark.parametrize("model", LOSSLESS)
@pytest.mark.parametrize(("text", "plain"), COMPATIBLE.items())
def test_only_nfkc_changes_compatible_characters(model: str, text: str, plain: str) -> None:
    assert round_trip(trained(model), text) == text
    assert round_trip(trained(model, "nfkc"), text) == plain


@pytest.mark.parametrize("normalization", ["nfc", "nfkc"])
@pytest.mark.parametrize("model", LOSSLESS)
def test_soft_hyphens_and_joiners_stay_in_both_forms(model: str, normalization: str) -> None:
    text = "soft\u00adhyphen zero\u200bwidth join\u200der"
    assert round_trip(trained(model, normalization), text) == text


@pytest.mark.parametrize("model", [*LOSSLESS, "word"])
@pytest.mark.parametrize("normalization", ["nfc", "nfkc"])
def test_normal_form_is_told_and_saved(model: str, normalization: str, tmp_path) -> None:
    tokenizer = trained(model, normalization)
    assert tokenizer.normalization == normalization
    tokenizer.save_pretrained(tmp_path)
    again = VaswaniTokenizer.from_pretrained(tmp_path)
    assert again.normalization == normalization
    assert again("\uff11")["input_ids"] == tokenizer("\uff11")["input_ids"]


# Long texts

LENGTH = 10_000
LONG = {
    "one letter": "a" * LENGTH,
    "letters": "abcdefghij" * (LENGTH // 10),
    "spaces": " " * LENGTH,
    "spaces before a word": " " * LENGTH + "x",
    "no-break spaces": "\u00a0" * LENGTH,
    "tabs and newlines": "\t\n" * (LENGTH // 2),
    "marks": "\u0301" * LENGTH,
    "stacked marks in the wrong order": "a" + "\u0301\u0323" * (LENGTH // 2),
    "emoji": "\U0001f469\u200d\U0001f467" * (LENGTH // 3),
    "ideographs": "".join(chr(0x4E00 + k % 5000) for k in range(LENGTH)),
    "punctuation": "?!" * (LENGTH // 2),
    "digits": "7" * LENGTH,
    "nul": "\x00" * LENGTH,
    "control tokens": "</s>" * (LENGTH // 4),
    "byte tokens": "<0x41>" * (LENGTH // 6),
}
# Seconds. Some hundredths are usual; what grows with the square takes minutes.
PATIENCE = 5.0


@pytest.mark.parametrize("model", [*LOSSLESS, "word"])
@pytest.mark.parametrize("name", LONG)
def test_long_words_and_lines_are_quick(model: str, name: str) -> None:
    started = time.monotonic()
    found = round_trip(trained(model), LONG[name])
    assert time.monotonic() - started < PATIENCE
    if model != "word":
        assert found == unicodedata.normalize("NFC", LONG[name])


@pytest.mark.parametrize("model", LOSSLESS)
def test_training_on_a_long_word_is_quick(model: str) -> None:
    started = time.monotonic()
    texts = [*hostile_texts(WORDS), "abcde" * (LENGTH // 5), "\u0301" * LENGTH]
    tokenizer = train_tokenizer(texts, vocab_size=450, model=model)
    assert time.monotonic() - started < 4 * PATIENCE
    assert round_trip(tokenizer, texts[-2]) == texts[-2]
