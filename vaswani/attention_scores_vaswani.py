"""What can stand in for the scaled dot product of section 3.2.1, and for its softmax.

    VaswaniAdditiveScore             `attention_score="additive"`: Bahdanau et al. (2015)
    best_key_only                    `hard_attention=True`: all weight on one key

The plain dot product (Luong et al., 2015) needs nothing of its own: its scale is 1.

Shapes: B batch, T queries, S keys, H heads, Dk features per head.
"""

import torch
from torch import Tensor, nn


class VaswaniAdditiveScore(nn.Module):
    """Scores a key k for a query q by v tanh(q + k), with a learned v per head.

    Source: Bahdanau, Cho, Bengio (2015), Appendix A.1.2, where a(s, h) = v tanh(Ws + Uh). W and U
    are the projections of queries and keys, so that each head has its own.

    Departs from the paper: section 3.2.1 names this score and takes the dot product, which costs
    less: this one keeps Dk numbers for each pair of a query and a key.
    """

    def __init__(self, heads: int, d_k: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, d_k))
        # So that a score, a sum of Dk terms within -1 and 1, starts with a variance of at most 1.
        self.initial_std = d_k**-0.5

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Returns scores `(B, H, T, S)` for queries `(B, H, T, Dk)` and keys `(B, H, S, Dk)`."""
        matched = torch.tanh(query[:, :, :, None] + key[:, :, None])  # (B, H, T, S, Dk)
        return torch.einsum("bhtsk,hk->bhts", matched, self.weight)


def best_key_only(weights: Tensor, *, training: bool) -> Tensor:
    """Returns weights with 1 for the best key of each query and 0 for the others.

    Args:
        weights: `(B, H, T, S)`. Among equals the first is the best; a row of zeros stays one.
        training: whether the model is in training mode.

    Raises:
        ValueError: in training mode, since the choice of a key has no gradient.
    """
    if training:
        raise ValueError(
            "`hard_attention` must be False in training mode, got True: it has no gradient. "
            "Train without it and set it to look at alignments."
        )
    best = weights.argmax(dim=-1, keepdim=True)
    return torch.zeros_like(weights).scatter(-1, best, 1.0) * (weights > 0)


__all__ = ["VaswaniAdditiveScore", "best_key_only"]
