"""What weights of corpora promise: how often each sentence comes, and from what it is drawn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani.batching import TokenBudgetBatchSampler
from vaswani.epoch_rows import EpochRows
from vaswani.errors import InputError

WEIGHTS = st.floats(0.05, 3.5) | st.integers(1, 3).map(float)


def lengths(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 30, count)


def counts(rows: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(rows, minlength=size)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), WEIGHTS), min_size=1, max_size=4), st.integers(0, 99))
def test_each_sentence_comes_floor_or_ceil_of_its_weight(
    corpora: list[tuple[int, float]], seed: int
) -> None:
    size = sum(pairs for pairs, _ in corpora)
    rows = EpochRows(corpora, lengths(size), lengths(size, 1))
    found = counts(rows.draw(np.random.default_rng(seed)), size)
    start = 0
    for pairs, weight in corpora:
        part = found[start : start + pairs]
        start += pairs
        assert part.min() >= int(weight) and part.max() <= int(np.ceil(weight))
        # One sentence more or less than the share is all that a whole number can do.
        assert abs(part.sum() - weight * pairs) < 1
        if weight == int(weight):
            assert set(part.tolist()) == {int(weight)}


@pytest.mark.parametrize("weight", [0.25, 0.7, 1.5])
def test_every_sentence_has_the_same_chance(weight: float) -> None:
    """3000 epochs: the mean count of a sentence is within 5 standard errors of its weight."""
    size, epochs = 50, 3000
    rows = EpochRows([(size, weight)], lengths(size), lengths(size, 1))
    total = sum(counts(rows.draw(np.random.default_rng(k)), size) for k in range(epochs))
    part = weight - int(weight)
    error = (part * (1 - part) / epochs) ** 0.5
    assert np.abs(total / epochs - weight).max() < 5 * error


def sampler(corpora: list[tuple[int, float]], seed: int = 0) -> TokenBudgetBatchSampler:
    size = sum(pairs for pairs, _ in corpora)
    return TokenBudgetBatchSampler(
        lengths(size), lengths(size, 1), tokens_per_update=120, seed=seed, corpora=corpora
    )


def epoch(made: TokenBudgetBatchSampler, number: int) -> list[list[int]]:
    made.set_epoch(number)
    return list(made)


def test_epochs_of_weighted_corpora_are_of_one_length_and_differ() -> None:
    made = sampler([(300, 0.5), (200, 1.3)])
    epochs = [epoch(made, number) for number in range(20)]
    assert {len(batches) for batches in epochs} == {made.updates_per_epoch}
    assert all(batch for batches in epochs for batch in batches)
    samples = {tuple(sorted(k for batch in batches for k in batch)) for batches in epochs}
    assert len(samples) == 20


def test_an_epoch_depends_on_seed_and_number_alone() -> None:
    corpora = [(300, 0.5), (200, 1.3)]
    used = sampler(corpora)
    for number in range(5):
        epoch(used, number)
    assert epoch(used, 3) == epoch(sampler(corpora), 3)
    assert epoch(used, 3) != epoch(sampler(corpora, seed=1), 3)


def test_weight_one_changes_nothing() -> None:
    assert epoch(sampler([(300, 1.0), (200, 1.0)]), 2) == epoch(
        TokenBudgetBatchSampler(lengths(500), lengths(500, 1), tokens_per_update=120), 2
    )


def test_whole_weights_are_exact_in_every_epoch() -> None:
    made = sampler([(300, 1.0), (200, 3.0)])
    for number in range(3):
        found = counts(np.concatenate(epoch(made, number)), 500)
        assert set(found[:300].tolist()) == {1} and set(found[300:].tolist()) == {3}


def test_a_fraction_of_few_sentences_never_makes_an_empty_update() -> None:
    """Two sentences at weight 0.5, each an update of its own: an epoch is one of them."""
    made = TokenBudgetBatchSampler([9, 9], [9, 9], tokens_per_update=9, corpora=[(2, 0.5)])
    drawn = [epoch(made, number) for number in range(40)]
    assert all(len(batches) == 1 and len(batches[0]) == 1 for batches in drawn)
    assert {batches[0][0] for batches in drawn} == {0, 1}


@pytest.mark.parametrize("weight", [0.0, -1.0, 1000.5, 1e9, float("inf"), float("nan")])
def test_impossible_weight_is_refused(weight: float) -> None:
    with pytest.raises(InputError, match="`data_weights` must be above 0 and at most 1,000, got"):
        EpochRows([(3, weight)], lengths(3), lengths(3))


def test_weights_that_leave_no_sentence_are_refused() -> None:
    with pytest.raises(InputError, match=r"at least one sentence, got 0\.1"):
        TokenBudgetBatchSampler([5, 5], [5, 5], tokens_per_update=9, corpora=[(2, 0.1)])
