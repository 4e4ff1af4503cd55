"""Matrix products with weights laid out once for few rows, as decoding has them.

    DECODING_PRECISIONS    what the weights may be packed in
    PackedLinear           x W^T + b, faster than `nn.Linear` for few rows on a CPU
    pack_linears           several linear layers side by side, as one product
    packed_copy            what was packed of a model, as long as its weights stay the same
    packed_bytes           the memory that it takes
    weights_fingerprint    tells whether weights have changed since they were packed

General matrix products lay the weight out anew at every call, which for the 4 to 128 rows of a
step of decoding takes longer than the product itself. Here it is done once, and the weight may
become smaller too:

    float32            the same numbers
    float16-weights    weights rounded to float16, arithmetic in float32
    int8               weights in 8 bits, a scale for each output feature; the rows too, each with a
                       scale of its own, so that what else is in a batch changes nothing
    auto               float16-weights where the processor has the operators, else float32: the
                       same on the same machine, and never int8, which changes translations

The operators are internal to PyTorch, so each is tried on small products before it is used, once
in a process. Where one is missing or wrong the next best takes its place, at last a plain product.

Packed weights are copies. They are kept beside models and not in them, so that they are never
saved, copied or sent anywhere, and go when the model goes.

Shapes: N rows, I input features, O output features.
"""

import threading
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional

DECODING_PRECISIONS = ("float32", "float16-weights", "int8", "auto")

_TYPICAL_ROWS = 32
"""Rows that layouts are chosen for: eight sentences with a beam of four."""

Product = Callable[[Tensor, bool], Tensor]
"""What is packed of a weight: gives `(N, O)` for `(N, I)`, without what is below 0 if told so."""

Packing = Callable[[Tensor, Tensor | None], tuple[Product, int]]
"""Makes the product of a weight `(O, I)` and a bias `(O,)`, and tells the bytes that it takes."""


