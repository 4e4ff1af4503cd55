"""The label-smoothed loss of section 5.4, plain and without a table of logits.

    translation_loss                 what the model reports: the mean of one of the two below
    smoothed_cross_entropy           the definition, from logits
    projected_cross_entropy          the same from hidden states, in chunks: the fast path

The last two return a sum over real target tokens. `projected_cross_entropy` exists
because a training batch times the vocabulary is the largest tensor of the whole model: it makes
the gradient in the forward pass and keeps one chunk of logits at a time.

Shapes: B batch, T target tokens, N target tokens of a batch, D d_model, W vocabulary entries.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .products_vaswani import add_product, is_plain_linear, product, suits_onednn

IGNORED = -100
"""Label that takes no part in the loss, as in torch and transformers."""

CHUNK = 256
"""Rows of logits that the fast path holds at a time; with 8,000 entries they fit a CPU's cache."""


def translation_loss(
    hidden_states: Tensor,
    projection: nn.Module,
    labels: Tensor,
    *,
    logits: Tensor | None = None,
    num_items_in_batch: int | Tensor | None = None,
    smoothing: float = 0.0,
    formula: str = "uniform",
    pad_token_id: int = 0,
) -> Tensor:
    """Returns the loss per target token, in nats; 0 where no label is a real token.

    Source: Section 5.4.

    Args:
        hidden_states: `(B, T, D)`, the decoder's output.
        projection: from D features to W entries.
        labels: `(B, T)` int64; -100 and `pad_token_id` count nothing.
        logits: `(B, T, W)` where they were computed anyway; `None` takes the fast path, except
            under `torch.compile`, which makes one graph of the definition.
        num_items_in_batch: the divisor, in target tokens; `None` means the real ones in `labels`.
        smoothing: mass taken from the right entry.
        formula: which entries it goes to.
        pad_token_id: id of padding.
    """
    labels = labels.to(hidden_states.device).flatten()
    if num_items_in_batch is None:
        num_items_in_batch = ((labels != IGNORED) & (labels != pad_token_id)).sum()
    # How many chunks there are depends on data, which a compiled graph may not.
    compiling = torch.compiler.is_compiling()
    if logits is None and not compiling and is_plain_linear(projection):
        assert isinstance(projection, nn.Linear)
        total = projected_cross_entropy(
            hidden_states.flatten(0, 1),
            projection.weight,
            projection.bias,
            labels,
            smoothing=smoothing,
            formula=formula,
            pad_token_id=pad_token_id,
        )
    else:
        logits = projection(hidden_states) if logits is None else logits
        total = smoothed_cross_entropy(
            logits.flatten(0, 1),
            labels,
            smoothing=smoothing,
            formula=formula,
            pad_token_id=pad_token_id,
        )
    # With no real token at all the loss is 0 / 1, not 0 / 0. A number stays one: compiled, each
    # value of a tensor made of it would be a graph of its own.
    if isinstance(num_items_in_batch, Tensor):
        return total / num_items_in_batch.to(total.device).clamp(min=1)
    return total / max(num_items_in_batch, 1)


def smoothing_weights(
    smoothing: float, formula: str, vocab_size: int
) -> tuple[float, float, float]:
    """Returns the probability mass that the smoothed target puts on its entries.

    Source: Section 5.4 gives 0.1 and no formula; the three are those of `VaswaniConfig`.

    Returns:
        The mass of every entry, and what the right entry and the padding entry get on top.
        Over the vocabulary they sum to 1.
    """
    left_out = {"uniform": 0, "others": 1, "others_not_pad": 2}[formula]
    each = smoothing / max(vocab_size - left_out, 1)
    right = 1.0 - smoothing if formula == "uniform" else 1.0 - smoothing - each
    return each, right, -each if formula == "others_not_pad" else 0.0


def smoothed_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    smoothing: float = 0.0,
    formula: str = "uniform",
    pad_token_id: int = 0,
) -> Tensor:
    """Returns the loss of real target tokens, summed, in nats.

    Source: Section 5.4. With `smoothing` 0 it is cross entropy; with "uniform" it is that of
    `torch.nn.functional.cross_entropy(label_smoothing=...)`.

    Args:
        logits: `(N, W)`. An entry of -inf is one that cannot be chosen and gets no smoothing mass.
        labels: `(N,)` int64. Rows labelled -100 or `pad_token_id` count nothing.
        smoothing: mass taken from the right entry.
        formula: which entries it goes to, see `VaswaniConfig.smoothing_formula`.
        pad_token_id: id of padding.
    """
    real = (labels != IGNORED) & (labels != pad_token_id)
    each, right, pad = smoothing_weights(smoothing, formula, logits.size(-1))
    log_probabilities = _at_least_float32(logits).log_softmax(dim=-1)
    # Rows are masked, not selected: how many are real depends on data, a compiled graph may not.
    labels = labels.masked_fill(~real, 0)
    losses = -right * log_probabilities.gather(1, labels[:, None]).squeeze(1)
    if smoothing:
        possible = log_probabilities.masked_fill(logits == -torch.inf, 0.0)
        losses = losses - each * possible.sum(-1) - pad * possible[:, pad_token_id]
    return losses.masked_fill(~real, 0.0).sum()


