"""The panels of an attention picture and the sheet that they stand on.

    Sheet         texts, fonts and sizes that the panels share, and their arrangement
    Selection     which tokens are drawn and marked
    LinesPanel    two columns of tokens, joined by lines
    MapPanel      a map of queries by keys

Sizes are in inches, as in matplotlib, measured from the upper left corner; type sizes in points.
"""

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle
from matplotlib.textpath import text_to_path

from vaswani.attention_maps import AttentionMap, shown_tokens
from vaswani.plot_fonts import font_families

_TITLES = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Cross-attention",
}
# What the tokens of each side are: queries, keys.
_CAPTIONS = {
    "encoder": ("source", "source"),
    "decoder": ("target read", "target read"),
    "cross": ("target predicted", "source"),
}
_GRAY = "0.35"
_TYPE = 10.0
_CAPTION_TYPE = 8.5
_TITLE_TYPE = 11.5
_ROW = 0.25
# Longer sentences get smaller type instead of a taller sheet.
_TALLEST = 15.0
# Width by height.
_ASPECT = 1.5
_MARGIN = 0.2
_LINES = 1.5
_FAINTEST = 0.01


@dataclass
class Selection:
    """The rows and columns that are drawn, and those of them that are marked."""

    queries: list[int]
    keys: list[int]
    marked_queries: list[int]
    marked_keys: list[int]


