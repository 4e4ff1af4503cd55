"""Several models with the same vocabulary that translate as one.

    VaswaniEnsemble       the mean of the members' probabilities, token by token
    EnsembleCache         the keys and values of all members

Shapes: B sources, S source tokens, T target tokens, W vocabulary entries.
"""

import copy
import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from vaswani.errors import InputError
from vaswani.generation_vaswani import VaswaniGenerationMixin
from vaswani.modeling_vaswani import VaswaniForConditionalGeneration, VaswaniPreTrainedModel

# What decides which token an id is, and where an output begins and ends.
_SHARED = (
    "vocab_size",
    "source_vocab_size",
    "pad_token_id",
    "source_pad_token_id",
    "eos_token_id",
    "decoder_start_token_id",
)


class EnsembleCache(EncoderDecoderCache):
    """One cache that holds the layers of all members, so that it is reordered as one.

    Args:
        models: the members.
    """

    def __init__(self, models: Sequence[VaswaniForConditionalGeneration]) -> None:
        self.members = [
            EncoderDecoderCache(
                DynamicCache(config=model.config), DynamicCache(config=model.config)
            )
            for model in models
        ]
        own, cross = DynamicCache(), DynamicCache()
        own.layers = [x for member in self.members for x in member.self_attention_cache.layers]
        cross.layers = [x for member in self.members for x in member.cross_attention_cache.layers]
        super().__init__(own, cross)


class EnsembleEncoder(nn.Module):
    """The encoders of all members; their outputs side by side."""

    main_input_name = "input_ids"

    def __init__(self, models: nn.ModuleList) -> None:
        super().__init__()
        self.encoders: Any = nn.ModuleList(model.get_encoder() for model in models)

    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> BaseModelOutput:
        """Returns `last_hidden_state` `(B, S, sum of the members' d_model)`."""
        states = [
            encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            for encoder in self.encoders
        ]
        return BaseModelOutput(last_hidden_state=torch.cat(states, dim=-1))


class VaswaniEnsemble(VaswaniPreTrainedModel, VaswaniGenerationMixin):
    """Gives the mean of several models' probabilities; `generate()` searches with it.

    Settings of the search are those of the first model. Attention weights and hidden states
    cannot be asked for.

    Args:
        models: the members, of any sizes and architectures, with the same vocabulary.

    Raises:
        InputError: if the vocabularies differ.
    """

    def __init__(self, models: Sequence[VaswaniForConditionalGeneration]) -> None:
        for name in _SHARED:
            values = [getattr(model.config, name) for model in models]
            for value in values[1:]:
                if value != values[0]:
                    raise InputError(
                        f"`{name}` must be the same in all models of an ensemble, "
                        f"got {values[0]} and {value}. Train them with one tokenizer."
                    )
        config = copy.deepcopy(models[0].config)
        config.max_position_embeddings = min(m.config.max_position_embeddings for m in models)
        tables = [m.config.position_limit for m in models if m.config.position_limit is not None]
        if tables:
            # No member may read beyond its table; sinusoids of others have no end.
            config.position_encoding = "learned"
            config.max_position_embeddings = min(tables)
        super().__init__(config)
        self.generation_config = copy.deepcopy(models[0].generation_config)
        self.members: Any = nn.ModuleList(models)
        self.encoder = EnsembleEncoder(self.members)
        self.widths = [model.config.d_model for model in models]

    def get_encoder(self, *args: Any, **kwargs: Any) -> nn.Module:
        """Returns the encoders of all members as one."""
        return self.encoder

    def _prepare_cache_for_generation(
        self, generation_config: GenerationConfig, model_kwargs: dict, *args: Any, **kwargs: Any
    ) -> None:
        """Makes a cache for all members, whichever kind was asked for."""
        if generation_config.use_cache is not False:
            model_kwargs["cache"] = EnsembleCache(self.members)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        cache: EnsembleCache | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        **kwargs: Any,
    ) -> Seq2SeqLMOutput:
        """Scores every next token.

        Args: see `VaswaniForConditionalGeneration`.

        Returns:
            `logits` `(B, T, W)`, the logarithms of the mean probabilities, and `cache`.
        """
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids=input_ids, attention_mask=attention_mask)
        assert encoder_outputs.last_hidden_state is not None
        states = encoder_outputs.last_hidden_state.split(self.widths, dim=-1)
        caches = [None] * len(states) if cache is None else cache.members
        log_probs = []
        for member, state, own_cache in zip(self.members, states, caches, strict=True):
            logits = member(
                attention_mask=attention_mask,
                decoder_input_ids=decoder_input_ids,
                decoder_attention_mask=decoder_attention_mask,
                encoder_outputs=BaseModelOutput(last_hidden_state=state),
                cache=own_cache,
                use_cache=own_cache is not None,
                logits_to_keep=logits_to_keep,
            ).logits
            precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
            log_probs.append(precise.log_softmax(dim=-1))
        mean = reduce(torch.logaddexp, log_probs) - math.log(len(log_probs))
        return Seq2SeqLMOutput(logits=mean, cache=cache)
