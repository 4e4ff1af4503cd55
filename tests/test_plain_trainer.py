"""Trainer and collator of transformers, with nothing of this package but model and tokenizer."""

import copy
import re
from pathlib import Path
from typing import Any

import datasets
import evaluate
import pytest
import sacrebleu
import torch
from elsewhere import run_elsewhere
from torch.nn.functional import cross_entropy
from training_material import reversal_pairs, tiny_model, tokenizer
from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments

from vaswani import VaswaniForConditionalGeneration

EXAMPLE = Path(__file__).parent.parent / "examples" / "fine_tune.py"


class SacreBleu(evaluate.Metric):
    """What `evaluate.load("sacrebleu")` fetches from the Hub: sacreBLEU as a metric."""

    def _info(self) -> evaluate.MetricInfo:
        features = {name: datasets.Value("string") for name in ("predictions", "references")}
        return evaluate.MetricInfo(
            description="", citation="", features=datasets.Features(features)
        )

    def _compute(self, predictions: list[str], references: list[str]) -> dict[str, float]:
        return {"score": sacrebleu.corpus_bleu(predictions, [references]).score}


def rows(count: int, *, seed: int = 0) -> datasets.Dataset:
    sources, targets = zip(*reversal_pairs(count, seed=seed), strict=True)
    ids = tokenizer()(list(sources), text_target=list(targets))
    return datasets.Dataset.from_dict({name: ids[name] for name in ("input_ids", "labels")})


def plain_trainer(folder: Path, model: Any, **settings: Any) -> Seq2SeqTrainer:
    defaults: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 8,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "predict_with_generate": True,
        "max_steps": 1,
        "learning_rate": 1e-3,
    }
    metric = settings.pop("compute_metrics", None)
    return Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(**{**defaults, **settings}),
        train_dataset=rows(64),
        eval_dataset=rows(20, seed=1),
        data_collator=DataCollatorForSeq2Seq(tokenizer(), model=model),
        processing_class=tokenizer(),
        compute_metrics=metric,
    )


def batch_of(trainer: Seq2SeqTrainer, start: int = 0, size: int = 8) -> dict[str, torch.Tensor]:
    """A padded batch of rows of unequal length, as the collator makes it."""
    found = [trainer.train_dataset[k] for k in range(start, start + size)]
    batch = dict(trainer.data_collator(found))
    assert (batch["labels"] == -100).any() and (batch["input_ids"] == 0).any()
    return batch


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4])
def test_smoothing_by_the_trainer_is_smoothing_by_the_model(epsilon: float, tmp_path: Path) -> None:
    """The loss is that of torch too, whether the divisor is this batch's tokens or an update's."""
    own = tiny_model(label_smoothing=epsilon).train()
    plain = tiny_model(label_smoothing=0.3).train()  # its own smoothing takes no part
    trainer = plain_trainer(tmp_path, plain, label_smoothing_factor=epsilon or 1e-12)
    batch = batch_of(trainer)
    labels = batch["labels"]
    for count in (None, torch.tensor(100)):
        theirs = trainer.compute_loss(plain, dict(batch), num_items_in_batch=count)
        ours = own(**batch, num_items_in_batch=count).loss
        logits = own(**batch).logits.transpose(1, 2)
        expected = cross_entropy(logits, labels, label_smoothing=epsilon, reduction="sum")
        expected = expected / (labels.ne(-100).sum() if count is None else count)
        torch.testing.assert_close(theirs, ours)
        torch.testing.assert_close(ours, expected)


def gradients(folder: Path, micro_batches: int, **settings: Any) -> torch.Tensor:
    """What one update of 32 rows does to the weights, by plain gradient descent."""
    model = tiny_model()
    before = torch.cat([p.detach().flatten().clone() for p in model.parameters()])
    trainer = plain_trainer(
        folder,
        model,
        per_device_train_batch_size=32 // micro_batches,
        gradient_accumulation_steps=micro_batches,
        optim="sgd",
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        train_sampling_strategy="sequential",
        **settings,
    )
    trainer.train()
    after = torch.cat([p.detach().flatten() for p in model.parameters()])
    return (after - before) / 1e-3


