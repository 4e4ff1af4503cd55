"""Folders of other versions: earlier ones load, later ones are told or refused."""

import json
import logging
import re
import shutil
import tomllib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

import vaswani
from vaswani import VaswaniConfig, VaswaniForConditionalGeneration, VaswaniTranslationPipeline
from vaswani import versions_vaswani as versions
from vaswani.checkpoints import average_checkpoints
from vaswani.cli import main
from vaswani.errors import InputError
from vaswani.hub import check_self_contained
from vaswani.model_folder import open_model

PROJECT = Path(__file__).resolve().parent.parent
FIRST = PROJECT / "tests" / "folders" / "first"
TEXTS = ["the boat is red", "a red boat", "where is the old boat ?", "das alte Boot 🛶"]
LATER = versions.FORMAT + 1


@pytest.fixture(autouse=True)
def tell_again() -> None:
    """Each message comes once in a process; here, once in a test."""
    logging.Logger.warning_once.cache_clear()


@pytest.fixture
def later_format(tiny_folder: Path) -> Path:
    return edited(tiny_folder, vaswani_format=LATER, vaswani_version="9.8.7")


def edited(folder: Path, **settings: object) -> Path:
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | settings), encoding="utf-8")
    return folder


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "saved by" in record.getMessage()]


def saved_config(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))


def test_version_of_the_distribution_is_that_of_the_code() -> None:
    """hatchling reads it from the one file that has it."""
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in settings["project"]["dynamic"]
    assert PROJECT / settings["tool"]["hatch"]["version"]["path"] == Path(versions.__file__)
    assert vaswani.__version__ == versions.__version__


def test_every_earlier_format_has_an_upgrade() -> None:
    assert sorted(versions.UPGRADES) == list(range(versions.FORMAT))


def test_saved_folder_tells_version_and_format(tiny_folder: Path) -> None:
    config = saved_config(tiny_folder)
    assert config["vaswani_version"] == vaswani.__version__
    assert config["vaswani_format"] == versions.FORMAT


def test_folder_of_this_version_loads_without_a_word(
    tiny_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tiny_folder)
    assert caplog.text == ""
    # They tell of a file, not of a model, so a model has none.
    assert not hasattr(loaded.config, "vaswani_version")


