"""Unigram vocabularies: parts of words with probabilities, the most probable cut of a text.

    train_unigram            a tokenizer of the library

Source: no part of the paper. The trainer of `tokenizers` adds up in an order that changes from run
to run, so that probabilities differ in their last digits and, among pieces of nearly equal use, so
may the choice of entries. What does hold in every run: the ids of control tokens, bytes and
characters, the steps of `subword_pieces`, the size limit, and the order of ids by probability.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from tokenizers import Tokenizer, models, trainers

from vaswani.subword_pieces import BYTE_TOKENS, NORMAL_FORMS, PIECES, batches, piece_pipeline

# The trainer considers only parts that different characters follow, hence no whole word and no
# ending, as each word stands there once. A second copy of frequent words with this control
# character at the end, which never gets an entry, puts them among the candidates.
_MARK = "\x01"


def train_unigram(
    texts: Iterable[str],
    alphabet: Sequence[str],
    *,
    normalization: str,
    special_tokens: Sequence[str],
    vocab_size: int,
    min_frequency: int,
) -> Tokenizer:
    """A backend with the ids of control tokens, bytes, characters and longer pieces, in this order.

    Args:
        texts: of valid Unicode.
        alphabet: characters that get an entry.
        normalization: the normal form, as in `piece_pipeline`.
        special_tokens: entries that take the first ids; the last one is the unknown token.
        vocab_size: entries at most, with all of them.
        min_frequency: pieces that the trained model uses less often on the texts are taken out.
    """
    unknown = special_tokens[-1]
    reserved = [*special_tokens, *BYTE_TOKENS]
    # The trainer would give an entry to every character that it sees.
    listed = "".join(rf"\x{{{ord(char):X}}}" for char in alphabet)
    words = _frequent_words(texts, normalization, f"[^{listed}]", min_frequency)
    trained = piece_pipeline(
        models.Unigram(),
        normalization=normalization,
        pieces=rf"[^{_MARK}]+{_MARK}|{PIECES}",
        dropped=f"[^{listed}{_MARK}]",
    )
    trained.normalizer = NORMAL_FORMS[normalization]()
    marked = (word + _MARK for word in words)
    trained.train_from_iterator(
        batches(chain((text.replace(_MARK, " ") for text in texts), marked)),
        trainers.UnigramTrainer(
            # The unknown token and the mark are no entries of ours, or are counted as reserved.
            vocab_size=vocab_size - len(reserved) + 2,
            special_tokens=[unknown],
            unk_token=unknown,
            show_progress=False,
        ),
    )
    scores = dict(json.loads(trained.to_str())["model"]["vocab"])
    for piece in [piece for piece in scores if piece == unknown or _MARK in piece]:
        del scores[piece]
    lowest = min(scores.values(), default=0.0)
    for char in alphabet:
        scores.setdefault(char, lowest)

    def backend() -> Tokenizer:
        order = sorted(scores, key=lambda piece: (len(piece) > 1, -scores[piece], piece))
        order[: len(alphabet)] = sorted(alphabet)
        # Bytes are used where no other entry fits, whatever their probability.
        entries = [(token, 0.0) for token in reserved]
        entries += [(piece, scores[piece]) for piece in order]
        unigram = models.Unigram(entries, unk_id=len(special_tokens) - 1, byte_fallback=True)
        return piece_pipeline(unigram, normalization=normalization)

    used = _uses(backend(), texts)
    for piece in [piece for piece in scores if len(piece) > 1 and used[piece] < min_frequency]:
        del scores[piece]
    return backend()


def _frequent_words(
    texts: Iterable[str], normalization: str, dropped: str, min_frequency: int
) -> list[str]:
    """The pieces before any model cuts them that are seen often enough to be entries whole."""
    counted = piece_pipeline(models.WordLevel({}, ""), normalization=normalization, dropped=dropped)
    counted.train_from_iterator(
        batches(texts),
        trainers.WordLevelTrainer(
            vocab_size=sys.maxsize,
            min_frequency=min_frequency,
            special_tokens=[],
            show_progress=False,
        ),
    )
    return sorted(counted.get_vocab())


def _uses(backend: Tokenizer, texts: Iterable[str]) -> Counter[str]:
    """How often each entry is used on texts."""
    counts: Counter[int] = Counter()
    for batch in batches(texts):
        for encoding in backend.encode_batch_fast(batch, add_special_tokens=False):
            counts.update(encoding.ids)
    return Counter({piece: counts[index] for piece, index in backend.get_vocab().items()})
