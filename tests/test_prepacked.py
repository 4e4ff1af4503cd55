"""Packed products beside plain ones, and what is noticed of weights that change."""

import copy
import gc
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from vaswani import prepacked_vaswani
from vaswani.prepacked_vaswani import (
    DECODING_PRECISIONS,
    PackedLinear,
    pack_linears,
    packed_bytes,
    packed_copy,
    weights_fingerprint,
)

# Relative to the largest output. Sums of 64 products in another order; a weight rounded to 11 bits;
# weights and rows in 8 bits, or in 7 where sums would overflow.
TOLERANCES = {"float32": 1e-6, "float16-weights": 1e-3, "int8": 0.03, "auto": 1e-3}


def material(rows: int = 5, inputs: int = 64, outputs: int = 48) -> tuple[Tensor, Tensor, Tensor]:
    """A weight, a bias and rows to multiply."""
    random = torch.Generator().manual_seed(3)
    sizes = [(outputs, inputs), (outputs,), (rows, inputs)]
    weight, bias, given = (torch.randn(size, generator=random) for size in sizes)
    return weight, bias, given


def assert_near(found: Tensor, wanted: Tensor, tolerance: float) -> None:
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    assert float((found - wanted).abs().max()) <= tolerance * float(wanted.abs().max())


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("rows", [1, 7, 130])
@pytest.mark.parametrize("precision", DECODING_PRECISIONS)
def test_packed_product_is_the_plain_one(precision: str, rows: int, with_bias: bool) -> None:
    weight, bias, given = material(rows)
    packed = PackedLinear(weight, bias if with_bias else None, precision)
    wanted = functional.linear(given, weight, bias if with_bias else None)
    assert_near(packed(given), wanted, TOLERANCES[precision])
    assert_near(packed(given, relu=True), wanted.relu(), TOLERANCES[precision])


def test_float16_weights_are_rounded_and_nothing_else() -> None:
    weight, bias, given = material()
    found = PackedLinear(weight, bias, "float16-weights")(given)
    assert_near(found, functional.linear(given, weight.half().float(), bias), 1e-6)


def in_whole_numbers(given: Tensor, levels: int) -> tuple[Tensor, Tensor]:
    """Rows in whole numbers up to `levels`, and what a step is worth in each."""
    steps = given.double().abs().amax(dim=1, keepdim=True) / levels
    return (given / steps).round(), steps


def test_int8_is_a_product_of_whole_numbers_with_a_scale_for_each_row() -> None:
    """By the definition, in float64: 127 levels on either side, or 63 where sums would overflow."""
    weight, bias, given = material()
    found = PackedLinear(weight, bias, "int8")(given).double()
    whole_weight, steps = in_whole_numbers(weight, 127)
    errors = []
    for levels in (127, 63):
        whole, row_steps = in_whole_numbers(given, levels)
        wanted = whole @ whole_weight.T * row_steps * steps.T + bias
        errors.append(float((found - wanted).abs().max()))
    # A tie may be rounded to either side, once in so many products; most have none.
    assert min(errors) < 1e-4


