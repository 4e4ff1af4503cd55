"""Training on real tokens only gives the loss and the gradients of the padded batch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import VARIANTS, tiny_model
from torch import Tensor, nn

from vaswani import modeling_vaswani
from vaswani.packing_vaswani import BatchPacking, SidePacking, batch_packing

# In float64 a different order of summation moves nothing above this.
EXACT = {"atol": 1e-12, "rtol": 0.0}
# Those of the variants whose keys and values have one size and no score of their own.
PACKED_VARIANTS = ("paper", "no_ties", "unequal_widths", "separate_vocabularies", "biases")
PACKED_VARIANTS += ("learned_positions", "pre_norm")


@contextmanager
def packings(forbid: bool = False) -> Iterator[list[BatchPacking | None]]:
    """Collects what the model decides; with `forbid` every batch stays padded."""
    found: list[BatchPacking | None] = []

    def spy(*arguments: Any) -> BatchPacking | None:
        found.append(None if forbid else batch_packing(*arguments))
        return found[-1]

    with patch.object(modeling_vaswani, "batch_packing", spy):
        yield found


def batch(source: list[list[int]], target: list[list[int]]) -> dict[str, Tensor]:
    """Random ids for patterns of 0 and 1: the source's mask, and which labels count."""
    generator = torch.Generator().manual_seed(0)
    mask, counted = torch.tensor(source), torch.tensor(target)
    ids = torch.randint(8, 23, mask.shape, generator=generator)
    labels = torch.randint(8, 23, counted.shape, generator=generator)
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "labels": labels.masked_fill(counted == 0, -100),
    }


PADDED = batch([[1, 1, 1, 0], [1, 1, 1, 1], [1, 0, 0, 0]], [[1, 1, 0], [1, 0, 0], [1, 1, 1]])


def gradients(model: Any, inputs: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    model.zero_grad()
    loss = model(**inputs, return_logits=False).loss
    loss.backward()
    return loss.detach(), {name: weight.grad for name, weight in model.named_parameters()}


def assert_same_as_padded(model: Any, inputs: dict[str, Tensor]) -> BatchPacking | None:
    with packings(forbid=True):
        wanted = gradients(model, inputs)
    with packings() as found:
        got = gradients(model, inputs)
    torch.testing.assert_close(got, wanted, **EXACT)
    return found[0]


@st.composite
def patterns(draw: Any) -> tuple[list[list[int]], list[list[int]]]:
    """Masks of any kind: padding on either side and in the middle, empty rows, rows of one."""
    rows = draw(st.integers(1, 6))
    sides = []
    for _ in range(2):
        width = draw(st.integers(1, 12))
        row = st.one_of(
            st.lists(st.integers(0, 1), min_size=width, max_size=width),
            st.integers(1, width).map(lambda real, w=width: [1] * real + [0] * (w - real)),
        )
        sides.append(draw(st.lists(row, min_size=rows, max_size=rows)))
    return sides[0], sides[1]


@given(patterns())
@settings(max_examples=60, deadline=None)
def test_packing_changes_neither_loss_nor_gradients(pattern: Any) -> None:
    source, target = pattern
    packing = assert_same_as_padded(
        tiny_model(vocab_size=23, label_smoothing=0.1).double().train(), batch(source, target)
    )
    ends = [max((place + 1 for place, one in enumerate(row) if one), default=0) for row in target]
    real = [sum(row) for row in source]
    full = all(map(all, source)) and all(end == len(target[0]) for end in ends)
    assert (packing is None) == (full or not all(real) or not all(ends))
    if packing is not None:
        assert packing.source.positions.shape == (1, sum(real))
        assert packing.target.positions.shape == (1, sum(ends))


@pytest.mark.parametrize("reentrant", [None, True, False])
@pytest.mark.parametrize("variant", PACKED_VARIANTS)
def test_packing_changes_no_variant(variant: str, reentrant: bool | None) -> None:
    """With and without gradient checkpointing."""
    variant_settings = {"vocab_size": 23, **VARIANTS[variant]}
    model = tiny_model(**variant_settings).double().train()
    if reentrant is not None:
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    assert assert_same_as_padded(model, PADDED) is not None


@pytest.mark.parametrize("given_as", ["ids", "embeddings", "lengths", "both_decoder_inputs"])
def test_packing_takes_any_form_of_input(given_as: str) -> None:
    model = tiny_model(vocab_size=23).double().train()
    inputs = dict(PADDED)
    if given_as == "embeddings":
        inputs["inputs_embeds"] = model.get_encoder().embed_tokens(inputs.pop("input_ids")).detach()
    elif given_as == "lengths":
        inputs["source_lengths"] = inputs.pop("attention_mask").sum(1)
    elif given_as == "both_decoder_inputs":
        inputs["decoder_input_ids"] = torch.full((3, 3), 9)
    assert assert_same_as_padded(model, inputs) is not None


def test_rows_of_very_different_lengths_are_grouped() -> None:
    """Several groups, one of them of rows that are all as long."""
    lengths = [40, 38, 20, 20, 5, 4, 1]
    source = [[1] * length + [0] * (40 - length) for length in lengths]
    model = tiny_model(vocab_size=23).double().train()
    packing = assert_same_as_padded(model, batch(source, source))
    assert packing is not None
    assert [group.queries.shape for group in packing.source_attention] == [
        (2, 40),
        (2, 20),
        (2, 5),
        (1, 1),
    ]


def test_layers_see_real_tokens_only() -> None:
    """Whatever works token by token gets as many rows as there are tokens."""
    model = tiny_model(vocab_size=23).train()
    seen = set()
    plain = modeling_vaswani.project

    def spy(module: nn.Module, states: Tensor) -> Tensor:
        seen.add(states.shape[:-1])
        return plain(module, states)

    with patch.object(modeling_vaswani, "project", spy):
        model(**PADDED, return_logits=False)
    assert seen == {(1, 8), (1, 6)}


def test_packed_tokens_come_back_to_their_places() -> None:
    real = torch.tensor([[0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 1]]).bool()
    side = SidePacking(real, torch.tensor([1, 0, 2]))
    values = torch.arange(1.0, 13).view(3, 4)
    assert side.pack(values).tolist() == [[5, 6, 7, 8, 2, 3, 12]]
    assert side.positions.tolist() == [[0, 1, 2, 3, 0, 1, 0]]
    assert torch.equal(side.unpack(side.pack(values)), values * real)


def test_outputs_of_a_packed_batch_have_its_shape() -> None:
    """Real places hold what the padded batch has there, the others nothing."""
    model = tiny_model(vocab_size=23).double().train()
    with packings(forbid=True):
        wanted = model(**PADDED)
    with packings() as found:
        got = model(**PADDED)
    assert found[0] is not None
    assert got.logits.shape == wanted.logits.shape
    target = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1]]).bool()
    source = PADDED["attention_mask"].bool()
    torch.testing.assert_close(got.logits[target], wanted.logits[target], **EXACT)
    encoded = got.encoder_last_hidden_state
    wanted_encoded = wanted.encoder_last_hidden_state
    torch.testing.assert_close(encoded[source], wanted_encoded[source], **EXACT)
    assert not encoded[~source].any()


