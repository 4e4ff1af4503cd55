"""The matrix products of the layers, by the quickest exact operator at hand.

    project                          what `module(x)` gives, for the `nn.Linear` of a layer
    product                          A B^T by oneDNN, differentiable any number of times
    add_product                      the same onto a sum

torch leaves float32 products on a CPU to MKL, which keeps to half the vector width on processors
that are not Intel's; oneDNN, which every build of torch has beside it, does not. Its operator is
one of torch's own and not of its public interface. So it is tried out once in each process, and
whatever it does not suit is left to the module: other devices and number formats, small products,
autocast, compiling and exporting, and modules that are more than their weight.

Shapes: N rows, I input features, O output features.
"""

from functools import cache
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.modules import module as module_hooks

SMALL = 2**21
"""Multiplications below which a product is left to torch: choosing costs as much as it saves."""

_SLICE = 4096


def project(module: nn.Module, states: Tensor) -> Tensor:
    """Returns `module(states)`, `(..., O)` for `(..., I)`.

    A plain `nn.Linear` in float32 on a CPU gives it by `product`; anything else is called.

    Args:
        module: an `nn.Linear`, or what an adapter or a quantizer has put in its place.
        states: `(..., I)`.
    """
    if not is_plain_linear(module) or not suits_onednn(states, module.weight):
        return module(states)
    rows = product(states.reshape(-1, states.size(-1)), module.weight, module.bias)
    return rows.view(*states.shape[:-1], rows.size(-1))


def is_plain_linear(module: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether a module is its weight and bias: none that is wrapped, quantized, cut up or watched.

    An adapter is another class, a weight on several devices no plain parameter. What accelerate
    keeps in another place comes only when the module is called, and hooks run only then.
    """
    return (
        type(module) is nn.Linear
        and type(module.weight) is nn.Parameter
        and "forward" not in vars(module)
        and not (module._forward_hooks or module._forward_pre_hooks)
        and not (module._backward_hooks or module._backward_pre_hooks)
        and not module_hooks._has_any_global_hook()
    )


def suits_onednn(states: Tensor, weight: Tensor) -> bool:
    """Whether `product` takes these, and gains by it."""
    return (
        states.dtype == weight.dtype == torch.float32
        and states.device.type == weight.device.type == "cpu"
        and type(states) in (Tensor, nn.Parameter)
        and states.numel() * weight.size(0) >= SMALL
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()
        and not torch.is_autocast_enabled("cpu")
        and onednn_works()
    )


@cache
def onednn_works() -> bool:
    """Whether this build has the operator beside MKL, and it computes what torch does."""
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        return False
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(48, 80, generator=generator)
    right = torch.randn(32, 80, generator=generator)
    bias = torch.randn(32, generator=generator)
    try:
        as_stored = _onednn(left, right, bias)
        transposed = _onednn(left.t().contiguous().t(), right.t().contiguous().t(), bias)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    wanted = torch.addmm(bias, left, right.t())
    return all(
        torch.allclose(found, wanted, rtol=1e-4, atol=1e-4) for found in (as_stored, transposed)
    )


def product(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns `left @ right.T + bias`, `(N, O)`, in float32 on a CPU.

    Args:
        left: `(N, I)`.
        right: `(O, I)`.
        bias: `(O,)`, or `None`.
    """
    if torch.is_grad_enabled():
        return _Product.apply(left, right, bias)
    return _onednn(left, right, bias)


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Adds `left.T @ right` to `total`, in float32 on a CPU.

    In slices: a second tensor as large as a gradient of the vocabulary's table would cost more to
    get from the system than the product does.

    Args:
        total: `(O, I)`.
        left: `(N, O)`.
        right: `(N, I)`.
    """
    right = right.t()
    for start in range(0, len(total), _SLICE):
        rows = slice(start, start + _SLICE)
        total[rows] += _onednn(left[:, rows].t(), right)


def _onednn(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    if not (right.is_contiguous() or right.t().is_contiguous()):
        # Of a right side with gaps between its rows oneDNN makes a thousand times the work.
        right = right.contiguous()
    return torch.ops.mkldnn._linear_pointwise(left, right, bias, "none", [], "")


class _Product(torch.autograd.Function):
    """The gradients of a product are products, so they have gradients in their turn."""

    generate_vmap_rule = True

    @staticmethod
    def forward(left: Tensor, right: Tensor, bias: Tensor | None) -> Tensor:
        return _onednn(left, right, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        left, right, _ = inputs
        ctx.save_for_backward(left, right)
        ctx.save_for_forward(left, right)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        left, right = ctx.saved_tensors
        (gradient,) = outer
        wanted = ctx.needs_input_grad
        return (
            product(gradient, right.t()) if wanted[0] else None,
            product(gradient.t(), left.t()) if wanted[1] else None,
            gradient.sum(0) if wanted[2] else None,
        )

    @staticmethod
    def jvp(
        ctx: Any, left_tangent: Tensor, right_tangent: Tensor, bias_tangent: Tensor | None
    ) -> Tensor:
        left, right = ctx.saved_tensors
        tangent = left.new_zeros(len(left), len(right))
        if left_tangent is not None:
            tangent = tangent + left_tangent @ right.t()
        if right_tangent is not None:
            tangent = tangent + left @ right_tangent.t()
        return tangent if bias_tangent is None else tangent + bias_tangent


__all__ = ["add_product", "is_plain_linear", "onednn_works", "product", "project", "suits_onednn"]
