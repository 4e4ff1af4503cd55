"""Puts sentences of like length together in batches that hold a fixed budget of tokens.

The unit is the update: the sentences that one optimizer step learns from, at most N source and N
target tokens with padding counted. It is formed first, from lengths, seed and epoch alone, and only
then dealt into micro-batches, so that what an update holds never depends on how many processes or
steps of gradient accumulation share it.

    TokenBudgetBatchSampler    lengths -> lists of indices
    BatchStatistics            what an epoch of such batches holds
    TranslationCollator        one list of encoded pairs -> padded tensors

Source: Section 5.1, "sentence pairs were batched together by approximate sequence length".

How an update is formed (sort-tile packing): sentences sorted by the length of one side are cut into
stripes of equal token mass, each stripe is sorted by the length of the other side in alternating
direction, and the whole is cut wherever the budget is full. Which side comes first, where the first
stripe ends, which way it runs and the order of equal sentences are drawn for each epoch, so that
neighbors change from epoch to epoch at no cost in padding.

Shapes: B sentences, S source tokens, T target tokens.
"""

import heapq
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.data import Sampler

from vaswani.epoch_rows import EpochRows
from vaswani.errors import InputError

Item = TypeVar("Item")
Indices = NDArray[np.int64]

# Stripes per square root of the number of updates: fewer pad the target, more pad the source.
_STRIPE_DENSITY = 2.5
# Room for layouts that need more updates than the plain one, as a share of the updates.
_SPARE_UPDATES = 0.01
_LAYOUTS_TRIED = 8
# The largest micro-batch may exceed the smallest possible one by this share.
_BALANCE_TOLERANCE = 0.005

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class BatchStatistics:
    """What one epoch of batches holds, with padding as in the micro-batches handed out.

    Args:
        updates: optimizer updates.
        sentences: sentence pairs.
        source_tokens: source tokens without padding.
        target_tokens: target tokens without padding.
        padded_tokens: tokens of both sides with padding.
    """

    updates: int
    sentences: int
    source_tokens: int
    target_tokens: int
    padded_tokens: int

    @property
    def padding_fraction(self) -> float:
        """Share of all places in the batches that padding takes, in [0, 1)."""
        return 1.0 - (self.source_tokens + self.target_tokens) / self.padded_tokens

    def __str__(self) -> str:
        return (
            f"{self.sentences:,} pairs in {self.updates:,} updates of "
            f"{self.source_tokens / self.updates:,.0f} source and "
            f"{self.target_tokens / self.updates:,.0f} target tokens, "
            f"{self.padding_fraction:.1%} padding"
        )


