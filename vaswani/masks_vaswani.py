"""Which source tokens are real: said by a mask, by lengths, or by the id of padding.

    source_mask                      one rule for `forward`, the encoder alone and `generate`
    mask_settings                    which attention backend masks are made for

Shapes: B batch, S source tokens, D d_model.
"""

import copy
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig
from transformers.utils import logging

logger = logging.get_logger(__name__)


def source_mask(
    config: PreTrainedConfig,
    source: Tensor | None,
    attention_mask: Tensor | None = None,
    source_lengths: Tensor | None = None,
) -> Tensor | None:
    """Returns which source tokens are real, or `None` if all are.

    Where neither a mask nor lengths are given, all ids but padding are real. Where padding has the
    id of the end token the two cannot be told apart; then every token is real, and a warning says
    so if padding seems to be there.

    Args:
        config: tells the source's pad id.
        source: `(B, S)` int64 ids, or `(B, S, D)` what was made of them.
        attention_mask: `(B, S)`, 1 for real tokens; it is returned as it is.
        source_lengths: `(B,)` int64, in its place: so many tokens are real, from the first on.

    Returns:
        `(B, S)` int64, 1 for real tokens.

    Raises:
        ValueError: if both are given, or lengths do not fit the source.
    """
    if source_lengths is not None:
        if attention_mask is not None:
            raise ValueError(
                "`attention_mask` and `source_lengths` must not both be given, got both. "
                "They say the same; leave one out."
            )
        return None if source is None else _mask_of_lengths(source, source_lengths)
    if attention_mask is not None or source is None or source.dim() != 2:
        return attention_mask
    pad, eos = config.source_pad_token_id, config.eos_token_id
    is_pad = source == pad
    if pad not in (eos if isinstance(eos, list) else [eos]):
        return (~is_pad).long()
    if not torch.compiler.is_compiling() and bool((is_pad.sum(-1) > 1).any()):
        logger.warning_once(
            "`attention_mask` must be given when padding and the end token have the same id, "
            f"got None and id {pad} for both. Every source token is attended to, padding included."
        )
    return None


def _mask_of_lengths(source: Tensor, lengths: Tensor) -> Tensor:
    rows, width = source.shape[:2]
    if lengths.shape != (rows,) or lengths.is_floating_point():
        raise ValueError(
            f"`source_lengths` must be {rows} integers, one a source, "
            f"got {lengths.dtype} of shape {tuple(lengths.shape)}."
        )
    outside = (lengths < 0) | (lengths > width)
    if not torch.compiler.is_compiling() and bool(outside.any()):
        raise ValueError(
            f"`source_lengths` must be between 0 and the source's {width} tokens, "
            f"got {int(lengths[outside][0])}."
        )
    return (torch.arange(width, device=source.device) < lengths.to(source.device)[:, None]).long()


def mask_settings(config: Any, kwargs: dict[str, Any]) -> Any:
    """Returns the configuration to make masks with, and sets `kwargs` up to match.

    Only the plain backend returns attention weights, so it takes over when they are asked for
    (and when `hard_attention` is switched on later).

    Args:
        config: the model's.
        kwargs: what the layers are called with.
    """
    wanted = kwargs.get("output_attentions") or config.output_attentions
    wanted = wanted or config.needs_eager_attention
    if not wanted or config._attn_implementation == "eager":
        return config
    logger.warning_once(
        f"The {config._attn_implementation} attention returns no weights; the eager one is "
        "used for calls with `output_attentions=True` or `hard_attention`."
    )
    kwargs["attention_implementation"] = "eager"
    settings = copy.copy(config)
    settings._attn_implementation = "eager"
    return settings


__all__ = ["mask_settings", "source_mask"]
