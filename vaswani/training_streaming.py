"""Training pairs that are read and encoded while the model learns, and kept nowhere.

PairStream         passes over the corpora, each pair once for each unit of its weight
StreamedPairs      endless micro-batches of such passes, the training data of a `VaswaniTrainer`
FirstPairs         the first pairs of a stream, to train a vocabulary on

A buffer of pairs is filled from the corpora and put into updates as a whole epoch would be
(`batching`), the updates in random order; then the next buffer. A seed gives the same updates
every time, and a resumed run goes through the stream up to the place where it was.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import IterableDataset

from vaswani.batching import TokenBudgetBatchSampler
from vaswani.corpus_cleaning import Cleaner, chosen
from vaswani.corpus_ids import IdLists, encoded_blocks
from vaswani.corpus_readers import Pairs
from vaswani.corpus_store import PairBlocks
from vaswani.data import ReadReport, check_words, corpus_of, read_pairs
from vaswani.data_arguments import DataArguments
from vaswani.errors import InputError
from vaswani.text_lines import check_lasting
from vaswani.training_arguments import VaswaniTrainingArguments
from vaswani.training_data import TokenizedPairs
from vaswani.training_updates import micro_batches, updates_seed
from vaswani.wording import counted

_CHUNK_PAIRS = 2000
VOCABULARY_PAIRS = 500_000


@dataclass
class PairStream:
    """Passes over the corpora of a run, from their files.

    Corpora take turns, a chunk of each, until each is at its end.

    Args:
        arguments: where the pairs are, their weights, and how many at most.
        say: told once, after a first pass, what was read and left out.

    Raises:
        InputError, FileNotFoundError: for data that are missing.
    """

    arguments: DataArguments
    say: Callable[[str], object]
    _reported: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        check_words(self.arguments.data, self.arguments.encoding)
        for word in self.arguments.data:
            data = corpus_of(word)
            read_pairs(data, **self.arguments.reading_options)
            for path in [data] if isinstance(data, str) else data:
                check_lasting(Path(path))

    def chunks(self, number: int, seed: int) -> Iterator[Pairs]:
        """The pairs of one pass in chunks.

        Args:
            number: of the pass, from 0; it draws which pairs of a fractional weight come.
            seed: of the run.

        Raises:
            InputError: for a malformed line, or if there is no pair.
        """
        arguments = self.arguments
        cleaner = Cleaner(arguments.filters, source=arguments.source, target=arguments.target)
        reports = [ReadReport() for _ in arguments.data]
        turns = [
            self._corpus(place, np.random.default_rng([seed, number, place]), report, cleaner)
            for place, report in enumerate(reports)
        ]
        left = arguments.max_pairs
        while turns and left != 0:
            for turn in list(turns):
                chunk = next(turn, None)
                if chunk is None:
                    turns.remove(turn)
                    continue
                if left is not None:
                    chunk = chunk[0][:left], chunk[1][:left]
                    left -= len(chunk[0])
                yield chunk
        for word, report in zip(arguments.data, reports, strict=True):
            if not report.pairs:
                raise InputError(f"{word} must hold at least one pair, got {report}.")
            if not self._reported:
                self.say(f"{word}: {report}.")
        if cleaner.filters and not self._reported:
            self.say(f"{cleaner}.")
        self._reported = True

    def _corpus(
        self, place: int, random: np.random.Generator, report: ReadReport, cleaner: Cleaner
    ) -> Iterator[Pairs]:
        arguments = self.arguments
        weight = arguments.weights[place]
        options = arguments.reading_options
        for sources, targets in read_pairs(
            corpus_of(arguments.data[place]), **options, report=report
        ):
            size = min(_CHUNK_PAIRS, arguments.shuffle_buffer)
            for start in range(0, len(sources), size):
                part = slice(start, start + size)
                pairs = sources[part], targets[part]
                # Before a weight repeats a pair, which is no duplicate.
                yield _weighted(chosen(pairs, cleaner.judge(pairs) < 0), weight, random)


def _weighted(pairs: Pairs, weight: float, random: np.random.Generator) -> Pairs:
    """Each pair floor(weight) times, and once more with the rest as its chance."""
    if weight == 1:
        return pairs
    times = int(weight) + (random.random(len(pairs[0])) < weight - int(weight))
    rows = np.repeat(np.arange(len(pairs[0])), times).tolist()
    return [pairs[0][row] for row in rows], [pairs[1][row] for row in rows]


class StreamedPairs(IterableDataset):
    """Micro-batches of encoded pairs without an end, as lists for the collator.

    Each process goes through the whole stream and keeps its own micro-batches.

    Args:
        stream: the passes.
        tokenizer: of the model.
        args: seed and size of an update.
        max_tokens: most tokens of a side.
        cut: cut longer sides instead of leaving the pair out.
    """

    def __init__(
        self,
        stream: PairStream,
        tokenizer: Any,
        args: VaswaniTrainingArguments,
        *,
        max_tokens: int,
        cut: bool = False,
    ) -> None:
        self.stream, self._tokenizer, self._args = stream, tokenizer, args
        self._max_tokens, self._cut = max_tokens, cut
        self.as_read: Callable[[TokenizedPairs], TokenizedPairs] | None = None
        """Makes of a buffer what its rows are read from, such as pairs with BPE-dropout."""
        self.passes = 0
        """Whole passes of the latest iteration."""
        self._told = False

    def __iter__(self) -> Iterator[list[dict[str, list[int]]]]:
        rank, world = self._args.process_index, self._args.world_size
        seed = updates_seed(self._args)
        number = 0
        for place, buffer in enumerate(self._buffers(seed)):
            sampler = TokenBudgetBatchSampler(
                **self._args.update_size(buffer.source_lengths, buffer.target_lengths),
                micro_batches=micro_batches(self._args),
                seed=seed,
            )
            sampler.set_epoch(place)
            read = buffer if self.as_read is None else self.as_read(buffer)
            for rows in sampler:
                if number % world == rank:
                    yield [read[row] for row in rows]
                number += 1

    def _buffers(self, seed: int) -> Iterator[TokenizedPairs]:
        """Buffers of all passes, none of them empty."""
        for number in count():
            self.passes = number
            pairs = left_out = shortened = 0
            for whole in self._whole_buffers(number, seed):
                buffer = whole.shortest(self._max_tokens, cut=self._cut)
                pairs += len(buffer)
                left_out += buffer.left_out
                shortened += buffer.shortened
                if len(buffer):
                    yield buffer
            if not pairs:
                raise InputError(
                    f"`max_tokens` must let some pairs through, got {self._max_tokens} for "
                    f"{left_out} longer pairs."
                )
            if not self._told:
                self._told = True
                self.stream.say(
                    f"A first pass: {counted(pairs, 'pair')}, {left_out:,} left out and "
                    f"{shortened:,} cut for more than {self._max_tokens} tokens on a side."
                )

    def _whole_buffers(self, number: int, seed: int) -> Iterator[TokenizedPairs]:
        """The pairs of one pass; the first buffer is a smaller one, so that passes differ."""
        most = self.stream.arguments.shuffle_buffer
        room = int(np.random.default_rng([seed, number]).integers((most + 1) // 2, most + 1))
        held: tuple[list[IdLists], list[IdLists]] = ([], [])
        size = 0
        for block in encoded_blocks(self.stream.chunks(number, seed), self._tokenizer):
            for side, encoded in zip(held, block, strict=True):
                side.append(IdLists.stretch(*encoded))
            size += len(held[0][-1])
            if size >= room:
                yield TokenizedPairs(*map(IdLists.joined, held))
                held, size, room = ([], []), 0, most
        if size:
            yield TokenizedPairs(*map(IdLists.joined, held))


class FirstPairs(PairBlocks):
    """The first pairs of a stream, read anew each time, for a vocabulary.

    Args:
        stream: the passes.
        most: how many at most.
    """

    def __init__(self, stream: PairStream, most: int = VOCABULARY_PAIRS) -> None:
        self._stream, self._most = stream, most
        self._count = sum(len(sources) for sources, _ in self.blocks())

    def __len__(self) -> int:
        return self._count

    def blocks(self) -> Iterator[Pairs]:
        """The pairs, a chunk at a time."""
        left = self._most
        for sources, targets in self._stream.chunks(0, seed=0):
            yield sources[:left], targets[:left]
            left -= min(left, len(sources))
            if not left:
                return
