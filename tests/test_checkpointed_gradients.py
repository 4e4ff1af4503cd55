"""Gradient checkpointing, frozen parts and synchronized training: every gradient still comes."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_model import VARIANTS, padded, sentences, tiny_model
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from vaswani.modeling_vaswani import VaswaniDecoderLayer, VaswaniEncoderLayer

REENTRANT = [True, False]


def batch() -> dict[str, torch.Tensor]:
    input_ids, mask = padded(sentences(23, [5, 3]))
    labels, _ = padded(sentences(23, [4, 4], seed=1))
    return {"input_ids": input_ids, "attention_mask": mask, "labels": labels}


def gradients(model: Any) -> dict[str, torch.Tensor | None]:
    model.zero_grad()
    # A fixed seed, so that dropout is the same with and without recomputation.
    torch.manual_seed(0)
    model(**batch()).loss.backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def freeze_encoder(model: Any) -> None:
    """All of it, and so the table of three owners too."""
    for parameter in model.get_encoder().parameters():
        parameter.requires_grad_(False)


@pytest.mark.parametrize("reentrant", REENTRANT)
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(
    "variant", ["paper", "no_ties", "separate_vocabularies", "learned_positions", "pre_norm"]
)
def test_gradient_checkpointing_changes_no_gradient(
    variant: str, frozen: bool, reentrant: bool
) -> None:
    settings = VARIANTS[variant] | {"encoder_pad_token_id": None}
    model = tiny_model(**settings, dropout=0.3, attention_dropout=0.2).double().train()
    if frozen:
        freeze_encoder(model)
    expected = gradients(model)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    if frozen and reentrant:
        # The older mode follows only inputs that want a gradient; Trainer and PEFT do this too.
        model.enable_input_require_grads()
    found = gradients(model)
    wanted = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert {name for name, gradient in found.items() if gradient is not None} == wanted
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0.0)


@pytest.mark.parametrize("reentrant", REENTRANT)
def test_checkpointed_layers_run_again_in_the_backward_pass(reentrant: bool) -> None:
    model = tiny_model().train()
    calls: Counter[str] = Counter()
    for module in model.modules():
        if isinstance(module, VaswaniEncoderLayer | VaswaniDecoderLayer):
            kind = type(module).__name__
            module.self_attn.register_forward_hook(lambda *_, kind=kind: calls.update([kind]))
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    gradients(model)
    assert calls == {"VaswaniEncoderLayer": 4, "VaswaniDecoderLayer": 4}
    model.gradient_checkpointing_disable()
    calls.clear()
    gradients(model)
    assert calls == {"VaswaniEncoderLayer": 2, "VaswaniDecoderLayer": 2}


@pytest.fixture
def one_process(tmp_path: Path) -> Any:
    """A process group of this process alone."""
    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1
    )
    yield
    distributed.destroy_process_group()


SYNCHRONIZED: dict[str, dict[str, Any]] = {
    "sinusoids": {},
    "learned": VARIANTS["learned_positions"],
    "two_tables": VARIANTS["two_tables"],
    "untied": VARIANTS["no_ties"],
    "separate": VARIANTS["separate_vocabularies"] | {"encoder_pad_token_id": None},
    "no_smoothing": {"label_smoothing": 0.0},
    "pre_norm_biases": {"normalize_before": True, "attention_bias": True, "output_bias": True},
    "additive": VARIANTS["additive"],
}


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("variant", SYNCHRONIZED)
def test_every_parameter_gets_its_gradient_in_ddp(
    variant: str, frozen: bool, checkpointing: bool, one_process: None
) -> None:
    """Trial 13: `find_unused_parameters=False` fails in the second step if one was left out."""
    model = tiny_model(**SYNCHRONIZED[variant]).train()
    if frozen:
        freeze_encoder(model)
    if checkpointing:
        model.gradient_checkpointing_enable()
    wrapped = DistributedDataParallel(model, find_unused_parameters=False)
    for _ in range(2):
        for name, gradient in gradients(wrapped).items():
            parameter = wrapped.get_parameter(name)
            assert (gradient is not None) == parameter.requires_grad, name


def test_ddp_does_find_a_parameter_that_is_left_out(one_process: None) -> None:
    """What the test above would see: a table that no forward pass reads."""
    model = tiny_model().train()
    model.left_out = torch.nn.Parameter(torch.zeros(3))
    wrapped = DistributedDataParallel(model, find_unused_parameters=False)
    gradients(wrapped)
    with pytest.raises(RuntimeError, match="Expected to have finished reduction"):
        gradients(wrapped)
