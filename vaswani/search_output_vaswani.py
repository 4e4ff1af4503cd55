"""What `generate()` returns with `return_dict_in_generate`: the library's outputs and `truncated`.

VaswaniGenerateOutput        of greedy search and sampling
VaswaniGenerateBeamOutput    of beam search
SearchRecord                 collects the latter, step by step
"""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from transformers import GenerationConfig
from transformers.generation.utils import (
    GenerateBeamEncoderDecoderOutput,
    GenerateEncoderDecoderOutput,
)

from .beam_search_vaswani import BeamSearch, reached_limit


@dataclass
class VaswaniGenerateOutput(GenerateEncoderDecoderOutput):
    """The output of greedy search and sampling with `return_dict_in_generate`.

    Args:
        truncated: `(rows,)` bool, `True` where the output reached its limit without an end token.
        The others: see the base class.
    """

    truncated: Tensor | None = None


@dataclass
class VaswaniGenerateBeamOutput(GenerateBeamEncoderDecoderOutput):
    """The output of beam search with `return_dict_in_generate`.

    `sequences_scores` and `beam_indices` are always there. A sentence with fewer hypotheses than
    wanted has rows without tokens, whose score is minus infinity.

    Args:
        truncated: `(rows,)` bool, `True` where the output reached its limit without an end token.
        The others: see the base class.
    """

    truncated: Tensor | None = None


@dataclass
class SearchRecord:
    """What `generate()` is asked to return besides the tokens, step by step."""

    settings: GenerationConfig
    encoded: Any
    scores: tuple | None = field(default=None)
    logits: tuple | None = field(default=None)
    attentions: tuple | None = field(default=None)
    cross_attentions: tuple | None = field(default=None)
    hidden_states: tuple | None = field(default=None)

    def __post_init__(self) -> None:
        if not self.settings.return_dict_in_generate:
            return
        self.scores = () if self.settings.output_scores else None
        self.logits = () if self.settings.output_logits else None
        self.attentions = () if self.settings.output_attentions else None
        self.cross_attentions = () if self.settings.output_attentions else None
        self.hidden_states = () if self.settings.output_hidden_states else None

    @property
    def keeps_steps(self) -> bool:
        kept = (self.scores, self.logits, self.attentions, self.hidden_states)
        return any(steps is not None for steps in kept)

    def add(self, outputs: Any, logits: Tensor, log_probs: Tensor) -> None:
        if self.scores is not None:
            self.scores += (log_probs.clone(),)
        if self.logits is not None:
            self.logits += (logits.clone(),)
        if self.attentions is not None:
            self.attentions += (outputs.decoder_attentions,)
            self.cross_attentions = (*(self.cross_attentions or ()), outputs.cross_attentions)
        if self.hidden_states is not None:
            self.hidden_states += (outputs.decoder_hidden_states,)

    def output(self, search: BeamSearch, limits: Tensor, cache: Any) -> Any:
        found = search.result()
        sequences: Any = found.tokens.flatten(0, 1)
        rows: Any = found.rows.flatten(0, 1)
        if not self.settings.return_dict_in_generate:
            return sequences
        truncated = reached_limit(found, limits, search.settings.end_token_ids)
        wants_attentions = self.settings.output_attentions
        wants_states = self.settings.output_hidden_states
        return VaswaniGenerateBeamOutput(
            sequences=sequences,
            sequences_scores=found.scores.flatten(),
            scores=self.scores,
            logits=self.logits,
            beam_indices=rows,
            encoder_attentions=self.encoded.get("attentions") if wants_attentions else None,
            encoder_hidden_states=self.encoded.get("hidden_states") if wants_states else None,
            decoder_attentions=self.attentions,
            cross_attentions=self.cross_attentions,
            decoder_hidden_states=self.hidden_states,
            cache=cache,
            truncated=truncated.flatten(),
        )


__all__ = ["SearchRecord", "VaswaniGenerateBeamOutput", "VaswaniGenerateOutput"]
