"""Draws what the attention heads of one layer look at, in a sentence and its translation.

As lines between the tokens, in the manner of the paper's figures 3 to 5, or as heatmaps.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from vaswani.cli._model import ComputeArguments, check_writable


@dataclass
class AttentionArguments:
    """What to draw."""

    _argument_group_name = "what to draw"

    model: str = field(
        metadata={"metavar": "FOLDER", "help": "model folder, or user/name on the Hub"}
    )
    source: str = field(metadata={"help": "sentence in the source language"})
    output: str = field(metadata={"metavar": "FILE", "help": "picture to write: .png or .svg"})
    target: str | None = field(
        default=None,
        metadata={"help": "its translation (default: what the model makes of it, beam 4)"},
    )
    part: Literal["cross", "encoder", "decoder"] = field(
        default="cross", metadata={"help": "whose attention"}
    )
    layer: int = field(
        default=-1, metadata={"help": "which layer, from 0; negative ones count from the end"}
    )
    heads: list[int] = field(
        default_factory=list, metadata={"help": "which heads, from 0 (default: all)"}
    )
    words: list[str] = field(
        default_factory=list,
        metadata={"metavar": "WORD", "help": "draw only what these words look at (default: all)"},
    )
    style: Literal["lines", "heatmap"] = field(
        default="lines", metadata={"help": "lines between tokens, or maps of tokens by tokens"}
    )
    panels: Literal["auto", "one", "each"] = field(
        default="auto",
        metadata={
            "help": "one panel for all heads (of maps: their mean) or one for each head; auto is "
            "one for lines with --words"
        },
    )
    font: list[str] = field(
        default_factory=list,
        metadata={"metavar": "FILE", "help": "font files for scripts that no installed font has"},
    )


ARGUMENTS = (AttentionArguments, ComputeArguments)
EXAMPLES = """
vaswani plot attention --model runs/en-de --source "The boat is red." --output cross.png
vaswani plot attention --model runs/en-de --source "It is red." --part encoder --output a.svg
vaswani plot attention --model runs/en-de --source "It is." --words It --heads 0 3 --output b.svg
"""


def run(what: AttentionArguments, computing: ComputeArguments) -> int:
    """Writes the picture and prints its path; see `--help`."""
    from vaswani.plotting import attention_figure, check_picture, read_attention, save_figure

    check_writable(check_picture(what.output))
    translator = computing.load(what.model)
    # One folder is one model, with a tokenizer of ours.
    model: Any = translator.model
    tokenizer: Any = translator.tokenizer
    target = what.target
    if target is None:
        target = translator.translate([what.source])[0].text
    attention = read_attention(
        model,
        tokenizer,
        what.source,
        target,
        part=what.part,
        layer=what.layer,
    )
    figure = attention_figure(
        attention,
        style=what.style,
        heads=what.heads or None,
        words=what.words or None,
        together={"auto": None, "one": True, "each": False}[what.panels],
        fonts=what.font,
    )
    print(save_figure(figure, what.output))
    return 0
