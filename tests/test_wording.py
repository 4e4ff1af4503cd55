"""Claims about numbers in sentences: English has a plural for everything but 1."""

import pytest

from vaswani.wording import counted, lasting


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 pairs"), (1, "1 pair"), (1.0, "1 pair"), (2, "2 pairs"), (0.5, "0.5 pairs")],
)
def test_number_of_pairs_agrees_with_its_noun(number: float, text: str) -> None:
    assert counted(number, "pair") == text


def test_number_takes_commas_and_a_plural_of_its_own() -> None:
    assert counted(1_200_000, "pass", "passes") == "1,200,000 passes"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "less than a second"),
        (1.2, "1 second"),
        (59.4, "59 seconds"),
        (59.6, "1 minute"),
        (90, "1.5 minutes"),
        (3600, "60 minutes"),
    ],
)
def test_duration_is_in_the_unit_that_says_something(seconds: float, text: str) -> None:
    assert lasting(seconds) == text
