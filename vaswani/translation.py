"""Text in, text out: translates and scores with a saved model.

    Translator            loads a folder; `translate` and `score`
    Translation, Score    what they return

Sentences of like length share a batch, and results come back in the order of the input. Left to
others: files and lines (the command line), sentence boundaries (`sentences`), batches of token ids
(`decoding`), what a folder must hold (`model_folder`).
"""

import copy
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tqdm.auto import tqdm
from transformers import GenerationConfig, PreTrainedTokenizerBase

from vaswani.decoding import batches_by_length, log_probabilities, search_batch
from vaswani.errors import InputError
from vaswani.model_folder import open_model
from vaswani.modeling_vaswani import VaswaniForConditionalGeneration
from vaswani.sentences import split_sentences as split_into_sentences
from vaswani.text_lines import clean_text

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
BATCH_TOKENS = 4096

_NAMED_LINES = 10

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Translation:
    """One text's translation.

    Args:
        text: the translation; "" for a blank source.
        score: score of the search, log P divided by its length penalty, in nats; the sum over
            sentences where the text was split. 0.0 for a blank source.
        truncated: whether something is missing: the output reached its limit before the end
            token, or the source was longer than `max_source_tokens`.
        tokens: generated tokens, the end token included.
        alternatives: the n best translations, this one first; empty unless more than one was
            asked for.
    """

    text: str
    score: float
    truncated: bool
    tokens: int
    alternatives: tuple["Translation", ...] = ()


@dataclass(frozen=True)
class Score:
    """How probable the model finds one target.

    Args:
        log_probability: log P(target | source) with the end token, in nats.
        tokens: target tokens that it sums over, the end token included.
    """

    log_probability: float
    tokens: int