@pytest.mark.parametrize("settings", [{}, {"label_smoothing_factor": 0.1}])
def test_accumulation_does_not_change_an_update(settings: Any, tmp_path: Path) -> None:
    """Unequal micro-batches add up to the gradient of the whole batch's mean over its tokens.

    Tolerance: weights near 1 in float32, moved by 1e-3 of the gradient.
    """
    whole = gradients(tmp_path, 1, **settings)
    assert whole.abs().max() > 0.1
    for parts in (2, 4, 8):
        torch.testing.assert_close(
            gradients(tmp_path, parts, **settings), whole, atol=5e-4, rtol=1e-3
        )


def test_it_trains_evaluates_saves_and_loads(tmp_path: Path) -> None:
    """`predict_with_generate` sees -100 only where the Trainer filled up."""
    seen: list[Any] = []
    bleu = SacreBleu()

    def scores(prediction: Any) -> dict[str, float]:
        ids, labels = prediction.predictions, prediction.label_ids
        seen.append((ids.copy(), labels.copy()))
        ids[ids < 0] = labels[labels < 0] = tokenizer().pad_token_id
        texts = [tokenizer().batch_decode(x, skip_special_tokens=True) for x in (ids, labels)]
        assert texts[1] == [target for _, target in reversal_pairs(20, seed=1)]
        return {"bleu": bleu.compute(predictions=texts[0], references=texts[1])["score"]}

    model = tiny_model(label_smoothing=0.0)
    model.generation_config.max_length = 30
    trainer = plain_trainer(
        tmp_path,
        model,
        max_steps=60,
        learning_rate=5e-3,
        eval_strategy="steps",
        eval_steps=30,
        per_device_train_batch_size=32,
        generation_num_beams=2,
        compute_metrics=scores,
    )
    trainer.train()
    history = [entry for entry in trainer.state.log_history if "eval_loss" in entry]
    assert len(history) == 2 and history[1]["eval_loss"] < history[0]["eval_loss"]
    assert history[1]["eval_bleu"] > 1 and history[1]["eval_bleu"] != history[0]["eval_bleu"]
    assert model.generation_config.max_length == 30
    # The last evaluation is of the final weights: what it generated is what the model says.
    model.config.use_cache = True
    trainer.save_model(str(tmp_path / "saved"))
    again = VaswaniForConditionalGeneration.from_pretrained(tmp_path / "saved")
    assert again.config.use_cache
    sources = [source for source, _ in reversal_pairs(20, seed=1)]
    batch = tokenizer()(sources, return_tensors="pt", padding=True)
    said = tokenizer().batch_decode(again.generate(**batch, num_beams=2), skip_special_tokens=True)
    ids = seen[-1][0]
    ids[ids < 0] = 0
    assert said == tokenizer().batch_decode(ids, skip_special_tokens=True)


def test_without_a_limit_of_its_own_an_evaluation_writes_the_librarys_20(tmp_path: Path) -> None:
    """What docs/fine_tuning.md warns of; when this fails, the warning there can go."""
    model = tiny_model()
    metrics = {"generation_max_length": 30, "compute_metrics": lambda prediction: {}}
    plain_trainer(tmp_path, model, **metrics).evaluate()
    assert model.generation_config.max_length == 20


def test_evaluation_of_the_model_is_not_smoothed_but_the_trainers_is(tmp_path: Path) -> None:
    """So `eval_loss` is a log-likelihood only without `label_smoothing_factor`."""
    model = tiny_model(label_smoothing=0.3)
    losses = {
        factor: plain_trainer(
            tmp_path, copy.deepcopy(model), label_smoothing_factor=factor, prediction_loss_only=True
        ).evaluate()["eval_loss"]
        for factor in (0.0, 0.3)
    }
    batch = DataCollatorForSeq2Seq(tokenizer(), model=model)(
        [rows(20, seed=1)[k] for k in range(20)]
    )
    with torch.no_grad():
        logits = model.eval()(**batch).logits.transpose(1, 2)
    plain = cross_entropy(logits, batch["labels"]).item()
    smoothed = cross_entropy(logits, batch["labels"], label_smoothing=0.3).item()
    assert abs(plain - smoothed) > 1e-3
    # Batches of 8, 8 and 4 are averaged by rows, not by tokens.
    assert losses[0.0] == pytest.approx(plain, abs=0.1 * abs(plain - smoothed) + 0.02)
    assert losses[0.3] == pytest.approx(smoothed, abs=0.1 * abs(plain - smoothed) + 0.02)


