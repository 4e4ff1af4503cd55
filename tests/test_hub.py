"""`vaswani.hub`: what a saved folder must hold."""

import json
import re
from pathlib import Path

import pytest
from hub_material import edit_json, write_stand_in

from vaswani.errors import InputError
from vaswani.hub import check_self_contained


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_stand_in(tmp_path)


def test_a_complete_folder_passes(folder: Path) -> None:
    check_self_contained(folder)


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "configuration_vaswani.py",
        "modeling_vaswani.py",
        "loss_vaswani.py",
        "tokenization_vaswani.py",
    ],
)
def test_each_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(InputError, match=rf"{re.escape(name)} is missing") as caught:
        check_self_contained(folder)
    assert "\n" not in str(caught.value)


def test_all_missing_files_are_named_at_once(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "loss_vaswani.py").unlink()
    with pytest.raises(InputError, match=r"model\.safetensors is missing; loss_vaswani\.py is mis"):
        check_self_contained(folder)


@pytest.mark.parametrize("name", ["AutoConfig", "AutoModel", "AutoModelForSeq2SeqLM"])
def test_each_missing_class_of_auto_map_is_named(folder: Path, name: str) -> None:
    auto_map = json.loads((folder / "config.json").read_text(encoding="utf-8"))["auto_map"]
    del auto_map[name]
    edit_json(folder / "config.json", auto_map=auto_map)
    with pytest.raises(InputError, match=rf"`auto_map` of config.json has no {name}[;.]"):
        check_self_contained(folder)


def test_tokenizer_without_code_is_refused(folder: Path) -> None:
    edit_json(folder / "tokenizer_config.json", auto_map=None)
    with pytest.raises(InputError, match=r"tokenizer_config.json has no AutoTokenizer"):
        check_self_contained(folder)


def test_code_of_another_repository_is_refused(folder: Path) -> None:
    entry = ["someone/other--tokenization_vaswani.VaswaniTokenizer", None]
    edit_json(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": entry})
    with pytest.raises(InputError, match=r"code of another repository \(someone/other--"):
        check_self_contained(folder)


def test_class_that_its_file_does_not_hold_is_refused(folder: Path) -> None:
    (folder / "tokenization_vaswani.py").write_text("class Other: ...", encoding="utf-8")
    with pytest.raises(InputError, match=r"tokenization_vaswani\.py has no class VaswaniTokenizer"):
        check_self_contained(folder)


@pytest.mark.parametrize(
    "line",
    [
        "import vaswani",
        "from vaswani.errors import X",
        "try:\n  import vaswani.data\nexcept E: ...",
    ],
)
def test_code_that_imports_the_package_is_refused(folder: Path, line: str) -> None:
    (folder / "loss_vaswani.py").write_text(line, encoding="utf-8")
    with pytest.raises(InputError, match=r"loss_vaswani\.py imports the package `vaswani` in line"):
        check_self_contained(folder)


def test_pipeline_code_must_be_there_when_config_names_it(folder: Path) -> None:
    pipelines = {"translation": {"impl": "pipeline_vaswani.VaswaniPipeline"}}
    edit_json(folder / "config.json", custom_pipelines=pipelines)
    with pytest.raises(InputError, match=r"pipeline_vaswani\.py is missing"):
        check_self_contained(folder)


def test_second_tokenizer_must_be_there_when_it_is_named(folder: Path) -> None:
    edit_json(folder / "tokenizer_config.json", target_tokenizer_file="target_tokenizer.json")
    with pytest.raises(InputError, match=r"target_tokenizer\.json is missing, which tokenizer_con"):
        check_self_contained(folder)


def test_cut_off_weights_are_refused(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-4])
    with pytest.raises(InputError, match=r"model\.safetensors cannot be read"):
        check_self_contained(folder)


def test_every_shard_must_be_there(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": shards}), encoding="utf-8")
    with pytest.raises(
        InputError, match=r"got \S+: model-00002-of-00002\.safetensors is missing\."
    ):
        check_self_contained(folder)


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"`folder` must be an existing .*nowhere"):
        check_self_contained(tmp_path / "nowhere")
