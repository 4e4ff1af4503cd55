"""Unigram vocabularies: parts of words with probabilities, the most probable cut of a text.

    train_unigram            a tokenizer of the library

Source: no part of the paper. The trainer of `tokenizers` adds up in an order that changes from run
to run, so that probabilities differ in their last digits and, among pieces of nearly equal use, so
may the choice of entries. What does hold in every run: the ids of control tokens, bytes and
characters, the steps of `subword_pieces`, the size limit, and the order of ids by probability.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer, models, trainers

from vaswani.subword_pieces import BYTE_TOKENS, batches, piece_pipeline


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
    # The trainer would give an entry to every character that it sees.
    dropped = "[^" + "".join(rf"\x{{{ord(char):X}}}" for char in alphabet) + "]"
    trained = piece_pipeline(models.Unigram(), normalization=normalization, dropped=dropped)
    reserved = [*special_tokens, *BYTE_TOKENS]
    trained.train_from_iterator(
        batches(texts),
        trainers.UnigramTrainer(
            vocab_size=vocab_size - len(reserved) + 1,
            special_tokens=[unknown],
            unk_token=unknown,
            show_progress=False,
        ),
    )
    scores = dict(json.loads(trained.to_str())["model"]["vocab"])
    del scores[unknown]
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


def _uses(backend: Tokenizer, texts: Iterable[str]) -> Counter[str]:
    """How often each entry is used on texts."""
    counts: Counter[int] = Counter()
    for batch in batches(texts):
        for encoding in backend.encode_batch_fast(batch, add_special_tokens=False):
            counts.update(encoding.ids)
    return Counter({backend.id_to_token(index): count for index, count in counts.items()})
