"""One tokenizer with a vocabulary for each side: which side is used where, saving and loading."""

import copy
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, DataCollatorForSeq2Seq
from two_sided import PAIRS, TARGET_PAD, model_for, paired, source_side, target_side

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani.errors import InputError
from vaswani.tokenization_vaswani import VaswaniTokenizer
from vaswani.vocabulary import pair_tokenizers, train_tokenizer_pair

SOURCES, TARGETS = [source for source, _ in PAIRS], [target for _, target in PAIRS]


@pytest.fixture(scope="module")
def source() -> VaswaniTokenizer:
    return source_side()


@pytest.fixture(scope="module")
def target() -> VaswaniTokenizer:
    return target_side()


@pytest.fixture(scope="module")
def tokenizer() -> VaswaniTokenizer:
    return paired()


# Text to ids


def test_each_text_gets_the_ids_of_its_side(tokenizer, source, target) -> None:
    assert tokenizer(SOURCES)["input_ids"] == source(SOURCES)["input_ids"]
    assert tokenizer(text_target=TARGETS)["input_ids"] == target(TARGETS)["input_ids"]
    both = tokenizer(SOURCES, text_target=TARGETS)
    assert set(both) == {"input_ids", "attention_mask", "labels"}
    assert both["input_ids"] == source(SOURCES)["input_ids"]
    assert both["labels"] == target(TARGETS)["input_ids"]
    single = tokenizer(SOURCES[0], text_target=TARGETS[0])
    assert single["input_ids"] == both["input_ids"][0] and single["labels"] == both["labels"][0]


def test_word_of_the_target_alone_is_one_token_with_one_end(tokenizer) -> None:
    """Trial 15: a target cut with the source's vocabulary falls into pieces."""
    labels = tokenizer("baker", text_target="boulanger")["labels"]
    assert tokenizer.convert_ids_to_tokens(labels) == ["boulanger", "</s>"]
    assert len(tokenizer("boulanger")["input_ids"]) > 3


def test_each_side_is_padded_and_cut_by_its_own_rules(tokenizer) -> None:
    texts = {"text": ["cook", "cook sees child."], "text_target": ["marin", "marin voit enfant."]}
    batch = tokenizer(**texts, padding=True, return_tensors="pt")
    assert batch["input_ids"][0, -1] == tokenizer.pad_token_id == 0
    assert batch["labels"][0, -1] == tokenizer.target_pad_token_id == TARGET_PAD
    cut = tokenizer(**texts, truncation=True, max_length=3, max_target_length=2)
    assert [len(row) for row in cut["input_ids"]] == [2, 3]
    assert [len(row) for row in cut["labels"]] == [2, 2]
    assert all(row[-1] == 2 for row in (*cut["input_ids"], *cut["labels"]))
    short = copy.deepcopy(tokenizer)
    short.target_tokenizer.model_max_length = 3
    long = short("cook " * 50, text_target="marin " * 50, truncation=True)
    assert (len(long["input_ids"]), len(long["labels"])) == (20, 3)


def test_sizes_and_padding_ids_are_told_for_each_side(tokenizer, source, target) -> None:
    assert len(tokenizer) == len(source) != len(target) == tokenizer.target_vocab_size
    assert tokenizer.separate_vocabularies and not source.separate_vocabularies
    assert (tokenizer.pad_token_id, tokenizer.target_pad_token_id) == (0, TARGET_PAD)


def test_shared_vocabulary_is_both_sides(source) -> None:
    assert source.target_tokenizer is source
    assert source.target_vocab_size == len(source)
    assert source.target_pad_token_id == source.pad_token_id
    ids = source("baker")["input_ids"]
    for side in ("source", "target"):
        assert source.decode(ids, skip_special_tokens=True, side=side) == "baker"
        assert source.convert_ids_to_tokens(ids, side=side) == [" baker", "</s>"]


# Ids to text


def test_ids_are_read_as_the_target_unless_said_otherwise(tokenizer) -> None:
    """What a model puts out is what is decoded."""
    batch = tokenizer(SOURCES[:3], text_target=TARGETS[:3])
    options = {"skip_special_tokens": True}
    assert tokenizer.batch_decode(batch["labels"], **options) == TARGETS[:3]
    assert tokenizer.decode(batch["labels"], **options) == TARGETS[:3]
    assert tokenizer.decode(torch.tensor(batch["labels"][0]), **options) == TARGETS[0]
    assert tokenizer.batch_decode(batch["input_ids"], side="source", **options) == SOURCES[:3]
    tokens = tokenizer.convert_ids_to_tokens(batch["input_ids"][0], side="source")
    assert tokens == [" baker", " sees", " baker", ".", "</s>"]


