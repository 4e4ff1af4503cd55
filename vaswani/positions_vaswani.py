"""Learned positions, row E of Table 3, and where they end.

    VaswaniLearnedPositions          a vector per position, in place of the sinusoids of section 3.5
    check_positions                  refuses what lies beyond the table

Shapes: B batch, T tokens, D d_model.
"""

from typing import Any

import torch
from torch import Tensor, nn


class VaswaniLearnedPositions(nn.Embedding):
    """Gives each position a vector that is learned.

    Source: Section 3.5 and Table 3 (E). The paper gives no initial values; the vectors start as
    strong as the sinusoids that they stand for, whose mean square is 1/2.
    """

    initial_std = 0.5**0.5

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:  # type: ignore[override]
        """Returns the vectors `(..., D)` of `positions`, `(...)` int64 counted from 0."""
        return super().forward(positions).to(dtype)


def check_positions(name: str, tokens: Any, limit: int | None, positions: Tensor) -> None:
    """Raises if a position has no vector.

    Under `torch.compile` nothing is checked, since the answer depends on data.

    Args:
        name: of the argument that the tokens came in.
        tokens: how many there are, padding included; an int or a tensor of one.
        limit: rows of the table; `None` where there is no end.
        positions: `(T,)` or `(B, T)` int64, from 0. Read only where `tokens` exceeds the limit,
            since reading makes a GPU wait.

    Raises:
        ValueError: if a sequence has more tokens than the table has rows.
    """
    if limit is None or torch.compiler.is_compiling() or int(tokens) <= limit:
        return
    longest = int(positions.max()) + 1
    if longest > limit:
        raise ValueError(
            f"`{name}` must have at most `max_position_embeddings` = {limit} tokens where "
            f"positions are learned, got {longest}. Shorten it, or train a larger table."
        )


__all__ = ["VaswaniLearnedPositions", "check_positions"]
