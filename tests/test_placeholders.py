"""Claims about `vaswani.placeholders`."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani.placeholders import (
    PlaceholderChanges,
    find_placeholders,
    placeholder_changes,
    split_at_placeholders,
    without_placeholders,
)

PLACEHOLDERS = [
    *(
        "%s",
        "%d",
        "%05.2f",
        "%(name)s",
        "%(count)03d",
        "%1$s",
        "%1",
        "%L2",
        "%%",
        "%{user}",
        "%-8s",
    ),
    *("{}", "{0}", "{name}", "{price:.2f}", "{item!r}", "{{ name }}", "{{name}}", "${HOME}"),
    *("<b>", "</b>", "<br/>", '<a href="x.html" title="A. B">', "</s>", "<img src=x />"),
    *("&amp;", "&#8230;", "&#x2026;"),
    *("https://example.org/a?b=c&d=e#f", "www.example.org", "ftp://a.b/c_d"),
    *("ann.lee@example.org", "a+b@mail.example.co.uk"),
]


@pytest.mark.parametrize("placeholder", PLACEHOLDERS)
def test_each_kind_is_found_whole(placeholder) -> None:
    for text in (placeholder, f"See {placeholder} now", f"({placeholder}).", f"a {placeholder}, b"):
        assert find_placeholders(text) == [placeholder]


@pytest.mark.parametrize(
    "text",
    [
        *("100% sure", "It is 100%ig.", "5 < 6 and 7 > 3", "a <3 b", "AT&T", "R&D;", "a @ b"),
        *("{not one}", "{ }", "50 %", "<0x41>", "www", "http://", "&;", "% s"),
    ],
)
def test_plain_text_has_none(text) -> None:
    assert find_placeholders(text) == []


def test_order_counts_for_tags_and_what_is_filled_in_by_order() -> None:
    """By hand: a program puts its first value at the first %s, wherever that stands."""
    assert placeholder_changes("%s of %d", "%d von %s").reordered
    assert placeholder_changes("<b>x</b>", "</b>x<b>").reordered
    assert not placeholder_changes("{a} of {b}", "{b} von {a}")
    assert not placeholder_changes("%1$s of %2$s", "%2$s von %1$s")
    assert find_placeholders("%1%2 of 5%%%s, 3%d") == ["%1", "%2", "%%", "%s"]
    changes = placeholder_changes("%s, %s and &amp;", "%s und {x}")
    assert (changes.lost, changes.added) == (("%s", "&amp;"), ("{x}",))
    assert not placeholder_changes("x", "y")


TEXTS = st.lists(
    st.sampled_from([*PLACEHOLDERS, "word", "Über", " ", "\t", ".", ": ", "(", "%", "{", "<", "x"])
    | st.text(max_size=3),
    max_size=12,
).map("".join)


@given(TEXTS)
def test_parts_join_to_the_text_and_hold_no_placeholder(text) -> None:
    """Protect + restore = identity; what goes through a model has none."""
    parts = split_at_placeholders(text)
    assert "".join(words + fixed for words, fixed in parts) == text
    assert all(words == words.strip() for words, _ in parts)
    assert all(words for words, _ in parts[1:])
    assert not any(find_placeholders(words) for words, _ in parts)


def test_marks_go_with_the_placeholder_and_words_stay_whole() -> None:
    assert split_at_placeholders("%s: no such file (%d).") == [
        ("", "%s: "), ("no such file", " (%d)."),
    ]  # fmt: skip
    assert split_at_placeholders("<b>Stop!</b>") == [("", "<b>"), ("Stop!", "</b>")]
    assert split_at_placeholders("no") == [("no", "")]
    assert split_at_placeholders("") == []


@given(TEXTS)
def test_nothing_is_left_when_they_are_taken_out(text) -> None:
    assert find_placeholders(without_placeholders(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        *("a" * 300_000, "<a" * 100_000, "<a " * 100_000, "%(" * 100_000, "{a" * 100_000),
        *("a.b@" * 80_000, "a@b." * 80_000, "http://" + "." * 200_000, "&a" * 100_000),
        *("{{ a" * 80_000, "{{" + " " * 200_000, "%" * 200_000),
    ],
)
def test_long_runs_take_linear_time(text) -> None:
    """A quadratic scan of such a line would take minutes."""
    start = time.process_time()
    find_placeholders(text)
    assert time.process_time() - start < 5


def test_what_is_lost_or_added_does_not_count_as_reordered_too() -> None:
    assert placeholder_changes("%s of %d", "%d") == PlaceholderChanges(lost=("%s",))
    assert placeholder_changes("<b>x</b>", "</b>x<b><i>") == PlaceholderChanges(added=("<i>",))
