"""Laws of cleaning: nothing lost, nothing moved, nothing that depends on blocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani import corpus_cleaning
from vaswani.corpus_cleaning import Cleaner, chosen
from vaswani.corpus_readers import Pairs

WORDS = ["default", "length:least=2:unit=characters"]
SIDE = st.lists(
    st.sampled_from(["House", "house", "Haus", "12", "7", "!!", "дом", "a", "the old", "Satz"]),
    max_size=6,
).map(" ".join)
CORPUS = st.lists(st.tuples(SIDE, SIDE), max_size=40)


def sides(rows: list[tuple[str, str]]) -> Pairs:
    return [row[0] for row in rows], [row[1] for row in rows]


def verdicts(rows: list[tuple[str, str]], blocks: int) -> list[int]:
    cleaner = Cleaner(WORDS, source="en", target="de")
    parts = [cleaner.judge(sides(rows[k : k + blocks])) for k in range(0, len(rows), blocks)]
    return np.concatenate(parts).tolist() if parts else []


@settings(deadline=None)
@given(CORPUS)
def test_counts_add_up_and_kept_pairs_are_as_they_were(rows: list[tuple[str, str]]) -> None:
    cleaner = Cleaner(WORDS, source="en", target="de")
    found = cleaner.judge(sides(rows)).tolist()
    assert len(found) == cleaner.read == len(rows)
    assert cleaner.kept == found.count(-1)
    assert list(cleaner.dropped.values()) == [found.count(k) for k in range(len(cleaner.names))]
    kept = chosen(sides(rows), np.asarray(found) < 0)
    assert kept == sides([row for row, number in zip(rows, found, strict=True) if number < 0])


@settings(deadline=None)
@given(CORPUS, st.integers(1, 50), st.integers(1, 50))
def test_size_of_blocks_changes_nothing(
    rows: list[tuple[str, str]], blocks: int, arrays: int
) -> None:
    whole = verdicts(rows, len(rows) + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_cleaning, "_PAIRS_AT_A_TIME", arrays)
        assert verdicts(rows, blocks) == whole


@settings(deadline=None)
@given(CORPUS)
def test_cleaning_what_is_clean_drops_nothing(rows: list[tuple[str, str]]) -> None:
    kept = [row for row, number in zip(rows, verdicts(rows, 7), strict=True) if number < 0]
    assert verdicts(kept, 7) == [-1] * len(kept)


def test_pair_counts_for_the_first_filter_that_objects() -> None:
    pairs = (["12 34"], ["12 34"])
    for words in (["identical", "symbols"], ["symbols", "identical"]):
        cleaner = Cleaner(words, source="en", target="de")
        assert cleaner.judge(pairs).tolist() == [0]
        assert cleaner.dropped == {words[0]: 1, words[1]: 0}


def test_dropped_pair_does_not_stand_for_its_copies() -> None:
    copies = [("Page 555 555 555", "Seite"), ("Page 5", "Seite"), ("Page 55", "Seite")]
    cleaner = Cleaner(["symbols", "near-duplicates"], source="en", target="de")
    assert cleaner.judge(sides(copies)).tolist() == [0, -1, 1]


def test_table_ends_with_what_was_kept_and_read() -> None:
    cleaner = Cleaner(["identical", "duplicates"], source="en", target="de")
    cleaner.judge((["a", "b", "b", "c"], ["a", "x", "x", "y"]))
    rows = [line.split() for line in cleaner.table()]
    assert rows == [
        ["identical", "1", "25.0%"],
        ["duplicates", "1", "25.0%"],
        ["kept", "2", "50.0%"],
        ["read", "4", "100.0%"],
    ]
