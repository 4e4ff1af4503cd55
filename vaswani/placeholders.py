"""Finds what a translation must hold unchanged: placeholders, inline tags, entities, addresses.

    find_placeholders       all of a text, in order
    placeholder_changes     how those of a translation differ from those of its source
    split_at_placeholders   the text between them, and what stands there
    without_placeholders    a text that has none

Plain functions on texts, without a model; `piece_search` uses them with one. Found are

- formats of printf, Python, Qt and Ruby: `%s`, `%(name)s`, `%1$d`, `%1`, `%{name}`, and `%%`. Not
  where a digit stands before the sign, since "100%ig" is a word;
- names in braces: `{}`, `{0}`, `{name:.2f}`, `{{ name }}`, `${name}`; not the plural forms of ICU;
- inline tags `<b>`, `</b>`, `<a href="...">`, `<br/>`;
- entities `&amp;`, `&#8230;`;
- URLs (http, https, ftp, www.) without the punctuation after them, and e-mail addresses.

Those that a program fills in by their order (`%s`, `{}`), and tags, must keep their order too;
named and numbered ones may move, as words do.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

# Possessive where a longer match is tried from every place: a line may have millions of characters.
_PLACEHOLDER = re.compile(
    r"""
    (?P<address>
        (?:https?://|ftp://|(?<!\w)www\.)[^\s<>"'`{}]*[\w/\#=&%+~-]
      | (?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)++
    )
    | (?P<tag></?[A-Za-z][\w:.-]*+(?:\s[^<>]*+)?/?>)
    | (?P<entity>&(?:[A-Za-z][A-Za-z0-9]{1,31}|\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6});)
    | (?P<percentage>[0-9]%(?!%))
    | (?P<named>
        %\([^()\s]{1,80}\)[-+\#0]*[0-9]{0,9}(?:\.[0-9]{1,9})?[a-zA-Z]
      | [$%\#]?\{\{\s*+[\w.-]++\s*+\}\}
      | [$%\#]?\{[\w.\[\]]{1,80}(?:![rsa])?(?::[^{}\s]{0,80})?\}
      | %[1-9][0-9]?\$[-+\#0]*[0-9]{0,9}(?:\.[0-9]{1,9})?[hlLqjzt]{0,2}[a-zA-Z@]
      | %%
    )
    | (?P<in_order>
        %[-+\#0]*(?:[0-9]{1,9}|\*)?(?:\.(?:[0-9]{1,9}|\*))?[hlLqjzt]{0,2}[diouxXeEfFgGcsra@]
      | \{(?:![rsa])?(?::[^{}\s]{0,80})?\}
    )
    | (?P<numbered>%L?[1-9][0-9]?(?![0-9$]))
    """,
    re.VERBOSE,
)
_KEPT_IN_ORDER = frozenset(("tag", "in_order"))
_OPENING = "([{<„“«‚‘\"'¿¡"  # noqa: RUF001


@dataclass(frozen=True)
class PlaceholderChanges:
    """How the placeholders of a translation differ from those of its source.

    Args:
        lost: those that did not come back, as often as they are missing.
        added: those that only the translation has.
        reordered: whether tags, or what is filled in by order, stand in another order.
    """

    lost: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    reordered: bool = False

    def __bool__(self) -> bool:
        return bool(self.lost or self.added or self.reordered)


def find_placeholders(text: str) -> list[str]:
    """The placeholders of a text, in order."""
    return [match[0] for match in _matches(text)]


def placeholder_spans(text: str) -> list[tuple[int, int]]:
    """Where they begin and end."""
    return [match.span() for match in _matches(text)]


def _matches(text: str) -> Iterator[re.Match[str]]:
    return (match for match in _PLACEHOLDER.finditer(text) if match.lastgroup != "percentage")


def placeholder_changes(source: str, translation: str) -> PlaceholderChanges:
    """What is lost, added or in another order; false where all came back."""
    before, after = (list(_matches(text)) for text in (source, translation))
    wanted, found = (Counter(match[0] for match in matches) for matches in (before, after))
    lost, added = wanted - found, found - wanted
    orders = [
        [match[0] for match in matches if match.lastgroup in _KEPT_IN_ORDER]
        for matches in (before, after)
    ]
    return PlaceholderChanges(
        tuple(lost.elements()), tuple(added.elements()), wanted == found and orders[0] != orders[1]
    )


def split_at_placeholders(text: str) -> list[tuple[str, str]]:
    """The words between the placeholders, each with what stands after it, placeholders included.

    Joined again they are the text. The first words are "" where a placeholder begins the text.
    White space, marks before words and opening brackets after them go with the placeholders; so do
    marks without any words, which no model need see.
    """
    parts = [("", "")]
    end = 0
    for start, stop in [*placeholder_spans(text), (len(text), len(text))]:
        before, words, after = _trimmed(text[end:start])
        fixed = after + text[start:stop]
        _append(parts, "", before)
        # Alone they may hold what was none beside their neighbors.
        if words != text and find_placeholders(words):
            for part in split_at_placeholders(words):
                _append(parts, *part)
            _append(parts, "", fixed)
        else:
            _append(parts, words, fixed)
        end = stop
    return parts if parts[0] != ("", "") else parts[1:]


def _append(parts: list[tuple[str, str]], words: str, fixed: str) -> None:
    if words:
        parts.append((words, fixed))
    else:
        parts[-1] = (parts[-1][0], parts[-1][1] + fixed)


def _trimmed(text: str) -> tuple[str, str, str]:
    """What stands before the words, the words, and what stands after them."""
    start = next((k for k, character in enumerate(text) if character.isalnum()), None)
    if start is None:
        return text, "", ""
    end = len(text)
    while text[end - 1].isspace() or text[end - 1] in _OPENING:
        end -= 1
    return text[:start], text[start:end], text[end:]


def without_placeholders(text: str) -> str:
    """The text with a space in place of each placeholder."""
    while True:
        # Again: what stood around one may be another.
        found = placeholder_spans(text)
        if not found:
            return text
        ends = [0, *(end for _, end in found)]
        starts = [*(start for start, _ in found), len(text)]
        text = " ".join(text[end:start] for end, start in zip(ends, starts, strict=True))
