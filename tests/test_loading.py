"""Ways to load a model: from part of its names, on several devices, in other number formats."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save_file
from tiny_model import VARIANTS, padded, sentences, tiny_config, tiny_model
from torch import nn
from transformers import Trainer, TrainingArguments

from vaswani import VaswaniForConditionalGeneration, VaswaniModel
from vaswani.attention_scores_vaswani import VaswaniAdditiveScore
from vaswani.positions_vaswani import VaswaniLearnedPositions

SOURCE_TABLE = "model.encoder.embed_tokens.weight"
TARGET_TABLE = "model.decoder.embed_tokens.weight"
PROJECTION = "lm_head.weight"
# 150 entries of 32 features are 19 kB, and the whole model is 190 kB: several files of 100 kB.
WIDE = {"vocab_size": 150, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128}
TIES = {
    "one_table": {},
    "two_tables": VARIANTS["two_tables"],
    "three_tables": VARIANTS["no_ties"],
}


def batch() -> dict[str, torch.Tensor]:
    input_ids, mask = padded(sentences(40, [6, 3]))
    labels, _ = padded(sentences(40, [4, 2], seed=1))
    return {"input_ids": input_ids, "attention_mask": mask, "labels": labels}


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(**batch()).logits


def tables(model: Any) -> list[torch.Tensor]:
    return [
        model.model.encoder.embed_tokens.weight,
        model.model.decoder.embed_tokens.weight,
        model.lm_head.weight,
    ]


@pytest.mark.parametrize(
    ("tie", "names", "held"),
    [
        *(("one_table", [SOURCE_TABLE], [n]) for n in (SOURCE_TABLE, TARGET_TABLE, PROJECTION)),
        *(("two_tables", [TARGET_TABLE], [n]) for n in (TARGET_TABLE, PROJECTION)),
        ("one_table", [SOURCE_TABLE], [SOURCE_TABLE, TARGET_TABLE, PROJECTION]),
        ("two_tables", [TARGET_TABLE], [TARGET_TABLE, PROJECTION]),
    ],
)
def test_any_name_of_a_shared_table_is_enough(
    tie: str, names: list[str], held: list[str], tmp_path: Path
) -> None:
    """Other programs keep a table under another of its names, or under all of them."""
    model = tiny_model(**TIES[tie])
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    assert [name for name in (SOURCE_TABLE, TARGET_TABLE, PROJECTION) if name in weights] == (
        names if tie == "one_table" else [SOURCE_TABLE, TARGET_TABLE]
    )
    table = weights.pop(names[0])
    save_file(weights | {name: table.clone() for name in held}, path, metadata={"format": "pt"})
    loaded, report = VaswaniForConditionalGeneration.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert torch.equal(logits(loaded), logits(model))
    assert not report["missing_keys"] and not report["unexpected_keys"]
    shared = tables(loaded) if tie == "one_table" else tables(loaded)[1:]
    assert len({id(weight) for weight in shared}) == 1


@pytest.mark.parametrize("tie", TIES)
def test_several_files_hold_each_table_once(tie: str, tmp_path: Path) -> None:
    """Trial 10: files of at most 100 kB, and an index that names each weight's file."""
    model = tiny_model(**WIDE, **TIES[tie])
    model.save_pretrained(tmp_path, max_shard_size="100KB")
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) > 1
    assert all(file.stat().st_size < 105_000 for file in files)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    stored = {name: file.name for file in files for name in load_file(file)}
    assert stored == index
    assert set(stored) == {name for name, _ in model.named_parameters()}
    assert sum(len(load_file(file)) for file in files) == len(stored)
    loaded = VaswaniForConditionalGeneration.from_pretrained(tmp_path)
    assert torch.equal(logits(loaded), logits(model))


@pytest.mark.parametrize("shard", ["10GB", "100KB"])
@pytest.mark.parametrize("tie", TIES)
def test_accelerate_saves_each_table_once(tie: str, shard: str, tmp_path: Path) -> None:
    """Trial 10: what `Accelerator.save_model` writes is what `from_pretrained` reads."""
    model = tiny_model(**WIDE, **TIES[tie])
    Accelerator(cpu=True).save_model(model, tmp_path, max_shard_size=shard)
    model.config.save_pretrained(tmp_path)
    files = list(tmp_path.glob("*.safetensors"))
    assert (len(files) > 1) == (shard == "100KB")
    numbers = sum(tensor.numel() for file in files for tensor in load_file(file).values())
    assert numbers == sum(parameter.numel() for parameter in model.parameters())
    loaded, report = VaswaniForConditionalGeneration.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert torch.equal(logits(loaded), logits(model))


