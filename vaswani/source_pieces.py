"""Texts to the pieces that a model reads: whole, sentence by sentence, or smaller where too long.

    SourceReader          texts to sources
    Source, Piece         a text in pieces, with what stands between them

A text beyond the limit is translated sentence by sentence. A sentence beyond it is halved, and
halved again, at the end of a clause (a comma, semicolon, colon, dash or closing bracket), else at
white space, else between two characters; the boundary nearest to the middle is taken, where there
is one in the middle half of the text.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

from vaswani.errors import InputError
from vaswani.placeholders import find_placeholders, placeholder_spans, split_at_placeholders
from vaswani.sentences import split_sentences

LongLines = Literal["split", "truncate", "error"]
LONG_LINES: tuple[str, ...] = get_args(LongLines)

# What became of a text beyond the limit, from the least to the most.
WHOLE, SENTENCES, CLAUSES, CUT = LONG_SOURCES = ("", "sentences", "clauses", "cut")

_CLAUSE_END = re.compile(r"""[,;:)\]–—]["'”’»]*\s+|[，、；：）」』]\s*""")  # noqa: RUF001
_JOINERS = frozenset("\u200d\ufe0e\ufe0f")


@dataclass(frozen=True)
class Piece:
    """What the model reads at once.

    Args:
        text: the text; "" where `between` begins the source.
        between: what follows it in the source and is put behind its translation as it is.
        ids: its token ids with the end token; none for "".
    """

    text: str
    between: str
    ids: list[int]


@dataclass(frozen=True)
class Source:
    """A text in pieces; none of them for a blank one.

    Args:
        pieces: its pieces, in order.
        long: one of `LONG_SOURCES`: "" within the limit, "sentences" or "clauses" for what it was
            split at, "cut" where the rest was left out.
    """

    pieces: list[Piece] = field(default_factory=list)
    long: str = WHOLE


@dataclass(frozen=True)
class SourceReader:
    """Cuts texts into pieces of at most so many tokens.

    Args:
        encode: token ids of texts, end tokens included.
        limit: most tokens of a piece, the end token included.
        most_characters: a longer text is beyond the limit without being counted, so that no line
            can take all memory.
        long_lines: whether a text beyond the limit is split, truncated or refused.
        sentences: whether every text is split into its sentences.
        protect: whether no boundary may lie within a placeholder.
    """

    encode: Callable[[list[str]], list[list[int]]]
    limit: int
    most_characters: int
    long_lines: LongLines = "split"
    sentences: bool = False
    protect: bool = False

    def read(self, texts: list[str], *, first_line: int = 1) -> list[Source]:
        """The sources of clean texts, in order.

        Raises:
            InputError: if a text is too long and `long_lines` is "error"; it names the line.
        """
        parts = [
            self._sentences(text) if self.sentences else [(text, "")][: bool(text)]
            for text in texts
        ]
        return self.read_parts(parts, first_line=first_line)

    def read_parts(
        self, texts: list[list[tuple[str, str]]], *, first_line: int = 1
    ) -> list[Source]:
        """The sources of texts in parts, each with what follows it; see `read`."""
        encoded = iter(self._encode_fitting([part for parts in texts for part, _ in parts]))
        found = []
        for line, parts in enumerate(texts, first_line):
            pieces, long = [], WHOLE
            for part, between in parts:
                ids = next(encoded)
                if ids is not None:
                    pieces.append(Piece(part, between, ids))
                    continue
                smaller, kind = self._beyond(part, between, line)
                pieces += smaller
                long = max(long, kind, key=LONG_SOURCES.index)
            found.append(Source(pieces, long))
        return found

    def _encode_fitting(self, texts: list[str]) -> list[list[int] | None]:
        """The ids of each text, none for "", and `None` for one beyond the limit."""
        countable = [text for text in texts if text and len(text) <= self.most_characters]
        ids = iter(self.encode(countable))
        found: list[list[int] | None] = []
        for text in texts:
            own = next(ids) if text and len(text) <= self.most_characters else None
            fits = own is not None and len(own) <= self.limit
            found.append(own if fits else None if text else [])
        return found

    def _beyond(self, text: str, between: str, line: int) -> tuple[list[Piece], str]:
        """The pieces of a text beyond the limit, and what became of it."""
        if self.long_lines == "error":
            (known,) = self.encode([text[: self.most_characters]])
            least = "" if len(text) <= self.most_characters else "more than "
            raise InputError(
                f"line {line} must have at most {self.limit} tokens, got {least}{len(known)}. "
                "Shorten it, or set `long_lines` to split or truncate."
            )
        if self.long_lines == "truncate":
            return [self._cut(text, between)], CUT
        pieces, long = [], SENTENCES
        parts = [(text, between)] if self.sentences else self._sentences(text, between)
        encoded = self._encode_fitting([part for part, _ in parts])
        for (part, after), ids in zip(parts, encoded, strict=True):
            if ids is not None:
                pieces.append(Piece(part, after, ids))
                continue
            smaller, kind = self._clauses(part, after)
            pieces += smaller
            long = max(long, kind, key=LONG_SOURCES.index)
        return pieces, long

    def _cut(self, text: str, between: str) -> Piece:
        (known,) = self.encode([text[: self.most_characters]])
        return Piece(text, between, [*known[:-1][: self.limit - 1], *known[-1:]])

    def _sentences(self, text: str, between: str = "") -> list[tuple[str, str]]:
        """Sentences and what follows each; with `protect` none ends within a placeholder."""
        parts = split_sentences(text)
        if self.protect and len(parts) > 1:
            parts = _joined_within(parts, placeholder_spans(text))
        return [*parts[:-1], (parts[-1][0], parts[-1][1] + between)] if parts else []

    def _clauses(self, sentence: str, between: str) -> tuple[list[Piece], str]:
        """The pieces of a sentence beyond the limit."""
        if self.protect and find_placeholders(sentence):
            open_parts = split_at_placeholders(sentence)
            open_parts[-1] = (open_parts[-1][0], open_parts[-1][1] + between)
        else:
            open_parts = [(sentence, between)]
        pieces: list[Piece] = []
        long = CLAUSES
        open_parts.reverse()
        while open_parts:
            text, after = open_parts.pop()
            (ids,) = self._encode_fitting([text])
            if ids is not None:
                pieces.append(Piece(text, after, ids))
            elif len(text) == 1:
                # A character of more tokens than the model may read.
                pieces.append(self._cut(text, after))
                long = CUT
            else:
                first, white_space, second = halves(text)
                open_parts += [(second, after), (first, white_space)]
        return pieces, long


