"""The encoder-decoder of "Attention Is All You Need" (Vaswani et al., 2017).

Read it from top to bottom; each class cites its section. The loss of section 5.4 is in
`loss_vaswani.py`, the search of section 6.1 in `generation_vaswani.py`. Other choices than the
paper's are in `attention_scores_vaswani.py` and `positions_vaswani.py`, masks of padding in
`masks_vaswani.py`, initial weights and saving in `pretrained_vaswani.py`, tables that change their
size in `embedding_tables_vaswani.py`. The same numbers sooner: `project` in `products_vaswani.py`
is a linear layer's own product by a quicker operator, `packing_vaswani.py` is training without
padding, and `dropout_vaswani.py` draws what `nn.Dropout` does.

    shift_right                                   3.1
    VaswaniPositionalEncoding                     3.5
    eager_attention_forward                       3.2.1
    VaswaniMultiHeadAttention                     3.2.2
    VaswaniPositionWiseFeedForward                3.3
    VaswaniEncoderLayer, VaswaniDecoderLayer      3.1
    VaswaniStack, VaswaniEncoder, VaswaniDecoder  3.1, 3.4
    VaswaniModel, VaswaniForConditionalGeneration 3.1, 3.4

Shapes: B batch, S source tokens, T target tokens, D d_model, H heads,
Dk/Dv features per head, F feed-forward features, W vocabulary entries.

Masks from outside are 0/1 integers or booleans of shape `(B, S)` or `(B, T)`; 1 means "is a real
token, may be attended to".
"""

import math
from collections.abc import Callable
from typing import Any, Unpack

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.activations import ACT2FN
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils import can_return_tuple
from transformers.utils.deprecation import deprecate_kwarg
from transformers.utils.generic import TransformersKwargs, merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .attention_scores_vaswani import VaswaniAdditiveScore, best_key_only
from .configuration_vaswani import VaswaniConfig
from .dropout_vaswani import VaswaniDropout
from .embedding_tables_vaswani import VaswaniTwoSidedModel
from .generation_vaswani import VaswaniGenerationMixin, paper_generation_config
from .loss_vaswani import IGNORED, translation_loss
from .masks_vaswani import mask_settings, source_mask
from .packing_vaswani import PACKED, BatchPacking, SidePacking, batch_packing
from .positions_vaswani import VaswaniLearnedPositions, check_positions
from .pretrained_vaswani import VaswaniPreTrainedModel
from .products_vaswani import project


def shift_right(labels: Tensor, *, pad_token_id: int, decoder_start_token_id: int) -> Tensor:
    """Returns what the decoder reads in order to predict `labels`.

    Source: Section 3.1, "the output embeddings are offset by one position".

    Args:
        labels: `(B, T)` int64; -100 becomes padding.
        pad_token_id: id of target padding.
        decoder_start_token_id: id in the first position.
    """
    shifted = labels.new_full(labels.shape, decoder_start_token_id)
    shifted[:, 1:] = labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, pad_token_id)
    return shifted


class VaswaniPositionalEncoding(nn.Module):
    """Gives each position a vector of sines and cosines.

    Source: Section 3.5. PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(the same). An
    odd D has one sine more than cosines. In the layout "halves" all sines come first.

    Computed from the formula at each call, in float32 at least: there is no table that ends, no
    buffer that a change of dtype rounds (bfloat16 cannot number positions beyond 256), and
    nothing that loading could leave out.
    """

    def __init__(self, d_model: int, layout: str = "interleaved") -> None:
        super().__init__()
        self.d_model = d_model
        self.layout = layout

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        """Returns the vectors `(..., D)` of `positions`, `(...)` int64 counted from 0."""
        precise = torch.promote_types(dtype, torch.float32)
        features = torch.arange(0, self.d_model, 2, device=positions.device, dtype=precise)
        angles = positions[..., None].to(precise) * 10_000.0 ** (-features / self.d_model)
        side_by_side = -1 if self.layout == "interleaved" else -2
        waves = torch.stack([angles.sin(), angles.cos()], dim=side_by_side).flatten(-2)
        return waves[..., : self.d_model].to(dtype)


