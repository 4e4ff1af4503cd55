"""Optimizer and schedule against section 5.3 of the paper."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vaswani.errors import InputError
from vaswani.optimization import inverse_sqrt_rate, paper_optimizer, paper_schedule


def paper_formula(k: int, d_model: int, warmup: int) -> float:
    """Equation 3 as printed, k counted from 1."""
    return d_model ** (-0.5) * min(k ** (-0.5), k * warmup ** (-1.5))


def rates_of_updates(count: int, *, d_model: int, warmup: int, factor: float = 1.0) -> list[float]:
    """The rate with which each of the first `count` updates is really taken."""
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = paper_optimizer([weight])
    schedule = paper_schedule(optimizer, d_model=d_model, warmup_updates=warmup, factor=factor)
    rates = []
    for _ in range(count):
        rates.append(optimizer.param_groups[0]["lr"])
        weight.grad = torch.ones(2)
        optimizer.step()
        schedule.step()
    return rates


@pytest.mark.parametrize("warmup", [1, 4])
def test_update_k_uses_the_formula_at_k(warmup: int) -> None:
    rates = rates_of_updates(5, d_model=32, warmup=warmup)
    assert rates == pytest.approx([paper_formula(k, 32, warmup) for k in range(1, 6)])


def test_schedule_without_warmup_starts_at_the_highest_rate() -> None:
    rates = rates_of_updates(5, d_model=16, warmup=0)
    assert rates == pytest.approx([0.25 * k**-0.5 for k in range(1, 6)])


@pytest.mark.parametrize("warmup", [0, 1, 4, 4000])
def test_first_update_has_a_rate_above_zero(warmup: int) -> None:
    assert rates_of_updates(1, d_model=512, warmup=warmup)[0] > 0


def test_rate_of_the_base_model_peaks_at_update_4000_with_7e_4() -> None:
    rates = [inverse_sqrt_rate(u, d_model=512, warmup_updates=4000) for u in range(20_000)]
    assert rates.index(max(rates)) == 3999
    assert max(rates) == pytest.approx(6.99e-4, abs=5e-7)


def test_rate_halves_when_the_updates_after_warmup_quadruple() -> None:
    rates = [inverse_sqrt_rate(u, d_model=512, warmup_updates=40) for u in range(400)]
    assert rates[159] == pytest.approx(rates[39] / 2)


def test_factor_multiplies_every_rate() -> None:
    rates = rates_of_updates(6, d_model=32, warmup=4, factor=0.25)
    assert rates == pytest.approx([0.25 * paper_formula(k, 32, 4) for k in range(1, 7)])


def test_schedule_ends_its_warmup_at_update_4000_unless_told_otherwise() -> None:
    optimizer = paper_optimizer([torch.nn.Parameter(torch.zeros(1))])
    paper_schedule(optimizer, d_model=512)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(paper_formula(1, 512, 4000))


def test_rates_of_before_have_no_part_in_the_schedule() -> None:
    """The optimizer's own rate, and what an earlier schedule started from."""
    optimizer = paper_optimizer([torch.nn.Parameter(torch.zeros(1))], rate=0.5)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: 0.1)
    paper_schedule(optimizer, d_model=64, warmup_updates=10)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(paper_formula(1, 64, 10))


@given(
    update=st.integers(0, 10**6),
    d_model=st.integers(1, 4096),
    warmup=st.integers(0, 20_000),
    factor=st.floats(0.01, 10.0),
)
def test_rate_is_positive_and_never_above_its_peak(
    update: int, d_model: int, warmup: int, factor: float
) -> None:
    rate = inverse_sqrt_rate(update, d_model=d_model, warmup_updates=warmup, factor=factor)
    peak = factor * (d_model * max(warmup, 1)) ** -0.5
    assert 0 < rate <= peak * (1 + 1e-12)


def test_optimizer_moves_weights_as_adam_of_the_paper() -> None:
    """Kingma and Ba's update rule, written out, with beta2 0.98 and epsilon 1e-9."""
    gradients = torch.tensor([[0.5, -2.0, 1e-4], [0.1, 3.0, -1e-4], [-0.7, 0.2, 5e-5]]).double()
    weight = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]).double())
    optimizer = paper_optimizer([weight], rate=0.1)
    expected, first, second = weight.detach().clone(), torch.zeros(3), torch.zeros(3)
    for t, gradient in enumerate(gradients, start=1):
        weight.grad = gradient.clone()
        optimizer.step()
        first = 0.9 * first + 0.1 * gradient
        second = 0.98 * second + 0.02 * gradient**2
        step = (first / (1 - 0.9**t)) / ((second / (1 - 0.98**t)).sqrt() + 1e-9)
        expected = expected - 0.1 * step
    torch.testing.assert_close(weight.detach(), expected, rtol=1e-6, atol=1e-9)


def test_optimizer_leaves_frozen_parameters_out() -> None:
    frozen = torch.nn.Parameter(torch.zeros(2), requires_grad=False)
    free = torch.nn.Parameter(torch.zeros(2))
    optimizer = paper_optimizer([frozen, free])
    assert [id(p) for group in optimizer.param_groups for p in group["params"]] == [id(free)]


def test_schedule_goes_on_where_its_saved_state_stopped() -> None:
    def new() -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LambdaLR]:
        optimizer = paper_optimizer([torch.nn.Parameter(torch.zeros(1))])
        return optimizer, paper_schedule(optimizer, d_model=64, warmup_updates=10)

    optimizer, schedule = new()
    for _ in range(7):
        optimizer.step()
        schedule.step()
    other_optimizer, other_schedule = new()
    other_optimizer.load_state_dict(optimizer.state_dict())
    other_schedule.load_state_dict(schedule.state_dict())
    other_optimizer.step()
    other_schedule.step()
    assert other_optimizer.param_groups[0]["lr"] == pytest.approx(paper_formula(9, 64, 10))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"warmup_updates": -1}, "`warmup_updates` must not be negative, got -1"),
        ({"factor": 0.0}, "`factor` must be above 0, got 0.0"),
    ],
)
def test_schedule_refuses_impossible_settings(settings: dict, message: str) -> None:
    optimizer = paper_optimizer([torch.nn.Parameter(torch.zeros(1))])
    with pytest.raises(InputError, match=message):
        paper_schedule(optimizer, d_model=8, **settings)
