"""Claims about `vaswani.evaluation` and `vaswani evaluate`."""

import json
import math

import numpy as np
import pytest
import sacrebleu
import torch

from vaswani.cli import main
from vaswani.errors import InputError
from vaswani.evaluation import (
    TranslationMetric,
    corpus_scores,
    decode_predictions,
    evaluate_translator,
)
from vaswani.translation import Translator

HYPOTHESES = ["The cat sat on the mat today.", "A small dog barks at night."]
REFERENCES = ["The cat sat on the mat.", "A little dog barks at night."]


def test_scores_are_those_of_sacrebleu() -> None:
    scores = corpus_scores(HYPOTHESES, REFERENCES)
    assert scores["bleu"] == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert scores["chrf"] == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert 0 < scores["bleu"] < 100 and scores["sentences"] == 2
    assert scores["length_ratio"] == pytest.approx(15 / 14)  # words and marks, counted by hand
    assert "tok:13a" in scores["bleu_signature"] and "nc:6" in scores["chrf_signature"]


def test_right_translations_score_100() -> None:
    scores = corpus_scores(REFERENCES, REFERENCES)
    assert (scores["bleu"], scores["chrf"]) == (pytest.approx(100), pytest.approx(100))


def test_several_references_help() -> None:
    both = [[a, b] for a, b in zip(REFERENCES, HYPOTHESES, strict=True)]
    assert corpus_scores(HYPOTHESES, both)["bleu"] == pytest.approx(100)
    with pytest.raises(InputError, match="as many references for each sentence"):
        corpus_scores(HYPOTHESES, [["a"], ["b", "c"]])


def test_unequal_and_empty_lists_are_refused() -> None:
    with pytest.raises(InputError, match="same number of sentences, got 2 and 1"):
        corpus_scores(HYPOTHESES, REFERENCES[:1])
    with pytest.raises(InputError, match="at least one sentence, got none"):
        corpus_scores([], [])


@pytest.mark.parametrize("several", [False, True])
def test_metric_of_evaluate_gives_the_same_without_the_network(several, monkeypatch) -> None:
    monkeypatch.setattr("socket.socket.connect", lambda *args: pytest.fail("went online"))
    metric = TranslationMetric()
    references = [[reference] for reference in REFERENCES] if several else REFERENCES
    metric.add_batch(predictions=HYPOTHESES[:1], references=references[:1])
    metric.add_batch(predictions=HYPOTHESES[1:], references=references[1:])
    assert metric.compute() == corpus_scores(HYPOTHESES, REFERENCES)


@pytest.mark.parametrize("kind", [np.array, torch.tensor, list, lambda rows: (np.array(rows),)])
def test_ignored_labels_never_reach_the_tokenizer(tiny_tokenizer, kind) -> None:
    """Trial 23: -100 as an id is an OverflowError in the tokenizer."""
    ids = tiny_tokenizer(text_target=["The child.", "Kind"])["input_ids"]
    width = max(map(len, ids)) + 3
    padded = [row + [-100] * (width - len(row)) for row in ids]
    assert decode_predictions(tiny_tokenizer, kind(padded)) == ["The child.", "Kind"]


def test_loss_is_the_mean_over_all_tokens_of_the_test_set(copying_model, tiny_tokenizer) -> None:
    """One padded batch through the model's own loss, which the search has no part in."""
    sources = ["The child.", "The baker sees the Kind."]
    references = ["Kind", "The baker finds the Kind."]
    scores, translations = evaluate_translator(
        Translator(copying_model, tiny_tokenizer), sources, references, num_beams=1
    )
    batch = tiny_tokenizer(sources, text_target=references, padding=True, return_tensors="pt")
    with torch.inference_mode():
        loss = copying_model(**batch).loss.item()
    assert scores["loss"] == pytest.approx(loss, rel=1e-5)
    assert scores["perplexity"] == pytest.approx(math.exp(loss), rel=1e-5)
    assert scores["bleu"] == corpus_scores([t.text for t in translations], references)["bleu"]
    assert scores["truncated"] == sum(t.truncated for t in translations)


def test_command_measures_a_model(tmp_path, folder, capsys) -> None:
    data = tmp_path / "dev.tsv"
    data.write_text("The child.\tThe child.\nThe baker sees the Kind.\tThe Kind.\n")
    figures, predictions = tmp_path / "figures.json", tmp_path / "out.txt"
    words = ["--model", folder, "--data", data, "--source", "en", "--target", "de"]
    words += ["--json", figures, "--predictions", predictions, "--device", "cpu"]
    assert main(["evaluate", *map(str, words)]) == 0
    scores = json.loads(figures.read_text())
    table = capsys.readouterr().out
    assert f"BLEU            {scores['bleu']:.2f}\n" in table and "perplexity" in table
    lines = predictions.read_text().splitlines()
    assert scores["bleu"] == corpus_scores(lines, ["The child.", "The Kind."])["bleu"]
    assert set(scores) > {"bleu", "chrf", "loss", "truncated", "tokens_per_second", "seconds"}


def test_command_measures_finished_translations(tmp_path, capsys) -> None:
    for name, lines in (("out.txt", HYPOTHESES), ("ref.txt", REFERENCES)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    words = ["--hypotheses", tmp_path / "out.txt", "--references", tmp_path / "ref.txt"]
    assert main(["evaluate", *map(str, words)]) == 0
    table = capsys.readouterr().out
    assert f"{corpus_scores(HYPOTHESES, REFERENCES)['bleu']:.2f}" in table
    assert "loss" not in table and "BLEU signature" in table


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "either `--model` or `--hypotheses` must be given, got neither"),
        ("--model m --hypotheses h", "got both"),
        ("--model m --data d --source en", "`--target` must be given with --model"),
        ("--hypotheses h", "`--references` must be given with --hypotheses"),
        ("--hypotheses no --references no", "no must exist"),
        ("--hypotheses h --references r --json none/x.json", "in an existing folder"),
        ("--model none --data no.tsv --source en --target de", "no.tsv"),
    ],
)
def test_incomplete_requests_are_refused_in_one_line(capsys, words, message) -> None:
    assert main(["evaluate", *words.split()]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and message in err


def test_unequal_files_are_refused_with_both_counts(tmp_path, capsys) -> None:
    (tmp_path / "a").write_text("x\ny\n")
    (tmp_path / "b").write_text("x\n")
    words = ["evaluate", "--hypotheses", str(tmp_path / "a"), "--references", str(tmp_path / "b")]
    assert main(words) == 2
    assert "got 2 and 1" in capsys.readouterr().err
