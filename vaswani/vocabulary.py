"""Trains the vocabulary of a tokenizer: one for source and target together, or one for each.

    train_tokenizer          one vocabulary; byte-pair encoding as in section 5.1, or whole words
    train_tokenizer_pair     one for each side, in one tokenizer
    pair_tokenizers          the same from two finished tokenizers, of whatever kind
    SPECIAL_TOKENS           ids 0 to 3; in byte-pair encoding the 256 bytes follow, then
                             characters, then merges

Words are the business of `word_vocabulary`. How byte-pair encoding makes pieces of a text, and why
decoding gives the text back exactly:

1. NFC, and one more space where the text starts with one.
2. One space goes before a text that does not start with one. So the first word is the same token as
   in the middle of a sentence, and exactly one space is ours: the decoder takes it off again.
3. The text is cut into words, single digits, runs of punctuation and white space, each with the
   space before it. No piece holds both punctuation and letters or digits. Merges stay inside
   pieces, hence none can spell `</s>` or a byte such as `<0x41>`, whatever the training text holds.
4. Byte-pair encoding inside each piece; characters outside the vocabulary become bytes.
"""

import json
import logging
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from vaswani.errors import InputError
from vaswani.tokenization_vaswani import VaswaniTokenizer
from vaswani.word_vocabulary import train_words

SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
"""Other write-ups call the second and the third `<bos>` and `<eos>`."""
VOCABULARY_MODELS = ("bpe", "word")

_BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))
_RESERVED = len(SPECIAL_TOKENS) + len(_BYTE_TOKENS)

# A word, one digit, a run of punctuation, white space short of the next piece's own space.
# No-break spaces join the punctuation that they belong to in French, but never a word or a number.
_PIECES = (
    r" ?[\p{L}\p{M}]+"
    r"| ?\p{N}"
    r"|[ \u00A0\u202F]?[^\s\p{L}\p{M}\p{N}]+"
    r"|\s+(?!\S)"
    r"|\s+"
)

# Control, surrogate, private-use and unassigned characters never earn a row of their own.
_NO_CHARACTERS = {"Cc", "Cs", "Co", "Cn"}

_TEXTS_AT_ONCE = 1000
_MIN_FREQUENCIES = {"bpe": 10, "word": 2}

logger = logging.getLogger(__name__)


def train_tokenizer(
    texts: Iterable[str],
    *,
    vocab_size: int = 37000,
    model: str = "bpe",
    min_frequency: int | None = None,
    limit_alphabet: int | None = None,
    model_max_length: int = 1024,
) -> VaswaniTokenizer:
    """Trains a tokenizer on texts; the same texts and settings give the same files, byte for byte.

    Source: Section 5.1 (byte-pair encoding, about 37,000 entries shared by source and target).

    Args:
        texts: sentences of both sides. They are read twice; an iterator is put into a list first.
        vocab_size: entries at most. Small corpora give fewer, with a notice in the log.
        model: `"bpe"`, byte-pair encoding, which spells every text; or `"word"`, whole words in
            lower case with punctuation split off, where a rare word becomes `<unk>` and decoding
            loses case and spaces (see `word_vocabulary`).
        min_frequency: how often a character or a merge, or a word, must be seen to become an entry;
            one seen less would hardly be trained. `None` means 10 for `"bpe"`, 2 for `"word"`.
        limit_alphabet: characters at most, the most frequent first; the others are spelt in bytes.
            `None` means a quarter of `vocab_size`. Only for `"bpe"`.
        model_max_length: length in tokens to which `truncation=True` cuts, end token included.

    Raises:
        InputError: if there is no text, a text is no valid Unicode, no word is frequent enough, or
            a setting is out of range.
    """
    _check_settings(vocab_size, model, min_frequency, limit_alphabet, model_max_length)
    if min_frequency is None:
        min_frequency = _MIN_FREQUENCIES[model]
    if isinstance(texts, (str, bytes)):
        raise InputError(
            "`texts` must be an iterable of texts, got a single text. Put it in a list."
        )
    if isinstance(texts, Iterator):
        texts = list(texts)
    characters = _count_characters(texts)
    if model == "word":
        words = train_words(
            texts,
            special_tokens=SPECIAL_TOKENS,
            vocab_size=vocab_size,
            min_frequency=min_frequency,
        )
        return _wrap(words, model_max_length=model_max_length)
    alphabet = _choose_alphabet(
        characters,
        min_frequency=min_frequency,
        limit=vocab_size // 4 if limit_alphabet is None else limit_alphabet,
    )
    needed = _RESERVED + len(alphabet)
    if vocab_size < needed:
        raise InputError(
            f"`vocab_size` must be at least {needed} for this text ({len(SPECIAL_TOKENS)} control "
            f"tokens, {len(_BYTE_TOKENS)} bytes, {len(alphabet)} characters), got {vocab_size}. "
            "Raise it or lower `limit_alphabet`."
        )
    bpe = _train_bpe(texts, alphabet, vocab_size=vocab_size, min_frequency=min_frequency)
    tokenizer = _wrap(_pipeline(bpe), model_max_length=model_max_length)
    size = len(tokenizer)
    if size < vocab_size:
        logger.warning(
            "The vocabulary has %d entries, fewer than `vocab_size` = %d: nothing else occurs "
            "%d times or more in this text (`min_frequency`).",
            size,
            vocab_size,
            min_frequency,
        )
    return tokenizer


