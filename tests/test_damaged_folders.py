"""Model folders with a damaged config.json or index of weights: one line, and no traceback."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from training_material import tiny_model, tokenizer
from transformers import AutoModelForSeq2SeqLM

from vaswani import VaswaniForConditionalGeneration, VaswaniModel
from vaswani.cli import main
from vaswani.errors import InputError
from vaswani.model_folder import open_model

PART = "part.safetensors"
INDEX = "model.safetensors.index.json"
LOADERS: list[Callable[[Path], Any]] = [
    VaswaniForConditionalGeneration.from_pretrained,
    VaswaniModel.from_pretrained,
    AutoModelForSeq2SeqLM.from_pretrained,
]
NAMES = ["ours", "our base", "AutoModelForSeq2SeqLM"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    tiny_model().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A model folder of the test's own."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


def refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line in which Python and the command line refuse the folder."""
    with pytest.raises(InputError) as caught:
        open_model(folder)
    message = str(caught.value)
    assert "\n" not in message and str(folder) in message
    source = tmp_path / "source.txt"
    source.write_text("a\n", encoding="utf-8")
    output = tmp_path / "output.txt"
    words = ["--model", str(folder), "--input", str(source), "--output", str(output)]
    capsys.readouterr()
    assert main(["translate", *words]) == 2
    assert capsys.readouterr().err.splitlines() == [f"vaswani translate: error: {message}"]
    assert not output.exists()
    return message


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("dtype", "nonsense", "nonsense"),
        ("quantization_config", {}, "quant_method"),
        ("quantization_config", "x", "'str' object"),
        ("id2label", "x", "'str' object"),
        ("num_labels", "x", "'str' object"),
        ("attn_implementation", "nope", "attn_implementation"),
        ("_attn_implementation", "nope", "attn_implementation"),
        ("transformers_weights", 3, "'int' object"),
        ("transformers_weights", "../x.safetensors", "transformers_weights"),
    ],
)
def test_field_of_a_config_that_cannot_be_used_is_refused(
    field: str,
    value: object,
    reason: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {field: value}), encoding="utf-8")
    message = refused(folder, tmp_path, capsys)
    assert "config.json" in message and reason in message


def test_attention_that_is_not_installed_is_refused(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(*args: Any, **others: Any) -> None:
        raise ImportError("FlashAttention2 has been toggled on,\nbut it cannot be used")

    monkeypatch.setattr(
        VaswaniForConditionalGeneration, "_check_and_adjust_attn_implementation", missing
    )
    message = refused(folder, tmp_path, capsys)
    assert message.endswith("FlashAttention2 has been toggled on, but it cannot be used")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_config_in_another_encoding_is_refused(
    encoding: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "config.json"
    path.write_bytes(path.read_text(encoding="utf-8").encode(encoding))
    assert "config.json must be JSON, got: " in refused(folder, tmp_path, capsys)


def with_index(folder: Path, content: Any) -> Path:
    """The folder with its weights in a file that an index of this content should name."""
    (folder / "model.safetensors").rename(folder / PART)
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / INDEX).write_text(text, encoding="utf-8")
    return folder


def index_of(place: object) -> dict[str, Any]:
    return {"metadata": {}, "weight_map": dict.fromkeys(tiny_model().state_dict(), place)}


DAMAGED = {
    "empty file": "",
    "cut": json.dumps(index_of(PART))[:-20],
    "list": [],
    "number": 3,
    "without weight_map": {"metadata": {}},
    "without metadata": {"weight_map": {"lm_head.weight": PART}},
    "weight_map is none": {"metadata": {}, "weight_map": None},
    "weight_map is a list": {"metadata": {}, "weight_map": [PART]},
    "no weights": {"metadata": {}, "weight_map": {}},
    "numbers": index_of(3),
    "number and name": {"metadata": {}, "weight_map": {"a": 3, "b": PART}},
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
def test_damaged_index_is_refused(
    content: Any, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(with_index(folder, content), tmp_path, capsys)
    assert message.startswith("`model`: the index of weights must ") and INDEX in message
    for load in LOADERS:
        with pytest.raises(OSError, match=r"^the index of weights must "):
            load(folder)


@pytest.mark.parametrize("load", LOADERS, ids=NAMES)
@pytest.mark.parametrize("way", ["up", "absolute", "below", "backslash", "drive", "..", ".", ""])
def test_index_that_leads_out_of_the_folder_is_refused(
    way: str, load: Callable[[Path], Any], folder: Path, tmp_path: Path
) -> None:
    """The weights are there, so that they would be read."""
    (folder / "below").mkdir()
    for place in (tmp_path, folder / "below"):
        shutil.copy(folder / "model.safetensors", place / PART)
    places = {
        "up": f"../{PART}",
        "absolute": str(tmp_path / PART),
        "below": f"below/{PART}",
        "backslash": f"..\\{PART}",
        "drive": f"C:{PART}",
    }
    with_index(folder, index_of(places.get(way, way)))
    with pytest.raises(OSError, match=r"the index of weights must name files beside it, got "):
        load(folder)
    with pytest.raises(InputError, match=r"^`model`: the index of weights must name files beside"):
        open_model(folder)


def test_index_of_files_beside_it_is_read(folder: Path, saved: Path) -> None:
    expected = open_model(saved)[0].state_dict()
    found = open_model(with_index(folder, index_of(PART)))[0].state_dict()
    for name, value in expected.items():
        assert torch.equal(found[name], value)
