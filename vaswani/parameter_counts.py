"""Parameters of a model of some configuration, by what they are for.

ParameterCounts      the numbers
count_parameters     counted in the model itself, without memory for its weights
"""

from dataclasses import dataclass

import torch

from vaswani.configuration_vaswani import VaswaniConfig
from vaswani.modeling_vaswani import VaswaniForConditionalGeneration


@dataclass(frozen=True)
class ParameterCounts:
    """Numbers of parameters; a table with several owners counts once.

    Args:
        tables: embeddings and the projection to the vocabulary.
        positions: learned position vectors.
        attention: everything of the attention layers.
        feed_forward: matrices and biases.
        norms: gains and biases of layer normalization.
        output_bias: bias of the projection to the vocabulary.
        source_matrices: elements of the weight matrices that every source token goes through: the
            encoder's, and the projections to keys and values in cross-attention.
        target_matrices: the same for target tokens: all others, without the vocabulary's.
    """

    tables: int
    positions: int
    attention: int
    feed_forward: int
    norms: int
    output_bias: int
    source_matrices: int
    target_matrices: int

    @property
    def total(self) -> int:
        """All parameters."""
        parts = self.tables + self.positions + self.attention + self.feed_forward
        return parts + self.norms + self.output_bias

    @property
    def matrices(self) -> int:
        """Weight matrices without tables, biases and norms."""
        return self.source_matrices + self.target_matrices


def count_parameters(config: VaswaniConfig) -> ParameterCounts:
    """Counts the parameters of a model of this configuration; no memory is taken for them."""
    with torch.device("meta"):
        model = VaswaniForConditionalGeneration(config)
    counts = dict.fromkeys(ParameterCounts.__dataclass_fields__, 0)
    for name, weight in model.named_parameters():
        kind = _kind(name)
        counts[kind] += weight.numel()
        if weight.dim() == 2 and kind in ("attention", "feed_forward"):
            of_source = ".encoder." in f".{name}" or any(
                f".encoder_attn.{projection}." in name for projection in ("k_proj", "v_proj")
            )
            counts["source_matrices" if of_source else "target_matrices"] += weight.numel()
    return ParameterCounts(**counts)


def _kind(name: str) -> str:
    if "layer_norm" in name:
        return "norms"
    if "_attn." in name:
        return "attention"
    if ".feed_forward." in name:
        return "feed_forward"
    if "embed_positions" in name:
        return "positions"
    return "tables" if name.endswith(".weight") else "output_bias"
