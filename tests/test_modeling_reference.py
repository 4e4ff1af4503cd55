"""The model agrees with a naive second implementation and with torch.nn, forward and gradients."""

import math
from typing import Any

import pytest
import reference
import torch
from tiny_model import EAGER_ONLY, TINY, VARIANTS, leaves, padded, sentences, tiny_model
from torch import Tensor, nn

# Both sides compute in float32; sums over at most 80 features leave this much in the last digits.
TOLERANCE = {"atol": 1e-5, "rtol": 1e-5}
KINDS = ("weight", "bias")


def batch_for(settings: dict[str, Any]) -> dict[str, Any]:
    """A batch with padding on both sides, as lists for the reference and tensors for the model."""
    source_words = settings.get("encoder_vocab_size") or settings["vocab_size"]
    source_pad = settings.get("encoder_pad_token_id") or 0
    sources = sentences(source_words, [7, 4, 2], avoid=source_pad)
    labels = sentences(settings["vocab_size"], [3, 6, 5], seed=1)
    input_ids, mask = padded(sources, pad=source_pad)
    label_ids, _ = padded(labels, pad=-100)
    starts = [[1, *row[:-1]] for row in labels]
    decoder_ids, real_targets = padded(starts)
    return {
        "input_ids": input_ids,
        "attention_mask": mask,
        "decoder_input_ids": decoder_ids,
        "labels": label_ids,
        "real_targets": real_targets.bool(),
    }


def reference_logits(
    weights: dict[str, Tensor], settings: dict[str, Any], batch: dict[str, Any]
) -> Tensor:
    return reference.logits(
        weights,
        settings,
        batch["input_ids"].tolist(),
        batch["attention_mask"].bool().tolist(),
        batch["decoder_input_ids"].tolist(),
    )


@pytest.mark.parametrize(
    ("variant", "attention"),
    [
        *((variant, "eager") for variant in VARIANTS),
        *((variant, "sdpa") for variant in VARIANTS if variant not in EAGER_ONLY),
    ],
)
def test_logits_equal_those_of_the_reference(variant: str, attention: str) -> None:
    settings = {**TINY, **VARIANTS[variant]}
    model = tiny_model(attention=attention, **VARIANTS[variant])
    batch = batch_for(settings)
    weights, _ = leaves(model)
    expected = reference_logits(weights, settings, batch)
    with torch.no_grad():
        got = model(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            decoder_input_ids=batch["decoder_input_ids"],
        ).logits
    real = batch["real_targets"]
    torch.testing.assert_close(got[real], expected[real], **TOLERANCE)


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_equal_those_of_the_reference(variant: str) -> None:
    """Of every parameter, through the smoothed loss of training; tied tables sum their owners'."""
    settings = {**TINY, **VARIANTS[variant]}
    model = tiny_model(**VARIANTS[variant]).train()
    batch = batch_for(settings)
    weights, by_id = leaves(model)
    scores = reference_logits(weights, settings, batch)
    expected = reference.smoothed_loss(scores, batch["labels"].tolist(), epsilon=0.1)
    expected.backward()
    loss = model(
        input_ids=batch["input_ids"],
        attention_mask=batch["attention_mask"],
        labels=batch["labels"],
    ).loss
    loss.backward()
    torch.testing.assert_close(loss, expected, **TOLERANCE)
    assert len(list(model.parameters())) == len(by_id)
    for name, parameter in model.named_parameters():
        wanted = by_id[id(parameter)].grad
        assert wanted is not None, f"{name} takes no part in the loss"
        torch.testing.assert_close(
            parameter.grad, wanted, **TOLERANCE, msg=lambda text, name=name: f"{name}: {text}"
        )


def torch_attention(theirs: nn.MultiheadAttention, ours: nn.Module) -> dict[Tensor, list[Tensor]]:
    """Copies weights; returns which of our parameters make up each of theirs."""
    pairs = {}
    for kind in ("weight", "bias"):
        fused = [getattr(getattr(ours, f"{name}_proj"), kind) for name in "qkv"]
        pairs[getattr(theirs, f"in_proj_{kind}")] = fused
        pairs[getattr(theirs.out_proj, kind)] = [getattr(ours.out_proj, kind)]
    return pairs


