"""Averages the weights of several checkpoints of a run into one model folder."""

import sys
from dataclasses import dataclass, field

from vaswani.errors import InputError

# Section 6.1: base models average 5 checkpoints, big ones 20.
_PAPER_COUNT = 5


@dataclass
class AverageArguments:
    """Which checkpoints, and where the model goes."""

    _argument_group_name = "checkpoints"

    output: str = field(
        metadata={
            "metavar": "FOLDER",
            "help": "folder that becomes the averaged model",
            "aliases": ["--output-dir"],
        }
    )
    run: str | None = field(
        default=None,
        metadata={"metavar": "FOLDER", "help": "folder of a run: average its last checkpoints"},
    )
    last: int | None = field(
        default=None,
        metadata={
            "help": "how many of the run's last checkpoints (the paper: base 5, big 20; default: 5)"
        },
    )
    checkpoints: list[str] = field(
        default_factory=list,
        metadata={"metavar": "FOLDER", "help": "average these, in any order, instead of --run"},
    )
    overwrite: bool = field(
        default=False, metadata={"help": "replace an earlier average in the output folder"}
    )

    def __post_init__(self) -> None:
        if (self.run is None) == (not self.checkpoints):
            given = "both" if self.run else "neither"
            raise InputError(f"either `--run` or `--checkpoints` must be given, got {given}.")
        if self.checkpoints and self.last is not None:
            raise InputError(
                f"`--last` must be left out with `--checkpoints`, got {self.last}. "
                "All that are named are averaged."
            )
        if self.last is not None and self.last < 1:
            raise InputError(f"`--last` must be at least 1, got {self.last}.")


ARGUMENTS: tuple[type, ...] = (AverageArguments,)
EXAMPLES = """
vaswani average --run runs/base --last 5 --output runs/base-average
vaswani average --checkpoints runs/a/checkpoint-900 runs/a/checkpoint-1000 --output runs/a-average
"""


def run(arguments: AverageArguments) -> int:
    """Writes the averaged model; its path goes to stdout, what was averaged to stderr."""
    from vaswani.checkpoints import average_checkpoints, last_checkpoints

    folders: list = arguments.checkpoints
    if arguments.run is not None:
        folders = last_checkpoints(arguments.run, arguments.last or _PAPER_COUNT)
    output = average_checkpoints(folders, arguments.output, overwrite=arguments.overwrite)
    print(f"Averaged {', '.join(map(str, folders))}.", file=sys.stderr)
    print(output)
    return 0
