"""VaswaniTrainer: what an update learns from, how evaluations score, what is refused early."""

import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from training_material import (
    Watch,
    arguments,
    reversal_pairs,
    tiny_model,
    tokenized,
    tokenizer,
    trainer,
    weights,
)
from transformers import TrainerCallback

from vaswani.errors import InputError
from vaswani.training_data import TokenizedPairs


def test_updates_use_the_rates_of_the_paper(tmp_path: Path) -> None:
    run, watch = trainer(tmp_path, warmup_steps=4), Watch()
    run.add_callback(watch)
    run.train()
    expected = [32**-0.5 * min(k**-0.5, k * 4**-1.5) for k in range(1, 7)]
    assert watch.rates == pytest.approx(expected)


def test_update_is_the_same_however_many_micro_batches_share_it(tmp_path: Path) -> None:
    """Dropout off, the gradient of an update must not depend on the accumulation."""
    gradients = []
    for steps in (1, 3):
        run, watch = trainer(tmp_path, gradient_accumulation_steps=steps, max_steps=2), Watch()
        run.add_callback(watch)
        run.train()
        gradients.append(watch.gradients)
    for whole, dealt in zip(*gradients, strict=True):
        # Sums in float32, in another order.
        torch.testing.assert_close(dealt, whole, rtol=1e-3, atol=1e-6)


def test_gradient_of_an_update_is_that_of_its_mean_loss_per_target_token(tmp_path: Path) -> None:
    """Against torch's own smoothed cross entropy on the update's sentences."""
    run, watch = trainer(tmp_path, max_steps=1, gradient_accumulation_steps=2), Watch()
    run.add_callback(watch)
    run.train()
    micro_batches = list(run.train_sampler)[:2]
    model = tiny_model().train()
    batch = run.data_collator([run.train_dataset[k] for part in micro_batches for k in part])
    logits = model(**batch).logits
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), batch["labels"].flatten(), label_smoothing=0.1, ignore_index=-100
    )
    loss.backward()
    expected = torch.cat([p.grad.flatten() for p in model.parameters()])
    torch.testing.assert_close(watch.gradients[0], expected, rtol=1e-3, atol=1e-6)


def test_training_makes_no_logits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trainer(tmp_path, max_steps=1)
    seen = []
    forward = run.model.forward

    def spy(*args: Any, **kwargs: Any) -> Any:
        output = forward(*args, **kwargs)
        seen.append((run.model.training, output.logits, output.cache))
        return output

    monkeypatch.setattr(run.model, "forward", spy)
    run.train()
    assert (True, None, None) in seen


def test_each_epoch_goes_through_its_own_batches(tmp_path: Path) -> None:
    run = trainer(tmp_path, max_steps=-1, num_train_epochs=2)
    epochs = []
    order = type(run.get_train_dataloader().batch_sampler).__iter__

    class Recorder(TrainerCallback):
        def on_epoch_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            epochs.append(list(map(list, order(run.train_sampler))))

    run.add_callback(Recorder())
    run.train()
    assert len(epochs) == 2
    assert epochs[0] != epochs[1]
    assert {k for batch in epochs[0] for k in batch} == {k for b in epochs[1] for k in b}


def test_same_seed_trains_the_same_model(tmp_path: Path) -> None:
    first, second, other = (
        trainer(tmp_path, model=tiny_model(dropout=0.2), seed=seed) for seed in (5, 5, 6)
    )
    for run in (first, second, other):
        run.train()
    assert torch.equal(weights(first.model), weights(second.model))
    assert not torch.equal(weights(first.model), weights(other.model))


def test_evaluation_does_not_change_what_is_trained(tmp_path: Path) -> None:
    often = trainer(tmp_path, model=tiny_model(dropout=0.2), eval_steps=2, eval_sentences=5)
    never = trainer(tmp_path, model=tiny_model(dropout=0.2), eval_strategy="no")
    often.train()
    never.train()
    assert torch.equal(weights(often.model), weights(never.model))


def test_validation_loss_is_the_plain_likelihood_per_target_token(tmp_path: Path) -> None:
    run = trainer(tmp_path)
    metrics = run.evaluate(max_sentences=0)
    total, tokens = 0.0, 0
    model = run.model.eval()
    for k in range(len(run.eval_dataset)):
        row = run.eval_dataset[k]
        labels = torch.tensor([row["labels"]])
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([row["input_ids"]]), labels=labels).logits
        total -= float(logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).sum())
        tokens += labels.numel()
    assert metrics["eval_loss"] == pytest.approx(total / tokens, rel=1e-5)
    assert metrics["eval_perplexity"] == pytest.approx(math.exp(total / tokens), rel=1e-4)


