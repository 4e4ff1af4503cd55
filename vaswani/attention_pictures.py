"""Attention heads as a picture: lines between tokens (the paper's figures 3 to 5), or maps.

    attention_figure    a figure of the heads of one layer

The weights come from `attention_maps`; how they are drawn is in `attention_panels`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from matplotlib.figure import Figure

from vaswani.attention_maps import AttentionMap, token_positions
from vaswani.attention_panels import LinesPanel, MapPanel, Selection, Sheet
from vaswani.errors import InputError

Style = Literal["lines", "heatmap"]
STYLES: tuple[Style, ...] = get_args(Style)
MOST_TOKENS = 200


def attention_figure(
    attention: AttentionMap,
    *,
    style: Style = "lines",
    heads: Sequence[int] | None = None,
    words: Sequence[str] | None = None,
    together: bool | None = None,
    fonts: Sequence[str | Path] = (),
) -> Figure:
    """Returns a picture of the attention heads of one layer.

    Source: Figures 3 to 5 of the paper. With `style="lines"` tokens stand in two columns; a line
    from a query token to a key token has the color of its head, and its opacity is the weight.
    With `style="heatmap"` a row is a query token and a column a key token.

    Args:
        attention: the weights, as `read_attention` gives them.
        style: "lines" or "heatmap".
        heads: which heads, from 0; `None` means all.
        words: draw only what these words look at; of a word that is among the keys alone, what
            looks at it. `None` means all words.
        together: all heads in one panel (of heatmaps: their mean), or a panel for each head.
            `None` means one panel for lines with `words`, as in Figure 3, otherwise one for each.
        fonts: font files for scripts that no installed font has.

    Raises:
        InputError: if a head or word is not there, or a sentence is too long to be legible.
    """
    chosen = _checked_heads(attention, style, heads)
    longest = max(len(attention.queries), len(attention.keys))
    if longest > MOST_TOKENS:
        raise InputError(
            f"the sentences must have at most {MOST_TOKENS} tokens to be legible, got {longest}. "
            "Give one sentence at a time."
        )
    if together is None:
        together = style == "lines" and words is not None
    sheet = Sheet(attention, chosen, _selection(attention, words), fonts)
    panels = [chosen] if together else [[head] for head in chosen]
    draw = LinesPanel if style == "lines" else MapPanel
    return sheet.figure([draw(sheet, panel) for panel in panels])


def _checked_heads(attention: AttentionMap, style: str, heads: Sequence[int] | None) -> list[int]:
    if style not in STYLES:
        raise InputError(f"`style` must be one of {', '.join(STYLES)}, got {style!r}.")
    count = attention.weights.size(0)
    if heads is None:
        return list(range(count))
    if not heads:
        raise InputError("`heads` must name at least one head, got none. Leave it out for all.")
    for head in heads:
        if not 0 <= head < count:
            raise InputError(
                f"`heads` must be from 0 to {count - 1}, the heads of the layer, got {head}."
            )
    return sorted(set(heads))


def _selection(attention: AttentionMap, words: Sequence[str] | None) -> Selection:
    queries, keys = range(len(attention.queries)), range(len(attention.keys))
    if words is None:
        return Selection(list(queries), list(keys), [], [])
    looking: set[int] = set()
    looked_at: set[int] = set()
    for word in words:
        try:
            looking |= set(token_positions(word, attention.queries))
        except InputError:
            if attention.queries == attention.keys:
                raise
            looked_at |= set(token_positions(word, attention.keys))
    if not looking and not looked_at:
        raise InputError("`words` must name at least one word, got none. Leave it out for all.")
    return Selection(
        sorted(looking) or list(queries),
        sorted(looked_at) or list(keys),
        sorted(looking),
        sorted(looked_at),
    )
