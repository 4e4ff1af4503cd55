"""Claims about codes of languages; the examples of matching are those of RFC 4647 and its rule."""

import pytest

from vaswani.corpus_languages import language_doubt, language_matches, language_tag


@pytest.mark.parametrize(
    ("code", "tag"),
    [
        ("de", "de"),
        ("DE", "de"),
        ("de_DE", "de-de"),
        ("fr-FR", "fr-fr"),
        ("pt_BR.UTF-8", "pt-br"),
        ("sr@latin", "sr-latin"),
        ("sr_RS.UTF-8@latin", "sr-rs-latin"),
        (" en ", "en"),
        ("", ""),
    ],
)
def test_spellings_of_a_language_have_one_tag(code: str, tag: str) -> None:
    assert language_tag(code) == tag


@pytest.mark.parametrize(
    ("asked", "found", "matches"),
    [
        ("en", "en", True),
        ("en", "en-US", True),
        ("EN", "en_us", True),
        ("de-de", "de-DE-1996", True),
        ("de-de", "de-Deva", False),
        ("de-de", "de-Latn-DE", False),
        ("en-GB", "en", False),
        ("en-GB", "en-US", False),
        ("e", "en", False),
        ("de", "den", False),
        ("de", "", False),
    ],
)
def test_language_matches_its_own_kinds_only(asked: str, found: str, matches: bool) -> None:
    assert language_matches(asked, found) is matches


@pytest.mark.parametrize(
    ("code", "doubted"),
    [
        ("en", False),
        ("gsw", False),
        ("zh-Hans", False),
        ("sr@latin", False),
        ("pt_BR", False),
        ("xx", False),
        ("x-mine", False),
        ("english", True),
        ("e", True),
        ("source", True),
        ("e1", True),
        ("中文", True),
    ],
)
def test_what_cannot_be_a_code_of_bcp_47_is_doubted(code: str, doubted: bool) -> None:
    """RFC 5646, section 2.1; whether the language exists is not asked."""
    doubt = language_doubt("source", code)
    assert bool(doubt) is doubted
    assert not doubted or ("`source` should be a language code" in doubt and repr(code) in doubt)
