"""VaswaniTokenizer: the exact round trip, control tokens out of reach, saving and loading."""

import copy
import json
import os
import pickle
import random
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vaswani import VaswaniConfig
from vaswani.tokenization_vaswani import VaswaniTokenizer
from vaswani.vocabulary import train_tokenizer

WORDS = [
    "the",
    "cat",
    "sees",
    "Größe",
    "l'été",
    "naïve",
    "dog",
    "12",
    "</s>",
    "<0x41>",
    "…",
    "Oui\u00a0!",
]
CONTROL = ["<pad>", "<s>", "</s>", "<unk>"]


def make_sentences(count: int) -> list[str]:
    rng = random.Random(1)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 9))) for _ in range(count)]


@pytest.fixture(scope="module")
def tokenizer() -> VaswaniTokenizer:
    return train_tokenizer(make_sentences(300), vocab_size=340, model_max_length=50)


def round_trip(tokenizer: VaswaniTokenizer, text: str) -> str:
    ids = tokenizer(text, verbose=False)["input_ids"]
    return tokenizer.decode(ids, skip_special_tokens=True)


# Unassigned code points are left out: Python and the library may know different Unicode versions.
ANY_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cn")))
LIKELY_TEXT = st.lists(
    st.sampled_from(
        [" ", "\u00a0", "\u2028", "\u2581", "\t", "\r\n", "e", "\u0301", "<", *WORDS, *CONTROL]
    )
).map("".join)


@settings(max_examples=500, deadline=None)
@given(text=ANY_TEXT | LIKELY_TEXT)
@example(text="")
@example(text=" ")
@example(text="  ")
@example(text=" leading, trailing ")
@example(text="two  spaces, a tab\tand a\nnewline\r\n")
@example(text="\n x")
@example(text="\u2581already\u2581marked")
@example(text="</s><pad> <0x41> <unk>")
@example(text="<0xC3><0xA9>")
@example(text="\u0301starts with a mark, stacked a\u0323\u0308\u0301")
@example(text="👩‍👩‍👧‍👦🏽 🇩🇪")
@example(text="\u2028\u2029\x85\x0b\x0c\x1c")
@example(text="nul\x00 bell\x07 mark\u200f bom\ufeff")
@example(text="東京は晴れ")
@example(text="soft\u00adhyphen ﬁ １２ \ufe30")  # noqa: RUF001
@example(text="Vraiment\u202f? 1\u202f000\u00a0€")
def test_decode_of_encode_is_the_normal_form(tokenizer: VaswaniTokenizer, text: str) -> None:
    assert round_trip(tokenizer, text) == unicodedata.normalize("NFC", text)


@settings(max_examples=300, deadline=None)
@given(text=ANY_TEXT | LIKELY_TEXT)
@example(text="".join(CONTROL))
@example(text=" ".join(CONTROL))
@example(text="<0x41><0xC3>")
def test_text_reaches_no_control_id_and_bytes_only_by_fallback(
    tokenizer: VaswaniTokenizer, text: str
) -> None:
    ids = tokenizer(text, verbose=False)["input_ids"]
    assert ids[-1] == 2
    assert not {0, 1, 2, 3} & set(ids[:-1])
    vocabulary = tokenizer.get_vocab()
    spelt = [char for char in unicodedata.normalize("NFC", text) if char not in vocabulary]
    in_bytes = bytes(index - 4 for index in ids[:-1] if index < 260)
    assert in_bytes == "".join(spelt).encode()


@settings(max_examples=200, deadline=None)
@given(text=ANY_TEXT)
@example(text="cafe\u0301 Vie\u0323\u0302t pr\u030ci\u0301lis\u030c")
def test_composed_and_decomposed_text_have_the_same_ids(
    tokenizer: VaswaniTokenizer, text: str
) -> None:
    decomposed = tokenizer(unicodedata.normalize("NFD", text), verbose=False)["input_ids"]
    assert decomposed == tokenizer(unicodedata.normalize("NFC", text), verbose=False)["input_ids"]


def test_first_word_is_the_token_of_the_middle_of_a_sentence(tokenizer: VaswaniTokenizer) -> None:
    assert tokenizer.tokenize("cat sees cat") == [" cat", " sees", " cat"]