@pytest.mark.parametrize("accumulation", [1, 4])
def test_evaluation_scores_every_sentence_once(tmp_path: Path, accumulation: int) -> None:
    """37 sentences fill no whole number of batches; -100 in the labels must not reach decoding."""
    run = trainer(tmp_path, gradient_accumulation_steps=accumulation)
    metrics = run.evaluate(max_sentences=1000)
    assert metrics["eval_sentences"] == 37
    assert {"eval_bleu", "eval_chrf", "eval_bleu_signature"} <= set(metrics)


def test_evaluation_takes_at_most_eval_sentences(tmp_path: Path) -> None:
    assert trainer(tmp_path, eval_sentences=10).evaluate()["eval_sentences"] == 10


def test_references_are_the_texts_themselves(tmp_path: Path) -> None:
    run = trainer(tmp_path)
    run.eval_dataset.targets = [f"  {text}" for text in run.eval_dataset.targets]
    _, references, _ = run.translate_pairs(run.eval_dataset, [0, 5], num_beams=1)
    assert references == [run.eval_dataset.targets[0], run.eval_dataset.targets[5]]


def test_references_are_decoded_from_labels_where_there_are_no_texts(tmp_path: Path) -> None:
    pairs = reversal_pairs(9, seed=2)
    rows = [
        {"input_ids": row["input_ids"], "labels": [*row["labels"], -100, -100]}
        for row in (tokenized(pairs)[k] for k in range(9))
    ]
    run = trainer(tmp_path)
    _, references, _ = run.translate_pairs(
        TokenizedPairs.from_rows(rows), list(range(9)), num_beams=1
    )
    assert references == [target for _, target in pairs]


