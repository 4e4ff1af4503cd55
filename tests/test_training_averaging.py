"""What a run ends with: an average of its last checkpoints, or of its weights as they moved."""

import json
import logging
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from training_material import (
    Watch,
    arguments,
    reversal_pairs,
    tiny_model,
    trainer,
    weights,
    write_tsv,
)
from transformers import AutoModelForSeq2SeqLM, TrainerCallback

from vaswani.checkpoints import average_weights, last_checkpoints
from vaswani.cli import main
from vaswani.errors import InputError
from vaswani.hub import check_self_contained
from vaswani.training_progress import InterruptSwitch, RunClock

SAVING: dict[str, Any] = {
    "save_strategy": "steps",
    "save_steps": 1,
    "eval_steps": 1,
    "eval_sentences": 0,
    "metric_for_best_model": "loss",
}


def stored(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def assert_is_mean(model: Any, folders: list[Path]) -> None:
    """Float32 sums of a few terms in another order."""
    states = [stored(folder) for folder in folders]
    for name, tensor in model.state_dict().items():
        if name in states[0]:
            mean = torch.stack([state[name] for state in states]).mean(0)
            torch.testing.assert_close(tensor, mean, rtol=1e-5, atol=1e-7)


class Trace(TrainerCallback):
    """Keeps the weights after each update, and averages them as torch does."""

    def __init__(self, model: Any, decay: float) -> None:
        self.weights: list[torch.Tensor] = []
        self.averages: list[torch.Tensor] = []
        self.average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self.weights.append(weights(others["model"]).clone())
        self.average.update_parameters(others["model"])
        self.averages.append(weights(self.average.module).clone())


# The last checkpoints


def test_run_ends_with_the_average_of_its_last_checkpoints(tmp_path: Path) -> None:
    run = trainer(tmp_path, average_last=3, load_best_model_at_end=True, **SAVING)
    run.train()
    kept = sorted(path.name for path in tmp_path.glob("checkpoint-*"))
    assert kept[-3:] == ["checkpoint-4", "checkpoint-5", "checkpoint-6"]
    assert_is_mean(run.model, [tmp_path / name for name in kept[-3:]])
    assert run.ended_with() == "the average of 3 checkpoints (updates 4, 5, 6)"
    assert run.model.lm_head.weight is run.model.get_input_embeddings().weight


def test_the_best_checkpoint_is_kept_beside_the_averaged_ones_and_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trainer(tmp_path, average_last=2, **SAVING)
    losses = iter([5.0, 2.0, 4.0, 4.5, 4.6, 4.7])
    monkeypatch.setattr(run, "_validation_loss", lambda pairs: next(losses))
    run.train()
    kept = {path.name for path in tmp_path.glob("checkpoint-*")}
    assert kept == {"checkpoint-2", "checkpoint-5", "checkpoint-6"}
    assert run.comparison() == {
        "averaged_checkpoints": 2,
        "best_checkpoint_update": 2,
        "best_checkpoint_loss": 2.0,
    }


def test_fewer_checkpoints_than_asked_for_are_averaged_and_said(tmp_path: Path) -> None:
    run = trainer(tmp_path, average_last=5, max_steps=2, **SAVING)
    run.train()
    assert_is_mean(run.model, [tmp_path / "checkpoint-1", tmp_path / "checkpoint-2"])
    assert "average of 2 checkpoints (updates 1, 2; 5 were asked for)" in run.ended_with()


def test_checkpoints_of_another_run_take_no_part(tmp_path: Path) -> None:
    trainer(tmp_path, model=tiny_model(seed=9), average_last=2, max_steps=1, **SAVING).train()
    run = trainer(tmp_path, average_last=4, max_steps=3, **{**SAVING, "save_steps": 2})
    run.train()
    assert run.ended_with().startswith("the average of 2 checkpoints (updates 2, 3;")


def test_interrupted_run_averages_what_there_is(tmp_path: Path) -> None:
    run = trainer(tmp_path, average_last=4, max_steps=50, **SAVING)
    run.add_callback(Watch(interrupt_at=3))
    run.train()
    assert run.switch.requested
    assert_is_mean(run.model, [tmp_path / f"checkpoint-{n}" for n in (1, 2, 3)])
    assert "updates 1, 2, 3; 4 were asked for" in run.ended_with()


def test_run_interrupted_before_its_first_checkpoint_says_why_it_has_no_average(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = trainer(tmp_path, average_last=2, **SAVING)

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        run._stop_if_interrupted()

    monkeypatch.setattr(run, "_validation_loss", interrupted)
    with caplog.at_level(logging.WARNING):
        run.train()
    assert (
        run.ended_with() == "the weights of update 1, the last (no checkpoint was saved to average)"
    )
    assert "no checkpoint was saved to average" in caplog.text


def test_damaged_checkpoint_does_not_lose_the_run(tmp_path: Path) -> None:
    run = trainer(tmp_path, average_last=2, max_steps=2, **SAVING)

    class Damage(TrainerCallback):
        def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            (tmp_path / f"checkpoint-{state.global_step}" / "model.safetensors").write_bytes(b"")

    run.add_callback(Damage())
    run.train()
    assert "update 2, the last (averaging failed: " in run.ended_with()
    assert "checkpoint-1" in run.ended_with()


@pytest.mark.parametrize("settings", [{"average_last": 2}, {"ema_decay": 0.9}])
def test_plan_without_validation_tells_of_no_best_checkpoint(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    args = arguments(tmp_path, save_strategy="steps", **settings)
    assert "the best" in args.averaging_plan() or "is evaluated" in args.averaging_plan()
    for plan in (
        args.averaging_plan(validated=False),
        arguments(tmp_path, save_strategy="steps", eval_strategy="no", **settings).averaging_plan(),
    ):
        assert "becomes the model" in plan and "best" not in plan and "evaluated" not in plan


def test_resumed_run_averages_checkpoints_of_before_too(tmp_path: Path) -> None:
    trainer(tmp_path, average_last=3, max_steps=2, **SAVING).train()
    run = trainer(tmp_path, average_last=3, max_steps=3, **SAVING)
    run.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert run.ended_with() == "the average of 3 checkpoints (updates 1, 2, 3)"


@pytest.mark.parametrize(("given", "kept"), [(2, 6), (9, 9), (None, None)])
def test_as_many_checkpoints_are_kept_as_the_average_and_the_best_need(
    tmp_path: Path, given: int | None, kept: int | None
) -> None:
    settings = {"save_strategy": "steps", "average_last": 5, "save_total_limit": given}
    assert arguments(tmp_path, **settings).save_total_limit == kept


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"average_last": -1}, "`average_last` must be at least 0 .off., got -1"),
        ({"average_last": 2}, "`average_last` must be 0 with `save_strategy` no, got 2"),
        ({"ema_decay": 1.0}, "`ema_decay` must be at least 0 and below 1, got 1.0"),
        ({"ema_decay": -0.5}, "`ema_decay` must be at least 0 and below 1, got -0.5"),
        (
            {"average_last": 2, "ema_decay": 0.9, "save_strategy": "steps"},
            "`average_last` must be 0 with `ema_decay`, got 2 and 0.9",
        ),
    ],
)
def test_impossible_averages_are_refused(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        arguments(tmp_path, **settings)


# The moving average


def test_evaluations_see_the_moving_average_and_training_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against torch's average of the weights after each update."""
    plain, run = (
        trainer(tmp_path, eval_strategy="no"),
        trainer(tmp_path, ema_decay=0.7, eval_steps=2),
    )
    traces = [Trace(one.model, 0.7) for one in (plain, run)]
    seen: list[torch.Tensor] = []
    evaluate = run.evaluate

    def spy(*args: Any, **kwargs: Any) -> Any:
        seen.append(weights(run.model).clone())
        return evaluate(*args, **kwargs)

    monkeypatch.setattr(run, "evaluate", spy)
    for one, trace in zip((plain, run), traces, strict=True):
        one.add_callback(trace)
        one.train()
    assert all(torch.equal(*pair) for pair in zip(*(t.weights for t in traces), strict=True))
    assert len(seen) == 3
    for got, update in zip(seen, (2, 4, 6), strict=True):
        torch.testing.assert_close(got, traces[1].averages[update - 1], rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(weights(run.model), traces[1].averages[-1], rtol=1e-5, atol=1e-7)
    assert run.ended_with() == "the moving average (decay 0.7) of the weights of update 6, the last"


def test_the_best_moving_average_becomes_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trainer(tmp_path, ema_decay=0.7, load_best_model_at_end=True, **SAVING)
    trace = Trace(run.model, 0.7)
    run.add_callback(trace)
    losses = iter([5.0, 4.0, 2.0, 4.5, 4.6, 4.7])
    monkeypatch.setattr(run, "_validation_loss", lambda pairs: next(losses))
    run.train()
    torch.testing.assert_close(weights(run.model), trace.averages[2], rtol=1e-5, atol=1e-7)
    assert not torch.allclose(trace.averages[2], trace.weights[2], atol=1e-4)
    assert run.ended_with() == "the moving average (decay 0.7) of the weights of update 3, the best"


def test_resumed_run_goes_on_with_weights_and_average(tmp_path: Path) -> None:
    settings = {**SAVING, "ema_decay": 0.7, "eval_strategy": "no", "save_steps": 3}
    whole = trainer(tmp_path / "whole", **settings)
    whole.train()
    assert (tmp_path / "whole" / "checkpoint-3" / "ema.safetensors").is_file()
    resumed = trainer(tmp_path / "resumed", **settings)
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-3"))
    assert torch.equal(weights(resumed.model), weights(whole.model))
    last = [stored(tmp_path / name / "checkpoint-6") for name in ("whole", "resumed")]
    assert all(torch.equal(last[0][name], last[1][name]) for name in last[0])


def test_resuming_without_the_average_of_before_is_refused(tmp_path: Path) -> None:
    trainer(tmp_path, max_steps=2, **SAVING).train()
    run = trainer(tmp_path, max_steps=4, ema_decay=0.9, **SAVING)
    with pytest.raises(InputError, match=r"intact ema.safetensors .*got .*checkpoint-2"):
        run.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))


