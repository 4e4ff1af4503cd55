"""The paper's models by name, every row of Table 3 among them.

    PRESETS    what each preset changes from the defaults of the configuration

How a preset is trained is not decided here, but for what the configuration itself holds: dropout
and label smoothing.
"""

from typing import Any


def _both(**sizes: int) -> dict[str, int]:
    """The same size for encoder and decoder."""
    return {
        f"{side}_{name}": size for name, size in sizes.items() for side in ("encoder", "decoder")
    }


_BIG: dict[str, Any] = {"d_model": 1024, **_both(ffn_dim=4096, attention_heads=16)}

# Where Table 3 changes the heads or the width, d_k and d_v stay d_model / h: rows (A) and (C) say
# so themselves. Only rows (B) part them.
PRESETS: dict[str, dict[str, Any]] = {
    "base": {},
    "big-en-de": {**_BIG, "dropout": 0.3},
    "big-en-fr": {**_BIG, "vocab_size": 32_000, "dropout": 0.1},
    "table3-a-h1": _both(attention_heads=1),
    "table3-a-h4": _both(attention_heads=4),
    "table3-a-h16": _both(attention_heads=16),
    "table3-a-h32": _both(attention_heads=32),
    "table3-b-dk16": {"d_k": 16},
    "table3-b-dk32": {"d_k": 32},
    "table3-c-n2": _both(layers=2),
    "table3-c-n4": _both(layers=4),
    "table3-c-n8": _both(layers=8),
    "table3-c-d256": {"d_model": 256},
    "table3-c-d1024": {"d_model": 1024},
    "table3-c-ff1024": _both(ffn_dim=1024),
    "table3-c-ff4096": _both(ffn_dim=4096),
    "table3-d-drop0": {"dropout": 0.0},
    "table3-d-drop0.2": {"dropout": 0.2},
    "table3-d-ls0": {"label_smoothing": 0.0},
    "table3-d-ls0.2": {"label_smoothing": 0.2},
    "table3-e-learned": {"position_encoding": "learned"},
    "small": {
        "vocab_size": 8_000,
        "d_model": 256,
        **_both(layers=3, ffn_dim=1024, attention_heads=4),
    },
    "tiny": {
        "vocab_size": 2_000,
        "d_model": 128,
        **_both(layers=2, ffn_dim=256, attention_heads=4),
    },
}
"""What each preset changes from the defaults, which are the paper's base model. The row "big" of
Table 3 is `big-en-de`; `big-en-fr` has the dropout and the vocabulary of section 6.1. `small` and
`tiny` are not in the paper: `small` trains on a CPU, `tiny` is the model of the demo."""


__all__ = ["PRESETS"]
