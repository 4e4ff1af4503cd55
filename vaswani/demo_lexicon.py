"""The words of the demo grammar: a table for each kind of word, and `lexicon()` that reads them.

In a table `;` or the end of a line ends an entry, `_` stands for a space inside a cell.

    nouns       english[/plural] german gender german_plural [oblique singular]
    adjectives  english[/comparative] german [german comparative, where it takes an umlaut]
    verbs       english[/past[/participle]] [prefix|]infinitive third_person participle [auxiliary]
    terms       english german
"""

from typing import Any

from vaswani.demo_morphology import (
    Adjective,
    Determiner,
    Modal,
    Noun,
    Pronoun,
    Term,
    Verb,
    cardinal,
    english_plural,
    ordinal,
)

PERSONS = """
farmer Bauer m Bauern Bauern; teacher Lehrer m Lehrer; doctor Arzt m Ärzte; king König m Könige
queen Königin f Königinnen; woman/women Frau f Frauen; man/men Mann m Männer
boy Junge m Jungen Jungen; child/children Kind n Kinder; father Vater m Väter
mother Mutter f Mütter; brother Bruder m Brüder; sister Schwester f Schwestern
aunt Tante f Tanten; neighbor Nachbar m Nachbarn Nachbarn; student Student m Studenten Studenten
actress Schauspielerin f Schauspielerinnen; author Autor m Autoren
grandmother Großmutter f Großmütter; grandfather Großvater m Großväter; friend Freund m Freunde
guest Gast m Gäste; thief/thieves Dieb m Diebe; cook Koch m Köche; singer Sänger m Sänger
princess Prinzessin f Prinzessinnen; witch Hexe f Hexen; daughter Tochter f Töchter
son Sohn m Söhne
"""

ANIMALS = """
dog Hund m Hunde; cat Katze f Katzen; horse Pferd n Pferde; cow Kuh f Kühe; bird Vogel m Vögel
mouse/mice Maus f Mäuse; pig Schwein n Schweine; bear Bär m Bären Bären; lion Löwe m Löwen Löwen
duck Ente f Enten; wolf/wolves Wolf m Wölfe; snake Schlange f Schlangen; chicken Huhn n Hühner
"""

THINGS = """
book Buch n Bücher; letter Brief m Briefe; key Schlüssel m Schlüssel; picture Bild n Bilder
bag Tasche f Taschen; cup Tasse f Tassen; bottle Flasche f Flaschen; lamp Lampe f Lampen
knife/knives Messer n Messer; hat Hut m Hüte; coat Mantel m Mäntel; shirt Hemd n Hemden
shoe Schuh m Schuhe; apple Apfel m Äpfel; egg Ei n Eier; cake Kuchen m Kuchen
flower Blume f Blumen; newspaper Zeitung f Zeitungen; pen Stift m Stifte; clock Uhr f Uhren
car Auto n Autos; bicycle Fahrrad n Fahrräder; boat Boot n Boote; gift Geschenk n Geschenke
ring Ring m Ringe; map Karte f Karten; guitar Gitarre f Gitarren; plate Teller m Teller
dress Kleid n Kleider; potato/potatoes Kartoffel f Kartoffeln; ball Ball m Bälle
"""

ROOMS = """
garden Garten m Gärten; house Haus n Häuser; church Kirche f Kirchen; school Schule f Schulen
forest Wald m Wälder; kitchen Küche f Küchen; cellar Keller m Keller; shop Laden m Läden
room Zimmer n Zimmer; village Dorf n Dörfer
"""

FURNITURE = """
table Tisch m Tische; chair Stuhl m Stühle; bed Bett n Betten; roof Dach n Dächer
wall Mauer f Mauern; bridge Brücke f Brücken; bench Bank f Bänke
"""

