"""Opens a model folder for use, after checking that its parts are there and belong together.

    open_model            a folder's model and tokenizer
    open_tokenizer        its tokenizer alone
    check_same_vocabulary whether several folders may translate as one
    check_rows            whether a tokenizer gives only ids that a model knows
    checked_device        where to compute

What `from_pretrained` would only warn about (weights that are missing, a tokenizer with more
entries than the model has rows) is refused here, in one line that names the folder.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from vaswani.configuration_vaswani import VaswaniConfig
from vaswani.errors import InputError
from vaswani.generation_vaswani import check_search_settings
from vaswani.hub_download import local_folder
from vaswani.modeling_vaswani import VaswaniForConditionalGeneration
from vaswani.tokenization_vaswani import check_entries
from vaswani.weight_files_vaswani import refuse_pickles

_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
# What transformers raises for fields of a config.json that are nonsense, or that ask for what is
# not installed: it looks at few of them before it uses them.
_UNUSABLE = (ValueError, TypeError, AttributeError, LookupError, ImportError)


def open_model(
    folder: str | Path, *, dtype: torch.dtype = torch.float32, revision: str | None = None
) -> tuple[VaswaniForConditionalGeneration, PreTrainedTokenizerBase]:
    """The model and the tokenizer of a folder.

    Args:
        folder: what `save_pretrained` of both, or `vaswani train`, wrote; or the name of a model
            on the Hub, `user/name`.
        dtype: number format of the weights in memory.
        revision: branch, tag or commit of a model on the Hub; `None` is main.

    Raises:
        InputError: if a part is missing or damaged, the parts do not fit each other, or the Hub
            does not have the model.
        FileNotFoundError: if there is no such folder.
    """
    folder = local_folder(folder, revision=revision)
    _check_parts(folder)
    _check_search(folder / "generation_config.json")
    config = _open_config(folder)
    try:
        with _quiet_loading():
            loaded: Any = VaswaniForConditionalGeneration.from_pretrained(
                folder,
                config=config,
                dtype=dtype,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
            )
        model, found = loaded
    except (SafetensorError, RuntimeError, OSError) as error:
        raise InputError(
            f"`model` must be a folder with intact weights, got {folder}: {_one_line(error)}"
        ) from error
    except _UNUSABLE as error:
        raise InputError(
            f"`model` must be a folder with a usable config.json, got {folder}: {_one_line(error)}"
        ) from error
    for name, stored, expected in sorted(found["mismatched_keys"]):
        raise InputError(
            f"`model` must be a folder whose weights fit its config.json, got {folder}, where "
            f"{name} is {tuple(stored)} and the config says {tuple(expected)}."
        )
    missing = sorted(found["missing_keys"])
    if missing:
        raise InputError(
            f"`model` must be a folder with all weights, got {folder}, which lacks {missing[0]}"
            + (f" and {len(missing) - 1} more." if len(missing) > 1 else ".")
        )
    tokenizer = open_tokenizer(folder, setting="model", config=config)
    check_rows(config, tokenizer, f"the tokenizer of {folder}")
    _complete_search(folder, model)
    return model, tokenizer


def check_same_vocabulary(folders: Sequence[str | Path]) -> None:
    """Refuses folders whose tokenizers give different ids.

    Raises:
        InputError: if they do, or if there is no folder.
    """
    if not folders:
        raise InputError("`model` must name at least one folder, got none.")
    first, *others = map(Path, folders)
    if not others:
        return
    for name in ("tokenizer.json", "target_tokenizer.json"):
        wanted = _vocabulary_of(first / name)
        for folder in others:
            if _vocabulary_of(folder / name) != wanted:
                raise InputError(
                    f"`model` must be folders with the same vocabulary, got {first} and {folder}, "
                    f"whose {name} differ. Train them with one tokenizer."
                )


def _vocabulary_of(path: Path) -> Any:
    """What decides the ids in a tokenizer's file; `None` where `open_model` will complain."""
    try:
        settings = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return settings.get("model") if isinstance(settings, dict) else None


