"""Token ids on disk and in memory: lists of different length in one array.

    IdLists            lists of ids, in memory or mapped from a file
    encoder            a tokenizer's fastest way from texts to ids
    write_ids          pairs of texts -> an Arrow file of ids
    map_ids            the same file as `IdLists`, without a copy

Ids are those of `tokenizer(text)`: neither cut nor left out here, so that a file of ids depends on
text and tokenizer alone.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from vaswani.corpus_readers import Pairs
from vaswani.tokenization_vaswani import target_side

Ids = NDArray[np.integer[Any]]
Encoder = Callable[[Sequence[str]], tuple[Ids, NDArray[np.int32]]]
Item = TypeVar("Item")
Result = TypeVar("Result")


class IdLists:
    """Lists of ids, each a stretch of a flat array.

    Args:
        flats: the arrays.
        starts: of each list, where it begins in its array.
        lengths: of each list, ids.
        rows: of each array, how many lists are in it.
    """

    def __init__(
        self,
        flats: Sequence[Ids],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int32],
        rows: Sequence[int],
    ) -> None:
        self._flats, self._starts, self._rows = list(flats), starts, list(rows)
        self._ends = np.cumsum(rows).tolist()
        self.lengths = lengths
        self._last_ids: Ids | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> list[int]:
        if index < 0:
            index += len(self)
        flat = self._flats[bisect_right(self._ends, index)]
        start = self._starts[index]
        ids = flat[start : start + self.lengths[index]].tolist()
        if self._last_ids is not None:
            ids[-1] = int(self._last_ids[index])
        return ids

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> "IdLists":
        """Lists in memory."""
        parts = [np.asarray(row, dtype=np.int32) for row in rows]
        lengths = np.fromiter(map(len, parts), np.int32, len(parts))
        return cls.stretch(np.concatenate(parts) if parts else np.zeros(0, np.int32), lengths)

    @classmethod
    def stretch(cls, flat: Ids, lengths: NDArray[np.int32]) -> "IdLists":
        """Lists that follow one another without a gap."""
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        return cls([flat], starts, lengths, [len(lengths)])

    @classmethod
    def joined(cls, parts: Sequence["IdLists"]) -> "IdLists":
        """The lists of one after those of another, without a copy of the ids."""
        if not parts:
            return cls.of([])
        return cls(
            [flat for part in parts for flat in part._flats],
            np.concatenate([part._starts for part in parts]),
            np.concatenate([part.lengths for part in parts]),
            [rows for part in parts for rows in part._rows],
        )

    def select(self, flags: NDArray[np.bool_]) -> "IdLists":
        """The lists that are flagged, without a copy of their ids."""
        parts = np.split(flags, self._ends[:-1])
        rows = [int(np.count_nonzero(part)) for part in parts]
        return IdLists(self._flats, self._starts[flags], self.lengths[flags], rows)

    def cut(self, most: int) -> "IdLists":
        """The lists with at most `most` ids; the last one, which is the end token, stays."""
        shorter = IdLists(
            self._flats, self._starts, np.minimum(self.lengths, most, dtype=np.int32), self._rows
        )
        parts = np.split(self._starts + self.lengths - 1, self._ends[:-1])
        shorter._last_ids = np.concatenate(
            [flat[part] for flat, part in zip(self._flats, parts, strict=True)]
        )
        return shorter


def encoder(tokenizer: Any) -> Encoder:
    """A function from texts to their ids, one after another, and the number of ids of each.

    Args:
        tokenizer: of one side.
    """
    kind = id_type(tokenizer)
    backend = getattr(tokenizer, "backend_tokenizer", None)

    def by_call(texts: Sequence[str]) -> tuple[Ids, NDArray[np.int32]]:
        return _flattened(tokenizer(list(texts), verbose=False)["input_ids"], kind)

    if backend is None:
        return by_call

    def by_backend(texts: Sequence[str]) -> tuple[Ids, NDArray[np.int32]]:
        # What a call of the tokenizer sets, too. Without offsets, which nobody reads here.
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = tokenizer.split_special_tokens
        encodings = backend.encode_batch_fast(list(texts))
        lengths = np.fromiter(map(len, encodings), np.int32, len(encodings))
        ids = chain.from_iterable(map(attrgetter("ids"), encodings))
        return np.fromiter(ids, kind, int(lengths.sum())), lengths

    return by_backend


def _flattened(rows: Sequence[Sequence[int]], kind: Any) -> tuple[Ids, NDArray[np.int32]]:
    lengths = np.fromiter(map(len, rows), np.int32, len(rows))
    return np.fromiter(chain.from_iterable(rows), kind, int(lengths.sum())), lengths


def id_type(tokenizer: Any) -> Any:
    """The smallest type of numbers that holds all ids of a tokenizer."""
    return np.min_scalar_type(max(0, len(tokenizer) - 1))


def encoded_blocks(
    blocks: Iterable[Pairs], tokenizer: Any
) -> Iterator[list[tuple[Ids, NDArray[np.int32]]]]:
    """The ids of both sides of each block; the next one is encoded while this one is used."""
    encoders = encoder(tokenizer), encoder(target_side(tokenizer))

    def encode(block: Pairs) -> list[tuple[Ids, NDArray[np.int32]]]:
        return [encode(side) for encode, side in zip(encoders, block, strict=True)]

    return _ahead(encode, blocks)


def _ahead(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    # A thread is enough: the tokenizers library lets go of Python while its own threads work.
    with ThreadPoolExecutor(1) as pool:
        waiting = None
        for item in items:
            following = pool.submit(function, item)
            if waiting is not None:
                yield waiting.result()
            waiting = following
        if waiting is not None:
            yield waiting.result()


def write_ids(
    path: Path, blocks: Iterable[Pairs], tokenizer: Any, progress: Callable[[int], object]
) -> dict[str, Any]:
    """Writes the ids of both sides as an Arrow file, one record batch a block.

    Args:
        path: the file.
        blocks: the texts.
        tokenizer: of the model.
        progress: told the number of pairs of each finished block.

    Returns:
        Counts, as facts of an entry of the cache.
    """
    import pyarrow

    sides = tokenizer, target_side(tokenizer)
    kinds = [pyarrow.from_numpy_dtype(id_type(side)) for side in sides]
    schema = pyarrow.schema(
        {name: pyarrow.list_(kind) for name, kind in zip(("source", "target"), kinds, strict=True)}
    )
    counts = {"pairs": 0, "source_tokens": 0, "target_tokens": 0}
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_file(file, schema) as writer:
        for (sources, source_lengths), (targets, target_lengths) in encoded_blocks(
            blocks, tokenizer
        ):
            columns = [
                pyarrow.ListArray.from_arrays(np.concatenate([[0], np.cumsum(lengths)]), ids)
                for ids, lengths in ((sources, source_lengths), (targets, target_lengths))
            ]
            writer.write_batch(pyarrow.record_batch(columns, schema=schema))
            counts["pairs"] += len(source_lengths)
            counts["source_tokens"] += len(sources)
            counts["target_tokens"] += len(targets)
            progress(len(source_lengths))
    return counts


def map_ids(path: Path) -> tuple[IdLists, IdLists]:
    """The ids of both sides, mapped from the file."""
    import pyarrow

    with pyarrow.memory_map(str(path)) as mapped:
        whole = mapped.read_buffer()
    reader = pyarrow.ipc.open_file(pyarrow.BufferReader(whole))
    batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
    lists = []
    for side in ("source", "target"):
        kind = np.dtype(reader.schema.field(side).type.value_type.to_pandas_dtype())
        # The whole file seen as ids: then a list is a stretch of one array, whatever its batch.
        size = whole.size // kind.itemsize
        flat: Ids = np.frombuffer(whole, dtype=kind, count=size)
        starts, lengths = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
        for batch in batches:
            column = batch.column(side)
            _, values = column.values.buffers()
            offsets = column.offsets.to_numpy().astype(np.int64)
            place = (values.address - whole.address) if values is not None and values.size else 0
            assert place % kind.itemsize == 0
            starts.append(offsets[:-1] + place // kind.itemsize)
            lengths.append(np.diff(offsets).astype(np.int32))
        starts_, lengths_ = np.concatenate(starts), np.concatenate(lengths)
        lists.append(IdLists([flat], starts_, lengths_, [len(lengths_)]))
    return lists[0], lists[1]
