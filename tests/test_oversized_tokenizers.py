"""A tokenizer with more entries than the model has rows is refused before any work (trial 14)."""

from pathlib import Path
from typing import Any

import pytest
from tiny_model import tiny_model
from training_material import write_tsv

from vaswani import VaswaniTokenizer
from vaswani.cli import main
from vaswani.errors import InputError
from vaswani.training import VaswaniTrainer, VaswaniTrainingArguments
from vaswani.training_run import DataArguments, ModelArguments, run_training
from vaswani.translation import Translator
from vaswani.vocabulary import pair_tokenizers, train_tokenizer

REMEDY = r".*resize_token_embeddings"


def word_tokenizer(entries: int) -> VaswaniTokenizer:
    """Whole words; four of the entries are control tokens."""
    words = [f"w{index}" for index in range(entries - 4)]
    tokenizer = train_tokenizer([" ".join(words)] * 2, model="word")
    assert len(tokenizer) == entries
    return tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> VaswaniTokenizer:
    return word_tokenizer(45)


@pytest.fixture(scope="module")
def model_folder(tokenizer: VaswaniTokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 40 entries with a tokenizer of 45."""
    folder = tmp_path_factory.mktemp("model")
    tiny_model().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def trainer(model: Any, tokenizer: Any, folder: Path) -> VaswaniTrainer:
    args = VaswaniTrainingArguments(output_dir=str(folder), max_steps=1, device_name="cpu")
    rows = [{"input_ids": [5, 2], "labels": [5, 2]}]
    return VaswaniTrainer(model, args, train_dataset=rows, processing_class=tokenizer)


def test_the_translator_refuses_it(tokenizer: VaswaniTokenizer) -> None:
    with pytest.raises(InputError, match=rf"`tokenizer` .* source table, got 45 and 40\.{REMEDY}"):
        Translator(tiny_model(), tokenizer)
    with pytest.raises(InputError, match=rf"`tokenizer` .* source table, got 45 and 40\.{REMEDY}"):
        Translator([tiny_model(), tiny_model(seed=1)], tokenizer)
    Translator(tiny_model(vocab_size=45), tokenizer)


def test_the_translator_opens_no_such_folder(model_folder: Path) -> None:
    with pytest.raises(InputError, match=rf"the tokenizer of .* got 45 and 40\.{REMEDY}"):
        Translator.from_pretrained(model_folder)


def test_the_trainer_refuses_it(tokenizer: VaswaniTokenizer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"`tokenizer` .* source table, got 45 and 40\.{REMEDY}"):
        trainer(tiny_model(), tokenizer, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("side", ["source", "target"])
def test_each_side_is_held_against_its_own_table(side: str, tmp_path: Path) -> None:
    """The other side fits: only the named one is too large."""
    sizes = {"source": 40, "target": 40, side: 45}
    paired = pair_tokenizers(word_tokenizer(sizes["source"]), word_tokenizer(sizes["target"]))
    settings = {"encoder_vocab_size": 40, "share_encoder_decoder_embeddings": False}
    model = tiny_model(**settings)
    with pytest.raises(InputError, match=rf"{side} table, got 45 and 40\."):
        Translator(model, paired)
    with pytest.raises(InputError, match=rf"{side} table, got 45 and 40\."):
        trainer(model, paired, tmp_path / "run")
    model.resize_token_embeddings(45, side=side)
    Translator(model, paired)
    trainer(model, paired, tmp_path / "run")


def test_a_run_refuses_it_and_leaves_no_folder(model_folder: Path, tmp_path: Path) -> None:
    """With a model that has such a tokenizer, and with a tokenizer named beside a good model."""
    corpus = write_tsv(tmp_path / "pairs.tsv", [("w1 w2", "w2 w1")] * 8)
    good = tmp_path / "good"
    tiny_model().save_pretrained(good)
    word_tokenizer(40).save_pretrained(good)
    data = DataArguments(data=[str(corpus)], source="en", target="de")
    args = VaswaniTrainingArguments(output_dir=str(tmp_path / "run"), max_steps=1)
    for chosen in (
        ModelArguments(model=str(model_folder)),
        ModelArguments(model=str(good), tokenizer=str(model_folder)),
    ):
        with pytest.raises(InputError, match=rf"got 45 and 40\.{REMEDY}"):
            run_training(chosen, data, args)
    assert not (tmp_path / "run").exists()


def test_the_command_line_says_so_in_one_line(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("w1\n")
    output = tmp_path / "out.txt"
    command = ["translate", "--model", str(model_folder), "--input", str(lines)]
    assert main([*command, "--output", str(output), "--device", "cpu"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "got 45 and 40" in error
    assert "resize_token_embeddings" in error
    assert not output.exists()
