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
farmer Bauer m Bauern Bauern; teacher Lehrer m Lehrer; doctor Arzt m Ärzte; painter Maler m Maler
baker Bäcker m Bäcker; king König m Könige; queen Königin f Königinnen; woman/women Frau f Frauen
man/men Mann m Männer; boy Junge m Jungen Jungen; child/children Kind n Kinder
father Vater m Väter; mother Mutter f Mütter; brother Bruder m Brüder; sister Schwester f Schwestern
uncle Onkel m Onkel; aunt Tante f Tanten; neighbor Nachbar m Nachbarn Nachbarn
student Student m Studenten Studenten; actress Schauspielerin f Schauspielerinnen
gardener Gärtner m Gärtner; waitress Kellnerin f Kellnerinnen; soldier Soldat m Soldaten Soldaten
author Autor m Autoren; grandmother Großmutter f Großmütter; grandfather Großvater m Großväter
friend Freund m Freunde; guest Gast m Gäste; thief/thieves Dieb m Diebe; cook Koch m Köche
judge Richter m Richter; singer Sänger m Sänger; pilot Pilot m Piloten Piloten
princess Prinzessin f Prinzessinnen; witch Hexe f Hexen; daughter Tochter f Töchter
son Sohn m Söhne; niece Nichte f Nichten; engineer Ingenieur m Ingenieure
hunter Jäger m Jäger; customer Kunde m Kunden Kunden
"""

ANIMALS = """
dog Hund m Hunde; cat Katze f Katzen; horse Pferd n Pferde; cow Kuh f Kühe; bird Vogel m Vögel
mouse/mice Maus f Mäuse; pig Schwein n Schweine; goat Ziege f Ziegen; bear Bär m Bären Bären
lion Löwe m Löwen Löwen; fox Fuchs m Füchse; donkey Esel m Esel; duck Ente f Enten
goose/geese Gans f Gänse; wolf/wolves Wolf m Wölfe; snake Schlange f Schlangen
monkey Affe m Affen Affen; frog Frosch m Frösche; camel Kamel n Kamele; chicken Huhn n Hühner
"""

THINGS = """
book Buch n Bücher; letter Brief m Briefe; key Schlüssel m Schlüssel; picture Bild n Bilder
bag Tasche f Taschen; cup Tasse f Tassen; bottle Flasche f Flaschen; lamp Lampe f Lampen
knife/knives Messer n Messer; fork Gabel f Gabeln; spoon Löffel m Löffel; hat Hut m Hüte
coat Mantel m Mäntel; shirt Hemd n Hemden; shoe Schuh m Schuhe; apple Apfel m Äpfel
pear Birne f Birnen; egg Ei n Eier; cake Kuchen m Kuchen; flower Blume f Blumen
newspaper Zeitung f Zeitungen; pen Stift m Stifte; umbrella Regenschirm m Regenschirme
clock Uhr f Uhren; car Auto n Autos; bicycle Fahrrad n Fahrräder; boat Boot n Boote
gift Geschenk n Geschenke; ring Ring m Ringe; map Karte f Karten; radio Radio n Radios
guitar Gitarre f Gitarren; violin Geige f Geigen; basket Korb m Körbe; blanket Decke f Decken
mirror Spiegel m Spiegel; plate Teller m Teller; sausage Wurst f Würste; candle Kerze f Kerzen
suitcase Koffer m Koffer; jacket Jacke f Jacken; dress Kleid n Kleider
potato/potatoes Kartoffel f Kartoffeln; rope Seil n Seile; ball Ball m Bälle; doll Puppe f Puppen
"""

ROOMS = """
garden Garten m Gärten; house Haus n Häuser; church Kirche f Kirchen; school Schule f Schulen
forest Wald m Wälder; kitchen Küche f Küchen; cellar Keller m Keller; tower Turm m Türme
castle Schloss n Schlösser; shop Laden m Läden; room Zimmer n Zimmer; tent Zelt n Zelte
village Dorf n Dörfer; hotel Hotel n Hotels
"""

FURNITURE = """
table Tisch m Tische; chair Stuhl m Stühle; bed Bett n Betten; roof Dach n Dächer
wall Mauer f Mauern; bridge Brücke f Brücken; bench Bank f Bänke; sofa Sofa n Sofas
shelf/shelves Regal n Regale
"""

FEATURES = """
tired müde; happy/happier glücklich; sad/sadder traurig; hungry/hungrier hungrig
clever klug klüger; strong/stronger stark stärker; weak/weaker schwach schwächer
rich/richer reich; poor/poorer arm ärmer; fast/faster schnell; slow/slower langsam; lazy/lazier faul
friendly/friendlier freundlich; polite höflich; famous berühmt; quiet/quieter ruhig; brave mutig
careful vorsichtig; curious neugierig; nervous nervös; honest ehrlich; proud/prouder stolz
dangerous gefährlich; lonely/lonelier einsam; healthy/healthier gesund gesünder; sick krank kränker
"""

LOOKS = """
old/older alt älter; young/younger jung jünger; big/bigger groß größer; small/smaller klein kleiner
ugly/uglier hässlich; beautiful schön; fat/fatter dick; thin/thinner dünn; strange seltsam
"""

QUALITIES = """
new/newer neu; modern modern; heavy/heavier schwer; light/lighter leicht; cheap/cheaper billig
red/redder rot röter; green/greener grün; blue/bluer blau; white/whiter weiß; black schwarz
round/rounder rund; dirty/dirtier schmutzig; clean/cleaner sauber; wet/wetter nass
warm/warmer warm wärmer; cold/colder kalt kälter; long/longer lang länger; short/shorter kurz kürzer
wonderful wunderbar; practical praktisch
"""

SEEING = """
see/saw/seen sehen sieht gesehen; find/found finden findet gefunden; hear/heard hören hört gehört
look_for suchen sucht gesucht; need brauchen braucht gebraucht
draw/drew/drawn zeichnen zeichnet gezeichnet; photograph fotografieren fotografiert fotografiert
hide/hid/hidden verstecken versteckt versteckt; touch berühren berührt berührt
buy/bought kaufen kauft gekauft; sell/sold verkaufen verkauft verkauft
lose/lost verlieren verliert verloren; carry/carried tragen trägt getragen
wash waschen wäscht gewaschen; love lieben liebt geliebt
forget/forgot/forgotten vergessen vergisst vergessen; describe beschreiben beschreibt beschrieben
watch beobachten beobachtet beobachtet; admire bewundern bewundert bewundert
pull ziehen zieht gezogen; steal/stole/stolen stehlen stiehlt gestohlen
"""

MEETING = """
visit besuchen besucht besucht; greet grüßen grüßt gegrüßt; know/knew/known kennen kennt gekannt
kiss küssen küsst geküsst; hate hassen hasst gehasst; disturb stören stört gestört
comfort trösten tröstet getröstet; feed/fed füttern füttert gefüttert
catch/caught fangen fängt gefangen; protect schützen schützt geschützt
"""

USING = """
repair reparieren repariert repariert; break/broke/broken zerbrechen zerbricht zerbrochen
eat/ate/eaten essen isst gegessen; use benutzen benutzt benutzt; count zählen zählt gezählt
order bestellen bestellt bestellt; burn verbrennen verbrennt verbrannt
"""

SEPARABLE_MEETING = """
pick_up ab|holen holt abgeholt; invite ein|laden lädt eingeladen; call an|rufen ruft angerufen
look_at an|sehen sieht angesehen; bring_along/brought mit|bringen bringt mitgebracht
introduce vor|stellen stellt vorgestellt
"""

SEPARABLE_USING = """
open auf|machen macht aufgemacht; close zu|machen macht zugemacht
throw_away/threw weg|werfen wirft weggeworfen; turn_on ein|schalten schaltet eingeschaltet
turn_off aus|schalten schaltet ausgeschaltet; hang_up/hung auf|hängen hängt aufgehängt
unpack aus|packen packt ausgepackt; take_along/took mit|nehmen nimmt mitgenommen
"""

SEPARABLE_ALONE = """
arrive an|kommen kommt angekommen; get_up/got auf|stehen steht aufgestanden
fall_asleep/fell ein|schlafen schläft eingeschlafen; leave/left weg|gehen geht weggegangen
come_back/came zurück|kommen kommt zurückgekommen; wake_up/woke auf|wachen wacht aufgewacht
"""

ACTING = """
sleep/slept schlafen schläft geschlafen; laugh lachen lacht gelacht; cry/cried weinen weint geweint
work arbeiten arbeitet gearbeitet; sing/sang singen singt gesungen; dance tanzen tanzt getanzt
wait warten wartet gewartet; dream träumen träumt geträumt; play spielen spielt gespielt
cough husten hustet gehustet; whisper flüstern flüstert geflüstert
shout schreien schreit geschrien; smoke rauchen raucht geraucht
"""

RESTING = """
sit/sat sitzen sitzt gesessen; stand/stood stehen steht gestanden; lie/lay liegen liegt gelegen
live wohnen wohnt gewohnt
"""

MOVING = """
run/ran laufen läuft gelaufen; walk gehen geht gegangen; jump springen springt gesprungen
climb klettern klettert geklettert; crawl kriechen kriecht gekrochen
fall/fell fallen fällt gefallen; flee/fled fliehen flieht geflohen; fly/flew fliegen fliegt geflogen
"""

HELPING = """
help helfen hilft geholfen; thank danken dankt gedankt; follow folgen folgt gefolgt sein
answer antworten antwortet geantwortet; trust vertrauen vertraut vertraut
congratulate gratulieren gratuliert gratuliert; listen_to zu|hören hört zugehört
forgive/forgave verzeihen verzeiht verziehen; threaten drohen droht gedroht
"""

GIVING = """
give/gave geben gibt gegeben; show zeigen zeigt gezeigt; send/sent schicken schickt geschickt
lend/lent leihen leiht geliehen; bring/brought bringen bringt gebracht
offer an|bieten bietet angeboten
"""

THINKING = """
know/knew wissen weiß gewusst; think/thought denken denkt gedacht; believe glauben glaubt geglaubt
say/said sagen sagt gesagt; hope hoffen hofft gehofft; fear fürchten fürchtet gefürchtet
claim behaupten behauptet behauptet; notice bemerken bemerkt bemerkt
"""

TRYING = """
try/tried versuchen versucht versucht; begin/began beginnen beginnt begonnen
promise versprechen verspricht versprochen; decide beschließen beschließt beschlossen
plan/planned planen plant geplant
"""

TERMS = {
    "HabitAdverb": "often oft; sometimes manchmal; always immer; never nie; rarely selten",
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
    for english, german, gender, plural, *oblique in _rows(table):
        singular, _, many = english.partition("/")
        many = many or english_plural(singular)
        nouns.append(Noun(singular, many, german, gender, plural, *oblique, human=human))
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
        base, past, participle = (english.split("/") + ["", ""])[:3]
        word, _, particle = base.partition(" ")
        past = past or (word + "d" if word.endswith("e") else word + "ed")
        participle = participle or past
        prefix, bar, infinitive = german.partition("|") if "|" in german else ("", "", german)
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
        "ThingAdjective": looks[2:] + qualities,
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
        "Preposition": [Term(*row) for row in _rows(PREPOSITIONS)],
        "The": [Determiner("the", "the", "d", "der")],
        "This": [Determiner("this", "these", "dies", "dieser")],
        "Owner": _owners(),
        "Article": [Determiner("a", "", "ein", "ein")],
        "Tense": [Term("present", "Präsens"), Term("past", "Perfekt"), Term("future", "Futur")],
        "Pronoun": _pronouns(),
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
