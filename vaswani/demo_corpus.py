"""English-German sentence pairs from a grammar written for this project.

They are the corpus of `make demo`: unlimited, correct, and not to be translated word by word. What
is held out is not a sentence but a combination of a lemma and a construction: the training pairs
hold both, never together.

    generate                                          pairs of a split, from a seed
    constructions, grammar_size, sentence_count       what the grammar holds
    Grammar                                           the same for any part of the lexicon
    word_by_word                                      the baseline that attention must beat
"""

import random
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vaswani.demo_constructions import PRODUCTIONS
from vaswani.demo_grammar import Production
from vaswani.demo_lexicon import lexicon

SPLITS = ("train", "validation", "held_out")
# Of 100 combinations of a lemma and a construction, how many each split has to itself.
RESERVED = {"held_out": 3, "validation": 1}


@dataclass(frozen=True)
class DemoPair:
    """A sentence and its translation, with the construction and the lemmas that made it."""

    source: str
    target: str
    construction: str
    lemmas: frozenset[str]


class Grammar:
    """The synchronous grammar over a lexicon.

    Args:
        entries: words by symbol; the whole lexicon by default. A smaller one makes a smaller
            language, down to one that can be enumerated.
    """

    def __init__(self, entries: Mapping[str, Sequence[Any]] | None = None) -> None:
        self.entries = dict(lexicon() if entries is None else entries)
        self.productions: dict[str, list[Production]] = defaultdict(list)
        for production in PRODUCTIONS:
            self.productions[production.symbol].append(production)

    def constructions(self) -> list[str]:
        """Names of the constructions, in the order of the grammar."""
        return list(dict.fromkeys(rule.name for rule in self.productions["Sentence"]))

    def count(self, symbol: str = "Sentence") -> int:
        """How many derivations `symbol` has."""
        if symbol in self.entries:
            return len(self.entries[symbol])
        total = 0
        for production in self.productions[symbol]:
            ways = 1
            for child in production.children:
                ways *= self.count(child)
            total += ways
        return total

    def enumerate(self, symbol: str = "Sentence") -> Iterator[Any]:
        """Every meaning of `symbol`, one for each derivation; of `Sentence` as a `DemoPair`."""
        for production in self.productions[symbol]:
            for children, lemmas in self._tuples(production.children):
                meaning = production.build(*children)
                if symbol == "Sentence":
                    meaning = _finished(meaning, production.name, lemmas)
                yield meaning

    def _tuples(self, symbols: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], frozenset[str]]]:
        if not symbols:
            yield (), frozenset()
            return
        for meaning, own in self._meanings(symbols[0]):
            for others, lemmas in self._tuples(symbols[1:]):
                yield (meaning, *others), own | lemmas

    def _meanings(self, symbol: str) -> Iterator[tuple[Any, frozenset[str]]]:
        if symbol in self.entries:
            for entry in self.entries[symbol]:
                yield entry, frozenset(entry.lemmas)
            return
        for production in self.productions[symbol]:
            for children, lemmas in self._tuples(production.children):
                yield production.build(*children), lemmas

    def derive(self, symbol: str, chooser: random.Random, lemmas: set[str]) -> Any:
        """A random meaning of `symbol`; its lemmas are added to `lemmas`."""
        if symbol in self.entries:
            entry = chooser.choice(self.entries[symbol])
            lemmas.update(entry.lemmas)
            return entry
        rules = self.productions[symbol]
        production = _weighted(rules, chooser)
        return production.build(*(self.derive(c, chooser, lemmas) for c in production.children))

    def sentence(self, construction: str, chooser: random.Random) -> DemoPair:
        """A random pair of one construction."""
        rules = [rule for rule in self.productions["Sentence"] if rule.name == construction]
        production = _weighted(rules, chooser)
        lemmas: set[str] = set()
        meaning = production.build(*(self.derive(c, chooser, lemmas) for c in production.children))
        return _finished(meaning, construction, lemmas)