def eager_attention_forward(
    module: "VaswaniMultiHeadAttention",
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """Weighs the rows of `value` by how well their `key` matches each `query`.

    Source: Section 3.2.1, Equation 1.

    Args:
        module: the layer that asks; it may have other scores than those of Equation 1.
        query: `(B, H, T, Dk)`.
        key: `(B, H, S, Dk)`.
        value: `(B, H, S, Dv)`.
        attention_mask: broadcastable to `(B, H, T, S)`, added to the scores: 0 means "may
            attend", the lowest number of the dtype "may not". `None` lets every query see all.
        scaling: factor of the dot products, 1 / sqrt(Dk).
        dropout: probability of dropping a weight in training.

    Returns:
        The context `(B, T, H, Dv)` and the weights `(B, H, T, S)`. A row of weights sums to 1, or
        is all 0 where the mask leaves its query nothing to attend to.
    """
    if module.score_proj is None:
        scores = query @ key.transpose(-2, -1) * scaling  # (B, H, T, S)
    else:
        scores = module.score_proj(query, key)
    if attention_mask is None:
        weights = scores.softmax(dim=-1)
    else:
        # The lowest number, not -inf: a query with no visible key must not turn into NaN.
        lowest = torch.finfo(scores.dtype).min
        weights = (scores + attention_mask).clamp(min=lowest).softmax(dim=-1)
        weights = weights * (attention_mask > lowest / 2)
    if module.config.hard_attention:
        weights = best_key_only(weights, training=module.training)
    weights = functional.dropout(weights, p=dropout, training=module.training)
    return (weights @ value).transpose(1, 2), weights


class VaswaniMultiHeadAttention(nn.Module):
    """Attends with several heads at once, each in a projection of its own.

    Source: Section 3.2.2. Without `attention_bias` the projections are the paper's QW^Q, KW^K,
    VW^V and Concat(heads)W^O.

    Args:
        config: the architecture.
        heads: number of heads, h in the paper.
        layer_idx: place of the layer in its stack, from 0; the cache needs it.
        is_causal: whether this is the decoder's self-attention.
    """

    def __init__(
        self, config: VaswaniConfig, heads: int, layer_idx: int, is_causal: bool = False
    ) -> None:
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.is_causal = is_causal
        self.d_k, self.d_v = config.head_sizes(heads)
        self.scaling = 1.0 if config.attention_score == "dot" else 1.0 / math.sqrt(self.d_k)
        additive = config.attention_score == "additive"
        self.score_proj = VaswaniAdditiveScore(heads, self.d_k) if additive else None
        self.dropout = config.attention_dropout
        bias = config.attention_bias
        self.q_proj = nn.Linear(config.d_model, heads * self.d_k, bias=bias)
        self.k_proj = nn.Linear(config.d_model, heads * self.d_k, bias=bias)
        self.v_proj = nn.Linear(config.d_model, heads * self.d_v, bias=bias)
        self.out_proj = nn.Linear(heads * self.d_v, config.d_model, bias=bias)

    def forward(
        self,
        hidden_states: Tensor,
        key_value_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cache: EncoderDecoderCache | None = None,
        attention_implementation: str | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Attends from `hidden_states` to `key_value_states`.

        Args:
            hidden_states: `(B, T, D)`, where the queries come from.
            key_value_states: `(B, S, D)`, the encoder's output in cross-attention; `None` in
                self-attention.
            attention_mask: as the attention backend wants it.
            cache: keys and values of earlier calls. Cross-attention fills it once.
            attention_implementation: backend for this call; `None` means the model's.

        Returns:
            `(B, T, D)` and the weights `(B, H, T, S)`, `None` from backends that keep them.
        """
        query = self._split(project(self.q_proj, hidden_states), self.d_k)  # (B, H, T, Dk)
        key, value = self._keys_and_values(hidden_states, key_value_states, cache)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(
            attention_implementation or self.config._attn_implementation, eager_attention_forward
        )
        context, weights = attend(
            self,
            query,
            key,
            value,
            attention_mask,
            dropout=self.dropout if self.training else 0.0,
            scaling=self.scaling,
            **kwargs,
        )
        context = context.flatten(-2)  # (B, T, H * Dv)
        return project(self.out_proj, context), weights

    def _keys_and_values(
        self,
        hidden_states: Tensor,
        key_value_states: Tensor | None,
        cache: EncoderDecoderCache | None,
    ) -> tuple[Tensor, Tensor]:
        """Returns `(B, H, S, Dk)` and `(B, H, S, Dv)`, through the cache if there is one."""
        is_cross_attention = key_value_states is not None
        own_cache = None
        if cache is not None and is_cross_attention:
            own_cache = cache.cross_attention_cache
            if cache.is_updated.get(self.layer_idx):
                layer: Any = own_cache.layers[self.layer_idx]
                return layer.keys, layer.values
        elif cache is not None:
            own_cache = cache.self_attention_cache
        states = hidden_states if key_value_states is None else key_value_states
        key = self._split(project(self.k_proj, states), self.d_k)
        value = self._split(project(self.v_proj, states), self.d_v)
        if cache is not None and own_cache is not None:
            key, value = own_cache.update(key, value, self.layer_idx)
            if is_cross_attention:
                cache.is_updated[self.layer_idx] = True
        return key, value

    @staticmethod
    def _split(projected: Tensor, head_features: int) -> Tensor:
        return projected.unflatten(-1, (-1, head_features)).transpose(1, 2)


class VaswaniPositionWiseFeedForward(nn.Module):
    """Returns max(0, xW1 + b1)W2 + b2, the same at every position.

    Source: Section 3.3, Equation 2. `activation_function` may put another function for max(0, .).
    """

    def __init__(self, config: VaswaniConfig, inner_features: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.d_model, inner_features)
        self.fc2 = nn.Linear(inner_features, config.d_model)
        self.activation = ACT2FN[config.activation_function]
        self.activation_dropout = VaswaniDropout(config.activation_dropout)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Returns `(B, T, D)` for `(B, T, D)`."""
        inner = self.activation(project(self.fc1, hidden_states))  # (B, T, F)
        return project(self.fc2, self.activation_dropout(inner))


class VaswaniLayer(GradientCheckpointingLayer):
    """What the layers of encoder and decoder have in common: the way around a sub-layer.

    Source: Sections 3.1 and 5.4.
    """

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__()
        self.normalize_before = config.normalize_before
        self.dropout = VaswaniDropout(config.dropout)

    def residual(
        self, hidden_states: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Returns LayerNorm(x + Dropout(Sublayer(x))), `(B, T, D)` for `(B, T, D)`.

        Departs from the paper: with `normalize_before` it is x + Dropout(Sublayer(LayerNorm(x))).
        """
        if self.normalize_before:
            return hidden_states + self.dropout(sublayer(norm(hidden_states)))
        return norm(hidden_states + self.dropout(sublayer(hidden_states)))


class VaswaniEncoderLayer(VaswaniLayer):
    """Self-attention, then feed-forward, each with residual sum and layer norm.

    Source: Sections 3.1 and 5.4.
    """

    def __init__(self, config: VaswaniConfig, layer_idx: int) -> None:
        super().__init__(config)
        heads = config.encoder_attention_heads
        self.self_attn = VaswaniMultiHeadAttention(config, heads, layer_idx)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.feed_forward = VaswaniPositionWiseFeedForward(config, config.encoder_ffn_dim)
        self.final_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> Tensor:
        """Returns `(B, S, D)` for `(B, S, D)`."""

        def attend_to_source(states: Tensor) -> Tensor:
            return self.self_attn(states, attention_mask=attention_mask, **kwargs)[0]

        hidden_states = self.residual(hidden_states, self.self_attn_layer_norm, attend_to_source)
        return self.residual(hidden_states, self.final_layer_norm, self.feed_forward)


class VaswaniDecoderLayer(VaswaniLayer):
    """Causal self-attention, cross-attention, then feed-forward, each as in the encoder.

    Source: Sections 3.1, 3.2.3 and 5.4.
    """

    def __init__(self, config: VaswaniConfig, layer_idx: int) -> None:
        super().__init__(config)
        heads = config.decoder_attention_heads
        self.self_attn = VaswaniMultiHeadAttention(config, heads, layer_idx, is_causal=True)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.encoder_attn = VaswaniMultiHeadAttention(config, heads, layer_idx)
        self.encoder_attn_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.feed_forward = VaswaniPositionWiseFeedForward(config, config.decoder_ffn_dim)
        self.final_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)

    def forward(
        self,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        cache: EncoderDecoderCache | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Returns `(B, T, D)` for `(B, T, D)`, given the encoder's output `(B, S, D)`."""

        def attend_to_target(states: Tensor) -> Tensor:
            return self.self_attn(states, attention_mask=attention_mask, cache=cache, **kwargs)[0]

        def attend_to_source(states: Tensor) -> Tensor:
            return self.encoder_attn(
                states,
                key_value_states=encoder_hidden_states,
                attention_mask=encoder_attention_mask,
                cache=cache,
                **kwargs,
            )[0]

        hidden_states = self.residual(hidden_states, self.self_attn_layer_norm, attend_to_target)
        hidden_states = self.residual(hidden_states, self.encoder_attn_layer_norm, attend_to_source)
        return self.residual(hidden_states, self.final_layer_norm, self.feed_forward)


class VaswaniStack(VaswaniPreTrainedModel):
    """What encoder and decoder begin with: embedded tokens plus positions.

    Source: Sections 3.4 and 3.5.
    """

    _argument_prefix = ""

    def __init__(self, config: VaswaniConfig, vocab_size: int) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(vocab_size, config.d_model)
        self.embed_positions: nn.Module
        if config.position_encoding == "learned":
            rows = config.max_position_embeddings
            self.embed_positions = VaswaniLearnedPositions(rows, config.d_model)
        else:
            self.embed_positions = VaswaniPositionalEncoding(config.d_model, config.position_layout)
        self.dropout = VaswaniDropout(config.dropout)
        self.layer_norm: nn.Module = nn.Identity()
        if config.normalize_before:
            # Else the last sum would leave the stack as it is.
            self.layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.gradient_checkpointing = False

    def init_parallel_plans(self) -> None:
        """Leaves the plans of the configuration, which name both stacks, to the whole model."""
        super().init_parallel_plans()
        self._tp_plan, self._fsdp_plan = {}, {}

    def _embed(
        self,
        input_ids: Tensor | None,
        inputs_embeds: Tensor | None,
        attention_mask: Tensor | None,
        cached_tokens: int | Tensor = 0,
        packing: SidePacking | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Returns the embeddings `(B, T, D)` alone, and with positions and dropout on.

        Source: Sections 3.4 (times sqrt(D)), 3.5 and 5.4. Positions count real tokens: padding
        on the left doesn't move a sentence, and padding itself gets no position vector.
        """
        side = self._argument_prefix
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError(
                f"Exactly one of `{side}input_ids` and `{side}inputs_embeds` must be given, "
                f"got {'neither' if input_ids is None else 'both'}."
            )
        if packing is not None:
            input_ids = None if input_ids is None else packing.pack(input_ids)  # (1, N)
            inputs_embeds = None if inputs_embeds is None else packing.pack(inputs_embeds)
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        inputs_embeds = inputs_embeds * math.sqrt(self.config.d_model)
        length, real = inputs_embeds.size(1), None
        positions = torch.arange(length, device=inputs_embeds.device) + cached_tokens  # (T,)
        if packing is not None:
            positions = packing.positions  # (1, N)
        elif attention_mask is not None and attention_mask.dim() == 2:
            real = attention_mask[:, -length:]
            positions = (attention_mask.long().cumsum(-1)[:, -length:] - 1).clamp(min=0)  # (B, T)
        limit = self.config.position_limit
        check_positions(f"{side}input_ids", cached_tokens + length, limit, positions)
        encoded = self.embed_positions(positions, inputs_embeds.dtype)
        if real is not None:
            encoded = encoded * real[..., None].to(encoded.dtype)
        return inputs_embeds, self.dropout(inputs_embeds + encoded)


class VaswaniEncoder(VaswaniStack):
    """A stack of identical layers over the embedded source.

    Source: Section 3.1, left half of Figure 1.
    """

    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": VaswaniEncoderLayer,
        "attentions": VaswaniMultiHeadAttention,
    }

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config, config.source_vocab_size)
        self.layers = nn.ModuleList(
            VaswaniEncoderLayer(config, index) for index in range(config.encoder_layers)
        )
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        source_lengths: Tensor | None = None,
        packing: BatchPacking | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Encodes a batch of sources.

        Args:
            input_ids: `(B, S)` int64.
            attention_mask: `(B, S)`, 1 for real tokens; `None` masks padding by its id.
            source_lengths: `(B,)` int64 in place of the mask: so many tokens are real.
            inputs_embeds: `(B, S, D)` in place of `input_ids`, as the table gives them.
            packing: computes the layers on `(1, N, D)`, the N real tokens of the batch.

        Returns:
            `last_hidden_state` `(B, S, D)`; on request `attentions`, `(B, H, S, S)` per layer.
        """
        source = inputs_embeds if input_ids is None else input_ids
        attention_mask = source_mask(self.config, source, attention_mask, source_lengths)
        settings = mask_settings(self.config, kwargs)
        side = None if packing is None else packing.source
        embedded, hidden_states = self._embed(
            input_ids, inputs_embeds, attention_mask, packing=side
        )
        mask: Any
        if packing is None:
            mask = create_bidirectional_mask(
                config=settings, inputs_embeds=embedded, attention_mask=attention_mask
            )
        else:
            mask, kwargs["attention_implementation"] = packing.source_attention, PACKED
        for layer in self.layers:
            hidden_states = layer(hidden_states, mask, **kwargs)
        hidden_states = self.layer_norm(hidden_states)
        return BaseModelOutput(hidden_states if side is None else side.unpack(hidden_states))


class VaswaniDecoder(VaswaniStack):
    """A stack of identical layers over the embedded target, each looking at the encoder's output.

    Source: Section 3.1, right half of Figure 1.
    """

    _argument_prefix = "decoder_"
    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": VaswaniDecoderLayer,
        "attentions": OutputRecorder(VaswaniMultiHeadAttention, index=1, layer_name="self_attn"),
        "cross_attentions": OutputRecorder(
            VaswaniMultiHeadAttention, index=1, layer_name="encoder_attn"
        ),
    }

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config, config.vocab_size)
        self.layers = nn.ModuleList(
            VaswaniDecoderLayer(config, index) for index in range(config.decoder_layers)
        )
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        packing: BatchPacking | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """Decodes a batch of target beginnings; no position sees a later one (section 3.2.3).

        Args:
            input_ids: `(B, T)` int64, the start token first. With a filled `cache`, only what it
                does not hold yet.
            attention_mask: `(B, cached + T)`, 1 for real tokens. `None`: all are; padding on the
                right needs no mask, since nothing real looks to its right.
            encoder_hidden_states: `(B, S, D)`.
            encoder_attention_mask: `(B, S)`, 1 for real source tokens; `None`: all are.
            cache: keys and values of earlier calls.
            inputs_embeds: `(B, T, D)` in place of `input_ids`, as the table gives them.
            use_cache: whether to fill and return a cache.
            packing: computes the layers on `(1, N, D)`, as in the encoder; without a cache.

        Returns:
            `last_hidden_state` `(B, T, D)` and `cache`; on request `attentions`
            `(B, H, T, cached + T)` and `cross_attentions` `(B, H, T, S)` per layer.
        """
        if not isinstance(cache, EncoderDecoderCache) and (use_cache or cache is not None):
            # A cache for the target alone is given one for the source to go with it.
            own_cache = DynamicCache(config=self.config) if cache is None else cache
            cache = EncoderDecoderCache(own_cache, DynamicCache(config=self.config))
        cached_tokens = cache.get_seq_length() if cache is not None else 0
        settings = mask_settings(self.config, kwargs)
        side = None if packing is None else packing.target
        embedded, hidden_states = self._embed(
            input_ids, inputs_embeds, attention_mask, cached_tokens, side
        )
        mask: Any
        encoder_mask: Any
        if packing is None:
            mask = create_causal_mask(
                config=settings,
                inputs_embeds=embedded,
                attention_mask=attention_mask,
                cache=None if cache is None else cache.self_attention_cache,
            )
            encoder_mask = create_bidirectional_mask(
                config=settings,
                inputs_embeds=embedded,
                attention_mask=encoder_attention_mask,
                encoder_hidden_states=encoder_hidden_states,
            )
        else:
            mask, encoder_mask = packing.target_attention, packing.cross_attention
            kwargs["attention_implementation"] = PACKED
            assert encoder_hidden_states is not None
            encoder_hidden_states = packing.source.pack(encoder_hidden_states)
        for layer in self.layers:
            hidden_states = layer(
                hidden_states,
                # Positional, since gradient checkpointing follows only positional tensors.
                encoder_hidden_states,
                attention_mask=mask,
                encoder_attention_mask=encoder_mask,
                cache=cache,
                **kwargs,
            )
        hidden_states = self.layer_norm(hidden_states)
        return BaseModelOutputWithPastAndCrossAttentions(
            hidden_states if side is None else side.unpack(hidden_states), cache
        )


class VaswaniModel(VaswaniTwoSidedModel):
    """Encoder and decoder, without the projection to the vocabulary.

    Source: Section 3.1, Figure 1. With `share_encoder_decoder_embeddings` both have one table
    (section 3.4).
    """

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config)
        if config.share_encoder_decoder_embeddings:
            self._tied_weights_keys = {"decoder.embed_tokens.weight": "encoder.embed_tokens.weight"}
        self.encoder = VaswaniEncoder(config)
        self.decoder = VaswaniDecoder(config)
        self.post_init()

    @can_return_tuple
    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        cache: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        source_lengths: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> Seq2SeqModelOutput:
        """Encodes sources and decodes target beginnings.

        Args:
            input_ids, attention_mask, inputs_embeds, source_lengths: the source, see
                `VaswaniEncoder`.
            decoder_input_ids, decoder_attention_mask, decoder_inputs_embeds: the target, see
                `VaswaniDecoder`.
            encoder_outputs: what the encoder returned for the same sources, to spare the work.
            cache: keys and values of earlier calls.
            use_cache: whether to return a cache; `None` means as configured, and with labels in
                training mode not.
            labels: `(B, T)` int64 that the outputs will be compared with. Training may then leave
                out padding, and what follows a row's last label: outputs there are 0.

        Returns:
            `last_hidden_state` `(B, T, D)` and what encoder and decoder return.
        """
        known = (input_ids, inputs_embeds, None if encoder_outputs is None else encoder_outputs[0])
        source = next((tensor for tensor in known if tensor is not None), None)
        attention_mask = source_mask(self.config, source, attention_mask, source_lengths)
        if self.training and labels is not None and use_cache is None:
            use_cache = False
        others = (decoder_attention_mask, encoder_outputs, cache, use_cache, *kwargs.values())
        packing = batch_packing(self, attention_mask, labels, others)
        if encoder_outputs is None:
            encoded: BaseModelOutput = self.encoder(
                input_ids=input_ids,
                attention_mask=attention_mask,
                inputs_embeds=inputs_embeds,
                packing=packing,
                **kwargs,
            )
        elif isinstance(encoder_outputs, BaseModelOutput):
            encoded = encoder_outputs
        else:
            encoded = BaseModelOutput(*encoder_outputs)
        decoder_outputs = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoded.last_hidden_state,
            encoder_attention_mask=attention_mask,
            cache=cache,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            packing=packing,
            **kwargs,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=decoder_outputs.last_hidden_state,
            cache=decoder_outputs.cache,
            decoder_hidden_states=decoder_outputs.hidden_states,
            decoder_attentions=decoder_outputs.attentions,
            cross_attentions=decoder_outputs.cross_attentions,
            encoder_last_hidden_state=encoded.last_hidden_state,
            encoder_hidden_states=encoded.hidden_states,
            encoder_attentions=encoded.attentions,
        )