FINE_TUNE = """
from datasets import Dataset
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, DataCollatorForSeq2Seq
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments

folder, output = sys.argv[1:]
sources, targets = json.loads(sys.stdin.read())
model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
model.generation_config.max_length = 30
ids = tokenizer(sources, text_target=targets)
rows = Dataset.from_dict({"input_ids": ids["input_ids"], "labels": ids["labels"]})
settings = dict(max_steps=30, learning_rate=5e-3, report_to="none", save_strategy="no")
args = Seq2SeqTrainingArguments(
    output, predict_with_generate=True, per_device_train_batch_size=32, use_cpu=True, **settings
)
trainer = Seq2SeqTrainer(
    model=model, args=args, train_dataset=rows, eval_dataset=rows.select(range(20)),
    data_collator=DataCollatorForSeq2Seq(tokenizer, model=model), processing_class=tokenizer,
    compute_metrics=lambda prediction: {"rows": len(prediction.predictions)},
)
before = trainer.evaluate()["eval_loss"]
trainer.train()
result = trainer.evaluate()
trainer.save_model(output)
print(json.dumps([before, result["eval_loss"], result["eval_rows"]]))
"""


def test_it_trains_where_the_package_is_not(tmp_path: Path) -> None:
    """Fine-tuned by the code of a saved folder, saved with it, and loaded here again."""
    tiny_model().save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    given = [list(side) for side in zip(*reversal_pairs(64), strict=True)]
    folders = tmp_path / "model", tmp_path / "tuned"
    before, after, count = run_elsewhere(FINE_TUNE, *folders, work=tmp_path, given=given)
    assert after < 0.8 * before and count == 20
    assert (tmp_path / "tuned" / "modeling_vaswani.py").is_file()
    model = VaswaniForConditionalGeneration.from_pretrained(tmp_path / "tuned")
    batch = DataCollatorForSeq2Seq(tokenizer(), model=model)([rows(64)[k] for k in range(20)])
    with torch.no_grad():
        assert model(**batch).loss.item() == pytest.approx(after, rel=0.1)


SMALLER = {"PAIRS": 1000, "HELD_OUT": 10, "UPDATES": 20, "OUTPUT": "'model'"}


def test_the_example_runs_to_a_folder_that_translates(tmp_path: Path, monkeypatch, capsys) -> None:
    """At its defaults it takes two minutes; here a smaller run of the same cells."""
    monkeypatch.chdir(tmp_path)
    code = EXAMPLE.read_text(encoding="utf-8")
    for name, value in SMALLER.items():
        code, count = re.subn(rf"^{name} = .*$", f"{name} = {value}", code, flags=re.MULTILINE)
        assert count == 1
    variables: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, str(EXAMPLE), "exec"), variables)
    history = variables["trainer"].state.log_history
    losses = [entry["loss"] for entry in history if "loss" in entry]
    assert losses[-1] < 0.85 * losses[0]
    assert len(variables["translations"]) == 5
    again = VaswaniForConditionalGeneration.from_pretrained(tmp_path / "model")
    assert again.config.use_cache and again.generation_config.max_length is None
    # No limit but that of the source: without an end token, source + 50 tokens.
    source = torch.randint(10, again.config.vocab_size, (1, 150))
    never_ends = {"suppress_tokens": [again.config.eos_token_id], "num_beams": 1}
    assert again.generate(source, **never_ends).size(1) == 1 + 150 + 50
    assert (tmp_path / "model" / "modeling_vaswani.py").is_file()
    assert "eval_bleu" in capsys.readouterr().out


def test_the_example_is_a_notebook_in_cells() -> None:
    """The percent format: text cells are comments, every other cell compiles by itself."""
    cells = re.split(r"^# %%", EXAMPLE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert len(cells) > 10
    for cell in cells:
        kind, _, body = cell.partition("\n")
        if kind == " [markdown]":
            assert all(line.startswith("#") or not line for line in body.splitlines())
        else:
            assert kind == ""
            compile(body, str(EXAMPLE), "exec")
