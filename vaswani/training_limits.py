"""Which numbers the settings of a training run may have, checked before anything is read.

check_numbers          each by itself
check_best_is_saved    evaluations and checkpoints beside each other
"""

import math
from typing import Any

from vaswani.errors import InputError

# Stands for "no limit" where transformers wants a number; what counts tokens or updates ends here.
NEVER = 1_000_000_000
_POSITIVE = (
    "learning_rate_factor",
    "max_minutes",
    "num_train_epochs",
    "eval_steps",
    "save_steps",
    "logging_steps",
    "adam_epsilon",
)
# `warmup_steps` below 1 is a share of all updates in transformers; 0 is no warm-up.
_LEAST = {
    "tokens_per_update": 1,
    "sentences_per_update": 1,
    "warmup_steps": 0,
    "eval_sentences": 0,
    "early_stopping_patience": 1,
    "threads": 1,
    "gradient_accumulation_steps": 1,
    "seed": 0,
    "save_total_limit": 0,
    "learning_rate": 0,
    "weight_decay": 0,
    "max_grad_norm": 0,
}
# Numpy's generator takes no larger seed; the others must fit into a table of updates.
_MOST = {"seed": 2**32 - 1, "tokens_per_update": NEVER, "sentences_per_update": NEVER}


def check_numbers(args: Any) -> None:
    """Raises InputError for the first number of `VaswaniTrainingArguments` that is out of range."""
    for name, minimum in _LEAST.items():
        value = getattr(args, name)
        if value is not None and not value >= minimum:
            raise InputError(f"`{name}` must be at least {minimum}, got {value}.")
    for name in _POSITIVE:
        value = getattr(args, name)
        if value is not None and not 0 < value < math.inf:
            rule = "finite" if value == math.inf else "above 0"
            raise InputError(f"`{name}` must be {rule}, got {value}.")
    for name, maximum in _MOST.items():
        value = getattr(args, name)
        if value is not None and value > maximum:
            raise InputError(f"`{name}` must be at most {maximum}, got {value}.")
    for name in ("adam_beta1", "adam_beta2"):
        value = getattr(args, name)
        if not 0 <= value < 1:
            raise InputError(f"`{name}` must be at least 0 and below 1, got {value}.")
    if args.max_steps < 1 and args.max_steps != -1:
        raise InputError(f"`max_steps` must be at least 1, got {args.max_steps}.")


def check_best_is_saved(args: Any) -> None:
    """Raises InputError if the best of all evaluations might be of no checkpoint."""
    if not args.load_best_model_at_end or str(args.eval_strategy) != "steps":
        return
    every, evaluated = args.save_steps, args.eval_steps
    # transformers compares shares of a run by itself.
    if str(args.save_strategy) != "steps" or min(every, evaluated) < 1 or not every % evaluated:
        return
    got = f"{every:g} and " + (f"{evaluated:g}" if evaluated < NEVER else "evaluations by time")
    raise InputError(
        "`save_steps` must be a multiple of `eval_steps`, since the best checkpoint becomes the "
        f"model, got {got}. Set `eval_steps` too, or leave `save_steps` out."
    )
