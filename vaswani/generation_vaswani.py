"""The search of the paper for `generate()`.

Source: Section 6.1: beam search with beam size 4 and length penalty alpha = 0.6, output at most
as long as the source plus 50 tokens, ended early when possible.

    paper_generation_config          what a model ships
    check_search_settings            what is refused before any work
    VaswaniGenerationMixin           the beam search and the cap, entered through `generate()`

The search itself is in `beam_search_vaswani.py`, the model's steps between its own in
`search_steps_vaswani.py`.
Greedy search and sampling are those of transformers with the cap.
"""

import math
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedConfig
from transformers.generation import (
    EosTokenCriteria,
    GenerationMixin,
    MaxLengthCriteria,
    MaxTimeCriteria,
    StoppingCriteriaList,
)

from .beam_search_vaswani import LENGTH_PENALTY_TYPES, BeamSearch, BeamSettings, LengthPenalty
from .length_limit_vaswani import SourceLengthLimit, row_limits, source_length_limit
from .masks_vaswani import source_mask
from .packed_encoder_vaswani import packed_encoding
from .positions_vaswani import check_positions
from .prepacked_vaswani import DECODING_PRECISIONS
from .search_output_vaswani import SearchRecord, VaswaniGenerateOutput
from .search_steps_vaswani import search_steps

# These judge each row by itself, so a batch may shrink between their calls.
_ROW_BY_ROW = (EosTokenCriteria, MaxLengthCriteria, MaxTimeCriteria)


