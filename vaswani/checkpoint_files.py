"""One checkpoint on disk: what it holds, whether it is whole, whether another one fits it.

    open_checkpoint       the tensors, config and vocabularies of a folder, checked, not yet read
    check_same_model      refuses two of which an average would be nonsense
    find_checkpoints      those of a run, the oldest first
    updates_of            how many updates a checkpoint is old
    refuse_foreign_states whether a run may go on from a checkpoint

Weights are read from safetensors files only, so that no code of a file runs. The states of
optimizer, schedule and random numbers are pickles of the Trainer: only those that hold nothing but
plain values and tensors are let through.
"""

import json
import pickle
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers.trainer import OPTIMIZER_NAME, SCALER_NAME, SCHEDULER_NAME
from transformers.trainer_pt_utils import safe_globals

from vaswani.configuration_vaswani import VaswaniConfig
from vaswani.errors import InputError
from vaswani.weight_files_vaswani import refuse_pickles

WEIGHTS = "model.safetensors"
# transformers writes it last into a checkpoint.
LAST_FILE = "trainer_state.json"
_NAME = re.compile(r"checkpoint-(\d+)")
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
# Fields of config.json that tell where a model comes from, not what it is.
_ORIGIN = (
    *("_name_or_path", "transformers_version", "vaswani_version", "vaswani_format"),
    *("auto_map", "custom_pipelines"),
)
_TOKENIZERS = ("tokenizer.json", "target_tokenizer.json")
_MOST_NAMED = 8
_STATES = (OPTIMIZER_NAME, SCHEDULER_NAME, SCALER_NAME, "rng_state*.pth")


def find_checkpoints(run: Path) -> list[Path]:
    """The checkpoints in the folder of a run, by their updates."""
    found = (path for path in run.glob("checkpoint-*") if path.is_dir())
    return sorted((path for path in found if updates_of(path) >= 0), key=updates_of)


def updates_of(folder: Path) -> int:
    """The number of updates in the name of a checkpoint; -1 where the name has none."""
    match = _NAME.fullmatch(folder.name)
    return int(match[1]) if match else -1


@dataclass
class Checkpoint:
    """A checked checkpoint; shapes and number formats are in the words of safetensors.

    Args:
        folder: where it is.
        files: the file of each stored tensor.
        shapes: the shape of each.
        dtypes: the number format of each.
        config: the fields of config.json that describe the model.
        vocabularies: of each tokenizer file, what decides the meaning of ids.
    """

    folder: Path
    files: dict[str, Path]
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, str]
    config: dict[str, Any]
    vocabularies: dict[str, Any]

    def tensor(self, name: str) -> Tensor:
        """Reads a stored tensor."""
        with safe_open(self.files[name], framework="pt") as stored:
            return stored.get_tensor(name)


def open_checkpoint(folder: Path) -> Checkpoint:
    """Looks into a model folder or a checkpoint of a run; reads no weights yet.

    Raises:
        FileNotFoundError: if it does not exist.
        InputError: if it is unfinished or damaged, or its weights are in a pickle.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"`checkpoints` must be existing folders, got {folder}.")
    if updates_of(folder) >= 0 and not (folder / LAST_FILE).is_file():
        raise InputError(
            f"`checkpoints` must be finished, got {folder}, which lacks {LAST_FILE}, the file "
            "that is written last. Leave that checkpoint out."
        )
    places, named = _weight_files(folder)
    files: dict[str, Path] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, str] = {}
    for path in places:
        try:
            with safe_open(path, framework="pt") as stored:
                for name in stored.keys():  # noqa: SIM118 (not a mapping)
                    part = stored.get_slice(name)
                    files[name] = path
                    shapes[name], dtypes[name] = tuple(part.get_shape()), part.get_dtype()
        except (OSError, SafetensorError) as error:
            raise InputError(
                f"`checkpoints` must have whole weights, got {folder}, whose {path.name} cannot be "
                f"read ({_one_line(error)}). Leave that checkpoint out."
            ) from error
    lost = sorted(named - set(files))
    if lost:
        raise InputError(
            f"`checkpoints` must have all weights that their index names, got {folder}, which "
            f"lacks {_some(lost)}. Leave that checkpoint out."
        )
    vocabularies = {
        name: _vocabulary(folder / name) for name in _TOKENIZERS if (folder / name).is_file()
    }
    return Checkpoint(folder, files, shapes, dtypes, _config(folder), vocabularies)


def refuse_foreign_states(folder: Path) -> None:
    """Raises InputError where a run that goes on from the checkpoint would read foreign objects.

    The Trainer reads the same files with the same restriction, but later, and its error names none.
    """
    try:
        refuse_pickles(folder)
    except OSError as error:
        raise InputError(f"the checkpoint to go on from: {error}") from error
    for path in (path for pattern in _STATES for path in sorted(folder.glob(pattern))):
        try:
            with safe_globals():
                # Without the numbers of its tensors, which are most of it.
                torch.load(path, map_location="meta", weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, OSError) as error:
            raise InputError(
                f"the state of a training must be whole and hold plain values only, got {path}: "
                "nothing of it was run. Take another checkpoint, or start a new run from the "
                "weights of this one by `model`."
            ) from error


def _weight_files(folder: Path) -> tuple[list[Path], set[str]]:
    """The files with weights, and the names of the tensors where an index gives them."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS], set()
    index = folder / f"{WEIGHTS}.index.json"
    if not index.is_file():
        # A checkpoint has other pickles too, such as its optimizer.
        pickles = sorted(
            path.name
            for path in folder.iterdir()
            if path.suffix in _PICKLES and "model" in path.name
        )
        if pickles:
            raise InputError(
                f"`checkpoints` must have their weights in {WEIGHTS}, got {folder} with "
                f"{pickles[0]}: reading a pickle can run code. Where you trust its author, load "
                "it by `torch.load(..., weights_only=True)` into a model and call "
                "`save_pretrained`."
            )
        raise InputError(
            f"`checkpoints` must have their weights in {WEIGHTS}, got {folder}, which has none. "
            "Leave that folder out."
        )
    places = _read_json(index).get("weight_map")
    if not isinstance(places, dict) or not all(
        isinstance(file, str) and Path(file).name == file for file in places.values()
    ):
        raise InputError(f"{index} must tell the file of each tensor, got no `weight_map`.")
    return [folder / file for file in sorted(set(places.values()))], set(places)