@pytest.mark.parametrize("precision", DECODING_PRECISIONS)
def test_a_row_does_not_depend_on_the_others(precision: str) -> None:
    weight, bias, given = material()
    packed = PackedLinear(weight, bias, precision)
    others = torch.cat([given[:1], 1000 * given[1:]])
    torch.testing.assert_close(packed(others)[:1], packed(given)[:1], rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("precision", DECODING_PRECISIONS)
def test_zeros_give_the_bias_and_no_number_stays_in_its_row(precision: str) -> None:
    weight, bias, given = material()
    given[1], given[2, 0] = 0.0, torch.nan
    found = PackedLinear(weight, bias, precision)(given)
    assert found[1].equal(bias)
    assert found[2].isnan().all() and not found[[0, 1, 3, 4]].isnan().any()


def test_weights_beyond_float16_stay_in_float32() -> None:
    weight, bias, given = material()
    weight[0, 0] = 1e6
    found = PackedLinear(weight, bias, "float16-weights")(given)
    assert_near(found, functional.linear(given, weight, bias), TOLERANCES["float32"])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("precision", DECODING_PRECISIONS)
def test_other_number_formats_are_left_as_they_are(precision: str, dtype: torch.dtype) -> None:
    weight, bias, given = (tensor.to(dtype) for tensor in material())
    found = PackedLinear(weight, bias, precision)(given)
    assert found.equal(functional.linear(given, weight, bias))


@pytest.mark.parametrize("precision", DECODING_PRECISIONS)
def test_a_packed_product_keeps_what_the_weight_was(precision: str) -> None:
    weight, bias, given = material()
    packed = PackedLinear(weight, bias, precision)
    before = packed(given)
    weight.zero_()
    bias.zero_()
    assert packed(given).equal(before)


def test_layers_side_by_side_give_what_each_gives() -> None:
    layers = [nn.Linear(16, 24), nn.Linear(16, 8, bias=False), nn.Linear(16, 4)]
    given = torch.randn(3, 16)
    with torch.no_grad():
        wanted = torch.cat([layer(given) for layer in layers], dim=1)
        assert_near(pack_linears(layers, "float32")(given), wanted, 1e-6)
        bare = pack_linears(layers[1:2], "float32")(given)
        assert_near(bare, layers[1](given), 1e-6)


def missing(weight: Tensor, bias: Tensor | None) -> Any:
    return torch.ops.mkldnn.no_such_operator(weight, bias)


def refusing(weight: Tensor, bias: Tensor | None) -> Any:
    raise RuntimeError("not on this processor")


def without_bias(weight: Tensor, bias: Tensor | None) -> Any:
    return lambda rows, relu: functional.linear(rows, weight), 1


def without_relu(weight: Tensor, bias: Tensor | None) -> Any:
    return lambda rows, relu: functional.linear(rows, weight, bias), 1


@pytest.mark.parametrize("broken", [missing, refusing, without_bias, without_relu])
def test_operators_that_are_missing_or_wrong_are_not_used(
    broken: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates = {"int8": ((broken, 0.5), (prepacked_vaswani._onednn_product, 1e-5))}
    monkeypatch.setattr(prepacked_vaswani, "_CANDIDATES", candidates)
    prepacked_vaswani._packing.cache_clear()
    assert prepacked_vaswani._packing("int8") is prepacked_vaswani._onednn_product
    monkeypatch.setattr(prepacked_vaswani, "_CANDIDATES", {"int8": ((broken, 0.5),)})
    prepacked_vaswani._packing.cache_clear()
    weight, bias, given = material()
    found = PackedLinear(weight, bias, "int8")(given)
    prepacked_vaswani._packing.cache_clear()
    assert found.equal(functional.linear(given, weight, bias))


@pytest.mark.parametrize(("bound", "works"), [(2**15, False), (2**31, True)])
def test_sums_that_overflow_are_found_out(bound: int, works: bool) -> None:
    """As on processors that add two products of bytes in 16 bits."""

    def make(weight: Tensor, bias: Tensor | None) -> Any:
        whole, steps = in_whole_numbers(weight, 127)

        def product(rows: Tensor, relu: bool) -> Tensor:
            given, row_steps = in_whole_numbers(rows, 127)
            pairs = (given + 128)[:, None] * whole
            pairs = pairs.unflatten(-1, (-1, 2)).sum(-1).clamp(-bound, bound - 1)
            sums = (pairs.sum(-1) - 128 * whole.sum(1)) * row_steps * steps.T
            out = (sums if bias is None else sums + bias).float()
            return out.relu() if relu else out

        return product, 1

    assert prepacked_vaswani._gives_products(make, 0.03) == works


class Two(nn.Module):
    """Two layers of different shapes, as a model that owns weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 4), nn.Linear(5, 3)


def step(model: Two) -> None:
    sum(parameter.sum() for parameter in model.parameters()).backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def load(model: Two) -> None:
    model.load_state_dict(Two().state_dict())


def edit(model: Two) -> None:
    with torch.no_grad():
        model.first.weight[1, 2] += 1.0


def edit_in_inference(model: Two) -> None:
    with torch.inference_mode():
        model.second.bias.mul_(2.0)


def edit_data(model: Two) -> None:
    """As PEFT merges an adapter: no version tells."""
    model.first.weight.data += 0.01


def edit_one_number(model: Two) -> None:
    model.second.weight.data[2, 4] += 1e-4


def swap_rows(model: Two) -> None:
    model.first.weight.data[[0, 1]] = model.first.weight.data[[1, 0]]


def edit_memory(model: Two) -> None:
    model.second.bias.detach().numpy()[0] += 1.0


def replace_data(model: Two) -> None:
    model.second.weight.data = model.second.weight.data + 1.0


def resize(model: Two) -> None:
    model.second = nn.Linear(5, 9)


def convert(model: Two) -> None:
    model.to(torch.bfloat16)


CHANGES = [step, load, edit, edit_in_inference, edit_data, edit_one_number]
CHANGES += [swap_rows, edit_memory, replace_data, resize, convert]


@pytest.mark.parametrize("change", CHANGES)
def test_fingerprint_changes_with_the_weights(change: Callable[[Two], None]) -> None:
    model = Two()
    before = weights_fingerprint(model.parameters())
    assert weights_fingerprint(model.parameters()) == before
    change(model)
    assert weights_fingerprint(model.parameters()) != before


def test_fingerprint_takes_weights_that_were_made_in_inference_mode() -> None:
    with torch.inference_mode():
        model = Two()
        before = weights_fingerprint(model.parameters())
        model.first.weight[0, 0] += 1.0
        assert weights_fingerprint(model.parameters()) != before


def copy_of(model: Two, precision: str = "float32") -> PackedLinear:
    def make() -> PackedLinear:
        return pack_linears([model.first], precision)

    return packed_copy(model, precision, model.parameters(), make)


def test_copy_is_made_anew_only_when_weights_or_precision_change() -> None:
    model = Two()
    first = copy_of(model)
    assert copy_of(model) is first
    other = copy_of(model, "int8")
    assert other is not first and packed_bytes(model) == other.nbytes
    edit_data(model)
    assert copy_of(model, "int8") is not other


def test_copy_is_no_part_of_the_model_and_goes_with_it() -> None:
    model = Two()
    names, size = set(model.state_dict()), len(pickle.dumps(model))
    assert packed_bytes(model) == 0
    copy_of(model)
    # 4 x 6 numbers of 4 bytes.
    assert packed_bytes(model) == 96
    assert set(model.state_dict()) == names and len(pickle.dumps(model)) == size
    assert packed_bytes(copy.deepcopy(model)) == 0
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    assert packed_bytes(torch.load(file, weights_only=False)) == 0
    count = len(prepacked_vaswani._copies)
    del model
    gc.collect()
    assert len(prepacked_vaswani._copies) == count - 1


def test_smaller_precisions_take_less_memory() -> None:
    weight, bias, _ = material(inputs=512, outputs=512)
    sizes = {name: PackedLinear(weight, bias, name).nbytes for name in DECODING_PRECISIONS}
    assert sizes["float32"] == 4 * 512 * 512
    for name in ("float16-weights", "int8"):
        works = prepacked_vaswani._packing(name) is not prepacked_vaswani._packing("float32")
        assert (sizes[name] < 0.51 * sizes["float32"]) == works
