"""Word-level vocabularies: every entry is a whole word, a number or one punctuation mark.

    train_words              a backend whose entries are the frequent words of texts

How a text becomes words:

1. NFC, or NFKC where that was asked for, and lower case.
2. White space parts words and is dropped. A word is a run of letters, marks and digits; an
   apostrophe or a hyphen between two of them stays inside ("don't", "peut-être"). Every other
   character is a word of its own. Hence no word can spell `</s>`, whatever text it is trained on.
3. A word outside the vocabulary becomes the unknown token.

Decoding joins words with single spaces, none before closing and after opening punctuation. Capital
letters, the white space of the text and unknown words do not come back.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from vaswani.errors import InputError
from vaswani.subword_pieces import NORMAL_FORMS
from vaswani.wording import counted

_WORDS = (
    r"[\p{L}\p{M}\p{N}]+(?:['\u2019\u2010-][\p{L}\p{M}\p{N}]+)*"  # letters, with ' or - between
    r"|[^\s\p{L}\p{M}\p{N}]"
)
_NO_SPACE_BEFORE = r" (?=[.,!?;:%)\]}\u2026])"
_NO_SPACE_AFTER = r"(?<=[(\[{\u00A1\u00BF]) "

logger = logging.getLogger(__name__)


def train_words(
    texts: Iterable[str],
    *,
    normalization: str,
    special_tokens: Sequence[str],
    vocab_size: int,
    min_frequency: int,
) -> Tokenizer:
    """A backend for the most frequent words of texts; equally frequent ones by code point.

    Args:
        texts: of valid Unicode.
        normalization: the normal form, a key of `NORMAL_FORMS`.
        special_tokens: entries that take the first ids; the last one is the unknown token.
        vocab_size: entries at most, with the special tokens.
        min_frequency: how often a word must be seen to become an entry.

    Raises:
        InputError: if no word is frequent enough.
    """
    backend = _pipeline(models.WordLevel({}, special_tokens[-1]), normalization)
    counts: Counter[str] = Counter()
    for text in texts:
        normal = backend.normalizer.normalize_str(text)
        counts.update(word for word, _ in backend.pre_tokenizer.pre_tokenize_str(normal))
    frequent = [word for word, count in counts.items() if count >= min_frequency]
    if not frequent:
        raise InputError(
            f"`min_frequency` must let some words through, got {min_frequency} where the most "
            f"frequent word is seen {counted(max(counts.values(), default=0), 'time')}. Lower it."
        )
    frequent.sort(key=lambda word: (-counts[word], word))
    kept = frequent[: vocab_size - len(special_tokens)]
    if len(kept) < len(counts):
        logger.warning(
            "%d of %d words have no entry: seen fewer than %d times, or beyond `vocab_size` = %d. "
            "They are %.1f %% of the running text and become %s.",
            len(counts) - len(kept),
            len(counts),
            min_frequency,
            vocab_size,
            100 - 100 * sum(counts[word] for word in kept) / counts.total(),
            special_tokens[-1],
        )
    entries = {token: number for number, token in enumerate([*special_tokens, *kept])}
    return _pipeline(models.WordLevel(entries, special_tokens[-1]), normalization)


def _pipeline(model: models.WordLevel, normalization: str) -> Tokenizer:
    """A tokenizer of the library with this model and the steps of the module docstring."""
    backend = Tokenizer(model)
    normal_form = NORMAL_FORMS[normalization]
    # Twice: the lower case of a composed letter need not be composed.
    backend.normalizer = normalizers.Sequence(
        [normal_form(), normalizers.Lowercase(), normal_form()]
    )
    # Inverted: the matches are kept, and the white space between them is what is removed.
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(_WORDS), "removed", invert=True)
    backend.decoder = decoders.Sequence(
        [
            # Puts a space before each word but the first. No word begins with its prefix for parts
            # of words, since `#` is a word of its own.
            decoders.WordPiece(prefix="##", cleanup=False),
            decoders.Fuse(),
            decoders.Replace(Regex(_NO_SPACE_BEFORE), ""),
            decoders.Replace(Regex(_NO_SPACE_AFTER), ""),
        ]
    )
    return backend