def projected_cross_entropy(
    hidden_states: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    *,
    smoothing: float = 0.0,
    formula: str = "uniform",
    pad_token_id: int = 0,
) -> Tensor:
    """Returns `smoothed_cross_entropy` of `hidden_states @ weight.T + bias`, summed, in nats.

    No tensor of N times W elements is made, in either direction. The gradient comes out of the
    forward pass, so it can be taken once; a gradient of the gradient is not available.

    Args:
        hidden_states: `(N, D)`.
        weight: `(W, D)`.
        bias: `(W,)`, or `None`.
        labels: `(N,)` int64; -100 and `pad_token_id` count nothing.
        smoothing: mass taken from the right entry.
        formula: which entries it goes to.
        pad_token_id: id of padding.
    """
    masses = smoothing_weights(smoothing, formula, weight.size(0))
    return _ProjectedCrossEntropy.apply(hidden_states, weight, bias, labels, masses, pad_token_id)


class _ProjectedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden_states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        masses: tuple[float, float, float],
        pad_token_id: int,
    ) -> Tensor:
        rows = ((labels != IGNORED) & (labels != pad_token_id)).nonzero().squeeze(1)
        wanted = ctx.needs_input_grad
        precise = torch.promote_types(hidden_states.dtype, torch.float32)
        loss = hidden_states.new_zeros((), dtype=precise)
        hidden_gradient = torch.zeros_like(hidden_states) if wanted[0] else None
        weight_gradient = torch.zeros_like(weight, dtype=precise) if wanted[1] else None
        bias_gradient = None
        if bias is not None and wanted[2]:
            bias_gradient = torch.zeros_like(bias, dtype=precise)
        # An entry that a bias of -inf rules out gets no smoothing mass.
        impossible = None if bias is None else bias == -torch.inf
        each, right, pad = masses
        spread = torch.full((weight.size(0),), each, dtype=precise, device=weight.device)
        spread[pad_token_id] += pad
        if impossible is not None:
            spread.masked_fill_(impossible, 0.0)
        for chunk in rows.split(CHUNK):
            hidden = hidden_states[chunk]
            fast = suits_onednn(hidden, weight)
            logits = (product if fast else functional.linear)(hidden, weight, bias)
            precise_logits = _at_least_float32(logits)
            if impossible is not None:
                precise_logits = precise_logits.masked_fill(
                    impossible, torch.finfo(precise).min / 2
                )
            losses, gradient = _loss_and_gradient(
                precise_logits, labels[chunk], right, spread, any(wanted[:3])
            )
            loss += losses
            if gradient is None:
                continue
            factor = gradient.to(logits.dtype)
            if hidden_gradient is not None:
                if fast:
                    hidden_gradient[chunk] = product(factor, weight.t())
                else:
                    hidden_gradient[chunk] = (factor @ weight.to(factor.dtype)).to(hidden.dtype)
            if weight_gradient is not None:
                if fast:
                    add_product(weight_gradient, factor, hidden)
                elif weight_gradient.dtype == factor.dtype:
                    weight_gradient.addmm_(factor.t(), hidden.to(factor.dtype))
                else:
                    weight_gradient += factor.t() @ hidden.to(factor.dtype)
            if bias_gradient is not None:
                bias_gradient += gradient.sum(0)
        ctx.save_for_backward(hidden_gradient, weight_gradient, bias_gradient)
        ctx.dtypes = weight.dtype, None if bias is None else bias.dtype
        return loss

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias = ctx.saved_tensors
        scale = outer[0]
        weight_dtype, bias_dtype = ctx.dtypes
        return (
            None if hidden is None else hidden * scale.to(hidden.dtype),
            None if weight is None else (weight * scale).to(weight_dtype),
            None if bias is None else (bias * scale).to(bias_dtype),
            None,
            None,
            None,
        )


def _loss_and_gradient(
    logits: Tensor, labels: Tensor, right: float, spread: Tensor, with_gradient: bool
) -> tuple[Tensor, Tensor | None]:
    """Returns the summed loss of `logits` and, in their place, its gradient.

    The target puts `right` on the label of a row and `spread`, `(W,)`, on every row.
    """
    # In place: the logits are the largest tensor here, and each pass over memory counts.
    log_probabilities = torch.log_softmax(logits, dim=-1, out=logits)
    right_ones = log_probabilities.gather(1, labels[:, None]).sum()
    loss = -(right * right_ones + (log_probabilities @ spread).sum())
    if not with_gradient:
        return loss, None
    gradient = log_probabilities.exp_().mul_(right + spread.sum()).sub_(spread)
    gradient[torch.arange(len(labels), device=labels.device), labels] -= right
    return loss, gradient


def _at_least_float32(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


__all__ = ["IGNORED", "projected_cross_entropy", "smoothed_cross_entropy", "translation_loss"]
