"""Saved and loaded models: the same numbers, each table once, each class by its Auto name."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from tiny_model import VARIANTS, padded, sentences, tiny_config, tiny_model
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration, VaswaniModel

TIES: dict[str, tuple[dict[str, bool], int]] = {
    "one_table": ({}, 1),
    "two_tables": ({"share_encoder_decoder_embeddings": False}, 2),
    "three_tables": ({"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}, 3),
}


def logits(model: Any) -> torch.Tensor:
    input_ids, mask = padded(sentences(20, [5, 3]), pad=model.config.source_pad_token_id)
    decoder_ids, _ = padded([[1, 5, 6], [1, 7, 8]])
    with torch.no_grad():
        return model(input_ids=input_ids, attention_mask=mask, decoder_input_ids=decoder_ids).logits


def stored(folder: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes in all safetensors files of a folder."""
    shapes: dict[str, tuple[int, ...]] = {}
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 (safe_open is no dict)
                assert name not in shapes
                shapes[name] = tuple(file.get_slice(name).get_shape())
    return shapes


def tables(model: Any) -> list[torch.Tensor]:
    return [
        model.model.encoder.embed_tokens.weight,
        model.model.decoder.embed_tokens.weight,
        model.lm_head.weight,
    ]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("shard", ["1GB", "20KB"])
def test_a_loaded_model_gives_bit_equal_logits(variant: str, shard: str, tmp_path: Path) -> None:
    model = tiny_model(**VARIANTS[variant])
    model.save_pretrained(tmp_path, max_shard_size=shard)
    expected = logits(model)
    for kind in (VaswaniForConditionalGeneration, AutoModelForSeq2SeqLM):
        loaded, report = kind.from_pretrained(tmp_path, output_loading_info=True)
        assert torch.equal(logits(loaded), expected)
        assert not any(report[key] for key in ("missing_keys", "unexpected_keys"))


@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize("shard", ["1GB", "20KB"])
def test_each_table_is_stored_once(tie: str, shard: str, tmp_path: Path) -> None:
    """Trial 10: no error about shared memory, and the file holds each number once."""
    settings, count = TIES[tie]
    model = tiny_model(vocab_size=150, **settings)
    model.save_pretrained(tmp_path, max_shard_size=shard)
    shapes = stored(tmp_path)
    assert len([shape for shape in shapes.values() if shape == (150, 32)]) == count
    numbers = sum(torch.Size(shape).numel() for shape in shapes.values())
    assert numbers == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("tie", TIES)
def test_ties_hold_after_loading_and_training(tie: str, tmp_path: Path) -> None:
    """Owners of one table stay one: a step of the optimizer changes them together."""
    settings, count = TIES[tie]
    tiny_model(**settings).save_pretrained(tmp_path)
    model = VaswaniForConditionalGeneration.from_pretrained(tmp_path).train()
    assert len({table.data_ptr() for table in tables(model)}) == count
    assert len({id(table) for table in tables(model)}) == count
    before = [table.detach().clone() for table in tables(model)]
    input_ids, _ = padded(sentences(40, [5, 3]))
    labels, _ = padded(sentences(40, [4, 4], seed=1))
    model(input_ids=input_ids, labels=labels).loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert all(not torch.equal(old, new) for old, new in zip(before, tables(model), strict=True))
    if count == 1:
        assert torch.equal(tables(model)[0], tables(model)[2])


def test_tied_tables_are_never_those_of_another_size() -> None:
    """Separate vocabularies: the output belongs to the target's table."""
    model = tiny_model(**VARIANTS["separate_vocabularies"])
    shapes = [tuple(table.shape) for table in tables(model)]
    assert shapes == [(31, 32), (23, 32), (23, 32)]
    assert tables(model)[1] is tables(model)[2]


def test_the_inside_can_be_loaded_alone(tmp_path: Path) -> None:
    """From a checkpoint of the whole, by class and by Auto name; and the configuration too."""
    model = tiny_model()
    model.save_pretrained(tmp_path)
    for kind in (VaswaniModel, AutoModel):
        inside = kind.from_pretrained(tmp_path)
        assert isinstance(inside, VaswaniModel)
        for name, weight in model.model.state_dict().items():
            assert torch.equal(inside.state_dict()[name], weight)
    config = AutoConfig.from_pretrained(tmp_path)
    assert isinstance(config, VaswaniConfig)
    assert config.vocab_size == 40


def test_the_saved_configuration_names_every_auto_class(tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path)
    names = json.loads((tmp_path / "config.json").read_text())["auto_map"]
    assert {"AutoConfig", "AutoModel", "AutoModelForSeq2SeqLM"} <= set(names)
    for reference in names.values():
        module = reference.split(".")[0]
        assert (tmp_path / f"{module}.py").is_file()


def test_saving_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path / "one")
    again = VaswaniForConditionalGeneration.from_pretrained(tmp_path / "one")
    again.save_pretrained(tmp_path / "two")
    for name in ("model.safetensors", "config.json", "generation_config.json"):
        one, two = (tmp_path / folder / name for folder in ("one", "two"))
        assert one.read_bytes() == two.read_bytes(), name


def test_a_seed_fixes_the_initial_weights() -> None:
    def fresh(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        model = VaswaniForConditionalGeneration(tiny_config())
        return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])

    assert torch.equal(fresh(1), fresh(1))
    assert not torch.equal(fresh(1), fresh(2))