class Translator:
    """Translates texts with a model and its tokenizer.

    Args:
        model: the model, already on its device.
        tokenizer: the tokenizer it was trained with.
    """

    def __init__(
        self, model: VaswaniForConditionalGeneration, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        *,
        precision: str = "float32",
        device: str | None = None,
        threads: int | None = None,
    ) -> "Translator":
        """Loads a folder that `save_pretrained` or `vaswani train` wrote.

        Args:
            folder: the folder.
            precision: number format of the weights: float32, bfloat16 or float16.
            device: where to compute, such as "cpu" or "cuda:1"; `None` is a GPU where there is one.
            threads: CPU threads for the whole process; `None` leaves torch's choice.

        Raises:
            InputError: if the folder holds no model of ours, lacks a part, or its tokenizer does
                not fit the model.
            FileNotFoundError: if there is no such folder.
        """
        if precision not in PRECISIONS:
            raise InputError(
                f"`precision` must be one of {', '.join(PRECISIONS)}, got {precision!r}."
            )
        target_device = _checked_device(device)
        if threads is not None:
            _check_at_least("threads", threads, 1)
            torch.set_num_threads(threads)
        model, tokenizer = open_model(folder, dtype=PRECISIONS[precision])
        model.to(device=target_device)  # type: ignore[call-arg]
        return cls(model, tokenizer)

    def translate(
        self,
        texts: Iterable[str],
        *,
        num_beams: int = 4,
        num_return_sequences: int = 1,
        length_penalty: float | None = None,
        max_new_tokens: int | None = None,
        max_source_tokens: int | None = None,
        batch_tokens: int = BATCH_TOKENS,
        split_sentences: bool = False,
        progress: bool | Callable[[int], object] = False,
        first_line: int = 1,
    ) -> list[Translation]:
        """Translates each text; result k belongs to text k.

        Blank texts come back as "" and never reach the model. Every output ends by the model's
        own rule, source tokens + 50 unless its generation settings say otherwise.

        Args:
            texts: the texts; white space at their ends and NUL characters are dropped.
            num_beams: beam size; 1 is greedy search.
            num_return_sequences: how many translations `alternatives` holds, at most `num_beams`.
            length_penalty: alpha of the length penalty; `None` takes the model's (0.6).
            max_new_tokens: a smaller limit for outputs, in tokens with the end token.
            max_source_tokens: longer sources are cut to so many tokens (the end token included),
                flagged as truncated and named in a warning; `None` takes the model's
                `max_position_embeddings`, which nothing may exceed where positions are learned.
            batch_tokens: source tokens of a batch, padding included. It bounds the memory.
            split_sentences: whether to translate a text sentence by sentence and to join the
                results with the white space that was between them.
            progress: whether to show a bar on stderr, or a function that is told how many more
                texts are finished.
            first_line: number of the first text, for the warning.

        Raises:
            InputError: if an argument is out of range.
        """
        if isinstance(texts, str):
            raise TypeError("`texts` must be a list of texts, got one text. Put it in a list.")
        _check_at_least("batch_tokens", batch_tokens, 1)
        if split_sentences and num_return_sequences > 1:
            raise InputError(
                "`num_return_sequences` must be 1 with `split_sentences`, "
                f"got {num_return_sequences}. Split the text first for an n-best list a sentence."
            )
        config = self._search_settings(
            num_beams, num_return_sequences, length_penalty, max_new_tokens
        )
        if max_source_tokens is None:
            max_source_tokens = self.model.config.max_position_embeddings
        _check_at_least("max_source_tokens", max_source_tokens, 2)
        limit = self.model.config.position_limit
        if limit is not None and max_source_tokens > limit:
            raise InputError(
                f"`max_source_tokens` must be at most `max_position_embeddings` = {limit}, since "
                f"the model's positions are learned, got {max_source_tokens}. Leave it out."
            )
        cleaned = [clean_text(text) for text in texts]
        if split_sentences:
            pieces = [split_into_sentences(text) for text in cleaned]
        else:
            pieces = [[(text, "")] if text else [] for text in cleaned]
        sources = self._encode([sentence for parts in pieces for sentence, _ in parts])
        owners = [k for k, parts in enumerate(pieces) for _ in parts]
        _warn_of_long(sources, [k + first_line for k in owners], max_source_tokens)
        bar = tqdm(total=len(cleaned), unit="text", disable=progress is not True)
        report = progress if callable(progress) else bar.update
        with bar:
            found = self._translate_ids(
                sources, owners, config, batch_tokens, max_source_tokens, report
            )
            report(sum(not parts for parts in pieces))
        in_order = iter(found)
        return [_joined(parts, [next(in_order) for _ in parts]) for parts in pieces]

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        batch_tokens: int = BATCH_TOKENS,
    ) -> list[Score]:
        """Scores each target given its source, by one forward pass.

        The log-probability is what the search's score becomes when its length penalty is undone.

        Args:
            sources: source texts.
            targets: as many target texts.
            batch_tokens: source or target tokens of a batch, padding included.

        Raises:
            InputError: if the numbers of texts differ, `batch_tokens` is out of range, or a text
                has more tokens than the model has learned positions.
        """
        if len(sources) != len(targets):
            raise InputError(
                "`sources` and `targets` must have the same number of texts, "
                f"got {len(sources)} and {len(targets)}."
            )
        _check_at_least("batch_tokens", batch_tokens, 1)
        source_ids = self._encode([clean_text(text) for text in sources])
        target_ids = self._encode([clean_text(text) for text in targets], target=True)
        for name, rows in (("sources", source_ids), ("targets", target_ids)):
            _check_positions(name, rows, self.model.config.position_limit)
        lengths = [max(map(len, pair)) for pair in zip(source_ids, target_ids, strict=True)]
        scores = [Score(0.0, 0)] * len(lengths)
        with torch.inference_mode():
            for batch in batches_by_length(
                lengths, batch_tokens=batch_tokens, vocab_size=self.model.config.vocab_size
            ):
                found = log_probabilities(
                    self.model, [source_ids[k] for k in batch], [target_ids[k] for k in batch]
                )
                for k, log_probability in zip(batch, found, strict=True):
                    scores[k] = Score(log_probability, len(target_ids[k]))
        return scores

    def _search_settings(
        self,
        num_beams: int,
        num_return_sequences: int,
        length_penalty: float | None,
        max_new_tokens: int | None,
    ) -> GenerationConfig:
        """The model's own settings with those of one call, checked."""
        _check_at_least("num_beams", num_beams, 1)
        _check_at_least("num_return_sequences", num_return_sequences, 1)
        if num_return_sequences > num_beams:
            raise InputError(
                "`num_return_sequences` must be at most `num_beams`, "
                f"got {num_return_sequences} and {num_beams}. Use a wider beam."
            )
        config = copy.deepcopy(self.model.generation_config)
        config.num_beams = num_beams
        config.num_return_sequences = num_return_sequences
        config.do_sample = False
        if length_penalty is not None:
            if not math.isfinite(length_penalty):
                raise InputError(f"`length_penalty` must be finite, got {length_penalty}.")
            config.length_penalty = length_penalty
        if max_new_tokens is not None:
            _check_at_least("max_new_tokens", max_new_tokens, 1)
            config.max_new_tokens = max_new_tokens
        return config

    def _encode(self, texts: list[str], *, target: bool = False) -> list[list[int]]:
        if not texts:
            return []
        # Not verbose: a text above the length limit is ours to cut and to report.
        if target:
            return self.tokenizer(text_target=texts, verbose=False)["input_ids"]
        return self.tokenizer(texts, verbose=False)["input_ids"]

    def _translate_ids(
        self,
        sources: list[list[int]],
        owners: list[int],
        config: GenerationConfig,
        batch_tokens: int,
        max_source_tokens: int,
        report: Callable[[int], object],
    ) -> list[list[Translation]]:
        """The n best translations of each source; a text is reported with its last sentence."""
        results: list[list[Translation]] = [[] for _ in sources]
        open_parts = Counter(owners)
        cut = [[*ids[:-1][: max_source_tokens - 1], *ids[-1:]] for ids in sources]
        for batch in batches_by_length(
            [len(ids) for ids in cut],
            batch_tokens=batch_tokens,
            vocab_size=self.model.config.vocab_size,
            num_beams=config.num_beams,
        ):
            with torch.inference_mode():
                found = search_batch(self.model, [cut[k] for k in batch], config)
            texts = iter(
                self.tokenizer.batch_decode(
                    [h.ids for best in found for h in best], skip_special_tokens=True
                )
            )
            for k, best in zip(batch, found, strict=True):
                shortened = len(cut[k]) < len(sources[k])
                results[k] = [
                    Translation(next(texts), h.score, shortened or not h.ended, len(h.ids))
                    for h in best
                ]
                open_parts[owners[k]] -= 1
            report(sum(open_parts[owner] == 0 for owner in {owners[k] for k in batch}))
        return results