class Sheet:
    """What the panels of one attention picture have in common, and their arrangement."""

    def __init__(
        self,
        attention: AttentionMap,
        heads: list[int],
        selection: Selection,
        fonts: Sequence[str | Path],
    ) -> None:
        self.attention = attention
        self.heads = heads
        self.selection = selection
        self.weights = attention.weights.numpy()
        self.highest = 0.0
        self.queries = [_shortened(text) for text in shown_tokens(attention.queries)]
        self.keys = [_shortened(text) for text in shown_tokens(attention.keys)]
        self.families = font_families([*self.queries, *self.keys], fonts=fonts)
        longest = max(len(self.queries), len(self.keys))
        self.row = min(_ROW, _TALLEST / longest)
        self.type = _TYPE * self.row / _ROW
        self.query_caption, self.key_caption = _CAPTIONS[attention.part]
        self.title = (
            f"{_TITLES[attention.part]}, layer {attention.layer} of {attention.layers} "
            "(counted from 0)"
        )

    def color(self, head: int) -> Any:
        """The head's color, the same in every picture of a model."""
        return _head_color(head, self.attention.weights.size(0))

    def width(self, texts: Iterable[str], size: float) -> float:
        """Width of the widest text."""
        font = FontProperties(family=self.families, size=size)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            sizes = [
                text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]
                for text in texts
            ]
        return max(sizes) / 72

    def figure(self, panels: list[Any]) -> Figure:
        """The panels side by side, in rows where they would get too wide."""
        across = self._columns(len(panels), panels[0].across / panels[0].down)
        down = math.ceil(len(panels) / across)
        top = 0.55
        width = max(across * panels[0].across, self.width([self.title], _TITLE_TYPE) + 2 * _MARGIN)
        height = top + down * panels[0].down + _MARGIN
        figure = Figure(figsize=(width, height))
        figure.text(
            _MARGIN / width,
            1 - 0.2 / height,
            self.title,
            size=_TITLE_TYPE,
            fontfamily=self.families,
            va="top",
        )
        for place, panel in enumerate(panels):
            left = (place % across) * panel.across
            bottom = height - top - (place // across + 1) * panel.down
            panel.draw(figure, left, bottom)
        return figure

    @staticmethod
    def _columns(count: int, aspect: float) -> int:
        """How many panels side by side bring the picture nearest to the shape of a screen."""

        def distance(across: int) -> float:
            return abs(math.log(across / math.ceil(count / across) * aspect / _ASPECT))

        return min(range(1, count + 1), key=distance)

    def write(self, axes: Any, x: float, y: float, text: str, **settings: Any) -> None:
        """One text as it is: a dollar sign starts no formula."""
        axes.text(
            x,
            y,
            text,
            fontfamily=self.families,
            parse_math=False,
            **{"size": self.type} | settings,
        )


def _shortened(text: str, most: int = 28) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _head_color(head: int, count: int) -> Any:
    if count <= 10:
        return matplotlib.colormaps["tab10"](head)
    if count <= 20:
        return matplotlib.colormaps["tab20"](head)
    return matplotlib.colormaps["hsv"](head / count)


class LinesPanel:
    """Two columns of tokens, joined by lines of one or several heads."""

    def __init__(self, sheet: Sheet, heads: list[int]) -> None:
        self.sheet, self.heads = sheet, heads
        self.left = _MARGIN + max(
            sheet.width(sheet.queries, sheet.type),
            sheet.width([sheet.query_caption], _CAPTION_TYPE),
        )
        self.right = self.left + 0.1 + _LINES + 0.1
        text = max(
            sheet.width(sheet.keys, sheet.type),
            sheet.width([sheet.key_caption], _CAPTION_TYPE),
        )
        self.across = self.right + text + _MARGIN
        self.rows = max(len(sheet.queries), len(sheet.keys))
        self.top = 0.62
        self.down = self.top + self.rows * sheet.row + 0.1

    def draw(self, figure: Figure, left: float, bottom: float) -> None:
        """Draws the panel with its lower left corner there."""
        axes = _blank_axes(figure, left, bottom, self.across, self.down)
        sheet = self.sheet
        self._draw_heading(axes)
        query_heights = self._heights(len(sheet.queries))
        key_heights = self._heights(len(sheet.keys))
        self._mark(axes, query_heights, key_heights)
        for text, height in zip(sheet.queries, query_heights, strict=True):
            sheet.write(axes, self.left, height, text, ha="right", va="center_baseline")
        for text, height in zip(sheet.keys, key_heights, strict=True):
            sheet.write(axes, self.right, height, text, ha="left", va="center_baseline")
        for head in self.heads:
            axes.add_collection(self._lines(head, query_heights, key_heights))

    def _heights(self, count: int) -> list[float]:
        """Where the tokens of a column stand; the shorter column is centered."""
        start = self.top + (self.rows - count) / 2 * self.sheet.row
        return [start + (place + 0.5) * self.sheet.row for place in range(count)]

    def _draw_heading(self, axes: Any) -> None:
        """The heads in their colors, and what the columns are."""
        sheet = self.sheet
        middle = (self.left + self.right) / 2
        if len(self.heads) == 1:
            text = f"head {self.heads[0]}"
            sheet.write(
                axes,
                middle,
                0.18,
                text,
                ha="center",
                va="center",
                color=sheet.color(self.heads[0]),
                size=_TYPE,
            )
        else:
            label = 0.5
            step = min(0.24, (self.across - 2 * _MARGIN - label) / len(self.heads))
            strip = step * len(self.heads)
            start = max(middle - strip / 2, _MARGIN + label)
            start = min(start, self.across - _MARGIN - strip)
            for place, head in enumerate(self.heads):
                x = start + place * step
                axes.add_patch(Rectangle((x, 0.08), step, 0.2, color=sheet.color(head), lw=0))
                sheet.write(
                    axes,
                    x + step / 2,
                    0.18,
                    str(head),
                    ha="center",
                    va="center",
                    size=min(7.0, 33 * step),
                    color="white",
                )
            sheet.write(
                axes,
                start - 0.08,
                0.18,
                "heads",
                ha="right",
                va="center",
                size=_CAPTION_TYPE,
                color=_GRAY,
            )
        settings: dict[str, Any] = {"size": _CAPTION_TYPE, "color": _GRAY, "va": "center"}
        sheet.write(axes, self.left, 0.47, sheet.query_caption, ha="right", **settings)
        sheet.write(axes, self.right, 0.47, sheet.key_caption, ha="left", **settings)

    def _mark(self, axes: Any, query_heights: list[float], key_heights: list[float]) -> None:
        """A gray ground for the chosen words; colored ground for what they look at (Figure 3)."""
        sheet, chosen = self.sheet, self.sheet.selection
        row = sheet.row
        for heights, places, texts, on_left in (
            (query_heights, chosen.marked_queries, sheet.queries, True),
            (key_heights, chosen.marked_keys, sheet.keys, False),
        ):
            for place in places:
                width = sheet.width([texts[place]], sheet.type) + 0.1
                x = self.left - width + 0.05 if on_left else self.right - 0.05
                corner = (x, heights[place] - row / 2)
                axes.add_patch(Rectangle(corner, width, row, color="0.85", lw=0))
        if not chosen.marked_queries:
            return
        cell = (self.across - _MARGIN - self.right + 0.1) / len(self.heads)
        for number, head in enumerate(self.heads):
            strongest = sheet.weights[head][chosen.marked_queries].max(axis=0)
            for place in chosen.keys:
                corner = (self.right - 0.05 + number * cell, key_heights[place] - row / 2)
                color = (*sheet.color(head)[:3], float(strongest[place]) * 0.6)
                axes.add_patch(Rectangle(corner, cell, row, color=color, lw=0))

    def _lines(
        self, head: int, query_heights: list[float], key_heights: list[float]
    ) -> LineCollection:
        sheet, chosen = self.sheet, self.sheet.selection
        drawn = [
            (float(sheet.weights[head, query, key]), query, key)
            for query in chosen.queries
            for key in chosen.keys
        ]
        # Too faint to be seen, and most of an SVG's size.
        drawn = sorted(line for line in drawn if line[0] >= _FAINTEST)
        starts, ends = self.left + 0.07, self.right - 0.07
        return LineCollection(
            [((starts, query_heights[q]), (ends, key_heights[k])) for _, q, k in drawn],
            colors=[(*sheet.color(head)[:3], min(weight, 1.0)) for weight, _, _ in drawn],
            linewidths=1.6 * sheet.row / _ROW,
            label=f"head {head}",
        )


class MapPanel:
    """The weights of a head, or the mean of several, as a map of queries by keys."""

    def __init__(self, sheet: Sheet, heads: list[int]) -> None:
        self.sheet, self.heads = sheet, heads
        slant = math.radians(60)
        texts = sheet.width(sheet.keys, sheet.type)
        self.left = 0.35 + sheet.width(sheet.queries, sheet.type)
        self.top = 0.75 + texts * math.sin(slant)
        self.map_width = len(sheet.keys) * sheet.row
        self.map_height = len(sheet.queries) * sheet.row
        # The last name leans over the edge, and the color bar needs room for its numbers.
        self.across = self.left + self.map_width + max(texts * math.cos(slant), 0.75) + _MARGIN
        # The caption beside a map of few rows is longer than the map.
        self.down = self.top + self.map_height / 2 + max(self.map_height / 2 + 0.15, 0.65)
        mean = sheet.weights[heads].mean(axis=0)  # (Q, K)
        self.shown = np.zeros_like(mean)
        drawn = np.ix_(sheet.selection.queries, sheet.selection.keys)
        self.shown[drawn] = mean[drawn]
        # One scale for all panels, so that they can be compared.
        sheet.highest = max(sheet.highest, float(self.shown.max()))

    def draw(self, figure: Figure, left: float, bottom: float) -> None:
        """Draws the panel with its lower left corner there."""
        sheet = self.sheet
        frame = _blank_axes(figure, left, bottom, self.across, self.down)
        several = len(self.heads) > 1
        title = f"mean of {len(self.heads)} heads" if several else f"head {self.heads[0]}"
        color = "black" if several else sheet.color(self.heads[0])
        sheet.write(frame, self.left, 0.15, title, ha="left", va="center", color=color, size=_TYPE)
        settings: dict[str, Any] = {"size": _CAPTION_TYPE, "color": _GRAY}
        sheet.write(frame, self.left, 0.4, sheet.key_caption, ha="left", va="center", **settings)
        middle = self.top + self.map_height / 2
        sheet.write(
            frame,
            0.15,
            middle,
            sheet.query_caption,
            rotation=90,
            ha="center",
            va="center",
            **settings,
        )
        self._draw_map(figure, left, bottom)

    def _draw_map(self, figure: Figure, left: float, bottom: float) -> None:
        sheet = self.sheet
        width, height = figure.get_size_inches()
        base = bottom + self.down - self.top - self.map_height
        axes = figure.add_axes(
            (
                (left + self.left) / width,
                base / height,
                self.map_width / width,
                self.map_height / height,
            )
        )
        highest = sheet.highest or 1.0
        image = axes.imshow(self.shown, cmap="Blues", vmin=0.0, vmax=highest, aspect="auto")
        texts: dict[str, Any] = {
            "fontfamily": sheet.families,
            "size": sheet.type,
            "parse_math": False,
        }
        axes.set_xticks(
            range(len(sheet.keys)),
            sheet.keys,
            rotation=60,
            ha="left",
            rotation_mode="anchor",
            **texts,
        )
        axes.xaxis.tick_top()
        axes.set_yticks(range(len(sheet.queries)), sheet.queries, **texts)
        axes.tick_params(length=0, pad=3)
        bar = figure.add_axes(
            (
                (left + self.left + self.map_width + 0.1) / width,
                base / height,
                0.1 / width,
                min(self.map_height, 2.5) / height,
            )
        )
        figure.colorbar(image, cax=bar)
        bar.tick_params(labelsize=7, length=2)


def _blank_axes(figure: Figure, left: float, bottom: float, across: float, down: float) -> Any:
    """Axes without frame whose unit is an inch, from the upper left corner."""
    width, height = figure.get_size_inches()
    axes = figure.add_axes((left / width, bottom / height, across / width, down / height))
    axes.set_xlim(0, across)
    axes.set_ylim(down, 0)
    axes.set_axis_off()
    return axes
