"""A picture of how long sources and targets are.

    lengths_figure     both lengths of all pairs, and how many there are of each

A figure is a `matplotlib.figure.Figure`; `plotting.save_figure` writes it.
"""

from typing import Any

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from vaswani.errors import InputError
from vaswani.plot_fonts import font_families

_MOST_CELLS = 100
# Of all lengths; a few very long pairs would leave the others a corner of the picture.
_SHOWN = 0.999


def lengths_figure(
    lengths: tuple[NDArray[np.int32], NDArray[np.int32]],
    *,
    labels: tuple[str, str],
    unit: str,
    title: str,
) -> Figure:
    """Returns the pairs by both lengths, with the counts of each side at the edges.

    Longer pairs than all but a thousandth lie in the outermost cells, which the title tells.

    Args:
        lengths: of the sources and of the targets, pair by pair.
        labels: what the sides are called.
        unit: what lengths are counted in.
        title: what the pairs are.

    Raises:
        InputError: if there is no pair.
    """
    sources, targets = lengths
    if not len(sources):
        raise InputError("`lengths` must be of at least one pair, got none.")
    most = max(int(np.quantile(side, _SHOWN, method="inverted_cdf")) for side in lengths)
    beyond = int(np.count_nonzero(np.maximum(sources, targets) > most))
    step = -(-(most + 1) // _MOST_CELLS)
    # A cell has the same whole lengths on both axes, so that equal sides lie on the diagonal.
    edges: Any = np.arange(0, most + 1 + step, step) - 0.5
    clipped = [np.minimum(side, most) for side in lengths]
    figure = Figure(figsize=(7.5, 7.5), layout="constrained")
    families = font_families([*labels, title])
    grid = figure.add_gridspec(2, 3, width_ratios=(5, 1.2, 0.2), height_ratios=(1.2, 5))
    axes = figure.add_subplot(grid[1, 0])
    counts, _, _ = np.histogram2d(clipped[0], clipped[1], bins=[edges, edges])
    image = axes.pcolormesh(
        edges,
        edges,
        np.ma.masked_equal(counts.T, 0),
        norm=LogNorm(1, max(counts.max(), 2)),
        cmap="viridis_r",
        rasterized=True,
    )
    axes.axline((0, 0), slope=1, color="0.4", linewidth=0.8, linestyle="--")
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(edges[0], edges[-1])
    axes.set_xlabel(f"{labels[0]}: {unit}", family=families)
    axes.set_ylabel(f"{labels[1]}: {unit}", family=families)
    bar = figure.colorbar(image, cax=figure.add_subplot(grid[1, 2]))
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    bar.set_label("pairs (dashed: equal lengths)")
    _draw_margin(figure.add_subplot(grid[0, 0], sharex=axes), clipped[0], edges, "vertical")
    _draw_margin(figure.add_subplot(grid[1, 1], sharey=axes), clipped[1], edges, "horizontal")
    outer = f"; {beyond:,} longer than {most} {unit} are in the last cells" if beyond else ""
    figure.suptitle(
        f"{title}\n{len(sources):,} pairs{outer}",
        family=families,
        fontsize="medium",
        x=0.02,
        ha="left",
    )
    return figure


def _draw_margin(axes: Any, lengths: NDArray[np.int32], edges: NDArray, orientation: str) -> None:
    axes.hist(lengths, bins=edges, orientation=orientation, color="0.6")
    median = float(np.median(lengths))
    upright = orientation == "vertical"
    (axes.axvline if upright else axes.axhline)(median, color="tab:red", linewidth=1)
    axes.set_title(f"median {median:g}", fontsize="small", color="tab:red")
    axes.tick_params(labelbottom=not upright, labelleft=upright, labelsize="small")
    counted = axes.yaxis if upright else axes.xaxis
    counted.set_major_locator(MaxNLocator(3, integer=True))
    counted.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    if not upright:
        axes.tick_params(axis="x", labelrotation=90)