def _warn_of_long(sources: list[list[int]], lines: list[int], limit: int) -> None:
    """Names the first few sources above the limit, in one warning."""
    long = [k for k, ids in enumerate(sources) if len(ids) > limit]
    if not long:
        return
    named = ", ".join(f"{lines[k]} ({len(sources[k])} tokens)" for k in long[:_NAMED_LINES])
    more = f" and {len(long) - _NAMED_LINES} more" if len(long) > _NAMED_LINES else ""
    logger.warning(
        "`max_source_tokens` is %d: the rest is left out of line %s%s. "
        "Raise it, or translate sentence by sentence.",
        limit,
        named,
        more,
    )


def _joined(parts: list[tuple[str, str]], found: list[list[Translation]]) -> Translation:
    """One text's translation from those of its sentences."""
    if not parts:
        return Translation("", 0.0, False, 0)
    if len(parts) == 1:
        best = found[0]
        return replace(best[0], alternatives=tuple(best) if len(best) > 1 else ())
    sentences = [best[0] for best in found]
    return Translation(
        "".join(s.text + space for s, (_, space) in zip(sentences, parts, strict=True)),
        sum(s.score for s in sentences),
        any(s.truncated for s in sentences),
        sum(s.tokens for s in sentences),
    )


def _check_positions(name: str, rows: list[list[int]], limit: int | None) -> None:
    for number, ids in enumerate(rows, start=1):
        if limit is not None and len(ids) > limit:
            raise InputError(
                f"`{name}` must have at most `max_position_embeddings` = {limit} tokens each, as "
                f"the positions are learned, got {len(ids)} in number {number}. Shorten it."
            )


def _check_at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise InputError(f"`{name}` must be at least {least}, got {value}.")


def _checked_device(name: str | None) -> torch.device:
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device).tolist()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(
            f"`device` must be one that torch can use here, got {name!r}. Try cpu."
        ) from error
    return device
