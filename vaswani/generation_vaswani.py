"""The search of the paper for `generate()`.

Source: Section 6.1: beam search with beam size 4 and length penalty alpha = 0.6, output at most
as long as the source plus 50 tokens, ended early when possible.

    paper_generation_config          what a model ships
    VaswaniGenerationMixin           the length penalty and the cap, within transformers' search

The search itself is that of transformers. Added are two things that it does not have: the
length penalty of the paper's reference, Wu et al. (2016), and a cap that depends on each source.
"""

import copy
import math
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedConfig
from transformers.generation import GenerationMixin, StoppingCriteria, StoppingCriteriaList

from .masks_vaswani import source_mask
from .positions_vaswani import check_positions

LENGTH_PENALTY_TYPES = ("gnmt", "power")


def paper_generation_config(config: PreTrainedConfig) -> GenerationConfig:
    """Returns the search settings of section 6.1 as a model ships them.

    Fields that transformers does not know:
        length_penalty_type: "gnmt", the score of n tokens (the end token included, the start
            token not) is log P / ((5 + n) / 6)^length_penalty; "power", it is
            log P / n^length_penalty as elsewhere in transformers.
        max_length_a, max_length_b: a sentence's output has at most
            `max_length_a` x source tokens + `max_length_b` tokens, ends included on both sides.
            A smaller `max_new_tokens` or `max_length` wins.

    A fresh object, since transformers drops unknown fields of one that was derived from a model's
    configuration when it is saved.
    """
    return GenerationConfig(
        num_beams=4,
        length_penalty=0.6,
        length_penalty_type="gnmt",
        early_stopping="never",
        max_length_a=1.0,
        max_length_b=50,
        pad_token_id=config.pad_token_id,
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
    )


class GnmtLengthPenalty(float):
    """The exponent alpha under which `n ** alpha` means ((5 + n) / 6)^alpha.

    Source: Wu et al. (2016), Equation 14. The beam search of transformers divides by
    `n ** length_penalty` when a hypothesis ends and when it bounds what running ones can still
    reach; given this number in place of a plain one, it does both with the paper's penalty.
    """

    def __rpow__(self, length: float, modulo: None = None) -> float:
        return ((5.0 + length) / 6.0) ** float(self)

    def __deepcopy__(self, memo: dict) -> "GnmtLengthPenalty":
        return self


class FillingPadId(int):
    """A pad id that is true even where it is 0.

    The beam search of transformers 5.24 fills finished rows with "the pad id, or else the end
    token". With pad id 0 an output that was cut at its cap would seem to have ended by itself.
    """

    def __bool__(self) -> bool:
        return True


