"""Filters of sentence pairs by name: each says which pairs of a block it objects to.

    FILTERS            name -> class; the docstring of each is its rule, its fields its settings
    DEFAULT_FILTERS    what `default` stands for
    parse_filters      words such as `length-ratio:most=2.5` -> filters
    PairBlock          the pairs of a block, counted once for all filters

A filter looks at a pair alone, but for those of duplicates, which let the first of its kind pass.
What is done with the objections, and the counts, is in `corpus_cleaning`.
"""

import dataclasses
import difflib
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from vaswani.corpus_duplicates import SeenHashes
from vaswani.corpus_languages import language_tag
from vaswani.corpus_messages import masked
from vaswani.corpus_readers import Pairs
from vaswani.corpus_scripts import script_letters, scripts_of
from vaswani.errors import InputError
from vaswani.text_folding import (
    TextBlock,
    fold_texts,
    hash_texts,
    space_table,
    width_table,
    word_character_table,
)

Objections = NDArray[np.bool_]

_WORD = re.compile(r"[^\W\d_]+")

logger = logging.getLogger(__name__)


class PairBlock:
    """The pairs of a block, with what several filters count."""

    def __init__(self, pairs: Pairs) -> None:
        self.sources, self.targets = TextBlock(pairs[0]), TextBlock(pairs[1])

    @property
    def sides(self) -> tuple[TextBlock, TextBlock]:
        return self.sources, self.targets

    @cached_property
    def pair_hashes(self) -> NDArray[np.uint64]:
        return _hashes_of(self.sources.texts, self.targets.texts)

    @cached_property
    def folded_hashes(self) -> NDArray[np.uint64]:
        return _hashes_of(fold_texts(self.sources.texts), fold_texts(self.targets.texts))


def _hashes_of(sources: Sequence[str], targets: Sequence[str]) -> NDArray[np.uint64]:
    """Hashes of pairs; the length keeps one pair from being spelled as another."""
    return hash_texts(
        f"{len(source)}\t{source}\t{target}"
        for source, target in zip(sources, targets, strict=True)
    )


@dataclass
class Filter:
    """What every filter has: a name, settings, and objections."""

    name: ClassVar[str]

    def prepare(self, source: str, target: str) -> None:
        """Told the languages before the first block; filters that know languages want them."""

    def objects(self, block: PairBlock, left: Objections) -> Objections:
        """Which pairs of the block it would drop.

        Args:
            block: the pairs.
            left: `True` for pairs that no filter before has dropped.
        """
        raise NotImplementedError

    def __str__(self) -> str:
        """The name and the settings that are not the defaults, as one would type them."""
        changed = [
            f"{item.name}={getattr(self, item.name):{'g' if item.type is float else ''}}"
            for item in dataclasses.fields(self)
            if item.init and getattr(self, item.name) != item.default
        ]
        return ":".join([self.name, *changed])


def _number(default: float, least: float, most: float = float("inf")) -> Any:
    return field(default=default, metadata={"least": least, "most": most})


@dataclass
class Length(Filter):
    """Drops pairs with a side of fewer than `least` or more than `most` words or characters.

    Words are what white space parts, so for languages without spaces count characters.
    """

    name = "length"
    least: int = _number(1, 0)
    most: int = _number(200, 1)
    unit: Literal["words", "characters"] = "words"

    def objects(self, block: PairBlock, left: Objections) -> Objections:
        lengths = [
            side.count_words() if self.unit == "words" else side.lengths for side in block.sides
        ]
        return (np.minimum(*lengths) < self.least) | (np.maximum(*lengths) > self.most)


@dataclass
class LengthRatio(Filter):
    """Drops pairs with a side wider than `most` times the other and `slack` columns.

    A column is a character; Chinese, Japanese and Korean ones take two, as on a terminal.
    """

    name = "length-ratio"
    most: float = _number(3.0, 1)
    slack: int = _number(15, 0)

    def objects(self, block: PairBlock, left: Objections) -> Objections:
        widths = [side.count(width_table()) for side in block.sides]
        return np.maximum(*widths) > self.most * np.minimum(*widths) + self.slack


