"""The presets are the rows of Table 3; `vaswani presets` shows them beside the paper's numbers."""

from collections.abc import Callable
from functools import cache

import pytest

from vaswani import VaswaniConfig, presets
from vaswani.cli import main
from vaswani.errors import InputError
from vaswani.paper_results import TABLE_2, TABLE_3, PaperCost
from vaswani.parameter_counts import ParameterCounts, count_parameters
from vaswani.preset_settings import PRESET_SETTINGS
from vaswani.run_settings import ModelArguments

# Table 3, by the names of the columns: N, d_model, d_ff, h, d_k, d_v, dropout, label smoothing,
# updates. Cells that the paper leaves empty are those of its base model.
BASE = (6, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000)
ROWS = {
    "base": {},
    "table3-a-h1": {"h": 1, "d_k": 512, "d_v": 512},
    "table3-a-h4": {"h": 4, "d_k": 128, "d_v": 128},
    "table3-a-h16": {"h": 16, "d_k": 32, "d_v": 32},
    "table3-a-h32": {"h": 32, "d_k": 16, "d_v": 16},
    "table3-b-dk16": {"d_k": 16},
    "table3-b-dk32": {"d_k": 32},
    "table3-c-n2": {"N": 2},
    "table3-c-n4": {"N": 4},
    "table3-c-n8": {"N": 8},
    "table3-c-d256": {"d_model": 256, "d_k": 32, "d_v": 32},
    "table3-c-d1024": {"d_model": 1024, "d_k": 128, "d_v": 128},
    "table3-c-ff1024": {"d_ff": 1024},
    "table3-c-ff4096": {"d_ff": 4096},
    "table3-d-drop0": {"dropout": 0.0},
    "table3-d-drop0.2": {"dropout": 0.2},
    "table3-d-ls0": {"smoothing": 0.0},
    "table3-d-ls0.2": {"smoothing": 0.2},
    "table3-e-learned": {},
    "big-en-de": {"d_model": 1024, "d_ff": 4096, "h": 16, "dropout": 0.3, "updates": 300_000},
}
COLUMNS = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "dropout", "smoothing", "updates")
# Weight matrices without tables, biases and norms, in millions: arithmetic on the paper's sizes.
MATRICES = {
    "base": 44.04,
    "table3-b-dk16": 36.96,
    "table3-b-dk32": 39.32,
    "table3-c-n2": 14.68,
    "table3-c-n4": 29.36,
    "table3-c-n8": 58.72,
    "table3-c-d256": 17.30,
    "table3-c-d1024": 125.83,
    "table3-c-ff1024": 31.46,
    "table3-c-ff4096": 69.21,
    "big-en-de": 176.16,
}


@cache
def counted(name: str, vocab_size: int = 37_000) -> ParameterCounts:
    return count_parameters(VaswaniConfig.from_preset(name, vocab_size=vocab_size))


def row_of(name: str) -> dict[str, float]:
    return dict(zip(COLUMNS, BASE, strict=True)) | ROWS[name]


def test_every_row_of_table_3_is_a_preset() -> None:
    assert set(ROWS) == set(TABLE_3) <= set(presets())
    assert {"big-en-fr", "small", "tiny"} | set(ROWS) == set(presets())
    assert len(TABLE_3) == 20


@pytest.mark.parametrize("name", ROWS)
def test_preset_has_the_settings_of_its_row(name: str) -> None:
    config, row = VaswaniConfig.from_preset(name), row_of(name)
    for side in ("encoder", "decoder"):
        heads = getattr(config, f"{side}_attention_heads")
        assert getattr(config, f"{side}_layers") == row["N"]
        assert getattr(config, f"{side}_ffn_dim") == row["d_ff"]
        assert (heads, *config.head_sizes(heads)) == (row["h"], row["d_k"], row["d_v"])
    assert config.d_model == row["d_model"]
    assert (config.dropout, config.label_smoothing) == (row["dropout"], row["smoothing"])
    assert config.position_encoding == ("learned" if name.endswith("learned") else "sinusoidal")
    settings = PRESET_SETTINGS[name]
    assert settings.max_steps == row["updates"]
    assert (settings.tokens_per_update, settings.warmup_steps) == (25_000, 4000)


