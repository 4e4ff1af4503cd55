"""The run as a user sees it: what is refused before it starts, what folder it leaves."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from training_material import reversal_pairs, tokenizer, write_tsv
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from vaswani.cli import main
from vaswani.errors import InputError
from vaswani.hub import check_self_contained
from vaswani.training_arguments import VaswaniTrainingArguments
from vaswani.training_run import DataArguments, ModelArguments, TrainingInterrupted, run_training
from vaswani.vocabulary import train_tokenizer

SIZES = (
    "d_model=32,encoder_layers=1,decoder_layers=1,encoder_attention_heads=2,"
    "decoder_attention_heads=2,encoder_ffn_dim=64,decoder_ffn_dim=64"
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "pairs.tsv"
    return write_tsv(path, reversal_pairs(200, longest=4))


def flags(corpus: Path, output: Path, *others: str) -> list[str]:
    return [
        "train", "--data", str(corpus), "--source", "en", "--target", "de",
        "--output-dir", str(output), "--tokens-per-update", "300", "--max-steps", "4",
        "--eval-steps", "2", "--eval-sentences", "4", "--validation-split", "12",
        "--device", "cpu", "--warmup-steps", "4", *others,
    ]  # fmt: skip


def new(*others: str) -> list[str]:
    return ["--config-overrides", SIZES, "--vocabulary-size", "340", *others]


@pytest.fixture(scope="module")
def finished(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("runs") / "finished"
    assert main(flags(corpus, output, *new())) == 0
    return output


def test_run_ends_as_a_complete_model_folder(finished: Path) -> None:
    check_self_contained(finished)
    names = {path.name for path in finished.iterdir()}
    assert {"README.md", "settings.yaml", "scores.json", "log.jsonl", "translations.tsv"} <= names
    assert not any("saving" in name for name in names)
    assert "training_args.bin" not in names
    generation = json.loads((finished / "generation_config.json").read_text())
    assert generation["num_beams"] == 4


def test_folder_loads_and_translates_through_auto_classes(finished: Path) -> None:
    model = AutoModelForSeq2SeqLM.from_pretrained(finished)
    encoded = AutoTokenizer.from_pretrained(finished)("eins zwei", return_tensors="pt")
    assert model.generate(**encoded, max_new_tokens=3).size(0) == 1


def test_scores_are_of_beam_search_on_all_validation_pairs(finished: Path) -> None:
    scores = json.loads((finished / "scores.json").read_text())
    assert scores["sentences"] == scores["pairs"] == 12
    assert scores["num_beams"] == 4
    assert scores["bleu_signature"] and scores["chrf_signature"]


def test_log_holds_an_entry_for_each_evaluation(finished: Path) -> None:
    entries = [json.loads(line) for line in (finished / "log.jsonl").read_text().splitlines()]
    assert [e["update"] for e in entries if "eval_loss" in e][:2] == [2, 4]


def test_final_evaluation_names_the_update_of_the_kept_weights(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At a rate that destroys the model the best weights are not the last."""
    output = tmp_path / "steep"
    words = ("--learning-rate-factor", "300", "--eval-steps", "1")
    assert main(flags(corpus, output, *new(*words))) == 0
    entries = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
    *others, final = [entry for entry in entries if "eval_loss" in entry]
    best = min(others, key=lambda entry: entry["eval_loss"])
    assert best["update"] < others[-1]["update"]
    assert (final["update"], final["eval_loss"]) == (best["update"], best["eval_loss"])
    assert f"weights of update {best['update']}, the best" in capsys.readouterr().err


