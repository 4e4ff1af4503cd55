"""The translation pipeline: texts in, dictionaries out, as `pipeline()` of transformers has it.

    VaswaniTranslationPipeline       of a model and its tokenizer

transformers 5 has no pipeline for translation any more. A saved folder brings this one along:
`pipeline("translation", model=folder, trust_remote_code=True)`.

Shapes: B texts, S source tokens, N translations of a text, L generated tokens.
"""

from collections.abc import Iterator, Sequence
from numbers import Integral
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, Pipeline
from transformers.pipelines.pt_utils import KeyDataset

from .beam_search_vaswani import LengthPenalty
from .tokenization_vaswani import check_entries


class VaswaniTranslationPipeline(Pipeline):
    """Translates one text or many.

    Source: the pipeline "translation" of transformers 4, with its arguments and results.

    Args:
        model: a `VaswaniForConditionalGeneration`. Each call puts it into evaluation
            mode.
        tokenizer: the tokenizer that it was trained with.
        others: `device`, `batch_size`, `num_workers`, `assistant_model`; and every argument of a
            call, as its default.

    Raises:
        TypeError: if the model or the tokenizer is missing or is no such thing.
        ValueError: if the tokenizer has more entries than the model has rows.
    """

    model: Any
    tokenizer: Any
    _load_tokenizer: Any = True
    _load_processor: Any = False
    _load_image_processor: Any = False
    _load_video_processor: Any = False
    _load_feature_extractor: Any = False
    _pipeline_calls_generate = True

    def __init__(self, model: Any, tokenizer: Any = None, **others: Any) -> None:
        for name, value, method in (
            ("model", model, "generate"),
            ("tokenizer", tokenizer, "decode"),
        ):
            if not hasattr(value, method):
                # Modules and tokenizers show themselves in hundreds of lines.
                plain = value is None or isinstance(value, str)
                raise TypeError(
                    f"`{name}` must be a loaded {name}, got "
                    f"{repr(value) if plain else type(value).__name__}. "
                    "To load a folder, call `transformers.pipeline` with `pipeline_class`."
                )
        if not hasattr(getattr(model, "config", None), "source_vocab_size"):
            raise TypeError(
                "`model` must be a VaswaniForConditionalGeneration, got "
                f"{type(model).__name__}. Use a pipeline of transformers for other models."
            )
        check_entries(model.config, tokenizer)
        super().__init__(model=model, tokenizer=tokenizer, **others)

    def __call__(self, inputs: Any, **settings: Any) -> Any:  # type: ignore[override]
        """Translates `inputs`; results are in their order, and do not depend on `batch_size`.

        Args:
            inputs: a text; a list or column of texts; a generator or another iterator of texts;
                a `KeyDataset`. White space at the ends of a text and NUL characters are dropped,
                as in training. A blank text has the empty translation.
            batch_size: texts that are translated at once, 1 unless set before.
            return_text, return_tensors: whether a result holds `translation_text`, the default,
                and `translation_token_ids`, `(L,)` int64: the generated tokens with the end token.
            return_scores: whether it holds `score`, log P divided by the length penalty, in nats.
            return_truncated: whether it holds `truncated`: whether the output was cut at its limit.
            truncation: `True` leaves out the end of a source that is longer than the model is
                meant for. Without it, one that is longer than learned positions is refused.
            clean_up_tokenization_spaces: as in `tokenizer.decode`.
            others: any argument of `generate()`, such as `num_beams`, `num_return_sequences`,
                `max_new_tokens`, `generation_config`.

        Returns:
            For a text, a list of dictionaries, one a translation, the best first. For a list, one
            dictionary a text, or with `num_return_sequences` above 1 a list of them. For a
            generator or data set, an iterator of lists. A text can have fewer translations than
            asked for where there are no more, and a blank one has one.

        Raises:
            TypeError: if an input is no text, or `generation_config` is none.
            ValueError: if one has more tokens than the model has learned positions, or
                `num_return_sequences` is no integer of at least 1.
        """
        wanted = self._wanted(settings)
        if isinstance(inputs, Sequence) and not isinstance(inputs, str | bytes):
            # Tuples, and columns of `datasets`, which are sequences of their own.
            inputs = list(inputs)
        elif isinstance(inputs, Iterator):
            inputs = (text for text in inputs)
        if isinstance(inputs, list | KeyDataset) and not len(inputs):
            return []
        results = super().__call__(inputs, **settings)
        if isinstance(inputs, list) and wanted == 1:
            return [result for (result,) in results]
        return results

    def _wanted(self, settings: dict[str, Any]) -> int:
        """How many translations a call asks for."""
        search = {**self._forward_params, **self._sanitize_parameters(**settings)[1]}
        config = {**self._generate_kwargs, **search}.get("generation_config")
        if not isinstance(config, GenerationConfig | None):
            raise TypeError(
                "`generation_config` must be a GenerationConfig, got a value of type "
                f"{type(config).__name__}. Make one with `GenerationConfig(...)`, or give its "
                "settings as arguments."
            )
        return self._search_settings(self._prepare_generate_kwargs(search)).num_return_sequences

    def _search_settings(self, generate_kwargs: dict[str, Any]) -> SimpleNamespace:
        """The settings that `generate()` goes by: its arguments over those of the model."""
        unset = dict.fromkeys(("num_beams", "length_penalty", "eos_token_id", "pad_token_id"))
        found = {"num_return_sequences": 1} | self._get_set_generation_params(generate_kwargs)
        wanted = found["num_return_sequences"]
        if not isinstance(wanted, Integral) or isinstance(wanted, bool) or wanted < 1:
            raise ValueError(
                f"`num_return_sequences` must be an integer of at least 1, got {wanted!r}. "
                "Leave it out for one translation a text."
            )
        return SimpleNamespace(**unset | found)

    def _sanitize_parameters(
        self,
        truncation: Any = None,
        return_text: bool | None = None,
        return_tensors: bool | None = None,
        return_scores: bool | None = None,
        return_truncated: bool | None = None,
        clean_up_tokenization_spaces: bool | None = None,
        **generate_kwargs: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Deals the arguments of a call out to the three steps; those not given are left out."""
        of_results = {
            "return_text": return_text,
            "return_tensors": return_tensors,
            "return_scores": return_scores,
            "return_truncated": return_truncated,
            "clean_up_tokenization_spaces": clean_up_tokenization_spaces,
        }
        scored = {} if return_scores is None else {"return_scores": return_scores}
        return (
            {} if truncation is None else {"truncation": truncation},
            {**generate_kwargs, **scored},
            {name: value for name, value in of_results.items() if value is not None},
        )

    def preprocess(self, input_: Any, truncation: Any = False) -> dict[str, Tensor]:  # type: ignore[override]
        """Returns `input_ids` and `attention_mask` `(1, S)` int64, `blank` `(1,)` bool."""
        if not isinstance(input_, str):
            raise TypeError(
                f"`inputs` must be a text or several, got {input_!r:.80} of type "
                f"{type(input_).__name__}. Of a data set, name the column: "
                "`KeyDataset(dataset, column)`."
            )
        text = input_.replace("\0", "").strip()
        config = self.model.config
        most = min(self.tokenizer.model_max_length, config.max_position_embeddings)
        # Not verbose: sinusoids have no length at which they would end.
        encoded = self.tokenizer(
            text, return_tensors="pt", truncation=truncation, max_length=most, verbose=False
        )
        tokens = encoded["input_ids"].size(1)
        if config.position_limit is not None and tokens > config.position_limit:
            raise ValueError(
                "`inputs` must have at most `max_position_embeddings` = "
                f"{config.position_limit} tokens each, as the positions are learned, got {tokens} "
                f"in {text!r:.60}. Shorten it, or set truncation=True."
            )
        return {**encoded, "blank": torch.tensor([not text])}

    def _forward(  # type: ignore[override]
        self, input_tensors: dict[str, Tensor], return_scores: bool = False, **generate_kwargs: Any
    ) -> dict[str, Tensor]:
        """Returns, for each text, N rows of a common shape, as the pipeline takes batches apart.

        Returns:
            `token_ids` `(B, N, L)` int64; `lengths` `(B, N)` int64, their tokens, -1 where there
            is no translation; `scores` `(B, N)`; `truncated` `(B, N)` bool.
        """
        self.model.eval()  # whoever trains it between two calls leaves its dropout on
        filled = ~input_tensors["blank"]
        texts = len(filled)
        arguments = self._prepare_generate_kwargs(generate_kwargs, return_dict_in_generate=True)
        wanted = self._search_settings(arguments).num_return_sequences
        lengths = torch.full((texts, wanted), -1)
        lengths[:, 0] = 0
        found = {
            "token_ids": torch.zeros((texts, wanted, 0), dtype=torch.long),
            "lengths": lengths,
            "scores": torch.zeros(texts, wanted),
            "truncated": torch.zeros((texts, wanted), dtype=torch.bool),
        }
        if not filled.any():
            return found
        sources = {
            name: tensor[filled] for name, tensor in input_tensors.items() if name != "blank"
        }
        for name, values in self._translate(sources, arguments, return_scores).items():
            rows = values.unflatten(0, (-1, wanted)).cpu()
            if name == "token_ids":
                found[name] = torch.zeros((texts, wanted, rows.size(-1)), dtype=torch.long)
            found[name][filled.cpu()] = rows
        # Where a search finds nothing that is possible, a text still has its one result.
        found["lengths"][:, 0].clamp_(min=0)
        return found

    def _translate(
        self, sources: dict[str, Tensor], arguments: dict[str, Any], return_scores: bool
    ) -> dict[str, Tensor]:
        """What `_forward` returns, for sources that are not blank, with B x N rows."""
        settings = self._search_settings(arguments)
        beams = (settings.num_beams or 1) > 1
        if return_scores and not beams:
            arguments = {**arguments, "output_logits": True}
        if self.assistant_model is not None:
            arguments = {**arguments, "assistant_model": self.assistant_model}
        output = self.model.generate(**sources, **arguments)
        sequences = output.sequences  # the start token, at place 0, and up to L more
        places = torch.arange(sequences.size(1), device=sequences.device)
        # Without an end token nothing ends, so every output is cut.
        ends = [] if settings.eos_token_id is None else settings.eos_token_id
        ends = torch.as_tensor(ends, dtype=torch.long, device=sequences.device).flatten()
        ended = torch.isin(sequences, ends) & (places > 0)
        # Behind an end, and behind the limit of its own text, a row is filled up with padding.
        unended = (places * (sequences != settings.pad_token_id)).amax(-1)
        lengths = torch.where(ended.any(-1), ended.int().argmax(-1), unended)
        scores = torch.zeros(len(lengths), device=lengths.device)
        if beams:
            scores = output.sequences_scores
            lengths = lengths.masked_fill(scores == -torch.inf, -1)
        elif return_scores:
            by_token = self.model.compute_transition_scores(
                sequences, output.logits, normalize_logits=True
            )
            beyond = places[1 : by_token.size(1) + 1] > lengths[:, None]
            log_probabilities = by_token.masked_fill(beyond, 0.0).sum(-1)
            scores = log_probabilities / LengthPenalty.of(settings)(lengths)
        return {
            "token_ids": sequences[:, 1:],
            "lengths": lengths,
            "scores": scores,
            # Assisted generation is the library's own, and tells nothing.
            "truncated": getattr(output, "truncated", ~ended.any(-1)),
        }

    def postprocess(  # type: ignore[override]
        self,
        model_outputs: dict[str, Tensor],
        return_text: bool | None = None,
        return_tensors: bool = False,
        return_scores: bool = False,
        return_truncated: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> list[dict[str, Any]]:
        """Returns the translations of one text, the best first."""
        results = []
        for token_ids, length, score, truncated in zip(
            *(model_outputs[name][0] for name in ("token_ids", "lengths", "scores", "truncated")),
            strict=True,
        ):
            if length < 0:
                continue
            result: dict[str, Any] = {}
            ids = token_ids[: int(length)]
            if return_text or (return_text is None and not return_tensors):
                result["translation_text"] = self.tokenizer.decode(
                    ids.tolist(),
                    skip_special_tokens=True,
                    clean_up_tokenization_spaces=clean_up_tokenization_spaces,
                )
            if return_tensors:
                result["translation_token_ids"] = ids
            if return_scores:
                result["score"] = score.item()
            if return_truncated:
                result["truncated"] = truncated.item()
            results.append(result)
        return results


__all__ = ["VaswaniTranslationPipeline"]
