"""The loss of section 5.4: against its definition, against torch, and without a table of logits."""

from typing import Any

import pytest
import reference
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import padded, sentences, tiny_model
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.trainer_pt_utils import LabelSmoother

from vaswani.loss_vaswani import CHUNK, projected_cross_entropy, smoothed_cross_entropy

SOURCES = sentences(40, [7, 3, 5])
LABELS = sentences(40, [4, 6, 2], seed=1)
FORMULAS = ["uniform", "others", "others_not_pad"]
# Sums of about 500 float64 terms.
EXACT = {"atol": 1e-11, "rtol": 1e-11}


def batch(
    labels: list[list[int]] = LABELS, *, pad: int = -100, extra: int = 0
) -> dict[str, Tensor]:
    input_ids, mask = padded(SOURCES)
    label_ids, _ = padded(labels, pad=pad, extra=extra)
    return {"input_ids": input_ids, "attention_mask": mask, "labels": label_ids}


def training_model(**settings: Any) -> Any:
    return tiny_model(**settings).double().train()


def gradients(model: Any, **inputs: Any) -> tuple[Any, dict[str, Tensor]]:
    """The output, and the gradient of its loss for every parameter."""
    model.zero_grad(set_to_none=True)
    output = model(**inputs)
    output.loss.backward()
    return output, {name: weight.grad for name, weight in model.named_parameters()}


@given(epsilon=st.floats(0.0, 0.9), formula=st.sampled_from(FORMULAS))
@settings(max_examples=20, deadline=None)
def test_loss_is_the_smoothed_cross_entropy_of_its_formula(epsilon: float, formula: str) -> None:
    model = training_model(label_smoothing=epsilon, smoothing_formula=formula)
    with torch.no_grad():
        output = model(**batch())
    expected = reference.smoothed_loss(
        output.logits, batch()["labels"].tolist(), epsilon=epsilon, formula=formula
    )
    torch.testing.assert_close(output.loss, expected, **EXACT)


@pytest.mark.parametrize("formula", FORMULAS)
def test_loss_without_smoothing_is_cross_entropy(formula: str) -> None:
    """Trial 18."""
    model = training_model(label_smoothing=0.0, smoothing_formula=formula)
    output = model(**batch())
    expected = F.cross_entropy(output.logits.flatten(0, 1), batch()["labels"].flatten())
    torch.testing.assert_close(output.loss, expected, **EXACT)


def test_uniform_formula_is_that_of_torch_and_trainer() -> None:
    output = training_model(label_smoothing=0.1)(**batch())
    labels = batch()["labels"]
    torchs = F.cross_entropy(output.logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1)
    torch.testing.assert_close(output.loss, torchs, **EXACT)
    trainers = LabelSmoother(epsilon=0.1)({"logits": output.logits}, labels)
    # The library sums over the vocabulary in float32.
    torch.testing.assert_close(output.loss, trainers, atol=0.0, rtol=1e-6)


def test_loss_in_evaluation_is_plain() -> None:
    """So that exp(loss) is the perplexity."""
    model = training_model(label_smoothing=0.1)
    smoothed = model(**batch()).loss
    output = model.eval()(**batch())
    expected = F.cross_entropy(output.logits.flatten(0, 1), batch()["labels"].flatten())
    torch.testing.assert_close(output.loss, expected, **EXACT)
    assert abs(smoothed - output.loss) > 1e-3


@pytest.mark.parametrize("return_logits", [True, False])
@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("pad", [-100, 0])
def test_padding_takes_no_part_in_the_loss(formula: str, pad: int, return_logits: bool) -> None:
    """Trial 18: ten more columns of padding, or of -100, change neither loss nor gradients."""
    model = training_model(label_smoothing=0.1, smoothing_formula=formula)
    short, wanted = gradients(model, **batch(), return_logits=return_logits)
    long, got = gradients(model, **batch(pad=pad, extra=10), return_logits=return_logits)
    torch.testing.assert_close(long.loss, short.loss, **EXACT)
    torch.testing.assert_close(got, wanted, **EXACT)


@pytest.mark.parametrize("return_logits", [True, False])
def test_a_label_that_is_padding_is_not_a_target(return_logits: bool) -> None:
    """Trial 18: also in the middle of a sentence."""
    model = training_model(label_smoothing=0.1)
    with_pad = model(**batch([[5, 0, 7, 2]] * 3), return_logits=return_logits).loss
    # The decoder's input is fixed, so that only the label differs.
    decoder_ids = torch.tensor([[1, 5, 0, 7]] * 3)
    ignored = batch([[5, -100, 7, 2]] * 3)
    expected = model(**ignored, decoder_input_ids=decoder_ids, return_logits=return_logits).loss
    torch.testing.assert_close(with_pad, expected, **EXACT)


