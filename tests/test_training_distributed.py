"""Two processes end with the averages that one process ends with."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from averaging_worker import run
from safetensors.torch import load_file

TESTS = Path(__file__).resolve().parent
SETTINGS: dict[str, Any] = {
    "save_strategy": "steps",
    "save_steps": 2,
    "eval_steps": 2,
    "eval_sentences": 4,
    "metric_for_best_model": "loss",
}


@pytest.mark.slow
@pytest.mark.distributed
@pytest.mark.parametrize("average", [{"average_last": 2}, {"ema_decay": 0.7}])
def test_two_processes_end_with_the_average_of_one(average: dict[str, Any], tmp_path: Path) -> None:
    alone, both = tmp_path / "alone", tmp_path / "both"
    both.mkdir()
    alone.mkdir()
    run(alone, SETTINGS | average)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [
            *launch,
            "--nproc_per_node",
            "2",
            str(TESTS / "averaging_worker.py"),
            str(both),
            json.dumps(SETTINGS | average),
        ],
        env={**os.environ, "PYTHONPATH": f"{TESTS.parent}:{TESTS}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second = (torch.load(both / f"weights-{rank}.pt") for rank in (0, 1))
    assert torch.equal(first, second)
    # Gradients are summed in another order, and Adam divides by their size.
    torch.testing.assert_close(first, torch.load(alone / "weights-0.pt"), rtol=1e-3, atol=1e-4)
    assert (both / "told-1").read_text() == (alone / "told-0").read_text()
    name = "ema.safetensors" if "ema_decay" in average else "model.safetensors"
    one, two = (load_file(folder / "checkpoint-6" / name) for folder in (alone, both))
    for key, tensor in one.items():
        torch.testing.assert_close(two[key], tensor, rtol=1e-3, atol=1e-4)
