"""The sentences of the demo grammar: one function for each construction, English beside German.

Each takes the meanings of its children and gives both sentences without capital and full stop.
Importing this module completes `demo_grammar.PRODUCTIONS`.
"""

from vaswani.demo_grammar import (
    PRODUCTIONS,
    SEIN,
    Clause,
    Head,
    Pair,
    Phrase,
    Predicate,
    english_group,
    german_middle,
    join,
    make_phrase,
    placed,
    preposition,
    pronoun_phrase,
    rule,
    with_object,
)
from vaswani.demo_morphology import (
    CASES,
    DEFINITE,
    Adjective,
    Determiner,
    Modal,
    Term,
    Verb,
)

__all__ = ["PRODUCTIONS"]

TO_BE = {"1s": "am", "2s": "are", "3s": "is", "1p": "are", "3p": "are"}
THE = Determiner("the", "the", "d", "der")
PUT = Verb("put", "", "put", "put", "", "legen", "legt", "gelegt")


def is_adjective(subject: Phrase, adjective: Adjective) -> Pair:
    """A copula clause: English, and German with the verb last."""
    english = join(subject.english[0], TO_BE[subject.person], adjective.english)
    return english, join(subject.german["nominative"], adjective.german, SEIN[subject.person])


# Main clauses


@rule("Sentence", "Subject", "Transitive")
def statement(subject: Phrase, predicate: Predicate) -> Pair:
    clause = Clause(subject, predicate)
    return clause.english(), clause.german()


@rule("Sentence", "Subject", "Separable")
def separable_verb(subject: Phrase, predicate: Predicate) -> Pair:
    return statement(subject, predicate)


@rule("Sentence", "Subject", "Dative")
def dative_verb(subject: Phrase, predicate: Predicate) -> Pair:
    return statement(subject, predicate)


@rule("Sentence", "Subject", "Ditransitive")
def two_objects(subject: Phrase, predicate: Predicate) -> Pair:
    return statement(subject, predicate)


@rule("Sentence", "Subject", "Location")
def location(subject: Phrase, predicate: Predicate) -> Pair:
    return statement(subject, predicate)


@rule("Sentence", "Subject", "Motion")
def direction(subject: Phrase, predicate: Predicate) -> Pair:
    return statement(subject, predicate)


@rule("Sentence", "Subject", "ThingDefinite", "Place")
def putting(subject: Phrase, thing: Phrase, place: tuple[Term, Phrase]) -> Pair:
    down = placed(PUT, (place[0].english, place[0].german), place[1], "accusative")
    english = join(thing.english[1], down.english)
    german = thing.german["accusative"]
    return statement(subject, Predicate(PUT, english, german=german, tail=down.tail))


@rule("Sentence", "Subject", "Predicate")
def past(subject: Phrase, predicate: Predicate) -> Pair:
    clause = Clause(subject, predicate, "past")
    return clause.english(), clause.german()


@rule("Sentence", "FutureAdverb", "Subject", "Predicate")
def future(adverb: Term, subject: Phrase, predicate: Predicate) -> Pair:
    clause = Clause(subject, predicate, "future")
    return join(adverb.english, clause.english()), clause.german(adverb.german)


@rule("Sentence", "Subject", "Modal", "Predicate")
def modal(subject: Phrase, modal: Modal, predicate: Predicate) -> Pair:
    clause = Clause(subject, predicate, modal)
    return clause.english(), clause.german()


@rule("Sentence", "PresentAdverb", "Subject", "Predicate")
def fronted_adverb(adverb: Term, subject: Phrase, predicate: Predicate) -> Pair:
    clause = Clause(subject, predicate)
    return join(adverb.english, clause.english()), clause.german(adverb.german)


@rule("Sentence", "PastAdverb", "Subject", "Predicate")
def fronted_past(adverb: Term, subject: Phrase, predicate: Predicate) -> Pair:
    clause = Clause(subject, predicate, "past")
    return join(adverb.english, clause.english()), clause.german(adverb.german)


@rule("Sentence", "Subject", "HabitAdverb", "ObjectPredicate")
def inner_adverb(subject: Phrase, adverb: Term, predicate: Predicate) -> Pair:
    clause = Clause(subject, predicate)
    return clause.english(adverb.english), clause.german(adverb=adverb.german)


@rule("Sentence", "Subject", "Predicate", "Tense")
def negation(subject: Phrase, predicate: Predicate, tense: Term) -> Pair:
    clause = Clause(subject, predicate, tense.english)
    return clause.english_asked(negative=True), clause.german(negative=True)


@rule("Sentence", "Subject", "Ditransitive")
def negated_giving(subject: Phrase, predicate: Predicate) -> Pair:
    return negation(subject, predicate, Term("present", ""))


@rule("Sentence", "Subject", "Predicate", "Tense")
def question(subject: Phrase, predicate: Predicate, tense: Term) -> Pair:
    clause = Clause(subject, predicate, tense.english)
    return clause.english_asked() + "?", clause.german("?") + "?"