@pytest.mark.parametrize("items", [7, torch.tensor(7)], ids=["int", "tensor"])
@pytest.mark.parametrize("return_logits", [True, False])
def test_loss_is_the_sum_over_the_items_of_the_update(items: Any, return_logits: bool) -> None:
    model = training_model(label_smoothing=0.1)
    mean = model(**batch()).loss
    real = sum(map(len, LABELS))
    loss = model(**batch(), num_items_in_batch=items, return_logits=return_logits).loss
    torch.testing.assert_close(loss, mean * real / 7, **EXACT)


def test_micro_batches_add_up_to_the_update() -> None:
    """Accumulated gradients are those of the whole batch, however the sentences are dealt."""
    model = training_model(label_smoothing=0.1)
    items = sum(map(len, LABELS))
    _, expected = gradients(model, **batch(), num_items_in_batch=items)
    model.zero_grad(set_to_none=True)
    for rows in (slice(0, 1), slice(1, 3)):
        part = {name: value[rows] for name, value in batch().items()}
        model(**part, num_items_in_batch=items).loss.backward()
    got = {name: weight.grad for name, weight in model.named_parameters()}
    torch.testing.assert_close(got, expected, **EXACT)


@pytest.mark.parametrize("pad", [-100, 0])
@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("return_logits", [True, False])
@pytest.mark.parametrize("items", [None, 12])
def test_no_label_at_all_gives_zero(
    pad: int, mode: str, return_logits: bool, items: int | None
) -> None:
    """A batch of padding, as an idle process gets: loss 0 and gradients 0, none NaN or missing."""
    model = training_model(label_smoothing=0.1).train(mode == "train")
    empty = batch([[pad] * 3] * 3)
    output, got = gradients(model, **empty, return_logits=return_logits, num_items_in_batch=items)
    assert output.loss == 0
    for name, gradient in got.items():
        assert gradient is not None, f"{name} has no gradient: DDP would wait for it"
        assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(
    "shape",
    [{}, {"output_bias": True}, {"share_encoder_decoder_embeddings": False}],
    ids=["paper", "output_bias", "two_tables"],
)
def test_loss_without_logits_is_the_same(formula: str, smoothing: float, shape: dict) -> None:
    """Loss and all gradients; the logits are not there."""
    model = training_model(label_smoothing=smoothing, smoothing_formula=formula, **shape)
    full, wanted = gradients(model, **batch(), return_logits=True)
    lean, got = gradients(model, **batch(), return_logits=False)
    assert full.logits is not None and lean.logits is None
    torch.testing.assert_close(lean.loss, full.loss, **EXACT)
    torch.testing.assert_close(got, wanted, **EXACT)