def test_ignored_labels_are_left_out_of_decoded_text(tokenizer, source) -> None:
    """Trial 23."""
    assert tokenizer.decode([*tokenizer(text_target="marin")["input_ids"], -100, -100]) == (
        "marin </s>"
    )
    assert source.decode([*source("cook")["input_ids"], -100], skip_special_tokens=True) == "cook"
    assert source.decode(-100) == ""


def test_unknown_side_is_refused(tokenizer) -> None:
    with pytest.raises(ValueError, match="`side` must be source or target, got 'both'"):
        tokenizer.decode([4], side="both")


# Batches and model


def test_collator_of_transformers_makes_batches_for_the_model(tokenizer) -> None:
    """Trial 15: start token, no -100 and no source padding in the decoder, labels untouched."""
    rows = [
        dict(tokenizer(*pair[:1], text_target=pair[1]))
        for pair in [("cook", "marin"), ("cook sees child.", "marin voit enfant.")]
    ]
    labels = [list(row["labels"]) for row in rows]
    batch = DataCollatorForSeq2Seq(tokenizer, model=model_for(tokenizer))(rows)
    assert batch["input_ids"][0].tolist() == [*tokenizer("cook")["input_ids"], 0, 0, 0]
    assert batch["labels"].tolist() == [labels[0] + [-100] * 3, labels[1]]
    first, second = batch["decoder_input_ids"].tolist()
    assert first == [1, *labels[0], TARGET_PAD, TARGET_PAD]
    assert second == [1, *labels[1][:-1]]


def test_missing_mask_is_made_from_the_padding_of_the_source(tokenizer) -> None:
    """Trial 7: the source holds the target's padding id as an ordinary token."""
    model = model_for(tokenizer).double()
    batch = tokenizer(["cook", "cook sees child."], padding=True, return_tensors="pt")
    batch["input_ids"][1, 1] = TARGET_PAD
    decoder_input_ids = torch.tensor([[1, 5], [1, 6]])
    with torch.no_grad():
        given = model(**batch, decoder_input_ids=decoder_input_ids).logits
        made = model(batch["input_ids"], decoder_input_ids=decoder_input_ids).logits
    assert torch.equal(given, made)
    assert model.generate(**batch).tolist() == model.generate(batch["input_ids"]).tolist()


def test_sides_differ_in_words_and_positions_as_in_the_write_ups() -> None:
    """8,500 source and 8,000 target words, 62 and 26 positions, 64 sentences at once."""
    config = VaswaniConfig(
        vocab_size=8000,
        encoder_vocab_size=8500,
        share_encoder_decoder_embeddings=False,
        tie_word_embeddings=False,
        d_model=8,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=8,
        decoder_ffn_dim=8,
    )
    model = VaswaniForConditionalGeneration(config)
    source, target = torch.full((64, 62), 8499), torch.full((64, 26), 7999)
    with torch.no_grad():
        logits = model(input_ids=source, decoder_input_ids=target).logits
    assert logits.shape == (64, 26, 8000)


# Saving, loading, copies


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "tokenizer"
    # What a call leaves behind must not show in the files.
    tokenizer(SOURCES[:2], text_target=TARGETS[:2], padding=True, truncation=True)
    tokenizer.save_pretrained(path)
    return path


def test_folder_holds_both_vocabularies_and_names_the_second(folder: Path) -> None:
    assert {file.name for file in folder.iterdir()} == {
        "tokenizer.json",
        "target_tokenizer.json",
        "tokenizer_config.json",
        "tokenization_vaswani.py",
    }
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert settings["target_file"] == "target_tokenizer.json"
    for name in ("tokenizer.json", "target_tokenizer.json"):
        state = json.loads((folder / name).read_text(encoding="utf-8"))
        assert state["padding"] is None and state["truncation"] is None


def test_loaded_folder_gives_the_same_ids_and_the_same_files(
    folder: Path, tokenizer, tmp_path: Path
) -> None:
    again = AutoTokenizer.from_pretrained(folder)
    again.save_pretrained(tmp_path)
    assert type(again) is VaswaniTokenizer and again.separate_vocabularies
    assert dict(again(SOURCES, text_target=TARGETS)) == dict(
        tokenizer(SOURCES, text_target=TARGETS)
    )
    for name in ("model_max_length", "padding_side", "split_special_tokens", "pad_token_id"):
        assert getattr(again, name) == getattr(tokenizer, name)
        assert getattr(again.target_tokenizer, name) == getattr(tokenizer.target_tokenizer, name)
    for file in folder.iterdir():
        assert (tmp_path / file.name).read_bytes() == file.read_bytes()


