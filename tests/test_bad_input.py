"""Claims about refusals: one line on stderr before any work, exit code 2, nothing written."""

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from vaswani.cli import main, presets
from vaswani.training_arguments import VaswaniTrainingArguments
from vaswani.translation import Translator

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
        ("config-overrides", "pad_token_id=5", "the tokenizer settles it"),
        ("dropout", "1.5", "`dropout` must be a probability"),
        ("vocabulary-size", "3", "must be more than 260"),
        ("learning-rate-factor", "inf", "must be finite, got inf"),
        ("max-steps", "0", "must be at least 1, got 0"),
        ("eval-steps", "0", "`eval_steps` must be above 0"),
        ("logging-steps", "0", "`logging_steps` must be above 0"),
        ("gradient-accumulation-steps", "0", "must be at least 1, got 0"),
        ("seed", "-1", "`seed` must be at least 0"),
        ("adam-beta2", "1.0", "`adam_beta2` must be at least 0 and below 1, got 1.0"),
        ("adam-beta1", "-0.1", "`adam_beta1` must be at least 0 and below 1, got -0.1"),
        ("adam-epsilon", "0", "`adam_epsilon` must be above 0, got 0.0"),
        ("max-grad-norm", "-1", "`max_grad_norm` must be at least 0, got -1.0"),
        ("weight-decay", "nan", "`weight_decay` must be at least 0, got nan"),
        ("learning-rate", "-1", "`learning_rate` must be at least 0, got -1.0"),
        ("save-total-limit", "-1", "`save_total_limit` must be at least 0, got -1"),
        ("tokens-per-update", "9" * 20, "`tokens_per_update` must be at most 1000000000, got 999"),
        ("save-steps", "20", "must be a multiple of `eval_steps`, .* got 20 and 1000"),
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
    assert code == 2 and error.count("\n") == 1
    assert message in error or re.search(message, error)
    assert not output.exists()


def test_checkpoints_between_evaluations_by_time_are_refused(
    corpus: Path, tmp_path: Path, capsys
) -> None:
    words = ["train", "--data", str(corpus), "--source", "en", "--target", "de"]
    words += ["--output-dir", str(tmp_path / "run"), "--max-minutes", "5", "--save-steps", "20"]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "got 20 and evaluations by time. Set `eval_steps`" in error


@pytest.mark.parametrize("allocate", [torch.empty, np.empty])
def test_sizes_that_no_memory_holds_are_one_line(allocate, monkeypatch, capsys) -> None:
    """More than an address can tell, so that nothing is ever reserved."""
    monkeypatch.setattr(presets, "run", lambda: allocate(10**16))
    assert main(["presets"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(r"must fit into memory, got [\d.]+ \w+\. Choose smaller ones", error)


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


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("generation_config.json", "{", "generation_config.json must be JSON"),
        ("generation_config.json", "[]", "must hold one JSON object, got list"),
        ("generation_config.json", '{"max_length_b": -3}', "`max_length_b` must be a number"),
        ("config.json", '{"model_type": "vaswani", "d_model": "x"}', "valid config.json"),
        ("config.json", '{"model_type": "vaswani", "d_model": 64}', "whose weights fit"),
    ],
)
def test_damaged_settings_of_a_model_folder_are_one_line(
    tiny_folder: Path, tmp_path: Path, capfd, file: str, text: str, message: str
) -> None:
    (tiny_folder / file).write_text(text, encoding="utf-8")
    source = tmp_path / "source"
    source.write_text("a b\n", encoding="utf-8")
    capfd.readouterr()  # what saving the model drew
    assert main(["translate", "--model", str(tiny_folder), "--input", str(source)]) == 2
    error = capfd.readouterr().err
    assert error.count("\n") == 1 and message in error


def test_search_settings_without_start_token_take_the_models(tiny_folder: Path) -> None:
    whole = Translator.from_pretrained(tiny_folder)
    path = tiny_folder / "generation_config.json"
    path.write_text("{}", encoding="utf-8")
    bare = Translator.from_pretrained(tiny_folder)
    for name in ("decoder_start_token_id", "eos_token_id", "pad_token_id"):
        assert getattr(bare.model.generation_config, name) == getattr(whole.model.config, name)


def test_evaluation_has_the_options_that_its_messages_name(
    tiny_folder: Path, tmp_path: Path, capsys
) -> None:
    data = tmp_path / "data.tsv"
    data.write_bytes(b"a\tb\nno tab\nc\t\xe9\n")
    words = ["evaluate", "--model", str(tiny_folder), "--data", str(data), "--source", "en"]
    words += ["--target", "de", "--encoding", "latin-1", "--num-beams", "1"]
    assert main(words) == 2
    assert "line 2" in capsys.readouterr().err
    assert main([*words, "--bad-lines", "skip"]) == 0
    assert "sentences       2" in capsys.readouterr().out


@pytest.mark.parametrize("others", [[], ["--model"]])
def test_damaged_tokenizer_to_train_with_is_one_line(
    corpus: Path, tiny_folder: Path, tmp_path: Path, capfd, others: list[str]
) -> None:
    damaged = tmp_path / "tokenizer"
    damaged.mkdir()
    (damaged / "tokenizer.json").write_text("{", encoding="utf-8")
    words = ["train", "--data", str(corpus), "--source", "en", "--target", "de"]
    words += ["--output-dir", str(tmp_path / "run"), "--tokenizer", str(damaged)]
    capfd.readouterr()  # what saving the model drew
    assert main([*words, *others, *[str(tiny_folder) for _ in others]]) == 2
    error = capfd.readouterr().err
    assert error.count("\n") == 1 and "with an intact tokenizer" in error


@pytest.mark.parametrize("words", [["eval", "no"], ["eval", "epoch"], ["save", "no"]])
def test_each_strategy_works_without_another_option(tmp_path: Path, words: list[str]) -> None:
    settings = VaswaniTrainingArguments(
        output_dir=str(tmp_path), **{f"{words[0]}_strategy": words[1]}
    )
    assert settings.load_best_model_at_end == (words[1] == "epoch")
