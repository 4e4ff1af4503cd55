"""The recipes that come with the package: complete, the paper's, and runnable at any size."""

import json
import re
import socket
from pathlib import Path
from typing import Any

import datasets
import pytest
import yaml
from transformers import AutoModelForSeq2SeqLM, GenerationConfig

from vaswani import VaswaniConfig
from vaswani.cli import main, train
from vaswani.cli._arguments import parse_arguments
from vaswani.data import is_on_hub
from vaswani.data_arguments import DataArguments
from vaswani.demo_corpus import generate
from vaswani.errors import InputError
from vaswani.generation_vaswani import paper_generation_config
from vaswani.hub import check_self_contained
from vaswani.preset_settings import PRESET_SETTINGS
from vaswani.recipe_files import recipe_file, recipe_names
from vaswani.run_settings import ModelArguments

PAPER = ["base-wmt14-en-de", "big-en-de-wmt14-en-de", "big-en-fr-wmt14-en-fr"]
SIZES = (
    "d_model=32,encoder_layers=1,decoder_layers=1,encoder_attention_heads=2,"
    "decoder_attention_heads=2,encoder_ffn_dim=64,decoder_ffn_dim=64"
)


def settings_of(name: str) -> dict[str, Any]:
    return yaml.safe_load(recipe_file(name).read_text(encoding="utf-8"))


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("a dry run must not reach for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(datasets, "load_dataset", refuse)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The demo's sentences as files."""
    folder = tmp_path_factory.mktemp("demo")
    files = {}
    for split, count in (("train", 400), ("validation", 12), ("held_out", 8)):
        files[split] = folder / f"{split}.tsv"
        pairs = generate(count, seed=1, split=split)
        files[split].write_text("".join(f"{p.source}\t{p.target}\n" for p in pairs), "utf-8")
    return files


def test_recipes_of_the_paper_come_with_the_package() -> None:
    assert set(PAPER) <= set(recipe_names())


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_has_known_keys_and_valid_values(name: str) -> None:
    words = ["--recipe", name, "--data", "x.tsv", "--output-dir", "x"]
    assert parse_arguments("train", train, words) is not None


@pytest.mark.parametrize("name", PAPER)
def test_recipe_has_the_settings_of_its_preset(name: str) -> None:
    settings = settings_of(name)
    preset = PRESET_SETTINGS[settings["preset"]]
    for key in preset.__dataclass_fields__:
        assert settings[key] == getattr(preset, key), key
    # As many checkpoints as are averaged must be there at the end.
    assert settings["save_total_limit"] == settings["average_last"]


@pytest.mark.parametrize(
    ("name", "dataset", "pairs", "words", "updates", "averaged"),
    [
        (PAPER[0], "wmt/wmt14:de-en", 4_500_000, 37_000, 100_000, 5),
        (PAPER[1], "wmt/wmt14:de-en", 4_500_000, 37_000, 300_000, 20),
        (PAPER[2], "wmt/wmt14:fr-en", 36_000_000, 32_000, 300_000, 20),
    ],
)
def test_recipe_is_the_one_of_sections_5_and_6(
    name: str, dataset: str, pairs: int, words: int, updates: int, averaged: int
) -> None:
    settings = settings_of(name)
    assert (settings["data"], settings["declared_counts"]["pairs"]) == (dataset, pairs)
    assert settings["declared_counts"]["data"] == dataset
    assert settings["validation_data"] == f"{dataset}:validation"
    assert settings["test_data"] == f"{dataset}:test"
    assert (settings["vocabulary_size"], settings["max_steps"]) == (words, updates)
    assert (settings["tokens_per_update"], settings["average_last"]) == (25_000, averaged)
    assert (settings["num_beams"], settings["length_penalty"]) == (4, 0.6)
    assert all(is_on_hub(settings[key]) for key in ("data", "validation_data", "test_data"))


@pytest.mark.parametrize(
    ("name", "seconds_per_update"), [(PAPER[0], 0.4), (PAPER[1], 1.0), (PAPER[2], 1.0)]
)
def test_checkpoints_are_as_far_apart_as_ten_minutes_of_the_paper(
    name: str, seconds_per_update: float
) -> None:
    """Section 5.2 gives the time of an update, section 6.1 that between checkpoints."""
    assert settings_of(name)["save_steps"] == pytest.approx(600 / seconds_per_update)


def test_an_unknown_recipe_is_refused_in_one_line_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["train", "--recipe", "base-wmt14"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(r"`recipe` must be one of .*, got 'base-wmt14'\. Did you mean base-wmt", error)


def test_flags_win_over_the_config_file_and_that_over_the_recipe(tmp_path: Path) -> None:
    config = tmp_path / "own.yaml"
    config.write_text("max_steps: 7\nseed: 3\nsave_steps: 2\n")
    words = ["--recipe", PAPER[0], "--config", str(config), "--seed", "5", "--output-dir", "x"]
    model, data, args = parse_arguments("train", train, words)  # type: ignore[misc]
    assert (args.max_steps, args.save_steps, args.seed) == (7, 2, 5)
    assert (args.average_last, model.preset, data.target) == (5, "base", "de")


def test_only_training_takes_recipes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["presets", "--recipe", PAPER[0]]) == 2
    assert "`--recipe` must be an option" in capsys.readouterr().err


@pytest.mark.parametrize("name", PAPER)
def test_dry_run_of_a_recipe_needs_no_data_and_no_network(
    name: str, no_network: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--recipe", name, "--dry-run", "--device", "cpu"]) == 0
    printed = capsys.readouterr()
    big = name != PAPER[0]
    found = re.sub(r"\s+", " ", printed.out)
    updates, hours = ("300,000", "84") if big else ("100,000", "12")
    assert f"after {updates} updates" in found
    assert f"{hours} hours x 8 GPUs x 9.5e+12 a second" in found
    assert f"the last {20 if big else 5} are averaged" in found
    assert "declared" in found and "beam 4, length penalty 0.6 (gnmt)" in found
    assert "BLEU of sacreBLEU" in found and "BLEU as the paper reports it" in found
    assert max(map(len, printed.out.splitlines())) <= 100


def test_dry_run_with_data_of_ones_own_counts_them(
    demo: dict[str, Path], no_network: None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--recipe", PAPER[0], "--dry-run", "--device", "cpu"]
    words += ["--train-data", str(demo["train"]), "--vocabulary-size", "500"]
    assert main([*words, "--config-overrides", SIZES]) == 0
    found = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "400 pairs" in found and "(counted)" in found and "declared by" not in found


def test_dry_run_refuses_validation_data_that_are_missing(
    no_network: None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--dry-run", "--validation-data", "missing.tsv"]
    assert main(["train", "--recipe", PAPER[0], *words]) == 2
    assert "missing.tsv" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"data": "a/b", "pairs": 1}, "must hold data, pairs, source_tokens, target_tokens"),
        (
            {"data": "a/b", "pairs": 0, "source_tokens": 1, "target_tokens": 1},
            "`pairs` of `declared_counts` must be a whole number above 0, got 0",
        ),
    ],
)
def test_a_malformed_declaration_is_refused(counts: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DataArguments(["a/b"], "en", "de", declared_counts=counts)


@pytest.mark.parametrize(
    ("settings", "beams", "penalty"),
    [({}, 4, 0.6), ({"num_beams": 8, "length_penalty": 0.0}, 8, 0.0), ({"num_beams": 1}, 1, 1.0)],
)
def test_search_settings_can_be_saved(
    settings: dict[str, Any], beams: int, penalty: float, tmp_path: Path
) -> None:
    """transformers refuses to save settings of beams with a beam of 1."""
    search = paper_generation_config(VaswaniConfig())
    search.update(**ModelArguments(**settings).search)
    search.save_pretrained(tmp_path)
    again = GenerationConfig.from_pretrained(tmp_path)
    assert (again.num_beams, again.length_penalty) == (beams, penalty)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_beams": 0}, "`num_beams` must be at least 1, got 0"),
        ({"length_penalty": -0.5}, "`length_penalty` must be 0 or more, got -0.5"),
        ({"length_penalty": float("inf")}, "`length_penalty` must be 0 or more, got inf"),
    ],
)
def test_impossible_search_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ModelArguments(**settings)


