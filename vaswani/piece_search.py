"""Pieces in, translations out: batches, n-best lists and the keeping of placeholders.

    PieceSearch           searches with one model and one set of settings
    Progress              tells how many texts are finished

With `protect`, a piece with placeholders is first translated as it is, with as many hypotheses as
there are beams, and the best one that has the same placeholders is taken. Where there is none, the
words between the placeholders are translated by themselves and the placeholders stay between them:
no model can lose one that it never sees. So it works with a model that was trained without any.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedTokenizerBase

from vaswani.decoding import Hypothesis, batches_by_length, search_batch
from vaswani.placeholders import find_placeholders, split_at_placeholders
from vaswani.source_pieces import Piece, SourceReader
from vaswani.translated_pieces import (
    EMPTY,
    WORDS,
    Translation,
    invented_taken_out,
    joined_translation,
    with_placeholders,
)

_CPU_TOKENS = 1024


class Progress:
    """Counts the pieces of each text and reports a text with its last one.

    Args:
        owners: number of the text that each piece is of.
        report: is told how many more texts are finished.
    """

    def __init__(self, owners: Sequence[int], report: Callable[[int], object]) -> None:
        self.owners = owners
        self.open_pieces = Counter(owners)
        self.report = report

    def finished(self, pieces: Sequence[int]) -> None:
        """Takes the pieces of these numbers as done."""
        for k in pieces:
            self.open_pieces[self.owners[k]] -= 1
        texts = {self.owners[k] for k in pieces}
        self.report(sum(not self.open_pieces[owner] for owner in texts))


@dataclass(frozen=True)
class PieceSearch:
    """Translates pieces.

    Args:
        model: the model or ensemble, in evaluation mode.
        tokenizer: its tokenizer.
        config: settings of the search.
        batch_tokens: source tokens of a batch, padding included.
    """

    model: Any
    tokenizer: PreTrainedTokenizerBase
    config: GenerationConfig
    batch_tokens: int

    def translate(
        self,
        pieces: Sequence[Piece],
        prefixes: Sequence[list[int]] | None = None,
        finished: Callable[[Sequence[int]], object] = len,
    ) -> list[list[Translation]]:
        """The n best translations of each piece.

        Args:
            pieces: the pieces; one without text has the empty translation.
            prefixes: ids that the outputs begin with.
            finished: is told the numbers of pieces that are done.
        """
        results: list[list[Translation]] = [[EMPTY] for _ in pieces]
        numbers = [k for k, piece in enumerate(pieces) if piece.ids]
        finished([k for k, piece in enumerate(pieces) if not piece.ids])
        batches = [
            [numbers[k] for k in batch]
            for batch in batches_by_length(
                [len(pieces[k].ids) for k in numbers],
                batch_tokens=self._most_tokens(),
                vocab_size=self.model.config.vocab_size,
                num_beams=self.config.num_beams,
            )
        ]

        def search(rows: list[int]) -> list[list[Hypothesis]]:
            begun = None if prefixes is None else [prefixes[k] for k in rows]
            sources = [pieces[k].ids for k in rows]
            with torch.inference_mode():
                return search_batch(self.model, sources, self.config, begun)

        # Texts are made here alone, since a tokenizer serves one thread at a time.
        for rows, found in zip(batches, self._searched(search, batches), strict=True):
            for k, best in zip(rows, found, strict=True):
                results[k] = self._texts(best)
            finished(rows)
        return results

    def _most_tokens(self) -> int:
        """Source tokens of a batch, few on a CPU: several batches keep several threads busy."""
        is_cpu = self.model.device.type == "cpu"
        return min(self.batch_tokens, _CPU_TOKENS) if is_cpu else self.batch_tokens

    def _searched(
        self, search: Callable[[list[int]], Any], batches: Sequence[list[int]]
    ) -> Iterator[Any]:
        """What `search` gives for each batch, in order; a CPU thread has batches of its own.

        The threads of one operator wait for one another at its end, those of different batches
        never do. Every batch is computed by one thread then, however many there are.
        """
        threads = torch.get_num_threads()
        if self.model.device.type != "cpu" or threads == 1 or len(batches) < 2 * threads:
            yield from map(search, batches)
            return
        pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
        try:
            yield from pool.map(search, batches)
        finally:
            # After an error or Ctrl-C no batch is begun any more.
            pool.shutdown(cancel_futures=True)
            # A thread sets the number for itself and for threads to come.
            torch.set_num_threads(threads)

    def translate_protected(
        self,
        pieces: Sequence[Piece],
        reader: SourceReader,
        finished: Callable[[Sequence[int]], object] = len,
    ) -> list[Translation]:
        """The translation of each piece, with its placeholders and no others.

        Args:
            pieces: the pieces.
            reader: makes pieces of the words between placeholders.
            finished: is told the numbers of pieces that are done.
        """
        has = [bool(find_placeholders(piece.text)) for piece in pieces]
        plain = [k for k, marked in enumerate(has) if not marked]
        marked = [k for k, marked in enumerate(has) if marked]
        results: list[Translation] = [EMPTY for _ in pieces]
        found = self.translate(
            [pieces[k] for k in plain], finished=lambda rows: finished([plain[k] for k in rows])
        )
        for k, (best, *_) in zip(plain, found, strict=True):
            results[k] = invented_taken_out(best)
        lost = []
        several = self._with_all_beams().translate([pieces[k] for k in marked])
        for k, entries in zip(marked, several, strict=True):
            kept = with_placeholders(pieces[k].text, entries)
            if kept is None:
                lost.append(k)
            else:
                results[k] = kept
        sources = reader.read_parts([split_at_placeholders(pieces[k].text) for k in lost])
        words = [piece for source in sources for piece in source.pieces]
        in_order = iter([invented_taken_out(best) for best, *_ in self.translate(words)])
        for k, source in zip(lost, sources, strict=True):
            joined = joined_translation(source, [[next(in_order)] for _ in source.pieces])
            results[k] = replace(joined, placeholders=WORDS)
        finished(marked)
        return results

    def _with_all_beams(self) -> "PieceSearch":
        """The same search that gives all hypotheses of its beams."""
        config = copy.deepcopy(self.config)
        config.num_return_sequences = config.num_beams
        return PieceSearch(self.model, self.tokenizer, config, self.batch_tokens)

    def _texts(self, best: list[Hypothesis]) -> list[Translation]:
        """Hypotheses as texts, the best one of each text."""
        texts = self.tokenizer.batch_decode([h.ids for h in best], skip_special_tokens=True)
        found: dict[str, Translation] = {}
        for text, h in zip(texts, best, strict=True):
            found.setdefault(text, Translation(text, h.score, h.truncated, len(h.ids)))
        return list(found.values())
