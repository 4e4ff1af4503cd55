"""The card that a run leaves: complete enough to be published, with all that the run knows."""

import json
import re
from pathlib import Path

import pytest
from hub_server import card_errors
from huggingface_hub import ModelCard
from training_material import arguments, reversal_pairs, write_tsv

from vaswani.errors import InputError
from vaswani.hub_push import checked_plan
from vaswani.published_card import card_problems
from vaswani.training_run import DataArguments, ModelArguments, run_training


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("run")
    for name, seed in (("train", 0), ("more", 3), ("test", 1)):
        write_tsv(work / f"{name}.tsv", reversal_pairs(120, longest=4, seed=seed))
    data = DataArguments(
        data=[str(work / "train.tsv"), str(work / "more.tsv")],
        data_licenses=["cc-by-4.0", "unknown"],
        source="en",
        target="de",
        test_data=[str(work / "test.tsv")],
        validation_split=12,
    )
    sizes = dict.fromkeys(("encoder_layers", "decoder_layers"), 1)
    model = ModelArguments(
        preset="tiny", vocabulary_size=340, config_overrides=sizes, license="cc-by-sa-4.0"
    )
    return run_training(model, data, arguments(work / "out", max_steps=3, warmup_steps=2))


@pytest.fixture(scope="module")
def card(finished: Path) -> str:
    return (finished / "README.md").read_text(encoding="utf-8")


def row(card: str, name: str) -> str:
    return re.search(rf"^\| {re.escape(name)} \| (.*) \|$", card, re.MULTILINE)[1]  # type: ignore[index]


def test_card_of_a_run_is_complete_and_valid(card: str) -> None:
    assert card_problems(card) == []
    assert card_errors(card) == []


def test_card_tells_the_data_with_counts_and_licenses(card: str) -> None:
    assert row(card, "corpora") == "train.tsv, more.tsv"
    assert row(card, "licenses of the corpora") == "cc-by-4.0, unknown"
    # 240 pairs of two corpora, of which 12 are held out at the least.
    assert 0 < int(row(card, "training pairs").replace(",", "")) <= 228
    assert ModelCard(card).data.license == "cc-by-sa-4.0"


def test_card_tells_time_device_and_energy(card: str) -> None:
    assert re.fullmatch(r"\d+\.\d minutes", row(card, "wall time"))
    assert row(card, "device")
    assert re.match(r"[\d.e-]+ kWh = \(1 processor x 42\.5 W\)", row(card, "energy (estimate)"))


def test_card_holds_the_scores_of_both_texts(finished: Path, card: str) -> None:
    results = {(r.dataset_split, r.metric_type): r for r in ModelCard(card).data.eval_results}
    assert set(results) == {(s, m) for s in ("validation", "test") for m in ("bleu", "chrf")}
    for split, file in (("validation", "scores.json"), ("test", "test_scores.json")):
        scores = json.loads((finished / file).read_text(encoding="utf-8"))
        for metric in ("bleu", "chrf"):
            found = results[split, metric]
            assert found.metric_value == round(scores[metric], 4)
            assert found.metric_args == {"signature": scores[f"{metric}_signature"]}
    assert results["test", "bleu"].dataset_name == "test.tsv"


def test_no_path_of_the_machine_is_in_the_card(finished: Path, card: str) -> None:
    assert str(finished.parent) not in card


def test_run_with_absolute_paths_is_ready_but_for_its_settings(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vaswani.hub_push.loading_problems", lambda folder: [])
    with pytest.raises(
        InputError, match=r"got \S+: settings.yaml, line \d+ holds the path /\S+\. "
    ):
        checked_plan(finished, "ada/en-de")
    plan = checked_plan(finished, "ada/en-de", leave_out=["settings.yaml"])
    assert {"log.jsonl", "test_scores.json", "translations.tsv"} <= set(plan.model.files)


def test_licenses_must_be_as_many_as_the_corpora() -> None:
    with pytest.raises(InputError, match=r"`data_licenses` must be one for each corpus, got 1 for"):
        DataArguments(data=["a.tsv", "b.tsv"], source="en", target="de", data_licenses=["mit"])


def test_card_of_a_model_that_goes_on_names_the_first_and_its_license(
    finished: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_tsv(tmp_path / "more.tsv", reversal_pairs(60, longest=4, seed=5))
    data = DataArguments(
        data=[str(tmp_path / "more.tsv")], source="en", target="de", validation_split=8
    )
    model = ModelArguments(model=str(finished), license="mit")
    with caplog.at_level("WARNING", logger="vaswani"):
        out = run_training(model, data, arguments(tmp_path / "out", max_steps=1, warmup_steps=1))
    assert "goes on from are under cc-by-sa-4.0; the card will say mit." in caplog.text
    told = row((out / "README.md").read_text(encoding="utf-8"), "goes on from")
    assert told == "out (under cc-by-sa-4.0), whose training data is in its own card"
