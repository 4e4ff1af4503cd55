"""The forms of single words in the demo grammar, English and German.

    Noun, Adjective, Verb, Determiner, Modal, Term, Pronoun   one entry each
    english_plural, english_third, article_for                English forms
    determiner_form, adjective_form                           German agreement
    cardinal, ordinal                                         numbers in words

The words themselves are in `demo_lexicon`, the sentences in `demo_corpus`.
"""

from dataclasses import dataclass

CASES = ("nominative", "accusative", "dative", "genitive")


@dataclass(frozen=True)
class Noun:
    """A noun; `gender` is m, f or n, `oblique` the singular of weak masculines outside the nominative."""

    english: str
    english_plural: str
    german: str
    gender: str
    german_plural: str
    oblique: str = ""
    human: bool = False

    @property
    def lemmas(self) -> tuple[str, ...]:
        return (f"{self.english}/{self.german}",)

    def form(self, case: str, plural: bool) -> str:
        """The German form for a case and number."""
        if plural:
            dative = case == "dative" and not self.german_plural.endswith(("n", "s"))
            return self.german_plural + "n" * dative
        if case != "nominative" and self.oblique:
            return self.oblique
        if case == "genitive" and self.gender != "f":
            return self.german + ("es" if _syllables(self.german) == 1 else "s")
        return self.german


@dataclass(frozen=True)
class Adjective:
    """An adjective with its comparatives; `stem` takes the endings."""

    english: str
    english_comparative: str
    german: str
    german_comparative: str

    @property
    def lemmas(self) -> tuple[str, ...]:
        return (f"{self.english}/{self.german}",)

    @property
    def stem(self) -> str:
        return self.german.removesuffix("e")


@dataclass(frozen=True)
class Verb:
    """A verb pair; German `third` and `infinitive` come without the separable `prefix`."""

    english: str
    particle: str
    past: str
    participle: str
    prefix: str
    infinitive: str
    third: str
    german_participle: str
    case: str = "accusative"
    auxiliary: str = "haben"

    @property
    def lemmas(self) -> tuple[str, ...]:
        english = f"{self.english} {self.particle}".strip()
        return (f"{english}/{self.prefix}{self.infinitive}",)

    def present(self, person: str) -> str:
        """The German present, without the prefix; `person` is 1s, 2s, 3s, 1p or 3p."""
        if person == "1s":
            if self.infinitive == "wissen":
                return "weiß"
            ending = "e" if self.infinitive.endswith("ern") else ""
            return self.infinitive.removesuffix("n") + ending
        if person == "2s":
            stem = self.third.removesuffix("t")
            return stem + ("t" if stem.endswith(("s", "ß", "z")) else "st")
        return self.third if person == "3s" else self.infinitive


@dataclass(frozen=True)
class Determiner:
    """A determiner; German `kind` is der, dieser or ein and names the declension."""

    english: str
    english_plural: str
    german: str
    kind: str
    lemmas: tuple[str, ...] = ()


@dataclass(frozen=True)
class Modal:
    """A modal verb with its three German present forms: singular, second person, plural."""

    english: str
    german: tuple[str, str, str]
    lemmas: tuple[str, ...] = ()

    def present(self, person: str) -> str:
        return self.german[1 if person == "2s" else 2 if person in ("1p", "3p") else 0]


@dataclass(frozen=True)
class Term:
    """A pair that is not inflected; German `case` is what a preposition asks for."""

    english: str
    german: str
    lemmas: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pronoun:
    """A personal pronoun: English subject and object, German by case."""

    english: tuple[str, str]
    german: tuple[str, str, str]
    person: str
    lemmas: tuple[str, ...] = ()


def _syllables(word: str) -> int:
    vowels = "".join(letter if letter in "aeiouyäöü" else " " for letter in word.lower())
    return len(vowels.split())


def english_plural(noun: str) -> str:
    """The regular English plural."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeou":
        return noun[:-1] + "ies"
    return noun + "s"


def english_third(verb: str) -> str:
    """The English third person singular of the present."""
    return {"go": "goes"}.get(verb, english_plural(verb))


def article_for(word: str) -> str:
    """`an` before a vowel sound, `a` otherwise."""
    return "an" if word.startswith(("a", "e", "i", "o", "u", "honest")) else "a"


# Endings of dieser, nominative to genitive, by gender; p is the plural.
STRONG = {"m": "er en em es", "f": "e e er er", "n": "es es em es", "p": "e e en er"}
DEFINITE = {"m": "der den dem des", "f": "die die der der", "n": "das das dem des"}
DEFINITE["p"] = "die die den der"


def determiner_form(determiner: Determiner, case: str, gender: str) -> str:
    """The German determiner for a case and gender (p for plural)."""
    if determiner.kind == "der":
        return DEFINITE[gender].split()[CASES.index(case)]
    bare = (case, gender) in {("nominative", "m"), ("nominative", "n"), ("accusative", "n")}
    if determiner.kind == "ein" and bare:
        return determiner.german
    return determiner.german + STRONG[gender].split()[CASES.index(case)]


def adjective_form(adjective: Adjective, case: str, gender: str, kind: str) -> str:
    """The German adjective after a determiner of `kind`, or after none if it is empty."""
    strong = STRONG[gender].split()[CASES.index(case)]
    plain = (case, gender) in {
        ("nominative", "m"), ("nominative", "f"), ("nominative", "n"),
        ("accusative", "f"), ("accusative", "n"),
    }  # fmt: skip
    if not kind:
        ending = strong
    elif not plain:
        ending = "en"
    else:
        ending = strong if kind == "ein" else "e"
    return adjective.stem + ending


UNITS = "one two three four five six seven eight nine".split()
TEENS = (
    "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
)
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
GERMAN_UNITS = "ein zwei drei vier fünf sechs sieben acht neun".split()
GERMAN_TEENS = (
    "zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn".split()
)
GERMAN_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()


def cardinal(number: int) -> Term:
    """A number of 2 to 99 in words: twenty-one, einundzwanzig."""
    ten, unit = divmod(number, 10)
    if number < 20:
        english = (UNITS + TEENS)[number - 1]
        german = (GERMAN_UNITS + GERMAN_TEENS)[number - 1]
        return Term(english, german, (english,))
    english, german = TENS[ten - 2], GERMAN_TENS[ten - 2]
    if not unit:
        return Term(english, german, (english,))
    joined = f"{GERMAN_UNITS[unit - 1]}und{german}"
    return Term(f"{english}-{UNITS[unit - 1]}", joined, (english, UNITS[unit - 1]))


def ordinal(number: int) -> Term:
    """A day of the month in words, German in the dative: third, dritten."""
    term = cardinal(number) if number > 1 else Term("one", "eins", ("one",))
    english, german = term.english, term.german
    irregular = {
        "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth",
        "nine": "ninth", "twelve": "twelfth", "twenty": "twentieth", "thirty": "thirtieth",
    }  # fmt: skip
    head, dash, last = english.rpartition("-")
    english = head + dash + irregular.get(last, last + "th")
    odd = {1: "ersten", 3: "dritten", 7: "siebten", 8: "achten"}
    german = odd.get(number, german + ("ten" if number < 20 else "sten"))
    return Term(english, german, tuple(f"ordinal {lemma}" for lemma in term.lemmas))
