"""Laws of section 5 through the Trainer: rates, and losses that do not depend on how text is dealt.

Those of the parts alone are in test_batching.py, test_loss.py and test_optimization.py.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional
from training_material import Watch, arguments, reversal_pairs, tiny_model, tokenized, tokenizer
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments

from vaswani.batching import TranslationCollator
from vaswani.training import VaswaniTrainer
from vaswani.training_data import TokenizedPairs

# Float32 sums of the same terms in another order; gradients here are around 0.1.
CLOSE = {"rtol": 0.0, "atol": 1e-6}


class Recorder(TranslationCollator):
    """A collator that notes the sources of the sentences that it was given."""

    def __call__(self, features: Sequence[Any]) -> dict[str, torch.Tensor]:
        self.__dict__.setdefault("seen", []).extend(tuple(f["input_ids"]) for f in features)
        return super().__call__(features)


def paper_rate(k: int, d_model: int, warmup: int) -> float:
    """Equation 3 as printed, k counted from 1."""
    ramp = k * warmup**-1.5 if warmup else k**-0.5
    return d_model**-0.5 * min(k**-0.5, ramp)


def trainer(folder: Path, pairs: TokenizedPairs, **settings: Any) -> VaswaniTrainer:
    return VaswaniTrainer(
        tiny_model(),
        arguments(folder, **{"eval_strategy": "no", "tokens_per_update": 2000, **settings}),
        train_dataset=pairs,
        processing_class=tokenizer(),
        data_collator=Recorder(tokenizer().pad_token_id),
    )


def first_update(run: Any) -> torch.Tensor:
    watch = Watch()
    run.add_callback(watch)
    run.train()
    return watch.gradients[0]


@pytest.mark.parametrize("warmup", [0, 1, 4])
@pytest.mark.parametrize("accumulation", [1, 3])
def test_update_k_has_the_papers_rate_at_k_whatever_the_accumulation(
    warmup: int, accumulation: int, tmp_path: Path
) -> None:
    """Trial 19: the first update too has a rate above 0."""
    run, watch = (
        trainer(
            tmp_path,
            tokenized(reversal_pairs(60)),
            tokens_per_update=100,
            warmup_steps=warmup,
            gradient_accumulation_steps=accumulation,
        ),
        Watch(),
    )
    run.add_callback(watch)
    run.train()
    assert watch.rates == pytest.approx([paper_rate(k, 32, warmup) for k in range(1, 7)])
    assert watch.rates[0] > 0


def eight_sentences() -> tuple[TokenizedPairs, torch.Tensor]:
    """Sentences of 2 to 9 tokens, and the gradient of torch's own loss over all their tokens."""
    words = ["null", "eins", "zwei", "drei", "vier", "acht", "neun", "zehn"]
    pairs = tokenized([(" ".join(words[:n]), " ".join(words[-n:])) for n in range(1, 9)])
    model = tiny_model().train()
    batch = TranslationCollator(tokenizer().pad_token_id)([pairs[k] for k in range(8)])
    functional.cross_entropy(
        model(**batch).logits.flatten(0, 1), batch["labels"].flatten(), label_smoothing=0.1
    ).backward()
    return pairs, torch.cat([weight.grad.flatten() for weight in model.parameters()])


@pytest.mark.parametrize("accumulation", [1, 2, 3, 8, 11])
def test_eight_sentences_have_one_gradient_however_they_are_dealt(
    accumulation: int, tmp_path: Path
) -> None:
    """One batch of the token budget, 2 x 4, 8 x 1; as eleven parts three of them are empty."""
    pairs, expected = eight_sentences()
    run = trainer(tmp_path, pairs, max_steps=1, gradient_accumulation_steps=accumulation)
    gradient = first_update(run)
    assert gradient.isfinite().all() and gradient.abs().max() > 0.01
    torch.testing.assert_close(gradient, expected, **CLOSE)


@pytest.mark.parametrize("sentences", [1, 3, 4, 8])
def test_plain_trainer_of_transformers_gets_the_same_gradient(
    sentences: int, tmp_path: Path
) -> None:
    """Micro-batches of 1, 3, 4, 8 sentences, by way of `num_items_in_batch`."""
    pairs, expected = eight_sentences()
    plain = Seq2SeqTrainer(
        tiny_model(),
        Seq2SeqTrainingArguments(
            str(tmp_path),
            per_device_train_batch_size=sentences,
            gradient_accumulation_steps=-(-8 // sentences),
            max_steps=1,
            max_grad_norm=0.0,
            remove_unused_columns=False,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
        ),
        train_dataset=pairs,
        data_collator=TranslationCollator(tokenizer().pad_token_id),
    )
    torch.testing.assert_close(first_update(plain), expected, **CLOSE)


def test_reported_loss_does_not_depend_on_the_accumulation(tmp_path: Path) -> None:
    pairs, _ = eight_sentences()
    losses = []
    for accumulation in (1, 2, 8, 11):
        run = trainer(tmp_path, pairs, max_steps=1, gradient_accumulation_steps=accumulation)
        run.train()
        losses += [entry["loss"] for entry in run.state.log_history if "loss" in entry]
    assert len(losses) == 4
    assert losses == pytest.approx(losses[:1] * 4, rel=1e-6)


def test_validation_loss_does_not_depend_on_the_company_of_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs, _ = eight_sentences()
    run = trainer(tmp_path, pairs)
    losses = []
    for tokens in (1, 20, 4096):
        monkeypatch.setattr("vaswani.training._EVALUATION_TOKENS", tokens)
        losses.append(run._validation_loss(pairs))
    assert losses == pytest.approx(losses[:1] * 3, rel=1e-6)


def seen_in_epochs(folder: Path, pairs: TokenizedPairs, **settings: Any) -> list[list[tuple]]:
    """The sources that the updates of two epochs were given, in order."""
    run = trainer(folder, pairs, **{"max_steps": -1, "num_train_epochs": 2, **settings})
    run.train()
    seen = run.data_collator.seen
    return [seen[: len(pairs)], seen[len(pairs) :]]


@pytest.mark.parametrize("accumulation", [1, 3])
def test_every_sentence_is_trained_on_once_an_epoch_in_an_order_of_its_own(
    accumulation: int, tmp_path: Path
) -> None:
    pairs = tokenized(reversal_pairs(70, longest=8))
    settings = {"tokens_per_update": 100, "gradient_accumulation_steps": accumulation}
    first, second = seen_in_epochs(tmp_path, pairs, **settings)
    everything = sorted(tuple(pairs[k]["input_ids"]) for k in range(len(pairs)))
    assert sorted(first) == sorted(second) == everything
    assert first != second
    assert seen_in_epochs(tmp_path, pairs, **settings) == [first, second]
    assert seen_in_epochs(tmp_path, pairs, seed=7, **settings)[0] not in (first, second)


def test_sentence_beyond_the_budget_is_reported_and_trained_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    long = ("eins " * 60, "eins " * 60)
    pairs = tokenized([*reversal_pairs(20, longest=3), long])
    with caplog.at_level(logging.WARNING, logger="vaswani"):
        first, _ = seen_in_epochs(tmp_path, pairs, tokens_per_update=30)
    assert "1 sentence is longer than `tokens_per_update`=30" in caplog.text
    assert tuple(pairs[20]["input_ids"]) in first