def test_settings_start_the_same_run_again(finished: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    settings = str(finished / "settings.yaml")
    assert main(["train", "--config", settings, "--output-dir", str(again)]) == 0
    first, second = (
        AutoModelForSeq2SeqLM.from_pretrained(folder).state_dict() for folder in (finished, again)
    )
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert yaml.safe_load((again / "settings.yaml").read_text())["max_steps"] == 4


def test_other_seed_gives_another_model(corpus: Path, finished: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert main(flags(corpus, other, *new("--seed", "7"))) == 0
    first, second = (
        AutoModelForSeq2SeqLM.from_pretrained(folder).state_dict() for folder in (finished, other)
    )
    assert not all(torch.equal(first[name], second[name]) for name in first)


def test_going_on_from_a_folder_keeps_tokenizer_and_config(
    corpus: Path, finished: Path, tmp_path: Path
) -> None:
    output = tmp_path / "more"
    assert main(flags(corpus, output, "--model", str(finished), "--dropout", "0.25")) == 0
    assert (output / "tokenizer.json").read_bytes() == (finished / "tokenizer.json").read_bytes()
    before, after = (
        json.loads((folder / "config.json").read_text()) for folder in (finished, output)
    )
    assert after.pop("dropout") == 0.25
    before.pop("dropout")
    assert after == before


def test_dry_run_prints_the_plan_and_writes_nothing(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(flags(corpus, tmp_path / "dry", *new("--dry-run"))) == 0
    printed = capsys.readouterr()
    for word in ("pairs to train on", "12 pairs"):
        assert word in printed.err
    (pairs,) = re.findall(r"(\d+) pairs to train on", printed.err)
    for word in ("Parameters", "vocabulary", f"{pairs} pairs", "(counted)", "after 4 updates"):
        assert word in printed.out
    assert not (tmp_path / "dry").exists()


@pytest.mark.parametrize("kind", ["run", "files", "file"])
def test_output_that_holds_something_is_refused(
    kind: str, corpus: Path, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    output = {"run": finished, "files": corpus.parent, "file": corpus}[kind]
    before = sorted(path.name for path in output.parent.rglob("*"))
    assert main(flags(corpus, output, *new())) == 2
    error = capsys.readouterr().err.strip()
    assert "\n" not in error
    assert "`output_dir` must be" in error and str(output) in error
    assert sorted(path.name for path in output.parent.rglob("*")) == before


def test_overwrite_never_deletes_what_is_no_run(
    corpus: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(flags(corpus, corpus.parent, *new("--overwrite"))) == 2
    assert "must hold an earlier run to be overwritten" in capsys.readouterr().err
    assert corpus.is_file()


def test_overwrite_replaces_an_earlier_run(corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    output.mkdir()
    (output / "settings.yaml").write_text("seed: 1\n")
    (output / "left-over").write_text("x")
    assert main(flags(corpus, output, *new("--overwrite"))) == 0
    assert (output / "config.json").is_file()
    assert not (output / "left-over").exists()


def test_tokenizer_larger_than_the_model_is_refused_with_both_numbers(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    tokenizer().save_pretrained(tmp_path / "tokenizer")
    sizes = f"{SIZES},vocab_size=300"
    others = ["--tokenizer", str(tmp_path / "tokenizer"), "--config-overrides", sizes]
    assert main(flags(corpus, tmp_path / "run", *others)) == 2
    error = capsys.readouterr().err
    assert f"got {len(tokenizer())} and 300" in error
    assert not (tmp_path / "run").exists()


def test_tokenizer_larger_than_the_model_to_go_on_from_is_refused(
    corpus: Path, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    larger = train_tokenizer(
        [f"{chr(97 + k % 26)}{chr(97 + k // 26 % 26)}x" * 2 for k in range(700)] * 12,
        vocab_size=900,
    )
    larger.save_pretrained(tmp_path / "tokenizer")
    others = ["--model", str(finished), "--tokenizer", str(tmp_path / "tokenizer")]
    assert main(flags(corpus, tmp_path / "run", *others)) == 2
    assert f"got {len(larger)} and" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "missing.tsv"),
        ("", "pairs"),
        ("eins\tone\nzwei\n", "2"),
        (b"eins\tone\nzw\xffei\ttwo\n", "UTF-8"),
    ],
)
def test_bad_corpus_is_one_line_and_leaves_nothing(
    text: str | bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / "missing.tsv"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert main(flags(path, tmp_path / "run", *new())) == 2
    error = capsys.readouterr().err.strip()
    assert "\n" not in error and message in error
    assert not (tmp_path / "run").exists()


def test_files_of_unequal_length_are_refused_with_both_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "a.en").write_text("x\n" * 30)
    (tmp_path / "a.de").write_text("x\n" * 29)
    both = Path(f"{tmp_path / 'a.en'},{tmp_path / 'a.de'}")
    assert main(flags(both, tmp_path / "run", *new())) == 2
    error = capsys.readouterr().err
    assert "30" in error and "29" in error


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": "huge"}, "`preset` must be one of .*, got 'huge'"),
        ({"config_overrides": "d_modell=3"}, "got 'd_modell'. Did you mean d_model?"),
        ({"config_overrides": "d_model"}, "must be name=value,name=value, got 'd_model'"),
        ({"model": "x", "preset": "base"}, "`preset` must be left out with `model`, got base"),
        ({"model": "x", "config_overrides": "d_model=8"}, "`d_model` must be left as it is"),
        ({"config_overrides": "hard_attention=true"}, "`hard_attention` must be False in training"),
    ],
)
def test_impossible_model_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ModelArguments(**settings)


def test_patience_without_validation_data_is_refused(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    words = flags(corpus, tmp_path / "run", *new("--early-stopping-patience", "2"))
    words[words.index("--validation-split") + 1] = "0"
    assert main(words) == 2
    assert "`early_stopping_patience` must be left out" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_no_validation_data_and_no_split_ends_with_the_last_weights(
    corpus: Path, tmp_path: Path
) -> None:
    output = tmp_path / "run"
    words = flags(corpus, output, *new())
    words[words.index("--validation-split") + 1] = "0"
    assert main(words) == 0
    check_self_contained(output)
    assert not (output / "scores.json").exists()


def test_long_pairs_are_left_out_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    pairs = [*reversal_pairs(60, longest=3), ("eins " * 50, "eins " * 50)]
    with gzip.open(tmp_path / "pairs.tsv.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"{source}\t{target}\n" for source, target in pairs)
    words = flags(tmp_path / "pairs.tsv.gz", tmp_path / "run", *new("--max-tokens", "30"))
    words[words.index("--validation-split") + 1] = "0"
    assert main([*words, "--dry-run"]) == 0
    assert "1 training pair left out" in capsys.readouterr().err


def test_pairs_beyond_learned_positions_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """Of both sets and before the first update; what is left trains and is evaluated."""
    short, long = reversal_pairs(60, longest=3), [("eins " * 50, "eins " * 50)] * 2
    train = write_tsv(tmp_path / "train.tsv", [*short, *long])
    dev = write_tsv(tmp_path / "dev.tsv", [*short[:4], *long])
    learned = f"{SIZES},position_encoding=learned,max_position_embeddings=30"
    words = flags(train, tmp_path / "run", *new("--validation-data", str(dev)))
    words[words.index(SIZES)] = learned
    del words[words.index("--validation-split") : words.index("--validation-split") + 2]
    assert main(words) == 0
    log = capsys.readouterr().err
    reason = "pairs left out: a side has more than `max_position_embeddings` = 30 tokens"
    assert f"2 training {reason}" in log and f"2 validation {reason}" in log
    assert json.loads((tmp_path / "run" / "scores.json").read_text())["pairs"] == 4


def test_a_model_with_hard_attention_is_no_start(tmp_path: Path, finished: Path) -> None:
    model = AutoModelForSeq2SeqLM.from_pretrained(finished, hard_attention=True)
    model.save_pretrained(tmp_path / "hard")
    AutoTokenizer.from_pretrained(finished).save_pretrained(tmp_path / "hard")
    data = DataArguments(["nowhere.tsv"], "en", "de")
    args = VaswaniTrainingArguments(output_dir=str(tmp_path / "run"))
    with pytest.raises(InputError, match="`hard_attention` must be False in training, got True"):
        run_training(ModelArguments(model=str(tmp_path / "hard")), data, args)


def run_arguments(corpus: Path, output: Path, **settings: Any) -> tuple[Any, Any, Any]:
    defaults = {"tokens_per_update": 300, "max_steps": 50, "eval_steps": 1000, "warmup_steps": 4}
    return (
        ModelArguments(config_overrides=SIZES, vocabulary_size=340),
        DataArguments([str(corpus)], "en", "de", validation_split=10),
        VaswaniTrainingArguments(output_dir=str(output), **{**defaults, **settings}),
    )


def test_interrupted_run_leaves_a_usable_folder(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vaswani.training import VaswaniTrainer

    training_step = VaswaniTrainer.training_step

    def interrupt(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.state.global_step == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return training_step(self, *args, **kwargs)

    monkeypatch.setattr(VaswaniTrainer, "training_step", interrupt)
    output = tmp_path / "run"
    with pytest.raises(TrainingInterrupted, match=str(output)):
        run_training(*run_arguments(corpus, output))
    check_self_contained(output)
    AutoModelForSeq2SeqLM.from_pretrained(output)
    assert not (output / "scores.json").exists()


def test_interrupt_before_training_leaves_nothing(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt("while encoding")

    monkeypatch.setattr("vaswani.training_run.encode_corpus", interrupted)
    with pytest.raises(KeyboardInterrupt, match="while encoding"):
        run_training(*run_arguments(corpus, tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_time_limit_ends_the_run_with_evaluation_and_folder(corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    settings = {"max_steps": -1, "eval_steps": None, "max_minutes": 0.02, "eval_sentences": 4}
    run_training(*run_arguments(corpus, output, **settings))
    check_self_contained(output)
    assert json.loads((output / "scores.json").read_text())["sentences"] == 10


@pytest.mark.slow
@pytest.mark.distributed
def test_accelerate_launches_the_script_with_one_process(corpus: Path, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parent.parent
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "1", "--cpu"]
    words = flags(corpus, tmp_path / "run", *new())[1:]
    command = [*launch, str(root / "scripts" / "train.py"), *words]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check_self_contained(tmp_path / "run")
