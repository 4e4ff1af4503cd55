"""Splits of a corpus that share no source and no target, not even a near copy.

    assign_splits      the split of every pair, from the hashes of its folded texts
    fold_hashes        those hashes
    hold_out           a validation set taken from the training pairs
    TRAINING, VALIDATION, TEST, LEFT_OUT
                       what `assign_splits` says of a pair

Pairs with one folded source (see `text_folding`) are a group, and a group falls into one split as a
whole. The hash of that source alone decides: groups with the smallest hashes are validation, those
with the largest are test. So the order of the pairs means nothing, and:

- a share (0.01) takes all groups with hashes below that share of all numbers. Adding pairs to the
  corpus moves none.
- a number (1000) takes groups, smallest hash first, until it has so many pairs; a group of more
  pairs than are still missing is passed over. With pairs added, groups with still smaller hashes
  push others out of the held-out sets into training; what was trained on stays training, unless
  a group that grew has to be passed over.

A pair whose folded target, but not its source, stands in the test set or, for a training pair, in
the validation set is left out. Held-out sets are filled from the other groups.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from vaswani.errors import InputError
from vaswani.text_folding import fold_texts, hash_texts

TRAINING, VALIDATION, TEST, LEFT_OUT = 0, 1, 2, 3

_TEXTS_AT_A_TIME = 4096
Hashes = NDArray[np.uint64]


@dataclass
class HeldOut:
    """Indices of the pairs to train on and to validate on, and how many are in neither."""

    training: NDArray[np.int64]
    validation: NDArray[np.int64]
    dropped: int


def hold_out(sources: Hashes, targets: Hashes, count: int) -> HeldOut:
    """Chooses `count` pairs for validation; the same ones whatever their order.

    Args:
        sources: the hash of each pair's folded source.
        targets: the hash of its folded target.
        count: how many pairs.

    Raises:
        InputError: if that leaves nothing to train on.
    """
    splits = assign_splits(sources, targets, validation=count)
    training = np.flatnonzero(splits == TRAINING)
    if not len(training):
        raise InputError(
            f"`validation_split` must leave pairs to train on, got {count} of {len(splits)}."
        )
    return HeldOut(
        training,
        np.flatnonzero(splits == VALIDATION),
        int(np.count_nonzero(splits == LEFT_OUT)),
    )


def fold_hashes(texts: Iterable[str]) -> Hashes:
    """The hash of the folded form of each text."""
    parts, left = [], iter(texts)
    while some := list(islice(left, _TEXTS_AT_A_TIME)):
        parts.append(hash_texts(fold_texts(some)))
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint64)


def assign_splits(
    sources: Hashes, targets: Hashes, *, validation: float = 0, test: float = 0
) -> NDArray[np.int8]:
    """The split of each pair: TRAINING, VALIDATION, TEST or LEFT_OUT.

    Args:
        sources: the hash of each pair's folded source.
        targets: the hash of its folded target.
        validation: how many pairs, or below 1 which share of the groups.
        test: the same.
    """
    groups, group_of = np.unique(sources, return_inverse=True)
    splits = np.full(len(sources), TRAINING, dtype=np.int8)
    for split, wanted in ((TEST, test), (VALIDATION, validation)):
        sizes = np.bincount(group_of[splits == TRAINING], minlength=len(groups))
        # The test set is taken from the other end, so that growing one does not move the other.
        ranks = ~groups if split == TEST else groups
        chosen = _below(ranks, wanted) if wanted < 1 else _fill(ranks, sizes, int(wanted))
        splits[(splits == TRAINING) & chosen[group_of]] = split
        taken = np.unique(targets[splits == split])
        splits[(splits == TRAINING) & np.isin(targets, taken)] = LEFT_OUT
    return splits


def _below(ranks: Hashes, share: float) -> NDArray[np.bool_]:
    return ranks < np.uint64(int(share * 2.0**64))


def _fill(ranks: Hashes, sizes: NDArray[np.int64], wanted: int) -> NDArray[np.bool_]:
    """Chooses groups by rank until they have so many pairs, passing over those with too many."""
    chosen = np.zeros(len(ranks), dtype=np.bool_)
    for group in np.argsort(ranks):
        if wanted == 0:
            break
        if sizes[group] <= wanted:
            chosen[group] = True
            wanted -= int(sizes[group])
    return chosen
