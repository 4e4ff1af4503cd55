"""The productions of the demo grammar: each builds English and German side by side.

A production names the symbol that it rewrites, its children, and a function that makes the meaning
of the whole from the meanings of the children. A symbol without productions is a kind of word in
`demo_lexicon`. The functions that rewrite `Sentence` are the constructions.

    Phrase, Predicate, Clause     what the symbols mean
    PRODUCTIONS                   all productions, in the order of this file
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vaswani.demo_morphology import (
    CASES,
    Adjective,
    Determiner,
    Modal,
    Noun,
    Pronoun,
    Term,
    Verb,
    adjective_form,
    article_for,
    determiner_form,
    english_third,
)

Head = tuple[Noun, Adjective | None]
Pair = tuple[str, str]

HABEN = {"1s": "habe", "2s": "hast", "3s": "hat", "1p": "haben", "3p": "haben"}
SEIN = {"1s": "bin", "2s": "bist", "3s": "ist", "1p": "sind", "3p": "sind"}
WERDEN = {"1s": "werde", "2s": "wirst", "3s": "wird", "1p": "werden", "3p": "werden"}
KEIN = Determiner("no", "no", "kein", "ein")
ANAPHORS = {
    "m": Pronoun(("it", "it"), ("er", "ihn", "ihm"), "3s"),
    "f": Pronoun(("it", "it"), ("sie", "sie", "ihr"), "3s"),
    "n": Pronoun(("it", "it"), ("es", "es", "ihm"), "3s"),
    "p": Pronoun(("they", "them"), ("sie", "sie", "ihnen"), "3p"),
}
HUMAN_ENGLISH = {"m": ("he", "him"), "f": ("she", "her"), "n": ("it", "it"), "p": ("they", "them")}
CONTRACTIONS = {"in dem": "im", "in das": "ins", "von dem": "vom"}


@dataclass(frozen=True)
class Production:
    """One rule: `symbol` becomes `children`; `build` makes its meaning; `weight` is for sampling."""

    symbol: str
    name: str
    children: tuple[str, ...]
    build: Callable[..., Any]
    weight: float = 1.0


PRODUCTIONS: list[Production] = []


def rule(symbol: str, *children: str, weight: float = 1.0) -> Callable[[Any], Any]:
    """Adds the decorated function to the grammar as a production."""

    def register(build: Callable[..., Any]) -> Callable[..., Any]:
        PRODUCTIONS.append(Production(symbol, build.__name__, children, build, weight))
        return build

    return register


@dataclass(frozen=True)
class Phrase:
    """A noun phrase: English as subject and object, German by case, and the pronoun for it."""

    english: Pair
    german: dict[str, str]
    person: str
    anaphor: Pronoun
    gender: str
    negated: dict[str, str] | None = None
    is_pronoun: bool = False


@dataclass(frozen=True)
class Predicate:
    """A verb with its complements, German ones by place: pronoun, objects, then the tail."""

    verb: Verb
    english: str
    light: str = ""
    german: str = ""
    negated: str = ""
    tail: str = ""
    pronoun_object: bool = False


@dataclass(frozen=True)
class Clause:
    """A subject and a predicate with a tense or a modal."""

    subject: Phrase
    predicate: Predicate
    mood: str | Modal = "present"

    def english(self, adverb: str = "") -> str:
        auxiliary, verb = english_verb(self, ask=False)
        return join(self.subject.english[0], adverb, auxiliary, english_group(self.predicate, verb))

    def english_asked(self, negative: bool = False) -> str:
        """Question order, or with `negative` the negated statement."""
        auxiliary, verb = english_verb(self, ask=True)
        group = english_group(self.predicate, verb)
        if negative:
            return join(self.subject.english[0], auxiliary, "not", group)
        return join(auxiliary, self.subject.english[0], group)

    def german(self, front: str = "", adverb: str = "", negative: bool = False) -> str:
        """Verb second: after the subject, or after `front` (`?` puts the verb first)."""
        finite, rest, prefix = german_verb(self)
        middle = german_middle(self.predicate, adverb, negative)
        subject = self.subject.german["nominative"]
        if front:
            return join(front.strip("?"), finite, subject, middle, rest or prefix)
        return join(subject, finite, middle, rest or prefix)

    def german_final(self, subject: str | None = None) -> str:
        """Verb last, as in a subordinate clause."""
        finite, rest, prefix = german_verb(self)
        subject = self.subject.german["nominative"] if subject is None else subject
        return join(subject, german_middle(self.predicate), rest, prefix + finite)


def join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def english_verb(clause: Clause, ask: bool) -> Pair:
    verb, person, mood = clause.predicate.verb, clause.subject.person, clause.mood
    third = person == "3s"
    if isinstance(mood, Modal):
        if mood.english != "want to":
            return mood.english, verb.english
        if ask:
            return "does" if third else "do", f"want to {verb.english}"
        return "wants to" if third else "want to", verb.english
    if mood == "future":
        return "will", verb.english
    if ask:
        return {"past": "did"}.get(mood, "does" if third else "do"), verb.english
    if mood == "past":
        return "", verb.past
    return "", english_third(verb.english) if third else verb.english


def english_group(predicate: Predicate, verb: str) -> str:
    particle = predicate.verb.particle
    if predicate.pronoun_object and particle not in ("at", "for", "to"):
        return join(verb, predicate.english, particle)
    return join(verb, particle, predicate.english)


def german_verb(clause: Clause) -> tuple[str, str, str]:
    """The finite verb, what closes the clause with it, and the prefix if it is split."""
    verb, person, mood = clause.predicate.verb, clause.subject.person, clause.mood
    infinitive = verb.prefix + verb.infinitive
    if isinstance(mood, Modal):
        return mood.present(person), infinitive, ""
    if mood == "future":
        return WERDEN[person], infinitive, ""
    if mood == "past":
        return (SEIN if verb.auxiliary == "sein" else HABEN)[person], verb.german_participle, ""
    return verb.present(person), "", verb.prefix


def german_middle(predicate: Predicate, adverb: str = "", negative: bool = False) -> str:
    if negative and predicate.negated:
        return join(predicate.light, adverb, predicate.negated, predicate.tail)
    nicht = "nicht" if negative else ""
    return join(predicate.light, adverb, predicate.german, nicht, predicate.tail)


def make_phrase(determiner: Determiner | None, head: Head, plural: bool, number: str = "") -> Phrase:
    noun, adjective = head
    gender = "p" if plural else noun.gender
    word = noun.english_plural if plural else noun.english
    english = join(number, adjective.english if adjective else "", word)
    if determiner:
        article = determiner.english_plural if plural else determiner.english
        english = join(article_for(english) if article == "a" else article, english)

    def decline(determiner: Determiner | None, german_number: str = "") -> dict[str, str]:
        forms = {}
        for case in CASES:
            before = determiner_form(determiner, case, gender) if determiner else german_number
            kind = determiner.kind if determiner else ""
            middle = adjective_form(adjective, case, gender, kind) if adjective else ""
            forms[case] = join(before, middle, noun.form(case, plural))
        return forms

    indefinite = determiner is None or determiner.german == "ein"
    anaphor = ANAPHORS[gender]
    if noun.human:
        anaphor = Pronoun(HUMAN_ENGLISH[gender], anaphor.german, anaphor.person)
    negated = decline(KEIN) if indefinite else None
    person = "3p" if plural else "3s"
    return Phrase((english, english), decline(determiner), person, anaphor, gender, negated)


def pronoun_phrase(pronoun: Pronoun) -> Phrase:
    german = dict(zip(CASES, pronoun.german, strict=False))
    return Phrase(pronoun.english, german, pronoun.person, pronoun, "", None, True)


def with_object(verb: Verb, thing: Phrase) -> Predicate:
    german = thing.german[verb.case]
    english = thing.english[1]
    if thing.is_pronoun:
        return Predicate(verb, english, light=german, pronoun_object=True)
    negated = thing.negated[verb.case] if thing.negated else ""
    return Predicate(verb, english, german=german, negated=negated)


def preposition(word: str, phrase: Phrase, case: str) -> str:
    german = f"{word} {phrase.german[case]}"
    for full, short in CONTRACTIONS.items():
        if german.startswith(full + " "):
            return short + german[len(full) :]
    return german


# Noun phrases


@rule("AnimateHead", "Person", weight=3)
@rule("AnimateHead", "Animal", weight=1.5)
@rule("ThingHead", "Thing")
@rule("RoomHead", "Room", weight=2)
@rule("FurnitureHead", "Furniture", weight=2)
@rule("PersonHead", "Person")
def bare_head(noun: Noun) -> Head:
    return noun, None


@rule("AnimateHead", "AnimateAdjective", "Person", weight=3)
@rule("AnimateHead", "AnimateAdjective", "Animal", weight=1.5)
@rule("ThingHead", "ThingAdjective", "Thing")
@rule("RoomHead", "ThingAdjective", "Room")
@rule("FurnitureHead", "ThingAdjective", "Furniture")
def adjective_head(adjective: Adjective, noun: Noun) -> Head:
    return noun, adjective


@rule("Determiner", "The", weight=2)
@rule("Determiner", "This")
@rule("Determiner", "Owner")
def determiner(word: Determiner) -> Determiner:
    return word


@rule("AnimateDefinite", "Determiner", "AnimateHead", weight=3)
@rule("ThingDefinite", "Determiner", "ThingHead", weight=3)
@rule("RoomDefinite", "Determiner", "RoomHead", weight=4)
@rule("FurnitureDefinite", "Determiner", "FurnitureHead", weight=4)
@rule("PersonDefinite", "Determiner", "PersonHead", weight=3)
@rule("AnimateIndefinite", "Article", "AnimateHead", weight=3)
@rule("ThingIndefinite", "Article", "ThingHead", weight=3)
def singular_phrase(determiner: Determiner, head: Head) -> Phrase:
    return make_phrase(determiner, head, plural=False)


@rule("AnimateDefinite", "Determiner", "AnimateHead", weight=2)
@rule("ThingDefinite", "Determiner", "ThingHead", weight=2)
@rule("RoomDefinite", "Determiner", "RoomHead")
@rule("FurnitureDefinite", "Determiner", "FurnitureHead")
@rule("PersonDefinite", "Determiner", "PersonHead", weight=2)
def plural_phrase(determiner: Determiner, head: Head) -> Phrase:
    return make_phrase(determiner, head, plural=True)


@rule("AnimateIndefinite", "AnimateHead", weight=2)
@rule("ThingIndefinite", "ThingHead", weight=2)
def bare_plural(head: Head) -> Phrase:
    return make_phrase(None, head, plural=True)


@rule("Subject", "Pronoun", weight=1.5)
@rule("AnimateObject", "Pronoun")
def pronoun(word: Pronoun) -> Phrase:
    return pronoun_phrase(word)


@rule("Subject", "AnimateDefinite", weight=6)
@rule("AnimateObject", "AnimateDefinite", weight=2)
@rule("AnimateObject", "AnimateIndefinite")
@rule("ThingObject", "ThingDefinite", weight=2)
@rule("ThingObject", "ThingIndefinite", weight=1.5)
@rule("AnyObject", "AnimateObject")
@rule("AnyObject", "ThingObject")
def noun_phrase(phrase: Phrase) -> Phrase:
    return phrase


# Predicates


@rule("Transitive", "SeeVerb", "AnyObject", weight=2)
@rule("Transitive", "MeetVerb", "AnimateObject")
@rule("Transitive", "UseVerb", "ThingObject")
@rule("Separable", "SeparableMeetVerb", "AnimateObject", weight=0.8)
@rule("Separable", "SeparableUseVerb", "ThingObject")
@rule("Dative", "HelpVerb", "AnimateObject")
def object_predicate(verb: Verb, thing: Phrase) -> Predicate:
    return with_object(verb, thing)


@rule("Intransitive", "ActVerb", weight=2)
@rule("Intransitive", "SeparableVerb")
def bare_predicate(verb: Verb) -> Predicate:
    return Predicate(verb, "")


@rule("Ditransitive", "GiveVerb", "PersonDefinite", "ThingObject")
def giving(verb: Verb, person: Phrase, thing: Phrase) -> Predicate:
    receiver = person.german["dative"]
    german = join(receiver, thing.german["accusative"])
    negated = join(receiver, thing.negated["accusative"]) if thing.negated else ""
    english = join(person.english[1], thing.english[1])
    return Predicate(verb, english, german=german, negated=negated)


def placed(verb: Verb, pair: Pair, place: Phrase, case: str) -> Predicate:
    tail = preposition(pair[1], place, case)
    return Predicate(verb, join(pair[0], place.english[1]), tail=tail)


@rule("Place", "RoomDefinite", weight=3)
def inside(place: Phrase) -> tuple[Term, Phrase]:
    return Term("in", "in"), place


@rule("Place", "FurnitureDefinite", weight=2)
def on_top(place: Phrase) -> tuple[Term, Phrase]:
    return Term("on", "auf"), place


@rule("Place", "Preposition", "RoomDefinite")
@rule("Place", "Preposition", "FurnitureDefinite")
def beside(preposition: Term, place: Phrase) -> tuple[Term, Phrase]:
    return preposition, place


@rule("Location", "RestVerb", "Place")
@rule("Location", "ActVerb", "Place", weight=0.5)
def resting(verb: Verb, place: tuple[Term, Phrase]) -> Predicate:
    return placed(verb, (place[0].english, place[0].german), place[1], "dative")


@rule("Motion", "MoveVerb", "Place")
def moving(verb: Verb, place: tuple[Term, Phrase]) -> Predicate:
    english = {"in": "into", "on": "onto"}.get(place[0].english, place[0].english)
    return placed(verb, (english, place[0].german), place[1], "accusative")


@rule("Predicate", "Transitive", weight=4)
@rule("Predicate", "Separable", weight=2)
@rule("Predicate", "Dative")
@rule("Predicate", "Intransitive", weight=2)
@rule("Predicate", "Location")
@rule("Predicate", "Motion")
@rule("ObjectPredicate", "Transitive", weight=2)
@rule("ObjectPredicate", "Separable")
@rule("ObjectPredicate", "Dative", weight=0.5)
def predicate(predicate: Predicate) -> Predicate:
    return predicate


@rule("Clause", "Subject", "Predicate", "Tense", weight=3)
def clause(subject: Phrase, predicate: Predicate, tense: Term) -> Clause:
    return Clause(subject, predicate, tense.english)


@rule("Clause", "Subject", "Modal", "Predicate")
def modal_clause(subject: Phrase, modal: Modal, predicate: Predicate) -> Clause:
    return Clause(subject, predicate, modal)
