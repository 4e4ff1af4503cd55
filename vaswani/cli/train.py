"""Trains a model on parallel text, or goes on from one, and leaves a complete model folder."""

import sys

from vaswani.data_arguments import DataArguments
from vaswani.run_settings import ModelArguments
from vaswani.training_arguments import VaswaniTrainingArguments

TAKES_RECIPE = True
ARGUMENTS: tuple[type, ...] = (ModelArguments, DataArguments, VaswaniTrainingArguments)
EXAMPLES = """
vaswani train --data a.tsv.gz --source en --target de --preset small --max-minutes 60 --output a
vaswani train --data a.en,a.de b.tsv --validation-data c.tsv --source en --target de --output base
vaswani train --data more.tsv --source en --target de --model a --max-steps 500 --output more
vaswani train --config a/settings.yaml --seed 2 --output second --dry-run
vaswani train --recipe base-wmt14-en-de --dry-run
vaswani train --recipe base-wmt14-en-de --preset table3-b-dk16 --average-last 0 --output dk16
"""


def run(
    model_arguments: ModelArguments,
    data_arguments: DataArguments,
    training_arguments: VaswaniTrainingArguments,
) -> int:
    """Runs the training; the folder's path or the plan goes to stdout, what happens to stderr."""
    from vaswani.training_run import TrainingInterrupted, run_training

    try:
        folder = run_training(model_arguments, data_arguments, training_arguments)
    except TrainingInterrupted as interrupted:
        print(interrupted.folder)
        return 130
    if training_arguments.process_index == 0 and not training_arguments.dry_run:
        print(folder)
    sys.stdout.flush()
    return 0
