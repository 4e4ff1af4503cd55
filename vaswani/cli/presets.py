"""Lists the named models: their settings and sizes, and what the paper prints about them.

Parameters are counted with a vocabulary of 37,000 entries, the paper's number for English-German,
and of 41,000, which its own totals imply.
"""

import shutil
import textwrap

from vaswani.configuration_vaswani import VaswaniConfig, presets
from vaswani.paper_results import TABLE_3
from vaswani.parameter_counts import count_parameters
from vaswani.preset_settings import PRESET_SETTINGS

ARGUMENTS: tuple[type, ...] = ()
EXAMPLES = "vaswani presets"

VOCABULARIES = (37_000, 41_000)
_LEGEND = (
    "N: layers of each stack; h: heads; {vocabularies}: millions of parameters with a vocabulary "
    "of so many entries; drop: dropout; smooth: label smoothing; avg: checkpoints averaged. From "
    "Table 3 of the paper: M, millions of parameters; PPL, perplexity, and BLEU on newstest2013."
)


def run() -> int:
    """Prints one row a preset; a narrow terminal gets two tables, shapes and training."""
    shape, training = _rows()
    both = [first + second[1:] for first, second in zip(shape, training, strict=True)]
    lines = _table(both)
    width = shutil.get_terminal_size(fallback=(120, 24)).columns
    if len(lines[0]) > width:
        lines = [*_table(shape), "", *_table(training)]
    names = " and ".join(f"{size:,}" for size in VOCABULARIES)
    legend = textwrap.wrap(_LEGEND.format(vocabularies=names), min(width, 100))
    print("\n".join([*lines, "", *legend]))
    return 0


def _rows() -> tuple[list[list[str]], list[list[str]]]:
    """What a model of each preset is, and how it is trained; titles first, the name in front."""
    sizes = [f"{size:,}" for size in VOCABULARIES]
    shape = [["preset", "N", "d_model", "d_ff", "h", "d_k", "d_v", *sizes, "M"]]
    training = [["preset", "drop", "smooth", "updates", "avg", "PPL", "BLEU"]]
    for name in presets():
        config = VaswaniConfig.from_preset(name)
        settings, paper = PRESET_SETTINGS[name], TABLE_3.get(name)
        # No preset has unequal stacks.
        heads = config.encoder_attention_heads
        shape.append(
            [
                name,
                str(config.encoder_layers),
                str(config.d_model),
                str(config.encoder_ffn_dim),
                str(heads),
                *map(str, config.head_sizes(heads)),
                *(_millions(name, size) for size in VOCABULARIES),
                str(paper.millions or "") if paper else "",
            ]
        )
        training.append(
            [
                name,
                f"{config.dropout:g}",
                f"{config.label_smoothing:g}",
                f"{settings.max_steps:,}",
                str(settings.average_last or "-"),
                f"{paper.perplexity:.2f}" if paper else "",
                f"{paper.bleu:.1f}" if paper else "",
            ]
        )
    return shape, training


def _millions(name: str, vocab_size: int) -> str:
    config = VaswaniConfig.from_preset(name, vocab_size=vocab_size)
    return f"{count_parameters(config).total / 1e6:.1f}"


def _table(rows: list[list[str]]) -> list[str]:
    """Lines with the names on the left and the other columns on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return lines
