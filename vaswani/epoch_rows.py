"""Which sentences an epoch goes through, where corpora have weights.

    EpochRows      the rows of an epoch, drawn anew for each

A corpus of weight w gives each of its sentences floor(w) times, and a part w - floor(w) of them
once more. That part is drawn anew in every epoch, each sentence with the same chance. It is drawn
evenly over the lengths: sorted by length, equal ones in random order, every sentence at which the
multiples of the fraction pass a whole number, from a random start (systematic sampling). So all
epochs hold nearly as many tokens, and a fixed number of updates can hold them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vaswani.errors import InputError

Rows = NDArray[np.int64]

LARGEST_WEIGHT = 1000
"""Of a corpus in an epoch; an epoch is held in memory as numbers of rows."""


class EpochRows:
    """Rows of corpora that lie one after another.

    Args:
        corpora: sentences and weight of each, in order.
        source_lengths: tokens of each source.
        target_lengths: tokens of each target.

    Raises:
        InputError: if a weight is not above 0, or the sizes do not add up.
    """

    def __init__(
        self,
        corpora: Sequence[tuple[int, float]],
        source_lengths: NDArray[np.integer],
        target_lengths: NDArray[np.integer],
    ) -> None:
        for _, weight in corpora:
            check_weight(weight)
        if sum(size for size, _ in corpora) != len(source_lengths):
            raise InputError(
                f"`corpora` must have {len(source_lengths)} sentences in all, "
                f"got {sum(size for size, _ in corpora)}."
            )
        self._corpora = list(corpora)
        self._lengths = source_lengths, target_lengths

    def draw(self, random: np.random.Generator) -> Rows:
        """The rows of one epoch in random order."""
        if all(weight == 1 for _, weight in self._corpora):
            return random.permutation(len(self._lengths[0]))
        return random.permutation(self._chosen(random))

    def fixed(self) -> Rows:
        """Rows that stand for all epochs: as many, of nearly the same lengths, always the same."""
        if all(weight == 1 for _, weight in self._corpora):
            return np.arange(len(self._lengths[0]))
        return self._chosen(None)

    def _chosen(self, random: np.random.Generator | None) -> Rows:
        chosen = []
        start = 0
        for size, weight in self._corpora:
            rows = np.arange(start, start + size)
            start += size
            surely = int(weight)
            chosen += [rows] * surely
            if weight > surely:
                chosen.append(self._part(rows, weight - surely, random))
        return np.concatenate(chosen)

    def _part(self, rows: Rows, fraction: float, random: np.random.Generator | None) -> Rows:
        begin = 0.5
        if random is not None:
            rows, begin = random.permutation(rows), random.random()
        source, target = self._lengths
        rows = rows[np.lexsort((target[rows], source[rows]))]
        marks = np.floor(fraction * np.arange(len(rows) + 1) + begin)
        return rows[np.diff(marks) > 0]


def check_weight(weight: float) -> None:
    """Raises InputError if it is no weight of a corpus."""
    if not 0 < weight <= LARGEST_WEIGHT:
        raise InputError(
            f"`data_weights` must be above 0 and at most {LARGEST_WEIGHT:,}, got {weight}."
        )
