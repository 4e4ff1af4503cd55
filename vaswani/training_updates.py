"""The updates of a run: from its pairs and settings to batches.

update_sampler     the updates of pairs that are all there
updates_of_pass    how many there are in a pass
micro_batches      parts that each update is dealt into
updates_seed       what their order is drawn from
"""

from typing import Any

from vaswani.batching import TokenBudgetBatchSampler
from vaswani.training_arguments import VaswaniTrainingArguments
from vaswani.training_data import TokenizedPairs


def update_sampler(
    train: TokenizedPairs, args: VaswaniTrainingArguments
) -> TokenBudgetBatchSampler:
    """The sampler of the updates that a run learns from.

    Args:
        train: the training pairs, with the weights of their corpora.
        args: the settings of the run.
    """
    return TokenBudgetBatchSampler(
        **args.update_size(train.source_lengths, train.target_lengths),
        micro_batches=micro_batches(args),
        seed=updates_seed(args),
        corpora=train.weights,
    )


def updates_of_pass(train: Any, args: VaswaniTrainingArguments) -> int | None:
    """Updates of one pass over the training pairs; `None` if they are a stream."""
    if not isinstance(train, TokenizedPairs):
        return None
    return update_sampler(train, args).updates_per_epoch


def micro_batches(args: VaswaniTrainingArguments) -> int:
    """Parts of an update: processes times steps of accumulation."""
    return args.world_size * args.gradient_accumulation_steps


def updates_seed(args: VaswaniTrainingArguments) -> int:
    """The seed of the order of the data."""
    return args.data_seed if args.data_seed is not None else args.seed