def test_no_cache_is_made_in_training_but_on_request() -> None:
    model = tiny_model(vocab_size=23).train()
    assert model(**PADDED).cache is None
    assert model(**PADDED, use_cache=True).cache is not None


def hook_on_a_layer(model: Any) -> dict[str, Any]:
    model.get_encoder().layers[0].feed_forward.register_forward_hook(lambda *_: None)
    return {}


def hook_before_the_table(model: Any) -> dict[str, Any]:
    model.get_decoder().embed_tokens.register_forward_pre_hook(lambda *_: None)
    return {}


def eager(model: Any) -> dict[str, Any]:
    model.set_attn_implementation("eager")
    return {}


def hidden_states_by_config(model: Any) -> dict[str, Any]:
    model.config.output_hidden_states = True
    return {}


UNPACKED: dict[str, Callable[[Any], dict[str, Any]]] = {
    "evaluation": lambda model: model.eval() and {},
    "eager": eager,
    "attentions": lambda model: {"output_attentions": True},
    "hidden_states": lambda model: {"output_hidden_states": True},
    "by_config": hidden_states_by_config,
    "cache": lambda model: {"use_cache": True},
    "target_mask": lambda model: {"decoder_attention_mask": torch.ones(3, 3)},
    "hook": hook_on_a_layer,
    "pre_hook": hook_before_the_table,
}


@pytest.mark.parametrize("case", UNPACKED)
def test_batches_stay_padded_where_shapes_are_seen(case: str) -> None:
    model = tiny_model(vocab_size=23).train()
    more = UNPACKED[case](model)
    with packings() as found:
        model(**PADDED, **more)
    assert found == [None]


def test_hidden_states_can_be_asked_for_between_packed_batches() -> None:
    """transformers leaves hooks behind, which sleep."""
    model = tiny_model(vocab_size=23).train()
    with packings() as found:
        model(**PADDED, output_hidden_states=True)
        model(**PADDED)
    assert found[0] is None and found[1] is not None


@pytest.mark.parametrize("variant", ["wide_values", "narrow_keys", "additive"])
def test_batches_stay_padded_where_the_kernel_does_not_fit(variant: str) -> None:
    model = tiny_model(vocab_size=23, **VARIANTS[variant]).train()
    with packings() as found:
        model(**PADDED)
    assert found == [None]


def test_batches_stay_padded_with_dropout_on_attention() -> None:
    model = tiny_model(vocab_size=23, attention_dropout=0.1).train()
    with packings() as found:
        model(**PADDED)
    assert found == [None]