# Checkpoints of weights alone


@pytest.mark.parametrize(
    "settings", [{"average_last": 2}, {"ema_decay": 0.7, "load_best_model_at_end": True}], ids=str
)
def test_checkpoints_of_weights_alone_are_enough_for_averages(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    """The run ends with the same weights, and its checkpoints average to the same afterwards."""
    runs = {only: trainer(tmp_path / str(only), **SAVING, **settings, save_only_model=only)
            for only in (False, True)}  # fmt: skip
    for run in runs.values():
        run.train()
    assert torch.equal(weights(runs[True].model), weights(runs[False].model))
    folders = [last_checkpoints(tmp_path / str(only), 2) for only in (False, True)]
    assert not list((tmp_path / "True").rglob("optimizer.pt"))
    averages = [average_weights(found) for found in folders]
    assert all(torch.equal(averages[0][name], averages[1][name]) for name in averages[0])


@pytest.mark.parametrize("lost", ["optimizer.pt", "scheduler.pt", None])
def test_resuming_without_the_state_of_the_training_is_refused(
    lost: str | None, tmp_path: Path
) -> None:
    """Adam and the learning rate would begin anew, at the rate of update 1."""
    settings = {**SAVING, "save_only_model": lost is None}
    trainer(tmp_path, max_steps=2, **settings).train()
    if lost:
        (tmp_path / "checkpoint-2" / lost).unlink()
    run = trainer(tmp_path, max_steps=4, **settings)
    named = lost or "optimizer.pt and scheduler.pt"
    with pytest.raises(
        InputError, match=rf"go on from it, got .*checkpoint-2, which lacks {named}"
    ):
        run.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert run.state.global_step == 0


# Runs of the command line

SIZES = (
    "d_model=32,encoder_layers=1,decoder_layers=1,encoder_attention_heads=2,"
    "decoder_attention_heads=2,encoder_ffn_dim=64,decoder_ffn_dim=64"
)


def flags(folder: Path, *others: str) -> list[str]:
    corpus = write_tsv(folder / "pairs.tsv", reversal_pairs(200, longest=4))
    return [
        "train", "--data", str(corpus), "--source", "en", "--target", "de",
        "--output-dir", str(folder / "run"), "--tokens-per-update", "300", "--max-steps", "4",
        "--eval-steps", "1", "--eval-sentences", "4", "--validation-split", "12",
        "--device", "cpu", "--warmup-steps", "4", "--vocabulary-size", "340",
        "--config-overrides", SIZES, *others,
    ]  # fmt: skip


def test_command_ends_with_the_average_and_tells_both_losses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "run"
    assert main(flags(tmp_path, "--average-last", "2")) == 0
    told = capsys.readouterr().err
    assert "The average of the last 2 checkpoints becomes the model" in told
    assert "after 4 updates, with the average of 2 checkpoints (updates 3, 4)" in told
    assert "Loss of the average:" in told
    check_self_contained(output)
    model = AutoModelForSeq2SeqLM.from_pretrained(output)
    assert_is_mean(model, [output / "checkpoint-3", output / "checkpoint-4"])
    entries = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
    losses = {e["update"]: e["eval_loss"] for e in entries[:-1] if "eval_loss" in e}
    scores = json.loads((output / "scores.json").read_text())
    assert scores["averaged_checkpoints"] == 2
    assert scores["best_checkpoint_loss"] == min(list(losses.values())[:4])
    assert losses[scores["best_checkpoint_update"]] == scores["best_checkpoint_loss"]
    assert "average of 2 checkpoints" in (output / "README.md").read_text()


def test_command_tells_at_the_start_that_there_will_be_fewer_checkpoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = ("--average-last", "7", "--save-steps", "3", "--dry-run")
    assert main(flags(tmp_path, *others)) == 0
    told = "`average_last` is 7, but the run will write 2 checkpoints: the average is of those."
    assert told in " ".join(capsys.readouterr().out.split())
    assert main(flags(tmp_path, *others[:-1])) == 0
    lines = capsys.readouterr().err.splitlines()
    assert any(
        told in line
        for line in lines[: next(k for k, x in enumerate(lines) if "update " in x and "·" in x)]
    )
    assert len(list((tmp_path / "run").glob("checkpoint-*"))) == 2


def test_command_ends_with_the_moving_average(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "run"
    assert main(flags(tmp_path, "--ema-decay", "0.5")) == 0
    told = capsys.readouterr().err
    assert "The moving average of the weights, decay 0.5, is evaluated and becomes" in told
    model, scores = stored(output), json.loads((output / "scores.json").read_text())
    found = [
        folder
        for folder in output.glob("checkpoint-*")
        if all(torch.equal(model[k], v) for k, v in load_file(folder / "ema.safetensors").items())
    ]
    assert len(found) == 1
    state = json.loads((found[0] / "trainer_state.json").read_text())
    assert scores["loss"] == pytest.approx(state["best_metric"], rel=1e-6)


def test_timed_run_without_validation_data_spaces_its_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten in the time given, not one after each update from the first tenth on."""
    now = [1000.0]
    monkeypatch.setattr("vaswani.training_progress.time.monotonic", lambda: now[0])
    args = arguments(
        tmp_path, max_minutes=10.0, max_steps=-1, eval_steps=None, save_strategy="steps"
    )
    args.eval_strategy = "no"
    clock, state = RunClock(InterruptSwitch()), type("State", (), {"max_steps": 10**9})()
    clock.on_train_begin(args, state, None)  # type: ignore[arg-type]
    saved = 0
    for _ in range(590):
        now[0] += 1.0
        control = type("Control", (), {"should_save": False})()
        saved += clock.on_step_end(args, state, control).should_save  # type: ignore[arg-type]
    assert saved == 9
