"""An exponential moving average of a model's weights, kept beside them during training.

MovingAverage    the average: updated, put in place of the weights, saved, loaded
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from vaswani.errors import InputError


class MovingAverage:
    """The moving average e of a model's weights w, in float32: e = decay * e + (1 - decay) * w.

    The first update copies the weights, so that nothing of the random initial ones remains. A
    table that several modules share is one parameter and is averaged once.

    Source: the rule of `torch.optim.swa_utils.get_ema_multi_avg_fn`, which keeps the model's
    number format instead.

    Args:
        decay: share of the old average in the new one, in [0, 1); 0 keeps the newest weights.

    Raises:
        InputError: if `decay` is out of range.
    """

    def __init__(self, decay: float) -> None:
        if not 0 <= decay < 1:
            raise InputError(
                f"`ema_decay` must be at least 0 and below 1, got {decay}. Leave it out for no "
                "moving average."
            )
        self.decay = decay
        # Filled by the first update, when the model is where it is trained.
        self.weights: dict[str, Tensor] = {}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Takes the weights of the model after an update of the optimizer into the average."""
        first = not self.weights
        for name, weight in model.named_parameters():
            new = weight.detach().to(_wide(weight.dtype))
            if first:
                self.weights[name] = new.clone()
            else:
                # After loading the average may be on another device than the weights.
                old = self.weights[name].to(new.device)
                self.weights[name] = old.lerp_(new, 1 - self.decay)

    @torch.no_grad()
    def copy_to(self, model: nn.Module) -> None:
        """Overwrites the weights of the model by their average; before any update nothing."""
        for name, weight in model.named_parameters():
            if name in self.weights:
                weight.copy_(self.weights[name])

    @contextmanager
    def in_place(self, model: nn.Module) -> Iterator[None]:
        """Lets the model have the average within the block, and its own weights again after."""
        own = {name: weight.detach().clone() for name, weight in model.named_parameters()}
        self.copy_to(model)
        try:
            yield
        finally:
            with torch.no_grad():
                for name, weight in model.named_parameters():
                    weight.copy_(own[name])

    def save(self, path: Path) -> None:
        """Writes the average under the names of the model's own weights."""
        weights = {name: weight.contiguous().cpu() for name, weight in self.weights.items()}
        save_file(weights, path, metadata={"format": "pt"})

    def load(self, path: Path, model: nn.Module) -> None:
        """Goes on from an average that was saved.

        Raises:
            InputError: if the file is missing, damaged or of another model.
        """
        try:
            weights = load_file(path)
        except (OSError, SafetensorError) as error:
            raise InputError(
                f"the checkpoint must hold an intact {path.name} to go on with `ema_decay`, "
                f"got {path.parent} ({' '.join(str(error).split())}). Leave `ema_decay` out, or "
                "start anew."
            ) from error
        shapes = {name: weight.shape for name, weight in model.named_parameters()}
        if {name: weight.shape for name, weight in weights.items()} != shapes:
            raise InputError(
                f"{path} must hold the average of this model's weights, got other names or shapes. "
                "Resume from a checkpoint of this run."
            )
        self.weights = {name: weight.to(_wide(weight.dtype)) for name, weight in weights.items()}


def _wide(dtype: torch.dtype) -> torch.dtype:
    """What the average is kept in: a small share of a half-precision sum would vanish."""
    return torch.float64 if dtype == torch.float64 else torch.float32
