"""Optimizer and learning-rate schedule of the paper (section 5.3).

inverse_sqrt_rate    the rate of one update
paper_optimizer      Adam with the paper's settings
paper_schedule       a PyTorch scheduler that sets that rate
"""

from collections.abc import Iterable

import torch
from torch.optim import Adam, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from vaswani.errors import InputError


def inverse_sqrt_rate(
    update: int, *, d_model: int, warmup_updates: int, factor: float = 1.0
) -> float:
    """Returns the learning rate of the paper for one optimizer update.

    Source: Section 5.3, Equation 3.

    Args:
        update: updates already taken, so 0 before the first. The micro-batches of one
            gradient accumulation count as a single update.
        d_model: model width, in features.
        warmup_updates: length of the linear ramp, in updates (the paper: 4000). 0 starts at the
            highest rate.
        factor: multiplies the whole curve (the paper: 1).

    Returns:
        The rate itself, not a factor of another rate. It peaks at update `warmup_updates - 1`
        with `factor * (d_model * warmup_updates) ** -0.5`.
    """
    # The paper counts from 1, PyTorch schedulers from 0.
    step = update + 1
    decay = step**-0.5
    ramp = step * warmup_updates**-1.5 if warmup_updates > 0 else decay
    return factor * d_model**-0.5 * min(decay, ramp)


def paper_optimizer(
    parameters: Iterable[torch.nn.Parameter],
    *,
    beta1: float = 0.9,
    beta2: float = 0.98,
    epsilon: float = 1e-9,
    rate: float = 1.0,
) -> Adam:
    """Returns the paper's Adam over `parameters`, in one fused kernel where torch has one.

    Source: Section 5.3. No weight decay.

    Args:
        parameters: those that need no gradient are left out.
        rate: the rate until a schedule sets another; `paper_schedule` does so at once.
    """
    trainable = [parameter for parameter in parameters if parameter.requires_grad]
    fused_devices = {"cpu", "cuda", "mps", "xpu"}
    fused = all(
        parameter.device.type in fused_devices and parameter.is_floating_point()
        for parameter in trainable
    )
    return Adam(trainable, lr=rate, betas=(beta1, beta2), eps=epsilon, fused=fused)


def paper_schedule(
    optimizer: Optimizer, *, d_model: int, warmup_updates: int = 4000, factor: float = 1.0
) -> LambdaLR:
    """Returns a scheduler that gives every update of `optimizer` the rate of the paper.

    Source: Section 5.3, Equation 3, see `inverse_sqrt_rate`. The rate that the optimizer was made
    with has no part in it. Call `step()` after each update.

    Raises:
        InputError: if `warmup_updates` is negative or `factor` is not above 0.
    """
    if warmup_updates < 0:
        raise InputError(f"`warmup_updates` must not be negative, got {warmup_updates}.")
    if factor <= 0:
        raise InputError(f"`factor` must be above 0, got {factor}.")
    for group in optimizer.param_groups:
        # LambdaLR multiplies the rate that it finds.
        group["lr"] = group["initial_lr"] = 1.0

    def rate(update: int) -> float:
        return inverse_sqrt_rate(
            update, d_model=d_model, warmup_updates=warmup_updates, factor=factor
        )

    return LambdaLR(optimizer, rate)
