"""What each process of tests/test_parallel_plans.py runs: models cut over two processes."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed
from torch.distributed.tensor import DTensor
from transformers.distributed import DistributedConfig

from vaswani import VaswaniForConditionalGeneration


def whole(tensor: Tensor) -> Tensor:
    """The tensor of all processes together; each of them must ask for it."""
    full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return full.detach().clone()


def held(tensor: Tensor) -> int:
    """How many numbers of it this process holds."""
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).numel()


def measured(model: Any, batch: dict[str, Tensor]) -> dict[str, Any]:
    """What a model computes, forwards and backwards, and its weights after an update."""
    results: dict[str, Any] = {"held": {n: held(p) for n, p in model.named_parameters()}}
    source = {key: batch[key] for key in ("input_ids", "attention_mask")}
    with torch.no_grad():
        results["logits"] = whole(model.eval()(**batch).logits)
    results["tokens"] = {
        beams: model.generate(**source, num_beams=beams, max_new_tokens=6).tolist()
        for beams in (1, 3)
    }
    model.train()
    # With logits and, in chunks of the projection, without them.
    losses = [model(**batch, return_logits=wanted).loss for wanted in (True, False)]
    sum(losses).backward()
    results["losses"] = [whole(loss) for loss in losses]
    results["gradients"] = {name: whole(p.grad) for name, p in model.named_parameters()}
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    results["weights"] = {name: whole(p) for name, p in model.named_parameters()}
    return results


def main(folder: Path) -> None:
    """Measures every model of the folder, cut both ways, and saves it again."""
    # Shorter than the test waits: a process that is left alone ends by itself.
    distributed.init_process_group("gloo", timeout=timedelta(seconds=120))
    torch.set_num_threads(1)
    for saved in sorted(path.parent for path in folder.glob("*/config.json")):
        for kind in ("tp", "fsdp"):
            model = VaswaniForConditionalGeneration.from_pretrained(
                saved, distributed_config=DistributedConfig(**{f"{kind}_size": 2})
            )
            results = measured(model, torch.load(saved / "batch.pt"))
            model.save_pretrained(
                folder / "again" / f"{saved.name}-{kind}",
                is_main_process=distributed.get_rank() == 0,
            )
            if distributed.get_rank() == 0:
                torch.save(results, folder / f"{saved.name}-{kind}.pt")
            distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