def train_tokenizer_pair(
    source_texts: Iterable[str],
    target_texts: Iterable[str],
    *,
    vocab_size: int = 37000,
    target_vocab_size: int | None = None,
    model: str = "bpe",
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
    min_frequency: int | None,
    limit_alphabet: int | None,
    model_max_length: int,
) -> None:
    if model not in VOCABULARY_MODELS:
        raise InputError(f"`model` must be one of {', '.join(VOCABULARY_MODELS)}, got {model!r}.")
    if model == "word" and limit_alphabet is not None:
        raise InputError(
            f"`limit_alphabet` must be left out with `model` 'word', got {limit_alphabet}: "
            "no entry is a part of a word."
        )
    for name, value in (
        ("min_frequency", min_frequency),
        ("limit_alphabet", limit_alphabet),
        ("model_max_length", model_max_length),
    ):
        if value is not None and value < 1:
            raise InputError(f"`{name}` must be at least 1, got {value}.")
    check_vocab_size(vocab_size, model=model)


def check_vocab_size(vocab_size: int, *, model: str = "bpe", name: str = "vocab_size") -> None:
    """Raises InputError if control tokens, and bytes where there are any, fill the vocabulary."""
    parts = f"{len(SPECIAL_TOKENS)} control tokens"
    reserved = len(SPECIAL_TOKENS)
    if model == "bpe":
        parts += f" and {len(_BYTE_TOKENS)} bytes"
        reserved = _RESERVED
    if vocab_size <= reserved:
        raise InputError(f"`{name}` must be more than {reserved} ({parts}), got {vocab_size}.")


def _wrap(backend: Tokenizer, *, model_max_length: int) -> VaswaniTokenizer:
    """The tokenizer around a trained backend: control tokens and the end token."""
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL_TOKENS])
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


def _count_characters(texts: Iterable[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise InputError(f"`texts` must hold str, got {type(text).__name__} as text {number}.")
        counts.update(unicodedata.normalize("NFC", text))
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


def _choose_alphabet(counts: Counter[str], *, min_frequency: int, limit: int) -> list[str]:
    """The characters that get an entry, by code point; the space always does."""
    # The library has a limit of its own, but breaks ties between rare characters at random.
    frequent = sorted(
        (
            char
            for char, count in counts.items()
            if char != " "
            and count >= min_frequency
            and unicodedata.category(char) not in _NO_CHARACTERS
        ),
        key=lambda char: (-counts[char], char),
    )
    return sorted([" ", *islice(frequent, limit - 1)])


def _train_bpe(
    texts: Iterable[str], alphabet: list[str], *, vocab_size: int, min_frequency: int
) -> models.BPE:
    """A byte-pair model whose first ids are the control tokens and the bytes."""
    trained = _pipeline(models.BPE())
    trained.train_from_iterator(
        _batches(texts),
        trainers.BpeTrainer(
            vocab_size=vocab_size,
            min_frequency=min_frequency,
            special_tokens=[*SPECIAL_TOKENS, *_BYTE_TOKENS],
            initial_alphabet=alphabet,
            limit_alphabet=len(alphabet),
            show_progress=False,
        ),
    )
    # A model of its own, because the trainer also marks the bytes as tokens to be found in text.
    state = json.loads(trained.to_str())["model"]
    merges = [(left, right) for left, right in state["merges"]]
    reserved = {*SPECIAL_TOKENS, *_BYTE_TOKENS}
    assert not any(left + right in reserved for left, right in merges)
    return models.BPE(
        vocab=state["vocab"], merges=merges, byte_fallback=True, unk_token=SPECIAL_TOKENS[3]
    )


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Lists of texts: the library takes its lock once per item that it is handed."""
    iterator = iter(texts)
    while batch := list(islice(iterator, _TEXTS_AT_ONCE)):
        yield batch


def _pipeline(model: models.BPE) -> Tokenizer:
    """A tokenizer of the library with this model and the steps of the module docstring."""
    backend = Tokenizer(model)
    backend.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\A "), "  ")]
    )
    # Not normalizers.Prepend: it runs again on what follows an added token, and puts a space there.
    first_space = pre_tokenizers.Metaspace(replacement=" ", prepend_scheme="first", split=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [first_space, pre_tokenizers.Split(Regex(_PIECES), "isolated")]
    )
    backend.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return backend