FEATURES = """
tired müde; happy/happier glücklich; sad/sadder traurig; hungry/hungrier hungrig
clever klug klüger; strong/stronger stark stärker; weak/weaker schwach schwächer
rich/richer reich; poor/poorer arm ärmer; fast/faster schnell; slow/slower langsam
lazy/lazier faul; friendly/friendlier freundlich; famous berühmt; quiet/quieter ruhig; brave mutig
honest ehrlich; proud/prouder stolz; sick krank kränker
"""

LOOKS = """
old/older alt älter; young/younger jung jünger; big/bigger groß größer
small/smaller klein kleiner; ugly/uglier hässlich; beautiful schön; strange seltsam
"""

QUALITIES = """
new/newer neu; heavy/heavier schwer; light/lighter leicht; cheap/cheaper billig
red/redder rot röter; green/greener grün; white/whiter weiß; black schwarz; round/rounder rund
clean/cleaner sauber; warm/warmer warm wärmer; cold/colder kalt kälter; long/longer lang länger
short/shorter kurz kürzer; wonderful wunderbar
"""

SEEING = """
see/saw/seen sehen sieht gesehen; find/found finden findet gefunden; hear/heard hören hört gehört
look_for suchen sucht gesucht; need brauchen braucht gebraucht
draw/drew/drawn zeichnen zeichnet gezeichnet; hide/hid/hidden verstecken versteckt versteckt
touch berühren berührt berührt; buy/bought kaufen kauft gekauft
sell/sold verkaufen verkauft verkauft; lose/lost verlieren verliert verloren
carry/carried tragen trägt getragen; wash waschen wäscht gewaschen; love lieben liebt geliebt
forget/forgot/forgotten vergessen vergisst vergessen; watch beobachten beobachtet beobachtet
admire bewundern bewundert bewundert; pull ziehen zieht gezogen
"""

MEETING = """
visit besuchen besucht besucht; greet grüßen grüßt gegrüßt; know/knew/known kennen kennt gekannt
kiss küssen küsst geküsst; hate hassen hasst gehasst; feed/fed füttern füttert gefüttert
catch/caught fangen fängt gefangen
"""

USING = """
repair reparieren repariert repariert; break/broke/broken zerbrechen zerbricht zerbrochen
eat/ate/eaten essen isst gegessen; use benutzen benutzt benutzt; order bestellen bestellt bestellt
"""

SEPARABLE_MEETING = """
pick_up ab|holen holt abgeholt; invite ein|laden lädt eingeladen; call an|rufen ruft angerufen
look_at an|sehen sieht angesehen; bring_along/brought mit|bringen bringt mitgebracht
"""

SEPARABLE_USING = """
open auf|machen macht aufgemacht; close zu|machen macht zugemacht
throw_away/threw weg|werfen wirft weggeworfen; turn_on ein|schalten schaltet eingeschaltet
turn_off aus|schalten schaltet ausgeschaltet; hang_up/hung auf|hängen hängt aufgehängt
take_along/took mit|nehmen nimmt mitgenommen
"""

SEPARABLE_ALONE = """
arrive an|kommen kommt angekommen; get_up/got auf|stehen steht aufgestanden
fall_asleep/fell ein|schlafen schläft eingeschlafen; leave/left weg|gehen geht weggegangen
come_back/came zurück|kommen kommt zurückgekommen; wake_up/woke auf|wachen wacht aufgewacht
"""

ACTING = """
sleep/slept schlafen schläft geschlafen; laugh lachen lacht gelacht
cry/cried weinen weint geweint; work arbeiten arbeitet gearbeitet; sing/sang singen singt gesungen
dance tanzen tanzt getanzt; wait warten wartet gewartet; dream träumen träumt geträumt
play spielen spielt gespielt; shout schreien schreit geschrien
"""

RESTING = """
sit/sat sitzen sitzt gesessen; stand/stood stehen steht gestanden; lie/lay liegen liegt gelegen
live wohnen wohnt gewohnt
"""

MOVING = """
run/ran laufen läuft gelaufen; walk gehen geht gegangen; jump springen springt gesprungen
climb klettern klettert geklettert; fall/fell fallen fällt gefallen
flee/fled fliehen flieht geflohen; fly/flew fliegen fliegt geflogen
"""