@pytest.mark.parametrize("name", PAPER)
def test_recipe_runs_scaled_down_on_the_demo_corpus(
    name: str, demo: dict[str, Path], tmp_path: Path
) -> None:
    """The same file, with the corpus and the sizes of a toy."""
    output = tmp_path / "run"
    words = ["train", "--recipe", name, "--data", str(demo["train"])]
    words += ["--validation-data", str(demo["validation"]), "--test-data", str(demo["held_out"])]
    words += ["--config-overrides", SIZES, "--vocabulary-size", "400", "--max-steps", "6"]
    words += ["--tokens-per-update", "400", "--save-steps", "1", "--eval-steps", "3"]
    words += ["--warmup-steps", "4", "--eval-sentences", "4", "--device", "cpu"]
    assert main([*words, "--num-beams", "3", "--output-dir", str(output)]) == 0
    check_self_contained(output)
    model = AutoModelForSeq2SeqLM.from_pretrained(output)
    assert (model.config.dropout, model.config.d_model) == (0.3 if name == PAPER[1] else 0.1, 32)
    assert (model.generation_config.num_beams, model.generation_config.length_penalty) == (3, 0.6)
    scores = json.loads((output / "scores.json").read_text())
    assert (scores["pairs"], scores["num_beams"]) == (12, 3)
    assert json.loads((output / "test_scores.json").read_text())["pairs"] == 8
    assert (output / "test_translations.tsv").is_file()
    settings = yaml.safe_load((output / "settings.yaml").read_text())
    assert settings["average_last"] == PRESET_SETTINGS[settings["preset"]].average_last
