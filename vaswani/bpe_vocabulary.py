"""Byte-pair encoding: a backend whose merges are learnt from texts.

    train_bpe                a tokenizer of the library

Source: Section 5.1. The same texts and settings give the same model, byte for byte.
"""

import json
from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer, models, trainers

from vaswani.subword_pieces import BYTE_TOKENS, batches, piece_pipeline


def train_bpe(
    texts: Iterable[str],
    alphabet: Sequence[str],
    *,
    normalization: str,
    special_tokens: Sequence[str],
    vocab_size: int,
    min_frequency: int,
) -> Tokenizer:
    """A backend with the ids of control tokens, bytes, characters and merges, in this order.

    Args:
        texts: of valid Unicode.
        alphabet: characters that get an entry.
        normalization: the normal form, as in `piece_pipeline`.
        special_tokens: entries that take the first ids; the last one is the unknown token.
        vocab_size: entries at most, with all of them.
        min_frequency: how often a merge must be seen to become an entry.
    """
    trained = piece_pipeline(models.BPE(), normalization=normalization)
    trained.train_from_iterator(
        batches(texts),
        trainers.BpeTrainer(
            vocab_size=vocab_size,
            min_frequency=min_frequency,
            special_tokens=[*special_tokens, *BYTE_TOKENS],
            initial_alphabet=list(alphabet),
            limit_alphabet=len(alphabet),
            show_progress=False,
        ),
    )
    # A model of its own, because the trainer also marks the bytes as tokens to be found in text.
    state = json.loads(trained.to_str())["model"]
    merges = [(left, right) for left, right in state["merges"]]
    reserved = {*special_tokens, *BYTE_TOKENS}
    assert not any(left + right in reserved for left, right in merges)
    model = models.BPE(
        vocab=state["vocab"], merges=merges, byte_fallback=True, unk_token=special_tokens[-1]
    )
    return piece_pipeline(model, normalization=normalization)