@dataclass
class Identical(Filter):
    """Drops pairs whose sides are the same text."""

    name = "identical"

    def objects(self, block: PairBlock, left: Objections) -> Objections:
        both = zip(block.sources.texts, block.targets.texts, strict=True)
        return np.fromiter((source == target for source, target in both), dtype=np.bool_)


@dataclass
class Symbols(Filter):
    """Drops pairs with a side in which letters are less than `least` of what is not white space.

    Combining marks count as letters; digits, punctuation and symbols are the rest.
    """

    name = "symbols"
    least: float = _number(0.5, 0, 1)

    def objects(self, block: PairBlock, left: Objections) -> Objections:
        result = ~left
        for side in block.sides:
            characters = side.lengths - side.count(space_table())
            result |= side.count(word_character_table()) < self.least * characters
        return result


@dataclass
class Script(Filter):
    """Drops pairs with a side of which less than `least` of the letters are in its script.

    The scripts of a language are those that Unicode's CLDR finds likely; a code such as `sr-Latn`
    names another. Letters that several scripts share do not count, and a side without letters
    passes, as does one whose language is unknown.
    """

    name = "script"
    least: float = _number(0.5, 0, 1)
    scripts: tuple[frozenset[str], ...] = field(default=(), init=False)

    def prepare(self, source: str, target: str) -> None:
        self.scripts = scripts_of(source), scripts_of(target)
        for code, scripts in zip((source, target), self.scripts, strict=True):
            if not scripts:
                logger.warning("The filter `script` knows no script of %r: all pass.", code)

    def objects(self, block: PairBlock, left: Objections) -> Objections:
        result = ~left
        for side, scripts in zip(block.sides, self.scripts, strict=True):
            if scripts:
                own, other = map(side.count, script_letters(scripts))
                result |= own < self.least * (own + other)
        return result


@dataclass
class CopiedSource(Filter):
    """Drops pairs whose target has `least_words` words or more, and too many from the source.

    Too many is more than `most` of them. A word is a run of letters, capital or small, outside
    placeholders, tags and entities, which a translation has to keep.
    """

    name = "copied-source"
    most: float = _number(0.6, 0, 1)
    least_words: int = _number(4, 1)

    def objects(self, block: PairBlock, left: Objections) -> Objections:
        both = zip(block.sources.texts, block.targets.texts, strict=True)
        return np.fromiter((self._copied(*pair) for pair in both), dtype=np.bool_)

    def _copied(self, source: str, target: str) -> bool:
        words = _words(target)
        if len(words) < self.least_words:
            return False
        known = set(_words(source))
        return sum(word in known for word in words) > self.most * len(words)


def _words(text: str) -> list[str]:
    return _WORD.findall(masked(text, " ").casefold())


class _Repeats(Filter):
    """What the filters of duplicates have in common: the hashes of the pairs that passed."""

    def __post_init__(self) -> None:
        self._seen = SeenHashes()

    def _objects(self, hashes: NDArray[np.uint64], left: Objections) -> Objections:
        # A pair that another filter has dropped must not stand for its copies.
        result = ~left
        result[left] = self._seen.add(hashes[left])
        return result


@dataclass
class Duplicates(_Repeats):
    """Drops pairs that came before, both sides the same."""

    name = "duplicates"

    def objects(self, block: PairBlock, left: Objections) -> Objections:
        return self._objects(block.pair_hashes, left)


@dataclass
class NearDuplicates(_Repeats):
    """Drops pairs that came before but for case, punctuation, white space and numbers."""

    name = "near-duplicates"

    def objects(self, block: PairBlock, left: Objections) -> Objections:
        return self._objects(block.folded_hashes, left)


