"""Sentence pairs as token ids, ready for `VaswaniTrainer`.

TokenizedPairs     ids of both sides in flat arrays, with the texts kept for scoring
CorpusShare        what one of several corpora contributes to them
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from vaswani.corpus_ids import IdLists, encoded_blocks
from vaswani.errors import InputError

_ROWS_AT_A_TIME = 10_000


@dataclass(frozen=True)
class CorpusShare:
    """What one of several corpora contributes.

    Args:
        name: of the corpus.
        pairs: how many of it are left.
        weight: how often each comes in an epoch, on average.
    """

    name: str
    pairs: int
    weight: float = 1.0


class TokenizedPairs(Dataset):
    """Pairs of token ids; item k is `{"input_ids": [...], "labels": [...]}`, both with end token.

    Args:
        source_ids: ids of each source.
        target_ids: ids of each target.
        sources: the texts, where there are any.
        targets: the texts that translations are scored against.
        left_out: pairs that were too long to become a part of this.
        shortened: pairs of which a side was cut.
        shares: the corpora that the pairs came from, in order; none stands for a single one.
    """

    def __init__(
        self,
        source_ids: IdLists | Iterable[Sequence[int]],
        target_ids: IdLists | Iterable[Sequence[int]],
        *,
        sources: Sequence[str] | None = None,
        targets: Sequence[str] | None = None,
        left_out: int = 0,
        shortened: int = 0,
        shares: Sequence[CorpusShare] = (),
    ) -> None:
        self._source, self._target = (
            ids if isinstance(ids, IdLists) else IdLists.of(ids) for ids in (source_ids, target_ids)
        )
        self.sources, self.targets = sources, targets
        self.left_out, self.shortened = left_out, shortened
        self.shares = list(shares)

    def __len__(self) -> int:
        return len(self._source.lengths)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        return {"input_ids": self._source[index], "labels": self._target[index]}

    @property
    def source_lengths(self) -> NDArray[np.int32]:
        """Tokens of each source, end token included."""
        return self._source.lengths

    @property
    def target_lengths(self) -> NDArray[np.int32]:
        """Tokens of each target, end token included."""
        return self._target.lengths

    @property
    def weights(self) -> list[tuple[int, float]] | None:
        """Pairs and weight of each corpus, for a sampler; `None` if there is but one share."""
        return [(share.pairs, share.weight) for share in self.shares] or None

    def shortest(self, most: int | None, *, cut: bool) -> "TokenizedPairs":
        """Those of at most `most` tokens a side; with `cut` all, the longer ones cut to it.

        The texts of a cut pair stay whole.
        """
        if most is None:
            return self
        short = (self.source_lengths <= most) & (self.target_lengths <= most)
        long = len(short) - int(np.count_nonzero(short))
        if cut:
            cut_ids = self._source.cut(most), self._target.cut(most)
            return TokenizedPairs(
                *cut_ids,
                sources=self.sources,
                targets=self.targets,
                shortened=long,
                shares=self.shares,
            )
        sizes = [share.pairs for share in self.shares]
        counts = [int(np.count_nonzero(part)) for part in np.split(short, np.cumsum(sizes))]
        return TokenizedPairs(
            self._source.select(short),
            self._target.select(short),
            sources=None if self.sources is None else list(compress(self.sources, short)),
            targets=None if self.targets is None else list(compress(self.targets, short)),
            left_out=long,
            shares=[replace(s, pairs=n) for s, n in zip(self.shares, counts, strict=False)],
        )

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
        texts = (
            (
                list(sources[start : start + _ROWS_AT_A_TIME]),
                list(targets[start : start + _ROWS_AT_A_TIME]),
            )
            for start in range(0, len(sources), _ROWS_AT_A_TIME)
        )
        blocks = list(encoded_blocks(texts, tokenizer))
        ids = (IdLists.joined([IdLists.stretch(*b[side]) for b in blocks]) for side in (0, 1))
        pairs = cls(
            *ids,
            sources=list(sources) if keep_texts else None,
            targets=list(targets) if keep_texts else None,
        )
        return pairs.shortest(max_tokens, cut=cut)

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
