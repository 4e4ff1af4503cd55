"""Draws the vectors that are added to the embeddings to tell positions, as a heatmap."""

from dataclasses import dataclass, field
from typing import Any, Literal

from vaswani.cli._model import check_writable
from vaswani.errors import InputError


@dataclass
class PositionsArguments:
    """What to draw."""

    _argument_group_name = "what to draw"

    output: str = field(metadata={"metavar": "FILE", "help": "picture to write: .png or .svg"})
    preset: str | None = field(
        default=None, metadata={"metavar": "NAME", "help": "a preset, see `vaswani presets`"}
    )
    model: str | None = field(
        default=None, metadata={"metavar": "FOLDER", "help": "a model folder, in place of a preset"}
    )
    part: Literal["encoder", "decoder"] = field(
        default="encoder", metadata={"help": "whose positions; they differ where they are learned"}
    )
    positions: int = field(default=100, metadata={"help": "how many, from 0"})

    def __post_init__(self) -> None:
        if (self.model is None) == (self.preset is None):
            given = "both" if self.model else "neither"
            raise InputError(f"either `--preset` or `--model` must be given, got {given}.")


ARGUMENTS = (PositionsArguments,)
EXAMPLES = """
vaswani plot positions --preset base --output positions.png
vaswani plot positions --model runs/en-de --part decoder --positions 60 --output positions.svg
"""


def run(what: PositionsArguments) -> int:
    """Writes the picture and prints its path; see `--help`."""
    from vaswani.plotting import check_picture, position_table, positions_figure, save_figure

    check_writable(check_picture(what.output))
    stack = _stack_of_preset(what.preset) if what.preset else _stack_of_folder(what)
    config = stack.config
    title = f"{config.position_encoding.capitalize()} positions, d_model {config.d_model}"
    figure = positions_figure(position_table(stack, what.positions), title=title)
    print(save_figure(figure, what.output))
    return 0


def _stack_of_preset(name: str) -> Any:
    from vaswani.configuration_vaswani import VaswaniConfig, presets
    from vaswani.modeling_vaswani import VaswaniEncoder

    if name not in presets():
        raise InputError(f"`preset` must be one of {', '.join(presets())}, got {name!r}.")
    # Positions do not depend on what is left small here.
    config = VaswaniConfig.from_preset(name, encoder_layers=1, vocab_size=8)
    if config.position_encoding == "learned":
        raise InputError(
            f"`preset` must have positions that are not learned, got {name!r}. "
            "Name a trained model with `--model`."
        )
    return VaswaniEncoder(config)


def _stack_of_folder(what: PositionsArguments) -> Any:
    from vaswani.model_folder import open_model

    assert what.model  # PositionsArguments has seen to it
    model, _ = open_model(what.model)
    return model.model.encoder if what.part == "encoder" else model.model.decoder
