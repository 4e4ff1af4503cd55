"""A set of hashes that grows by blocks."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani.corpus_duplicates import SeenHashes


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 30) | st.integers(2**64 - 5, 2**64 - 1), max_size=40)))
def test_hashes_are_told_apart_as_by_a_set(blocks: list[list[int]]) -> None:
    seen, known = SeenHashes(), set()
    for block in blocks:
        expected = []
        for number in block:
            expected.append(number in known)
            known.add(number)
        assert seen.add(np.array(block, dtype=np.uint64)).tolist() == expected
    assert len(seen) == len(known)


def test_memory_is_8_bytes_a_hash() -> None:
    seen = SeenHashes()
    generator = np.random.default_rng(1)
    for _ in range(50):
        seen.add(generator.integers(2**64, size=1000, dtype=np.uint64))
    assert sum(part.nbytes for part in seen._parts) == 8 * len(seen)
    # Halving lengths: a look-up stays a few binary searches.
    assert len(seen._parts) <= 7
