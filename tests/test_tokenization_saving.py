"""Trial 39: adding, saving and loading keep every id, and the second save is the first."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny_model import tiny_model
from trained_tokenizers import SPELT, WORDS, hostile_texts, trained, trained_pair
from transformers import AutoTokenizer

from vaswani.tokenization_vaswani import VaswaniTokenizer

ROOT = Path(__file__).parents[1]
MODELS = ["bpe", "unigram", "word"]
SETTINGS = ("model_max_length", "padding_side", "split_special_tokens", "model_input_names")
TEXTS = [*hostile_texts(WORDS, count=480, seed=7), *SPELT, "<2de> the cat", "a Größenwahn", "", " "]
TEXTS += ["\x00 東京 e\u0301", *("the cat " * length for length in range(20))]

KINDS = [(model, separate) for model in MODELS for separate in (False, True)]

LOAD = """
import json, pathlib, sys
from transformers import AutoTokenizer
import vaswani
texts, found = json.load(sys.stdin), []
for folder in map(pathlib.Path, sys.argv[1:]):
    tokenizer = AutoTokenizer.from_pretrained(folder / "first")
    tokenizer.save_pretrained(folder / "second")
    batch = tokenizer(texts, text_target=texts)
    target = tokenizer.target_tokenizer
    found.append([batch["input_ids"], batch["labels"], len(tokenizer), len(target),
                  tokenizer.all_special_ids, target.all_special_ids])
print(json.dumps(found))
"""


def grown(model: str, *, separate: bool) -> VaswaniTokenizer:
    """With two control tokens and two words added, in an order of their own."""
    tokenizer = copy.deepcopy(trained_pair(model) if separate else trained(model))
    if separate:
        for side in ("source", "target"):
            tokenizer.add_tokens(["Größenwahn"], side=side)
            tokenizer.add_tokens(["<2de>", "<2en>"], special_tokens=True, side=side)
        tokenizer.add_tokens(["wordtwo"], side="target")
        return tokenizer
    tokenizer.add_tokens(["Größenwahn"])
    tokenizer.add_special_tokens({"extra_special_tokens": ["<2de>", "<2en>"]})
    tokenizer.add_tokens(["wordtwo"])
    return tokenizer


def test_another_process_finds_the_same_ids_and_writes_the_same_files(tmp_path: Path) -> None:
    """Of each kind, shared and separate."""
    assert len(TEXTS) >= 1000
    folders = {kind: tmp_path / f"{kind[0]}-{kind[1]}" for kind in KINDS}
    tokenizers = {kind: grown(kind[0], separate=kind[1]) for kind in KINDS}
    for kind, folder in folders.items():
        tokenizers[kind].save_pretrained(folder / "first")
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *folders.values()],
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        input=json.dumps(TEXTS),
        check=True,
        capture_output=True,
        text=True,
    )
    for kind, found in zip(KINDS, json.loads(done.stdout), strict=True):
        tokenizer, target = tokenizers[kind], tokenizers[kind].target_tokenizer
        batch = tokenizer(TEXTS, text_target=TEXTS)
        assert all(row[-1] == 2 for row in (*batch["input_ids"], *batch["labels"]))
        sizes = [len(tokenizer), len(target), tokenizer.all_special_ids, target.all_special_ids]
        assert found == [batch["input_ids"], batch["labels"], *sizes]
        first, second = folders[kind] / "first", folders[kind] / "second"
        assert {file.name for file in first.iterdir()} == {file.name for file in second.iterdir()}
        for file in first.iterdir():
            assert (second / file.name).read_bytes() == file.read_bytes()


@pytest.mark.parametrize("model", MODELS)
def test_adding_tokens_moves_no_id(model: str, tmp_path: Path) -> None:
    before, after = trained(model), grown(model, separate=False)
    assert len(after) == len(before) + 4
    entries = after.get_vocab()
    assert {token: entries[token] for token in before.get_vocab()} == before.get_vocab()
    after.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again.get_vocab() == entries
    assert {name: getattr(again, name) for name in SETTINGS} == {
        name: getattr(before, name) for name in SETTINGS
    }


def test_resized_model_keeps_its_rows_and_takes_the_new_ids(tmp_path: Path) -> None:
    before, after = trained("bpe"), grown("bpe", separate=False)
    model = tiny_model(vocab_size=len(before))
    batch = before(["the cat", "cat"], padding=True, return_tensors="pt")
    labels = before(text_target=["cat", "cat"], return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits = model(**batch, labels=labels).logits
    model.resize_token_embeddings(len(after), mean_resizing=False)
    with torch.no_grad():
        wider = model(**batch, labels=labels).logits
    assert wider.shape[-1] == model.config.vocab_size == len(after)
    assert torch.equal(wider[..., : len(before)], logits)
    model.save_pretrained(tmp_path)
    after.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path).eval()
    ids = AutoTokenizer.from_pretrained(tmp_path)("a Größenwahn", return_tensors="pt")
    assert len(before) in ids["input_ids"]
    with torch.no_grad():
        one, other = (m(**ids, labels=labels[:1]).logits for m in (model, again))
    assert torch.equal(one, other)
