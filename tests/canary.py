"""A harmless pickle that makes a folder when it is unpickled; nothing here is a test."""

import os
import pickle
from pathlib import Path
from typing import Any

import torch


class Canary:
    """An object whose unpickling makes the folder `flown`."""

    def __init__(self, flown: Path) -> None:
        self.flown = flown

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.flown),)


def plant(path: Path, flown: Path, *, by: str = "torch") -> Path:
    """Writes the canary to a file.

    Args:
        by: `torch` for the archive that torch writes, `legacy` for its older form, `pickle` for
            the bare pickle.
    """
    content: Any = {"model.encoder.embed_tokens.weight": Canary(flown)}
    if by == "pickle":
        path.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=by == "torch")
    return path