class SourceLengthLimit(StoppingCriteria):
    """Ends each sentence at its own limit.

    Args:
        limits: `(B,)` int64, tokens that may be generated for each sentence.
        prompt_tokens: tokens that were there before the first generated one.
    """

    def __init__(self, limits: Tensor, prompt_tokens: int) -> None:
        self.limits = limits
        self.prompt_tokens = prompt_tokens

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        """Returns `(rows,)` bool; a sentence may have several rows of `input_ids`, in a run."""
        ended = self.limits <= input_ids.size(1) - self.prompt_tokens
        return ended.repeat_interleave(input_ids.size(0) // len(ended))


class VaswaniGenerationMixin(GenerationMixin):
    """`generate()` of transformers with the paper's length penalty and cap."""

    def _maybe_prepare_encoder_kwargs_for_generation(
        self,
        inputs_tensor: Tensor,
        model_kwargs: dict[str, Any],
        model_input_name: str | None,
        generation_config: GenerationConfig,
    ) -> dict[str, Any]:
        """Makes a missing mask by the rule of `forward`, for encoder, decoder and cap alike."""
        mask = source_mask(
            self.config,
            inputs_tensor,
            model_kwargs.get("attention_mask"),
            model_kwargs.pop("source_lengths", None),
        )
        if mask is None:
            mask = torch.ones(
                inputs_tensor.shape[:2], dtype=torch.long, device=inputs_tensor.device
            )
        model_kwargs["attention_mask"] = mask
        return super()._maybe_prepare_encoder_kwargs_for_generation(
            inputs_tensor, model_kwargs, model_input_name, generation_config
        )

    def _prepare_generated_length(
        self,
        generation_config: GenerationConfig,
        has_default_max_length: bool,
        has_default_min_length: bool,
        model_input_name: str,
        input_ids_length: int,
        inputs_tensor: Tensor,
    ) -> GenerationConfig:
        """Lets the longest source of the batch set the length unless the user set a smaller one.

        Learned positions set an end of their own: the decoder reads at most as many tokens as its
        table has rows, and gives one more than it reads.
        """
        table = self.config.position_limit
        check_positions(
            "decoder_input_ids", input_ids_length, table, torch.tensor(input_ids_length - 1)
        )
        limit = source_length_limit(generation_config, inputs_tensor.size(1))
        user_set = generation_config.max_new_tokens is not None or not has_default_max_length
        prepared = super()._prepare_generated_length(
            generation_config,
            has_default_max_length,
            has_default_min_length,
            model_input_name,
            input_ids_length,
            inputs_tensor,
        )
        capped = limit + input_ids_length
        prepared.max_length = min(prepared.max_length, capped) if user_set else capped
        if table is not None:
            prepared.max_length = min(prepared.max_length, table + 1)
        return prepared

    def _validate_generated_length(
        self,
        generation_config: GenerationConfig,
        input_ids_length: int,
        has_default_max_length: bool,
    ) -> None:
        """Checks as transformers does; a length from the source is no default to warn about."""
        super()._validate_generated_length(
            generation_config, input_ids_length, has_default_max_length=False
        )

    def _sample(
        self,
        input_ids: Tensor,
        logits_processor: Any,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        **model_kwargs: Any,
    ) -> Any:
        return super()._sample(
            input_ids,
            logits_processor=logits_processor,
            stopping_criteria=_with_limits(
                stopping_criteria, generation_config, input_ids, model_kwargs, rows_per_sentence=1
            ),
            generation_config=generation_config,
            **model_kwargs,
        )

    def _beam_search(
        self,
        input_ids: Tensor,
        logits_processor: Any,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        **model_kwargs: Any,
    ) -> Any:
        kind = getattr(generation_config, "length_penalty_type", "gnmt")
        if kind not in LENGTH_PENALTY_TYPES:
            raise ValueError(
                f"`length_penalty_type` must be one of {', '.join(LENGTH_PENALTY_TYPES)}, "
                f"got {kind!r}."
            )
        generation_config = copy.copy(generation_config)
        filling_pad: Any = FillingPadId(generation_config.pad_token_id)
        generation_config._pad_token_tensor = filling_pad
        if kind == "gnmt":
            generation_config.length_penalty = GnmtLengthPenalty(generation_config.length_penalty)
        return super()._beam_search(
            input_ids,
            logits_processor=logits_processor,
            stopping_criteria=_with_limits(
                stopping_criteria,
                generation_config,
                input_ids,
                model_kwargs,
                rows_per_sentence=generation_config.num_beams,
            ),
            generation_config=generation_config,
            **model_kwargs,
        )


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


def _with_limits(
    criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    input_ids: Tensor,
    model_kwargs: dict[str, Any],
    *,
    rows_per_sentence: int,
) -> StoppingCriteriaList:
    """Adds each sentence's own limit, read off the mask of its source."""
    mask = model_kwargs.get("attention_mask")
    if mask is None or mask.dim() != 2:
        return criteria
    source_tokens = mask[::rows_per_sentence].sum(dim=-1)
    limits = source_length_limit(generation_config, source_tokens)
    return StoppingCriteriaList([*criteria, SourceLengthLimit(limits, input_ids.size(1))])


__all__ = ["VaswaniGenerationMixin", "paper_generation_config"]
