"""What looks like a control token is text: from every side, after every change, on every way in."""

import copy
import json
import unicodedata
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from trained_tokenizers import (
    ANY_TEXT,
    BYTES,
    CONTROL,
    SPELT,
    TAGS,
    TEXTS,
    WORDS,
    hostile_texts,
    trained,
    trained_pair,
)
from transformers import AutoTokenizer

from vaswani import VaswaniForConditionalGeneration
from vaswani.cli import main
from vaswani.tokenization_vaswani import VaswaniTokenizer
from vaswani.translation import Translator

LOSSLESS = ["bpe", "unigram"]
MODELS = [*LOSSLESS, "word"]
# The last id of a control or byte token.
LAST_BYTE = 259


def reserved(tokenizer: VaswaniTokenizer) -> set[int]:
    """Ids that no text of known characters may give."""
    return set(tokenizer.convert_tokens_to_ids([*CONTROL, *(f"<0x{k:02X}>" for k in range(256))]))


def spoiled(text: str) -> st.SearchStrategy[str]:
    """The text with what looks like a control token inserted anywhere."""
    places = st.lists(st.tuples(st.integers(0, len(text)), st.sampled_from(SPELT)), min_size=1)
    return places.map(lambda found: inserted(text, found))


def inserted(text: str, found: list[tuple[int, str]]) -> str:
    for place, token in sorted(found, reverse=True):
        text = text[:place] + token + text[place:]
    return text


SPOILED = TEXTS.flatmap(spoiled)


@pytest.mark.parametrize("model", LOSSLESS)
@settings(max_examples=200, deadline=None)
@given(text=SPOILED)
def test_inserted_tokens_reach_no_control_id_and_come_back(model: str, text: str) -> None:
    tokenizer = trained_pair(model)
    batch = tokenizer(text, text_target=text, verbose=False)
    for name, side in (("input_ids", "source"), ("labels", "target")):
        assert batch[name][-1] == 2 and not {0, 1, 2, 3} & set(batch[name][:-1])
        found = tokenizer.decode(batch[name], skip_special_tokens=True, side=side)
        assert found == unicodedata.normalize("NFC", text)


@settings(max_examples=200, deadline=None)
@given(text=SPOILED)
def test_inserted_tokens_are_words_of_a_vocabulary_of_words(text: str) -> None:
    ids = trained("word")(text, verbose=False)["input_ids"]
    assert ids[-1] == 2 and not {0, 1, 2} & set(ids[:-1])


@pytest.mark.parametrize("model", LOSSLESS)
@pytest.mark.parametrize("normalization", ["nfc", "nfkc"])
@settings(max_examples=100, deadline=None)
@given(parts=st.lists(st.sampled_from([*SPELT, *WORDS, " ", "<", ">", "</", "0x", "\uff1c"])))
def test_known_characters_give_neither_control_nor_byte_ids(
    model: str, normalization: str, parts: list[str]
) -> None:
    """All characters have an entry, so nothing has to be spelt in bytes."""
    tokenizer = trained(model, normalization)
    text = "".join(part for part in parts if part != "\uff1c" or normalization == "nfkc")
    assert not reserved(tokenizer) & set(tokenizer(text, verbose=False)["input_ids"][:-1])


@pytest.mark.parametrize("model", MODELS)
def test_no_entry_learnt_from_hostile_text_spells_a_token(model: str) -> None:
    for tokenizer in (trained_pair(model), trained_pair(model).target_tokenizer):
        entries = tokenizer.get_vocab()
        first = 4 if model == "word" else LAST_BYTE + 1
        learnt = {token.strip() for token, index in entries.items() if index >= first}
        assert learnt and not learnt & {*CONTROL, *BYTES, "<2de>", ">>de<<"}


@pytest.mark.parametrize("model", MODELS)
def test_control_tokens_need_an_argument(model: str) -> None:
    tokenizer = trained_pair(model)
    text = "<s>the </s> cat<pad>"
    allowed = tokenizer(text, text_target=text, split_special_tokens=False)
    for ids in (allowed["input_ids"], allowed["labels"]):
        assert (ids[0], ids.count(2), ids.count(0)) == (1, 2, 1)
    typed = tokenizer(text, text_target=text)
    for ids in (typed["input_ids"], typed["labels"]):
        assert ids.count(2) == 1 and not {0, 1} & set(ids)


@pytest.mark.parametrize("model", LOSSLESS)
@pytest.mark.parametrize("text", ["<2de> the cat", "<2de>the", " <2de>  the ", "the <2de> the</s>"])
def test_allowed_control_tokens_leave_spaces_alone(model: str, text: str) -> None:
    grown = copy.deepcopy(trained(model))
    grown.add_special_tokens({"extra_special_tokens": ["<2de>"]})
    ids = grown(text, split_special_tokens=False)["input_ids"]
    assert ids.count(len(trained(model))) == 1
    assert grown.decode(ids[:-1]) == text
    if text == "<2de> the cat":
        assert ids[1:] == trained(model)("the cat")["input_ids"]


