"""Products by oneDNN are those of torch, in both directions, and are used where they suit."""

import copy
import io

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration, products_vaswani
from vaswani.products_vaswani import (
    SMALL,
    add_product,
    is_plain_linear,
    onednn_works,
    product,
    project,
    suits_onednn,
)

LARGE = 2 * int(SMALL ** (1 / 3)) + 2

needs_onednn = pytest.mark.skipif(not onednn_works(), reason="this build of torch lacks oneDNN")


@pytest.fixture
def spied(monkeypatch):
    """The shapes of the products that oneDNN was given."""
    shapes = []
    real = products_vaswani._onednn

    def spy(left, right, bias=None):
        shapes.append((tuple(left.shape), tuple(right.shape)))
        return real(left, right, bias)

    monkeypatch.setattr(products_vaswani, "_onednn", spy)
    return shapes


def layout(rows: int, columns: int, kind: str) -> torch.Tensor:
    """The same numbers, stored in several ways."""
    values = torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows + columns))
    if kind == "transposed":
        return values.t().contiguous().t()
    if kind == "gaps":
        return torch.cat([values, values], dim=1)[:, :columns]
    if kind == "transposed gaps":
        return torch.cat([values.t(), values.t()], dim=1)[:, :rows].t()
    return values


KINDS = st.sampled_from(["rows", "transposed", "gaps", "transposed gaps"])


@needs_onednn
@settings(deadline=None, max_examples=60)
@given(
    rows=st.integers(1, 40),
    features=st.integers(1, 40),
    outputs=st.integers(1, 40),
    left_kind=KINDS,
    right_kind=KINDS,
    biased=st.booleans(),
)
def test_product_is_that_of_torch(rows, features, outputs, left_kind, right_kind, biased):
    left, right = layout(rows, features, left_kind), layout(outputs, features, right_kind)
    bias = torch.linspace(-1, 1, outputs) if biased else None
    wanted = left.double() @ right.double().t() + (0 if bias is None else bias.double())
    found = product(left, right, bias)
    assert found.shape == (rows, outputs)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)


@needs_onednn
@pytest.mark.parametrize("biased", [True, False])
def test_gradients_and_their_gradients_are_those_of_torch(biased):
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(n, 7, generator=generator) for n in (6, 5))
    bias = torch.randn(5, generator=generator) if biased else None

    def twice(multiply, dtype):
        leaves = [x.to(dtype).requires_grad_() for x in (left, right, bias) if x is not None]
        loss = multiply(*leaves).pow(3).sum()
        first = torch.autograd.grad(loss, leaves, create_graph=True)
        second = torch.autograd.grad(sum(g.pow(2).sum() for g in first), leaves[:2])
        return [*first, *second]

    found = twice(product, torch.float32)
    wanted = twice(lambda a, b, *c: nn.functional.linear(a, b, *c), torch.float64)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-2)


@needs_onednn
def test_a_frozen_side_gets_no_gradient(spied):
    left = torch.randn(6, 7, requires_grad=True)
    product(left, torch.randn(5, 7), torch.randn(5)).sum().backward()
    assert left.grad is not None
    assert len(spied) == 2  # forward, and one of the two of the backward pass


@needs_onednn
def test_forward_derivatives_and_vmap_are_those_of_torch():
    left, right, bias = torch.randn(6, 7), torch.randn(5, 7), torch.randn(5)
    tangents = (torch.randn(6, 7), torch.randn(5, 7), torch.randn(5))
    arguments = (left, right, bias)
    _, found = torch.func.jvp(lambda *given: product(*given), arguments, tangents)
    _, wanted = torch.func.jvp(nn.functional.linear, arguments, tangents)
    torch.testing.assert_close(found, wanted)
    stacked = torch.randn(3, 6, 7)
    torch.testing.assert_close(
        torch.func.vmap(lambda rows: product(rows, right, bias))(stacked),
        nn.functional.linear(stacked, right, bias),
    )


