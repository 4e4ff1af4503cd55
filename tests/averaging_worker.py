"""What each process of tests/test_training_distributed.py runs: one small training."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from training_material import trainer, weights

from vaswani.run_folder import save_model_folder


def run(folder: Path, settings: dict[str, Any]) -> None:
    """Trains as the settings say and saves what this process ends with."""
    torch.set_num_threads(1)
    one = trainer(folder, **settings)
    one.train()
    save_model_folder(one, folder)
    rank = one.args.process_index
    torch.save(weights(one.model), folder / f"weights-{rank}.pt")
    (folder / f"told-{rank}").write_text(one.ended_with())


if __name__ == "__main__":
    run(Path(sys.argv[1]), json.loads(sys.argv[2]))
