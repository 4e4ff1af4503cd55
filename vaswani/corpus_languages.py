"""Codes of languages, as people write them in files, folders and commands.

    language_tag          `de_DE.UTF-8` -> `de-de`, so that two spellings of one language are equal
    language_doubt        what is odd about a code, in a sentence, if anything is
    language_matches      whether a text in one language serves somebody who asks for another

The rule is the basic filtering of RFC 4647, section 3.3.1: `en` asks for every English, `en-GB` for
that of Great Britain alone, which a text that is marked `en` does not claim to be.
"""


def language_tag(code: str) -> str:
    """The code in lower case, with hyphens and without encoding; `sr@latin` is `sr-latin`."""
    name, _, modifier = code.strip().partition("@")
    name = name.partition(".")[0]
    return "-".join(filter(None, (name, modifier))).replace("_", "-").lower()


def language_doubt(setting: str, code: str) -> str:
    """A sentence about a code that cannot be one of BCP 47; "" if it may be one.

    Source: RFC 5646, section 2.1: the first part of a tag is of 2 or 3 letters (4 are reserved, of
    5 to 8 none is registered), or an `x` or `i` with more parts after it. Whether a language of
    that code exists is not asked: the keys of somebody's records may be any.
    """
    first, *others = language_tag(code).split("-")
    letters = first.isascii() and first.isalpha()
    if letters and (len(first) in (2, 3) or (first in ("x", "i") and others)):
        return ""
    return (
        f"`{setting}` should be a language code of BCP 47, two or three letters such as en, "
        f"got {code!r}. It is used as it is."
    )


def language_matches(asked: str, found: str) -> bool:
    """Whether `found` is the language that was asked for, or one of its kinds."""
    wanted = language_tag(asked)
    return f"{language_tag(found)}-".startswith(f"{wanted}-")