@needs_onednn
@pytest.mark.parametrize("outputs", [1, products_vaswani._SLICE, products_vaswani._SLICE + 1])
def test_add_product_adds(outputs):
    total, left, right = torch.ones(outputs, 3), torch.randn(4, outputs), torch.randn(4, 3)
    wanted = total.double() + left.double().t() @ right.double()
    add_product(total, left, right)
    torch.testing.assert_close(total.double(), wanted, rtol=1e-5, atol=1e-5)


@needs_onednn
def test_project_is_the_module_and_takes_the_quick_way(spied):
    module = nn.Linear(LARGE, LARGE)
    states = torch.randn(2, LARGE, LARGE)
    torch.testing.assert_close(project(module, states), module(states), rtol=1e-4, atol=1e-4)
    assert len(spied) == 1


@needs_onednn
@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.register_forward_hook(lambda *_: None),
        lambda m: m.register_forward_pre_hook(lambda *_: None),
        lambda m: m.register_full_backward_hook(lambda *_: None),
        lambda m: setattr(m, "forward", m.forward),
        lambda m: m.double(),
        lambda m: nn.utils.parametrizations.weight_norm(m),
    ],
    ids=["hook", "pre-hook", "backward hook", "replaced forward", "float64", "parametrized"],
)
def test_a_module_that_is_more_than_its_weight_is_called(change, spied):
    module = nn.Linear(LARGE, LARGE)
    change(module)
    states = torch.randn(1, LARGE, LARGE, dtype=module.weight.dtype)
    torch.testing.assert_close(project(module, states), module(states))
    assert not spied


@needs_onednn
def test_hooks_run(spied):
    module, seen = nn.Linear(LARGE, LARGE), []
    module.register_forward_hook(lambda *_: seen.append(1))
    project(module, torch.randn(1, LARGE, LARGE))
    assert seen == [1]


def test_small_products_other_formats_and_autocast_are_left_to_torch():
    states, weight = torch.randn(LARGE, LARGE), torch.randn(LARGE, LARGE)
    assert suits_onednn(states, weight) == onednn_works()
    assert not suits_onednn(states[:1], weight)
    assert not suits_onednn(states.bfloat16(), weight.bfloat16())
    assert not suits_onednn(states.to("meta"), weight)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not suits_onednn(states, weight)


def test_autocast_and_subclasses_call_the_module():
    class Other(nn.Linear):
        pass

    assert is_plain_linear(nn.Linear(2, 2))
    assert not is_plain_linear(Other(2, 2))
    module = nn.Linear(LARGE, LARGE)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert project(module, torch.randn(1, LARGE, LARGE)).dtype == torch.bfloat16


def test_a_compiled_projection_has_one_graph_of_torch_alone(spied):
    module = nn.Linear(LARGE, LARGE)
    states = torch.randn(1, LARGE, LARGE)
    compiled = torch.compile(project, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(module, states), module(states))
    assert not spied


@needs_onednn
def test_a_training_step_has_the_gradients_of_the_modules_own_products(spied, monkeypatch):
    config = VaswaniConfig.from_preset(
        "tiny", vocab_size=40, dropout=0.0, attention_bias=True, output_bias=True
    )
    torch.manual_seed(0)
    model = VaswaniForConditionalGeneration(config).train()
    source, labels = torch.randint(4, 40, (2, 3, 7))

    def gradients(smallest):
        monkeypatch.setattr(products_vaswani, "SMALL", smallest)
        model.zero_grad()
        loss = model(input_ids=source, labels=labels, return_logits=False).loss
        loss.backward()
        return [loss.detach(), *(p.grad.clone() for p in model.parameters())]

    wanted = gradients(10**9)
    assert not spied
    found = gradients(0)
    # Six to a layer of the encoder, ten to one of the decoder, one to the vocabulary; each thrice.
    assert len(spied) == 3 * (6 * config.encoder_layers + 10 * config.decoder_layers + 1)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_projected_modules_are_copied_and_saved_as_ever():
    module = nn.Linear(LARGE, LARGE)
    project(module, torch.randn(1, LARGE, LARGE))
    assert list(copy.deepcopy(module).state_dict()) == ["weight", "bias"]
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    assert list(torch.load(file, weights_only=True)) == ["weight", "bias"]
