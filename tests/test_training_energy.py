"""`vaswani.training_energy`: time, device, and an estimate that says what it assumes."""

import re

import pytest
import torch
from training_material import arguments

from vaswani import training_energy
from vaswani.training_energy import board_watts, compute_facts, energy_estimate


def kilowatt_hours(text: str) -> float:
    return float(re.match(r"([\d.e+-]+) kWh = ", text)[1])  # type: ignore[index]


def test_energy_of_gpus_is_power_times_time_by_hand() -> None:
    """8 boards of 400 W and 2 processors of 42.5 W for 90 minutes: 3,285 W x 1.5 h."""
    rows = energy_estimate(90, 2, ("NVIDIA A100-SXM4-80GB", 8))
    text, assumed = rows["energy (estimate)"], rows["what the estimate assumes"]
    assert kilowatt_hours(text) == pytest.approx(4.9275, rel=1e-2)
    assert "(8 GPUs x 400 W + 2 processors x 42.5 W) x 1.5 h" in text
    assert "not measured" in assumed and "full power of their data sheet" in assumed


def test_energy_of_a_processor_names_the_assumption() -> None:
    rows = energy_estimate(60, 1, None)
    assert kilowatt_hours(rows["energy (estimate)"]) == pytest.approx(0.0425)
    assert "half of 85 W" in rows["what the estimate assumes"] and "GPU" not in str(rows)


def test_unknown_gpu_has_no_estimate_and_that_is_said() -> None:
    rows = energy_estimate(60, 1, ("Quantum 9", 1))
    assert rows == {"energy (estimate)": "none: the power of Quantum 9 is not known"}


@pytest.mark.parametrize(
    ("name", "watts"),
    [
        ("NVIDIA H200", 700),
        ("NVIDIA H100 80GB HBM3", 700),
        ("NVIDIA H100 PCIe", 350),
        ("NVIDIA H100 NVL", 400),
        ("NVIDIA A100-PCIE-40GB", 250),
        ("NVIDIA A100 80GB PCIe", 300),
        ("NVIDIA A100-SXM4-40GB", 400),
        ("NVIDIA A10G", 300),
        ("NVIDIA A10", 150),
        ("NVIDIA L4", 72),
        ("NVIDIA L40S", 350),
        ("Tesla T4", 70),
        ("Tesla V100-SXM2-16GB", 300),
        ("Tesla P100-PCIE-16GB", 250),
        ("NVIDIA RTX A1000", None),
        ("NVIDIA GeForce RTX 4090", 450),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
    ],
)
def test_names_of_boards_find_the_power_of_their_data_sheet(name: str, watts: int | None) -> None:
    assert board_watts(name) == watts


def test_run_on_a_processor_tells_its_name_threads_and_time(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_energy, "processor_name", lambda: "Slide Rule 3000")
    facts = compute_facts(arguments(tmp_path), 30.0)
    assert facts["device"] == "Slide Rule 3000"
    assert facts["processes"].startswith("1 process, ")
    assert f"{torch.get_num_threads()} thread" in facts["processes"]
    assert facts["wall time"] == "30.0 minutes"
    assert kilowatt_hours(facts["energy (estimate)"]) == pytest.approx(0.02125, rel=1e-2)