@rule("Sentence", "Subject", "Modal", "Predicate")
def modal_question(subject: Phrase, modal: Modal, predicate: Predicate) -> Pair:
    clause = Clause(subject, predicate, modal)
    return clause.english_asked() + "?", clause.german("?") + "?"


@rule("Sentence", "ThingDefinite", "SeeVerb", "AnimateDefinite")
@rule("Sentence", "ThingDefinite", "UseVerb", "AnimateDefinite")
@rule("Sentence", "AnimateDefinite", "MeetVerb", "AnimateDefinite")
def passive(patient: Phrase, verb: Verb, agent: Phrase) -> Pair:
    many = patient.person == "3p"
    done = join(verb.participle, verb.particle, "by", agent.english[1])
    english = join(patient.english[0], "were" if many else "was", done)
    by = preposition("von", agent, "dative")
    finite = "wurden" if many else "wurde"
    return english, join(patient.german["nominative"], finite, by, verb.german_participle)


# Possession, numbers, comparison


@rule("Owned", "PersonDefinite", "AnimateHead")
@rule("Owned", "PersonDefinite", "ThingHead", weight=1.5)
def owned(owner: Phrase, head: Head, plural: bool = False) -> Phrase:
    """`the teacher's dog`, `der Hund des Lehrers`."""
    name = owner.english[0]
    mark = "'" if owner.person == "3p" and name.endswith("s") else "'s"
    whole = make_phrase(THE, head, plural)
    english = name + mark + whole.english[0].removeprefix("the")
    german = {case: join(whole.german[case], owner.german["genitive"]) for case in CASES}
    return Phrase((english, english), german, whole.person, whole.anaphor, whole.gender)


@rule("Owned", "PersonDefinite", "AnimateHead")
@rule("Owned", "PersonDefinite", "ThingHead", weight=1.5)
def owned_plural(owner: Phrase, head: Head) -> Phrase:
    return owned(owner, head, plural=True)


@rule("Sentence", "Subject", "SeeVerb", "Owned")
def possession(subject: Phrase, verb: Verb, thing: Phrase) -> Pair:
    return statement(subject, with_object(verb, thing))


@rule("Sentence", "Subject", "SeeVerb", "Number", "ThingHead")
@rule("Sentence", "Subject", "UseVerb", "Number", "ThingHead")
def number(subject: Phrase, verb: Verb, number: Term, head: Head) -> Pair:
    things = make_phrase(None, head, True)
    german = join(number.german, things.german["accusative"])
    return statement(subject, Predicate(verb, join(number.english, things.english[1]), "", german))


@rule("Sentence", "Subject", "Number")
def age(subject: Phrase, number: Term) -> Pair:
    english = join(subject.english[0], TO_BE[subject.person], number.english, "years old")
    return english, join(
        subject.german["nominative"], SEIN[subject.person], number.german, "Jahre alt"
    )


def compare(first: Phrase, second: Phrase, english: str, german: str) -> Pair:
    return (
        join(first.english[0], TO_BE[first.person], english, second.english[0]),
        join(first.german["nominative"], SEIN[first.person], german, second.german["nominative"]),
    )


@rule("Sentence", "Subject", "AnimateAdjective", "AnimateDefinite", weight=0.6)
@rule("Sentence", "ThingDefinite", "ThingAdjective", "ThingDefinite", weight=0.4)
def comparative(first: Phrase, adjective: Adjective, second: Phrase) -> Pair:
    german = f"{adjective.german_comparative} als"
    return compare(first, second, f"{adjective.english_comparative} than", german)


@rule("Sentence", "Subject", "AnimateAdjective", "AnimateDefinite", weight=0.6)
@rule("Sentence", "ThingDefinite", "ThingAdjective", "ThingDefinite", weight=0.4)
def equality(first: Phrase, adjective: Adjective, second: Phrase) -> Pair:
    english, german = f"as {adjective.english} as", f"so {adjective.german} wie"
    return compare(first, second, english, german)


# Dates and times


@rule("Date", "Day31", "LongMonth", weight=7)
@rule("Date", "Day30", "ShortMonth", weight=4)
@rule("Date", "Day29", "February")
def date_of(day: Term, month: Term) -> Term:
    return Term(f"on the {day.english} of {month.english}", f"am {day.german} {month.german}")


@rule("Date", "Weekday", weight=3)
def weekday(day: Term) -> Term:
    return Term(f"on {day.english}", f"am {day.german}")


@rule("Sentence", "Date", "Subject", "Predicate")
def date(day: Term, subject: Phrase, predicate: Predicate) -> Pair:
    return fronted_past(day, subject, predicate)


@rule("Time", "Hour")
def full_hour(hour: Term) -> Term:
    return Term(f"at {hour.english} o'clock", f"um {hour.german} Uhr")


@rule("Time", "Hour")
def quarter_past(hour: Term) -> Term:
    return Term(f"at a quarter past {hour.english}", f"um Viertel nach {hour.german}")


@rule("Time", "HalfHour")
def half_hour(hour: Term) -> Term:
    return Term(f"at half past {hour.english}", f"um halb {hour.german}")


