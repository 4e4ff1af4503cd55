"""Matrix products with weights laid out once for few rows, as decoding has them.

    PackedLinear           x W^T + b, faster than `nn.Linear` for few rows on a CPU
    pack_linears           several linear layers side by side, as one product
    weights_fingerprint    tells whether weights have changed since they were packed

General matrix products lay the weight out anew at every call, which for the 4 to 128 rows of a
step of decoding takes longer than the product itself. Here it is done once. The operators that do
it are internal to PyTorch, so each is tried on a small product before it is used, once in a
process; where one is missing or wrong, the plain product takes its place.

A packed weight is a copy: whoever holds one asks for the fingerprint again before using it.

Shapes: N rows, I input features, O output features.
"""

import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

DECODING_PRECISIONS = ("float32", "float16-weights", "int8", "auto")

_TYPICAL_ROWS = 32
"""Rows that layouts are chosen for: eight sentences with a beam of four."""

Product = Callable[[Tensor, bool], Tensor]


class PackedLinear:
    """Computes x W^T + b with weights laid out for few rows.

    Args:
        weight: `(O, I)`.
        bias: `(O,)`, or `None`.
        precision: one of `DECODING_PRECISIONS`.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, precision: str = "float32") -> None:
        with torch.no_grad():
            weight = weight.detach()
            bias = None if bias is None else bias.detach().clone()
            if packable(weight) and _onednn_works():
                self._product, self.nbytes = _onednn_product(weight, bias)
            else:
                self._product, self.nbytes = _plain_product(weight, bias)

    def __call__(self, rows: Tensor, *, relu: bool = False) -> Tensor:
        """Returns `(N, O)` for `(N, I)`; with `relu`, what is below 0 becomes 0."""
        return self._product(rows, relu)


def pack_linears(modules: Sequence[nn.Linear], precision: str) -> PackedLinear:
    """Returns one product that gives the outputs of all modules side by side."""
    weight = torch.cat([module.weight for module in modules])
    biases = [module.bias for module in modules]
    if all(bias is None for bias in biases):
        return PackedLinear(weight, None, precision)
    known = [
        module.weight.new_zeros(module.out_features) if bias is None else bias
        for module, bias in zip(modules, biases, strict=True)
    ]
    return PackedLinear(weight, torch.cat(known), precision)


def packable(weight: Tensor) -> bool:
    """Whether a weight is a plain one that the operators here can take."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32


def weights_fingerprint(parameters: Iterable[Tensor]) -> Hashable:
    """Returns what changes whenever the weights do."""
    return tuple(
        (p.data_ptr(), tuple(p.shape), p.dtype, str(p.device), p._version) for p in parameters
    )


def _plain_product(weight: Tensor, bias: Tensor | None) -> tuple[Product, int]:
    # A copy as the others are, so that all of them hold what the weight was.
    weight = weight.clone()

    def product(rows: Tensor, relu: bool) -> Tensor:
        out = functional.linear(rows, weight, bias)
        return out.relu_() if relu else out

    return product, weight.nbytes


def _onednn_product(weight: Tensor, bias: Tensor | None) -> tuple[Product, int]:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, _TYPICAL_ROWS)
    multiply: Any = torch.ops.mkldnn._linear_pointwise.default

    def product(rows: Tensor, relu: bool) -> Tensor:
        return multiply(rows, packed, bias, "relu" if relu else "none", [], "")

    return product, weight.nbytes


@cache
def _onednn_works() -> bool:
    return _gives_products(_onednn_product, tolerance=1e-5)


def _gives_products(
    make: Callable[[Tensor, Tensor | None], tuple[Product, int]], tolerance: float
) -> bool:
    """Whether a kind of product exists here and is right, tried on a small example.

    Args:
        make: makes the product of a weight and a bias.
        tolerance: largest error, relative to the largest element.
    """
    random = torch.Generator().manual_seed(0)
    weight, bias, rows = (
        torch.randn(size, generator=random) for size in ((48, 32), (48,), (5, 32))
    )
    expected = functional.linear(rows, weight, bias)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            product, _ = make(weight, bias)
            pairs = [(product(rows, False), expected), (product(rows, True), expected.relu())]
    except (RuntimeError, AttributeError, NotImplementedError):
        return False
    largest = float(expected.abs().max())
    return all(
        found.shape == wanted.shape and float((found - wanted).abs().max()) <= tolerance * largest
        for found, wanted in pairs
    )


__all__ = ["DECODING_PRECISIONS", "PackedLinear", "pack_linears", "packable", "weights_fingerprint"]
