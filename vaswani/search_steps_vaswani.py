"""Where a search's scores come from: the model's calls, or packed steps that compute the same.

    ModelSteps            calls of the model, as `generate()` of transformers makes them
    search_steps          the steps of a search: packed ones where they may be taken
    takes_packed_steps    when that is
    computes_as_written   whether modules are what their classes say

Both have `logits` and `follow`. Packed steps, in `decoder_steps_vaswani.py`, bypass the decoder's
modules; so whatever somebody has put in the place of one, or hung on one, keeps them away. A
caller keeps them away by asking for a cache: `cache_implementation="dynamic"`.

Shapes: B sentences, K beam size, L tokens with the prompt, W vocabulary entries.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook
from transformers import GenerationConfig
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from .decoder_steps_vaswani import DecoderSteps
from .packed_decoder_vaswani import PackedDecoder
from .prepacked_vaswani import packed_copy

# What `generate()` passes on by itself. Anything else is for the model's `forward`.
_USUAL = {"attention_mask", "cache", "encoder_outputs", "logits_to_keep", "use_cache"}
_TORCH_CLASSES = (nn.Dropout, nn.Embedding, nn.LayerNorm, nn.Linear)
_STEP_METHODS = (
    "forward",
    "get_decoder",
    "prepare_inputs_for_generation",
    "_prefill",
    "_update_model_kwargs_for_generation",
)


class ModelSteps:
    """The model's own steps, with the cache of transformers.

    Args:
        model: called at every step.
        generation_config: settings of the search.
        model_kwargs: what the model is called with, each row K times.
    """

    def __init__(
        self, model: Any, generation_config: GenerationConfig, model_kwargs: dict[str, Any]
    ) -> None:
        self.model = model
        self.generation_config = generation_config
        self.model_kwargs = model_kwargs
        self.outputs: Any = None

    @property
    def cache(self) -> Any:
        return self.model_kwargs.get("cache")

    @property
    def may_shrink(self) -> bool:
        """A cache of fixed size keeps its rows, and so does one that the caller goes on to use."""
        cache = self.cache
        own = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
        growing = isinstance(own, DynamicCache) and not getattr(cache, "_is_user_defined", False)
        return cache is None or growing

    def logits(self, tokens: Tensor) -> Tensor:
        """Returns the logits `(B * K, W)` of the token after `tokens`, `(B * K, L)` int64."""
        if self.outputs is None:
            self.outputs = self.model._prefill(
                tokens,
                self.generation_config,
                self.model_kwargs,
                is_first_iteration=not self.generation_config.is_assistant,
            )
        else:
            inputs = self.model.prepare_inputs_for_generation(
                tokens,
                next_sequence_length=1 if self.model_kwargs["use_cache"] else None,
                **self.model_kwargs,
            )
            self.outputs = self.model(**inputs, return_dict=True)
        self.model_kwargs = self.model._update_model_kwargs_for_generation(
            self.outputs, self.model_kwargs, is_encoder_decoder=True
        )
        return self.outputs.logits[:, -1]

    def follow(self, continued: Tensor, stay: Tensor | None) -> None:
        """Puts what the model remembers into the order of the hypotheses that go on.

        Args:
            continued: `(B * K,)` int64, the row that each open hypothesis continues.
            stay: `(B,)` bool, the sentences that are not done; `None`: all stay.
        """
        cache: Any = self.cache
        if stay is None:
            # The hypotheses of a sentence share the keys and values of its source.
            joint = isinstance(cache, EncoderDecoderCache)
            own: Any = cache.self_attention_cache if joint else cache
            if own is not None:
                own.reorder_cache(continued)
            return
        beams = len(continued) // len(stay)
        rows = stay.repeat_interleave(beams).nonzero()[:, 0]
        if cache is not None:
            cache.reorder_cache(continued[rows])
        for name, value in self.model_kwargs.items():
            if isinstance(value, Tensor) and value.dim() and value.size(0) == len(continued):
                self.model_kwargs[name] = value[rows]
        states = self.model_kwargs["encoder_outputs"].last_hidden_state
        self.model_kwargs["encoder_outputs"] = BaseModelOutput(last_hidden_state=states[rows])


def search_steps(
    model: Any, generation_config: GenerationConfig, model_kwargs: dict[str, Any]
) -> ModelSteps | DecoderSteps:
    """Returns the steps of a search: packed ones where they may be taken.

    Args:
        model: a model of this package.
        generation_config: settings of the search.
        model_kwargs: what the model would be called with, each row K times.
    """
    if not takes_packed_steps(model, generation_config, model_kwargs):
        return ModelSteps(model, generation_config, model_kwargs)
    precision = getattr(generation_config, "decoding_precision", None) or "float32"
    weights = [weight for module in _bypassed(model) for weight in module.parameters(recurse=False)]
    decoder = packed_copy(model, precision, weights, lambda: PackedDecoder(model, precision))
    if not decoder.embeds_numbers:
        return ModelSteps(model, generation_config, model_kwargs)
    beams = generation_config.num_beams
    states = model_kwargs["encoder_outputs"].last_hidden_state
    mask = model_kwargs["attention_mask"]
    # The last token of an output is never read; a table of learned positions has no row for it.
    most_read = generation_config.max_length - 1
    return DecoderSteps(decoder, states[::beams], mask[::beams], beams, most_read)


def takes_packed_steps(
    model: Any, generation_config: GenerationConfig, model_kwargs: dict[str, Any]
) -> bool:
    """Whether a search may take packed steps, which give what calls of the model would give.

    Args: as for `search_steps`.
    """
    settings, cache = generation_config, model_kwargs.get("cache")
    return (
        # What is recorded of each step only the model's call gives, and draws repeat its numbers.
        not settings.do_sample
        and not (settings.return_dict_in_generate and _records_steps(settings))
        # The caller knows the cache, or wants none.
        and bool(model_kwargs.get("use_cache"))
        and settings.cache_implementation is None
        and not getattr(cache, "_is_user_defined", False)
        # Ways to run the model's call, which is not made.
        and settings.compile_config is None
        and settings.prefill_chunk_size is None
        and not settings.is_assistant
        and not torch.compiler.is_compiling()
        # Arguments that only `forward` understands.
        and set(model_kwargs) <= _USUAL
        and model_kwargs["attention_mask"].dim() == 2
        # Numbers and gradients as in the packed products.
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and _is_plain(model_kwargs["encoder_outputs"].last_hidden_state)
        and computes_as_written(model, _bypassed)
    )


def _records_steps(settings: GenerationConfig) -> bool:
    return bool(
        settings.output_scores
        or settings.output_logits
        or settings.output_attentions
        or settings.output_hidden_states
    )


def computes_as_written(model: Any, bypassed: Callable[[Any], Iterator[nn.Module]]) -> bool:
    """Whether the modules that packed weights bypass are this package's own, and nothing else.

    Args:
        model: whatever was asked to search.
        bypassed: the modules of a model of this package whose forward is not called.
    """
    own: Any = next((cls for cls in type(model).__mro__ if "_decoding_classes" in vars(cls)), None)
    if own is None or model.config.attention_score == "additive" or model.config.hard_attention:
        return False
    if any(getattr(type(model), name) is not getattr(own, name) for name in _STEP_METHODS):
        return False
    known = (type(model), *own._decoding_classes, *_TORCH_CLASSES)
    return not _has_any_global_hook() and all(
        type(module) in known
        and not module.training
        and "forward" not in vars(module)
        and module._compiled_call_impl is None
        and not any(map(_matters, [*module._forward_hooks.values()]))
        and not module._forward_pre_hooks
        and all(map(_is_plain_parameter, module._parameters.values()))
        for module in bypassed(model)
    )


def _bypassed(model: Any) -> Iterator[nn.Module]:
    """The modules whose forward is not called by packed steps; functions and positions are."""
    decoder = model.get_decoder()
    yield from (model, model.model, decoder, model.lm_head, decoder.embed_tokens, decoder.dropout)
    for layer in decoder.layers:
        for name, module in layer.named_modules():
            if name.rpartition(".")[2] != "activation":
                yield module


def _matters(hook: Any) -> bool:
    """Recorders that transformers left behind record nothing unless they are asked to."""
    return getattr(hook, "__module__", "") != "transformers.utils.output_capturing"


def _is_plain_parameter(parameter: nn.Parameter | None) -> bool:
    return parameter is None or (type(parameter) is nn.Parameter and _is_plain(parameter))


def _is_plain(tensor: Tensor) -> bool:
    return (
        tensor.device.type == "cpu"
        and tensor.dtype == torch.float32
        and tensor.layout == torch.strided
    )


__all__ = ["ModelSteps", "computes_as_written", "search_steps", "takes_packed_steps"]
