"""Opens a model folder for use, after checking that its parts are there and belong together.

    open_model            a folder's model and tokenizer

What `from_pretrained` would only warn about (weights that are missing, a tokenizer with more
entries than the model has rows) is refused here, in one line that names the folder.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from vaswani.configuration_vaswani import VaswaniConfig
from vaswani.errors import InputError
from vaswani.modeling_vaswani import VaswaniForConditionalGeneration

_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")


def open_model(
    folder: str | Path, *, dtype: torch.dtype = torch.float32
) -> tuple[VaswaniForConditionalGeneration, PreTrainedTokenizerBase]:
    """The model and the tokenizer of a folder.

    Args:
        folder: what `save_pretrained` of both, or `vaswani train`, wrote.
        dtype: number format of the weights in memory.

    Raises:
        InputError: if a part is missing or damaged, or the parts do not fit each other.
        FileNotFoundError: if there is no such folder.
    """
    folder = Path(folder)
    _check_parts(folder)
    try:
        config = VaswaniConfig.from_pretrained(folder)
        loaded: Any = VaswaniForConditionalGeneration.from_pretrained(
            folder, config=config, dtype=dtype, output_loading_info=True
        )
        model, found = loaded
    except (SafetensorError, RuntimeError, OSError) as error:
        raise InputError(
            f"`model` must be a folder with intact weights, got {folder}: {_one_line(error)}"
        ) from error
    missing = sorted(found["missing_keys"])
    if missing:
        raise InputError(
            f"`model` must be a folder with all weights, got {folder}, which lacks {missing[0]}"
            + (f" and {len(missing) - 1} more." if len(missing) > 1 else ".")
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, config=config)
    except Exception as error:  # tokenizers raises plain Exception for a damaged file
        raise InputError(
            f"`model` must be a folder with an intact tokenizer, got {folder}: {_one_line(error)}"
        ) from error
    _check_sizes(folder, config, tokenizer)
    return model, tokenizer


def _check_parts(folder: Path) -> None:
    if not folder.exists():
        raise FileNotFoundError(f"`model` must be an existing folder, got {folder}.")
    if not folder.is_dir():
        raise InputError(f"`model` must be a folder, got the file {folder}. Name its folder.")
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
        settings = json.loads((folder / "config.json").read_bytes())
    except ValueError as error:
        raise InputError(f"{folder / 'config.json'} must be JSON, got: {error}.") from error
    kind = settings.get("model_type") if isinstance(settings, dict) else None
    if kind != VaswaniConfig.model_type:
        raise InputError(
            f"`model` must be a folder of a {VaswaniConfig.model_type} model, got {folder}, "
            f"whose `model_type` is {kind!r}."
        )


def _check_sizes(folder: Path, config: VaswaniConfig, tokenizer: PreTrainedTokenizerBase) -> None:
    entries = max(tokenizer.get_vocab().values()) + 1
    if entries > config.source_vocab_size:
        raise InputError(
            f"the tokenizer of {folder} must have at most as many entries as the model's table, "
            f"got {entries} and {config.source_vocab_size}. Use the tokenizer that the model was "
            "trained with, or call `model.resize_token_embeddings` and train on."
        )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