def torch_layer(theirs: nn.Module, ours: nn.Module) -> dict[Tensor, list[Tensor]]:
    """The same for a whole layer: attention, feed-forward and norms."""
    pairs = torch_attention(theirs.self_attn, ours.self_attn)
    modules = [(theirs.norm1, ours.self_attn_layer_norm)]
    if isinstance(theirs, nn.TransformerDecoderLayer):
        pairs |= torch_attention(theirs.multihead_attn, ours.encoder_attn)
        modules += [(theirs.norm2, ours.encoder_attn_layer_norm)]
        modules += [(theirs.norm3, ours.final_layer_norm)]
    else:
        modules += [(theirs.norm2, ours.final_layer_norm)]
    modules += [(theirs.linear1, ours.feed_forward.fc1), (theirs.linear2, ours.feed_forward.fc2)]
    for their_module, our_module in modules:
        for kind in ("weight", "bias"):
            pairs[getattr(their_module, kind)] = [getattr(our_module, kind)]
    with torch.no_grad():
        for parameter, parts in pairs.items():
            parameter.copy_(torch.cat(parts))
    assert len(pairs) == len(list(ours.parameters())) - 4 * (
        2 if isinstance(theirs, nn.TransformerDecoderLayer) else 1
    )
    return pairs


def embedded(table: Tensor, ids: Tensor) -> Tensor:
    """Section 3.4 and 3.5, from the formula."""
    width = table.shape[1]
    positions = torch.stack([reference.sinusoid(p, width) for p in range(ids.shape[1])])
    return table.detach()[ids] * math.sqrt(width) + positions.to(table.dtype)


def torch_layers(model: nn.Module) -> tuple[list[nn.Module], list[nn.Module], dict]:
    """torch.nn's layers with the weights of the model's, encoder first, and the pairing."""
    before = model.config.normalize_before
    common = {"d_model": 32, "nhead": 4, "dim_feedforward": 64, "dropout": 0.0}
    common |= {"layer_norm_eps": 1e-6, "batch_first": True, "norm_first": before}
    encoders, decoders, pairs = [], [], {}
    for ours in model.model.encoder.layers:
        encoders.append(nn.TransformerEncoderLayer(**common, activation="relu"))
        pairs |= torch_layer(encoders[-1], ours)
    for ours in model.model.decoder.layers:
        decoders.append(nn.TransformerDecoderLayer(**common, activation="relu"))
        pairs |= torch_layer(decoders[-1], ours)
    if before:
        # What `nn.TransformerEncoder(..., norm=nn.LayerNorm(...))` ends with.
        for layers, stack in ((encoders, model.model.encoder), (decoders, model.model.decoder)):
            layers.append(nn.LayerNorm(32, eps=1e-6))
            layers[-1].load_state_dict(stack.layer_norm.state_dict())
            pairs |= {getattr(layers[-1], k): [getattr(stack.layer_norm, k)] for k in KINDS}
    return encoders, decoders, pairs


def run(layers: list[nn.Module], states: Tensor, *memory: Tensor, **masks: Tensor) -> Tensor:
    """The states after all layers; the norm at the end takes nothing else."""
    for layer in layers:
        is_norm = isinstance(layer, nn.LayerNorm)
        states = layer(states) if is_norm else layer(states, *memory, **masks)
    return states


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("before", [False, True], ids=["post_norm", "pre_norm"])
def test_layers_equal_those_of_torch(attention: str, before: bool) -> None:
    """Forward and gradients of all layers, stacked as the paper stacks them, or norm first."""
    settings = {"attention_bias": True, "normalize_before": before}
    model = tiny_model(attention=attention, **settings).train()
    encoders, decoders, pairs = torch_layers(model)
    batch = batch_for(TINY)
    source_ids, target_ids = batch["input_ids"], batch["decoder_input_ids"]
    hidden_keys = batch["attention_mask"] == 0
    later = torch.ones(target_ids.shape[1], target_ids.shape[1]).triu(1).bool()

    memory = embedded(model.model.encoder.embed_tokens.weight, source_ids)
    memory = run(encoders, memory, src_key_padding_mask=hidden_keys)
    expected = embedded(model.model.decoder.embed_tokens.weight, target_ids)
    expected = run(decoders, expected, memory, tgt_mask=later, memory_key_padding_mask=hidden_keys)
    output = model.model(
        input_ids=source_ids,
        attention_mask=batch["attention_mask"],
        decoder_input_ids=target_ids,
    )
    shown = ~hidden_keys
    real = batch["real_targets"]
    torch.testing.assert_close(output.encoder_last_hidden_state[shown], memory[shown], **TOLERANCE)
    torch.testing.assert_close(output.last_hidden_state[real], expected[real], **TOLERANCE)

    direction = torch.randn(expected[real].shape, generator=torch.Generator().manual_seed(3))
    (expected[real] * direction).sum().backward()
    (output.last_hidden_state[real] * direction).sum().backward()
    for parameter, parts in pairs.items():
        got = torch.cat([part.grad for part in parts])
        # The sum that is differentiated is not a mean: gradients reach 10, hence relative.
        torch.testing.assert_close(got, parameter.grad, atol=1e-5, rtol=1e-4)
