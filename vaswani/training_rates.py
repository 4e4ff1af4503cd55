"""The learning rate of a run: settled where it goes on from a model, and told in a sentence.

fill_unset         settings that were left open: the preset's, or a trained model's
settle_going_on    warm-up and height for a model that has learnt already
rate_plan          how far the rate rises, and what it does then
"""

import math
from typing import Any

from vaswani.optimization import inverse_sqrt_rate
from vaswani.preset_settings import PRESET_SETTINGS
from vaswani.training_arguments import VaswaniTrainingArguments
from vaswani.training_checkpoints import planned_updates
from vaswani.training_limits import NEVER
from vaswani.wording import counted

_WARMUP_SHARE = 0.1


def fill_unset(
    args: VaswaniTrainingArguments,
    model: Any = None,
    preset: str | None = None,
    updates_of_pass: int | None = None,
) -> None:
    """Settles what was left open: as in training the preset, or as suits going on from a model.

    Args:
        args: the settings of the run.
        model: the one to go on from; the preset is then the one whose updates suit its size.
        preset: of a new model; `None` means the base model.
        updates_of_pass: of one pass over the training data, once they are known.
    """
    if model is not None:
        preset = "small" if model.config.d_model <= 256 else "base"
    args.fill_unset(preset or "base")
    if model is not None:
        settle_going_on(args, preset or "base", planned_updates(args, updates_of_pass))


def settle_going_on(args: VaswaniTrainingArguments, preset: str, updates: int | None) -> None:
    """Gives warm-up and rate, as far as they were left unset, what suits a trained model.

    The warm-up is a tenth of the planned updates and at most the preset's; a tenth of the preset's
    where a clock alone ends the run. The factor is such that the rate rises as high as it does in
    training that preset anew, however long the warm-up is: by the paper's formula alone a shorter
    one would rise higher.

    Args:
        args: the settings of the run.
        preset: the one whose training is the measure.
        updates: planned for the run; `None` if nobody knows.
    """
    own = PRESET_SETTINGS[preset]
    if "warmup_steps" in args.unset:
        share = _WARMUP_SHARE * (own.warmup_steps if updates is None else updates)
        args.warmup_steps = min(own.warmup_steps, max(1, round(share)))
    if "learning_rate_factor" in args.unset:
        warmup = max(1, args.get_warmup_steps(updates or NEVER))
        args.learning_rate_factor = own.learning_rate_factor * math.sqrt(warmup / own.warmup_steps)


def rate_plan(args: VaswaniTrainingArguments, d_model: int, updates: int | None) -> str:
    """The learning rate of a run in a sentence.

    Args:
        args: the settings of the run.
        d_model: width of the model, in features.
        updates: planned for the run; `None` if nobody knows.
    """
    warmup = args.get_warmup_steps(updates or NEVER)
    if not args.paper_schedule:
        kind = getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type)
        # The constant schedule of transformers has no warm-up.
        ramp = f", warm-up of {counted(warmup, 'update')}" if warmup and kind != "constant" else ""
        return f"Learning rate: {args.learning_rate:.3g} at most, schedule {kind}{ramp}."
    factor = args.learning_rate_factor
    assert factor is not None

    def rate(update: int) -> str:
        of_update = inverse_sqrt_rate(
            update - 1,
            d_model=d_model,
            warmup_updates=warmup,
            factor=factor,
        )
        return f"{of_update:.3g}"

    peak = max(1, warmup)
    if updates is not None and updates < peak:
        return (
            f"Learning rate: rises to {rate(updates)} until the run ends, before the warm-up of "
            f"{warmup:,} updates does. `--warmup-steps` shortens it."
        )
    rises = f"rises until update {warmup:,} to" if warmup > 1 else "begins at"
    falls = "then falls with the inverse square root of the updates"
    last = f", to {rate(updates)} at the last" if updates is not None and updates > peak else ""
    return f"Learning rate: {rises} {rate(peak)}, {falls}{last}."
