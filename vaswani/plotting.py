"""Pictures of attention, of positions and of the learning rate, drawn with matplotlib.

    read_attention, attention_figure    the heads of one layer for a sentence pair
    position_table, positions_figure    position vectors, and their picture
    schedule_figure                     the learning rate over the updates
    save_figure                         a PNG, or an SVG whose text stays text

A figure is a `matplotlib.figure.Figure`: what `save_figure` writes can be changed before.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vaswani.attention_maps import read_attention
from vaswani.errors import InputError
from vaswani.modeling_vaswani import VaswaniDecoder, VaswaniEncoder
from vaswani.optimization import inverse_sqrt_rate
from vaswani.output_folder import file_aside

try:
    import matplotlib
    from matplotlib.figure import Figure

    from vaswani.attention_pictures import attention_figure
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"`vaswani.plotting` needs {error.name}. Install it with `pip install 'vaswani[plot]'`.",
        name=error.name,
    ) from error

__all__ = [
    "attention_figure",
    "check_picture",
    "position_table",
    "positions_figure",
    "read_attention",
    "save_figure",
    "schedule_figure",
]

SUFFIXES = (".png", ".svg")
_DPI = 150
# Of many heads and long sentences; at full resolution they would fill the memory.
_MOST_PIXELS = 40e6
# Far more rows than any picture has points.
_MOST_POSITIONS = 100_000
_POINTS_OF_A_CURVE = 1000


def check_picture(path: str | Path) -> Path:
    """Returns the path of a picture to be written.

    Raises:
        InputError: if its name does not end in .png or .svg.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"`output` must end in {' or '.join(SUFFIXES)}, got {str(path)!r}. "
            "A PNG is made of points; an SVG can be enlarged, and its text searched."
        )
    return path


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Writes a figure as PNG or SVG, by the name's ending, and returns the path.

    An SVG holds its text as text, shown in the fonts of whoever opens it. The same figure gives
    the same file. It appears whole or not at all.

    Raises:
        InputError: if the name ends otherwise.
    """
    path = check_picture(path)
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "vaswani"}
    kind = path.suffix.lower().removeprefix(".")
    metadata = {"Date": None} if kind == "svg" else None
    width, height = figure.get_size_inches()
    dpi = min(_DPI, (_MOST_PIXELS / (width * height)) ** 0.5)
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # `font_families` has told of them, in one line.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        with file_aside(path) as aside:
            figure.savefig(aside, dpi=dpi, format=kind, metadata=metadata)
    return path


def position_table(stack: VaswaniEncoder | VaswaniDecoder, positions: int) -> Tensor:
    """Returns the vectors `(P, D)` that a stack adds to the tokens at positions 0 to P - 1.

    Args:
        stack: `model.model.encoder` or `.decoder`.
        positions: P, how many.

    Raises:
        InputError: if there are none, or more than a learned table or a picture holds.
    """
    if not 1 <= positions <= _MOST_POSITIONS:
        rule = "at least 1" if positions < 1 else f"at most {_MOST_POSITIONS:,}"
        raise InputError(f"`positions` must be {rule}, got {positions}.")
    limit = stack.config.position_limit
    if limit is not None and positions > limit:
        raise InputError(
            f"`positions` must be at most {limit}, the rows of the "
            f"learned table (`max_position_embeddings`), got {positions}."
        )
    numbers = torch.arange(positions, device=stack.device)
    with torch.no_grad():
        return stack.embed_positions(numbers, torch.float32).float().cpu()


def positions_figure(table: Tensor, *, title: str) -> Figure:
    """Returns a heatmap of position vectors.

    Source: Section 3.5.

    Args:
        table: `(P, D)`, the vector of each position from 0.
        title: what the table is of.
    """
    values = table.detach().float().cpu().numpy()
    most = float(np.abs(values).max()) or 1.0
    figure = Figure(figsize=(9.0, 5.0), layout="constrained")
    axes = figure.add_subplot()
    # Nearest: a mean of neighboring sines would show waves that no vector has.
    image = axes.imshow(
        values, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto", interpolation="nearest"
    )
    axes.set_xlabel("feature")
    axes.set_ylabel("position")
    axes.set_title(title, loc="left", parse_math=False)
    figure.colorbar(image, label="value")
    return figure


def schedule_figure(
    *,
    d_models: Sequence[int],
    warmups: Sequence[int],
    updates: int,
    factor: float = 1.0,
) -> Figure:
    """Returns the learning rate of the paper over the updates, a curve for every combination.

    Source: Section 5.3, Equation 3.

    Args:
        d_models: model widths, in features.
        warmups: lengths of the warm-up, in updates.
        updates: last update drawn; the first is 1.
        factor: multiplies the curves.

    Raises:
        InputError: if a number is out of range.
    """
    for name, values in (("d_model", d_models), ("warmup_steps", warmups), ("updates", [updates])):
        least = 0 if name == "warmup_steps" else 1
        for value in values:
            if value < least:
                raise InputError(f"`{name}` must be at least {least}, got {value}.")
    if not 0 < factor < float("inf"):
        raise InputError(f"`learning_rate_factor` must be above 0 and finite, got {factor}.")
    figure = Figure(figsize=(8.0, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for d_model in d_models:
        for warmup in warmups:
            steps = np.unique(
                np.append(
                    np.linspace(1, updates, min(updates, _POINTS_OF_A_CURVE)).astype(int),
                    min(max(warmup, 1), updates),
                )
            )
            # The formula counts the updates taken before.
            rates = [
                inverse_sqrt_rate(
                    int(step) - 1, d_model=d_model, warmup_updates=warmup, factor=factor
                )
                for step in steps
            ]
            label = f"d_model {d_model}, warm-up {warmup:,}: peak {max(rates):.2e}"
            axes.plot(steps, rates, label=label)
    axes.set_xlabel("update")
    axes.set_ylabel("learning rate")
    axes.set_xlim(0, updates)
    axes.set_ylim(bottom=0)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure
