"""Draws the learning rate of the paper over the updates, a curve for every d_model and warm-up."""

from dataclasses import dataclass, field

from vaswani.cli._model import check_writable


@dataclass
class ScheduleArguments:
    """What to draw."""

    _argument_group_name = "what to draw"

    output: str = field(metadata={"metavar": "FILE", "help": "picture to write: .png or .svg"})
    d_model: list[int] = field(
        default_factory=lambda: [512], metadata={"help": "model widths, in features"}
    )
    warmup_steps: list[int] = field(
        default_factory=lambda: [4000], metadata={"help": "updates of rising learning rate"}
    )
    learning_rate_factor: float = field(
        default=1.0, metadata={"help": "multiplies the rate of the paper"}
    )
    updates: int = field(default=20_000, metadata={"help": "last update drawn"})


ARGUMENTS = (ScheduleArguments,)
EXAMPLES = """
vaswani plot schedule --output schedule.png
vaswani plot schedule --d-model 512 1024 --warmup-steps 4000 8000 --updates 40000 --output a.svg
"""


def run(what: ScheduleArguments) -> int:
    """Writes the picture and prints its path; see `--help`."""
    from vaswani.plotting import check_picture, save_figure, schedule_figure

    check_writable(check_picture(what.output))
    figure = schedule_figure(
        d_models=what.d_model,
        warmups=what.warmup_steps,
        updates=what.updates,
        factor=what.learning_rate_factor,
    )
    print(save_figure(figure, what.output))
    return 0
