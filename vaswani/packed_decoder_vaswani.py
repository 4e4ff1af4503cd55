"""The weights of a decoder, laid out for the few rows that a step of a search has.

    PackedAttention       the projections of an attention, and the attention between them
    PackedFeedForward     the feed-forward sub-layer, and the way around any
    PackedDecoderLayer    the sub-layers of a layer
    PackedDecoder         all layers, and the projection to the vocabulary

Each computes what the class of `modeling_vaswani.py` computes that is named like it.

Shapes: B sentences, Q tokens of a sentence that are read at once, N = B * Q rows, E keys, H heads,
Dk/Dv features per head, D d_model.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .prepacked_vaswani import pack_linears


class PackedAttention:
    """The projections around an attention.

    Args:
        attention: a `VaswaniMultiHeadAttention`.
        precision: of the packed weights.
        of_target: whether keys and values come from the same rows as the queries. Those of the
            source are computed for all layers at once, by `PackedDecoder`.
    """

    def __init__(self, attention: Any, precision: str, *, of_target: bool) -> None:
        inputs = [attention.q_proj]
        if of_target:
            inputs += [attention.k_proj, attention.v_proj]
        self.inputs = pack_linears(inputs, precision)
        self.out = pack_linears([attention.out_proj], precision)
        self.d_k, self.d_v = attention.d_k, attention.d_v
        self.heads = attention.q_proj.out_features // self.d_k
        self.scaling = attention.scaling

    def split(self, rows: Tensor, size: int, start: int, features: int) -> Tensor:
        """Returns columns of `rows` by heads, without a copy.

        Args:
            rows: `(B * Q, columns)`.
            size: B.
            start: first of the H * features columns.
            features: of a head.

        Returns:
            `(B, H, Q, features)`.
        """
        width = rows.size(1)
        queries = rows.size(0) // size
        return rows.as_strided(
            (size, self.heads, queries, features), (queries * width, features, width, 1), start
        )

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """Returns what is attended to, `(N, D)`, residual sum and normalization not included.

        Source: Section 3.2.1, Equation 1.

        Args:
            query: `(B, H, Q, Dk)`.
            keys: `(B * H, Dk, E)`.
            values: `(B * H, E, Dv)`.
            mask: broadcastable to `(B * H, Q, E)`, added to the scores.
        """
        size, heads, queries, _ = query.shape
        scores = torch.baddbmm(mask, query.reshape(-1, queries, self.d_k), keys, alpha=self.scaling)
        context = scores.softmax(dim=-1) @ values  # (B * H, Q, Dv)
        context = context.view(size, heads, queries, self.d_v).transpose(1, 2)
        return self.out(context.reshape(size * queries, heads * self.d_v))


class PackedFeedForward:
    """The feed-forward sub-layer of a layer, and the way around any sub-layer."""

    def __init__(self, layer: Any, precision: str) -> None:
        self.fc1 = pack_linears([layer.feed_forward.fc1], precision)
        self.fc2 = pack_linears([layer.feed_forward.fc2], precision)
        self.nbytes = self.fc1.nbytes + self.fc2.nbytes
        self.activation = layer.feed_forward.activation
        self.is_relu = type(self.activation) is nn.ReLU
        self.norm = packed_norm(layer.final_layer_norm)
        self.normalize_before = layer.normalize_before

    def residual(
        self,
        hidden_states: Tensor,
        norm: Callable[[Tensor], Tensor],
        sublayer: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """Returns what `VaswaniLayer.residual` does, `(N, D)` for `(N, D)`."""
        if self.normalize_before:
            return sublayer(norm(hidden_states)).add_(hidden_states)
        return norm(sublayer(hidden_states).add_(hidden_states))

    def __call__(self, hidden_states: Tensor) -> Tensor:
        """Returns max(0, xW1 + b1)W2 + b2, `(N, D)` for `(N, D)`."""
        if self.is_relu:
            return self.fc2(self.fc1(hidden_states, relu=True))
        return self.fc2(self.activation(self.fc1(hidden_states)))


class PackedDecoderLayer:
    """The sub-layers of a `VaswaniDecoderLayer`."""

    def __init__(self, layer: Any, precision: str) -> None:
        self.own = PackedAttention(layer.self_attn, precision, of_target=True)
        self.cross = PackedAttention(layer.encoder_attn, precision, of_target=False)
        self.feed_forward = PackedFeedForward(layer, precision)
        self.own_norm = packed_norm(layer.self_attn_layer_norm)
        self.cross_norm = packed_norm(layer.encoder_attn_layer_norm)


class PackedDecoder:
    """Weights of a decoder and of the projection to the vocabulary, laid out for few rows.

    A copy: it does not follow the model's weights.

    Args:
        model: a `VaswaniForConditionalGeneration`.
        precision: of the packed weights.
    """

    def __init__(self, model: Any, precision: str) -> None:
        decoder = model.get_decoder()
        self.layers = [PackedDecoderLayer(layer, precision) for layer in decoder.layers]
        crosses = [layer.encoder_attn for layer in decoder.layers]
        self.sources = pack_linears(
            [linear for attention in crosses for linear in (attention.k_proj, attention.v_proj)],
            precision,
        )
        self.projection = pack_linears([model.lm_head], precision)
        products: list[Any] = [self.sources, self.projection]
        for layer in self.layers:
            products += [layer.own.inputs, layer.own.out, layer.cross.inputs, layer.cross.out]
            products += [layer.feed_forward]
        self.nbytes = sum(product.nbytes for product in products)
        # Tables are read by rows as they are.
        self.embed_tokens = decoder.embed_tokens
        self.embed_positions = decoder.embed_positions
        self.layer_norm = decoder.layer_norm
        # Else what is no number in one hypothesis would reach others, which no weight keeps out.
        self.embeds_numbers = bool(self.embed_tokens.weight.sum().isfinite())
        self.embedding_scale = model.config.d_model**0.5


def packed_norm(module: nn.LayerNorm) -> Callable[[Tensor], Tensor]:
    """Returns the module's function, without what a call of a module costs."""
    shape, eps = list(module.normalized_shape), module.eps
    weight, bias = module.weight.detach(), module.bias.detach()

    def normalize(hidden_states: Tensor) -> Tensor:
        return torch.layer_norm(hidden_states, shape, weight, bias, eps)

    return normalize


__all__ = [
    "PackedAttention",
    "PackedDecoder",
    "PackedDecoderLayer",
    "PackedFeedForward",
    "packed_norm",
]
