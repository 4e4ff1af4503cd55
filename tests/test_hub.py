"""`vaswani.hub`: what a saved folder must hold, and a card that any text survives in."""

import json
import re
import sys
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from vaswani import hub
from vaswani.errors import InputError
from vaswani.hub import check_self_contained
from vaswani.model_card import write_model_card

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
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
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    save_file({"weight": torch.zeros(2)}, tmp_path / "model.safetensors")
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
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


def edit_json(path: Path, **changes: object) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | changes), encoding="utf-8")


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
    with pytest.raises(FileNotFoundError, match=r"`folder` must be an existing .*nowhere"):
        write_model_card(tmp_path / "nowhere", data={}, settings={}, scores={})


def test_card_has_the_metadata_that_the_hub_reads(folder: Path) -> None:
    path = write_model_card(
        folder,
        data={"source": "en", "target": "de", "name": "letters"},
        settings={"preset": "small"},
        scores={"bleu": 23.5, "bleu_signature": SIGNATURE, "chrf": 50, "loss": 2.0},
        name="letters-en-de",
        license="cc-by-4.0",
        datasets=["someone/letters"],
    )
    card = ModelCard.load(path)
    assert path == folder / "README.md"
    assert card.data.language == ["en", "de"]
    assert card.data.license == "cc-by-4.0"
    assert card.data.library_name == "transformers"
    assert card.data.datasets == ["someone/letters"]
    assert "translation" in card.data.tags
    found = {result.metric_type: result for result in card.data.eval_results}
    assert set(found) == {"bleu", "chrf"}
    assert found["bleu"].metric_value == 23.5
    assert found["bleu"].metric_args == {"signature": SIGNATURE}
    assert found["chrf"].dataset_name == "letters"


def test_card_states_no_license_unless_one_is_given(folder: Path) -> None:
    card = ModelCard.load(write_model_card(folder, data={}, settings={}, scores={}))
    assert card.data.license is None
    assert "No license has been stated" in card.text


def test_card_without_scores_or_languages_loads(folder: Path) -> None:
    card = ModelCard.load(write_model_card(folder, data={}, settings={}, scores={}))
    assert card.data.language is None
    assert card.data.eval_results is None
    assert "Not evaluated." in card.text


@pytest.mark.parametrize("has_pipeline", [False, True])
def test_pipeline_tag_only_where_a_pipeline_can_load_it(folder: Path, has_pipeline: bool) -> None:
    """transformers 5 has no `translation` task of its own: the tag alone makes it raise."""
    if has_pipeline:
        pipelines = {"translation": {"impl": "pipeline_vaswani.VaswaniPipeline"}}
        edit_json(folder / "config.json", custom_pipelines=pipelines)
    card = ModelCard.load(write_model_card(folder, data={}, settings={}, scores={}))
    assert card.data.pipeline_tag == ("translation" if has_pipeline else None)


@settings(max_examples=40, deadline=None)
@given(text=st.text(st.characters(codec="utf-8"), min_size=1, max_size=30))
@example(text="\x85")
@example(text="a\x85b\u2028c")
def test_any_value_leaves_the_card_whole(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    """Values come from file names and flags: they may hold YAML, Markdown or template syntax."""
    folder = tmp_path_factory.mktemp("card")
    path = write_model_card(
        folder,
        data={"source": text, "file": text},
        settings={text: text},
        scores={"bleu": 1.0, "bleu_signature": text},
        name=text,
        limitations=[text],
    )
    card = ModelCard.load(path)
    assert card.data.model_name == text.replace("\x85", " ")
    rows = [line for line in card.text.splitlines() if re.match(r"\| (file|BLEU) \|", line)]
    assert len(rows) == 2
    # Two cells: three bars that are not escaped.
    assert all(len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 3 for row in rows)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a|b_c*d", r"a\|b\_c\*d"),
        ("{{ 7 * 7 }}", r"{{ 7 \* 7 }}"),
        ("one\n# two", "one # two"),
        ("# one", r"\# one"),
        ("1. one", r"1\. one"),
        ("<b>", r"\<b\>"),
        ([1, "x"], "1, x"),
        (0.0006987712, "0.000698771"),
    ],
)
def test_markdown_in_values_is_shown_as_it_is(folder: Path, value: object, shown: str) -> None:
    path = write_model_card(folder, data={"x": value}, settings={}, scores={}, limitations=[])
    assert f"| x | {shown} |" in path.read_text(encoding="utf-8").splitlines()


def test_missing_jinja_names_the_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'vaswani\[train\]'"):
        write_model_card(folder, data={}, settings={}, scores={})


def test_card_code_blocks_are_python(folder: Path) -> None:
    name = '"""\n``` {{ x }}'
    text = write_model_card(folder, data={}, settings={}, scores={}, name=name).read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        compile(block, "card", "exec")


def test_template_is_found_in_a_wheel_and_in_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "vaswani"
    package.mkdir()
    monkeypatch.setattr(hub, "__file__", str(package / "hub.py"))
    assert hub._template_path() == tmp_path / "model_card.md"
    (package / "model_card.md").touch()
    assert hub._template_path() == package / "model_card.md"
