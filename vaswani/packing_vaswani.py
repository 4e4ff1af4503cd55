"""Training on real tokens only: a padded batch as one row of its tokens.

    batch_packing                    decides whether a batch is packed, and how
    BatchPacking                     both sides of a batch, and which tokens attend to which
    SidePacking                      one side: `pack`, `unpack`
    packed_attention                 the attention backend of packed tokens

Padding is computed like words: projections, feed-forward layers, norms and dropout take as long for
it. In training, what works token by token therefore gets `(1, N, D)`, the real tokens of all rows
one after the other. Only attention has to know rows; it is done in groups of rows of like length,
padded for that time alone. Loss and gradients are those of the padded batch.

The backend is entered in transformers' table of attention functions under the name `PACKED`; what
it gets for a mask is the list of groups.

Shapes: B batch, T tokens of one side, N real tokens of that side, R rows of a group, L its longest
row, H heads, Dk features per head.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers import AttentionInterface

from .loss_vaswani import IGNORED

PACKED = "vaswani_packed"
"""Name of the attention backend."""

LIKE = 0.75
"""Least length of a group's shortest row, as a part of its longest row."""

_BLIND_HOOKS = ("transformers.utils.output_capturing", "transformers.modeling_utils")
"""Where hooks come from that ask for no shape: outputs on request, inputs that want gradients."""


def batch_packing(
    model: Any, attention_mask: Tensor | None, labels: Tensor | None, others: Iterable[Any]
) -> "BatchPacking | None":
    """Returns how to pack a batch, or `None` where the padded batch has to be computed.

    It is packed in training mode on a CPU, with labels and the sdpa backend without attention
    dropout, where there is padding and nobody could see that the shapes differ. A row that is
    empty on either side needs the padded batch.

    Args:
        model: encoder and decoder.
        attention_mask: `(B, S)`, 1 for real source tokens.
        labels: `(B, T)` int64. Real target tokens are those up to a row's last label that is
            neither -100 nor padding; those after it change no loss.
        others: what else the model is called with, but for its inputs. A cache, a mask of the
            target, encoder outputs, or a request for attentions leave the batch as it is, and so
            does whatever is not `None` or `False`.
    """
    config = model.config
    if not model.training or labels is None or attention_mask is None or attention_mask.dim() != 2:
        return None
    wanted = ("output_attentions", "output_hidden_states")
    if any(value is not None and value is not False for value in others) or any(
        getattr(config, name, False) for name in wanted
    ):
        return None
    heads = config.encoder_attention_heads, config.decoder_attention_heads
    if (
        labels.device.type != "cpu"
        or config._attn_implementation != "sdpa"
        or config.attention_dropout
        # The kernel wants one size for queries, keys and values.
        or any(d_k != d_v for d_k, d_v in map(config.head_sizes, heads))
        or not hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu_backward")
        or torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or _is_watched(model)
    ):
        return None
    counted = (labels != IGNORED) & (labels != config.pad_token_id)
    source = attention_mask != 0
    # Whether this or a later label counts.
    target = counted.flip(1).cummax(1).values.flip(1)
    shortest = min(int(source.sum(1).min()), int(target.sum(1).min()))
    if shortest == 0 or bool(source.all() & target.all()):
        return None
    return BatchPacking(source, target)


def _is_watched(model: nn.Module) -> bool:
    """Whether hooks on a part of `model` could see other shapes."""
    return any(
        getattr(hook, "__module__", None) not in _BLIND_HOOKS
        for stack in model.children()
        for part in stack.children()
        for module in part.modules()
        for hooks in (module._forward_hooks, module._forward_pre_hooks)
        for hook in hooks.values()
    )


class SidePacking:
    """The real tokens of one side, row after row.

    Args:
        real: `(B, T)` bool, `True` for the tokens to keep; none of its rows is empty.
        order: `(B,)` int64, in which the rows come.
    """

    def __init__(self, real: Tensor, order: Tensor) -> None:
        self.shape = real.shape
        rows, columns = real[order].nonzero(as_tuple=True)
        self.places = order[rows] * real.size(1) + columns  # (N,)
        self.lengths = real.sum(1)[order]
        starts = self.lengths.cumsum(0) - self.lengths
        # A token's number in its row, which counts real tokens only.
        self.positions = (torch.arange(len(rows)) - starts[rows])[None]  # (1, N)

    def pack(self, tokens: Tensor) -> Tensor:
        """Returns `(1, N, ...)` for `(B, T, ...)`."""
        return tokens.flatten(0, 1).index_select(0, self.places)[None]

    def unpack(self, tokens: Tensor) -> Tensor:
        """Returns `(B, T, ...)` for `(1, N, ...)`, 0 where there is no real token."""
        padded = tokens.new_zeros(self.shape.numel(), *tokens.shape[2:])
        return padded.index_copy(0, self.places, tokens[0]).unflatten(0, self.shape)