def _weighted(rules: Sequence[Production], chooser: random.Random) -> Production:
    if len(rules) == 1:
        return rules[0]
    point = chooser.random() * sum(rule.weight for rule in rules)
    for production in rules:
        point -= production.weight
        if point < 0:
            return production
    return rules[-1]


def _finished(meaning: tuple[str, str], construction: str, lemmas: Iterable[str]) -> DemoPair:
    sides = [side[0].upper() + side[1:] for side in meaning]
    source, target = (side if side.endswith("?") else side + "." for side in sides)
    return DemoPair(source, target, construction, frozenset(lemmas))


def owner(lemma: str, construction: str) -> str:
    """The split that alone may join a lemma with a construction; `train` means all may."""
    place = zlib.crc32(f"{lemma} {construction}".encode()) % 100
    for split, share in RESERVED.items():
        if place < share:
            return split
        place -= share
    return "train"


def split_of(pair: DemoPair) -> str | None:
    """The split that a pair belongs to; None where two splits claim it."""
    owners = {owner(lemma, pair.construction) for lemma in pair.lemmas} - {"train"}
    if len(owners) > 1:
        return None
    return owners.pop() if owners else "train"


def generate(count: int, *, seed: int, split: str = "train") -> Iterator[DemoPair]:
    """Yields pairs of a split, all constructions alike often, no sentence twice.

    Args:
        count: number of pairs, at least 0.
        seed: the same seed gives the same pairs on every machine.
        split: train, validation or held_out. A pair of the last two holds at least one
            combination of lemma and construction that no other split holds.
    """
    if split not in SPLITS:
        raise ValueError(f"`split` must be one of {', '.join(SPLITS)}, got {split!r}.")
    if count < 0:
        raise ValueError(f"`count` must be 0 or more, got {count}.")
    return _generate(count, seed, split)


def _generate(count: int, seed: int, split: str) -> Iterator[DemoPair]:
    grammar = Grammar()
    chooser = random.Random(f"{split} {seed}")
    names = grammar.constructions()
    seen: set[str] = set()
    while len(seen) < count:
        construction = chooser.choice(names)
        pair = grammar.sentence(construction, chooser)
        while split_of(pair) != split or pair.source in seen:
            pair = grammar.sentence(construction, chooser)
        seen.add(pair.source)
        yield pair


def constructions() -> list[str]:
    """Names of the constructions, in the order of the grammar."""
    return Grammar().constructions()


def grammar_size() -> dict[str, int]:
    """Numbers of productions (words not counted), constructions and lemmas."""
    grammar = Grammar()
    lemmas = {
        lemma for entries in grammar.entries.values() for entry in entries for lemma in entry.lemmas
    }
    return {
        "productions": len(PRODUCTIONS),
        "constructions": len(grammar.constructions()),
        "lemmas": len(lemmas),
    }


def sentence_count() -> int:
    """How many different source sentences the grammar holds."""
    return Grammar().count()


def word_by_word(
    sources: Iterable[str], training_pairs: Iterable[DemoPair], *, rounds: int = 5
) -> list[str]:
    """Translates each word alone, in source order, by the likeliest word of the training pairs.

    Source: IBM model 1 (Brown et al., 1993), trained by `rounds` rounds of expectation
    maximization over words as blanks separate them. Unknown words are copied.
    """
    corpus = [(pair.source.split(), pair.target.split()) for pair in training_pairs]
    table: dict[str, dict[str, float]] = {}
    for source, target in corpus:
        for word in source:
            table.setdefault(word, {}).update(dict.fromkeys(target, 1.0))
    for _ in range(rounds):
        counts: dict[str, dict[str, float]] = {word: defaultdict(float) for word in table}
        for source, target in corpus:
            for translation in target:
                total = sum(table[word][translation] for word in source)
                for word in source:
                    counts[word][translation] += table[word][translation] / total
        for word, row in counts.items():
            whole = sum(row.values())
            table[word] = {translation: value / whole for translation, value in row.items()}
    best = {word: max(row, key=lambda t: (row[t], t)) for word, row in table.items()}
    return [" ".join(best.get(word, word) for word in source.split()) for source in sources]
