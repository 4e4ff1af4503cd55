"""Dropout of section 5.4, with random numbers that cost a tenth on a CPU.

    VaswaniDropout                   `nn.Dropout`, drawn four decisions at a time

torch's own asks its generator, which is serial, for a double of 53 bits for each feature. That
takes longer than any other work between two matrix products of a training step.
"""

import torch
from torch import Tensor, nn

_STEPS = 2**16


class VaswaniDropout(nn.Dropout):
    """Zeroes each feature with probability `p` in training, and scales the others up.

    Source: Section 5.4.

    On a CPU the probability is `p` rounded to a multiple of 1/65536, and the features that stay are
    divided by exactly the probability that they stay, so that the mean is kept. The draws follow
    `torch.manual_seed`; they are others than those of `nn.Dropout`. On other devices, and compiled,
    it is `nn.Dropout`.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Returns a tensor like `input`."""
        dropped = round(self.p * _STEPS)
        if (
            not self.training
            or not 0 < dropped < _STEPS
            or input.device.type != "cpu"
            or torch.compiler.is_compiling()
            or torch.jit.is_tracing()
        ):
            return super().forward(input)
        draws = torch.empty((input.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        lowest = torch.iinfo(torch.int16).min
        keep = draws.view(torch.int16)[: input.numel()].view(input.shape) >= lowest + dropped
        # For its gradient the product keeps one byte a feature, where torch's own keeps a float.
        return (input * keep).mul_(_STEPS / (_STEPS - dropped))


__all__ = ["VaswaniDropout"]
