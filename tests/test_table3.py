"""Table 3 in miniature: rows keep the paper's proportions, and an interruption loses one model."""

import json
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from vaswani import VaswaniConfig, table3
from vaswani.errors import InputError
from vaswani.paper_results import TABLE_3
from vaswani.table3 import Table3Arguments, measure_table3, miniature
from vaswani.training import VaswaniTrainer


def toy(output: Path, **settings: Any) -> Table3Arguments:
    """Two updates on a handful of sentences, at a sixteenth of every width."""
    defaults: dict[str, Any] = {
        "rows": ["base", "table3-c-n2"],
        "pairs": 60,
        "validation_pairs": 4,
        "updates": 2,
        "tokens_per_update": 200,
        "warmup_steps": 2,
        "vocabulary_size": 350,
        "width_divisor": 16,
    }
    return Table3Arguments(output_dir=str(output), **{**defaults, **settings})


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("table3") / "run"
    measure_table3(toy(output))
    return output


@pytest.mark.parametrize("name", TABLE_3)
@pytest.mark.parametrize("width", [1, 8, 16])
def test_miniature_keeps_the_proportions_of_its_row(name: str, width: int) -> None:
    full = VaswaniConfig.from_preset(name)
    small = miniature(name, width=width, depth=2, vocab_size=300)
    heads = full.encoder_attention_heads
    assert small.encoder_attention_heads == heads
    assert small.d_model * width == full.d_model
    assert small.encoder_ffn_dim * width == full.encoder_ffn_dim
    assert [size * width for size in small.head_sizes(heads)] == list(full.head_sizes(heads))
    assert small.decoder_layers * 2 == full.decoder_layers
    assert (small.dropout, small.label_smoothing) == (full.dropout, full.label_smoothing)
    assert small.position_encoding == full.position_encoding


def rows_of(output: Path) -> list[list[str]]:
    lines = (output / "table3.md").read_text(encoding="utf-8").splitlines()
    return [line.strip("| ").split(" | ") for line in lines if "`" in line]


def test_table_has_a_row_for_each_model_beside_the_paper(measured: Path) -> None:
    rows = rows_of(measured)
    assert [row[1] for row in rows] == ["`base`", "`table3-c-n2`"]
    assert rows[0][-2:] == ["4.92", "25.8"] and rows[1][-2:] == ["6.11", "23.7"]
    table = [line.split("\t") for line in (measured / "table3.tsv").read_text().splitlines()]
    values = dict(zip(table[0], table[1], strict=True))
    result = json.loads((measured / "results.jsonl").read_text().splitlines()[0])
    assert float(values["perplexity"]) == pytest.approx(result["perplexity"], abs=1e-4)
    assert (values["preset"], values["paper_perplexity"]) == ("base", "4.92")


def test_measured_rows_are_not_trained_again(
    measured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table3, "_measured", lambda *arguments: pytest.fail("trained again"))
    before = (measured / "results.jsonl").read_bytes()
    measure_table3(toy(measured))
    assert (measured / "results.jsonl").read_bytes() == before


def test_interrupted_measurement_goes_on_with_the_row_that_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def measured(name: str, seed: int, *others: Any) -> dict[str, Any]:
        asked.append((name, seed))
        if len(asked) == 2:
            raise KeyboardInterrupt
        numbers = {"parameters": 1, "updates": 2, "perplexity": 3.0 + seed, "bleu": 4.0}
        return {"preset": name, "seed": seed, "seconds": 1.0, **numbers}

    monkeypatch.setattr(table3, "_measured", measured)
    output = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        measure_table3(toy(output, seeds=2))
    assert len(rows_of(output)) == 1
    measure_table3(toy(output, seeds=2))
    lost = ("table3-c-n2", 1)
    assert asked == [("base", 1), lost, lost, ("base", 2), ("table3-c-n2", 2)]
    # Seeds 1 and 2 gave 4 and 5: mean 4.5, deviation sqrt(1/2).
    assert "4.50 ± 0.71" in (output / "table3.md").read_text(encoding="utf-8")


