"""Dropout with cheap random numbers is dropout."""

import pytest
import torch
from torch import nn

from vaswani.dropout_vaswani import VaswaniDropout

PROBABILITIES = [0.1, 0.3, 0.5, 1e-4]


def dropped(p: float, size: tuple[int, ...] = (1000, 1001), seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return VaswaniDropout(p)(torch.ones(size, dtype=torch.float64))


@pytest.mark.parametrize("p", PROBABILITIES)
def test_so_many_features_are_dropped(p: float) -> None:
    """Of a million independent draws within five standard deviations, and the mean is kept."""
    result = dropped(p)
    deviation = (p * (1 - p) / result.numel()) ** 0.5
    # The probability is a multiple of 1/65536.
    assert (result == 0).double().mean().item() == pytest.approx(p, abs=5 * deviation + 2**-17)
    assert result.mean().item() == pytest.approx(1, abs=5 * deviation / (1 - p))


@pytest.mark.parametrize("p", PROBABILITIES)
def test_features_that_stay_are_scaled_alike(p: float) -> None:
    kept = dropped(p).unique()
    assert len(kept) == 2 and kept[0] == 0
    assert kept[1].item() == pytest.approx(1 / (1 - p), rel=2**-16)


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 1001])
def test_decisions_do_not_depend_on_each_other(distance: int) -> None:
    """Four come out of one draw; neighbors at any distance are both dropped with p squared."""
    zero = (dropped(0.3) == 0).flatten()
    both = (zero[distance:] & zero[:-distance]).double().mean().item()
    assert both == pytest.approx(0.09, abs=5 * (0.09 * 0.91 / len(zero)) ** 0.5 * 1.5)


def test_the_seed_decides() -> None:
    assert torch.equal(dropped(0.3), dropped(0.3))
    assert not torch.equal(dropped(0.3), dropped(0.3, seed=1))
    torch.manual_seed(0)
    first, second = (VaswaniDropout(0.3)(torch.ones(64)) for _ in range(2))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_gradients_are_dropped_and_scaled_as_the_features_were(dtype: torch.dtype) -> None:
    states = torch.ones(7, 13, dtype=dtype, requires_grad=True)
    result = VaswaniDropout(0.4)(states)
    result.backward(torch.full_like(result, 2.0))
    assert result.dtype == dtype
    torch.testing.assert_close(states.grad, 2 * result.detach())


@pytest.mark.parametrize("p", [0.0, 0.1, 1.0])
def test_without_training_or_a_choice_it_is_torchs(p: float) -> None:
    states = torch.randn(5, 3)
    assert torch.equal(VaswaniDropout(p).eval()(states), states)
    if p != 0.1:
        assert torch.equal(VaswaniDropout(p)(states), nn.Dropout(p)(states))


def test_only_a_byte_a_feature_is_kept_for_the_gradient() -> None:
    states = torch.ones(64, 64, requires_grad=True)
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda saved: kept.append(saved.nbytes) or saved, lambda saved: saved
    ):
        VaswaniDropout(0.1)(states)
    assert sum(kept) == states.numel()
