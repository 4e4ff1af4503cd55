"""Token ids in, token ids out: one batch of the search, one batch of scoring.

    Hypothesis                what the search finds
    search_batch              the best hypotheses of each source, by `generate()`
    log_probabilities         log P of targets, by one forward pass
    batches_by_length         indices in batches of like length

Shapes: B sources, S source tokens, T target tokens, D d_model, W vocabulary entries.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import GenerationConfig

from vaswani.generation_vaswani import GnmtLengthPenalty, source_length_limit
from vaswani.modeling_vaswani import VaswaniForConditionalGeneration

# Entries that a table of rows x vocabulary may have, 64 MB in float32.
_MAX_ENTRIES = 1 << 24


@dataclass(frozen=True)
class Hypothesis:
    """One output of the search.

    Args:
        ids: generated ids, with the end token if it was reached.
        score: log P divided by the length penalty, in nats.
        ended: whether the end token was reached.
    """

    ids: list[int]
    score: float
    ended: bool


def search_batch(
    model: VaswaniForConditionalGeneration, sources: list[list[int]], config: GenerationConfig
) -> list[list[Hypothesis]]:
    """The `config.num_return_sequences` best hypotheses of each source, best first.

    Scores mean the same for greedy search as for beams, where `generate()` itself gives none.

    Args:
        model: the model, in evaluation mode.
        sources: source ids with their end token.
        config: settings of the search.
    """
    input_ids, attention_mask = _padded(model, sources, model.config.source_pad_token_id)
    greedy = config.num_beams == 1
    settings = copy.deepcopy(config)
    settings.return_dict_in_generate, settings.output_scores = True, not greedy
    if greedy:
        # Without beams these mean nothing, and transformers warns of them.
        settings.length_penalty, settings.early_stopping = 1.0, False
    output = model.generate(
        input_ids=input_ids,
        attention_mask=attention_mask,
        generation_config=settings,
    )
    count = config.num_return_sequences or 1
    rows = []
    for k, generated in enumerate(output.sequences[:, 1:].tolist()):
        limit = source_length_limit(config, len(sources[k // count]))
        if config.max_new_tokens is not None:
            limit = min(limit, config.max_new_tokens)
        rows.append(_until_end(generated[:limit], config.eos_token_id))
    if greedy:
        sums = log_probabilities(model, sources, [ids for ids, _ in rows])
        scores = [
            total / _penalty(config, len(ids)) for total, (ids, _) in zip(sums, rows, strict=True)
        ]
    else:
        scores = output.sequences_scores.tolist()
    flat = [Hypothesis(ids, s, ended) for (ids, ended), s in zip(rows, scores, strict=True)]
    return [flat[k : k + count] for k in range(0, len(flat), count)]


def log_probabilities(
    model: VaswaniForConditionalGeneration, sources: list[list[int]], targets: list[list[int]]
) -> list[float]:
    """Returns log P(target | source) of each pair, in nats.

    Args:
        model: the model, in evaluation mode.
        sources: source ids with their end token.
        targets: target ids, without a start token. The end token counts where there is one.
    """
    input_ids, attention_mask = _padded(model, sources, model.config.source_pad_token_id)
    labels, real = _padded(model, targets, model.config.pad_token_id)  # (B, T), (B, T)
    # Not made by the model from labels: a hypothesis may hold the pad id, which labels ignore.
    decoder_input_ids = labels.roll(1, dims=1)
    decoder_input_ids[:, 0] = model.config.decoder_start_token_id
    hidden_states = model.model(
        input_ids=input_ids,
        attention_mask=attention_mask,
        decoder_input_ids=decoder_input_ids,
        use_cache=False,
    ).last_hidden_state  # (B, T, D)
    # All tokens times the vocabulary could be gigabytes.
    rows = max(_MAX_ENTRIES // model.config.vocab_size, 1)
    chosen = []
    for states, ids in zip(
        hidden_states.flatten(0, 1).split(rows), labels.flatten().split(rows), strict=True
    ):
        logits = model.lm_head(states)  # (rows, W)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        chosen.append(logits.gather(-1, ids[:, None])[:, 0] - logits.logsumexp(dim=-1))
    return (torch.cat(chosen).view_as(labels).double() * real).sum(dim=-1).tolist()


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
    max_rows = max(_MAX_ENTRIES // (vocab_size * num_beams), 1)
    batch: list[int] = []
    for k in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        full = batch and lengths[batch[0]] * (len(batch) + 1) > batch_tokens
        if full or len(batch) == max_rows:
            yield batch
            batch = []
        batch.append(k)
    if batch:
        yield batch


def _padded(
    model: VaswaniForConditionalGeneration, ids: list[list[int]], pad_token_id: int
) -> tuple[Tensor, Tensor]:
    """Ids `(B, S)` int64 and their mask `(B, S)` int64, 1 = a real token."""
    longest = max(map(len, ids))
    padded = [row + [pad_token_id] * (longest - len(row)) for row in ids]
    mask = [[1] * len(row) + [0] * (longest - len(row)) for row in ids]
    return torch.tensor(padded, device=model.device), torch.tensor(mask, device=model.device)


def _until_end(ids: list[int], eos: int | list[int] | None) -> tuple[list[int], bool]:
    """The ids up to and with the first end token, and whether there was one."""
    ends = eos if isinstance(eos, list) else [eos]
    for k, token in enumerate(ids):
        if token in ends:
            return ids[: k + 1], True
    return ids, False


def _penalty(config: GenerationConfig, tokens: int) -> float:
    """What the beam search divides log P of so many generated tokens by."""
    gnmt = getattr(config, "length_penalty_type", "gnmt") == "gnmt"
    return tokens ** (GnmtLengthPenalty(config.length_penalty) if gnmt else config.length_penalty)
