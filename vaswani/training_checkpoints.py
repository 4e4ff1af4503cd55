"""How many checkpoints a run will write, and whether its average has as many as it asks for.

planned_updates        the length of a run
planned_checkpoints    what it will write
missing_checkpoints    a sentence where an average asks for more
"""

import math

from vaswani.training_arguments import EVALUATIONS_OF_A_TIMED_RUN, VaswaniTrainingArguments
from vaswani.training_limits import NEVER
from vaswani.wording import counted


def planned_updates(args: VaswaniTrainingArguments, updates_of_pass: int | None) -> int | None:
    """Updates of the whole run; `None` if a clock alone ends it.

    Args:
        updates_of_pass: updates of one pass over the training data; `None` if they are a stream.
    """
    if 0 < args.max_steps < NEVER:
        return args.max_steps
    epochs = args.num_train_epochs
    if epochs is not None and epochs < NEVER and updates_of_pass is not None:
        return round(epochs * updates_of_pass)
    return None


def planned_checkpoints(args: VaswaniTrainingArguments, updates_of_pass: int | None) -> int | None:
    """How many checkpoints a run that nothing ends early writes, the one at its end included.

    Returns:
        0 if none are written, `None` if it is not known before.
    """
    saves = str(getattr(args.save_strategy, "value", args.save_strategy))
    if saves == "no":
        return 0
    if saves == "steps" and args.save_steps is not None and args.save_steps >= NEVER:
        return EVALUATIONS_OF_A_TIMED_RUN
    updates = planned_updates(args, updates_of_pass)
    if updates is None or args.save_steps is None or saves not in ("steps", "epoch"):
        return None
    every = updates_of_pass if saves == "epoch" else args.save_steps
    if every is None:
        return None
    if every < 1:
        # A share of all updates in transformers.
        every = math.ceil(every * updates)
    return math.ceil(updates / every)


def missing_checkpoints(args: VaswaniTrainingArguments, updates_of_pass: int | None) -> str:
    """Says in a sentence that the average will be of fewer checkpoints; "" if it will not."""
    planned = planned_checkpoints(args, updates_of_pass)
    if not args.average_last or planned is None or planned >= args.average_last:
        return ""
    by_time = args.save_steps is not None and args.save_steps >= NEVER
    written = f"{'about ' if by_time else ''}{counted(planned, 'checkpoint')}"
    return (
        f"`average_last` is {args.average_last:,}, but the run will write {written}: the average "
        "is of those. Lower `--save-steps` for more."
    )