def _check_parts(folder: Path) -> None:
    if not folder.exists():
        raise FileNotFoundError(f"`model` must be an existing folder, got {folder}.")
    if not folder.is_dir():
        raise InputError(f"`model` must be a folder, got the file {folder}. Name its folder.")
    try:
        refuse_pickles(folder)
    except OSError as error:
        raise InputError(f"`model`: {error}") from error
    remedy = "Make one with `vaswani train` or `save_pretrained`."
    runs = sorted(path.name for path in folder.glob("checkpoint-*") if path.is_dir())
    if runs:
        remedy = f"Its checkpoints may be whole: try {folder / runs[-1]}."
    needed = [("config.json",), _WEIGHTS, ("tokenizer.json",)]
    for names in needed:
        if not any((folder / name).is_file() for name in names):
            raise InputError(
                f"`model` must be a folder with {names[0]}, got {folder}, which has none. {remedy}"
            )
    try:
        # As transformers reads it: from bytes json would take a BOM and other encodings too.
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{folder / 'config.json'} must be JSON, got: {error}.") from error
    kind = settings.get("model_type") if isinstance(settings, dict) else None
    if kind != VaswaniConfig.model_type:
        raise InputError(
            f"`model` must be a folder of a {VaswaniConfig.model_type} model, got {folder}, "
            f"whose `model_type` is {kind!r}."
        )


def _open_config(folder: Path) -> VaswaniConfig:
    try:
        return VaswaniConfig.from_pretrained(folder)
    except (StrictDataclassError, OSError, *_UNUSABLE) as error:
        raise InputError(
            f"`model` must be a folder with a valid config.json, got {folder}: {_one_line(error)}"
        ) from error


def check_rows(
    config: VaswaniConfig, tokenizer: PreTrainedTokenizerBase, name: str = "`tokenizer`"
) -> None:
    """Raises if the tokenizer can give ids that the model's tables have no row for.

    Args:
        config: the model's.
        tokenizer: of one side or of both.
        name: what to call the tokenizer in the message.

    Raises:
        InputError: with both numbers.
    """
    try:
        check_entries(config, tokenizer, name)
    except ValueError as error:
        raise InputError(str(error)) from error


def _check_search(path: Path) -> None:
    """Refuses a file of search settings that transformers would ignore without a word."""
    if not path.is_file():
        return
    try:
        settings = json.loads(path.read_bytes())
    except ValueError as error:
        raise InputError(f"{path} must be JSON, got: {error}.") from error
    if not isinstance(settings, dict):
        raise InputError(f"{path} must hold one JSON object, got {type(settings).__name__}.")


def _complete_search(folder: Path, model: VaswaniForConditionalGeneration) -> None:
    """Takes ids that the search settings lack from the config; checks them all."""
    settings = model.generation_config
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
        if getattr(settings, name, None) is None:
            setattr(settings, name, getattr(model.config, name))
    try:
        check_search_settings(settings)
    except ValueError as error:
        raise InputError(f"{folder / 'generation_config.json'}: {error}") from error


def open_tokenizer(folder: str | Path, *, setting: str = "tokenizer", **others: Any) -> Any:
    """The tokenizer of a folder, or of a model on the Hub.

    Args:
        folder: the folder, or `user/name`.
        setting: what the message calls the folder.
        others: of `AutoTokenizer.from_pretrained`.

    Raises:
        InputError: if it is damaged.
        FileNotFoundError: if there is none.
    """
    folder = local_folder(folder, setting=setting)
    if not (folder / "tokenizer.json").is_file():
        raise FileNotFoundError(
            f"`{setting}` must be a folder with tokenizer.json, got {folder}. "
            "Leave it out to train one."
        )
    try:
        # Without the setting transformers would ask on the terminal whether to run foreign code.
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False, **others)
    except Exception as error:  # tokenizers raises plain Exception for a damaged file
        raise InputError(
            f"`{setting}` must be a folder with an intact tokenizer, got {folder}: "
            f"{_one_line(error)}"
        ) from error


@contextmanager
def _quiet_loading() -> Iterator[None]:
    """Keeps reports of transformers back: what they tell of is refused in one line."""
    verbosity = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers.utils.logging.set_verbosity(verbosity)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def checked_device(name: str | None) -> torch.device:
    """Returns the device of that name; `None` is a GPU where there is one.

    Raises:
        InputError: if torch cannot use it here.
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device).tolist()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(
            f"`device` must be one that torch can use here, got {name!r}. Try cpu."
        ) from error
    return device
