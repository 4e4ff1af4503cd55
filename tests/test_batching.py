"""Laws of the batches: nothing lost, nothing over budget, nothing that depends on the processes."""

import logging
from itertools import chain
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from accelerate.data_loader import BatchSamplerShard, DataLoaderShard
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from vaswani.batching import TokenBudgetBatchSampler, TranslationCollator
from vaswani.errors import InputError

LENGTHS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=120)


def sampler_of(
    lengths: list[tuple[int, int]], tokens: int, **options: Any
) -> TokenBudgetBatchSampler:
    source, target = zip(*lengths, strict=True)
    return TokenBudgetBatchSampler(source, target, tokens_per_update=tokens, **options)


def corpus_lengths(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths as in real text: many short, few long, both sides correlated."""
    random = np.random.default_rng(0)
    source = np.ceil(random.lognormal(2.4, 0.7, count)).clip(1, 200).astype(int)
    target = np.ceil(source * random.lognormal(0.0, 0.25, count)).clip(1, 200).astype(int)
    return source, target


def grouped(batches: list[list[int]], size: int) -> list[list[int]]:
    """The sentences of each update, put together again from its micro-batches."""
    assert len(batches) % size == 0
    return [sorted(chain(*batches[at : at + size])) for at in range(0, len(batches), size)]


@given(LENGTHS, st.integers(1, 200), st.integers(1, 9), st.integers(0, 3), st.booleans())
def test_every_sentence_comes_exactly_once_an_epoch(lengths, tokens, parts, epoch, shuffle) -> None:
    sampler = sampler_of(lengths, tokens, micro_batches=parts, shuffle=shuffle)
    sampler.set_epoch(epoch)
    assert sorted(chain(*sampler)) == list(range(len(lengths)))


@given(LENGTHS, st.integers(1, 200), st.integers(0, 3), st.booleans())
def test_no_update_exceeds_the_budget_on_either_side(lengths, tokens, epoch, shuffle) -> None:
    sampler = sampler_of(lengths, tokens, shuffle=shuffle)
    sampler.set_epoch(epoch)
    for batch in sampler:
        longest = max(max(lengths[index]) for index in batch)
        assert len(batch) * longest <= tokens or len(batch) == 1


@given(LENGTHS, st.integers(1, 200), st.integers(2, 9), st.integers(0, 3))
def test_updates_do_not_depend_on_the_number_of_micro_batches(
    lengths, tokens, parts, epoch
) -> None:
    whole = sampler_of(lengths, tokens)
    dealt = sampler_of(lengths, tokens, micro_batches=parts)
    whole.set_epoch(epoch)
    dealt.set_epoch(epoch)
    assert grouped(list(dealt), parts) == grouped(list(whole), 1)


@given(LENGTHS, st.integers(1, 200), st.integers(1, 9), st.booleans())
def test_length_is_the_same_in_every_epoch(lengths, tokens, parts, shuffle) -> None:
    sampler = sampler_of(lengths, tokens, micro_batches=parts, shuffle=shuffle)
    for epoch in range(6):
        sampler.set_epoch(epoch)
        assert len(list(sampler)) == len(sampler)


def test_length_is_the_same_where_layouts_differ_in_size() -> None:
    """Some layouts need more updates than there are, some fewer: both cases must occur here."""
    source, target = corpus_lengths(2000)
    more = fewer = 0
    for tokens in range(2000, 12000, 500):
        sampler = TokenBudgetBatchSampler(source, target, tokens_per_update=tokens)
        for phase in np.linspace(0, 1, 7):
            size = len(sampler._layout(np.arange(2000), phase=phase, swap=True))
            more += size > sampler.updates_per_epoch
            fewer += size < sampler.updates_per_epoch
        for epoch in range(10):
            sampler.set_epoch(epoch)
            assert len(list(sampler)) == len(sampler)
    assert more > 5
    assert fewer > 5


@given(LENGTHS, st.integers(1, 200), st.integers(2, 9))
def test_micro_batch_is_empty_only_where_sentences_are_too_few(lengths, tokens, parts) -> None:
    batches = list(sampler_of(lengths, tokens, micro_batches=parts))
    for at in range(0, len(batches), parts):
        sizes = [len(batch) for batch in batches[at : at + parts]]
        assert sizes.count(0) == max(0, parts - sum(sizes))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=4, max_size=9))
def test_largest_micro_batch_is_as_small_as_any_cut_allows(lengths) -> None:
    """Beside all ways to cut the update, sorted by length, into three."""
    sampler = sampler_of(lengths, 1000, micro_batches=3, shuffle=False)
    rows = sorted((s + t, t, s) for s, t in lengths)

    def padded(part: list[tuple[int, int, int]]) -> int:
        return len(part) * (max(s for _, _, s in part) + max(t for _, t, _ in part))

    best = min(
        max(padded(rows[:a]), padded(rows[a:b]), padded(rows[b:]))
        for a in range(1, len(rows) - 1)
        for b in range(a + 1, len(rows))
    )
    dealt = [[(0, lengths[i][1], lengths[i][0]) for i in batch] for batch in sampler]
    assert best <= max(map(padded, dealt)) <= best + 1


@pytest.mark.parametrize("parts", [2, 4, 8])
def test_micro_batches_are_balanced_within_five_percent(parts: int) -> None:
    """Where a micro-batch holds at least 50 sentences, so that one of them is 2 % of it."""
    source, target = corpus_lengths(20_000)
    sampler = TokenBudgetBatchSampler(source, target, tokens_per_update=25_000, micro_batches=parts)
    batches = list(sampler)
    checked = 0
    for at in range(0, len(batches), parts):
        update = batches[at : at + parts]
        if min(map(len, update)) >= 50:
            padded = [len(part) * (source[part].max() + target[part].max()) for part in update]
            assert max(padded) <= 1.05 * np.mean(padded)
            checked += 1
    assert checked > 3


def test_like_lengths_go_together() -> None:
    """Random batches of these lengths would be more than half padding."""
    source, target = corpus_lengths(50_000)
    sampler = TokenBudgetBatchSampler(source, target, tokens_per_update=4096)
    assert sampler.padding_fraction() < 0.08


def test_statistics_count_what_the_batches_hold() -> None:
    source, target = [3, 3, 5], [2, 4, 1]
    statistics = TokenBudgetBatchSampler(
        source, target, tokens_per_update=15, shuffle=False
    ).statistics()
    assert (statistics.updates, statistics.sentences) == (1, 3)
    assert (statistics.source_tokens, statistics.target_tokens) == (11, 7)
    assert statistics.padded_tokens == 3 * 5 + 3 * 4
    assert statistics.padding_fraction == pytest.approx(1 - 18 / 27)


def test_epochs_differ_and_seeds_differ_and_both_repeat() -> None:
    source, target = corpus_lengths(2000)

    def batches(seed: int, epoch: int) -> list[list[int]]:
        sampler = TokenBudgetBatchSampler(source, target, tokens_per_update=500, seed=seed)
        sampler.set_epoch(epoch)
        return list(sampler)

    assert batches(1, 0) == batches(1, 0)
    assert batches(1, 0) != batches(1, 1)
    assert batches(1, 0) != batches(2, 0)


def test_sentences_meet_others_in_another_epoch() -> None:
    """More than the order of the batches changes: hardly one comes again as it was."""
    source, target = corpus_lengths(20_000)
    sampler = TokenBudgetBatchSampler(source, target, tokens_per_update=2000)
    first = {tuple(sorted(batch)) for batch in sampler}
    sampler.set_epoch(1)
    kept = sum(tuple(sorted(batch)) in first for batch in sampler)
    assert kept < 0.1 * len(sampler)


def test_sentences_of_equal_length_are_shuffled_among_each_other() -> None:
    sampler = sampler_of([(5, 5)] * 100, 50)
    first = {tuple(sorted(batch)) for batch in sampler}
    sampler.set_epoch(1)
    assert len(first) == 10
    assert not first & {tuple(sorted(batch)) for batch in sampler}


@given(LENGTHS, st.integers(1, 200))
def test_original_order_comes_back(lengths, tokens) -> None:
    sampler = sampler_of(lengths, tokens, shuffle=False)
    in_batch_order = [f"sentence {index}" for batch in sampler for index in batch]
    expected = [f"sentence {index}" for index in range(len(lengths))]
    assert sampler.restore_order(in_batch_order) == expected


def test_original_order_needs_every_item() -> None:
    sampler = sampler_of([(1, 1), (2, 2)], 9, shuffle=False)
    with pytest.raises(InputError, match="`items` must hold one for each of 2 sentences, got 1"):
        sampler.restore_order(["only"])


def test_unshuffled_batches_are_the_same_each_epoch_and_longest_first() -> None:
    source, target = corpus_lengths(500)
    sampler = TokenBudgetBatchSampler(source, target, tokens_per_update=300, shuffle=False)
    first = list(sampler)
    sampler.set_epoch(3)
    assert list(sampler) == first
    longest = [max(source[batch] + target[batch]) for batch in first]
    assert longest == sorted(longest, reverse=True)


def test_long_sentence_is_kept_alone_and_reported_once(caplog) -> None:
    with caplog.at_level(logging.WARNING):
        sampler = TokenBudgetBatchSampler([5, 50, 5, 60], [5, 5, 5, 5], tokens_per_update=20)
        batches = list(sampler)
    assert [1] in batches
    assert [3] in batches
    (record,) = caplog.records
    assert "2 sentences are longer than `tokens_per_update`=20" in record.getMessage()
    assert "60 tokens" in record.getMessage()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens_per_update": 0}, "`tokens_per_update` must be at least 1, got 0"),
        ({"micro_batches": 0}, "`micro_batches` must be at least 1, got 0"),
        ({"seed": -1}, "`seed` must be at least 0, got -1"),
        ({"source_lengths": [1]}, "must be of equal number, got 1 and 2"),
        ({"source_lengths": []}, "`source_lengths` must be one whole number"),
        ({"target_lengths": [1.5, 2.0]}, "`target_lengths` must be one whole number"),
        ({"target_lengths": [0, 2]}, "`target_lengths` must be at least 1"),
    ],
)
def test_wrong_argument_is_named(options: dict[str, Any], message: str) -> None:
    arguments = {"source_lengths": [1, 2], "target_lengths": [2, 1], "tokens_per_update": 8}
    with pytest.raises(InputError, match=message):
        TokenBudgetBatchSampler(**(arguments | options))


@pytest.mark.parametrize(("world", "accumulation"), [(1, 1), (2, 1), (2, 3), (3, 2)])
def test_accelerate_deals_each_process_its_part_of_every_update(world, accumulation) -> None:
    source, target = corpus_lengths(300)
    parts = world * accumulation

    def make() -> TokenBudgetBatchSampler:
        return TokenBudgetBatchSampler(source, target, tokens_per_update=150, micro_batches=parts)

    shards = [list(BatchSamplerShard(make(), world, rank)) for rank in range(world)]
    assert {len(shard) for shard in shards} == {len(make()) // world}
    for number, update in enumerate(grouped(list(make()), parts)):
        at = number * accumulation
        held = [batch for shard in shards for batch in shard[at : at + accumulation]]
        assert sorted(chain(*held)) == update


def test_accelerate_passes_the_epoch_on_to_a_wrapped_sampler() -> None:
    sampler = TokenBudgetBatchSampler([1, 2, 3], [3, 2, 1], tokens_per_update=4, micro_batches=2)
    shard = BatchSamplerShard(sampler, num_processes=2, process_index=1)
    DataLoaderShard(list(range(3)), batch_sampler=shard).set_epoch(5)
    assert sampler.epoch == 5


def test_collator_pads_each_side_in_its_own_way() -> None:
    collate = TranslationCollator(pad_token_id=7)
    batch = collate(
        [
            {"input_ids": [4, 5, 2], "labels": [6, 2], "length": 3},
            {"input_ids": [4, 2], "labels": [7, 6, 9, 2], "length": 2},
        ]
    )
    assert list(batch) == ["input_ids", "attention_mask", "labels"]
    assert batch["input_ids"].tolist() == [[4, 5, 2], [4, 2, 7]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch["labels"].tolist() == [[6, 2, -100, -100], [7, 6, 9, 2]]
    assert {tensor.dtype for tensor in batch.values()} == {torch.int64}


def test_collator_masks_by_length_and_not_by_id() -> None:
    batch = TranslationCollator(pad_token_id=0)([{"input_ids": [0, 5], "labels": [2]}])
    assert batch["attention_mask"].tolist() == [[1, 1]]


@pytest.mark.parametrize("pad_token_id", [0, 1, 9])
def test_collator_makes_an_empty_batch_one_row_without_labels(pad_token_id: int) -> None:
    batch = TranslationCollator(pad_token_id)([])
    assert batch["input_ids"].shape == (1, 1)
    assert batch["input_ids"].item() != pad_token_id
    assert batch["attention_mask"].tolist() == [[1]]
    assert batch["labels"].tolist() == [[-100]]


def test_collator_rounds_lengths_up() -> None:
    features = [{"input_ids": [3] * 9, "labels": [3] * 8}]
    batch = TranslationCollator(0, pad_to_multiple_of=8)(features)
    assert batch["input_ids"].shape == (1, 16)
    assert batch["attention_mask"].sum() == 9
    assert batch["labels"].shape == (1, 8)
    assert TranslationCollator(0, pad_to_multiple_of=8)([])["labels"].shape == (1, 8)
    with pytest.raises(InputError, match="`pad_to_multiple_of` must be at least 1, got 0"):
        TranslationCollator(0, pad_to_multiple_of=0)


def test_collator_without_labels_gives_none() -> None:
    assert "labels" not in TranslationCollator(0)([{"input_ids": [3, 2]}])


def test_loader_over_a_dataset_survives_empty_micro_batches() -> None:
    """datasets answers an empty list of indices; the collator makes the row of it."""
    rows = [{"input_ids": [3] * n, "labels": [4] * n} for n in (1, 2, 3)]
    sampler = TokenBudgetBatchSampler([1, 2, 3], [1, 2, 3], tokens_per_update=99, micro_batches=5)
    loader = DataLoader(
        datasets.Dataset.from_list(rows),
        batch_sampler=sampler,
        collate_fn=TranslationCollator(0),
    )
    real = [int((batch["labels"] != -100).sum()) for batch in loader]
    assert sorted(real) == [0, 0, 1, 2, 3]
