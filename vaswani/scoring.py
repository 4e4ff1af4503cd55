"""How probable a model finds given targets, token by token.

    Score                       of one pair of texts
    token_log_probabilities     of pairs of token ids, by one forward pass
    padded                      ids as a tensor, with their mask

Shapes: B sources, S source tokens, T target tokens, D d_model, W vocabulary entries.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# Entries that a table of rows x vocabulary may have, 64 MB in float32.
MAX_ENTRIES = 1 << 24


@dataclass(frozen=True)
class Score:
    """How probable the model finds one target.

    Args:
        log_probability: log P(target | source) with the end token, in nats; the sum of
            `token_log_probabilities`.
        tokens: target tokens that it sums over, the end token included.
        token_log_probabilities: log P of each token given the source and the tokens before it.
        pieces: the tokens as the vocabulary writes them.
    """

    log_probability: float
    tokens: int
    token_log_probabilities: tuple[float, ...] = ()
    pieces: tuple[str, ...] = ()


def token_log_probabilities(
    model: Any, sources: list[list[int]], targets: list[list[int]]
) -> list[list[float]]:
    """Returns log P of each target token given the source and the tokens before it, in nats.

    An ensemble's is the logarithm of the mean of its members' probabilities.

    Args:
        model: the model or ensemble, in evaluation mode.
        sources: source ids with their end token.
        targets: target ids, without a start token. The end token counts where there is one.
    """
    input_ids, attention_mask = padded(model, sources, model.config.source_pad_token_id)
    labels, _ = padded(model, targets, model.config.pad_token_id)  # (B, T)
    members = getattr(model, "members", [model])
    found = torch.stack(
        [_of_labels(member, input_ids, attention_mask, labels) for member in members]
    )
    mean = found.logsumexp(dim=0) - math.log(len(members))  # (B, T)
    return [row[: len(ids)] for row, ids in zip(mean.tolist(), targets, strict=True)]


def _of_labels(model: Any, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> Tensor:
    """Log-probabilities `(B, T)` of the labels, in float64."""
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
    rows = max(MAX_ENTRIES // model.config.vocab_size, 1)
    chosen = []
    for states, ids in zip(
        hidden_states.flatten(0, 1).split(rows), labels.flatten().split(rows), strict=True
    ):
        logits = model.lm_head(states)  # (rows, W)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        chosen.append(logits.gather(-1, ids[:, None])[:, 0] - logits.logsumexp(dim=-1))
    return torch.cat(chosen).view_as(labels).double()


def padded(model: Any, ids: list[list[int]], pad_token_id: int) -> tuple[Tensor, Tensor]:
    """Ids `(B, S)` int64 and their mask `(B, S)` int64, 1 = a real token."""
    longest = max(map(len, ids))
    rows = [row + [pad_token_id] * (longest - len(row)) for row in ids]
    mask = [[1] * len(row) + [0] * (longest - len(row)) for row in ids]
    return torch.tensor(rows, device=model.device), torch.tensor(mask, device=model.device)
