"""`benchmarks/bench_learning.py`: both contenders learn, and one measure fits both."""

import json
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from training_material import reversal_pairs, tiny_model, tokenized, tokenizer, write_tsv
from transformers import DataCollatorForSeq2Seq, MarianMTModel

from vaswani.training_data import TokenizedPairs

UPDATES, MEASUREMENTS = 6, 3


@pytest.fixture(scope="module")
def bench() -> Any:
    """The script as a module; it imports its neighbor by name, as a script does."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
    import bench_learning

    yield bench_learning
    sys.path.pop(0)


@pytest.fixture(scope="module")
def folder(bench: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output folder in which both have learned for a few updates."""
    folder = tmp_path_factory.mktemp("learning")
    data = write_tsv(folder / "train.tsv", reversal_pairs(400))
    validation = write_tsv(folder / "dev.tsv", reversal_pairs(30, seed=1))
    threads = torch.get_num_threads()
    for contender in bench.CONTENDERS:
        bench.main(
            f"--contender {contender} --data {data} --validation-data {validation} "
            f"--output-dir {folder} --updates {UPDATES} --measurements {MEASUREMENTS} "
            f"--preset tiny --vocabulary-size 350 --warmup-steps 4 --learning-rate-factor 1 "
            f"--sentences 16 --tokens-per-update 128 --threads {threads}".split()
        )
    return folder


def model_of(bench: ModuleType, contender: str) -> Any:
    torch.manual_seed(0)
    ours = tiny_model(dropout=0.1)
    model = ours if contender == "vaswani" else MarianMTModel(bench.marian_config(ours.config))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


def loss_one_by_one(model: Any, pairs: TokenizedPairs) -> float:
    """By the model's own shift of labels, one sentence at a time, in torch's own words."""
    total, tokens = 0.0, 0
    for pair in pairs:
        labels = torch.tensor([pair["labels"]])
        logits = model(input_ids=torch.tensor([pair["input_ids"]]), labels=labels).logits
        losses = torch.nn.functional.cross_entropy(logits[0], labels[0], reduction="none")
        total += losses.double().sum().item()
        tokens += len(losses)
    return total / tokens


@pytest.mark.parametrize("contender", ["vaswani", "marian"])
def test_development_loss_is_that_of_sentences_one_by_one(bench: Any, contender: str) -> None:
    """More sentences than go through the model at once, and none of the padding counts."""
    pairs = tokenized(reversal_pairs(bench.SENTENCES + 9, seed=3))
    model = model_of(bench, contender).eval()
    with torch.no_grad():
        expected = loss_one_by_one(model, pairs)
    model.train()
    assert abs(expected - math.log(len(tokenizer()))) > 0.1, "no loss of a model that knows nothing"
    # Batches and single sentences add up in another order.
    assert bench.development_loss(model, pairs) == pytest.approx(expected, rel=1e-5)
    assert model.training


@pytest.mark.parametrize("contender", ["vaswani", "marian"])
def test_both_contenders_learn_on_the_same_terms(bench: Any, folder: Path, contender: str) -> None:
    lines = (folder / f"{contender}.jsonl").read_text(encoding="utf-8").splitlines()
    settings, *measured = map(json.loads, lines)
    assert settings["ended_by"] == "updates" and settings["development_pairs"] == 30
    assert [entry["updates"] for entry in measured] == [2, 4, 6]
    losses = [entry["development_loss"] for entry in measured]
    assert losses[-1] < losses[0]
    seconds = [entry["training_seconds"] for entry in measured]
    assert 0 < seconds[0] < seconds[1] < seconds[2]
    assert 0 < measured[0]["tokens"] < measured[-1]["tokens"]


def test_optimizers_and_rates_of_both_contenders_are_the_same(bench: Any, tmp_path: Path) -> None:
    """Their matrices too; ours has no biases in attention, as in the paper."""
    arguments = bench.parsed(f"--output-dir {tmp_path} --report --preset tiny".split())
    pairs = tokenized(reversal_pairs(40))
    curves, groups, sizes = [], [], []
    for make in bench.TRAINERS.values():
        trainer = make(arguments, tokenizer(), pairs)
        trainer.create_optimizer_and_scheduler(num_training_steps=4000)
        group = trainer.optimizer.param_groups[0]
        groups.append([group[name] for name in ("betas", "eps", "weight_decay", "fused")])
        rate = trainer.lr_scheduler.lr_lambdas[0]
        curves.append([rate(k) * group["initial_lr"] for k in (250, 999, 1000, 1001, 3000)])
        trained = [p for p in trainer.model.parameters() if p.requires_grad and p.dim() > 1]
        sizes.append(sum(p.numel() for p in trained))
        assert trainer.args.max_grad_norm == 0
    assert groups[0] == groups[1]
    # The schedules of the paper and of transformers count from 1 and from 0.
    assert curves[0] == pytest.approx(curves[1], rel=0.005)
    assert curves[0][1] == pytest.approx(0.3 * (128 * 1000) ** -0.5)
    assert sizes[0] == sizes[1]


def test_labels_of_the_peer_are_padded_to_the_longest_with_decoder_inputs(
    bench: Any, tmp_path: Path
) -> None:
    arguments = bench.parsed(f"--output-dir {tmp_path} --report --preset tiny".split())
    trainer = bench.marian_trainer(arguments, tokenizer(), tokenized(reversal_pairs(100)))
    assert isinstance(trainer.data_collator.collate, DataCollatorForSeq2Seq)
    batch = next(iter(trainer.get_train_dataloader()))
    assert len(batch["labels"]) == 64 and batch["labels"][:, -1].ne(-100).any()
    assert batch["attention_mask"].eq(batch["input_ids"].ne(0).long()).all()
    inputs = bench.decoder_inputs(batch["labels"], trainer.model.config)
    assert batch["decoder_input_ids"].equal(inputs)


def test_report_says_when_the_peer_has_what_ours_has(
    bench: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ours is at 4 nats after a minute; the peer's line crosses 4 half-way from 3 to 5 minutes."""
    curves = {"vaswani": [(1, 4.0), (2, 2.0)], "marian": [(1, 6.0), (3, 5.0), (5, 3.0)]}
    for name, curve in curves.items():
        entries: list[dict[str, float]] = [{}]
        for minutes, loss in curve:
            seconds = {"training_seconds": 60 * minutes, "updates": 10 * minutes}
            entries.append({**seconds, "development_loss": loss})
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    bench.main(["--output-dir", str(tmp_path), "--report"])
    shown = capsys.readouterr().out
    assert "| 1.0 | 4.000 | 4.0 | 4.0 |" in shown
    assert "| 2.0 | 2.000 | over 5.0 | over 2.5 |" in shown
    assert (tmp_path / "learning.png").read_bytes().startswith(b"\x89PNG")
    # 10 updates a minute of 12 and 6 seconds each: ours after 2 minutes, the peer as before.
    bench.main(["--output-dir", str(tmp_path), "--report", "--quiet-seconds", "12", "6"])
    assert "| 2.0 | 4.000 | 4.0 | 2.0 |" in capsys.readouterr().out
