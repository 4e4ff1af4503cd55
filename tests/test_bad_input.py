"""Claims about refusals: one line on stderr before any work, exit code 2, nothing written."""

import runpy
import sys
from pathlib import Path

import pytest

from vaswani.cli import main

ROOT = Path(__file__).parents[1]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "train.tsv"
    path.write_text("one two\teins zwei\n" * 30, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("config-overrides", "d_model=[1", "must have values in YAML or JSON, got '[1'"),
        ("config-overrides", "{d_model", "must have values in YAML or JSON"),
        ("config-overrides", "[1]", "must be name=value"),
        ("config-overrides", "d_model=abc", "`d_model` must be int, got 'abc'"),
        ("config-overrides", "d_model=33", "`d_model` must be a multiple"),
        ("dropout", "1.5", "`dropout` must be a probability"),
        ("vocabulary-size", "3", "must be more than 260"),
        ("learning-rate-factor", "inf", "must be above 0 and finite, got inf"),
        ("max-steps", "0", "must be at least 1, got 0"),
        ("eval-steps", "0", "`eval_steps` must be above 0"),
        ("logging-steps", "0", "`logging_steps` must be above 0"),
        ("gradient-accumulation-steps", "0", "must be at least 1, got 0"),
        ("seed", "-1", "`seed` must be at least 0"),
        ("seed", "4294967296", "`seed` must be at most 4294967295"),
        ("metric-for-best-model", "blue", "must be one of loss, chrf, bleu, got 'blue'"),
        ("report-to", "nonsense", "`report_to` must be none, tensorboard, trackio or another"),
    ],
)
def test_bad_value_of_train_is_one_line_before_any_work(
    corpus: Path, tmp_path: Path, capsys, option: str, value: str, message: str
) -> None:
    output = tmp_path / "run"
    words = ["train", "--data", str(corpus), "--source", "en", "--target", "de"]
    code = main([*words, "--output-dir", str(output), f"--{option}", value])
    error = capsys.readouterr().err
    assert code == 2 and error.count("\n") == 1 and message in error
    assert not output.exists()


def test_output_below_a_file_is_refused_before_the_data_are_read(
    corpus: Path, tmp_path: Path, capsys
) -> None:
    words = ["train", "--data", str(corpus), "--source", "en", "--target", "de"]
    assert main([*words, "--output-dir", str(corpus / "run")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "is a file" in error


@pytest.mark.parametrize("name", ["train", "translate", "evaluate"])
def test_script_finds_packages_that_bear_the_name_of_a_script(
    name: str, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(ROOT / "scripts" / f"{name}.py"), run_name="__main__")
    assert str(ROOT / "scripts") not in sys.path
    assert f"vaswani {name}" in capsys.readouterr().out


def test_help_states_the_default_of_a_field_once(capsys) -> None:
    assert main(["train", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert ") (default:" not in text and "(default: -1)" not in text