def _config(folder: Path) -> dict[str, Any]:
    """The fields of config.json, those left out with their defaults."""
    stored = _read_json(folder / "config.json")
    if stored.get("model_type") != VaswaniConfig.model_type:
        raise InputError(
            f"`checkpoints` must be of a {VaswaniConfig.model_type} model, got {folder}, whose "
            f"`model_type` is {stored.get('model_type')!r}."
        )
    try:
        fields = VaswaniConfig.from_pretrained(folder).to_dict()
    except (StrictDataclassError, ValueError) as error:
        raise InputError(
            f"`checkpoints` must have a valid config.json, got {folder}: {_one_line(error)}"
        ) from error
    return {name: value for name, value in fields.items() if name not in _ORIGIN}


def _vocabulary(path: Path) -> Any:
    """What decides the meaning of ids; not the state of padding and truncation."""
    settings = _read_json(path)
    return settings.get("model"), settings.get("added_tokens")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(
            f"`checkpoints` must be whole, got {path.parent}, whose {path.name} cannot be read "
            f"({_one_line(error)}). Leave that checkpoint out."
        ) from error
    if not isinstance(content, dict):
        raise InputError(f"{path} must hold one JSON object, got {type(content).__name__}.")
    return content


def check_same_model(one: Checkpoint, other: Checkpoint) -> None:
    """Raises InputError, with all that differs, unless both are of one model."""
    config = [
        f"`{name}` of config.json is {one.config.get(name)!r} and {other.config.get(name)!r}"
        for name in sorted({*one.config, *other.config})
        if one.config.get(name) != other.config.get(name)
    ]
    vocabularies = [
        f"{name} holds another vocabulary"
        for name in sorted({*one.vocabularies, *other.vocabularies})
        if one.vocabularies.get(name) != other.vocabularies.get(name)
    ]
    only_one, only_other = set(one.files) - set(other.files), set(other.files) - set(one.files)
    both = sorted(set(one.files) & set(other.files))
    shapes = [
        f"{name} {one.shapes[name]} and {other.shapes[name]}"
        for name in both
        if one.shapes[name] != other.shapes[name]
    ]
    dtypes = [
        f"{name} {one.dtypes[name]} and {other.dtypes[name]}"
        for name in both
        if one.dtypes[name] != other.dtypes[name]
    ]
    differences = [_some(config), _some(vocabularies)] + [
        f"{what} {_some(names)}"
        for what, names in (
            (f"only {one.folder} has", sorted(only_one)),
            (f"only {other.folder} has", sorted(only_other)),
            ("shapes of", shapes),
            ("number formats of", dtypes),
        )
        if names
    ]
    differences = [text for text in differences if text]
    if differences:
        raise InputError(
            f"`checkpoints` must be of one model, got {one.folder} and {other.folder}, which "
            f"differ: {'; '.join(differences)}. Average checkpoints of one run."
        )


def _some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