HELPING = """
help helfen hilft geholfen; thank danken dankt gedankt; follow folgen folgt gefolgt sein
answer antworten antwortet geantwortet; trust vertrauen vertraut vertraut
listen_to zu|hören hört zugehört
"""

GIVING = """
give/gave geben gibt gegeben; show zeigen zeigt gezeigt; send/sent schicken schickt geschickt
lend/lent leihen leiht geliehen; bring/brought bringen bringt gebracht
offer an|bieten bietet angeboten
"""

THINKING = """
know/knew wissen weiß gewusst; think/thought denken denkt gedacht; believe glauben glaubt geglaubt
say/said sagen sagt gesagt; hope hoffen hofft gehofft; notice bemerken bemerkt bemerkt
"""

TRYING = """
try/tried versuchen versucht versucht; begin/began beginnen beginnt begonnen
promise versprechen verspricht versprochen; decide beschließen beschließt beschlossen
plan/planned planen plant geplant
"""

TERMS = {
    "HabitAdverb": "often oft; sometimes manchmal; always immer; never nie",
    "PresentAdverb": "today heute; now jetzt; in_the_evening am_Abend; in_the_morning am_Morgen; "
    "in_summer im_Sommer; in_winter im_Winter",
    "PastAdverb": "yesterday gestern; last_week letzte_Woche; last_year letztes_Jahr; "
    "in_those_days damals",
    "FutureAdverb": "tomorrow morgen; soon bald; next_week nächste_Woche; next_year nächstes_Jahr",
    "Weekday": "Monday Montag; Tuesday Dienstag; Wednesday Mittwoch; Thursday Donnerstag; "
    "Friday Freitag; Saturday Samstag; Sunday Sonntag",
    "LongMonth": "January Januar; March März; May Mai; July Juli; August August; October Oktober; "
    "December Dezember",
    "ShortMonth": "April April; June Juni; September September; November November",
    "February": "February Februar",
}

PREPOSITIONS = "behind hinter; under unter; next_to neben; in_front_of vor"


def _rows(table: str) -> list[list[str]]:
    entries = [entry.split() for entry in table.replace("\n", ";").split(";")]
    return [[cell.replace("_", " ") for cell in entry] for entry in entries if entry]


def _nouns(table: str, human: bool = False) -> list[Noun]:
    nouns = []
    for english, german, gender, plural, *weak in _rows(table):
        singular, _, many = english.partition("/")
        many = many or english_plural(singular)
        oblique = weak[0] if weak else ""
        nouns.append(Noun(singular, many, german, gender, plural, oblique, human))
    return nouns


def _adjectives(table: str) -> list[Adjective]:
    adjectives = []
    for english, german, *umlaut in _rows(table):
        word, slash, comparative = english.partition("/")
        comparative = comparative if slash else f"more {word}"
        german_comparative = umlaut[0] if umlaut else german.removesuffix("e") + "er"
        adjectives.append(Adjective(word, comparative, german, german_comparative))
    return adjectives


def _verbs(table: str, case: str = "accusative", auxiliary: str = "haben") -> list[Verb]:
    verbs = []
    for english, german, third, german_participle, *own in _rows(table):
        base, past, participle = [*english.split("/"), "", ""][:3]
        word, _, particle = base.partition(" ")
        past = past or (word + "d" if word.endswith("e") else word + "ed")
        participle = participle or past
        prefix, _, infinitive = german.rpartition("|")
        helper = own[0] if own else auxiliary
        english_forms = (word, particle, past, participle)
        german_forms = (prefix, infinitive, third, german_participle)
        verbs.append(Verb(*english_forms, *german_forms, case, helper))
    return verbs


def _terms(table: str) -> list[Term]:
    return [Term(english, german, (english,)) for english, german in _rows(table)]