@dataclass
class Language(Filter):
    """Drops pairs with a side that is probably in another language.

    That is, one of `least_characters` or more whose own language gets a probability below `least`
    from py3langid. It is no part of the default: it is slow, and unsure of short texts.
    """

    name = "language"
    least: float = _number(0.1, 0, 1)
    least_characters: int = _number(40, 0)
    codes: tuple[str, ...] = field(default=(), init=False)

    def prepare(self, source: str, target: str) -> None:
        known = _identifier().labels
        self.codes = tuple(language_tag(code).split("-")[0] for code in (source, target))
        for given, code in zip((source, target), self.codes, strict=True):
            if code not in known:
                raise InputError(
                    "`language` must be left out of `filters` for a language that py3langid does "
                    f"not know, got {given!r}."
                )

    def objects(self, block: PairBlock, left: Objections) -> Objections:
        rank = _identifier().rank
        result = ~left
        for side, code in zip(block.sides, self.codes, strict=True):
            for place in np.flatnonzero(~result & (side.lengths >= self.least_characters)).tolist():
                result[place] = dict(rank(side.texts[place]))[code] < self.least
        return result


@lru_cache(maxsize=1)
def _identifier() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ModuleNotFoundError as error:
        raise InputError(
            "`language` must be left out of `filters` without py3langid, got it and no such "
            "package. Install it with `pip install 'vaswani[language]'`."
        ) from error
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


FILTERS: dict[str, type[Filter]] = {
    kind.name: kind
    for kind in (
        Length,
        LengthRatio,
        Identical,
        Symbols,
        Script,
        CopiedSource,
        Duplicates,
        NearDuplicates,
        Language,
    )
}
DEFAULT_FILTERS = tuple(name for name in FILTERS if name != "language")


def parse_filters(words: Sequence[str]) -> list[Filter]:
    """Filters, in the order of their words, each with nothing seen yet.

    Args:
        words: names, with settings after colons as in `length:least=2:most=80`; `default` stands
            for all of `DEFAULT_FILTERS`.

    Raises:
        InputError: for an unknown name or setting, or a value out of range.
    """
    filters = []
    for word in words:
        for each in DEFAULT_FILTERS if word == "default" else (word,):
            filters.append(_parsed(each))
    spelled = list(map(str, filters))
    for name in spelled:
        if spelled.count(name) > 1:
            raise InputError(f"`filters` must name each filter once, got {name!r} again.")
    return filters


def _parsed(word: str) -> Filter:
    name, *settings = word.split(":")
    if name not in FILTERS:
        raise InputError(
            f"`filters` must be of {', '.join(['default', *FILTERS])}, "
            f"got {name!r}.{_nearest(name, ['default', *FILTERS])}"
        )
    kind = FILTERS[name]
    known = {item.name.replace("_", "-"): item for item in dataclasses.fields(kind) if item.init}
    values = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        item = known.get(key.replace("_", "-"))
        if item is None:
            raise InputError(
                f"`{name}` of `filters` must have settings of {', '.join(known) or 'no name'}, "
                f"got {key!r}.{_nearest(key, list(known))}"
            )
        if not equals:
            raise InputError(f"`{name}` of `filters` must have key=value, got {setting!r}.")
        values[item.name] = _value(name, item, text)
    made = kind(**values)
    if isinstance(made, Length) and made.least > made.most:
        raise InputError(
            f"`least` of `length` must be at most `most` = {made.most}, got {made.least}."
        )
    return made


def _value(name: str, item: dataclasses.Field, text: str) -> Any:
    choices = get_args(item.type)
    if choices:
        wanted = " or ".join(choices)
        value: Any = text if text in choices else None
    else:
        least, most = item.metadata["least"], item.metadata["most"]
        kind = "a whole number" if item.type is int else "a number"
        wanted = f"{kind} from {least:g} " + (f"to {most:g}" if most < float("inf") else "up")
        try:
            value = item.type(text)  # type: ignore[operator]
        except ValueError:
            value = None
        if value is not None and not (least <= value <= most and value < float("inf")):
            value = None
    if value is None:
        raise InputError(f"`{item.name}` of `{name}` must be {wanted}, got {text!r}.")
    return value


def _nearest(name: str, known: list[str]) -> str:
    nearest = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {nearest[0]}?" if nearest else ""
