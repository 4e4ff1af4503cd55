"""Weights come from safetensors files alone: a pickle is refused before it is opened.

safetensors_settings   arguments of `from_pretrained` that leave no other way
refuse_pickles         the weights of a folder, by their names, and an index that leads elsewhere
refuse_pickled_files   files that were chosen to be read, whoever chose them

Departs from transformers, which falls back to pickles that torch reads with a restricted
unpickler. That runs no code either as far as is known, but it has been broken before.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

from transformers.utils import (
    ADAPTER_CONFIG_NAME,
    ADAPTER_SAFE_WEIGHTS_NAME,
    ADAPTER_WEIGHTS_NAME,
    SAFE_WEIGHTS_INDEX_NAME,
)

_SAFE = ".safetensors"
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
_REMEDY = (
    "reading a pickle can run code. Where you trust its author, load it by "
    "`torch.load(..., weights_only=True)` into a model and call `save_pretrained`."
)


def safetensors_settings(name: object, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments of `from_pretrained` with which transformers looks for no pickle.

    Args:
        name: a folder, a file, or the name of a model on the Hub.
        settings: the arguments as given.

    Raises:
        ValueError: if they ask for pickles.
        OSError: if a folder or file holds its weights in one.
    """
    for setting, refused in (("use_safetensors", False), ("weights_only", False)):
        if settings.get(setting) is refused:
            raise ValueError(f"`{setting}` must be True or left out, got False: {_REMEDY}")
    if isinstance(name, str | Path):
        path = Path(name, settings.get("subfolder") or "")
        if path.is_dir():
            refuse_pickles(path)
        elif path.is_file() and not settings.get("gguf_file"):
            refuse_pickled_files([path])
    return {**settings, "use_safetensors": True}


def refuse_pickles(folder: Path) -> None:
    """Raises OSError if weights in the folder are in pickles, and none beside them are safe.

    So does an index of weights that is damaged, or that names files outside of the folder.
    """
    files = sorted(path for path in folder.iterdir() if path.is_file())
    index = folder / SAFE_WEIGHTS_INDEX_NAME
    if index.is_file():
        refuse_pickled_files(_shards(index))
    safe = [path for path in files if path.suffix == _SAFE and path.name.startswith("model")]
    if not safe:
        refuse_pickled_files(path for path in files if path.name.startswith(("pytorch_", "model")))
    adapter = folder / ADAPTER_WEIGHTS_NAME
    if (folder / ADAPTER_CONFIG_NAME).is_file() and not (
        folder / ADAPTER_SAFE_WEIGHTS_NAME
    ).is_file():
        refuse_pickled_files([adapter] if adapter.is_file() else [])


def refuse_pickled_files(paths: Iterable[Any]) -> None:
    """Raises OSError for the first path with the name of a pickle."""
    for path in map(Path, paths):
        if path.suffix in _PICKLES:
            raise OSError(f"weights must be in {_SAFE} files, got {path}: {_REMEDY}")


def _shards(index: Path) -> list[Path]:
    """The files that an index of weights names, all of them beside it."""
    remedy = "Save or fetch the folder again."
    try:
        content = json.loads(index.read_text(encoding="utf-8"))
    except ValueError as error:
        raise OSError(
            f"the index of weights must be JSON, got {index}: {error}. {remedy}"
        ) from error
    parts = content if isinstance(content, dict) else {}
    places = parts.get("weight_map")
    if not (isinstance(places, dict) and places and isinstance(parts.get("metadata"), dict)):
        raise OSError(
            "the index of weights must hold the objects `metadata` and `weight_map`, with at least "
            f"one weight, got {index}, which does not. {remedy}"
        )
    for weight, place in places.items():
        if (
            not isinstance(place, str)
            or place in ("", "..")
            or PureWindowsPath(place).name != place
        ):
            raise OSError(
                "the index of weights must name files beside it, got "
                f"{index} with {place!r:.80} for {weight!r:.80}. {remedy}"
            )
    return [index.parent / place for place in sorted(set(places.values()))]


__all__ = ["refuse_pickled_files", "refuse_pickles", "safetensors_settings"]
