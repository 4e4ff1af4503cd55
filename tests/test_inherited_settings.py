"""Claims about settings that come with transformers: followed, or refused in one line."""

from pathlib import Path

import pytest

from vaswani.cli import main
from vaswani.errors import InputError
from vaswani.training_arguments import VaswaniTrainingArguments


def _train(folder: Path, *words: str) -> int:
    corpus = folder / "train.tsv"
    corpus.write_text("one two\teins zwei\n" * 30, encoding="utf-8")
    command = ["train", "--data", str(corpus), "--source", "en", "--target", "de"]
    return main([*command, "--output-dir", str(folder / "run"), *words])


@pytest.mark.parametrize(
    ("words", "name", "remedy"),
    [
        ("--do-train", "do_train", "always trains"),
        ("--do-eval", "do_eval", "vaswani evaluate"),
        ("--do-predict", "do_predict", "test_data"),
        ("--push-to-hub", "push_to_hub", "Upload the finished folder"),
        ("--hub-model-id a/b", "hub_model_id", "Upload the finished folder"),
        ("--per-device-train-batch-size 4", "per_device_train_batch_size", "tokens_per_update"),
        ("--per-device-eval-batch-size 4", "per_device_eval_batch_size", "evaluates"),
        ("--auto-find-batch-size", "auto_find_batch_size", "gradient_accumulation_steps"),
        ("--train-sampling-strategy sequential", "train_sampling_strategy", "tokens_per_update"),
        ("--use-liger-kernel", "use_liger_kernel", "no such kernels"),
        ("--generation-num-beams 2", "generation_num_beams", "num_beams"),
        ("--prediction-loss-only", "prediction_loss_only", "eval_sentences"),
        ("--learning-rate 0.1", "learning_rate", "--no-paper-schedule"),
        ("--lr-scheduler-type cosine", "lr_scheduler_type", "--no-paper-schedule"),
        ("--ignore-data-skip", "ignore_data_skip", "begins anew"),
        (
            "--dataloader-num-workers 1 --dataloader-persistent-workers",
            "dataloader_persistent_workers",
            "before",
        ),
    ],
)
def test_setting_that_a_run_would_ignore_is_refused_before_any_work(
    tmp_path: Path, capsys, words: str, name: str, remedy: str
) -> None:
    assert _train(tmp_path, *words.split()) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and f"`{name}` must be left out" in error and remedy in error
    assert not (tmp_path / "run").exists()


def test_resuming_on_the_command_line_is_refused_and_the_checkpoint_stays(
    tmp_path: Path, capsys
) -> None:
    checkpoint = tmp_path / "run" / "checkpoint-3"
    checkpoint.mkdir(parents=True)
    (checkpoint.parent / "settings.yaml").write_text("seed: 1\n")
    words = ["--resume-from-checkpoint", str(checkpoint), "--overwrite"]
    assert _train(tmp_path, *words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "`resume_from_checkpoint` must be left out" in error
    assert "--model CHECKPOINT" in error and "VaswaniTrainer.train(resume_from" in error
    assert checkpoint.is_dir()


def test_token_of_the_hub_is_not_repeated(tmp_path: Path, capsys) -> None:
    assert _train(tmp_path, "--hub-token", "secret-word") == 2
    assert "secret-word" not in capsys.readouterr().err


def test_rate_of_transformers_is_free_without_the_schedule_of_the_paper(tmp_path: Path) -> None:
    settings = {"output_dir": str(tmp_path), "device_name": "cpu", "learning_rate": 0.01}
    args = VaswaniTrainingArguments(**settings, paper_schedule=False)
    assert args.learning_rate == 0.01
    with pytest.raises(
        InputError, match=r"`learning_rate` must be left out, got 0\.01: `paper_sch"
    ):
        VaswaniTrainingArguments(**settings)


def test_program_around_the_trainer_may_resume_and_predict(tmp_path: Path) -> None:
    """`VaswaniTrainer.train` and `predict` follow these."""
    args = VaswaniTrainingArguments(
        output_dir=str(tmp_path),
        device_name="cpu",
        ignore_data_skip=True,
        generation_num_beams=2,
        per_device_eval_batch_size=3,
    )
    assert (args.generation_num_beams, args.per_device_eval_batch_size) == (2, 3)