def test_ctrl_c_within_a_training_leaves_no_trace_of_that_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training_step = VaswaniTrainer.training_step

    def interrupt(self: Any, *arguments: Any, **options: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return training_step(self, *arguments, **options)

    monkeypatch.setattr(VaswaniTrainer, "training_step", interrupt)
    with pytest.raises(KeyboardInterrupt):
        measure_table3(toy(tmp_path / "run", updates=20))
    assert list((tmp_path / "run").iterdir()) == []


def test_other_settings_are_refused_in_a_folder_with_measurements(measured: Path) -> None:
    with pytest.raises(InputError, match="`updates` must be that of the rows measured already"):
        measure_table3(toy(measured, updates=3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rows": ["table3-a-h2"]}, "got 'table3-a-h2'. Did you mean table3-a-h"),
        ({"width_divisor": 3}, "`width_divisor` must be one of 1, 2, 4, 8, 16, got 3"),
        ({"seeds": 0}, "`seeds` must be at least 1, got 0"),
        ({"tokens_per_update": 0}, "`tokens_per_update` must be at least 1, got 0"),
        ({"warmup_steps": -1}, "`warmup_steps` must be at least 0, got -1"),
        ({"threads": 0}, "`threads` must be at least 1, got 0"),
        ({"learning_rate_factor": 0.0}, "`learning_rate_factor` must be above 0 and finite, got 0"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Table3Arguments(**settings)


def test_data_that_are_missing_leave_no_folder(tmp_path: Path) -> None:
    missing = str(tmp_path / "nowhere.tsv")
    with pytest.raises((InputError, FileNotFoundError), match=r"nowhere\.tsv"):
        measure_table3(toy(tmp_path / "run", data=[missing]))
    assert not (tmp_path / "run").exists()


def test_damaged_measurements_are_named(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text('{"preset": "ba')
    with pytest.raises(InputError, match=r"got .*results\.jsonl, a line of which is no JSON"):
        measure_table3(toy(tmp_path))


def test_big_model_takes_three_times_as_many_updates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = toy(tmp_path, updates=100)
    assert table3._updates("big-en-de", arguments) == 300
    assert table3._updates("table3-c-d1024", arguments) == 100


def script(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """What `scripts/table3.py` returns for these words."""
    path = Path(__file__).resolve().parent.parent / "scripts" / "table3.py"
    monkeypatch.setattr("sys.argv", [str(path), *words])
    monkeypatch.setattr("sys.path", list(sys.path))
    return int(runpy.run_path(str(path))["main"]())


def test_script_refuses_an_unknown_row_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script(monkeypatch, "--rows", "bass") == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    assert "Did you mean base?" in printed.err


def test_script_shows_each_option_and_each_default_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script(monkeypatch, "--help") == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: table3.py [options]\n\nTrains every row")
    assert text.count("--validation-pairs") == 1 and "validation_pairs" not in text
    assert "(default: None)" not in text and ") (default" not in " ".join(text.split())
    assert "python scripts/table3.py --output-dir runs/table3" in text


def test_script_names_its_own_option_where_too_many_pairs_are_held_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "few.tsv").write_text("one\teins\ntwo\tzwei\n")
    words = ["--data", str(tmp_path / "few.tsv"), "--output-dir", str(tmp_path / "table")]
    assert script(monkeypatch, *words, "--validation-pairs", "2") == 2
    assert "`validation_pairs` must leave pairs to train on" in capsys.readouterr().err


def test_script_prints_the_tables_of_what_is_measured(
    measured: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--output-dir", str(measured)]
    for name, value in vars(toy(measured)).items():
        if name not in ("output_dir", "rows") and value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    assert script(monkeypatch, *words, "--rows", "base", "table3-c-n2") == 0
    assert capsys.readouterr().out.split() == [
        str(measured / "table3.md"),
        str(measured / "table3.tsv"),
    ]
