"""What a text became: its translation, from those of its pieces.

Translation           of one text
joined_translation    that of a text from those of its pieces
with_placeholders     the first of several with all placeholders of the source
invented_taken_out    words without placeholders that the model made up
checked_placeholders  the last resort: the source itself
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vaswani.placeholders import find_placeholders, placeholder_changes, without_placeholders
from vaswani.source_pieces import CUT, WHOLE, Source

# How placeholders were kept, from the least to the most that was done for it.
UNTOUCHED, KEPT, REMOVED, WORDS, UNTRANSLATED = PROTECTION = (
    "", "kept", "removed", "words", "untranslated",
)  # fmt: skip


@dataclass(frozen=True)
class Translation:
    """One text's translation.

    Args:
        text: the translation; "" for a blank source.
        score: score of the search, log P divided by its length penalty, in nats; the sum over
            pieces where the text was split. 0.0 for a blank source.
        truncated: whether something is missing: the output reached its limit before the end
            token, or the source was longer than `max_source_tokens` and was cut.
        tokens: generated tokens, the end token included.
        alternatives: the n best translations, this one first, with different texts; empty unless
            more than one was asked for. There may be fewer than asked for: different tokens can
            spell the same text, and then the better one stands for it; a text that was split has
            one alone.
        long_source: what became of a source above `max_source_tokens`: split at the ends of
            "sentences", also within them at those of "clauses", or "cut". "" for any other.
        placeholders: what `protect` did: "" nothing, "kept" took a translation that has them all,
            "removed" took out some that the model had made up, "words" translated the words
            between them by themselves, "untranslated" left the text as it was.
    """

    text: str
    score: float
    truncated: bool
    tokens: int
    alternatives: tuple["Translation", ...] = ()
    long_source: str = WHOLE
    placeholders: str = UNTOUCHED


EMPTY = Translation("", 0.0, False, 0)


def joined_translation(
    source: Source, found: Sequence[Sequence[Translation]], *, several: bool = False
) -> Translation:
    """One text's translation from the n best ones of its pieces.

    Args:
        source: the text in pieces.
        found: the translations of each piece, the best first.
        several: whether to fill `alternatives`.
    """
    if not source.pieces:
        return EMPTY
    if len(found) == 1 and not source.pieces[0].between:
        entries = list(found[0])
    else:
        best = [entries[0] for entries in found]
        entries = [
            Translation(
                "".join(b.text + p.between for b, p in zip(best, source.pieces, strict=True)),
                sum(b.score for b in best),
                any(b.truncated for b in best),
                sum(b.tokens for b in best),
                placeholders=max((b.placeholders for b in best), key=PROTECTION.index),
            )
        ]
    if source.long != WHOLE:
        cut = source.long == CUT
        entries = [
            replace(entry, long_source=source.long, truncated=entry.truncated or cut)
            for entry in entries
        ]
    return replace(entries[0], alternatives=tuple(entries) if several else ())


def with_placeholders(source: str, found: Iterable[Translation]) -> Translation | None:
    """The first translation that has exactly the placeholders of the source."""
    for entry in found:
        if not placeholder_changes(source, entry.text):
            return replace(entry, placeholders=KEPT)
    return None


def invented_taken_out(entry: Translation) -> Translation:
    """The translation of words without placeholders, without those that the model made up."""
    if not find_placeholders(entry.text):
        return entry
    text = " ".join(without_placeholders(entry.text).split())
    return replace(entry, text=text, placeholders=REMOVED)


def checked_placeholders(source: str, entry: Translation) -> Translation:
    """The translation, or the source itself if what was joined made or broke a placeholder."""
    if not placeholder_changes(source, entry.text):
        return entry
    return replace(entry, text=source, placeholders=UNTRANSLATED)
