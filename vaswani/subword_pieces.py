"""What the vocabularies of parts of words have in common: pieces, bytes and single characters.

    piece_pipeline           the steps of the library around a model
    NORMAL_FORMS             what a text may be put into first
    PIECES                   a regular expression: what stays together
    BYTE_TOKENS              entries that spell characters without an entry of their own
    choose_alphabet          the characters that get an entry
    batches                  texts as the trainers of the library want them

How a text becomes pieces, and why decoding gives its normal form back exactly:

1. NFC, or NFKC where that was asked for, and one more space where the text starts with one.
2. One space goes before a text that does not start with one. So the first word is the same token as
   in the middle of a sentence, and exactly one space is ours: the decoder takes it off again.
3. The text is cut into words, single digits, runs of punctuation and white space, each with the
   space before it. No piece holds both punctuation and letters or digits. Models see one piece at a
   time, hence none can spell `</s>` or a byte such as `<0x41>`, whatever the training text holds.
4. The model cuts each piece; characters outside the vocabulary become bytes.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

NORMAL_FORMS = {"nfc": normalizers.NFC, "nfkc": normalizers.NFKC}
BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))

# A word, one digit, a run of punctuation, white space short of the next piece's own space.
# No-break spaces join the punctuation that they belong to in French, but never a word or a number.
PIECES = (
    r" ?[\p{L}\p{M}]+"
    r"| ?\p{N}"
    r"|[ \u00A0\u202F]?[^\s\p{L}\p{M}\p{N}]+"
    r"|\s+(?!\S)"
    r"|\s+"
)

# Control, surrogate, private-use and unassigned characters never earn a row of their own.
_NO_CHARACTERS = {"Cc", "Cs", "Co", "Cn"}

_TEXTS_AT_ONCE = 1000


def piece_pipeline(
    model: models.Model, *, normalization: str, pieces: str = PIECES, dropped: str | None = None
) -> Tokenizer:
    """A tokenizer of the library with this model and the steps of the module docstring.

    Args:
        model: what cuts the pieces.
        normalization: the normal form, a key of `NORMAL_FORMS`.
        pieces: a regular expression of what stays together; another one only in training.
        dropped: a regular expression; what it matches is left out of pieces, in training only.
    """
    backend = Tokenizer(model)
    backend.normalizer = normalizers.Sequence(
        [NORMAL_FORMS[normalization](), normalizers.Replace(Regex(r"\A "), "  ")]
    )
    # Not normalizers.Prepend: it runs again on what follows an added token, and puts a space there.
    first_space = pre_tokenizers.Metaspace(replacement=" ", prepend_scheme="first", split=False)
    steps = [first_space, pre_tokenizers.Split(Regex(pieces), "isolated")]
    if dropped is not None:
        steps.append(pre_tokenizers.Split(Regex(dropped), "removed"))
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    backend.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return backend


def choose_alphabet(counts: Counter[str], *, min_frequency: int, limit: int) -> list[str]:
    """The characters that get an entry, by code point; the space always does.

    Args:
        counts: how often each character is seen.
        min_frequency: how often a character must be seen.
        limit: characters at most, the most frequent first.
    """
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


def batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Lists of texts: the library takes its lock once per item that it is handed."""
    iterator = iter(texts)
    while batch := list(islice(iterator, _TEXTS_AT_ONCE)):
        yield batch