class TokenBudgetBatchSampler(Sampler[list[int]]):
    """Lists of indices, `micro_batches` of them for each update, whole updates only.

    Micro-batch j of an update goes to process j modulo the number of processes, as accelerate
    deals them. There is no attribute `batch_size`: accelerate would take the batches apart by it.

    Args:
        source_lengths: tokens of each source, the end token included.
        target_lengths: tokens of each target, likewise.
        tokens_per_update: most tokens that an update may hold on each side, padding counted,
            inclusive. A longer sentence makes an update of its own.
        micro_batches: lists per update: processes times steps of gradient accumulation. An update
            of fewer sentences gives empty lists.
        seed: what all epochs are drawn from; the same on every process.
        shuffle: `False` gives every epoch the same batches, the longest sentences first.
        corpora: sentences and weight of each corpus, in order; `None` is one of weight 1. With
            weight w each of its sentences comes w times in an epoch on average (`epoch_rows`).
    """

    def __init__(
        self,
        source_lengths: ArrayLike,
        target_lengths: ArrayLike,
        *,
        tokens_per_update: int,
        micro_batches: int = 1,
        seed: int = 0,
        shuffle: bool = True,
        corpora: Sequence[tuple[int, float]] | None = None,
    ) -> None:
        self.source_lengths = _checked_lengths("source_lengths", source_lengths)
        self.target_lengths = _checked_lengths("target_lengths", target_lengths)
        if len(self.source_lengths) != len(self.target_lengths):
            raise InputError(
                "`source_lengths` and `target_lengths` must be of equal number, "
                f"got {len(self.source_lengths)} and {len(self.target_lengths)}."
            )
        for name, value, least in (
            ("tokens_per_update", tokens_per_update, 1),
            ("micro_batches", micro_batches, 1),
            ("seed", seed, 0),
        ):
            if value < least:
                raise InputError(f"`{name}` must be at least {least}, got {value}.")
        self.tokens_per_update = tokens_per_update
        self.micro_batches = micro_batches
        self.seed = seed
        self.shuffle = shuffle
        self.epoch = 0
        self._plan: tuple[int, list[Indices]] | None = None
        self._warn_of_long_sentences()
        sizes = [(len(self.source_lengths), 1.0)] if corpora is None else corpora
        self._rows = EpochRows(sizes, self.source_lengths, self.target_lengths)
        fixed = self._rows.fixed()
        if not len(fixed):
            raise InputError(
                "`data_weights` must give an epoch at least one sentence, got "
                f"{', '.join(f'{weight:g}' for _, weight in sizes)}."
            )
        plain = self._layout(fixed)
        spare = round(_SPARE_UPDATES * len(plain) + 0.3) if shuffle else 0
        self.updates_per_epoch = min(len(plain) + spare, len(fixed))

    @property
    def sampler(self) -> "TokenBudgetBatchSampler":
        """Itself: accelerate looks here for `set_epoch` once it has wrapped the sampler."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch that the next iteration goes through."""
        self.epoch = int(epoch)

    def __len__(self) -> int:
        return self.updates_per_epoch * self.micro_batches

    def __iter__(self) -> Iterator[list[int]]:
        for number, update in enumerate(self.updates()):
            parts = self._deal(update)
            # Dealt in turn, so that no process gets the short sentences of every update.
            turn = number % self.micro_batches
            for part in parts[turn:] + parts[:turn]:
                yield part.tolist()

    def updates(self) -> list[Indices]:
        """The indices of each update of this epoch, whatever `micro_batches` is."""
        epoch = self.epoch if self.shuffle else 0
        if self._plan is None or self._plan[0] != epoch:
            self._plan = (epoch, self._shuffled_plan(epoch) if self.shuffle else self._fixed_plan())
        return self._plan[1]

    def restore_order(self, items: Sequence[Item]) -> list[Item]:
        """Items that came in the order of this epoch's batches, put into that of the data."""
        order = [index for batch in self for index in batch]
        if len(items) != len(order):
            raise InputError(
                f"`items` must hold one for each of {len(order)} sentences, got {len(items)}."
            )
        restored = list(items)
        for index, item in zip(order, items, strict=True):
            restored[index] = item
        return restored

    def statistics(self) -> BatchStatistics:
        """What this epoch's batches hold."""
        padded = sentences = source_tokens = target_tokens = 0
        for update in self.updates():
            sentences += len(update)
            source_tokens += int(self.source_lengths[update].sum())
            target_tokens += int(self.target_lengths[update].sum())
            for part in self._deal(update):
                if len(part):
                    longest = self.source_lengths[part].max() + self.target_lengths[part].max()
                    padded += len(part) * int(longest)
        return BatchStatistics(
            updates=self.updates_per_epoch,
            sentences=sentences,
            source_tokens=source_tokens,
            target_tokens=target_tokens,
            padded_tokens=padded,
        )

    def padding_fraction(self) -> float:
        """Share of all places in this epoch's batches that padding takes, in [0, 1)."""
        return self.statistics().padding_fraction

    def _warn_of_long_sentences(self) -> None:
        longest = np.maximum(self.source_lengths, self.target_lengths)
        count = int((longest > self.tokens_per_update).sum())
        if count:
            logger.warning(
                "%s longer than `tokens_per_update`=%d (the longest has %d tokens): an update of "
                "its own for each. Raise it, or leave such sentences out.",
                "1 sentence is" if count == 1 else f"{count} sentences are",
                self.tokens_per_update,
                longest.max(),
            )

    def _shuffled_plan(self, epoch: int) -> list[Indices]:
        """The updates of an epoch in random order, always `updates_per_epoch` of them."""
        random = np.random.default_rng([self.seed, epoch])
        shuffled = self._rows.draw(random)
        if len(shuffled) < self.updates_per_epoch:
            # Of a few sentences a fraction may be none at all; no update can be empty.
            shuffled = random.permutation(self._rows.fixed())
        for _ in range(_LAYOUTS_TRIED):
            flip, swap = random.random(2) < 0.5
            plan = self._layout(shuffled, phase=random.random(), flip=flip, swap=swap)
            if len(plan) <= self.updates_per_epoch:
                break
        else:
            # The plain layout depends on the lengths alone, so it always fits: with weights, that
            # of the rows that the number of updates was settled with.
            plan = self._layout(random.permutation(self._rows.fixed()))
        # What is short of the constant length comes from halving the fullest updates.
        fullest = [(-len(update), number) for number, update in enumerate(plan)]
        heapq.heapify(fullest)
        while len(plan) < self.updates_per_epoch:
            _, number = fullest[0]
            half = len(plan[number]) // 2
            plan.append(plan[number][half:])
            plan[number] = plan[number][:half]
            heapq.heapreplace(fullest, (-half, number))
            heapq.heappush(fullest, (-len(plan[-1]), len(plan) - 1))
        return [plan[number] for number in random.permutation(len(plan))]

    def _fixed_plan(self) -> list[Indices]:
        plan = self._layout(self._rows.fixed())
        total = self.source_lengths + self.target_lengths
        return sorted(plan, key=lambda update: int(total[update].max()), reverse=True)

    def _layout(
        self, indices: Indices, *, phase: float = 0.0, flip: bool = False, swap: bool = False
    ) -> list[Indices]:
        """Updates in the order of their lengths; equal sentences stay in the order of `indices`.

        The number of updates depends on the lengths and the three options, not on that order.
        """
        sides = (self.source_lengths, self.target_lengths)
        first, second = reversed(sides) if swap else sides
        indices = indices[np.lexsort((second[indices], first[indices]))]
        first, second = first[indices], second[indices]
        mass = np.cumsum(np.maximum(first, second))
        stripes = max(1, round(_STRIPE_DENSITY * (mass[-1] / self.tokens_per_update) ** 0.5))
        stripe = (mass * (stripes / mass[-1]) + phase).astype(np.int64)
        # The snake: where one stripe ends with long sentences the next begins with them.
        direction = np.where((stripe + flip) % 2, -1, 1)
        return self._cut(indices[np.lexsort((first, direction * second, stripe))])

    def _cut(self, order: Indices) -> list[Indices]:
        """Cuts an order of sentences wherever the next one would exceed the budget."""
        longest = np.maximum(self.source_lengths[order], self.target_lengths[order])
        budget = self.tokens_per_update
        updates = []
        start = 0
        while start < len(order):
            # No more than these can fit, as each row is at least as long as the first.
            window = longest[start : start + max(1, budget // longest[start])]
            cost = np.maximum.accumulate(window) * np.arange(1, len(window) + 1)
            rows = max(1, int(np.searchsorted(cost, budget, side="right")))
            updates.append(order[start : start + rows])
            start += rows
        return updates

    def _deal(self, update: Indices) -> list[Indices]:
        """Cuts an update into `micro_batches` parts of like length and near equal padded tokens."""
        parts = self.micro_batches
        if parts == 1:
            return [update]
        source, target = self.source_lengths[update], self.target_lengths[update]
        order = np.lexsort((target, source + target))
        update, source, target = update[order], source[order], target[order]
        if len(update) <= parts:
            return [update[number : number + 1] for number in range(parts)]
        # The smallest largest part, by bisection: `low` is too small, `high` is enough.
        low = max(int((source + target).max()), int((source + target).sum()) // parts) - 1
        high = low + 1
        while (ends := _part_ends(source, target, parts, high)) is None:
            low, high = high, high + high // 8 + 1
        while high - low > max(1, _BALANCE_TOLERANCE * high):
            middle = (low + high) // 2
            tried = _part_ends(source, target, parts, middle)
            if tried is None:
                low = middle
            else:
                high, ends = middle, tried
        return np.split(update, ends[:-1])


def _part_ends(source: Indices, target: Indices, parts: int, most: int) -> list[int] | None:
    """Where to cut for `parts` parts of at most `most` padded tokens; `None` if none will do."""
    ends: list[int] = []
    start = 0
    for number in range(parts):
        # Every later part needs a row; more rows than `most` over the shortest cannot fit.
        room = min(
            len(source) - (parts - number - 1), start + most // (source[start] + target[start])
        )
        longest = np.maximum.accumulate(source[start:room]) + np.maximum.accumulate(
            target[start:room]
        )
        cost = longest * np.arange(1, len(longest) + 1)
        rows = int(np.searchsorted(cost, most, side="right"))
        if rows == 0:
            return None
        start += rows
        ends.append(start)
    return ends if start == len(source) else None


def _checked_lengths(name: str, lengths: ArrayLike) -> Indices:
    checked = np.asarray(lengths)
    if checked.ndim != 1 or not len(checked) or not np.issubdtype(checked.dtype, np.integer):
        raise InputError(
            f"`{name}` must be one whole number for each sentence, "
            f"got shape {checked.shape} of {checked.dtype}."
        )
    if checked.min() < 1:
        raise InputError(f"`{name}` must be at least 1 (the end token), got {checked.min()}.")
    # Half the memory of what numpy would take; sums are in 64 bits all the same.
    return checked.astype(np.int32, copy=False)


@dataclass
class TranslationCollator:
    """Pads encoded pairs to one batch, with the keys that the model's `forward` takes.

    An empty list, which stands for a micro-batch without sentences, becomes one row that has a
    token to attend to and no label: its loss is 0.

    Args:
        pad_token_id: the padding id of the source side. Labels are padded with -100.
        pad_to_multiple_of: tokens; lengths are rounded up to a multiple. `None` rounds nothing.
    """

    pad_token_id: int
    pad_to_multiple_of: int | None = None

    def __post_init__(self) -> None:
        if self.pad_to_multiple_of is not None and self.pad_to_multiple_of < 1:
            raise InputError(
                f"`pad_to_multiple_of` must be at least 1, got {self.pad_to_multiple_of}."
            )

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """The batch as tensors.

        Args:
            features: encoded pairs with `input_ids` and, for training, `labels`; other keys are
                left out.

        Returns:
            `input_ids` `(B, S)`, int64; `attention_mask` `(B, S)`, int64, 1 where a token is real;
            `labels` `(B, T)`, int64, -100 where there is none, if the features have labels.
        """
        if not features:
            features = [{"input_ids": [int(self.pad_token_id == 0)], "labels": [-100]}]
        sources = [feature["input_ids"] for feature in features]
        input_ids = self._padded(sources, self.pad_token_id)
        lengths = torch.tensor([len(row) for row in sources])
        mask = torch.arange(input_ids.size(1)) < lengths.unsqueeze(1)
        batch = {"input_ids": input_ids, "attention_mask": mask.to(torch.int64)}
        if "labels" in features[0]:
            batch["labels"] = self._padded([feature["labels"] for feature in features], -100)
        return batch

    def _padded(self, rows: Sequence[Sequence[int]], value: int) -> Tensor:
        step = self.pad_to_multiple_of or 1
        width = -(-max(map(len, rows)) // step) * step
        padded = np.full((len(rows), width), value, dtype=np.int64)
        for number, row in enumerate(rows):
            padded[number, : len(row)] = row
        return torch.from_numpy(padded)
