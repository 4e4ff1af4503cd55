"""Trains the vocabulary of a tokenizer: one for source and target together, or one for each.

    train_tokenizer          one vocabulary; byte-pair encoding as in section 5.1, or another model
    train_tokenizer_pair     one for each side, in one tokenizer
    pair_tokenizers          the same from two finished tokenizers, of whatever kind
    SPECIAL_TOKENS           ids 0 to 3; where entries are parts of words the 256 bytes follow, then
                             characters, then longer pieces

Each model is the business of a module: `bpe_vocabulary`, `unigram_vocabulary`, `word_vocabulary`.
How the first two make pieces of a text, and why decoding gives it back, is in `subword_pieces`.
"""

import logging
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from tokenizers import AddedToken, Tokenizer, processors

from vaswani.bpe_vocabulary import train_bpe
from vaswani.errors import InputError
from vaswani.subword_pieces import BYTE_TOKENS, NORMAL_FORMS, choose_alphabet
from vaswani.tokenization_vaswani import VaswaniTokenizer
from vaswani.unigram_vocabulary import train_unigram
from vaswani.word_vocabulary import train_words

SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
"""Other write-ups call the second and the third `<bos>` and `<eos>`."""
VOCABULARY_MODELS = ("bpe", "unigram", "word")
NORMALIZATIONS = tuple(NORMAL_FORMS)

_RESERVED = len(SPECIAL_TOKENS) + len(BYTE_TOKENS)
_MIN_FREQUENCIES = {"bpe": 10, "unigram": 10, "word": 2}

logger = logging.getLogger(__name__)


def train_tokenizer(
    texts: Iterable[str],
    *,
    vocab_size: int = 37000,
    model: str = "bpe",
    normalization: str = "nfc",
    min_frequency: int | None = None,
    limit_alphabet: int | None = None,
    model_max_length: int = 1024,
) -> VaswaniTokenizer:
    """Trains a tokenizer on texts; the same texts and settings give the same files, byte for byte.

    Of a unigram model alone that cannot be promised: see `unigram_vocabulary`.

    Source: Section 5.1 (byte-pair encoding, about 37,000 entries shared by source and target).

    Args:
        texts: sentences of both sides. They are read more than once; an iterator is put into a list
            first.
        vocab_size: entries at most. Small corpora give fewer, with a notice in the log.
        model: `"bpe"`, byte-pair encoding, or `"unigram"`, which both spell every text; or
            `"word"`, whole words in lower case with punctuation split off, where a rare word
            becomes `<unk>` and decoding loses case and spaces (see `word_vocabulary`).
        normalization: the normal form that texts are put into first and come back in: `"nfc"`,
            which only composes accents, or `"nfkc"`, which also replaces ligatures, full-width
            characters, no-break spaces and the like by plain ones. It is a part of the files.
        min_frequency: how often a character or a longer piece, or a word, must be seen to become an
            entry; one seen less would hardly be trained. `None` means 2 for `"word"`, else 10.
        limit_alphabet: characters at most, the most frequent first; the others are spelt in bytes.
            `None` means a quarter of `vocab_size`. Not for `"word"`.
        model_max_length: length in tokens to which `truncation=True` cuts, end token included.

    Raises:
        InputError: if there is no text, a text is no valid Unicode, no word is frequent enough, or
            a setting is out of range.
    """
    _check_settings(vocab_size, model, normalization, min_frequency, limit_alphabet)
    if model_max_length < 1:
        raise InputError(f"`model_max_length` must be at least 1, got {model_max_length}.")
    if min_frequency is None:
        min_frequency = _MIN_FREQUENCIES[model]
    if isinstance(texts, (str, bytes)):
        raise InputError(
            "`texts` must be an iterable of texts, got a single text. Put it in a list."
        )
    if isinstance(texts, Iterator):
        texts = list(texts)
    characters = _count_characters(texts, normalization)
    settings: dict[str, Any] = {
        "normalization": normalization,
        "special_tokens": SPECIAL_TOKENS,
        "vocab_size": vocab_size,
        "min_frequency": min_frequency,
    }
    if model == "word":
        return _wrap(train_words(texts, **settings), model_max_length=model_max_length)
    alphabet = choose_alphabet(
        characters,
        min_frequency=min_frequency,
        limit=vocab_size // 4 if limit_alphabet is None else limit_alphabet,
    )
    needed = _RESERVED + len(alphabet)
    if vocab_size < needed:
        raise InputError(
            f"`vocab_size` must be at least {needed} for this text ({len(SPECIAL_TOKENS)} control "
            f"tokens, {len(BYTE_TOKENS)} bytes, {len(alphabet)} characters), got {vocab_size}. "
            "Raise it or lower `limit_alphabet`."
        )
    train = train_bpe if model == "bpe" else train_unigram
    tokenizer = _wrap(train(texts, alphabet, **settings), model_max_length=model_max_length)
    size = len(tokenizer)
    if size < vocab_size:
        logger.warning(
            "The vocabulary has %d entries, fewer than `vocab_size` = %d: %s.",
            size,
            vocab_size,
            "there is nothing else in this text"
            if min_frequency == 1
            else f"nothing else occurs {min_frequency} times or more in this text "
            "(`min_frequency`)",
        )
    return tokenizer


