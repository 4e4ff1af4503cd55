"""Which pairs each filter objects to, and how filters are named."""

import sys

import numpy as np
import pytest

from vaswani.corpus_filters import (
    DEFAULT_FILTERS,
    FILTERS,
    PairBlock,
    parse_filters,
)
from vaswani.errors import InputError


def objected(word: str, *pairs: tuple[str, str], source: str = "en", target: str = "de") -> list:
    """Which pairs the filter would drop."""
    (made,) = parse_filters([word])
    made.prepare(source, target)
    block = PairBlock(([pair[0] for pair in pairs], [pair[1] for pair in pairs]))
    return made.objects(block, np.ones(len(pairs), dtype=np.bool_)).tolist()


@pytest.mark.parametrize(
    ("word", "source", "target", "dropped"),
    [
        # A bound is inclusive.
        ("length:least=2:most=3", "two words", "now three words", False),
        ("length:least=2:most=3", "one", "two words", True),
        ("length:least=2:most=3", "two words", "here are four words", True),
        ("length:unit=characters:most=4", "four", "fünf", False),
        ("length:unit=characters:most=4", "five5", "fünf", True),
        ("length", "word " * 200, "Wort", False),
        ("length", "word " * 201, "Wort", True),
        # 3 * 5 + 15 = 30
        ("length-ratio", "a" * 5, "b" * 30, False),
        ("length-ratio", "a" * 5, "b" * 31, True),
        ("length-ratio", "b" * 31, "a" * 5, True),
        ("length-ratio:most=1.5:slack=0", "aa", "bbb", False),
        ("length-ratio:most=1.5:slack=0", "aa", "bbbb", True),
        # Two wide characters are as wide as four others.
        ("length-ratio:most=1:slack=0", "four", "四个", False),
        ("identical", "Radio", "Radio", True),
        ("identical", "Radio", "radio", False),
        # Six letters and six others; then seven others.
        ("symbols", "abcdef 123456", "Wort", False),
        ("symbols", "abcdef 123456.", "Wort", True),
        ("symbols", "Wort", "--- 12 ---", True),
        ("symbols", "Wort", "क्या", False),
        ("symbols:least=0", "---", "...", False),
        ("script", "plain English", "ein Satz", False),
        ("script", "plain English", "не по-немецки", True),
        ("script", "1 + 1 = 2", "ein Satz", False),
        ("script", "αβ ab", "Maß: ㎏", False),
        ("script", "αβγ ab", "Satz", True),
        ("script:least=0.9", "alphabet Ω", "Satz", True),
        ("copied-source", "The old red house", "The old red Haus", True),
        ("copied-source", "The old red house", "THE OLD, Das Haus", False),
        ("copied-source", "Tom and Eva", "Tom und Eva", False),
        # What has to be kept is not copied.
        ("copied-source", "{one} %(two)s <b>x</b> and", "{one} %(two)s <b>x</b> und", False),
        ("copied-source", "{a} The old red house", "{a} The old red Haus", True),
        ("copied-source:least-words=3", "Tom and Eva", "Tom und Eva", True),
        ("copied-source", "See 1 2 3 4", "Siehe 1 2 3 4", False),
    ],
)
def test_filter_keeps_its_rule(word: str, source: str, target: str, dropped: bool) -> None:
    assert objected(word, (source, target)) == [dropped]


def test_script_judges_each_side_by_its_own_language() -> None:
    pairs = [("слово", "word"), ("word", "слово"), ("一个", "word")]
    assert objected("script", *pairs, source="ru", target="en") == [False, True, True]
    assert objected("script", *pairs, source="ja", target="en") == [True, True, False]


def test_script_lets_an_unknown_language_pass_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pairs = [("слово", "word"), ("слово", "слово")]
    assert objected("script", *pairs, source="xx", target="en") == [False, True]
    assert "no script of 'xx'" in caplog.text


def test_first_of_its_kind_passes() -> None:
    pairs = [
        ("Page 1", "Seite 1"),
        ("page 22!", "SEITE 3"),
        ("Page 1", "Seite 1"),
        ("Page 1", "S."),
    ]
    assert objected("duplicates", *pairs) == [False, False, True, False]
    assert objected("near-duplicates", *pairs) == [False, True, True, False]


def test_tab_in_a_text_does_not_make_two_pairs_equal() -> None:
    assert objected("duplicates", ("a\tb", "c"), ("a", "b\tc")) == [False, False]


def test_language_is_told_by_a_model() -> None:
    pytest.importorskip("py3langid")
    english = "The committee will meet again in the first week of March to decide about the bridge."
    german = (
        "Der Ausschuss trifft sich in der ersten Märzwoche wieder und entscheidet über die Brücke."
    )
    pairs = [(english, german), (german, english), (english, english), ("Ja", "Yes")]
    assert objected("language", *pairs) == [False, True, True, False]
    assert objected("language", (english, german), source="en-US", target="de_AT") == [False]


def test_language_that_the_model_lacks_is_refused() -> None:
    pytest.importorskip("py3langid")
    with pytest.raises(InputError, match=r"`language` must be left out .* got 'xx'"):
        objected("language", ("a", "b"), source="xx")


def test_language_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from vaswani import corpus_filters

    corpus_filters._identifier.cache_clear()
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    monkeypatch.setitem(sys.modules, "py3langid", None)
    with pytest.raises(InputError, match=r"pip install 'vaswani\[language\]'"):
        objected("language", ("a", "b"))


def test_default_is_every_filter_but_language() -> None:
    assert [str(each) for each in parse_filters(["default"])] == list(DEFAULT_FILTERS)
    assert set(FILTERS) - set(DEFAULT_FILTERS) == {"language"}


def test_filter_is_spelled_as_one_would_type_it() -> None:
    words = ["length:least=2:unit=characters", "length", "length-ratio:most=2.5"]
    assert [str(each) for each in parse_filters(words)] == words
    assert str(parse_filters(["length:most=200"])[0]) == "length"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (
            "lenght",
            r"`filters` must be of default, length, .* got 'lenght'\. Did you mean length\?",
        ),
        ("", r"`filters` must be of .* got ''\."),
        ("length:leest=3", r"settings of least, most, unit, got 'leest'\. Did you mean least\?"),
        ("identical:most=3", "settings of no name, got 'most'"),
        ("length:most", "must have key=value, got 'most'"),
        ("length:most=2.5", "`most` of `length` must be a whole number from 1 up, got '2.5'"),
        ("length:most=-1", "whole number from 1 up, got '-1'"),
        ("length:unit=bytes", "must be words or characters, got 'bytes'"),
        ("length:least=9:most=3", "`least` of `length` must be at most `most` = 3, got 9"),
        ("symbols:least=1.5", "`least` of `symbols` must be a number from 0 to 1, got '1.5'"),
        ("length-ratio:most=nan", "a number from 1 up, got 'nan'"),
        ("length-ratio:most=inf", "a number from 1 up, got 'inf'"),
    ],
)
def test_wrong_filter_is_refused_in_one_line(word: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_filters([word])


def test_filter_is_not_named_twice() -> None:
    with pytest.raises(InputError, match="each filter once, got 'identical' again"):
        parse_filters(["default", "identical"])