# After changes


def grown(model: str) -> VaswaniTokenizer:
    """With control tokens added, and with a word added that is found in text."""
    tokenizer = copy.deepcopy(trained(model))
    tokenizer.add_special_tokens({"extra_special_tokens": TAGS})
    tokenizer.add_tokens(["Größenwahn"])
    return tokenizer


@pytest.mark.parametrize("model", MODELS)
def test_added_control_tokens_are_text_when_typed(model: str, tmp_path: Path) -> None:
    before = grown(model)
    before.save_pretrained(tmp_path)
    texts = [*SPELT, " ".join(SPELT), "".join(SPELT), *hostile_texts(WORDS, count=50, seed=3)]
    for tokenizer in (before, AutoTokenizer.from_pretrained(tmp_path)):
        added = {tokenizer.convert_tokens_to_ids(tag) for tag in TAGS}
        assert len(added) == len(TAGS) and min(added) >= len(trained(model))
        assert tokenizer(texts)["input_ids"] == trained(model)(texts)["input_ids"]
        assert tokenizer.convert_tokens_to_ids("Größenwahn") in tokenizer("Größenwahn")["input_ids"]
        allowed = tokenizer("".join(TAGS), split_special_tokens=False)["input_ids"]
        assert set(allowed) == {*added, 2}


@pytest.mark.parametrize("model", LOSSLESS)
@settings(max_examples=100, deadline=None)
@given(text=(ANY_TEXT | st.sampled_from(WORDS)).flatmap(spoiled))
def test_texts_come_back_with_tokens_added(model: str, text: str) -> None:
    tokenizer = _GROWN[model]
    ids = tokenizer(text, verbose=False)["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == unicodedata.normalize("NFC", text)


_GROWN = {model: grown(model) for model in LOSSLESS}


# Ways in


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Source ids of every sentence that a model is given, without padding."""
    rows: list[list[int]] = []
    encode = VaswaniForConditionalGeneration.generate

    def watched(self, *args, **kwargs):
        mask = kwargs["attention_mask"].bool()
        rows.extend(ids[real].tolist() for ids, real in zip(kwargs["input_ids"], mask, strict=True))
        return encode(self, *args, **kwargs)

    monkeypatch.setattr(VaswaniForConditionalGeneration, "generate", watched)
    return rows


def check_seen(rows: list[list[int]], texts: list[str], tokenizer: VaswaniTokenizer) -> None:
    assert len(rows) == len(texts)
    for ids in rows:
        assert ids[-1] == 2 and not {0, 1, 2, 3} & set(ids[:-1])
    assert sorted(tokenizer.decode(row[:-1]) for row in rows) == sorted(texts)


def test_translator_gives_the_model_no_control_id(tiny_model, tiny_tokenizer, seen) -> None:
    translator = Translator(tiny_model, tiny_tokenizer)
    found = translator.translate(SPELT, max_new_tokens=3, num_beams=1)
    check_seen(seen, SPELT, tiny_tokenizer)
    assert len(found) == len(SPELT)


def test_command_gives_the_model_no_control_id(
    tiny_folder: Path, tmp_path: Path, tiny_tokenizer, seen
) -> None:
    given, output = tmp_path / "in.txt", tmp_path / "out.txt"
    given.write_text("".join(f"{text}\n" for text in SPELT), encoding="utf-8")
    words = [
        "translate",
        "--model",
        str(tiny_folder),
        "--input",
        str(given),
        "--output",
        str(output),
    ]
    assert main([*words, "--max-new-tokens", "3", "--num-beams", "1", "--device", "cpu"]) == 0
    check_seen(seen, SPELT, tiny_tokenizer)
    assert output.read_bytes().count(b"\n") == len(SPELT)


def test_output_that_spells_a_control_token_is_shown(tiny_tokenizer) -> None:
    """A model that wants to say `</s>` as text says it in pieces, and they are no end."""
    ids = tiny_tokenizer("a </s> b")["input_ids"]
    assert tiny_tokenizer.decode(torch.tensor([1, *ids, 0, 0]), skip_special_tokens=True) == (
        "a </s> b"
    )


def test_command_line_of_the_tokenizer_reads_tokens_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    trained_pair("bpe").save_pretrained(tmp_path / "tokenizer")
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{text}\n" for text in SPELT), encoding="utf-8")
    words = ["tokenizer", "encode", "--tokenizer", str(tmp_path / "tokenizer")]
    words += ["--input", str(lines), "--output", str(tmp_path / "out")]
    assert main([*words, "--side", "target", "--pieces"]) == 0
    rows = [json.loads(line) for line in (tmp_path / "out").read_text("utf-8").splitlines()]
    assert ["".join(row[:-1]).removeprefix(" ") for row in rows] == SPELT
    assert main([*words, "--allow-control-tokens"]) == 0
    ids = [line.split() for line in (tmp_path / "out").read_text("utf-8").splitlines()]
    assert ids[:4] == [["0", "2"], ["1", "2"], ["2", "2"], ["3", "2"]]
