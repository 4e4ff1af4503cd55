"""Texts to their folded form, by which near copies are known, and to hashes.

    fold_texts         the folded form of each text
    hash_texts         64 bits of each text, the same on every machine
    CharacterTable     a property of every code point, to look up a whole block at once
    TextBlock          texts as one array of code points, counted per text

The folded form of a text, by which "Page 12: see  Naïve-Bayes!" and "page 7 see naïve bayes" are
near copies of one another:

- compatibility and composed forms are made one (NFKC), capitals small (Unicode case folding);
- only letters, combining marks and numbers stay: no white space, punctuation, symbols, controls,
  joiners or variation selectors. Accents stay: they tell words apart;
- each run of numbers, of any script and with whatever stood between its digits, becomes one 0;
- a text with no letter, mark or number at all is its NFKC form without white space.
"""

import hashlib
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

CharacterTable = NDArray[np.uint8]

CODE_POINTS = 0x110000
# Above it lie variation selectors, private use and nothing: no letters, marks or numbers.
_LAST_ASSIGNED = 0x40000
_SEPARATOR = "\0"
# Marks that are never seen: joiners and selectors of variants.
_UNSEEN_MARKS = [0x034F, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)]


class TextBlock:
    """Texts side by side as one array of code points, each followed by a separator.

    Args:
        texts: any strings; half a surrogate pair counts as the code point that it is.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        joined = _SEPARATOR.join([*texts, ""])
        self.codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        self.lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        self._ends = np.cumsum(self.lengths + 1) - 1

    def count(self, table: CharacterTable) -> NDArray[np.int64]:
        """The sum of the table's values over the characters of each text."""
        return self._sum(table[self.codes])

    def count_words(self) -> NDArray[np.int64]:
        """How many words, which are what white space parts, each text has."""
        inside = ~space_table().view(bool)[self.codes]
        inside[self._ends] = False
        first = inside.copy()
        first[1:] &= ~inside[:-1]
        return self._sum(first)

    def _sum(self, values: NDArray) -> NDArray[np.int64]:
        if not len(self.texts):
            return np.zeros(0, dtype=np.int64)
        # The separator keeps an empty text from being an empty range, which reduceat cannot sum.
        values[self._ends] = 0
        starts = self._ends - self.lengths
        return np.add.reduceat(values, starts, dtype=np.int32).astype(np.int64)

    def fold(self) -> list[str]:
        """The texts without what does not count, and with 0 for each run of numbers."""
        classes = _folding_table()[self.codes]
        classes[self._ends] = _KEPT
        kept = classes > 0
        classes, codes = classes[kept], self.codes[kept]
        number = classes == _NUMBER
        codes[number] = ord("0")
        number[1:] &= number[:-1]
        number[:1] = False
        folded = codes[~number].tobytes().decode("utf-32-le", "surrogatepass")
        return folded.split(_SEPARATOR)[:-1]


def fold_texts(texts: Sequence[str]) -> list[str]:
    """The folded form of each text, as the head of this module has it."""
    normalize = unicodedata.normalize
    composed = [normalize("NFKC", text) for text in texts]
    folded = TextBlock([normalize("NFKC", text.casefold()) for text in composed]).fold()
    # What a dropped character kept apart may now be composed.
    return [
        normalize("NFKC", text) if text else "".join(original.split())
        for text, original in zip(folded, composed, strict=True)
    ]


def hash_texts(texts: Iterable[str]) -> NDArray[np.uint64]:
    """64 bits of each text: the first 8 bytes of its BLAKE2b, little-endian.

    Two of n different texts have the same bits with a probability of about n squared / 2**65:
    one in a million for 6 million texts, one in 4,000 for 100 million.
    """
    encoded = (text.encode("utf-8", "surrogatepass") for text in texts)
    digests = b"".join(hashlib.blake2b(each, digest_size=8).digest() for each in encoded)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def table_of(value: Callable[[str], int]) -> CharacterTable:
    """A table with the value of each character, 0 where none can be assigned."""
    table = np.zeros(CODE_POINTS, dtype=np.uint8)
    table[:_LAST_ASSIGNED] = [value(chr(code)) for code in range(_LAST_ASSIGNED)]
    table.flags.writeable = False
    return table


@lru_cache(maxsize=1)
def category_table() -> CharacterTable:
    """The first letter of each code point's general category, as its ASCII number; 0 beyond."""
    return table_of(lambda char: ord(unicodedata.category(char)[0]))


@lru_cache(maxsize=1)
def letter_table() -> CharacterTable:
    """1 for letters."""
    return (category_table() == ord("L")).astype(np.uint8)


@lru_cache(maxsize=1)
def space_table() -> CharacterTable:
    """1 for white space, as `str.split` has it."""
    return table_of(str.isspace)


@lru_cache(maxsize=1)
def word_character_table() -> CharacterTable:
    """1 for letters and for the marks that combine with them."""
    return letter_table() | (category_table() == ord("M"))


@lru_cache(maxsize=1)
def width_table() -> CharacterTable:
    """Columns of a terminal: 2 for wide characters of East Asia, 1 for all others."""
    wide = unicodedata.east_asian_width
    return np.maximum(table_of(lambda char: 2 if wide(char) in "WF" else 1), 1)


_KEPT, _NUMBER = 1, 2


@lru_cache(maxsize=1)
def _folding_table() -> CharacterTable:
    categories = category_table()
    table = np.zeros(CODE_POINTS, dtype=np.uint8)
    table[(categories == ord("L")) | (categories == ord("M"))] = _KEPT
    table[categories == ord("N")] = _NUMBER
    table[_UNSEEN_MARKS] = 0
    return table