def halves(text: str) -> tuple[str, str, str]:
    """Two parts of a text without outer white space, and the white space between them.

    Args:
        text: at least two characters.
    """
    middle = len(text) // 2
    window = range(max(len(text) // 4, 1), len(text) - len(text) // 4)
    ends = [m.end() for m in _CLAUSE_END.finditer(text, window.start, window.stop)]
    ends = [end for end in ends if end < len(text)]
    if ends:
        cut = min(ends, key=lambda end: abs(end - middle))
    else:
        cut = _white_space_near(text, middle) or _between_characters(text, middle)
    first = text[:cut].rstrip()
    second = text[len(first) :].lstrip()
    return first, text[len(first) : len(text) - len(second)], second


def _white_space_near(text: str, middle: int) -> int | None:
    """Where white space nearest to the middle begins, if there is any."""
    after = next((k for k in range(middle, len(text)) if text[k].isspace()), None)
    before = next((k for k in range(middle - 1, 0, -1) if text[k].isspace()), None)
    if before is None or after is None:
        return before if after is None else after
    return before if middle - before <= after - middle else after


def _between_characters(text: str, middle: int) -> int:
    """A place near the middle that does not part a letter from its marks, if there is one."""
    for cut in range(middle, 0, -1):
        joined = text[cut] in _JOINERS or text[cut - 1] == "\u200d"
        if not joined and not unicodedata.combining(text[cut]):
            return cut
    return middle


def _joined_within(
    parts: list[tuple[str, str]], spans: list[tuple[int, int]]
) -> list[tuple[str, str]]:
    """The parts of a text, joined again where a boundary lies within one of the spans."""
    starts = [start for start, _ in spans]
    found: list[tuple[str, str]] = []
    place, inside = 0, False
    for text, after in parts:
        place += len(text) + len(after)
        if inside:
            text = "".join(found.pop()) + text
        found.append((text, after))
        k = bisect_right(starts, place - 1) - 1  # the last span that begins before `place`
        inside = k >= 0 and spans[k][1] > place - len(after)
    return found
