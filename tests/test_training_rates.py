"""Claims about the rate of a run: what going on from a model changes, and what is said of it."""

from pathlib import Path
from typing import Any

import pytest

from vaswani.optimization import inverse_sqrt_rate
from vaswani.preset_settings import PRESET_SETTINGS
from vaswani.training_arguments import VaswaniTrainingArguments
from vaswani.training_rates import rate_plan, settle_going_on

WIDTH = 256
SMALL = PRESET_SETTINGS["small"]


def settled(folder: Path, updates: int | None, **chosen: Any) -> VaswaniTrainingArguments:
    args = VaswaniTrainingArguments(output_dir=str(folder), device_name="cpu", **chosen)
    args.fill_unset("small")
    settle_going_on(args, "small", updates)
    return args


def highest(warmup: float, factor: float | None) -> float:
    """Equation 3 of the paper at the end of the warm-up, where it peaks."""
    assert factor is not None
    return inverse_sqrt_rate(
        round(warmup) - 1, d_model=WIDTH, warmup_updates=round(warmup), factor=factor
    )


PEAK = highest(SMALL.warmup_steps, SMALL.learning_rate_factor)


@pytest.mark.parametrize(
    ("updates", "warmup"),
    [(500, 50), (3, 1), (100_000, SMALL.warmup_steps), (None, SMALL.warmup_steps / 10)],
)
def test_going_on_warms_up_for_a_tenth_and_rises_as_high_as_anew(
    tmp_path: Path, updates: int | None, warmup: float
) -> None:
    args = settled(tmp_path, updates)
    assert args.warmup_steps == warmup
    assert highest(warmup, args.learning_rate_factor) == pytest.approx(PEAK)


def test_what_was_chosen_is_kept_when_going_on(tmp_path: Path) -> None:
    args = settled(tmp_path, 500, warmup_steps=20, learning_rate_factor=0.7)
    assert (args.warmup_steps, args.learning_rate_factor) == (20, 0.7)
    args = settled(tmp_path, 500, warmup_steps=20)
    assert highest(20, args.learning_rate_factor) == pytest.approx(PEAK)
    assert settled(tmp_path, 500, learning_rate_factor=0.7).warmup_steps == 50


def test_rate_is_told_with_its_peak_and_its_end(tmp_path: Path) -> None:
    """The last rate follows from the peak by the inverse square root: 500 / 50 updates later."""
    line = rate_plan(settled(tmp_path, 500), WIDTH, 500)
    assert f"rises until update 50 to {PEAK:.3g}" in line
    assert line.endswith(f"to {PEAK / 10**0.5:.3g} at the last.")


def test_run_that_ends_within_its_warm_up_says_so(tmp_path: Path) -> None:
    """The ramp is linear: half of the warm-up is half of the peak."""
    line = rate_plan(settled(tmp_path, 500, warmup_steps=1000), WIDTH, 500)
    assert f"rises to {PEAK / 2:.3g} until the run ends, before the warm-up of 1,000" in line


def test_rate_of_another_schedule_is_told_by_its_name(tmp_path: Path) -> None:
    chosen = {"paper_schedule": False, "learning_rate": 0.005, "warmup_steps": 7}
    told = [
        rate_plan(settled(tmp_path, 500, lr_scheduler_type=kind, **chosen), WIDTH, 500)
        for kind in ("linear", "constant")
    ]
    assert told[0] == "Learning rate: 0.005 at most, schedule linear, warm-up of 7 updates."
    assert told[1] == "Learning rate: 0.005 at most, schedule constant."
