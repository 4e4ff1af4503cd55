"""Sentence pairs on disk: written block by block, read again without being held in memory.

    store_corpus       a corpus as an Arrow file in the cache, made the first time
    PairBlocks         pairs that can be gone through again and again
    StoredPairs        pairs of such files, in order, some of them perhaps left out
    Texts              one side, or both, of such pairs

A pass reads one record batch after another from the file.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vaswani.corpus_cache import CacheEntry, CorpusCache, plain_content
from vaswani.corpus_readers import Pairs
from vaswani.errors import InputError

_PAIRS = "pairs.arrow"
# Record batches of so many pairs: enough for the threads of a tokenizer, little in memory.
_BATCH_PAIRS = 1 << 13


@dataclass(frozen=True)
class StoredCorpus:
    """One corpus on disk.

    Args:
        name: what messages call it.
        key: what it was made from.
        path: the Arrow file, with a column `source` and a column `target`.
        pairs: how many.
        report: what reading kept and left out, in words.
        entry: the entry of the cache.
    """

    name: str
    key: str
    path: Path
    pairs: int
    report: str
    entry: CacheEntry


def store_corpus(
    cache: CorpusCache,
    name: str,
    key: str,
    read: Callable[[], tuple[Iterable[Pairs], Callable[[], str]]],
) -> StoredCorpus:
    """The corpus on disk, read and written if the cache does not hold it.

    Args:
        cache: where it is kept.
        name: what messages call it.
        key: of its content and of all that settles how it is read.
        read: begins to read, and returns the blocks and a function that reports, once they have
            been gone through, what was left out.

    Raises:
        InputError, FileNotFoundError: for what cannot be read, and if there are no pairs.
    """

    def make(folder: Path) -> dict[str, Any]:
        blocks, report = read()
        count = _write_pairs(folder / _PAIRS, blocks)
        if not count:
            raise InputError(f"{name} must hold at least one pair, got {report()}.")
        return {"pairs": count, "report": report()}

    entry = cache.entry("pairs", key, make)
    facts = entry.facts
    path = entry.folder / _PAIRS
    return StoredCorpus(name, key, path, facts["pairs"], facts["report"], entry)


def _write_pairs(path: Path, blocks: Iterable[Pairs]) -> int:
    import pyarrow

    schema = pyarrow.schema({"source": pyarrow.string(), "target": pyarrow.string()})
    count = 0
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_file(file, schema) as writer:
        for sources, targets in blocks:
            for start in range(0, len(sources), _BATCH_PAIRS):
                part = slice(start, start + _BATCH_PAIRS)
                sides = [pyarrow.array(side[part], pyarrow.string()) for side in (sources, targets)]
                writer.write_batch(pyarrow.record_batch(sides, schema=schema))
            count += len(sources)
    return count


class PairBlocks(ABC):
    """Pairs that can be gone through any number of times, and of which the number is known."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def blocks(self) -> Iterator[Pairs]:
        """All pairs, a block at a time."""

    @property
    def sources(self) -> "Texts":
        """The sources alone."""
        return Texts(self, (0,))

    @property
    def targets(self) -> "Texts":
        """The targets alone."""
        return Texts(self, (1,))

    @property
    def texts(self) -> "Texts":
        """Both sides, block by block the sources and then the targets."""
        return Texts(self, (0, 1))


class StoredPairs(PairBlocks):
    """Pairs of several corpora on disk, in order.

    Args:
        corpora: the corpora.
    """

    def __init__(self, corpora: Sequence[StoredCorpus]) -> None:
        self.corpora = list(corpora)
        all_pairs = sum(corpus.pairs for corpus in self.corpora)
        self.kept = np.ones(all_pairs, dtype=bool)
        """One flag for each pair of the files: whether it belongs to this."""

    def __len__(self) -> int:
        return int(np.count_nonzero(self.kept))

    def kept_of(self, number: int) -> NDArray[np.bool_]:
        """The flags of one corpus."""
        start = sum(corpus.pairs for corpus in self.corpora[:number])
        return self.kept[start : start + self.corpora[number].pairs]

    def select(self, rows: Any) -> "StoredPairs":
        """Those pairs alone, numbered as in this."""
        chosen = StoredPairs(self.corpora)
        chosen.kept[:] = False
        chosen.kept[np.flatnonzero(self.kept)[rows]] = True
        return chosen

    def blocks(self) -> Iterator[Pairs]:
        """All pairs, a block at a time."""
        for number, corpus in enumerate(self.corpora):
            kept = self.kept_of(number)
            row = 0
            for batch in _batches(corpus.path):
                flags = kept[row : row + batch.num_rows]
                row += batch.num_rows
                if not flags.all():
                    batch = batch.filter(_as_arrow(flags))
                sources, targets = batch.columns
                yield sources.to_pylist(), targets.to_pylist()

    def take(self, rows: Any) -> Pairs:
        """The texts of those pairs, numbered as in this, in the order of the files."""
        texts: Pairs = ([], [])
        # Not by a lookup of Arrow, which would first put all batches together, in memory.
        for sources, targets in self.select(rows).blocks():
            texts[0].extend(sources)
            texts[1].extend(targets)
        return texts


class Texts(Collection[str]):
    """Texts of pairs on disk, which can be gone through any number of times."""

    def __init__(self, pairs: PairBlocks, sides: tuple[int, ...]) -> None:
        self._pairs, self._sides = pairs, sides

    def __len__(self) -> int:
        return len(self._sides) * len(self._pairs)

    def __iter__(self) -> Iterator[str]:
        for block in self._pairs.blocks():
            for side in self._sides:
                yield from block[side]

    def __contains__(self, text: object) -> bool:
        return any(text == other for other in self)


def _batches(path: Path) -> Iterator[Any]:
    import pyarrow

    # Plain reads, not a map, whose pages would add up to the whole file in the memory shown.
    with pyarrow.OSFile(str(path), "rb") as file:
        with plain_content(path):
            reader = pyarrow.ipc.open_file(file)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def _as_arrow(flags: NDArray[np.bool_]) -> Any:
    import pyarrow

    return pyarrow.array(flags)
