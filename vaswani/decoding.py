"""Token ids in, token ids out: one batch of the search.

    Hypothesis                what the search finds
    search_batch              the best hypotheses of each source, by `generate()`
    PrefixProcessor           makes outputs begin as told
    batches_by_length         indices in batches of like length

Shapes: B sources, S source tokens, P prefix tokens, W vocabulary entries.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig
from transformers.generation import LogitsProcessor, LogitsProcessorList

from vaswani.beam_search_vaswani import LengthPenalty
from vaswani.length_limit_vaswani import source_length_limit
from vaswani.scoring import MAX_ENTRIES, padded, token_log_probabilities


@dataclass(frozen=True)
class Hypothesis:
    """One output of the search.

    Args:
        ids: generated ids, with the end token if it was reached.
        score: log P divided by the length penalty, in nats.
        truncated: whether it reached its limit before the end token.
    """

    ids: list[int]
    score: float
    truncated: bool


class PrefixProcessor(LogitsProcessor):
    """Allows only the prefix's tokens for as long as it lasts; their probabilities stay.

    So log P of an output is that of all its tokens, those of the prefix too, and prefixes of one
    batch may differ in length.

    Args:
        prefixes: ids of each source's prefix, in order; empty ones force nothing.
        device: where the search runs.
    """

    def __init__(self, prefixes: list[list[int]], device: torch.device) -> None:
        longest = max(map(len, prefixes))
        rows = [prefix + [-1] * (longest - len(prefix)) for prefix in prefixes]
        self.ids = torch.tensor(rows, dtype=torch.long, device=device).view(len(rows), longest)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Any:
        """Returns the scores `(rows, W)` of the tokens after `input_ids`, `(rows, 1 + n)`."""
        step = input_ids.size(1) - 1
        if step >= self.ids.size(1):
            return scores
        forced = self.ids[:, step].repeat_interleave(len(scores) // len(self.ids))  # (rows,)
        allowed = (forced < 0)[:, None].expand_as(scores).clone()
        allowed.scatter_(1, forced.clamp(min=0)[:, None], True)
        return scores.masked_fill(~allowed, -torch.inf)


def search_batch(
    model: Any,
    sources: list[list[int]],
    config: GenerationConfig,
    prefixes: list[list[int]] | None = None,
) -> list[list[Hypothesis]]:
    """The `config.num_return_sequences` best hypotheses of each source, best first.

    Scores mean the same for greedy search as for beams, where `generate()` itself gives none. A
    source has fewer hypotheses where there are no more.

    Args:
        model: the model or ensemble, in evaluation mode.
        sources: source ids with their end token.
        config: settings of the search.
        prefixes: ids that the outputs begin with, shorter than their limits.
    """
    input_ids, attention_mask = padded(model, sources, model.config.source_pad_token_id)
    greedy = config.num_beams == 1
    settings = copy.deepcopy(config)
    settings.return_dict_in_generate = True
    if greedy:
        # Without beams these mean nothing, and transformers warns of them.
        settings.length_penalty, settings.early_stopping = 1.0, False
    processors = LogitsProcessorList()
    if prefixes is not None and any(prefixes):
        processors.append(PrefixProcessor(prefixes, input_ids.device))
    output = model.generate(
        input_ids=input_ids,
        attention_mask=attention_mask,
        generation_config=settings,
        logits_processor=processors,
    )
    count = config.num_return_sequences or 1
    truncated = output.truncated.tolist()
    limits = [output_limit(config, len(source)) for source in sources]
    rows = [
        generated[: limits[k // count]] if truncated[k] else _until_end(generated, config)
        for k, generated in enumerate(output.sequences[:, 1:].tolist())
    ]
    if greedy:
        scores = [
            sum(values) / LengthPenalty.of(config)(len(values))
            for values in token_log_probabilities(model, sources, rows)
        ]
    else:
        scores = output.sequences_scores.tolist()
    flat = [Hypothesis(*found) for found in zip(rows, scores, truncated, strict=True)]
    return [
        [found for found in flat[k : k + count] if found.score != -torch.inf]
        for k in range(0, len(flat), count)
    ]


def output_limit(config: GenerationConfig, source_tokens: int) -> int:
    """The most tokens that the output for a source of so many tokens may have."""
    limit = source_length_limit(config, source_tokens)
    return limit if config.max_new_tokens is None else min(limit, config.max_new_tokens)


def batches_by_length(
    lengths: Sequence[int], *, batch_tokens: int, vocab_size: int, num_beams: int = 1
) -> Iterator[list[int]]:
    """Indices in batches of like length, the longest first.

    Args:
        lengths: length of each item, in tokens.
        batch_tokens: upper bound of a batch's tokens, padding included; an item longer than that
            is a batch of its own.
        vocab_size, num_beams: what bounds the rows of a batch, since the search makes tables of
            rows x beams x vocabulary.
    """
    max_rows = max(MAX_ENTRIES // (vocab_size * num_beams), 1)
    batch: list[int] = []
    for k in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        full = batch and lengths[batch[0]] * (len(batch) + 1) > batch_tokens
        if full or len(batch) == max_rows:
            yield batch
            batch = []
        batch.append(k)
    if batch:
        yield batch


def _until_end(ids: list[int], config: GenerationConfig) -> list[int]:
    """The ids up to and with the first end token."""
    eos = config.eos_token_id
    ends = eos if isinstance(eos, list) else [eos]
    return next((ids[: k + 1] for k, token in enumerate(ids) if token in ends), ids)
