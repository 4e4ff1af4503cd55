"""Models cut over two processes compute what one process computes."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from parallel_worker import measured
from tiny_model import VARIANTS, padded, sentences, tiny_model
from torch import nn
from transformers.distributed.parallel_utils import replace_layer_number_by_wildcard

from vaswani import VaswaniForConditionalGeneration
from vaswani.modeling_vaswani import VaswaniMultiHeadAttention

TESTS = Path(__file__).resolve().parent
# An odd number of entries leaves the second process the smaller part.
MODELS: dict[str, dict[str, Any]] = {
    "one_table": {"vocab_size": 41},
    "two_tables": {"share_encoder_decoder_embeddings": False, "label_smoothing": 0.0},
    "three_tables": {**VARIANTS["no_ties"], "vocab_size": 41, "output_bias": True},
    "separate": VARIANTS["separate_vocabularies"],
    "additive": {**VARIANTS["additive"], "attention_bias": True},
    "learned": {
        "position_encoding": "learned",
        "normalize_before": True,
        **VARIANTS["wide_values"],
    },
}
# Sums in another order.
FLOAT32: dict[str, float] = {"atol": 1e-5, "rtol": 1e-4}


def batch_for(model: Any) -> dict[str, torch.Tensor]:
    pad = model.config.source_pad_token_id
    input_ids, mask = padded(sentences(23, [7, 4, 5], avoid=pad), pad=pad)
    labels, _ = padded(sentences(23, [5, 6, 3], seed=1))
    return {"input_ids": input_ids, "attention_mask": mask, "labels": labels}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every model and what two processes made of it."""
    folder = tmp_path_factory.mktemp("parallel")
    for name, settings in MODELS.items():
        model = tiny_model(**settings)
        model.save_pretrained(folder / name)
        torch.save(batch_for(model), folder / name / "batch.pt")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node"]
    done = subprocess.run(
        [*launch, "2", str(TESTS / "parallel_worker.py"), str(folder)],
        env={**os.environ, "PYTHONPATH": f"{TESTS.parent}:{TESTS}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.distributed
@pytest.mark.parametrize("kind", ["tp", "fsdp"])
@pytest.mark.parametrize("name", MODELS)
def test_two_processes_compute_what_one_computes(name: str, kind: str, ran: Path) -> None:
    """Logits, loss with and without logits, gradients, tokens, and the weights after an update."""
    both = torch.load(ran / f"{name}-{kind}.pt")
    model = VaswaniForConditionalGeneration.from_pretrained(ran / name)
    alone = measured(model, torch.load(ran / name / "batch.pt"))
    assert both["tokens"] == alone["tokens"]
    for part in ("logits", "losses", "gradients", "weights"):
        torch.testing.assert_close(both[part], alone[part], **FLOAT32)
    again = VaswaniForConditionalGeneration.from_pretrained(ran / "again" / f"{name}-{kind}")
    saved = dict(again.named_parameters())
    torch.testing.assert_close(saved, both["weights"], atol=0.0, rtol=0.0)


@pytest.mark.slow
@pytest.mark.distributed
@pytest.mark.parametrize("name", MODELS)
def test_each_process_holds_half_of_what_is_cut(name: str, ran: Path) -> None:
    """Tensor parallelism cuts matrices, fully sharded data parallelism every weight."""
    whole = dict(tiny_model(**MODELS[name]).named_parameters())
    held = {kind: torch.load(ran / f"{name}-{kind}.pt")["held"] for kind in ("tp", "fsdp")}
    for parameter_name, weight in whole.items():
        half = -(-len(weight) // 2) * weight[0].numel()
        assert held["fsdp"][parameter_name] == half
        replicated = any(part in parameter_name for part in ("norm", "positions", "fc2.bias"))
        replicated |= parameter_name.endswith("out_proj.bias")
        if replicated:
            assert held["tp"][parameter_name] == weight.numel()
        else:
            assert held["tp"][parameter_name] in (half, weight.numel() // 2)


@pytest.mark.parametrize("name", MODELS)
def test_every_rule_names_a_part_of_the_model_and_every_matrix_has_a_rule(name: str) -> None:
    model = tiny_model(**MODELS[name])
    modules = {replace_layer_number_by_wildcard(n): m for n, m in model.named_modules()}
    parameters = {replace_layer_number_by_wildcard(n) for n, _ in model.named_parameters()}
    for plan in (model.tp_plan, model.fsdp_plan):
        assert set(plan) <= {*modules, *parameters}
    matrices = {
        path
        for path, module in modules.items()
        if isinstance(module, nn.Linear) or (type(module) is nn.Embedding)
    }
    assert matrices <= set(model.tp_plan)
    inside = model.model
    assert {f"model.{path}" for path in inside.tp_plan} | {"lm_head"} == set(model.tp_plan)
    assert {f"model.{path}" for path in inside.fsdp_plan} == set(model.fsdp_plan)
    layers = {f"model.{stack}.layers.*" for stack in ("encoder", "decoder")}
    assert layers <= set(model.fsdp_plan)


def test_attention_is_cut_by_whole_heads() -> None:
    """What feeds heads is cut by rows, and what they feed by columns, in all three attentions."""
    model = tiny_model()
    attentions = {
        replace_layer_number_by_wildcard(path)
        for path, module in model.named_modules()
        if isinstance(module, VaswaniMultiHeadAttention)
    }
    assert len(attentions) == 3
    for path in attentions:
        assert [model.tp_plan[f"{path}.{kind}_proj"] for kind in ("q", "k", "v", "out")] == [
            *["colwise"] * 3,
            "rowwise",
        ]


def test_wrapping_by_layers_names_the_layers() -> None:
    """accelerate's FSDP and `device_map` read `_no_split_modules`."""
    model = tiny_model()
    kinds = {
        type(module).__name__
        for stack in (model.model.encoder, model.model.decoder)
        for module in stack.layers
    }
    assert kinds == set(model._no_split_modules)


def test_plans_are_not_written_into_the_configuration(tmp_path: Path) -> None:
    model = tiny_model()
    model.save_pretrained(tmp_path)
    assert "plan" not in (tmp_path / "config.json").read_text()