def paper_generation_config(config: PreTrainedConfig) -> GenerationConfig:
    """Returns the search settings of section 6.1 as a model ships them.

    Fields that transformers does not know:
        length_penalty_type: "gnmt", the score of n tokens (the end token included, the start
            token not) is log P / ((5 + n) / 6)^length_penalty; "power", it is
            log P / n^length_penalty as elsewhere in transformers.
        max_length_a, max_length_b: a sentence's output has at most
            `max_length_a` x source tokens + `max_length_b` tokens, ends included on both sides.
            A smaller `max_new_tokens` or `max_length` wins.
        decoding_precision: what the weights are packed in for a search on a CPU, one of
            `DECODING_PRECISIONS`; there only if it was set, and float32 if not.

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


def check_search_settings(generation_config: GenerationConfig) -> None:
    """Refuses settings under which no search could run.

    Raises:
        ValueError: for a beam below 1, a negative alpha, an unknown penalty, precision or rule of
            stopping, more outputs wanted than there are beams, or a length limit that is no number.
    """
    kind = getattr(generation_config, "length_penalty_type", "gnmt")
    if kind not in LENGTH_PENALTY_TYPES:
        raise ValueError(
            f"`length_penalty_type` must be one of {', '.join(LENGTH_PENALTY_TYPES)}, got {kind!r}."
        )
    precision = getattr(generation_config, "decoding_precision", None)
    if precision is not None and precision not in DECODING_PRECISIONS:
        raise ValueError(
            f"`decoding_precision` must be one of {', '.join(DECODING_PRECISIONS)}, "
            f"got {precision!r}."
        )
    alpha = generation_config.length_penalty
    if alpha is not None and not 0 <= alpha < math.inf:
        raise ValueError(
            f"`length_penalty` must be a number of at least 0, got {alpha}. "
            "A larger one prefers longer outputs; 0 compares plain log-probabilities."
        )
    beams = generation_config.num_beams
    if beams is not None and beams < 1:
        raise ValueError(f"`num_beams` must be at least 1, got {beams}. 1 is greedy search.")
    wanted = generation_config.num_return_sequences
    # Sampling draws any number of outputs, without beams too.
    sampled = beams == 1 and generation_config.do_sample
    if beams is not None and wanted is not None and wanted > beams and not sampled:
        raise ValueError(
            f"`num_return_sequences` must be at most `num_beams`, got {wanted} and {beams}. "
            "Use a wider beam."
        )
    if generation_config.early_stopping not in (None, True, False, "never"):
        raise ValueError(
            "`early_stopping` must be one of True, False, 'never', "
            f"got {generation_config.early_stopping!r}."
        )
    source_length_limit(generation_config, 1)


class VaswaniGenerationMixin(GenerationMixin):
    """`generate()` of transformers with the paper's beam search and cap."""

    def _prepare_generation_config(
        self, generation_config: GenerationConfig | None, **kwargs: Any
    ) -> tuple[GenerationConfig, dict[str, Any]]:
        """Takes `decoding_precision` as an argument of `generate()` too, whoever saved the model.

        transformers takes only what the model's settings have already.
        """
        precision = kwargs.pop("decoding_precision", None)
        settings, others = super()._prepare_generation_config(generation_config, **kwargs)
        if precision is not None:
            settings.decoding_precision = precision
        return settings, others

    def _validate_generation_mode(
        self, generation_mode: Any, generation_config: GenerationConfig, *args: Any, **kwargs: Any
    ) -> None:
        """Checks the settings of the search too, before anything is computed."""
        check_search_settings(generation_config)
        super()._validate_generation_mode(generation_mode, generation_config, *args, **kwargs)

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

    def _prepare_text_encoder_decoder_kwargs_for_generation(
        self,
        inputs_tensor: Tensor,
        model_kwargs: dict[str, Any],
        model_input_name: str | None,
        generation_config: GenerationConfig,
    ) -> dict[str, Any]:
        """Encodes the sources, with packed weights where that may be done."""
        arguments = (inputs_tensor, model_kwargs, model_input_name, generation_config)
        encoded = packed_encoding(self, *arguments)
        if encoded is None:
            return super()._prepare_text_encoder_decoder_kwargs_for_generation(*arguments)
        return {**model_kwargs, "encoder_outputs": encoded}

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

    def _get_stopping_criteria(self, *args: Any, **kwargs: Any) -> StoppingCriteriaList:
        """Those of transformers, which shall warn of a table's end only where there is a table."""
        criteria = super()._get_stopping_criteria(*args, **kwargs)
        for criterion in criteria:
            if isinstance(criterion, MaxLengthCriteria):
                criterion.max_position_embeddings = self.config.position_limit
        return criteria

    def _sample(
        self,
        input_ids: Tensor,
        logits_processor: Any,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        **model_kwargs: Any,
    ) -> Any:
        """Greedy search and sampling of transformers, each row up to its own limit."""
        limit = SourceLengthLimit(
            row_limits(generation_config, input_ids, model_kwargs),
            input_ids.size(1),
            _end_token_ids(generation_config, input_ids.device),
            [c for c in stopping_criteria if type(c) not in (EosTokenCriteria, MaxLengthCriteria)],
        )
        output = super()._sample(
            input_ids,
            logits_processor=logits_processor,
            stopping_criteria=StoppingCriteriaList([*stopping_criteria, limit]),
            generation_config=generation_config,
            **model_kwargs,
        )
        if isinstance(output, Tensor):
            return output
        return VaswaniGenerateOutput(**output, truncated=limit.truncated)

    def _beam_search(
        self,
        input_ids: Tensor,
        logits_processor: Any,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        synced_gpus: bool = False,
        **model_kwargs: Any,
    ) -> Any:
        """Searches with the model: score the next tokens, let the search choose, go on.

        Source: Section 6.1. What goes in and out is what `generate()` of transformers gives to
        its own search and expects back.

        Args:
            input_ids: `(B * K, P)` int64, the prompts, each K times.
            logits_processor: changes the log-probabilities of a step.
            stopping_criteria: which outputs end, beside those at their limit.
            generation_config: the settings.
            synced_gpus: whether to go on until every process is done, as sharded weights need.
            model_kwargs: encoder outputs, mask and cache, each row K times.

        Returns:
            `(B * num_return_sequences, L)` int64, or a `VaswaniGenerateBeamOutput` with it.
        """
        if generation_config.low_memory:
            raise ValueError("`low_memory` must be False for beam search, got True.")
        beams = generation_config.num_beams
        limits = row_limits(generation_config, input_ids, model_kwargs)[::beams]
        search = BeamSearch(
            input_ids[::beams], limits, _beam_settings(generation_config, input_ids.device)
        )
        record = SearchRecord(generation_config, model_kwargs.get("encoder_outputs"))
        steps = search_steps(self, generation_config, model_kwargs)
        may_shrink = (
            not (synced_gpus or generation_config.do_sample or logits_processor)
            and not record.keeps_steps
            and all(type(criterion) in _ROW_BY_ROW for criterion in stopping_criteria)
            and steps.may_shrink
        )
        finished = False
        while self._has_unfinished_sequences(finished, synced_gpus, device=input_ids.device):
            logits = steps.logits(search.open_tokens())
            if finished:
                continue
            logits = logits.to(device=input_ids.device, dtype=torch.float32)
            log_probs = logits_processor(search.open_tokens(), logits.log_softmax(dim=-1))
            record.add(steps.outputs, logits, log_probs)
            continued = search.advance(
                log_probs, lambda tokens: stopping_criteria(tokens, record.scores)
            )
            finished = bool(search.done.all())
            stay = search.drop_done() if may_shrink and not finished else None
            steps.follow(continued, stay)
        # Of a batch that has shrunk no cache is left to hand out.
        return record.output(search, limits, None if may_shrink else steps.cache)


def _beam_settings(generation_config: GenerationConfig, device: torch.device) -> BeamSettings:
    end_token_ids = _end_token_ids(generation_config, device)
    pad = generation_config._pad_token_tensor
    return BeamSettings(
        num_beams=generation_config.num_beams,
        num_return_sequences=generation_config.num_return_sequences or 1,
        penalty=LengthPenalty.of(generation_config),
        early_stopping=generation_config.early_stopping or False,
        sample=bool(generation_config.do_sample),
        end_token_ids=end_token_ids,
        pad_token_id=-1 if pad is None else int(pad),
    )


def _end_token_ids(generation_config: GenerationConfig, device: torch.device) -> Tensor:
    """Returns `(E,)` int64, empty where nothing ends an output."""
    ids = generation_config._eos_token_tensor
    return torch.empty(0, dtype=torch.long, device=device) if ids is None else ids.to(device)


__all__ = ["VaswaniGenerationMixin", "check_search_settings", "paper_generation_config"]