def test_evaluation_is_not_cut_at_the_library_default_of_20(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An untrained model rambles on: up to source + 50, and that is counted."""
    run = trainer(tmp_path)
    lengths = []
    generate = run.model.generate

    def spy(*args: Any, **kwargs: Any) -> Any:
        output = generate(*args, **kwargs)
        lengths.append(getattr(output, "sequences", output).size(1) - 1)
        return output

    monkeypatch.setattr(run.model, "generate", spy)
    metrics = run.evaluate(max_sentences=8)
    assert metrics["eval_truncated"] > 0
    longest = max(run.eval_dataset.source_lengths[run.eval_dataset.spread(8)])
    assert max(lengths) == longest + 50


def test_padding_and_speed_are_logged_without_padding_counted(tmp_path: Path) -> None:
    run = trainer(tmp_path, max_steps=3, eval_strategy="no")
    run.train()
    entries = [entry for entry in run.state.log_history if "loss" in entry]
    assert len(entries) == 3
    statistics = [entry["padding"] for entry in entries]
    batches = list(run.train_sampler)[:3]
    for padding, batch in zip(statistics, batches, strict=True):
        source = run.train_dataset.source_lengths[batch]
        target = run.train_dataset.target_lengths[batch]
        places = len(batch) * (source.max() + target.max())
        assert padding == pytest.approx(1 - (source.sum() + target.sum()) / places)
    assert all(entry["tokens_per_second"] > 0 for entry in entries)


def test_interrupt_ends_after_the_update_with_a_checkpoint(tmp_path: Path) -> None:
    run = trainer(tmp_path, max_steps=50, save_strategy="steps", save_steps=1000)
    run.add_callback(Watch(interrupt_at=3))
    run.train()
    assert run.switch.requested
    assert run.state.global_step == 3
    assert (tmp_path / "checkpoint-3" / "model.safetensors").is_file()


def test_interrupt_during_an_evaluation_keeps_the_best_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trainer(
        tmp_path,
        max_steps=4,
        eval_steps=2,
        save_strategy="steps",
        load_best_model_at_end=True,
        metric_for_best_model="loss",
    )
    after_two: list[torch.Tensor] = []
    evaluate = run.evaluate

    def second_time_interrupted(*args: Any, **kwargs: Any) -> Any:
        if run.state.global_step == 4:
            os.kill(os.getpid(), signal.SIGINT)
        else:
            after_two.append(weights(run.model).clone())
        return evaluate(*args, **kwargs)

    monkeypatch.setattr(run, "evaluate", second_time_interrupted)
    run.train()
    assert run.switch.requested
    assert torch.equal(weights(run.model), after_two[0])
    assert not (tmp_path / "checkpoint-4").exists()


def test_second_interrupt_aborts(tmp_path: Path) -> None:
    run = trainer(tmp_path, max_steps=50)
    before = signal.getsignal(signal.SIGINT)
    run.add_callback(Watch(interrupt_at=2))
    run.add_callback(Watch(interrupt_at=2))
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        run.train()
    assert signal.getsignal(signal.SIGINT) is before


def test_checkpoint_cut_off_while_saving_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trainer(tmp_path, max_steps=2, save_strategy="steps", save_steps=2)

    def cut_off(folder: str) -> None:
        raise KeyboardInterrupt("second Ctrl-C")

    monkeypatch.setattr(run, "_save_optimizer_and_scheduler", cut_off)
    with pytest.raises(KeyboardInterrupt, match="second"):
        run.train()
    assert not (tmp_path / "checkpoint-2").exists()


def test_early_stopping_ends_after_evaluations_without_gain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trainer(
        tmp_path,
        max_steps=40,
        eval_steps=2,
        save_strategy="steps",
        load_best_model_at_end=True,
        metric_for_best_model="loss",
        early_stopping_patience=2,
    )
    losses = iter([3.0, 4.0, 5.0, 1.0])
    monkeypatch.setattr(run, "_validation_loss", lambda pairs: next(losses))
    run.train()
    assert run.state.global_step == 6


def test_saved_config_keeps_the_cache_on(tmp_path: Path) -> None:
    assert trainer(tmp_path).model.config.use_cache is True


def test_tokenizer_larger_than_the_model_is_refused_with_both_numbers(tmp_path: Path) -> None:
    entries = len(tokenizer())
    with pytest.raises(
        InputError, match=f"entries as the model's source table, got {entries} and 40"
    ):
        trainer(tmp_path, model=tiny_model(vocab_size=40))


def test_search_setting_of_no_search_is_refused_before_update_1(tmp_path: Path) -> None:
    model = tiny_model()
    model.generation_config.max_length_b = -3
    with pytest.raises(InputError, match="`max_length_b` must be a number of at least 0, got -3"):
        trainer(tmp_path, model=model)


def test_generation_setting_that_cannot_be_saved_is_refused_before_update_1(tmp_path: Path) -> None:
    model = tiny_model()
    model.generation_config.temperature = 0.5
    with pytest.raises(InputError, match=r"must be valid to be saved, got: .*temperature"):
        trainer(tmp_path, model=model)
    later = trainer(tmp_path)
    later.model.generation_config.temperature = 0.5
    with pytest.raises(InputError, match=r"must be valid to be saved, got: .*temperature"):
        later.train()
    assert later.state.global_step == 0


def test_beam_setting_in_the_config_is_refused_before_update_1(tmp_path: Path) -> None:
    model = tiny_model()
    model.config.num_beams = 2
    with pytest.raises(InputError, match=r"must be valid to be saved, got: .*num_beams"):
        trainer(tmp_path, model=model)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label_smoothing_factor": 0.1}, "`label_smoothing_factor` must be 0, got 0.1"),
        ({"fp16": True}, "`fp16` must be off on a CPU"),
        ({"device_name": "abacus"}, "`device` must be a device of torch, got 'abacus'"),
        ({"tokens_per_update": 0}, "`tokens_per_update` must be at least 1, got 0"),
        ({"max_minutes": 0.0}, "`max_minutes` must be above 0, got 0.0"),
        ({"warmup_steps": -1}, "`warmup_steps` must be at least 0, got -1"),
    ],
)
def test_impossible_settings_are_refused(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        arguments(tmp_path, **settings)


def test_logging_service_that_is_missing_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"got trackio.*pip install 'vaswani\[log\]'"):
        arguments(tmp_path, report_to="trackio")


def test_other_schedule_is_taken_when_the_papers_is_off(tmp_path: Path) -> None:
    run, watch = (
        trainer(
            tmp_path,
            paper_schedule=False,
            learning_rate=0.01,
            lr_scheduler_type="constant",
            warmup_steps=0,
        ),
        Watch(),
    )
    run.add_callback(watch)
    run.train()
    assert watch.rates == pytest.approx([0.01] * 6)
