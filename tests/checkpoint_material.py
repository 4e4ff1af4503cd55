"""Checkpoints as the Trainer leaves them, as far as averaging looks at them; nothing is a test."""

from pathlib import Path
from typing import Any

import torch
from training_material import tiny_model, tokenizer

TABLE = "model.encoder.embed_tokens.weight"
# As names they sort otherwise than as numbers.
UPDATES = (900, 1000, 1100)


def save(
    folder: Path,
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    max_shard_size: str = "5GB",
    **settings: Any,
) -> Path:
    """One checkpoint with random weights."""
    tiny_model(seed, **settings).to(dtype).save_pretrained(folder, max_shard_size=max_shard_size)
    tokenizer().save_pretrained(folder)
    (folder / "trainer_state.json").write_text("{}")
    (folder / "training_args.bin").write_bytes(b"a pickle")
    return folder


def checkpoints(run: Path) -> list[Path]:
    return [run / f"checkpoint-{updates}" for updates in UPDATES]


def write_run(run: Path) -> Path:
    """Three checkpoints of a run from English to German."""
    for seed, folder in enumerate(checkpoints(run)):
        save(folder, seed=seed)
    (run / "settings.yaml").write_text("source: en\ntarget: de\n")
    return run
