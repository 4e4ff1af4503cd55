"""Lists the named model sizes with their settings and parameter counts."""

import torch

from vaswani.configuration_vaswani import VaswaniConfig, presets
from vaswani.modeling_vaswani import VaswaniForConditionalGeneration

ARGUMENTS: tuple[type, ...] = ()
EXAMPLES = "vaswani presets"

_COLUMNS = {
    "d_model": "d_model",
    "layers": "encoder_layers",
    "heads": "encoder_attention_heads",
    "d_ff": "encoder_ffn_dim",
    "dropout": "dropout",
    "smoothing": "label_smoothing",
    "vocabulary": "vocab_size",
}


def run() -> int:
    """Prints one row a preset."""
    titles = ["preset", *_COLUMNS, "parameters"]
    rows = [titles]
    for name in presets():
        config = VaswaniConfig.from_preset(name)
        values = [_shown(getattr(config, field)) for field in _COLUMNS.values()]
        if config.encoder_layers != config.decoder_layers:
            values[1] = f"{config.encoder_layers}+{config.decoder_layers}"
        rows.append([name, *values, f"{count_parameters(config) / 1e6:.1f} M"])
    widths = [max(len(row[k]) for row in rows) for k in range(len(titles))]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join(cells))
    return 0


def count_parameters(config: VaswaniConfig) -> int:
    """Parameters of a model of this shape, a shared table counted once; no memory is taken."""
    with torch.device("meta"):
        return VaswaniForConditionalGeneration(config).num_parameters()


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