def test_control_tokens_are_allowed_when_a_call_says_so(tokenizer: VaswaniTokenizer) -> None:
    ids = tokenizer("<s></s>", split_special_tokens=False)["input_ids"]
    assert ids == [1, 2, 2]
    # And only for that call.
    assert not {1, 2} & set(tokenizer("<s></s>")["input_ids"][:-1])


def test_control_tokens_have_the_ids_of_the_config(tokenizer: VaswaniTokenizer) -> None:
    assert tokenizer.convert_tokens_to_ids(CONTROL) == [0, 1, 2, 3]
    config = VaswaniConfig()
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "unk_token_id"):
        assert getattr(tokenizer, name) == getattr(config, name)
    assert tokenizer.decode([1, *tokenizer("cat")["input_ids"], 0]) == "<s> cat</s><pad>"


def test_lone_surrogate_is_refused_in_plain_words(tokenizer: VaswaniTokenizer) -> None:
    for call in (
        lambda: tokenizer("a\ud800"),
        lambda: tokenizer(["fine", "a\ud800"]),
        lambda: tokenizer("fine", text_target="a\ud800"),
        lambda: tokenizer("fine", "a\ud800"),
        lambda: tokenizer([("fine", "a\ud800")]),
        lambda: tokenizer(text_target=["fine", "a\ud800"]),
        lambda: tokenizer("fine", text_target="fine", text_pair_target="a\ud800"),
        lambda: tokenizer(["fine", "a\ud800"], is_split_into_words=True),
        lambda: tokenizer([["fine", "a\ud800"]], is_split_into_words=True),
        lambda: tokenizer.encode("a\ud800"),
        lambda: tokenizer.tokenize("a\ud800"),
        lambda: copy.deepcopy(tokenizer).add_tokens(["a\ud800"]),
        lambda: copy.deepcopy(tokenizer).add_special_tokens({"mask_token": "a\ud800"}),
    ):
        with pytest.raises(
            ValueError, match=r"must be valid Unicode, got the lone surrogate U\+D800"
        ):
            call()


def test_bytes_that_spell_no_character_decode_to_the_replacement_character(
    tokenizer: VaswaniTokenizer,
) -> None:
    """UTF-8 has no surrogates: the three bytes of one are no character."""
    ids = tokenizer.convert_tokens_to_ids(["<0xED>", "<0xA0>", "<0x80>"])
    text = tokenizer.decode(ids)
    assert set(text) == {"\ufffd"} and tokenizer(text)["input_ids"][-1] == 2


def test_ignored_labels_are_left_out_whatever_holds_the_ids(tokenizer: VaswaniTokenizer) -> None:
    rows = tokenizer(["the cat", "dog dog"])["input_ids"]
    padded = [[*rows[0], -100, -100], [-100, *rows[1], -100]]
    texts = ["the cat", "dog dog"]
    options = {"skip_special_tokens": True}
    for batch in (padded, np.array(padded), np.array(padded, dtype=np.int32), torch.tensor(padded)):
        assert tokenizer.decode(batch, **options) == texts
        assert tokenizer.batch_decode(batch, **options) == texts
        assert tokenizer.decode(batch[0], **options) == texts[0]
    assert tokenizer.decode([np.array(row) for row in padded], **options) == texts
    assert tokenizer.decode(tuple(padded[0]), **options) == texts[0]
    # As n-best lists come, and as a batch is.
    assert tokenizer.decode(torch.tensor([padded, padded]), **options) == [texts, texts]
    assert tokenizer.decode({"input_ids": padded}, **options) == texts
    assert tokenizer.decode([-100]) == tokenizer.decode(-100) == tokenizer.decode([]) == ""
    assert tokenizer.batch_decode([]) == []


def test_both_sides_end_with_one_end_token_and_start_with_none(tokenizer: VaswaniTokenizer) -> None:
    encoded = tokenizer(["the cat", ""], text_target=["dog", "dog dog"])
    assert set(encoded) == {"input_ids", "attention_mask", "labels"}
    for ids in (*encoded["input_ids"], *encoded["labels"]):
        assert ids[-1] == 2 and ids.count(2) == 1 and 1 not in ids
    assert encoded["input_ids"][1] == [2]
    assert encoded["labels"] == tokenizer(["dog", "dog dog"])["input_ids"]


