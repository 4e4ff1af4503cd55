"""What is counted of a corpus, beside the same counted by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani.corpus_statistics import OUTLIERS, QUANTILES, CorpusStatistics

PAIRS = (
    ["The bridge is open.", "the bridge is OPEN", "Radio", "Radio", "Go 7", "слово ok"],
    [
        "Die Brücke ist offen.",
        "die Brücke ist offen!",
        "Radio",
        "Radio",
        "Geh 8",
        "Wort\u00a0\ufffd",
    ],
)


def counted(pairs=PAIRS, **options) -> CorpusStatistics:
    statistics = CorpusStatistics(**options)
    statistics.add(pairs)
    return statistics


def test_counts_are_those_of_the_pairs() -> None:
    summary = counted().summary()
    assert summary["pairs"] == 6
    assert summary["identical"] == 2
    assert summary["duplicates"] == 1  # Radio
    assert summary["near_duplicates"] == 2  # and the bridge
    assert summary["source"]["words"] == 4 + 4 + 1 + 1 + 2 + 2
    assert summary["target"]["characters"] == sum(map(len, PAIRS[1]))
    assert summary["target"]["odd_characters"] == {"\u00a0": 1, "\ufffd": 1}
    assert summary["source"]["odd_characters"] == {}
    letters = sum(char.isalpha() for text in PAIRS[0] for char in text)
    assert summary["source"]["scripts"] == pytest.approx(
        {"Latn": (letters - 5) / letters, "Cyrl": 5 / letters}
    )


def test_quantiles_are_lengths_that_occur() -> None:
    words = [f"{'w ' * k}" for k in range(1, 102)]
    summary = counted((words, ["x"] * 101)).summary()
    # The k-th of 101 sorted values has a share of k / 101 at or below it.
    assert QUANTILES == (0, 0.01, 0.25, 0.5, 0.75, 0.99, 1)
    assert summary["source"]["lengths"]["words"] == [1, 2, 26, 51, 76, 100, 101]
    assert summary["target"]["lengths"]["words"] == [1] * 7


def test_no_outliers_are_told_where_none_are_wanted() -> None:
    assert counted().outliers(0) == {kind: [] for kind in OUTLIERS}


def test_outliers_are_told_by_number() -> None:
    outliers = counted().outliers(2)
    assert outliers.keys() == OUTLIERS.keys()
    assert [number for number, _ in outliers["longest"]] == [1, 2]
    assert outliers["longest"][0] == (1, "4 words")
    assert outliers["most repeated"] == [(1, "2 times"), (3, "2 times")]
    unequal = counted((["a", "b" * 40, "c"], ["a", "b" * 90, "c" * 30])).outliers(1)
    assert unequal["most unequal"] == [(3, "1 and 30 columns")]


def test_nothing_repeated_is_no_outlier() -> None:
    assert counted((["a", "b"], ["c", "d"])).outliers(3)["most repeated"] == []


def test_tokens_are_counted_where_there_is_a_tokenizer() -> None:
    statistics = counted(count_tokens=lambda pairs: [[*map(len, side)] for side in pairs])
    assert statistics.unit == "tokens"
    summary = statistics.summary()
    assert summary["source"]["tokens"] == summary["source"]["characters"]
    assert statistics.lengths()[1].tolist() == [*map(len, PAIRS[1])]


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9)), min_size=1), st.integers(1, 9))
def test_size_of_blocks_changes_nothing(rows: list[tuple[str, str]], size: int) -> None:
    pairs = [row[0] for row in rows], [row[1] for row in rows]
    statistics = CorpusStatistics()
    for start in range(0, len(rows), size):
        statistics.add((pairs[0][start : start + size], pairs[1][start : start + size]))
    whole = counted(pairs)
    assert statistics.summary() == whole.summary()
    assert statistics.outliers(2) == whole.outliers(2)