def train_tokenizer_pair(
    source_texts: Iterable[str],
    target_texts: Iterable[str],
    *,
    vocab_size: int = 37000,
    target_vocab_size: int | None = None,
    model: str = "bpe",
    normalization: str = "nfc",
    min_frequency: int | None = None,
    limit_alphabet: int | None = None,
    model_max_length: int = 1024,
) -> VaswaniTokenizer:
    """Trains a vocabulary for each side; both become one tokenizer with a source and a target side.

    Args:
        source_texts: sentences of the source.
        target_texts: sentences of the target.
        vocab_size: entries of the source's vocabulary at most.
        target_vocab_size: entries of the target's at most; `None` means `vocab_size`.
        The others are those of `train_tokenizer` and hold for both sides.

    Raises:
        InputError: as `train_tokenizer` does, naming the side.
    """
    sides = []
    for name, texts, size in (
        ("source", source_texts, vocab_size),
        ("target", target_texts, vocab_size if target_vocab_size is None else target_vocab_size),
    ):
        try:
            side = train_tokenizer(
                texts,
                vocab_size=size,
                model=model,
                normalization=normalization,
                min_frequency=min_frequency,
                limit_alphabet=limit_alphabet,
                model_max_length=model_max_length,
            )
        except InputError as error:
            raise InputError(f"{name} side: {error}") from error
        sides.append(side)
    return pair_tokenizers(*sides)


def pair_tokenizers(source: VaswaniTokenizer, target: VaswaniTokenizer) -> VaswaniTokenizer:
    """One tokenizer with the vocabularies of two, which stay as they are.

    `source` and `target` may differ in kind, in size and in the ids of their control tokens.

    Raises:
        InputError: if one of them has two sides already, or lacks a padding or an end token.
    """
    try:
        return source.with_target(target)
    except ValueError as error:
        raise InputError(str(error)) from error


def _check_settings(
    vocab_size: int,
    model: str,
    normalization: str,
    min_frequency: int | None,
    limit_alphabet: int | None,
) -> None:
    for name, value, allowed in (
        ("model", model, VOCABULARY_MODELS),
        ("normalization", normalization, NORMALIZATIONS),
    ):
        if value not in allowed:
            raise InputError(f"`{name}` must be one of {', '.join(allowed)}, got {value!r}.")
    if model == "word" and limit_alphabet is not None:
        raise InputError(
            f"`limit_alphabet` must be left out with `model` 'word', got {limit_alphabet}: "
            "no entry is a part of a word."
        )
    for name, count in (("min_frequency", min_frequency), ("limit_alphabet", limit_alphabet)):
        if count is not None and count < 1:
            raise InputError(f"`{name}` must be at least 1, got {count}.")
    check_vocab_size(vocab_size, model=model)


def check_vocab_size(vocab_size: int, *, model: str = "bpe", name: str = "vocab_size") -> None:
    """Raises InputError if control tokens, and bytes where there are any, fill the vocabulary."""
    parts = f"{len(SPECIAL_TOKENS)} control tokens"
    reserved = len(SPECIAL_TOKENS)
    if model != "word":
        parts += f" and {len(BYTE_TOKENS)} bytes"
        reserved = _RESERVED
    if vocab_size <= reserved:
        raise InputError(f"`{name}` must be more than {reserved} ({parts}), got {vocab_size}.")


def _wrap(backend: Tokenizer, *, model_max_length: int) -> VaswaniTokenizer:
    """The tokenizer around a trained backend: control tokens and the end token."""
    backend.add_special_tokens([AddedToken(token, normalized=True) for token in SPECIAL_TOKENS])
    end = SPECIAL_TOKENS[2]
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A {end}",
        pair=f"$A {end} $B {end}",
        special_tokens=[(end, SPECIAL_TOKENS.index(end))],
    )
    pad, bos, eos, unk = SPECIAL_TOKENS
    return VaswaniTokenizer(
        tokenizer_object=backend,
        pad_token=pad,
        bos_token=bos,
        eos_token=eos,
        unk_token=unk,
        # Control tokens typed by a user are text.
        split_special_tokens=True,
        clean_up_tokenization_spaces=False,
        model_max_length=model_max_length,
    )


def _count_characters(texts: Iterable[str], normalization: str) -> Counter[str]:
    form: Any = normalization.upper()
    counts: Counter[str] = Counter()
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise InputError(f"`texts` must hold str, got {type(text).__name__} as text {number}.")
        counts.update(unicodedata.normalize(form, text))
    if any("\ud800" <= char <= "\udfff" for char in counts):
        number, text = next(
            (number, text)
            for number, text in enumerate(texts, start=1)
            if any("\ud800" <= char <= "\udfff" for char in text)
        )
        raise InputError(
            f"`texts` must be valid Unicode, got a lone surrogate in text {number}: {text[:40]!a}."
        )
    if not any(not char.isspace() for char in counts):
        raise InputError("`texts` must hold text to train on, got no text.")
    return counts
