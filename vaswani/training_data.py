"""Sentence pairs as token ids, ready for `VaswaniTrainer`.

TokenizedPairs     ids of both sides in flat arrays, with the texts kept for scoring
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from vaswani.errors import InputError

_ROWS_AT_A_TIME = 10_000


class _Ragged:
    """Lists of ids in one flat array."""

    def __init__(self, rows: Iterable[Sequence[int]]) -> None:
        parts, lengths = [], []
        for row in rows:
            parts.append(np.asarray(row, dtype=np.int32))
            lengths.append(len(row))
        self.flat = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)
        self.lengths = np.asarray(lengths, dtype=np.int64)
        self.ends = np.cumsum(self.lengths)

    def __getitem__(self, index: int) -> list[int]:
        end = self.ends[index]
        return self.flat[end - self.lengths[index] : end].tolist()


class TokenizedPairs(Dataset):
    """Pairs of token ids; item k is `{"input_ids": [...], "labels": [...]}`, both with end token.

    Args:
        source_ids: ids of each source.
        target_ids: ids of each target.
        sources: the texts, where there are any.
        targets: the texts that translations are scored against.
        left_out: pairs that were too long to become a part of this.
        shortened: pairs of which a side was cut.
    """

    def __init__(
        self,
        source_ids: Iterable[Sequence[int]],
        target_ids: Iterable[Sequence[int]],
        *,
        sources: Sequence[str] | None = None,
        targets: Sequence[str] | None = None,
        left_out: int = 0,
        shortened: int = 0,
    ) -> None:
        self._source, self._target = _Ragged(source_ids), _Ragged(target_ids)
        self.sources, self.targets = sources, targets
        self.left_out, self.shortened = left_out, shortened

    def __len__(self) -> int:
        return len(self._source.lengths)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        return {"input_ids": self._source[index], "labels": self._target[index]}

    @property
    def source_lengths(self) -> NDArray[np.int64]:
        """Tokens of each source, end token included."""
        return self._source.lengths

    @property
    def target_lengths(self) -> NDArray[np.int64]:
        """Tokens of each target, end token included."""
        return self._target.lengths

    @classmethod
    def from_texts(
        cls,
        sources: Sequence[str],
        targets: Sequence[str],
        tokenizer: Any,
        *,
        max_tokens: int | None = None,
        cut: bool = False,
        keep_texts: bool = False,
    ) -> "TokenizedPairs":
        """Encodes both sides, and leaves out pairs of which one side is too long.

        Args:
            tokenizer: a `VaswaniTokenizer`.
            max_tokens: most tokens of a side, end token included, inclusive.
            cut: cut longer sides to `max_tokens` instead; the end token stays.
            keep_texts: keep the texts, for a set that translations are scored on.
        """
        source_ids: list[NDArray[np.int32]] = []
        target_ids: list[NDArray[np.int32]] = []
        kept: list[int] = []
        shortened = 0
        for start in range(0, len(sources), _ROWS_AT_A_TIME):
            rows = slice(start, start + _ROWS_AT_A_TIME)
            # Not verbose: what is too long is ours to leave out and to report.
            encoded = tokenizer(list(sources[rows]), text_target=list(targets[rows]), verbose=False)
            both = zip(encoded["input_ids"], encoded["labels"], strict=True)
            for number, (source, target) in enumerate(both, start=start):
                too_long = max_tokens is not None and max(len(source), len(target)) > max_tokens
                if too_long and cut:
                    source, target = _cut(source, max_tokens), _cut(target, max_tokens)
                    shortened += 1
                if cut or not too_long:
                    source_ids.append(np.asarray(source, dtype=np.int32))
                    target_ids.append(np.asarray(target, dtype=np.int32))
                    kept.append(number)
        return cls(
            source_ids,  # type: ignore[arg-type]
            target_ids,  # type: ignore[arg-type]
            sources=[sources[k] for k in kept] if keep_texts else None,
            targets=[targets[k] for k in kept] if keep_texts else None,
            left_out=len(sources) - len(kept),
            shortened=shortened,
        )

    @classmethod
    def from_rows(cls, rows: Any) -> "TokenizedPairs":
        """The same from any dataset whose rows have `input_ids` and `labels` (-100 is dropped).

        Raises:
            InputError: if the rows lack one of them.
        """
        if isinstance(rows, cls):
            return rows
        source_ids, target_ids = [], []
        for row in rows:
            if "input_ids" not in row or "labels" not in row:
                raise InputError(
                    "a dataset for `VaswaniTrainer` must have the columns `input_ids` and "
                    f"`labels`, got {', '.join(row)}. Encode it with "
                    "`tokenizer(sources, text_target=targets)`."
                )
            source_ids.append(list(row["input_ids"]))
            target_ids.append([token for token in row["labels"] if token != -100])
        return cls(source_ids, target_ids)

    def spread(self, count: int) -> list[int]:
        """At most `count` indices, evenly spaced over the set."""
        count = min(count, len(self))
        return [k * len(self) // count for k in range(count)]


def _cut(ids: list[int], most: int | None) -> list[int]:
    """At most `most` ids; the last one, which is the end token, stays."""
    return ids if most is None or len(ids) <= most else [*ids[: most - 1], ids[-1]]