def test_averaged_checkpoints_are_those_of_section_6() -> None:
    """6.1: 5 for base models, 20 for big ones; 6.2: none for Table 3."""
    averaged = {name: settings.average_last for name, settings in PRESET_SETTINGS.items()}
    assert (averaged["base"], averaged["big-en-de"], averaged["big-en-fr"]) == (5, 20, 20)
    assert {averaged[name] for name in averaged if name.startswith("table3-")} == {0}
    assert set(averaged) == set(presets())


@pytest.mark.parametrize("name", MATRICES)
def test_weight_matrices_are_those_of_the_paper(name: str) -> None:
    assert round(counted(name).matrices / 1e6, 2) == MATRICES[name]


@pytest.mark.parametrize("name", ROWS)
def test_weight_matrices_follow_from_the_sizes_of_the_row(name: str) -> None:
    """Four projections per attention, one of them in the encoder and two in the decoder."""
    row = row_of(name)
    attention = row["d_model"] * row["h"] * (2 * row["d_k"] + 2 * row["d_v"])
    feed_forward = 2 * row["d_model"] * row["d_ff"]
    assert counted(name).matrices == row["N"] * (3 * attention + 2 * feed_forward)


@pytest.mark.parametrize("name", [name for name, row in TABLE_3.items() if row.millions])
def test_totals_are_within_3_percent_of_the_paper(name: str) -> None:
    """The paper's totals imply a table of about 41,000 rows."""
    total = counted(name, 41_000).total / 1e6
    assert total == pytest.approx(TABLE_3[name].millions, rel=0.03)


@pytest.mark.parametrize("name", ["base", "table3-b-dk16", "big-en-de"])
def test_parts_add_up_to_all_parameters(name: str) -> None:
    """Beside the matrices: a table, b1 and b2 of each feed-forward, gain and bias of each norm."""
    row, counts = row_of(name), counted(name)
    assert counts.tables == 37_000 * row["d_model"]
    assert counts.norms == row["N"] * (2 + 3) * 2 * row["d_model"]
    biases = row["N"] * 2 * (row["d_ff"] + row["d_model"])
    assert counts.total == counts.tables + counts.norms + biases + counts.matrices


def test_source_tokens_go_through_encoder_and_keys_and_values_of_cross_attention() -> None:
    d, ff = 512, 2048
    counts = counted("base")
    assert counts.source_matrices == 6 * (4 * d * d + 2 * d * ff) + 6 * 2 * d * d
    assert counts.target_matrices == 6 * (6 * d * d + 2 * d * ff)


def test_floating_point_operations_of_the_paper_are_hours_times_gpus_times_rate() -> None:
    """Table 2 prints two digits."""
    for row in TABLE_2.values():
        assert f"{row.cost.operations:.1e}" == f"{row.operations:.1e}"
    assert PaperCost(hours=1, gpus=2, rate=3.0).operations == 21_600


REFUSALS: list[Callable[[str], object]] = [
    VaswaniConfig.from_preset,
    lambda name: ModelArguments(preset=name),
]


@pytest.mark.parametrize("make", REFUSALS)
def test_a_misspelt_preset_is_refused_with_the_nearest(make: Callable[[str], object]) -> None:
    with pytest.raises((InputError, ValueError), match=r"Did you mean table3-b-dk16\?$"):
        make("table3-b-dk-16")


def shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["presets"]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_presets_are_listed_within_the_terminal(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = shown(capsys, monkeypatch, width)
    assert max(map(len, lines)) <= width
    for name in presets():
        assert sum(line.split()[:1] == [name] for line in lines) == (1 if width > 110 else 2)


def test_listing_shows_our_counts_beside_those_of_the_paper(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = {line.split()[0]: line.split() for line in shown(capsys, monkeypatch, 140) if line}
    titles = lines["preset"]
    row = dict(zip(titles, lines["base"], strict=True))
    assert row["37,000"] == f"{counted('base').total / 1e6:.1f}"
    assert row["41,000"] == f"{counted('base', 41_000).total / 1e6:.1f}"
    assert (row["M"], row["PPL"], row["BLEU"]) == ("65", "4.92", "25.8")
    assert (row["updates"], row["avg"]) == ("100,000", "5")
