"""Search in two processes that must call their models together, as sharded weights need."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny_model import decisive_model, endless_model

TESTS = Path(__file__).resolve().parent


@pytest.mark.slow
@pytest.mark.distributed
def test_a_search_that_is_done_waits_for_that_of_the_other_process(tmp_path: Path) -> None:
    """The outputs are those of each process alone, and both call their models equally often."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node"]
    done = subprocess.run(
        [*launch, "2", str(TESTS / "synced_worker.py"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": f"{TESTS.parent}:{TESTS}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    models = (endless_model(vocab_size=20), decisive_model(vocab_size=20))
    sources = (torch.tensor([[5, 6, 7, 8, 9, 2]]), torch.tensor([[5, 6, 7, 2]]))
    for beams in (1, 3):
        alone = [
            model.generate(source, num_beams=beams, max_length_b=4).tolist()
            for model, source in zip(models, sources, strict=True)
        ]
        assert [first[str(beams)][0], second[str(beams)][0]] == alone
        # 6 source tokens and 4 more for the process that never says the end.
        assert first[str(beams)][1] == second[str(beams)][1] == 10
        assert len(alone[1][0]) < len(alone[0][0])
