"""Tokenizers of every kind, trained on text full of control tokens; nothing here is a test."""

import random
from functools import cache

from hypothesis import strategies as st

from vaswani.tokenization_vaswani import VaswaniTokenizer
from vaswani.vocabulary import pair_tokenizers, train_tokenizer

CONTROL = ["<pad>", "<s>", "</s>", "<unk>"]
BYTES = ["<0x41>", "<0x00>", "<0xC3>", "<0xA9>", "<0xff>"]
TAGS = ["<2de>", ">>de<<", "__de__", "[de]", "<|de|>", "<extra_id_0>", "de_DE"]
SPELT = [*CONTROL, *BYTES, *TAGS]
WORDS = ["the", "cat", "Größe", "l'été", "naïve", "12", "…", "Oui\u00a0!", "příliš", "Việt"]

_FRENCH = ["un", "chat", "Très", "œuvre", "34", "\u00ab\u00a0bien\u00a0\u00bb", "sœur"]


def hostile_texts(words: list[str], *, count: int = 400, seed: int = 0) -> list[str]:
    """Sentences in which what looks like a control token is as frequent as the words."""
    rng = random.Random(seed)
    texts = [" ".join(rng.choices([*words, *SPELT], k=rng.randint(1, 9))) for _ in range(count)]
    # Without spaces too: a merge over the border of two tokens would show here.
    return [*texts, *("".join(rng.choices(SPELT, k=4)) for _ in range(count))]


@cache
def trained(model: str, normalization: str = "nfc") -> VaswaniTokenizer:
    """One shared vocabulary."""
    texts = hostile_texts(WORDS)
    return train_tokenizer(texts, vocab_size=450, model=model, normalization=normalization)


@cache
def trained_pair(model: str) -> VaswaniTokenizer:
    """A vocabulary for each side, of different texts and sizes."""
    target = train_tokenizer(hostile_texts(_FRENCH, seed=1), vocab_size=420, model=model)
    return pair_tokenizers(trained(model), target)


# Unassigned code points are left out: Python and the library may know different Unicode versions.
ANY_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cn")))
ODD_PARTS = [
    " ", "  ", "\t", "\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1f", "\x85", "\u00a0", "\u1680",
    "\u2003", "\u2009", "\u200b", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\ufeff",
    "\x00", "\x07", "\x7f", "\u200e", "\u200f", "\u202e", "\u2066", "\u2069", "\u00ad", "\u2581",
    "\u0301", "\u0323\u0308", "e\u0301", "\u00e9", "\u0130", "\u212b", "\u1100\u1161\u11a8",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd",
    "1\ufe0f\u20e3", "\u05e9\u05dc\u05d5\u05dd", "\u0645\u0631\u062d\u0628\u0627", "\u6771\u4eac",
    "\ue000", "\U0010fffd", "\uff11", "\ufb01", "\ufe30", "\u00b4", "##", "a", "Z", "9", ".", "<",
]  # fmt: skip
LIKELY_TEXT = st.lists(st.sampled_from([*ODD_PARTS, *WORDS, *SPELT])).map("".join)
TEXTS = ANY_TEXT | LIKELY_TEXT
