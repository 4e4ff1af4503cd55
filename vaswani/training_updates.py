"""The updates of a run: from its pairs and settings to batches.

update_sampler     the updates of pairs that are all there
micro_batches      parts that each update is dealt into
updates_seed       what their order is drawn from
"""

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


def micro_batches(args: VaswaniTrainingArguments) -> int:
    """Parts of an update: processes times steps of accumulation."""
    return args.world_size * args.gradient_accumulation_steps


def updates_seed(args: VaswaniTrainingArguments) -> int:
    """The seed of the order of the data."""
    return args.data_seed if args.data_seed is not None else args.seed