@pytest.mark.parametrize("tie", TIES)
def test_the_trainer_of_transformers_saves_each_table_once(tie: str, tmp_path: Path) -> None:
    """Trial 10: without any class of ours but the model."""
    model = tiny_model(**TIES[tie])
    args = TrainingArguments(output_dir=str(tmp_path / "run"), use_cpu=True, report_to="none")
    Trainer(model, args).save_model(str(tmp_path))
    stored = load_file(tmp_path / "model.safetensors")
    assert set(stored) == {name for name, _ in model.named_parameters()}
    loaded = VaswaniForConditionalGeneration.from_pretrained(tmp_path)
    assert torch.equal(logits(loaded), logits(model))


def spread(module: nn.Module, name: str) -> tuple[float, float]:
    """Mean and standard deviation that section 5's weights start with, by kind of module."""
    if isinstance(module, nn.LayerNorm):
        return float(name == "weight"), 0.0
    if name == "bias":
        return 0.0, 0.0
    weight = module.weight
    if isinstance(module, VaswaniLearnedPositions):
        return 0.0, 0.5**0.5
    if isinstance(module, nn.Embedding | VaswaniAdditiveScore):
        return 0.0, weight.shape[1] ** -0.5
    return 0.0, (2 / sum(weight.shape)) ** 0.5


@pytest.mark.parametrize("kind", [VaswaniModel, VaswaniForConditionalGeneration])
@pytest.mark.parametrize("variant", ["paper", "no_ties", "biases", "learned_positions", "additive"])
def test_initial_weights_are_made_for_every_parameter(kind: Any, variant: str) -> None:
    """A model built without memory has all of its numbers after `init_weights`, and ties them."""
    sizes = {"d_model": 64, "max_position_embeddings": 60}
    with torch.device("meta"):
        model = kind(tiny_config(**VARIANTS[variant] | sizes))
    assert all(parameter.is_meta for parameter in model.parameters())
    assert not list(model.buffers())
    model.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(float("nan"))
    torch.manual_seed(0)
    model.init_weights()
    named = {id(parameter): name for name, parameter in model.named_parameters()}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            path = named.pop(id(parameter), None)
            if path is None or (path == PROJECTION and variant != "no_ties"):
                continue
            mean, deviation = spread(module, name)
            # Four standard errors.
            margin = 4 * deviation * parameter.numel() ** -0.5
            assert abs(parameter.mean().item() - mean) <= margin, path
            assert parameter.std().item() == pytest.approx(
                deviation, abs=4 * deviation * (2 * parameter.numel()) ** -0.5
            ), path
    assert not named
    assert len({id(parameter) for parameter in model.parameters()}) == len(
        {parameter.data_ptr() for parameter in model.parameters()}
    )


MAPS: dict[str, Any] = {
    "cpu": "cpu",
    "auto": "auto",
    "whole": {"": "cpu"},
    "tables_on_disk": {
        "model.encoder.embed_tokens": "disk",
        "model.encoder.layers": "cpu",
        "model.decoder.embed_tokens": "disk",
        "model.decoder.layers": "cpu",
        "lm_head": "disk",
    },
    "layers_on_disk": {
        "model.encoder": "cpu",
        "model.decoder.embed_tokens": "cpu",
        "model.decoder.layers.0": "cpu",
        "model.decoder.layers.1": "disk",
        "lm_head": "cpu",
    },
}


@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize("where", MAPS)
def test_a_model_spread_over_devices_computes_the_same(
    where: str, tie: str, tmp_path: Path
) -> None:
    """Logits, both ways to the loss, and a search."""
    model = tiny_model(**TIES[tie])
    model.save_pretrained(tmp_path / "model")
    loaded = VaswaniForConditionalGeneration.from_pretrained(
        tmp_path / "model", device_map=MAPS[where], offload_folder=str(tmp_path / "disk")
    )
    assert torch.equal(logits(loaded), logits(model))
    on_disk = {name for name, parameter in loaded.named_parameters() if parameter.is_meta}
    assert bool(on_disk) == where.endswith("on_disk")
    with torch.no_grad():
        expected = model(**batch()).loss
        for wanted in (True, False):
            found = loaded(**batch(), return_logits=wanted).loss
            torch.testing.assert_close(found, expected, atol=1e-6, rtol=0.0)
    source = {key: batch()[key] for key in ("input_ids", "attention_mask")}
    tokens = loaded.generate(**source, max_new_tokens=5)
    assert tokens.tolist() == model.generate(**source, max_new_tokens=5).tolist()


