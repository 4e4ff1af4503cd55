"""Laws of splits: nothing shared, nothing that depends on the order, little that moves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani.corpus_splits import (
    LEFT_OUT,
    TEST,
    TRAINING,
    VALIDATION,
    assign_splits,
    fold_hashes,
    hold_out,
)
from vaswani.errors import InputError
from vaswani.text_folding import fold_texts

Rows = list[tuple[str, str]]
SIZE = st.integers(0, 12) | st.floats(0, 0.45)
# Few letters in several spellings, so that copies, near copies and shared targets are frequent.
TEXT = st.builds(
    "{}{}{}".format,
    st.sampled_from("abcdefghABC"),
    st.sampled_from(["", "x", "y", "Z"]),
    st.sampled_from(["", "!", " 12"]),
)
CORPUS = st.lists(st.tuples(TEXT, TEXT), max_size=60)


def splits_of(rows: Rows, validation: float, test: float) -> list[int]:
    sources, targets = ([row[side] for row in rows] for side in (0, 1))
    hashes = fold_hashes(sources), fold_hashes(targets)
    return assign_splits(*hashes, validation=validation, test=test).tolist()


@settings(deadline=None)
@given(CORPUS, SIZE, SIZE)
def test_no_folded_text_stands_in_two_splits(rows: Rows, validation: float, test: float) -> None:
    splits = splits_of(rows, validation, test)
    for side in (0, 1):
        folded = fold_texts([row[side] for row in rows])
        homes: dict[str, set[int]] = {}
        for text, split in zip(folded, splits, strict=True):
            if split != LEFT_OUT:
                homes.setdefault(text, set()).add(split)
        assert all(len(home) == 1 for home in homes.values())


@settings(deadline=None)
@given(CORPUS, SIZE, SIZE)
def test_only_pairs_with_a_held_out_target_are_left_out(
    rows: Rows, validation: float, test: float
) -> None:
    splits = splits_of(rows, validation, test)
    targets = fold_texts([target for _, target in rows])
    held = {t for t, split in zip(targets, splits, strict=True) if split in (VALIDATION, TEST)}
    left_out = {t for t, split in zip(targets, splits, strict=True) if split == LEFT_OUT}
    assert left_out <= held


@settings(deadline=None)
@given(CORPUS, SIZE, SIZE, st.randoms(use_true_random=False))
def test_order_changes_nothing(rows: Rows, validation: float, test: float, random) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)
    splits = splits_of(rows, validation, test)
    assert splits_of([rows[k] for k in order], validation, test) == [splits[k] for k in order]


@settings(deadline=None)
@given(CORPUS, CORPUS, st.floats(0, 0.45), st.floats(0, 0.45))
def test_share_moves_no_pair_when_the_corpus_grows(
    rows: Rows, more: Rows, validation: float, test: float
) -> None:
    before = splits_of(rows, validation, test)
    after = splits_of(rows + more, validation, test)[: len(rows)]
    for old, new in zip(before, after, strict=True):
        # A new pair may bring the target of an old one into a held-out set.
        assert new in (old, LEFT_OUT)


def unlike(count: int) -> Rows:
    """Pairs that share nothing."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    names = [a + b + c for a in letters for b in letters for c in letters][:count]
    return [(f"s{name}", f"t{name}") for name in names]


def test_number_is_met_and_training_pairs_stay_when_the_corpus_grows() -> None:
    rows = unlike(3000)
    before, after = splits_of(rows[:2000], 100, 50), splits_of(rows, 100, 50)
    for splits in (before, after):
        assert (splits.count(VALIDATION), splits.count(TEST)) == (100, 50)
    stayed = 0
    for old, new in zip(before, after, strict=False):
        assert new == old or (old in (VALIDATION, TEST) and new == TRAINING)
        stayed += new == old != TRAINING
    # Two thirds of 150, give or take four standard deviations of the hypergeometric.
    assert 76 <= stayed <= 124


def test_share_is_that_of_the_pairs() -> None:
    splits = splits_of(unlike(10_000), 0.1, 0.05)
    # Binomial: within five standard deviations.
    assert abs(splits.count(VALIDATION) - 1000) < 150
    assert abs(splits.count(TEST) - 500) < 110


def test_group_larger_than_what_is_missing_is_passed_over() -> None:
    rows = [("Same source", f"target {'abcdefgh'[k]}") for k in range(8)]
    splits = splits_of(rows + unlike(20), 4, 0)
    assert splits[:8] == [TRAINING] * 8
    assert splits.count(VALIDATION) == 4
    assert splits_of(rows, 8, 0) == [VALIDATION] * 8
    # Of groups of two, the third would be one pair too many.
    assert splits_of(unlike(20) * 2, 5, 0).count(VALIDATION) == 4


def test_held_out_pairs_are_not_trained_on() -> None:
    sources, targets = ([row[side] for row in unlike(50) * 2] for side in (0, 1))
    held = hold_out(fold_hashes(sources), fold_hashes(targets), 10)
    assert len(held.validation) == 10
    chosen = {sources[k] for k in held.validation}
    assert chosen.isdisjoint(sources[k] for k in held.training)
    assert len(held.training) + len(held.validation) + held.dropped == 100


def test_holding_out_everything_is_refused() -> None:
    with pytest.raises(InputError, match="`validation_split` must leave pairs to train on, got 9"):
        hold_out(fold_hashes(["a", "b"]), fold_hashes(["c", "d"]), 9)


def test_no_pairs_have_no_splits() -> None:
    empty = fold_hashes([])
    assert assign_splits(empty, empty, validation=3, test=0.1).tolist() == []
    assert empty.dtype == np.uint64


def test_a_target_of_the_test_set_is_left_out_of_validation_not_the_reverse() -> None:
    """The test set is chosen first, and validation is filled from other groups."""
    sources = np.array([1, 2, 3, 2**64 - 1], dtype=np.uint64)
    targets = np.array([7, 8, 9, 7], dtype=np.uint64)
    found = assign_splits(sources, targets, validation=1, test=1)
    assert found.tolist() == [LEFT_OUT, VALIDATION, TRAINING, TEST]