class LargestTensor(TorchDispatchMode):
    """Records the number of elements of the largest tensor that any operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(result):
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.numel())
        return result


def largest_tensor(return_logits: bool) -> int:
    model = tiny_model(d_model=8, vocab_size=600, encoder_layers=1, decoder_layers=1).train()
    input_ids = torch.full((64, 4), 5)
    labels = torch.randint(4, 600, (64, 64), generator=torch.Generator().manual_seed(0))
    with LargestTensor() as largest:
        model(input_ids=input_ids, labels=labels, return_logits=return_logits).loss.backward()
    return largest.elements


def test_loss_without_logits_makes_no_table_of_tokens_by_vocabulary() -> None:
    """Neither forward nor backward. With 4,096 tokens nothing else of this model is as large."""
    assert largest_tensor(return_logits=True) >= 64 * 64 * 600
    assert largest_tensor(return_logits=False) < 64 * 64 * 600 // 2


def test_decoder_input_is_the_labels_shifted_right() -> None:
    """Trial 15: start token first, -100 becomes padding, the labels stay as they are."""
    model = tiny_model()
    labels = torch.tensor([[5, 6, 2, -100, -100]])
    before = labels.clone()
    shifted = model.prepare_decoder_input_ids_from_labels(labels=labels)
    assert shifted.tolist() == [[1, 5, 6, 2, 0]]
    assert torch.equal(labels, before)
    input_ids, mask = padded(SOURCES[:1])
    with torch.no_grad():
        from_labels = model(input_ids=input_ids, attention_mask=mask, labels=labels)
        from_shifted = model(input_ids=input_ids, attention_mask=mask, decoder_input_ids=shifted)
    assert torch.equal(labels, before)
    torch.testing.assert_close(from_labels.logits[:, :3], from_shifted.logits[:, :3])


def test_a_given_decoder_input_wins_over_the_labels() -> None:
    model = tiny_model()
    input_ids, mask = padded(SOURCES[:1])
    labels = torch.tensor([[5, 6, 2]])
    given_ids = torch.tensor([[1, 9, 9]])
    with torch.no_grad():
        both = model(
            input_ids=input_ids, attention_mask=mask, labels=labels, decoder_input_ids=given_ids
        )
        only = model(input_ids=input_ids, attention_mask=mask, decoder_input_ids=given_ids)
    torch.testing.assert_close(both.logits, only.logits)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("return_logits", [True, False])
def test_loss_is_finite_where_a_word_is_impossible(formula: str, return_logits: bool) -> None:
    """Trial 18: a log-probability of -inf, as a hard mask makes it, gets no smoothing mass."""
    model = training_model(label_smoothing=0.1, smoothing_formula=formula, output_bias=True)
    with torch.no_grad():
        model.lm_head.bias[39] = -torch.inf
    labels = [[5, 6, 2]] * 3
    output, got = gradients(model, **batch(labels), return_logits=return_logits)
    assert torch.isfinite(output.loss)
    assert all(torch.isfinite(gradient).all() for gradient in got.values())


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_impossible_words_change_nothing_for_the_others(formula: str, smoothing: float) -> None:
    """Without logits too: the masses of the entries that are left, written out."""
    model = training_model(label_smoothing=smoothing, smoothing_formula=formula, output_bias=True)
    with torch.no_grad():
        model.lm_head.bias[39] = -torch.inf
    full, wanted = gradients(model, **batch([[5, 6, 2]] * 3), return_logits=True)
    lean, got = gradients(model, **batch([[5, 6, 2]] * 3), return_logits=False)
    log_probs = full.logits.log_softmax(-1).detach()
    each = smoothing / (40 - FORMULAS.index(formula))
    expected = 0.0
    for row in log_probs:
        for place, right in enumerate([5, 6, 2]):
            masses = [0.0 if entry == 39 else each for entry in range(40)]
            masses[0] = 0.0 if formula == "others_not_pad" else each
            masses[right] = 1 - smoothing + (each if formula == "uniform" else 0.0)
            for entry, mass in enumerate(masses):
                if mass:
                    expected -= mass * row[place, entry].item() / 9
    assert full.loss.item() == pytest.approx(expected, abs=1e-10)
    torch.testing.assert_close(lean.loss, full.loss, **EXACT)
    torch.testing.assert_close(got, wanted, **EXACT)


@pytest.mark.parametrize("return_logits", [True, False])
@pytest.mark.parametrize("formula", FORMULAS)
def test_padding_may_have_any_id(formula: str, return_logits: bool) -> None:
    model = training_model(label_smoothing=0.2, smoothing_formula=formula, pad_token_id=7)
    inputs = batch([[5, 0, 6, 2], [8, 2]])
    inputs["input_ids"], inputs["attention_mask"] = padded(SOURCES[:2], pad=7)
    loss = model(**inputs, return_logits=return_logits).loss
    logits = model(**inputs, return_logits=True).logits
    expected = reference.smoothed_loss(
        logits, inputs["labels"].tolist(), epsilon=0.2, formula=formula, pad=7
    )
    torch.testing.assert_close(loss, expected, **EXACT)


def random_projection(rows: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states, a projection to 11 entries, and labels, 30 of the first chunk ignored."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(rows, 6, generator=generator, dtype=dtype, requires_grad=True)
    weight = torch.randn(11, 6, generator=generator, dtype=dtype, requires_grad=True)
    labels = torch.randint(1, 11, (rows,), generator=generator)
    labels[:30] = -100
    return hidden, weight, labels


@pytest.mark.parametrize("real", [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 3])
def test_every_chunk_of_tokens_counts(real: int) -> None:
    """Loss and gradients are torch's for any number of real tokens."""
    hidden, weight, labels = random_projection(real + 30, torch.float64)
    loss = projected_cross_entropy(hidden, weight, None, labels, smoothing=0.1)
    got = torch.autograd.grad(loss, (hidden, weight))
    torchs = F.cross_entropy(hidden @ weight.T, labels, label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(loss, torchs, **EXACT)
    torch.testing.assert_close(got, torch.autograd.grad(torchs, (hidden, weight)), **EXACT)


def test_loss_of_half_precision_is_summed_in_float32() -> None:
    """The scores themselves are rounded to bfloat16, so they are the same on both sides."""
    hidden, weight, labels = random_projection(3000, torch.bfloat16)
    loss = projected_cross_entropy(hidden, weight, None, labels, smoothing=0.1)
    scores = (hidden @ weight.T).double()
    expected = F.cross_entropy(scores, labels, label_smoothing=0.1, reduction="sum")
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    table = smoothed_cross_entropy(hidden @ weight.T, labels, smoothing=0.1)
    assert table.item() == pytest.approx(expected.item(), rel=1e-5)
