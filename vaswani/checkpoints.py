"""Averages of checkpoints: one model from the last ones of a run.

    last_checkpoints       the newest checkpoints of a run
    average_checkpoints    a complete model folder with the average of several
    average_weights        the average alone

Source: Section 6.1: the last 5 checkpoints for the base models, the last 20 for the big ones.

Only safetensors files are read, one tensor at a time, so that no code of a file runs and twenty
checkpoints need hardly more memory than one.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import save_file
from torch import Tensor

from vaswani.checkpoint_files import (
    LAST_FILE,
    WEIGHTS,
    Checkpoint,
    check_same_model,
    find_checkpoints,
    open_checkpoint,
    updates_of,
)
from vaswani.errors import InputError
from vaswani.hub import check_self_contained
from vaswani.model_card import write_model_card
from vaswani.output_folder import check_free, written_aside
from vaswani.wording import counted

# Says what a folder is the average of; a folder without it is never overwritten.
RECORD = "averaged.json"
# What a model folder consists of beside its weights, and what else may lie there under such names.
_MODEL_FILES = (".json", ".py", ".txt", ".model", ".jinja")
_OTHER_FILES = (LAST_FILE, RECORD, "scores.json", f"{WEIGHTS}.index.json")


def last_checkpoints(run: str | Path, count: int) -> list[Path]:
    """The newest checkpoints of a run's folder, the oldest of them first.

    Args:
        run: folder with `checkpoint-N` folders, N in updates.
        count: how many.

    Raises:
        FileNotFoundError: if there is no such folder.
        InputError: if it has fewer checkpoints than `count`, or `count` is below 1.
    """
    if count < 1:
        raise InputError(f"`last` must be at least 1, got {count}.")
    run = Path(run)
    if not run.is_dir():
        raise FileNotFoundError(f"`run` must be the folder of a training run, got {run}.")
    found = find_checkpoints(run)
    if len(found) < count:
        raise InputError(
            f"`last` must be at most the number of checkpoints in the run, got {count}, and {run} "
            f"has {len(found)}. Train with `--save-total-limit` or `--average-last` to keep more."
        )
    return found[-count:]


def average_checkpoints(
    folders: Sequence[str | Path], output: str | Path, *, overwrite: bool = False
) -> Path:
    """Writes a model whose weights are the average of several checkpoints.

    The folder is complete: weights in the number format of the checkpoints; config, search
    settings, tokenizer and code of the newest one; a model card and `averaged.json`, which name
    the checkpoints. It appears whole or not at all.

    Args:
        folders: model folders or checkpoints of one run, in any order.
        output: the folder to write, new or empty.
        overwrite: replace an earlier average in `output`.

    Returns:
        The path of the folder.

    Raises:
        FileNotFoundError: if one of the folders does not exist.
        InputError: if there is none, one is unfinished, damaged or stored as a pickle, they are
            not of one model, or the output is taken. The message names what differs.
        ImportError: if jinja2 is not installed, which writes the model card.
    """
    output = Path(output)
    checkpoints = _open_all(folders)
    _check_output(output, checkpoints, overwrite)
    newest = checkpoints[-1]
    check_self_contained(newest.folder)
    run = _run_settings(newest.folder)
    with written_aside(output) as aside:
        for file in newest.folder.iterdir():
            if file.suffix in _MODEL_FILES and file.name not in _OTHER_FILES and file.is_file():
                shutil.copyfile(file, aside / file.name)
        names = [f"{c.folder.resolve().parent.name}/{c.folder.name}" for c in checkpoints]
        record = json.dumps({"checkpoints": names}, indent=2, ensure_ascii=False)
        (aside / RECORD).write_text(record + "\n", encoding="utf-8", newline="\n")
        write_model_card(
            aside,
            data=_data(run),
            settings={"weights": _in_words(checkpoints), "checkpoints": names},
            scores={},
            name=output.absolute().name,
            license=str(run["license"]) if run.get("license") else None,
        )
        # Last, as all else that may fail takes no time.
        save_file(_average(checkpoints), aside / WEIGHTS, metadata={"format": "pt"})
    return output


def average_weights(folders: Sequence[str | Path]) -> dict[str, Tensor]:
    """The average of the stored tensors of several checkpoints, by name, on the CPU.

    A table that several modules share is stored once and averaged once.

    Args:
        folders: as for `average_checkpoints`, with the same errors.
    """
    return _average(_open_all(folders))


def _open_all(folders: Sequence[str | Path]) -> list[Checkpoint]:
    """The checkpoints by their names, so that the order of the arguments cannot show in a sum."""
    if isinstance(folders, str | Path):
        raise InputError(f"`checkpoints` must be a list of folders, got {str(folders)!r}.")
    if not folders:
        raise InputError("`checkpoints` must name at least 1 folder, got none.")
    paths = [Path(folder) for folder in folders]
    resolved = [path.resolve() for path in paths]
    for path, place in zip(paths, resolved, strict=True):
        if resolved.count(place) > 1:
            raise InputError(f"`checkpoints` must be different folders, got {path} twice.")
    paths.sort(key=lambda path: (updates_of(path), path.resolve()))
    checkpoints = [open_checkpoint(path) for path in paths]
    for other in checkpoints[1:]:
        check_same_model(checkpoints[0], other)
    return checkpoints


def _average(checkpoints: list[Checkpoint]) -> dict[str, Tensor]:
    """The mean of each tensor, summed in float64 in the order of the checkpoints."""
    return {name: _average_tensor(name, checkpoints) for name in sorted(checkpoints[0].files)}


def _average_tensor(name: str, checkpoints: list[Checkpoint]) -> Tensor:
    first = checkpoints[0].tensor(name)
    if not first.is_floating_point():
        if any(not torch.equal(first, other.tensor(name)) for other in checkpoints[1:]):
            raise InputError(
                f"`checkpoints` must agree on tensors of whole numbers, got {name} with other "
                "values. Average checkpoints of one run."
            )
        return first
    # Sums of float32 in float64 are exact but for extreme ranges: one rounding, at the end.
    total = torch.zeros(first.shape, dtype=torch.float64)
    for checkpoint in checkpoints:
        tensor = checkpoint.tensor(name)
        if not tensor.isfinite().all():
            raise InputError(
                f"`checkpoints` must hold finite weights, got {checkpoint.folder}, where {name} "
                "is not. The run diverged: leave that checkpoint out."
            )
        total += tensor
    return (total / len(checkpoints)).to(first.dtype)


def _check_output(output: Path, checkpoints: list[Checkpoint], overwrite: bool) -> None:
    """Refuses an output that holds anything but an earlier average given up by `overwrite`."""
    if not check_free(output, "output", kind="average", mark=RECORD, overwrite=overwrite):
        return
    for checkpoint in checkpoints:
        if checkpoint.folder.resolve().is_relative_to(output.resolve()):
            raise InputError(
                f"`output` must not hold a checkpoint to average, got {output}. Choose another."
            )


def _run_settings(checkpoint: Path) -> dict[str, Any]:
    """The settings of the run that a checkpoint is of; empty where there are none."""
    for run in (checkpoint, checkpoint.resolve().parent):
        try:
            settings = yaml.safe_load((run / "settings.yaml").read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError):
            continue
        if isinstance(settings, dict):
            return settings
    return {}


def _data(settings: dict[str, Any]) -> dict[str, Any]:
    """What the settings of a run tell of its data, for the model card."""
    languages = ("source", "target")
    data: dict[str, Any] = {name: settings[name] for name in languages if name in settings}
    words = settings.get("data")
    if isinstance(words, list):
        # Not their folders, which are nobody's business.
        parts = [part for word in words for part in str(word).split(",")]
        data["corpora"] = ", ".join(Path(part).name for part in parts)
    if settings.get("data_licenses"):
        data["licenses of the corpora"] = settings["data_licenses"]
    return data


def _in_words(checkpoints: list[Checkpoint]) -> str:
    if len(checkpoints) == 1:
        return "those of 1 checkpoint"
    return f"average of {counted(len(checkpoints), 'checkpoint')}"