@dataclass(frozen=True)
class _GroupSide:
    """Some rows of one side, which follow each other among the packed tokens.

    Args:
        tokens: which of the packed tokens they are.
        shape: rows and length of the longest one, (R, L).
        spread: `(R * L,)` int64, the token of each place; in padding a row's last one.
        places: int64, the place of each token.
    """

    tokens: slice
    shape: tuple[int, int]
    spread: Tensor
    places: Tensor

    @classmethod
    def of(cls, side: SidePacking, rows: slice) -> "_GroupSide":
        lengths = side.lengths[rows]
        first = int(side.lengths[: rows.start].sum())
        starts = (lengths.cumsum(0) - lengths)[:, None]
        columns = torch.arange(int(lengths.max()))
        spread = starts + torch.minimum(columns, lengths[:, None] - 1)
        return cls(
            tokens=slice(first, first + int(lengths.sum())),
            shape=(len(lengths), len(columns)),
            spread=spread.flatten(),
            places=(columns < lengths[:, None]).flatten().nonzero().squeeze(1),
        )

    def hidden_keys(self) -> Tensor | None:
        """Returns `(R, 1, 1, L)`, -inf in padding and else 0; `None` if there is none."""
        if len(self.places) == len(self.spread):
            return None
        mask = torch.full((len(self.spread),), -torch.inf)
        return mask.index_fill_(0, self.places, 0.0).view(self.shape[0], 1, 1, self.shape[1])

    def padded(self, packed: Tensor) -> Tensor:
        """Returns `(R, H, L, Dk)` for all packed tokens `(N, H, Dk)`; padding repeats a token."""
        rows = packed[self.tokens].index_select(0, self.spread)
        return rows.unflatten(0, self.shape).transpose(1, 2)

    def zero_padded(self, packed: Tensor) -> Tensor:
        """Returns the same with zeros in padding."""
        rows = packed.new_zeros(len(self.spread), *packed.shape[1:])
        rows.index_copy_(0, self.places, packed[self.tokens])
        return rows.unflatten(0, self.shape).transpose(1, 2)

    def pack_into(self, packed: Tensor, padded: Tensor) -> None:
        """Writes the real places of `padded` `(R, H, L, Dk)` to their tokens in `(N, H, Dk)`."""
        flat = padded.transpose(1, 2).flatten(0, 1)
        torch.index_select(flat, 0, self.places, out=packed[self.tokens])


@dataclass(frozen=True)
class AttentionGroup:
    """Rows whose queries and keys are padded and computed together.

    Args:
        queries, keys: the two sides; in self-attention the same.
        mask: `(R, 1, 1, L)`, added to the scores.
    """

    queries: _GroupSide
    keys: _GroupSide
    mask: Tensor | None


class BatchPacking:
    """Both sides of a batch, packed in the same order of rows: from long to short.

    Args:
        source: `(B, S)` bool, `True` for real tokens.
        target: `(B, T)` bool, the same.
    """

    def __init__(self, source: Tensor, target: Tensor) -> None:
        lengths = source.sum(1) + target.sum(1)
        order = lengths.argsort(descending=True, stable=True)
        self.source = SidePacking(source, order)
        self.target = SidePacking(target, order)
        groups = _groups_of_like_length(lengths[order].tolist())
        sources = [_GroupSide.of(self.source, rows) for rows in groups]
        targets = [_GroupSide.of(self.target, rows) for rows in groups]
        masks = [side.hidden_keys() for side in sources]
        self.source_attention = list(map(AttentionGroup, sources, sources, masks))
        # No query sees a later key, so none sees the padding behind a row.
        self.target_attention = [AttentionGroup(side, side, None) for side in targets]
        self.cross_attention = list(map(AttentionGroup, targets, sources, masks))


def _groups_of_like_length(lengths: list[int]) -> list[slice]:
    """Cuts rows, sorted from long to short, where they fall below a part of a group's first."""
    bounds = [0]
    for row, length in enumerate(lengths):
        if length < LIKE * lengths[bounds[-1]]:
            bounds.append(row)
    return list(map(slice, bounds, [*bounds[1:], len(lengths)]))


def packed_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: list[AttentionGroup],
    scaling: float,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attends within each row of a packed batch.

    Args:
        module: the layer that asks; it says whether queries see later keys.
        query: `(1, H, N, Dk)`.
        key: `(1, H, N, Dk)`, of as many tokens as its side has.
        value: `(1, H, N, Dk)`.
        attention_mask: which rows are computed together.
        scaling: factor of the dot products.

    Returns:
        The context `(1, N, H, Dk)`, and no weights.
    """
    packed = (states[0].transpose(0, 1) for states in (query, key, value))
    context = _GroupedAttention.apply(*packed, attention_mask, scaling, module.is_causal)
    return context[None], None


class _GroupedAttention(torch.autograd.Function):
    """The CPU's attention kernel, group by group, which keeps packed tensors only."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        groups: list[AttentionGroup],
        scaling: float,
        is_causal: bool,
    ) -> Tensor:
        context = torch.empty_like(query)
        normalizers = []
        for group in groups:
            padded, normalizer = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
                group.queries.padded(query),
                group.keys.padded(key),
                group.keys.padded(value),
                is_causal=is_causal,
                attn_mask=None if group.mask is None else group.mask.to(query.dtype),
                scale=scaling,
            )
            group.queries.pack_into(context, padded)
            normalizers.append(normalizer)
        ctx.save_for_backward(query, key, value, context, *normalizers)
        ctx.settings = groups, scaling, is_causal
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, context, *normalizers = ctx.saved_tensors
        groups, scaling, is_causal = ctx.settings
        gradients = [torch.empty_like(states) for states in (query, key, value)]
        for group, normalizer in zip(groups, normalizers, strict=True):
            padded = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
                group.queries.zero_padded(outer),
                group.queries.padded(query),
                group.keys.padded(key),
                group.keys.padded(value),
                group.queries.padded(context),
                normalizer,
                0.0,
                is_causal,
                attn_mask=None if group.mask is None else group.mask.to(query.dtype),
                scale=scaling,
            )
            for side, whole, part in zip(
                (group.queries, group.keys, group.keys), gradients, padded, strict=True
            ):
                side.pack_into(whole, part)
        return *gradients, None, None, None


AttentionInterface.register(PACKED, packed_attention)

__all__ = ["PACKED", "BatchPacking", "SidePacking", "batch_packing"]