def test_padding_goes_to_the_right_and_is_masked(tokenizer: VaswaniTokenizer) -> None:
    texts = ["cat", "the cat sees the dog"]
    padded = tokenizer(texts, padding=True, return_tensors="pt")
    assert padded.input_ids.shape == (2, 6)
    assert padded.input_ids[0].tolist() == [*tokenizer("cat")["input_ids"], 0, 0, 0, 0]
    assert padded.attention_mask.tolist() == [[1, 1, 0, 0, 0, 0], [1] * 6]
    assert tokenizer.decode(padded.input_ids, skip_special_tokens=True) == texts


def test_truncation_keeps_the_end_token(tokenizer: VaswaniTokenizer) -> None:
    whole = tokenizer("the cat sees the dog")["input_ids"]
    cut = tokenizer("the cat sees the dog", truncation=True, max_length=4)["input_ids"]
    assert cut == [*whole[:3], 2]
    assert len(tokenizer("cat " * 99, truncation=True)["input_ids"]) == 50


def test_cleaning_of_spaces_is_off(tokenizer: VaswaniTokenizer) -> None:
    assert round_trip(tokenizer, "cat , dog . do n't") == "cat , dog . do n't"


@pytest.mark.parametrize(
    "text", ["<2de> cat", "<2de>cat", " <2de>  cat ", "the<2de>", "a <2de><2de> b"]
)
def test_added_tokens_are_found_and_leave_spaces_alone(
    tokenizer: VaswaniTokenizer, text: str
) -> None:
    grown = copy.deepcopy(tokenizer)
    grown.add_tokens(["<2de>"])
    assert grown(text)["input_ids"].count(len(tokenizer)) == text.count("<2de>")
    assert round_trip(grown, text) == text


def test_added_control_token_is_text_when_typed(tokenizer: VaswaniTokenizer) -> None:
    grown = copy.deepcopy(tokenizer)
    grown.add_special_tokens({"extra_special_tokens": ["<2de>"]})
    assert len(tokenizer) not in grown("<2de> cat")["input_ids"]
    assert round_trip(grown, "<2de> cat") == "<2de> cat"


def test_training_anew_keeps_the_bytes_and_the_control_tokens(tokenizer: VaswaniTokenizer) -> None:
    anew = tokenizer.train_new_from_iterator(
        [["ein Hund", "</s> <0x41>"]] * 20, vocab_size=300, new_special_tokens=["<2de>"]
    )
    assert type(anew) is VaswaniTokenizer and len(anew) <= 300
    assert anew.convert_tokens_to_ids([*CONTROL, "<0x00>", "<0xFF>", "<2de>"]) == [
        *range(4),
        4,
        259,
        260,
    ]
    assert set(anew.added_tokens_encoder) == {*CONTROL, "<2de>"}
    assert anew.extra_special_tokens == ["<2de>"]
    for text in ("ein Hund", " 東京 </s><2de><0x41>"):
        assert 3 not in anew(text)["input_ids"]
        assert anew(text)["input_ids"].count(2) == 1
        assert round_trip(anew, text) == text


def test_pickled_tokenizer_gives_the_same_ids(tokenizer: VaswaniTokenizer) -> None:
    again = pickle.loads(pickle.dumps(tokenizer))
    texts = [*make_sentences(100), "</s><0x41>\x00"]
    assert again(texts)["input_ids"] == tokenizer(texts)["input_ids"]


def test_saved_folder_loads_with_its_own_code_in_another_process(
    tokenizer: VaswaniTokenizer, tmp_path: Path
) -> None:
    """Away from the package, the code in the folder is all there is."""
    folder = tmp_path / "tokenizer"
    tokenizer.save_pretrained(folder)
    assert {file.name for file in folder.iterdir()} == {
        "tokenizer.json",
        "tokenizer_config.json",
        "tokenization_vaswani.py",
    }
    texts = [*make_sentences(50), "</s> <0x41>", "  東京\t"]
    (tmp_path / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    code = (
        "import json; from transformers import AutoTokenizer;"
        "tokenizer = AutoTokenizer.from_pretrained('tokenizer', trust_remote_code=True);"
        "texts = json.load(open('texts.json', encoding='utf-8'));"
        "print(json.dumps([type(tokenizer).__name__, tokenizer(texts)['input_ids']]))"
    )
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(tmp_path / "modules")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout) == ["VaswaniTokenizer", tokenizer(texts)["input_ids"]]
