"""How each preset is trained: the paper's own settings, and what suits the smaller ones.

PresetSettings     the settings of one preset; its fields are named as those of the trainer
PRESET_SETTINGS    one for each preset
PAPER_SETTINGS     the base model's, for trainer settings that were left unset

Dropout and label smoothing belong to the configuration (`presets_vaswani`); corpus, vocabulary and
the spacing of checkpoints belong to a recipe (`recipes/*.yaml`).
"""

from dataclasses import dataclass
from typing import Any

from vaswani.configuration_vaswani import presets


@dataclass(frozen=True)
class PresetSettings:
    """How long, in what portions and how fast a preset learns; the defaults are the base model's.

    Source: Sections 5.1 to 5.3 and 6.1.

    Args:
        max_steps: updates in all.
        average_last: how many of the last checkpoints are averaged at the end; 0 for none.
            A recipe passes it on; a run without one keeps the best checkpoint instead.
        tokens_per_update: source tokens, and as many target tokens, of one update.
        warmup_steps: updates of rising learning rate.
        learning_rate_factor: multiplies the rate of the paper.
    """

    max_steps: int = 100_000
    average_last: int = 5
    tokens_per_update: int = 25_000
    warmup_steps: int = 4000
    learning_rate_factor: float = 1.0


_BIG = PresetSettings(max_steps=300_000, average_last=20)
# Section 6.2: the rows of Table 3 are searched with beams, "but no checkpoint averaging".
_TABLE_3 = PresetSettings(average_last=0)

PRESET_SETTINGS: dict[str, PresetSettings] = {
    "base": PresetSettings(),
    "big-en-de": _BIG,
    "big-en-fr": _BIG,
    **{name: _TABLE_3 for name in presets() if name.startswith("table3-")},
    # For CPUs and corpora of about 100,000 pairs, where 25,000 tokens an update would leave too few
    # updates in an hour for the warm-up alone. With so short a warm-up the paper's own rate is too
    # high: the decoder becomes a language model and takes hours to look at the source.
    "small": PresetSettings(
        average_last=0, tokens_per_update=1024, warmup_steps=1000, learning_rate_factor=0.3
    ),
    "tiny": PresetSettings(average_last=0, tokens_per_update=1024, warmup_steps=400),
}

PAPER_SETTINGS: dict[str, Any] = {
    name: getattr(PRESET_SETTINGS["base"], name)
    for name in ("tokens_per_update", "warmup_steps", "learning_rate_factor")
}