def test_a_map_is_made_of_the_memory_there_is(tmp_path: Path) -> None:
    """`device_map="auto"` with little memory puts whole layers on disk, and the table once."""
    model = tiny_model(encoder_layers=4, decoder_layers=4)
    model.save_pretrained(tmp_path / "model")
    loaded = VaswaniForConditionalGeneration.from_pretrained(
        tmp_path / "model",
        device_map="auto",
        max_memory={"cpu": 150_000},
        offload_folder=str(tmp_path / "disk"),
    )
    places = loaded.hf_device_map
    assert {"cpu", "disk"} == {str(place) for place in places.values()}
    for name in places:
        assert ".layers." not in name or name.split(".layers.")[1].isdigit()
    assert torch.equal(logits(loaded), logits(model))


# What one rounding of each format may make of a logit of these models, whose size is about 2.
ROUNDED = {torch.bfloat16: 0.1, torch.float16: 0.02, torch.float32: 0.0}


@pytest.mark.parametrize("wanted", [torch.bfloat16, torch.float16, "bfloat16", "float32", None])
@pytest.mark.parametrize("tie", TIES)
def test_a_number_format_can_be_chosen_at_loading(wanted: Any, tie: str, tmp_path: Path) -> None:
    """All weights get it, ties hold, and the numbers are those of float32, rounded."""
    model = tiny_model(**TIES[tie])
    model.save_pretrained(tmp_path)
    options = {} if wanted is None else {"dtype": wanted}
    loaded = VaswaniForConditionalGeneration.from_pretrained(tmp_path, **options)
    expected = {"bfloat16": torch.bfloat16, "float32": torch.float32, None: torch.float32}
    dtype = expected.get(wanted, wanted)
    assert {parameter.dtype for parameter in loaded.parameters()} == {dtype}
    assert loaded.dtype == dtype
    found = logits(loaded)
    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), logits(model), atol=ROUNDED[dtype], rtol=0.0)
    loss = loaded(**batch(), return_logits=False).loss
    assert loss.dtype == torch.float32 and torch.isfinite(loss)
    tokens = loaded.generate(batch()["input_ids"], max_new_tokens=4, num_beams=3)
    assert tokens.shape[0] == 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_saved_number_format_is_found_again(dtype: torch.dtype, tmp_path: Path) -> None:
    model = tiny_model().to(dtype)
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == str(dtype)[6:]
    for options in ({}, {"dtype": "auto"}):
        loaded = VaswaniForConditionalGeneration.from_pretrained(tmp_path, **options)
        assert loaded.dtype == dtype
        assert torch.equal(logits(loaded), logits(model))
    wide = VaswaniForConditionalGeneration.from_pretrained(tmp_path, dtype=torch.float32)
    assert wide.dtype == torch.float32


@pytest.mark.parametrize("low", [True, False])
def test_the_old_name_of_frugal_loading_is_taken(low: bool, tmp_path: Path) -> None:
    model = tiny_model()
    model.save_pretrained(tmp_path)
    loaded = VaswaniForConditionalGeneration.from_pretrained(tmp_path, low_cpu_mem_usage=low)
    assert torch.equal(logits(loaded), logits(model))


@pytest.mark.parametrize("tie", TIES)
def test_ties_can_be_renewed(tie: str) -> None:
    """`tie_weights` makes one of tables that were parted, as after a `setattr`."""
    model = tiny_model(**TIES[tie])
    count = len({id(table) for table in tables(model)})
    model.lm_head.weight = nn.Parameter(torch.zeros_like(model.lm_head.weight))
    model.model.decoder.embed_tokens.weight = nn.Parameter(torch.ones(40, 32))
    model.tie_weights()
    assert len({id(table) for table in tables(model)}) == count
    if count < 3:
        assert model.lm_head.weight is model.model.decoder.embed_tokens.weight


def test_parts_are_found_by_their_usual_names() -> None:
    model = tiny_model()
    inside = model.model
    for owner in (model, inside):
        assert owner.get_encoder() is inside.encoder
        assert owner.get_decoder() is inside.decoder
        assert owner.get_input_embeddings() is inside.encoder.embed_tokens
        assert owner.base_model is inside
    assert model.get_output_embeddings() is model.lm_head
    assert inside.get_output_embeddings() is None
