"""What each process of tests/test_generation_distributed.py runs: searches of unequal length."""

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from tiny_model import decisive_model, endless_model
from torch import distributed


def main(folder: Path) -> None:
    """Searches with `synced_gpus`; each call of the model waits for the other process."""
    # Shorter than the test waits: a process that is left alone ends by itself.
    distributed.init_process_group("gloo", timeout=timedelta(seconds=60))
    torch.set_num_threads(1)
    rank = distributed.get_rank()
    model = (decisive_model if rank else endless_model)(vocab_size=20)
    forward, calls = model.forward, 0

    def together(*args: Any, **kwargs: Any) -> Any:
        # As sharded weights do: a process that calls alone would wait for ever.
        nonlocal calls
        calls += 1
        distributed.all_reduce(torch.ones(1))
        return forward(*args, **kwargs)

    model.forward = together
    source = torch.tensor([[5, 6, 7, 2] if rank else [5, 6, 7, 8, 9, 2]])
    results = {}
    for beams in (1, 3):
        calls = 0
        output = model.generate(source, num_beams=beams, max_length_b=4, synced_gpus=True)
        results[beams] = [output.tolist(), calls]
        distributed.barrier()
    (folder / f"{rank}.json").write_text(json.dumps(results))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
