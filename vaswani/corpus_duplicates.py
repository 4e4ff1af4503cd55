"""Which of very many hashes came before, in little more memory than the hashes themselves.

SeenHashes         tells of each hash whether it is the first of its kind
"""

import numpy as np
from numpy.typing import NDArray


class SeenHashes:
    """A set of 64-bit hashes that grows by blocks: 8 bytes each, 24 while parts are merged.

    A Python set of the same numbers takes about 90 bytes each.
    """

    def __init__(self) -> None:
        # Sorted, each at least twice as long as the next: so few, and each hash is moved few times.
        self._parts: list[NDArray[np.uint64]] = []

    def add(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Whether each hash stood earlier, in this block or in one before; keeps the new ones."""
        distinct, firsts = np.unique(hashes, return_index=True)
        seen = np.zeros(len(distinct), dtype=np.bool_)
        for part in self._parts:
            places = np.searchsorted(part, distinct)
            places[places == len(part)] = 0
            seen |= part[places] == distinct
        earlier = np.ones(len(hashes), dtype=np.bool_)
        earlier[firsts[~seen]] = False
        if not seen.all():
            self._parts.append(distinct[~seen])
        while len(self._parts) > 1 and len(self._parts[-2]) < 2 * len(self._parts[-1]):
            last, before = self._parts.pop(), self._parts.pop()
            merged = np.concatenate([before, last])
            # Stable is a merge of runs here, and both parts are sorted already.
            merged.sort(kind="stable")
            self._parts.append(merged)
        return earlier

    def __len__(self) -> int:
        return sum(map(len, self._parts))
