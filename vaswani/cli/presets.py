"""Lists the named models: their settings and sizes, and what the paper prints about them.

Parameters are counted with a vocabulary of 37,000 entries, the paper's number for English-German,
and of 41,000, which its own totals imply.
"""

import shutil
from collections.abc import Iterator

from vaswani.configuration_vaswani import VaswaniConfig, presets
from vaswani.paper_results import TABLE_3
from vaswani.parameter_counts import count_parameters
from vaswani.preset_settings import PRESET_SETTINGS

ARGUMENTS: tuple[type, ...] = ()
EXAMPLES = "vaswani presets"

VOCABULARIES = (37_000, 41_000)
_GAP = "  "
_LEGEND = """\
N layers of each stack; h heads; drop dropout; smooth label smoothing; k upd thousand updates;
avg checkpoints averaged; {vocabularies}: parameters in millions with so many
entries of vocabulary; paper: its own millions (M), dev perplexity (PPL) and BLEU of Table 3.
One preset in full: vaswani train --preset NAME --dry-run ... ; a whole run: --recipe, see --help."""


def run() -> int:
    """Prints one row a preset; a narrow terminal gets the columns in several tables."""
    columns = _columns()
    width = shutil.get_terminal_size(fallback=(120, 24)).columns
    for number, table in enumerate(_tables(columns, width)):
        if number:
            print()
        for row in zip(*table, strict=True):
            cells = [row[0].ljust(max(map(len, table[0])))]
            cells += [
                cell.rjust(max(map(len, column)))
                for cell, column in zip(row[1:], table[1:], strict=True)
            ]
            print(_GAP.join(cells).rstrip())
    names = " and ".join(f"{size:,}" for size in VOCABULARIES)
    print("\n" + _LEGEND.format(vocabularies=names))
    return 0


def _columns() -> list[list[str]]:
    """Every column with its title on top, the names first."""
    titles = "preset N d_model d_ff h d_k d_v drop smooth k_upd avg".split()
    titles += [f"{size:,}" for size in VOCABULARIES] + ["M", "PPL", "BLEU"]
    rows = [[title.replace("_upd", " upd") for title in titles]]
    for name in presets():
        config = VaswaniConfig.from_preset(name)
        settings, paper = PRESET_SETTINGS[name], TABLE_3.get(name)
        d_k, d_v = config.head_sizes(config.encoder_attention_heads)
        # What the two stacks of a preset have in common; no preset makes them unequal.
        values: list[float] = [
            config.encoder_layers,
            config.d_model,
            config.encoder_ffn_dim,
            config.encoder_attention_heads,
            d_k,
            d_v,
            config.dropout,
            config.label_smoothing,
            settings.max_steps // 1000,
            settings.average_last,
        ]
        row = [name, *(f"{value:g}" for value in values)]
        for size in VOCABULARIES:
            sized = VaswaniConfig.from_preset(name, vocab_size=size)
            row.append(f"{count_parameters(sized).total / 1e6:.1f}")
        row += ["", "", ""]
        if paper is not None:
            row[-3:] = [str(paper.millions or ""), f"{paper.perplexity:.2f}", f"{paper.bleu:.1f}"]
        rows.append(row)
    return [list(column) for column in zip(*rows, strict=True)]


def _tables(columns: list[list[str]], width: int) -> Iterator[list[list[str]]]:
    """Groups of columns that fit the width, each with the names in front."""
    names, *others = columns
    group, used = [names], max(map(len, names))
    for column in others:
        needed = len(_GAP) + max(map(len, column))
        if used + needed > width and len(group) > 1:
            yield group
            group, used = [names], max(map(len, names))
        group.append(column)
        used += needed
    yield group