def _owners() -> list[Determiner]:
    owners = {"my": "mein", "your": "dein", "his": "sein", "her": "ihr", "our": "unser"}
    return [Determiner(english, english, german, "ein") for english, german in owners.items()]


def _pronouns() -> list[Pronoun]:
    return [
        Pronoun(("I", "me"), ("ich", "mich", "mir"), "1s"),
        Pronoun(("you", "you"), ("du", "dich", "dir"), "2s"),
        Pronoun(("he", "him"), ("er", "ihn", "ihm"), "3s"),
        Pronoun(("she", "her"), ("sie", "sie", "ihr"), "3s"),
        Pronoun(("we", "us"), ("wir", "uns", "uns"), "1p"),
        Pronoun(("they", "them"), ("sie", "sie", "ihnen"), "3p"),
    ]


def _modals() -> list[Modal]:
    return [
        Modal("can", ("kann", "kannst", "können")),
        Modal("must", ("muss", "musst", "müssen")),
        Modal("may", ("darf", "darfst", "dürfen")),
        Modal("should", ("soll", "sollst", "sollen")),
        Modal("want to", ("will", "willst", "wollen")),
    ]


def _half_hours() -> list[Term]:
    """German counts the half hour towards the next one: half past two, halb drei."""
    hours = [cardinal(number) for number in range(2, 13)]
    following = [*hours[1:], Term("one", "eins")]
    pairs = zip(hours, following, strict=True)
    return [Term(hour.english, after.german, hour.lemmas) for hour, after in pairs]


def lexicon() -> dict[str, list[Any]]:
    """All entries, by the grammar symbol that they stand for."""
    features, looks, qualities = map(_adjectives, (FEATURES, LOOKS, QUALITIES))
    entries: dict[str, list[Any]] = {
        "Person": _nouns(PERSONS, human=True),
        "Animal": _nouns(ANIMALS),
        "Thing": _nouns(THINGS),
        "Room": _nouns(ROOMS),
        "Furniture": _nouns(FURNITURE),
        "AnimateAdjective": features + looks,
        "ThingAdjective": looks[:1] + looks[2:] + qualities,
        "SeeVerb": _verbs(SEEING),
        "MeetVerb": _verbs(MEETING),
        "UseVerb": _verbs(USING),
        "SeparableMeetVerb": _verbs(SEPARABLE_MEETING),
        "SeparableUseVerb": _verbs(SEPARABLE_USING),
        "SeparableVerb": _verbs(SEPARABLE_ALONE, auxiliary="sein"),
        "ActVerb": _verbs(ACTING),
        "RestVerb": _verbs(RESTING),
        "MoveVerb": _verbs(MOVING, auxiliary="sein"),
        "HelpVerb": _verbs(HELPING, case="dative"),
        "GiveVerb": _verbs(GIVING),
        "ThinkVerb": _verbs(THINKING),
        "TryVerb": _verbs(TRYING),
        "Preposition": [Term(row[0], row[1]) for row in _rows(PREPOSITIONS)],
        "The": [Determiner("the", "the", "d", "der")],
        "This": [Determiner("this", "these", "dies", "dieser")],
        "Owner": _owners(),
        "Article": [Determiner("a", "", "ein", "ein")],
        "Tense": [Term("present", "Präsens"), Term("past", "Perfekt"), Term("future", "Futur")],
        "Pronoun": _pronouns(),
        # Of the third person only: "I see me" would be no English.
        "ObjectPronoun": [word for word in _pronouns() if word.person.startswith("3")],
        "Modal": _modals(),
        "Number": [cardinal(number) for number in range(2, 100)],
        "Hour": [cardinal(number) for number in range(2, 13)],
        "HalfHour": _half_hours(),
        "Day29": [ordinal(number) for number in range(1, 30)],
        "Day30": [ordinal(number) for number in range(1, 31)],
        "Day31": [ordinal(number) for number in range(1, 32)],
    }
    for symbol, table in TERMS.items():
        entries[symbol] = _terms(table)
    return entries