def test_folder_of_the_first_version_gives_its_numbers(caplog: pytest.LogCaptureFixture) -> None:
    """What the first version computed, and one message that tells of it."""
    expected = load_file(FIRST / "expected.safetensors")
    generated, logits = expected.pop("generated"), expected.pop("logits")
    model, report = AutoModelForSeq2SeqLM.from_pretrained(FIRST, output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    with torch.no_grad():
        torch.testing.assert_close(model(**expected).logits, logits)
    sources = {name: expected[name] for name in ("input_ids", "attention_mask")}
    assert model.generate(**sources, max_new_tokens=8).tolist() == generated.tolist()
    (message,) = told(caplog)
    assert "vaswani (version not recorded) in format 0" in message
    assert f"vaswani {vaswani.__version__}, format {versions.FORMAT}" in message


def test_tokenizer_of_the_first_version_gives_its_ids() -> None:
    expected = load_file(FIRST / "expected.safetensors")["input_ids"]
    tokenizer = AutoTokenizer.from_pretrained(FIRST)
    assert tokenizer(TEXTS, padding=True, return_tensors="pt")["input_ids"].tolist() == (
        expected.tolist()
    )


def test_folder_of_the_first_version_is_saved_in_todays_format(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = AutoModelForSeq2SeqLM.from_pretrained(FIRST)
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(FIRST).save_pretrained(tmp_path)
    check_self_contained(tmp_path)
    assert saved_config(tmp_path)["vaswani_format"] == versions.FORMAT
    caplog.clear()
    logging.Logger.warning_once.cache_clear()
    again = pipeline(model=str(tmp_path), trust_remote_code=True)
    assert again("a red boat") == VaswaniTranslationPipeline(model, again.tokenizer)("a red boat")
    assert told(caplog) == []


def test_folder_of_the_first_version_has_a_pipeline() -> None:
    """It names none; the upgrade does, and the class comes from the package."""
    assert "custom_pipelines" not in saved_config(FIRST)
    translate = pipeline("translation", model=str(FIRST), pipeline_class=VaswaniTranslationPipeline)
    assert set(translate("a red boat")[0]) == {"translation_text"}


@pytest.mark.parametrize("load", [AutoConfig, AutoModel, AutoModelForSeq2SeqLM, VaswaniConfig])
@pytest.mark.parametrize("trust", [None, True])
def test_later_format_is_refused_with_both_numbers(
    later_format: Path, load: type, trust: bool | None
) -> None:
    wanted = rf"at most {versions.FORMAT} .*vaswani {vaswani.__version__}, got {LATER}, .*9\.8\.7"
    with pytest.raises(ValueError, match=wanted + r".*Upgrade the package, or .*trust_remote_code"):
        load.from_pretrained(later_format, trust_remote_code=trust)


@pytest.mark.parametrize("value", [1.0, 0.0, 9.5, True, False, -1, "1", None, [1], {}])
def test_what_is_no_format_is_refused(tiny_folder: Path, value: object) -> None:
    rule = "`vaswani_format` must be a whole number of at least 0"
    edited(tiny_folder, vaswani_format=value)
    with pytest.raises(ValueError, match=rf"^{rule}, got {re.escape(repr(value))}\. Restore "):
        AutoConfig.from_pretrained(tiny_folder)
    with pytest.raises(InputError, match=rule):
        open_model(tiny_folder)


def test_later_format_is_refused_in_one_line_by_commands(
    later_format: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=rf"`vaswani_format` must be at most \d .* got {LATER},"):
        open_model(later_format)
    with pytest.raises(InputError, match=rf"`vaswani_format` must be at most \d .* got {LATER},"):
        average_checkpoints([later_format], tmp_path / "average")
    source = tmp_path / "source.txt"
    source.write_text("a\n", encoding="utf-8")
    assert main(["translate", "--model", str(later_format), "--input", str(source)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not (tmp_path / "average").exists()


def test_later_version_of_this_format_loads_with_one_message(
    tiny_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    edited(tiny_folder, vaswani_version="9.8.7", a_newer_field=3)
    with caplog.at_level(logging.WARNING):
        model = AutoModelForSeq2SeqLM.from_pretrained(tiny_folder)
        AutoConfig.from_pretrained(tiny_folder)
    (message,) = told(caplog)
    assert "vaswani 9.8.7" in message and f"vaswani {vaswani.__version__}" in message
    assert model.config.a_newer_field == 3


@pytest.mark.parametrize("trust", [None, True])
def test_own_classes_win_over_a_folders_code_of_another_version(
    tiny_folder: Path, trust: bool | None, caplog: pytest.LogCaptureFixture
) -> None:
    edited(tiny_folder, vaswani_version="9.8.7")
    for name in ("configuration_vaswani.py", "modeling_vaswani.py"):
        (tiny_folder / name).write_text("raise AssertionError('was run')\n", encoding="utf-8")
    model = AutoModelForSeq2SeqLM.from_pretrained(tiny_folder, trust_remote_code=trust)
    assert type(model) is VaswaniForConditionalGeneration
    (message,) = told(caplog)
    assert "saved by vaswani 9.8.7" in message


def test_average_of_checkpoints_of_two_versions_is_possible(
    tiny_folder: Path, tmp_path: Path
) -> None:
    """The version tells who saved a checkpoint, not what model it is."""
    shutil.copytree(tiny_folder, tmp_path / "other")
    edited(tmp_path / "other", vaswani_version="0.0.9")
    average_checkpoints([tiny_folder, tmp_path / "other"], tmp_path / "average")
    check_self_contained(tmp_path / "average")
