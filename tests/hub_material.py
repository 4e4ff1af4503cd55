"""Stand-ins for a saved model folder and its card, and the client turned to a server of ours."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hub_server import TOKEN, HubServer
from huggingface_hub import constants
from safetensors.torch import save_file

from vaswani.model_card import write_model_card


def write_stand_in(folder: Path) -> Path:
    """A folder of the form that `save_pretrained` writes, with stand-ins for code and weights."""
    files: dict[str, object] = {
        "config.json": {
            "auto_map": {
                "AutoConfig": "configuration_vaswani.VaswaniConfig",
                "AutoModel": "modeling_vaswani.VaswaniModel",
                "AutoModelForSeq2SeqLM": "modeling_vaswani.VaswaniForConditionalGeneration",
            }
        },
        "generation_config.json": {"num_beams": 4},
        "tokenizer.json": {"version": "1.0"},
        "tokenizer_config.json": {
            "auto_map": {"AutoTokenizer": ["tokenization_vaswani.VaswaniTokenizer", None]}
        },
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    save_file({"weight": torch.zeros(2)}, folder / "model.safetensors")
    code = {
        "configuration_vaswani": "class VaswaniConfig: ...",
        "loss_vaswani": "def loss(): ...",
        "modeling_vaswani": (
            "from .configuration_vaswani import VaswaniConfig\nfrom .loss_vaswani import loss\n"
            "class VaswaniModel: ...\nclass VaswaniForConditionalGeneration: ...\n"
        ),
        "tokenization_vaswani": "class VaswaniTokenizer: ...",
    }
    for name, text in code.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def edit_json(path: Path, **changes: object) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | changes), encoding="utf-8")


def write_ready_card(folder: Path, **changes: Any) -> str:
    """Writes a card that lacks nothing, and gives its text."""
    facts: dict[str, Any] = {
        "data": {"source": "en", "target": "de", "corpora": "letters.tsv"},
        "settings": {"preset": "tiny", "updates": 150},
        "compute": {"device": "a processor", "wall time": "1.0 minutes"},
        "scores": {"bleu": 23.5, "bleu_signature": "nrefs:1|case:mixed", "chrf": 50.0},
        "license": "cc-by-4.0",
    }
    return write_model_card(folder, **{**facts, **changes}).read_text(encoding="utf-8")


@contextmanager
def client_of(server: HubServer, cache: Path, token: str | None = TOKEN) -> Iterator[None]:
    """The real client of this process, turned to the server; what it read at import is replaced."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "ENDPOINT", server.url)
        address = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address)
        patch.setattr(constants, "HF_HUB_CACHE", str(cache))
        patch.setattr(constants, "HF_TOKEN_PATH", str(cache / "no-token"))
        patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        # Waiting between attempts is the client's business and was not changed here.
        patch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
        patch.delenv("HF_TOKEN", raising=False)
        if token is not None:
            patch.setenv("HF_TOKEN", token)
        yield


def environment_of(server: HubServer, home: Path) -> dict[str, str]:
    """The environment of another interpreter, whose client has nothing but it to go by."""
    return {
        **os.environ,
        "HF_ENDPOINT": server.url,
        "HF_TOKEN": TOKEN,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_OFFLINE": "0",
        "PYTHONPATH": str(Path(__file__).resolve().parent.parent),
    }