class PackedLinear:
    """Computes x W^T + b with weights laid out for few rows.

    Args:
        weight: `(O, I)`. One that is not float32 on a CPU is kept as it is.
        bias: `(O,)`, or `None`.
        precision: one of `DECODING_PRECISIONS`.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, precision: str = "float32") -> None:
        weight = weight.detach()
        bias = None if bias is None else bias.detach().clone()
        make: Packing = _plain_product
        if weight.device.type == "cpu" and weight.dtype == torch.float32:
            fits = bool(weight.abs().amax() <= torch.finfo(torch.float16).max)
            make = _packing(precision if fits else "float32")
        self._product, self.nbytes = _packed(make, weight, bias)

    def __call__(self, rows: Tensor, *, relu: bool = False) -> Tensor:
        """Returns `(N, O)` for `(N, I)`; with `relu`, what is below 0 becomes 0."""
        return self._product(rows, relu)


def pack_linears(modules: Sequence[nn.Linear], precision: str) -> PackedLinear:
    """Returns one product that gives the outputs of all modules side by side."""
    weight = torch.cat([module.weight for module in modules])
    biases: list[Tensor | None] = [module.bias for module in modules]
    if all(bias is None for bias in biases):
        return PackedLinear(weight, None, precision)
    known = [
        module.weight.new_zeros(module.out_features) if bias is None else bias
        for module, bias in zip(modules, biases, strict=True)
    ]
    return PackedLinear(weight, torch.cat(known), precision)


_copies: WeakKeyDictionary[nn.Module, tuple[Hashable, Any]] = WeakKeyDictionary()
_copying = threading.Lock()


def packed_copy(
    owner: nn.Module, precision: str, parameters: Iterable[Tensor], make: Callable[[], Any]
) -> Any:
    """Returns what `make` packs, the same as last time unless the weights have changed.

    A model has one copy at a time, that of the precision last asked for.

    Args:
        owner: the model that the weights are of. The copy must not refer to it.
        precision: one of `DECODING_PRECISIONS`.
        parameters: the weights that go into the copy.
        make: packs them; what it returns has `nbytes`.
    """
    with _copying:
        state = (precision, weights_fingerprint(parameters))
        known, copy = _copies.get(owner, (None, None))
        if known != state:
            _copies.pop(owner, None)
            # Not to hold the old one while the new one is made.
            del copy
            copy = make()
            _copies[owner] = (state, copy)
        return copy


def packed_bytes(owner: nn.Module) -> int:
    """Returns the memory that packed weights of a model take, in bytes, beside its own."""
    copies = [_copies.get(module) for module in owner.modules()]
    return sum(found[1].nbytes for found in copies if found is not None)


def weights_fingerprint(parameters: Iterable[Tensor]) -> Hashable:
    """Returns what changes whenever the weights do.

    Optimizers and `load_state_dict` leave a trace in a tensor's version, but what writes through
    `.data`, as the merging of adapters does, leaves none. So the contents are summed up too, as
    whole numbers, which takes about the time of reading them once.
    """
    traces, sums = [], []
    for tensor in parameters:
        version = None if tensor.is_inference() else tensor._version
        traces.append((tensor.data_ptr(), version, tensor.shape, tensor.dtype, tensor.device))
        sums.append(_sum_of_bits(tensor.detach()))
    return (*traces, *(torch.stack(sums).tolist() if sums else ()))


def _sum_of_bits(weight: Tensor) -> Tensor:
    """A number, int64, that changes with any element, and when rows change places."""
    rows = weight.flatten(1) if weight.dim() > 1 else weight.reshape(1, -1)
    size = rows.element_size()
    aligned = rows.size(1) * size % 8 == 0 and rows.storage_offset() * size % 8 == 0
    if aligned and rows.is_contiguous():
        bits = rows.view(torch.int64)
    else:
        bits = rows.contiguous().view(torch.uint8)
    sums = bits.sum(dim=1)  # int64, which wraps around and so forgets nothing
    return (sums * torch.arange(1, 2 * len(sums), 2)).sum()


def _packed(make: Packing, weight: Tensor, bias: Tensor | None) -> tuple[Product, int]:
    with torch.no_grad(), warnings.catch_warnings():
        # Some of the operators are said to be going to leave, and are tried each time.
        warnings.simplefilter("ignore")
        return make(weight, bias)


def _plain_product(weight: Tensor, bias: Tensor | None) -> tuple[Product, int]:
    # A copy as the others are, so that all of them hold what the weight was.
    weight = weight.clone()

    def product(rows: Tensor, relu: bool) -> Tensor:
        out = functional.linear(rows, weight, bias)
        return out.relu_() if relu else out

    return product, weight.nbytes


def _onednn_product(weight: Tensor, bias: Tensor | None) -> tuple[Product, int]:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _TYPICAL_ROWS)
    multiply: Any = torch.ops.mkldnn._linear_pointwise.default

    def product(rows: Tensor, relu: bool) -> Tensor:
        return multiply(rows, packed, bias, "relu" if relu else "none", [], "")

    return product, weight.nbytes


def _half_product(weight: Tensor, bias: Tensor | None) -> tuple[Product, int]:
    """Weights in float16, which FBGEMM widens as it reads them."""
    with _quantized_engine("fbgemm"):
        packed = torch.ops.quantized.linear_prepack_fp16(weight.contiguous(), bias)
    multiply: Any = torch.ops.quantized.linear_dynamic_fp16.default
    multiply_relu: Any = torch.ops.quantized.linear_relu_dynamic_fp16.default

    def product(rows: Tensor, relu: bool) -> Tensor:
        return multiply_relu(rows, packed) if relu else multiply(rows, packed)

    return product, 2 * weight.numel()


def _fbgemm_int8(levels: int) -> Packing:
    """Returns how FBGEMM packs; rows have so many `levels` on either side of 0."""

    def make(weight: Tensor, bias: Tensor | None) -> tuple[Product, int]:
        scales = _scales(weight)
        quantized = torch.quantize_per_channel(
            weight, scales, torch.zeros(len(weight), dtype=torch.int64), 0, torch.qint8
        )
        with _quantized_engine("fbgemm"):
            packed = torch.ops.quantized.linear_prepack(quantized, None)
        multiply: Any = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default

        def scaled(rows: Tensor) -> Tensor:
            return multiply(rows, 1.0 / levels, levels + 1, packed)

        # Besides the weight a scale, an offset and a sum for each output.
        return _by_rows(scaled, bias), weight.numel() + 12 * len(weight)

    return make


def _onednn_int8(levels: int) -> Packing:
    """Returns how oneDNN packs, which processors other than x86 have too."""

    def make(weight: Tensor, bias: Tensor | None) -> tuple[Product, int]:
        scales = _scales(weight)
        zeros = torch.zeros(len(weight), dtype=torch.int32)
        whole = (weight / scales[:, None]).round().to(torch.int8)
        packed = torch.ops.onednn.qlinear_prepack(whole, None)
        multiply: Any = torch.ops.onednn.qlinear_pointwise.default
        step, zero = 1.0 / levels, levels + 1

        def scaled(rows: Tensor) -> Tensor:
            bytes_ = torch.quantize_per_tensor(rows, step, zero, torch.quint8).int_repr()
            return multiply(
                bytes_, step, zero, packed, scales, zeros, None, 1.0, 0, torch.float32,
                "none", [], "",
            )  # fmt: skip

        return _by_rows(scaled, bias), weight.numel() + 12 * len(weight)

    return make


def _by_rows(scaled: Callable[[Tensor], Tensor], bias: Tensor | None) -> Product:
    """Returns a product of rows in 8 bits that each have a scale of their own.

    Args:
        scaled: the product with rows whose elements are in [-1, 1].
        bias: `(O,)`, or `None`.
    """
    tiny = torch.finfo(torch.float32).tiny

    def product(rows: Tensor, relu: bool) -> Tensor:
        largest = rows.abs().amax(dim=1, keepdim=True).clamp_(min=tiny)
        out = scaled(rows / largest)
        out = out.mul_(largest) if bias is None else torch.addcmul(bias, out, largest)
        return out.relu_() if relu else out

    return product


def _scales(weight: Tensor) -> Tensor:
    """Returns `(O,)`, what a step of 8 bits is worth in each row of a weight."""
    return weight.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny) / 127


@contextmanager
def _quantized_engine(name: str) -> Iterator[None]:
    """Lets another library pack quantized weights; products go where they were packed."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = name
    try:
        yield
    finally:
        torch.backends.quantized.engine = before


