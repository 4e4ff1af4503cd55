"""An encoder with weights in 8 bits, for a search that has its decoder's weights in 8 bits too.

    PackedEncoder         what `VaswaniEncoder` computes
    packed_encoding       the encoder's output, where it may be computed so

In other precisions the encoder's own call is as fast: it has many rows at once.

Shapes: B sentences, S source tokens, N = B * S rows, H heads, Dk/Dv features per head, D d_model.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import GenerationConfig
from transformers.modeling_outputs import BaseModelOutput

from .packed_decoder_vaswani import PackedAttention, PackedFeedForward, packed_norm
from .prepacked_vaswani import packed_copy
from .search_steps_vaswani import computes_as_written


class PackedEncoderLayer:
    """The sub-layers of a `VaswaniEncoderLayer`."""

    def __init__(self, layer: Any, precision: str) -> None:
        self.own = PackedAttention(layer.self_attn, precision, of_target=True)
        self.feed_forward = PackedFeedForward(layer, precision)
        self.own_norm = packed_norm(layer.self_attn_layer_norm)

    def attend(self, states: Tensor, size: int, mask: Tensor) -> Tensor:
        """Returns what rows attend to, `(N, D)` for `(N, D)`.

        Args:
            states: `(N, D)`.
            size: B.
            mask: `(B, 1, 1, S)` boolean, `True` means "may be attended to".
        """
        own = self.own
        rows = own.inputs(states)
        width = own.heads * own.d_k
        context = functional.scaled_dot_product_attention(
            own.split(rows, size, 0, own.d_k),
            own.split(rows, size, width, own.d_k),
            own.split(rows, size, 2 * width, own.d_v),
            attn_mask=mask,
            scale=own.scaling,
        )  # (B, H, S, Dv)
        return own.out(context.transpose(1, 2).reshape(len(rows), -1))


class PackedEncoder:
    """The layers of an encoder. A copy: it does not follow the model's weights.

    Args:
        encoder: a `VaswaniEncoder`.
        precision: of the packed weights.
    """

    def __init__(self, encoder: Any, precision: str) -> None:
        self.layers = [PackedEncoderLayer(layer, precision) for layer in encoder.layers]
        self.nbytes = sum(
            layer.own.inputs.nbytes + layer.own.out.nbytes + layer.feed_forward.nbytes
            for layer in self.layers
        )

    def __call__(self, states: Tensor, mask: Tensor) -> Tensor:
        """Returns the last layer's output.

        Args:
            states: `(B, S, D)`, embedded tokens with positions.
            mask: `(B, S)` boolean, `True` means "may be attended to".
        """
        size = len(states)
        rows, seen = states.flatten(0, 1), mask[:, None, None]
        for layer in self.layers:
            residual = layer.feed_forward.residual

            def attend(states: Tensor, layer: PackedEncoderLayer = layer) -> Tensor:
                return layer.attend(states, size, seen)

            rows = residual(rows, layer.own_norm, attend)
            rows = residual(rows, layer.feed_forward.norm, layer.feed_forward)
        return rows.view_as(states)


def packed_encoding(
    model: Any,
    inputs: Tensor,
    model_kwargs: dict[str, Any],
    input_name: str | None,
    generation_config: GenerationConfig,
) -> BaseModelOutput | None:
    """Returns the encoder's output, or `None` where its own call must give it.

    Args:
        model: a model of this package.
        inputs: `(B, S)` int64.
        model_kwargs: of `generate()`, with `attention_mask`.
        input_name: what `inputs` is an argument of.
        generation_config: settings of the search.
    """
    settings, mask = generation_config, model_kwargs["attention_mask"]
    if (
        getattr(settings, "decoding_precision", None) != "int8"
        or settings.num_beams == 1
        or settings.do_sample
        or settings.cache_implementation is not None
        or settings.output_attentions
        or settings.output_hidden_states
        or input_name != "input_ids"
        or set(model_kwargs) - {"attention_mask", "cache", "use_cache"}
        or mask.dim() != 2
        or torch.is_grad_enabled()
        or torch.is_autocast_enabled("cpu")
        or torch.compiler.is_compiling()
        or not computes_as_written(model, _bypassed)
        # A source without any real token is none that one attends to.
        or not mask.bool().any(dim=1).all()
    ):
        return None
    encoder = model.get_encoder()
    weights = [weight for layer in encoder.layers for weight in layer.parameters()]
    packed = packed_copy(encoder, "int8", weights, lambda: PackedEncoder(encoder, "int8"))
    _, embedded = encoder._embed(inputs, None, mask)
    states = packed(embedded, mask.bool())
    return BaseModelOutput(last_hidden_state=encoder.layer_norm(states))


def _bypassed(model: Any) -> Iterator[nn.Module]:
    """The modules whose forward is not called."""
    encoder = model.get_encoder()
    yield from (encoder, encoder.dropout)
    for layer in encoder.layers:
        for name, module in layer.named_modules():
            if name.rpartition(".")[2] != "activation":
                yield module


__all__ = ["PackedEncoder", "PackedEncoderLayer", "packed_encoding"]
