"""Codes of languages, as people write them in files, folders and commands.

    language_tag          `de_DE.UTF-8` -> `de-de`, so that two spellings of one language are equal
    language_matches      whether a text in one language serves somebody who asks for another

The rule is the basic filtering of RFC 4647, section 3.3.1: `en` asks for every English, `en-GB` for
that of Great Britain alone, which a text that is marked `en` does not claim to be.
"""


def language_tag(code: str) -> str:
    """The code in lower case, with hyphens and without encoding; `sr@latin` is `sr-latin`."""
    name, _, modifier = code.strip().partition("@")
    name = name.partition(".")[0]
    return "-".join(filter(None, (name, modifier))).replace("_", "-").lower()


def language_matches(asked: str, found: str) -> bool:
    """Whether `found` is the language that was asked for, or one of its kinds."""
    wanted = language_tag(asked)
    return f"{language_tag(found)}-".startswith(f"{wanted}-")
