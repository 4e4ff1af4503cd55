"""Text in, text out: translates and scores with a saved model.

    Translator            loads folders; `translate` and `score`
    Translation           what `translate` returns

Sentences of like length share a batch, and results come back in the order of the input. Left to
others: files and lines (the command line), sentence boundaries (`sentences`), batches of token ids
(`decoding`, `scoring`), several models as one (`ensemble`), what a folder must hold
(`model_folder`).
"""

import copy
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tqdm.auto import tqdm
from transformers import GenerationConfig, PreTrainedTokenizerBase

from vaswani.decoding import Hypothesis, batches_by_length, output_limit, search_batch
from vaswani.ensemble import VaswaniEnsemble
from vaswani.errors import InputError
from vaswani.generation_vaswani import check_search_settings
from vaswani.model_folder import check_same_vocabulary, checked_device, open_model
from vaswani.modeling_vaswani import VaswaniForConditionalGeneration
from vaswani.scoring import Score, token_log_probabilities
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
        alternatives: the n best translations, this one first, with different texts; empty unless
            more than one was asked for. There may be fewer than asked for: different tokens can
            spell the same text, and then the better one stands for it.
    """

    text: str
    score: float
    truncated: bool
    tokens: int
    alternatives: tuple["Translation", ...] = ()


class Translator:
    """Translates texts with a model, or several as one, and its tokenizer.

    Args:
        model: the model, already on its device; or several with the same vocabulary, whose
            probabilities are averaged. Settings of the search are those of the first.
        tokenizer: the tokenizer that they were trained with.

    Raises:
        InputError: if there is no model, or if the vocabularies differ.
    """

    model: VaswaniForConditionalGeneration | VaswaniEnsemble

    def __init__(
        self,
        model: VaswaniForConditionalGeneration | Sequence[VaswaniForConditionalGeneration],
        tokenizer: PreTrainedTokenizerBase,
    ) -> None:
        models = model if isinstance(model, Sequence) else [model]
        if not models:
            raise InputError("`model` must hold at least one model, got none.")
        self.model = models[0] if len(models) == 1 else VaswaniEnsemble(models)
        self.model.eval()
        self.tokenizer = tokenizer

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path | Sequence[str | Path],
        *,
        precision: str = "float32",
        device: str | None = None,
        threads: int | None = None,
    ) -> "Translator":
        """Loads a folder that `save_pretrained` or `vaswani train` wrote, or an ensemble of them.

        Args:
            folder: the folder, or several that share a vocabulary.
            precision: number format of the weights: float32, bfloat16 or float16.
            device: where to compute, such as "cpu" or "cuda:1"; `None` is a GPU where there is one.
            threads: CPU threads for the whole process; `None` leaves torch's choice.

        Raises:
            InputError: if a folder holds no model of ours, lacks a part, its tokenizer does not
                fit the model, or several folders have different vocabularies.
            FileNotFoundError: if there is no such folder.
        """
        if precision not in PRECISIONS:
            raise InputError(
                f"`precision` must be one of {', '.join(PRECISIONS)}, got {precision!r}."
            )
        target_device = checked_device(device)
        if threads is not None:
            _check_at_least("threads", threads, 1)
            torch.set_num_threads(threads)
        folders = [folder] if isinstance(folder, str | Path) else list(folder)
        check_same_vocabulary(folders)
        opened = [open_model(folder, dtype=PRECISIONS[precision]) for folder in folders]
        for model, _ in opened:
            model.to(device=target_device)  # type: ignore[call-arg]
        return cls([model for model, _ in opened], opened[0][1])

    def translate(
        self,
        texts: Iterable[str],
        *,
        num_beams: int = 4,
        num_return_sequences: int = 1,
        length_penalty: float | None = None,
        max_new_tokens: int | None = None,
        max_source_tokens: int | None = None,
        prefixes: Sequence[str] | None = None,
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
            prefixes: what each translation begins with, one for each text, "" for nothing; white
                space at their ends is dropped. Their tokens count like others in scores and
                limits. A blank text's is not used.
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
        if split_sentences and prefixes is not None:
            raise InputError("`prefixes` must be left out with `split_sentences`, got both.")
        config = self._search_settings(
            num_beams, num_return_sequences, length_penalty, max_new_tokens
        )
        max_source_tokens = self._source_limit(max_source_tokens)
        cleaned = [clean_text(text) for text in texts]
        if prefixes is not None and len(prefixes) != len(cleaned):
            raise InputError(
                "`prefixes` must hold one prefix for each text, "
                f"got {len(prefixes)} and {len(cleaned)}."
            )
        if split_sentences:
            pieces = [split_into_sentences(text) for text in cleaned]
        else:
            pieces = [[(text, "")] if text else [] for text in cleaned]
        sources = self._encode([sentence for parts in pieces for sentence, _ in parts])
        owners = [k for k, parts in enumerate(pieces) for _ in parts]
        lines = [k + first_line for k in owners]
        _warn_of_long(sources, lines, max_source_tokens)
        cut = [[*ids[:-1][: max_source_tokens - 1], *ids[-1:]] for ids in sources]
        begun = None
        if prefixes is not None:
            limits = [output_limit(config, len(ids)) for ids in cut]
            begun = self._prefix_ids([prefixes[k] for k in owners], limits, lines)
        bar = tqdm(total=len(cleaned), unit="text", disable=progress is not True)
        report = progress if callable(progress) else bar.update
        with bar:
            found = self._translate_ids(cut, begun, owners, config, batch_tokens, report)
            report(sum(not parts for parts in pieces))
        for k, best in enumerate(found):
            if len(cut[k]) < len(sources[k]):
                found[k] = [replace(translation, truncated=True) for translation in best]
        in_order = iter(found)
        return [_joined(parts, in_order, num_return_sequences > 1) for parts in pieces]

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        batch_tokens: int = BATCH_TOKENS,
    ) -> list[Score]:
        """Scores each target given its source, by one forward pass.

        The log-probability is what the search's score becomes when its length penalty is undone.
        That of an ensemble is the logarithm of the mean of its members' probabilities.

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
        scores: list[Score] = [Score(0.0, 0)] * len(lengths)
        with torch.inference_mode():
            for batch in batches_by_length(
                lengths, batch_tokens=batch_tokens, vocab_size=self.model.config.vocab_size
            ):
                found = token_log_probabilities(
                    self.model, [source_ids[k] for k in batch], [target_ids[k] for k in batch]
                )
                for k, values in zip(batch, found, strict=True):
                    pieces = self.tokenizer.convert_ids_to_tokens(target_ids[k])
                    scores[k] = Score(sum(values), len(values), tuple(values), tuple(pieces))
        return scores

    def _search_settings(
        self,
        num_beams: int,
        num_return_sequences: int,
        length_penalty: float | None,
        max_new_tokens: int | None,
    ) -> GenerationConfig:
        """The model's own settings with those of one call, checked."""
        config = copy.deepcopy(self.model.generation_config)
        config.num_beams = num_beams
        config.num_return_sequences = num_return_sequences
        config.do_sample = False
        if length_penalty is not None:
            config.length_penalty = length_penalty
        if max_new_tokens is not None:
            _check_at_least("max_new_tokens", max_new_tokens, 1)
            config.max_new_tokens = max_new_tokens
        _check_at_least("num_return_sequences", num_return_sequences, 1)
        try:
            check_search_settings(config)
        except ValueError as error:
            raise InputError(str(error)) from error
        return config

    def _source_limit(self, max_source_tokens: int | None) -> int:
        """How many tokens of a source are read at most."""
        if max_source_tokens is None:
            return self.model.config.max_position_embeddings
        _check_at_least("max_source_tokens", max_source_tokens, 2)
        limit = self.model.config.position_limit
        if limit is not None and max_source_tokens > limit:
            raise InputError(
                f"`max_source_tokens` must be at most `max_position_embeddings` = {limit}, since "
                f"the model's positions are learned, got {max_source_tokens}. Leave it out."
            )
        return max_source_tokens

    def _encode(self, texts: list[str], *, target: bool = False) -> list[list[int]]:
        if not texts:
            return []
        # Not verbose: a text above the length limit is ours to cut and to report.
        if target:
            return self.tokenizer(text_target=texts, verbose=False)["input_ids"]
        return self.tokenizer(texts, verbose=False)["input_ids"]

    def _prefix_ids(
        self, prefixes: list[str], limits: list[int], lines: list[int]
    ) -> list[list[int]]:
        """The ids of prefixes without end tokens, each shorter than its output may be."""
        found = self._encode([clean_text(prefix) for prefix in prefixes], target=True)
        for ids, limit, line in zip(found, limits, lines, strict=True):
            if len(ids) > limit:
                raise InputError(
                    f"the prefix of line {line} must be shorter than its output may be, "
                    f"got {len(ids) - 1} and {limit} tokens. Shorten it, or raise the limit."
                )
        return [ids[:-1] for ids in found]

    def _translate_ids(
        self,
        sources: list[list[int]],
        prefixes: list[list[int]] | None,
        owners: list[int],
        config: GenerationConfig,
        batch_tokens: int,
        report: Callable[[int], object],
    ) -> list[list[Translation]]:
        """The n best translations of each source; a text is reported with its last sentence."""
        results: list[list[Translation]] = [[] for _ in sources]
        open_parts = Counter(owners)
        for batch in batches_by_length(
            [len(ids) for ids in sources],
            batch_tokens=batch_tokens,
            vocab_size=self.model.config.vocab_size,
            num_beams=config.num_beams,
        ):
            begun = None if prefixes is None else [prefixes[k] for k in batch]
            with torch.inference_mode():
                found = search_batch(self.model, [sources[k] for k in batch], config, begun)
            for k, best in zip(batch, found, strict=True):
                results[k] = self._texts(best)
                open_parts[owners[k]] -= 1
            report(sum(open_parts[owner] == 0 for owner in {owners[k] for k in batch}))
        return results

    def _texts(self, best: list[Hypothesis]) -> list[Translation]:
        """Hypotheses as texts, the best one of each text."""
        texts = self.tokenizer.batch_decode([h.ids for h in best], skip_special_tokens=True)
        found: dict[str, Translation] = {}
        for text, h in zip(texts, best, strict=True):
            found.setdefault(text, Translation(text, h.score, h.truncated, len(h.ids)))
        return list(found.values())


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


def _joined(
    parts: list[tuple[str, str]], in_order: Iterator[list[Translation]], several: bool
) -> Translation:
    """One text's translation from those of its sentences, which come next."""
    if not parts:
        return Translation("", 0.0, False, 0)
    found = [next(in_order) for _ in parts]
    if len(parts) == 1:
        best = found[0]
        return replace(best[0], alternatives=tuple(best) if several else ())
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