def test_folder_without_the_file_that_it_names_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "cut")
    (tmp_path / "cut" / "target_tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"`target_tokenizer\.json` must lie beside"):
        AutoTokenizer.from_pretrained(tmp_path / "cut")


def test_left_over_file_that_nothing_names_is_no_side(folder: Path, source, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "reused")
    source.save_pretrained(tmp_path / "reused")
    assert not AutoTokenizer.from_pretrained(tmp_path / "reused").separate_vocabularies


LOADER = """
import json, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "vaswani":
            raise ModuleNotFoundError("refused: " + name, name=name)
sys.meta_path.insert(0, Refuse())
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], trust_remote_code=True)
tokenizer.save_pretrained(sys.argv[2])
sources, targets = json.load(sys.stdin)
batch = tokenizer(sources, text_target=targets)
print(json.dumps([batch["input_ids"], batch["labels"],
                  tokenizer.decode(batch["labels"], skip_special_tokens=True)]))
"""


def test_folder_loads_with_its_own_code_where_the_package_is_missing(
    folder: Path, tokenizer, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", LOADER, folder, tmp_path / "again"],
        cwd=tmp_path,
        env={**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_HUB_OFFLINE": "1"},
        input=json.dumps([SOURCES, TARGETS]),
        check=True,
        capture_output=True,
        text=True,
    )
    batch = tokenizer(SOURCES, text_target=TARGETS)
    assert json.loads(done.stdout) == [batch["input_ids"], batch["labels"], TARGETS]
    for file in folder.iterdir():
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_have_both_sides(tokenizer, copied) -> None:
    again = copied(tokenizer)
    assert dict(again(SOURCES, text_target=TARGETS)) == dict(
        tokenizer(SOURCES, text_target=TARGETS)
    )
    again.target_tokenizer.add_tokens(["new"])
    assert again.target_vocab_size == tokenizer.target_vocab_size + 1


# Changes


def test_tokens_are_added_to_the_side_that_is_named(tokenizer, tmp_path: Path) -> None:
    grown = copy.deepcopy(tokenizer)
    with pytest.raises(ValueError, match=r"`side` must be source or target .*, got None"):
        grown.add_tokens(["<2fr>"])
    assert grown.add_tokens(["<2fr>"], side="source") == 1
    assert grown.add_tokens(["<formal>"], side="target") == 1
    grown.save_pretrained(tmp_path)
    for one in (grown, AutoTokenizer.from_pretrained(tmp_path)):
        assert len(one) == len(tokenizer) + 1
        assert one.target_vocab_size == tokenizer.target_vocab_size + 1
        assert len(tokenizer) in one("<2fr> cook")["input_ids"]
        assert tokenizer.target_vocab_size in one(text_target="<formal> marin")["input_ids"]
        assert len(tokenizer) not in one(text_target="<2fr> marin")["input_ids"]


def test_what_needs_one_vocabulary_is_refused_with_two(tokenizer) -> None:
    with pytest.raises(ValueError, match="must have one vocabulary to get control tokens"):
        tokenizer.add_special_tokens({"mask_token": "<mask>"})
    with pytest.raises(ValueError, match="must have one vocabulary to be trained anew"):
        tokenizer.train_new_from_iterator([["a"]], vocab_size=300)


# Making one


def test_pairing_leaves_the_two_tokenizers_as_they_are(source, target) -> None:
    pair = pair_tokenizers(source, target)
    pair.add_tokens(["new"], side="source")
    pair.add_tokens(["new"], side="target")
    assert not source.separate_vocabularies
    assert "new" not in source.get_vocab() and "new" not in target.get_vocab()


def test_pairs_of_what_is_no_single_side_are_refused(tokenizer, source) -> None:
    with pytest.raises(InputError, match="`target` must be a tokenizer of one vocabulary"):
        pair_tokenizers(source, tokenizer)
    padless = VaswaniTokenizer(tokenizer_object=source.backend_tokenizer, eos_token="</s>")
    with pytest.raises(InputError, match="`source` must be a tokenizer with `pad_token`, got None"):
        pair_tokenizers(padless, source)


@pytest.mark.parametrize("model", ["bpe", "word"])
def test_trained_pair_has_the_vocabulary_of_each_text(model: str) -> None:
    pair = train_tokenizer_pair(
        ["one two"] * 10, ["un deux"] * 10, vocab_size=280, target_vocab_size=275, model=model
    )
    space = " " if model == "bpe" else ""
    assert f"{space}two" in pair.get_vocab() and f"{space}deux" not in pair.get_vocab()
    assert f"{space}deux" in pair.target_tokenizer.get_vocab()
    assert len(pair) <= 280 and pair.target_vocab_size <= 275


def test_error_of_a_pair_names_its_side() -> None:
    with pytest.raises(InputError, match="target side: `texts` must hold text to train on"):
        train_tokenizer_pair(["one"] * 10, [""], vocab_size=280)
