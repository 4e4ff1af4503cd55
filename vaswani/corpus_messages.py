"""Messages of programs to sentences: what is no text in them, and when the two sides do not fit.

    sentence_pair         a message and its translation as plain texts, or why they are left out
    masked                a text without its placeholders, tags and entities

- Placeholders (`%s`, `%2$d`, `%(name)s`, `%1`, `{0}`, `{name}`, `{{name}}`, `${name}`, `$name`)
  stay as they are, and must be the same on both sides in any order: those without number or name
  are numbered first to last, so that `%s %d` isn't `%d %s` but is `%2$d %1$s`.
- Tags of HTML and Pango (`<b>`, `</b>`, `<br/>`) stay and must be the same on both sides,
  attributes aside. Any other `<word>` is text. Entities are not decoded.
- The mark of a keyboard accelerator (`_File`, `&File`, `~File`) goes. It stands once in a text,
  before a letter or digit, at the start of a word; or within a word before a lower-case letter,
  if the other side has one too, in another word. The last condition and that of once keep names
  like `file_name`; `R&D` has a capital. A translation loses its mark only where the message
  does. A whole `(_F)`, as East Asian translations have it, goes.
- A run of white space with a line break or tab becomes one space: breaks in messages are layout.
- A side that has no letter but in placeholders, tags and entities is left out: it has no words.
"""

import re
from collections import Counter
from dataclasses import dataclass

from vaswani.text_lines import clean_text, joined_lines

# No space as a flag: "50 % der" has no placeholder. `*` and lengths as in C.
_PLACEHOLDER = re.compile(
    r"%%"
    r"|%(?:\((?P<name>[^()]*)\)|(?P<position>\d{1,3})\$)?[-+#0]*(?:\d{1,4}|\*)?(?:\.(?:\d{1,4}|\*))?"
    r"(?:hh|ll|[hlLqjzt])?(?P<conversion>[diouxXeEfFgGcrsap@])"
    r"|%L?\d{1,2}|%n"
    r"|\{\{[^{}]*\}\}|\$?\{(?P<field>[^{}]*)\}|\$[A-Za-z_]\w*"
)
_MARKUP = set(
    """
    a abbr acronym b big blockquote body br center code dd div dl dt em font h1 h2 h3 h4
    h5 h6 head hr html i img kbd li link markup nobr ol p pre s samp small span strike
    strong style sub sup table tbody td th thead title tr tt u ul var
    """.split()  # noqa: SIM905
)
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)(?:\s[^<>]*|/)?>")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_EAST_ASIAN_ACCELERATOR = re.compile(r"\s?\(([_&~])[A-Za-z0-9]\)")


@dataclass(frozen=True)
class SentencePair:
    """A message and its translation as plain texts, and what was done to them."""

    source: str
    target: str
    changes: Counter[str]


def sentence_pair(source: str, target: str) -> SentencePair | str:
    """The two texts, or the reason why they are left out."""
    if placeholders(source) != placeholders(target):
        return "with other placeholders"
    if tags(source) != tags(target):
        return "with other tags"
    if not _has_words(source) or not _has_words(target):
        return "without words"
    changes: Counter[str] = Counter()
    texts = without_accelerators(source, target)
    changes["without accelerator"] += sum(map(str.__ne__, texts, (source, target)))
    one_line = tuple(joined_lines(clean_text(text)) for text in texts)
    changes["joined to one line"] += sum(
        joined != clean_text(text) for joined, text in zip(one_line, texts, strict=True)
    )
    return SentencePair(one_line[0], one_line[1], +changes)


def placeholders(text: str) -> Counter[str]:
    """How often each placeholder occurs, under a name that is the same in any translation."""
    found: Counter[str] = Counter()
    printf, fields = 0, 0
    for match in _PLACEHOLDER.finditer(text):
        whole, conversion, field = match[0], match["conversion"], match["field"]
        if whole == "%%":
            continue
        if conversion and match["name"] is None:
            if match["position"] is None:
                printf += 1
            # The widths of a column may differ, what is filled in may not.
            whole = f"%{match['position'] or printf}${conversion}"
        elif conversion:
            whole = f"%({match['name']}){conversion}"
        elif field is not None and whole.startswith("{") and field[:1] in ("", "!", ":"):
            whole = f"{{{fields}{field}}}"
            fields += 1
        found[whole] += 1
    return found


def tags(text: str) -> Counter[str]:
    """How often each tag occurs, without attributes."""
    found = (f"<{end}{name.lower()}>" for end, name in _TAG.findall(text))
    return Counter(tag for tag in found if tag.strip("</>") in _MARKUP)


def _has_words(text: str) -> bool:
    return any(map(str.isalpha, masked(text, " ")))


def masked(text: str, placeholder: str) -> str:
    """The text, as long, with spaces for tags and entities and a letter for placeholders."""
    text = _PLACEHOLDER.sub(lambda found: placeholder * len(found[0]), text)
    for pattern in (_TAG, _ENTITY):
        text = pattern.sub(lambda found: " " * len(found[0]), text)
    return text


def without_accelerators(source: str, target: str) -> tuple[str, str]:
    """The two texts without the marks of keyboard accelerators."""
    for mark in "_&~":
        east_asian = _EAST_ASIAN_ACCELERATOR.search(target)
        if east_asian and east_asian[1] == mark and _mark_place(source, mark) is not None:
            target = target[: east_asian.start()] + target[east_asian.end() :]
        places = _mark_place(source, mark), _mark_place(target, mark)
        if not _is_accelerator(source, places[0], target, places[1]):
            continue
        if _is_accelerator(target, places[1], source, places[0]):
            target = _without(target, places[1])
        source = _without(source, places[0])
    return source, target


def _without(text: str, place: int | None) -> str:
    return text if place is None else text[:place] + text[place + 1 :]


def _mark_place(text: str, mark: str) -> int | None:
    """Where the one mark of the text stands before a letter or digit."""
    open_text = masked(text, "X")
    place = open_text.find(mark)
    if place < 0 or open_text.count(mark) != 1 or not text[place + 1 : place + 2].isalnum():
        return None
    return place


def _is_accelerator(text: str, place: int | None, other: str, other_place: int | None) -> bool:
    if place is None:
        return False
    if text[place] == "~" and other_place is None:
        return False  # "about"
    if not masked(text, "X")[place - 1 : place].isalnum():
        return True
    if other_place is None or not text[place + 1].islower():
        return False
    return _word_at(text, place) != _word_at(other, other_place)


def _word_at(text: str, place: int) -> str:
    """The letters between white space around a place."""
    words = re.finditer(r"\S+", text)
    return next((word[0] for word in words if word.start() <= place < word.end()), "")
