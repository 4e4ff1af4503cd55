"""What `vaswani presets` shows: a row for each named model."""

from vaswani.configuration_vaswani import VaswaniConfig, presets
from vaswani.paper_results import TABLE_3
from vaswani.parameter_counts import count_parameters
from vaswani.preset_settings import PRESET_SETTINGS

VOCABULARIES = (37_000, 41_000)


def preset_rows() -> tuple[list[list[str]], list[list[str]]]:
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
