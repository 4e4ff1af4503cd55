"""Which files of a folder go to the Hub, and why the others do not.

files_to_send     the files of a model folder, a run or a checkpoint
staged            the same under one folder, for the upload
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from vaswani.errors import InputError
from vaswani.model_card import CARD

# What loading needs. A second tokenizer is named in tokenizer_config.json.
_MODEL_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "model.safetensors.index.json",
)
_WEIGHTS = re.compile(r"model(-\d+-of-\d+)?\.safetensors")
_CODE = re.compile(r"\w+_vaswani\.py")
# What a run or an average tells of itself.
_RECORDS = (
    "settings.yaml",
    "log.jsonl",
    "scores.json",
    "translations.tsv",
    "test_scores.json",
    "test_translations.tsv",
    "averaged.json",
)
_COMPANIONS = re.compile(r"(LICENSE|NOTICE|CITATION)(\.\w+)?|[^.].*\.(png|svg|jpg|md)")
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".npy", ".npz", ".joblib")
_TRAINING_STATE = re.compile(r"(optimizer|scheduler|scaler|rng_state|trainer_state|ema)\b.*")
_CHECKPOINT = re.compile(r"checkpoint-\d+")
# Files with sentences or entries of vocabularies, where a path may stand in the text.
_TEXTS = re.compile(r"(target_)?tokenizer\.json|.*translations\.tsv|.*\.(py|md|svg)|LICENSE.*")
_BINARY = (".safetensors", ".png", ".jpg")


@dataclass
class Selection:
    """What is sent of a folder.

    Args:
        folder: the folder.
        files: their names, sorted.
        left_out: the other names and why each stays.
        as_checkpoint: whether it has a branch to itself.
    """

    folder: Path
    files: list[str]
    left_out: dict[str, str] = field(default_factory=dict)
    as_checkpoint: bool = False

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum((self.folder / name).stat().st_size for name in self.files)

    def is_text(self, name: str) -> bool:
        """Whether a person could read the file."""
        return not name.endswith(_BINARY)

    def is_record(self, name: str) -> bool:
        """Whether the file tells of the model alone and holds no text of a corpus."""
        return name == CARD or not _TEXTS.fullmatch(name)

    def is_replaceable(self, name: str) -> bool:
        """Whether a file of this name on the Hub tells of an earlier model, if it is not sent."""
        if self.as_checkpoint:
            # The branch may have begun with all that the main one held.
            return name not in (CARD, ".gitattributes")
        own = name in (*_MODEL_FILES, *_RECORDS)
        return own or bool(_WEIGHTS.fullmatch(name) or _CODE.fullmatch(name))


def files_to_send(
    folder: Path, leave_out: Sequence[str] = (), *, as_checkpoint: bool = False
) -> Selection:
    """Chooses by name the files that a model consists of, its records and its pictures.

    Args:
        folder: a model folder, a run or one of its checkpoints.
        leave_out: names to leave out besides; not those that loading needs.
        as_checkpoint: leave out the records too, which are those of the finished model.

    Raises:
        InputError: if one to leave out is needed or not there.
    """
    needed = {*_MODEL_FILES, CARD, *_second_tokenizers(folder)}
    names = sorted(entry.name for entry in folder.iterdir())
    for name in leave_out:
        if name not in names:
            raise InputError(f"`leave_out` must name files of {folder}, got {name!r}.")
        if name in needed or _WEIGHTS.fullmatch(name) or _CODE.fullmatch(name):
            raise InputError(f"`leave_out` must not name what loading needs, got {name}.")
    selection = Selection(folder, [], as_checkpoint=as_checkpoint)
    for name in names:
        own = name in needed or bool(_WEIGHTS.fullmatch(name) or _CODE.fullmatch(name))
        if not as_checkpoint:
            own = own or name in _RECORDS or bool(_COMPANIONS.fullmatch(name))
        if own and (folder / name).is_file() and _is_text(name) and name not in leave_out:
            selection.files.append(name)
        else:
            shown = name.encode("utf-8", "backslashreplace").decode()
            selection.left_out[shown] = _reason(folder / name, name in leave_out)
    return selection


def _is_text(name: str) -> bool:
    """Whether a file name is valid Unicode, which the Hub's names must be."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _reason(path: Path, is_named: bool) -> str:
    if is_named:
        return "you leave it out"
    if not _is_text(path.name):
        return "its name is not in UTF-8"
    if _CHECKPOINT.fullmatch(path.name):
        return "a checkpoint: --checkpoints sends it"
    if _TRAINING_STATE.fullmatch(path.name):
        return "state of training"
    if path.suffix in _PICKLES:
        return "a pickle or array: reading one can run code"
    if path.is_dir():
        return "a folder"
    return "no part of a model"


def _second_tokenizers(folder: Path) -> set[str]:
    try:
        settings = json.loads((folder / "tokenizer_config.json").read_bytes())
    except (OSError, ValueError):
        return set()
    values = settings.values() if isinstance(settings, dict) else ()
    return {x for x in values if isinstance(x, str) and re.fullmatch(r"[\w-]+\.json", x)}


@contextmanager
def staged(selection: Selection, card: str | None) -> Iterator[Path]:
    """Gives a folder that holds links to the files, and the card in its own words.

    Args:
        card: text of the card; `None` leaves it out.
    """
    with tempfile.TemporaryDirectory(prefix="vaswani-push-") as stage:
        for name in selection.files:
            if name == CARD:
                continue
            source, link = (selection.folder / name).absolute(), Path(stage) / name
            try:
                os.symlink(source, link)
            except OSError:  # where links are not allowed
                shutil.copyfile(source, link)
        if card is not None:
            (Path(stage) / CARD).write_text(card, encoding="utf-8", newline="\n")
        yield Path(stage)
