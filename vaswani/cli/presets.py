"""Lists the named models: their settings and sizes, and what the paper prints about them.

Parameters are counted with a vocabulary of 37,000 entries, the paper's number for English-German,
and of 41,000, which its own totals imply.
"""

import shutil
import textwrap

ARGUMENTS: tuple[type, ...] = ()
EXAMPLES = "vaswani presets"

_LEGEND = (
    "N: layers of each stack; h: heads; {vocabularies}: millions of parameters with a vocabulary "
    "of so many entries; drop: dropout; smooth: label smoothing; avg: checkpoints averaged. From "
    "Table 3 of the paper: M, millions of parameters; PPL, perplexity, and BLEU on newstest2013."
)


def run() -> int:
    """Prints one row a preset; a narrow terminal gets two tables, shapes and training."""
    from vaswani.cli._preset_table import VOCABULARIES, preset_rows

    shape, training = preset_rows()
    both = [first + second[1:] for first, second in zip(shape, training, strict=True)]
    lines = _table(both)
    width = shutil.get_terminal_size(fallback=(120, 24)).columns
    if len(lines[0]) > width:
        lines = [*_table(shape), "", *_table(training)]
    names = " and ".join(f"{size:,}" for size in VOCABULARIES)
    legend = textwrap.wrap(_LEGEND.format(vocabularies=names), min(width, 100))
    print("\n".join([*lines, "", *legend]))
    return 0


def _table(rows: list[list[str]]) -> list[str]:
    """Lines with the names on the left and the other columns on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return lines
