"""Writes a model of ours as a folder that CTranslate2 opens, to be measured beside it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from ctranslate2.converters import utils
from ctranslate2.specs import common_spec, transformer_spec
from torch import nn

from vaswani import VaswaniForConditionalGeneration


def save_ctranslate2(
    model: VaswaniForConditionalGeneration, tokens: Sequence[str], folder: str | Path
) -> None:
    """Writes the model in float32; CTranslate2 makes int8 of it when it loads it.

    Args:
        model: of the paper's architecture: scaled dot products, relu, norms after the sums.
        tokens: what CTranslate2 shall call the vocabulary's entries, in their order.
        folder: to make, or to fill anew.
    """
    config = model.config
    specification = transformer_spec.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.encoder_attention_heads,
        pre_norm=False,
        activation=common_spec.Activation.RELU,
    )
    encoder: Any = model.model.encoder
    decoder: Any = model.model.decoder
    for part, stack in ((specification.encoder, encoder), (specification.decoder, decoder)):
        embeddings = part.embeddings[0] if isinstance(part.embeddings, list) else part.embeddings
        embeddings.weight = _array(stack.embed_tokens.weight)
        part.scale_embeddings = config.d_model**0.5
        positions = torch.arange(config.max_position_embeddings)
        part.position_encodings.encodings = _array(stack.embed_positions(positions, torch.float32))
        for wanted, layer in zip(part.layer, stack.layers, strict=True):
            _set_attention(wanted.self_attention, layer.self_attn, is_self=True)
            _set_norm(wanted.self_attention.layer_norm, layer.self_attn_layer_norm)
            if hasattr(layer, "encoder_attn"):
                _set_attention(wanted.attention, layer.encoder_attn, is_self=False)
                _set_norm(wanted.attention.layer_norm, layer.encoder_attn_layer_norm)
            _set_linear(wanted.ffn.linear_0, layer.feed_forward.fc1)
            _set_linear(wanted.ffn.linear_1, layer.feed_forward.fc2)
            _set_norm(wanted.ffn.layer_norm, layer.final_layer_norm)
    _set_linear(specification.decoder.projection, model.lm_head)
    specification.register_source_vocabulary(list(tokens))
    specification.register_target_vocabulary(list(tokens))
    specification.config.unk_token = tokens[config.pad_token_id]
    specification.config.bos_token = tokens[config.decoder_start_token_id]
    specification.config.decoder_start_token = tokens[config.decoder_start_token_id]
    specification.config.eos_token = tokens[config.eos_token_id]
    specification.validate()
    Path(folder).mkdir(parents=True, exist_ok=True)
    specification.save(str(folder))


def _array(tensor: torch.Tensor) -> Any:
    return tensor.detach().float().contiguous().numpy()


def _set_linear(wanted: Any, layer: Any) -> None:
    wanted.weight = _array(layer.weight)
    if layer.bias is not None:
        wanted.bias = _array(layer.bias)


def _set_norm(wanted: Any, layer: nn.Module) -> None:
    wanted.gamma, wanted.beta = _array(layer.weight), _array(layer.bias)


def _set_attention(wanted: Any, attention: Any, *, is_self: bool) -> None:
    parts = []
    for layer in (attention.q_proj, attention.k_proj, attention.v_proj):
        part = common_spec.LinearSpec()
        _set_linear(part, layer)
        parts.append(part)
    if is_self:
        utils.fuse_linear(wanted.linear[0], parts)
    else:
        utils.fuse_linear(wanted.linear[0], parts[:1])
        utils.fuse_linear(wanted.linear[1], parts[1:])
    _set_linear(wanted.linear[-1], attention.out_proj)
