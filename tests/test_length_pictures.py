"""The picture of lengths shows every pair once."""

import numpy as np
import pytest

from vaswani.errors import InputError

pytest.importorskip("matplotlib")
from vaswani.length_pictures import lengths_figure


def drawn(sources: list[int], targets: list[int]):
    lengths = np.array(sources, dtype=np.int32), np.array(targets, dtype=np.int32)
    return lengths_figure(lengths, labels=("ja", "日本語"), unit="words", title="भाषा.tsv")


def test_every_pair_is_in_one_cell_and_in_both_margins() -> None:
    generator = np.random.default_rng(3)
    sources, targets = (generator.integers(0, 300, 5000).tolist() for _ in range(2))
    figure = drawn(sources, targets)
    cells = figure.axes[0].collections[0].get_array()
    assert cells.sum() == 5000
    top, right = (
        axes for axes in figure.axes if axes.patches and axes.get_title().startswith("median")
    )
    assert sum(bar.get_height() for bar in top.patches) == 5000
    assert sum(bar.get_width() for bar in right.patches) == 5000
    assert top.get_title() == f"median {np.median(sources):g}"


def test_few_very_long_pairs_do_not_shrink_the_others() -> None:
    figure = drawn([5] * 5000 + [9000], [6] * 5000 + [6])
    assert figure.axes[0].get_xlim()[1] < 10
    assert "1 longer than 6 words" in figure.get_suptitle()


@pytest.mark.parametrize("lengths", [([0], [0]), ([1], [1]), ([1000], [1])])
def test_single_pair_is_drawn(lengths: tuple[list[int], list[int]]) -> None:
    assert drawn(*lengths).axes[0].collections[0].get_array().sum() == 1


def test_no_pairs_are_refused() -> None:
    with pytest.raises(InputError, match="at least one pair"):
        drawn([], [])
