"""The choice among tokens against sorting all of them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani.beam_search_vaswani import BeamSearch, BeamSettings, LengthPenalty, likeliest


def sorted_by_rule(row: list[float], count: int) -> list[int]:
    """Places of the highest scores; of equal ones the first; what is no number is the lowest."""
    cleaned = [-float("inf") if score != score else score for score in row]
    return sorted(range(len(row)), key=lambda place: (-cleaned[place], place))[:count]


@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 3),
    width=st.integers(1, 3000),
    count=st.integers(1, 12),
    levels=st.sampled_from([2, 5, 40, 100_000]),
    missing=st.sampled_from([0.0, 0.01, 0.9, 1.0]),
    broken=st.sampled_from([0.0, 0.01, 0.5]),
)
@settings(max_examples=200, deadline=None)
def test_likeliest_are_those_of_sorting(
    seed: int, rows: int, width: int, count: int, levels: int, missing: float, broken: float
) -> None:
    """With few levels nearly all scores are equal to others, up to the last bit different."""
    random = torch.Generator().manual_seed(seed)
    steps = torch.randint(levels, (rows, width), generator=random, dtype=torch.int32)
    # Neighboring float32 numbers, from -3 down.
    scores = (torch.tensor([-3.0]).view(torch.int32) + steps).view(torch.float32)
    chance = torch.rand(2, rows, width, generator=random)
    scores = scores.masked_fill(chance[0] < missing, -torch.inf)
    scores = scores.masked_fill(chance[1] < broken, torch.nan)
    count = min(count, width)
    best, places = likeliest(scores, count)
    for row in range(rows):
        expected = sorted_by_rule(scores[row].tolist(), count)
        values = [scores[row, place].item() for place in expected]
        finite = [value == value and value > -torch.inf for value in values]
        # Among what cannot be there is no order.
        for place, (wanted, counts) in enumerate(zip(expected, finite, strict=True)):
            if counts:
                assert places[row, place].item() == wanted
                assert best[row, place].item() == values[place]
            else:
                assert best[row, place] == -torch.inf


@pytest.mark.parametrize("width", [7, 5000])
def test_of_equal_candidates_the_first_hypothesis_and_the_lowest_token_win(width: int) -> None:
    """Every token has the same probability, at every step."""
    configured = BeamSettings(
        num_beams=3,
        num_return_sequences=1,
        penalty=LengthPenalty("gnmt", 0.6),
        early_stopping="never",
        sample=False,
        end_token_ids=torch.tensor([width - 1]),
        pad_token_id=0,
    )
    beams = BeamSearch(torch.tensor([[1]]), torch.tensor([10]), configured)
    even = torch.full((3, width), 1.0 / width).log()
    beams.advance(even)
    assert beams.open.tokens[0, :, 1:].tolist() == [[0], [1], [2]]
    continued = beams.advance(even)
    assert beams.open.tokens[0, :, 1:].tolist() == [[0, 0], [0, 1], [0, 2]]
    assert continued.tolist() == [0, 0, 0]