class VaswaniForConditionalGeneration(VaswaniTwoSidedModel, VaswaniGenerationMixin):
    """The Transformer of the paper: next-token scores, loss and translation.

    Source: Sections 3.4 (the projection shares the table of the embeddings) and 5.4 (the loss).
    """

    _tp_plan = {"lm_head": "colwise_gather_output"}  # noqa: RUF012
    # What a search may compute by packed steps; with other classes in their place it calls them.
    _decoding_classes = (
        VaswaniModel,
        VaswaniEncoder,
        VaswaniEncoderLayer,
        VaswaniDecoder,
        VaswaniDecoderLayer,
        VaswaniMultiHeadAttention,
        VaswaniPositionWiseFeedForward,
        VaswaniDropout,
    )

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config)
        self.generation_config = paper_generation_config(config)
        if config.share_encoder_decoder_embeddings:
            self._tied_weights_keys = {"lm_head.weight": "model.encoder.embed_tokens.weight"}
        elif config.tie_word_embeddings:
            self._tied_weights_keys = {"lm_head.weight": "model.decoder.embed_tokens.weight"}
        self.model = VaswaniModel(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=config.output_bias)
        self.post_init()

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """Returns `shift_right` of `labels` `(B, T)`; the collators of transformers call it."""
        return shift_right(
            labels,
            pad_token_id=self.config.pad_token_id,
            decoder_start_token_id=self.config.decoder_start_token_id,
        )

    @can_return_tuple
    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    def forward(  # type: ignore[misc]  # TransformersKwargs repeats one name
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        cache: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        source_lengths: Tensor | None = None,
        return_logits: bool = True,
        num_items_in_batch: int | Tensor | None = None,
        logits_to_keep: int = 0,
        **kwargs: Unpack[TransformersKwargs],
    ) -> Seq2SeqLMOutput:
        """Scores every next token, and computes the loss if `labels` are given.

        Args:
            labels: `(B, T)` int64, the target with its end token and without a start token.
                -100 and padding take no part. Without decoder inputs, these are made from them.
            return_logits: `False` spares the memory of tokens times vocabulary beside a loss.
            num_items_in_batch: what to divide the loss by, in target tokens; `None` means the
                real ones of this batch. A trainer gives the number of the whole update.
            logits_to_keep: how many last positions to return logits of; 0 means all.
            The others: see `VaswaniModel`.

        Returns:
            `logits` `(B, T, W)`, `loss` `()` in nats per target token, `cache` and what
            `VaswaniModel` returns. The loss is smoothed in training mode and plain negative
            log-likelihood in evaluation, so that its exponential is the perplexity. It is 0 for
            labels with no real token.
        """
        if labels is not None and decoder_input_ids is None and decoder_inputs_embeds is None:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        outputs: Seq2SeqModelOutput = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            cache=cache,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            source_lengths=source_lengths,
            labels=labels,
            **kwargs,
        )
        hidden_states = outputs.last_hidden_state
        assert hidden_states is not None
        logits = loss = None
        if return_logits or labels is None:
            logits = project(self.lm_head, hidden_states[:, -logits_to_keep:])
        if labels is not None:
            loss = translation_loss(
                hidden_states,
                self.lm_head,
                labels,
                logits=None if logits_to_keep else logits,
                num_items_in_batch=num_items_in_batch,
                smoothing=self.config.label_smoothing if self.training else 0.0,
                formula=self.config.smoothing_formula,
                pad_token_id=self.config.pad_token_id,
            )
        others = {key: value for key, value in outputs.items() if key != "last_hidden_state"}
        return Seq2SeqLMOutput(loss=loss, logits=logits, **others)


__all__ = ["VaswaniForConditionalGeneration", "VaswaniModel", "VaswaniPreTrainedModel"]
