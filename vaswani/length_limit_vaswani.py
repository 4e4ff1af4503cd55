"""The cap of section 6.1: an output is at most so much longer than its own source.

    source_length_limit       the rule
    row_limits                the limit of each row of a batch
    SourceLengthLimit         ends the rows of greedy search and sampling

Beam search takes the limits themselves.
"""

import math
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig
from transformers.generation import StoppingCriteria


def source_length_limit(generation_config: GenerationConfig, source_tokens: Any) -> Any:
    """Returns how many tokens may be generated for `source_tokens`, an int or `(B,)` int64."""
    factor = getattr(generation_config, "max_length_a", 1.0)
    extra = getattr(generation_config, "max_length_b", 50)
    for name, value in (("max_length_a", factor), ("max_length_b", extra)):
        if not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ValueError(f"`{name}` must be a number of at least 0, got {value!r}.")
    if isinstance(source_tokens, Tensor):
        return (source_tokens * factor + extra).long().clamp(min=1)
    return max(int(source_tokens * factor + extra), 1)


def row_limits(
    generation_config: GenerationConfig, input_ids: Tensor, model_kwargs: dict[str, Any]
) -> Tensor:
    """Returns `(rows,)` int64, tokens that may be generated for each row of `input_ids`."""
    most = generation_config.max_length - input_ids.size(1)
    mask = model_kwargs.get("attention_mask")
    if mask is None or mask.dim() != 2:
        return torch.full((len(input_ids),), most, device=input_ids.device)
    limits = source_length_limit(generation_config, mask.sum(dim=-1))
    return limits.to(input_ids.device).clamp(max=most)


class SourceLengthLimit(StoppingCriteria):
    """Ends each row at its own limit, and tells afterwards which rows that has cut.

    Args:
        limits: `(rows,)` int64, tokens that may be generated.
        prompt_tokens: tokens that were there before the first generated one.
        end_token_ids: `(E,)` int64, the tokens that end an output.
        others: the criteria that may have ended a row before, besides those two.
    """

    def __init__(
        self, limits: Tensor, prompt_tokens: int, end_token_ids: Tensor, others: list[Any]
    ) -> None:
        self.limits = limits
        self.prompt_tokens = prompt_tokens
        self.end_token_ids = end_token_ids
        self.others = others
        self.stopped = torch.zeros_like(limits, dtype=torch.bool)
        self.truncated = torch.zeros_like(limits, dtype=torch.bool)

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Any:
        """Returns `(rows,)` bool for `input_ids`, `(rows, L)` int64."""
        generated = input_ids[:, self.prompt_tokens :]
        for criterion in self.others:
            self.stopped |= criterion(input_ids, scores, **kwargs)
        ended = torch.isin(generated, self.end_token_ids).any(dim=-1)
        self.truncated |= (self.limits == generated.size(1)) & ~ended & ~self.stopped
        return self.limits <= generated.size(1)


__all__ = ["SourceLengthLimit", "row_limits", "source_length_limit"]
