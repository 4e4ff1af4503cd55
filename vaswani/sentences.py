"""Splits a text into sentences by a small, conservative rule.

    split_sentences       sentences and the white space after each

Where the rule is in doubt it does not split: two sentences in one piece translate better than half
of one. A sentence ends

- after `.`, `!`, `?` or an ellipsis, with the closing quotes and brackets that follow, before white
  space and then a letter that is not lower-case, a digit or an opening quote or bracket;
- after the full-width marks of Chinese and Japanese, white space or not;
- at a line end.

A period ends no sentence after an abbreviation of the list below, after a single letter other than
the English I (J. Smith, z. B.), or after a number of one or two digits (German: am 3. Mai).
"""

import re

_ABBREVIATIONS = {
    *("mr", "mrs", "ms", "dr", "prof", "st", "vs", "etc", "jr", "sr", "gen", "col", "capt"),
    *("lt", "sgt", "rev", "hon", "gov", "rep", "vol", "fig", "pp", "cf", "approx", "dept"),
    *("inc", "ltd", "corp", "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept"),
    *("oct", "nov", "dec", "bzw", "ca", "evtl", "ggf", "hr", "fr", "frl", "inkl", "mio", "mrd"),
    *("nr", "sog", "tel", "usw", "vgl", "zzgl", "bspw", "hrsg", "jh"),
    *("mm", "mme", "mmes", "mlle", "mlles", "mgr", "env", "chap"),
    *("sra", "sres", "srta", "dra", "ud", "uds", "pág", "págs", "núm"),
}
_LONGEST = max(map(len, _ABBREVIATIONS))

# Possessive (++) and anchored at the first mark, so that a run of marks takes linear time.
_END = re.compile(
    r"""(?<![.!?…])(?P<mark>[.!?…]++)["'”’»«)\]]*+\s++(?=[^\W_a-z]|["'“‘„«»(\[¿¡])"""  # noqa: RUF001
    r"""|(?<![。！？])[。！？]++[」』”）]*+\s*+(?=\S)"""  # noqa: RUF001
    r"""|\n\s*+(?=\S)"""
)
_LAST_WORD = re.compile(r"\w+\Z")


def split_sentences(text: str) -> list[tuple[str, str]]:
    """The sentences of a text, each with the white space that follows it.

    Joined again they are the text, without the white space at its two ends.
    """
    text = text.strip()
    pieces = []
    start = 0
    for match in _END.finditer(text):
        if match["mark"] and not _is_end(text, match):
            continue
        sentence = text[start : match.end()].rstrip()
        if sentence:
            pieces.append((sentence, text[start + len(sentence) : match.end()]))
            start = match.end()
    return [*pieces, (text[start:], "")] if text else []


def _is_end(text: str, match: re.Match[str]) -> bool:
    """Whether the marks found, with white space after them, end a sentence."""
    if "\n" in match[0]:
        return True
    if text[match.end()].islower():
        return False
    if match["mark"] != ".":
        return True
    found = _LAST_WORD.search(text[max(match.start() - _LONGEST - 1, 0) : match.start()])
    word = found[0].lower() if found else ""
    ordinal = word.isdigit() and len(word) <= 2
    initial = len(word) == 1 and word.isalpha() and word != "i"
    return not (ordinal or initial or word in _ABBREVIATIONS)