@rule("Sentence", "Time", "Subject", "Predicate")
def clock_time(time: Term, subject: Phrase, predicate: Predicate) -> Pair:
    return fronted_adverb(time, subject, predicate)


# Subordinate clauses


@rule("Sentence", "Subject", "ThinkVerb", "Clause")
def that_clause(subject: Phrase, verb: Verb, clause: Clause) -> Pair:
    english, german = statement(subject, Predicate(verb, ""))
    return f"{english} that {clause.english()}", f"{german}, dass {clause.german_final()}"


@rule("Sentence", "Subject", "Intransitive", "Clause")
def because_clause(subject: Phrase, predicate: Predicate, clause: Clause) -> Pair:
    english, german = statement(subject, predicate)
    return f"{english} because {clause.english()}", f"{german}, weil {clause.german_final()}"


@rule("Sentence", "AnimateDefinite", "ObjectPredicate", "AnimateAdjective")
def although_with_pronoun(subject: Phrase, predicate: Predicate, adjective: Adjective) -> Pair:
    again = Clause(pronoun_phrase(subject.anaphor), predicate)
    english, german = is_adjective(subject, adjective)
    return f"although {english}, {again.english()}", f"obwohl {german}, {again.german('?')}"


@rule("Sentence", "AnimateDefinite", "Predicate", "AnimateAdjective")
def because_with_pronoun(subject: Phrase, predicate: Predicate, adjective: Adjective) -> Pair:
    english, german = statement(subject, predicate)
    again, wieder = is_adjective(pronoun_phrase(subject.anaphor), adjective)
    return f"{english} because {again}", f"{german}, weil {wieder}"


@rule("Sentence", "ThingDefinite", "ThingAdjective", "Subject", "SeeVerb")
@rule("Sentence", "ThingDefinite", "ThingAdjective", "Subject", "UseVerb")
@rule("Sentence", "ThingDefinite", "ThingAdjective", "Subject", "SeparableUseVerb")
def if_with_pronoun(thing: Phrase, adjective: Adjective, subject: Phrase, verb: Verb) -> Pair:
    english, german = is_adjective(thing, adjective)
    then = Clause(subject, with_object(verb, pronoun_phrase(thing.anaphor)))
    return f"if {english}, {then.english()}", f"wenn {german}, {then.german('?')}"


@rule("Sentence", "Subject", "Predicate", "Subject", "Intransitive")
def if_clause(first: Phrase, predicate: Predicate, second: Phrase, then: Predicate) -> Pair:
    condition, result = Clause(first, predicate), Clause(second, then)
    english = f"if {condition.english()}, {result.english()}"
    return english, f"wenn {condition.german_final()}, {result.german('?')}"


@rule("Sentence", "AnimateDefinite", "ObjectPredicate", "Intransitive")
def subject_relative(subject: Phrase, inner: Predicate, outer: Predicate) -> Pair:
    english, german = statement(subject, outer)
    who = "who" if subject.anaphor.english[0] != "it" else "that"
    relative = Clause(subject, inner)
    head, nominative = subject.english[0], subject.german["nominative"]
    said = relative.english().removeprefix(head)
    gesagt = relative.german_final(DEFINITE[subject.gender].split()[0])
    return (
        f"{head} {who}{said}{english.removeprefix(head)}",
        f"{nominative}, {gesagt},{german.removeprefix(nominative)}",
    )


@rule("Sentence", "ThingDefinite", "Subject", "SeeVerb", "ThingAdjective")
@rule("Sentence", "ThingDefinite", "Subject", "SeparableUseVerb", "ThingAdjective")
@rule("Sentence", "AnimateDefinite", "Subject", "MeetVerb", "AnimateAdjective")
@rule("Sentence", "AnimateDefinite", "Subject", "HelpVerb", "AnimateAdjective")
def object_relative(head: Phrase, subject: Phrase, verb: Verb, adjective: Adjective) -> Pair:
    inner = Clause(subject, Predicate(verb, ""))
    dative = "denen" if head.gender == "p" else DEFINITE[head.gender].split()[2]
    which = dative if verb.case == "dative" else DEFINITE[head.gender].split()[1]
    english, _ = is_adjective(head, adjective)
    copula = english.removeprefix(head.english[0])
    german = join(head.german["nominative"] + ",", which, inner.german_final())
    return (
        f"{head.english[0]} that {inner.english()}{copula}",
        f"{german}, {SEIN[head.person]} {adjective.german}",
    )


@rule("Sentence", "Subject", "TryVerb", "ObjectPredicate")
def infinitive_clause(subject: Phrase, verb: Verb, inner: Predicate) -> Pair:
    english, german = statement(subject, Predicate(verb, ""))
    done = inner.verb
    infinitive = f"{done.prefix}zu{done.infinitive}" if done.prefix else f"zu {done.infinitive}"
    doing = english_group(inner, done.english)
    return f"{english} to {doing}", f"{german}, {join(german_middle(inner), infinitive)}"