_FLOAT32 = ((_onednn_product, 1e-5),)
_HALF = ((_half_product, 2e-3),)
# Processors without instructions for sums of products of bytes add pairs of them in 16 bits, which
# 255 x 127 + 255 x 127 overflows and 127 x 127 + 127 x 127 does not.
_INT8 = tuple(
    (kind(levels), 4 / levels) for kind in (_fbgemm_int8, _onednn_int8) for levels in (127, 63)
)
_CANDIDATES: dict[str, tuple[tuple[Packing, float], ...]] = {
    "float32": _FLOAT32,
    "float16-weights": _HALF + _FLOAT32,
    "int8": _INT8 + _FLOAT32,
    "auto": _HALF + _FLOAT32,
}


@cache
def _packing(precision: str) -> Packing:
    """Returns the first way to pack that gives right products here."""
    for make, tolerance in _CANDIDATES[precision]:
        if _gives_products(make, tolerance):
            return make
    return _plain_product


def _gives_products(make: Packing, tolerance: float) -> bool:
    """Whether a kind of product exists here and is right, tried on small examples.

    Args:
        make: packs a weight and a bias.
        tolerance: largest error, relative to the largest element.
    """
    random = torch.Generator().manual_seed(0)
    weight, bias, rows = (
        torch.randn(size, generator=random) for size in ((48, 64), (48,), (5, 64))
    )
    # The second is as large as can be, to see whether sums overflow.
    signs = torch.ones(5, 1)
    signs[::2] = -1.0
    examples = [(weight, bias, rows), (torch.ones_like(weight), None, signs.expand(-1, 64))]
    try:
        return all(
            _is_close(make, weight, bias, rows.contiguous(), relu, tolerance)
            for weight, bias, rows in examples
            for relu in (False, True)
        )
    except (RuntimeError, AttributeError, NotImplementedError):
        return False


def _is_close(
    make: Packing, weight: Tensor, bias: Tensor | None, rows: Tensor, relu: bool, tolerance: float
) -> bool:
    expected = functional.linear(rows, weight, bias)
    bound = tolerance * float(expected.abs().max())
    product, _ = _packed(make, weight, bias)
    with torch.no_grad():
        found = product(rows, relu)
    wanted = expected.relu() if relu else expected
    return found.shape == wanted.shape and float((found - wanted).abs().max()) <= bound


__all__ = [
    "DECODING_PRECISIONS",
    "PackedLinear",
    "pack_linears",
    "packed_bytes",
    "packed_copy",
    "weights_fingerprint",
]
