"""What a corpus holds: counts, lengths, copies, scripts, odd characters and outliers.

    CorpusStatistics   counts blocks of pairs
    OUTLIERS           kinds of pairs worth a look -> what is so odd about them

For each pair 16 bytes of hashes and 4 for each of its lengths are kept, so that quantiles are exact
and nothing else grows with the corpus. Outliers are known by number; their texts are looked up when
the corpus is read again.
"""

import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vaswani.corpus_filters import PairBlock
from vaswani.corpus_readers import Pairs
from vaswani.corpus_scripts import SHARED, script_table
from vaswani.text_folding import CODE_POINTS, letter_table, width_table

OUTLIERS = {
    "longest": "most of a side",
    "most unequal": "widest against the other side",
    "most repeated": "first of the most near copies",
}
QUANTILES = (0, 0.01, 0.25, 0.5, 0.75, 0.99, 1)

_SIDES = ("source", "target")
_PAIRS_AT_A_TIME = 4096
# Added to both widths of a pair, so that a short pair is not an outlier for a few letters.
_SLACK = 15
_LISTED = 10

CountTokens = Callable[[Pairs], tuple[Sequence[int], Sequence[int]]]


class CorpusStatistics:
    """Counts the pairs of a corpus, block by block.

    Args:
        count_tokens: numbers of tokens of the sources and of the targets; `None` without a
            tokenizer.
    """

    def __init__(self, count_tokens: CountTokens | None = None) -> None:
        self.pairs = 0
        self.identical = 0
        self._count_tokens = count_tokens
        self._kept: dict[str, list[NDArray]] = {}
        self._characters = [np.zeros(CODE_POINTS, dtype=np.int64) for _ in _SIDES]

    @property
    def unit(self) -> str:
        """What lengths are told in: tokens if they are counted, else words."""
        return "words" if self._count_tokens is None else "tokens"

    def add(self, pairs: Pairs) -> None:
        """Counts a block."""
        for start in range(0, len(pairs[0]), _PAIRS_AT_A_TIME):
            rows = slice(start, start + _PAIRS_AT_A_TIME)
            self._add((pairs[0][rows], pairs[1][rows]))

    def _add(self, pairs: Pairs) -> None:
        block = PairBlock(pairs)
        self.pairs += len(pairs[0])
        self.identical += sum(map(str.__eq__, *pairs))
        self._keep("pair", block.pair_hashes)
        self._keep("folded", block.folded_hashes)
        for name, side, characters in zip(_SIDES, block.sides, self._characters, strict=True):
            self._keep(f"{name} words", side.count_words().astype(np.int32))
            self._keep(f"{name} characters", side.lengths.astype(np.int32))
            self._keep(f"{name} width", side.count(width_table()).astype(np.int32))
            codes, counts = np.unique(side.codes, return_counts=True)
            characters[codes] += counts
            characters[0] -= len(side.texts)  # the separators
        if self._count_tokens is not None:
            for name, lengths in zip(_SIDES, self._count_tokens(pairs), strict=True):
                self._keep(f"{name} tokens", np.asarray(lengths, dtype=np.int32))

    def _keep(self, name: str, values: NDArray) -> None:
        self._kept.setdefault(name, []).append(values)

    def _all(self, name: str) -> NDArray:
        """What was kept of every pair, in one array from now on."""
        self._kept[name] = [np.concatenate(self._kept[name])]
        return self._kept[name][0]

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The lengths of all sources and of all targets, in `unit`."""
        return self._all(f"source {self.unit}"), self._all(f"target {self.unit}")

    def summary(self) -> dict[str, Any]:
        """All figures, ready for JSON; there must be a pair.

        `ratio` is target characters over source characters; quantiles are values that occur.
        """
        units = ["words", "characters", *([self.unit] if self.unit == "tokens" else [])]
        summary: dict[str, Any] = {
            "pairs": self.pairs,
            "identical": self.identical,
            "duplicates": self.pairs - len(np.unique(self._all("pair"))),
            "near_duplicates": self.pairs - len(np.unique(self._all("folded"))),
            "ratio": _quantiles(
                self._all("target characters") / np.maximum(self._all("source characters"), 1)
            ),
        }
        for name, characters in zip(_SIDES, self._characters, strict=True):
            lengths = {unit: self._all(f"{name} {unit}") for unit in units}
            summary[name] = {
                **{unit: int(lengths[unit].sum(dtype=np.int64)) for unit in units},
                "lengths": {unit: _quantiles(lengths[unit]) for unit in units},
                "scripts": _scripts(characters),
                "odd_characters": _odd(characters),
            }
        return summary

    def outliers(self, count: int) -> dict[str, list[tuple[int, str]]]:
        """Numbers of pairs, from 1, with what is odd about each, by the kinds of `OUTLIERS`."""
        longer = np.maximum(*self.lengths())
        widths = self._all("source width"), self._all("target width")
        ratio = (np.maximum(*widths) + _SLACK) / (np.minimum(*widths) + _SLACK)
        _, firsts, copies = np.unique(self._all("folded"), return_index=True, return_counts=True)
        repeated = [k for k in _largest(copies, count, firsts) if copies[k] > 1]
        return {
            "longest": [(k + 1, f"{longer[k]:,} {self.unit}") for k in _largest(longer, count)],
            "most unequal": [
                (k + 1, f"{widths[0][k]:,} and {widths[1][k]:,} columns")
                for k in _largest(ratio, count)
            ],
            "most repeated": [(int(firsts[k]) + 1, f"{copies[k]:,} times") for k in repeated],
        }


def _largest(values: NDArray, count: int, order: NDArray | None = None) -> list[int]:
    """Places of the largest values; of equal ones the first by `order`."""
    order = np.arange(len(values)) if order is None else order
    if 0 < count < len(values):
        least = np.partition(values, len(values) - count)[len(values) - count]
        places = np.flatnonzero(values >= least)
    else:
        places = np.arange(len(values))
    return places[np.lexsort((order[places], -values[places]))][:count].tolist()


def _quantiles(values: NDArray) -> list[float]:
    found = np.quantile(values, QUANTILES, method="inverted_cdf")
    return [round(float(value), 3) if values.dtype.kind == "f" else int(value) for value in found]


def _scripts(characters: NDArray[np.int64]) -> dict[str, float]:
    """The share of each script among the letters, the most frequent first."""
    codes, table = script_table()
    counts = np.bincount(table, weights=characters * letter_table(), minlength=len(codes))
    found = {code: count for code, count in zip(codes, counts, strict=True) if count}
    found = {code: count for code, count in found.items() if code not in SHARED}
    total = sum(found.values())
    ranked = sorted(found.items(), key=lambda item: -item[1])[:_LISTED]
    return {code: float(count / total) for code, count in ranked}


def _odd(characters: NDArray[np.int64]) -> dict[str, int]:
    """The most frequent characters that nobody sees, or that stand for what was lost."""
    found = {
        chr(code): int(characters[code])
        for code in np.flatnonzero(characters).tolist()
        if _is_odd(chr(code))
    }
    return dict(sorted(found.items(), key=lambda item: -item[1])[:_LISTED])


def _is_odd(char: str) -> bool:
    """Controls, unassigned, private, spaces but U+0020, the replacement, accents on their own.

    An accent apart from its letter tells that the text is not in its composed form.
    """
    hidden = unicodedata.category(char)[0] in "CZ" and char != " "
    return hidden or char == "\ufffd" or "\u0300" <= char <= "\u036f"
