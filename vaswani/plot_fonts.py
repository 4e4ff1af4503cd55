"""Fonts for the text of a picture: every character gets one that has a glyph for it.

    font_families      names of fonts that together cover some texts

matplotlib brings DejaVu Sans (Latin, Greek, Cyrillic, Arabic, Hebrew, Armenian, Georgian and more,
but not Devanagari, Thai, Chinese, Japanese or Korean). It looks for other glyphs only in fonts that
it is told of, and remembers which fonts were installed when it first ran; so installed fonts are
searched here, by what they cover. Shaping and right-to-left order are matplotlib's own (libraqm,
from 3.11 on).
"""

import logging
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from fontTools import unicodedata as scripts
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

from vaswani.errors import InputError

logger = logging.getLogger(__name__)

USUAL_FAMILY = "DejaVu Sans"
_FONT_SUFFIXES = (".ttf", ".otf", ".ttc", ".otc")
_NAMED_CHARACTERS = 5


def font_families(texts: Iterable[str], *, fonts: Sequence[str | Path] = ()) -> list[str]:
    """Returns the names of fonts that together have the glyphs of `texts`, for matplotlib.

    Characters that no font has are named in one warning of the log, with their script and what to
    install; matplotlib draws a box for them.

    Args:
        texts: all that will be written.
        fonts: font files to take before those that are installed.

    Raises:
        InputError: if one of `fonts` is no font that matplotlib can draw with.
        FileNotFoundError: if one of them does not exist.
    """
    missing = {ord(char) for text in texts for char in text if _needs_glyph(char)}
    families = []
    for path in fonts:
        faces = _faces_of(path)
        families.append(faces[0][1])
        missing -= faces[0][2]
    families.append(USUAL_FAMILY)
    missing -= _coverage(font_manager.findfont(USUAL_FAMILY), 0)
    while missing:
        found = _best_face(missing)
        if found is None:
            _warn_of_missing(missing)
            break
        family, covered = found
        families.append(family)
        missing -= covered
    return families


def _needs_glyph(char: str) -> bool:
    """All but spaces, joiners, variation selectors and others that are never seen themselves."""
    unseen = unicodedata.category(char) in ("Cc", "Cf", "Zs", "Zl", "Zp")
    return not unseen and not 0xFE00 <= ord(char) <= 0xFE0F


def _faces_of(path: str | Path) -> list[tuple[int, str, frozenset[int]]]:
    """Number, family and characters of each face in a font file, made known to matplotlib."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"`font` must be an existing font file, got {path}.")
    try:
        if not FT2Font(path).scalable:
            raise RuntimeError("its glyphs are bitmaps")
        return list(_registered_faces(str(path)))
    except RuntimeError as error:
        raise InputError(
            f"`font` must be a TrueType or OpenType font, got {path}: "
            f"{' '.join(str(error).split())}."
        ) from error


def _registered_faces(path: str) -> Iterator[tuple[int, str, frozenset[int]]]:
    if not any(entry.fname == path for entry in font_manager.fontManager.ttflist):
        font_manager.fontManager.addfont(path)
    for number in range(FT2Font(path).num_faces):
        yield number, FT2Font(path, face_index=number).family_name, _coverage(path, number)


@lru_cache(maxsize=2048)
def _coverage(path: str, face: int) -> frozenset[int]:
    return frozenset(FT2Font(path, face_index=face).get_charmap())


def _best_face(missing: set[int]) -> tuple[str, frozenset[int]] | None:
    """The installed font with most of the characters; upright, regular, without serifs if any."""
    best: tuple[tuple[int, int, int, str], str, int] | None = None
    for path, face, family, plainness in _installed_faces():
        covered = len(missing & _coverage(path, face))
        rank = (-covered, -plainness, len(family), family)
        if covered and (best is None or rank < best[0]):
            best = (rank, path, face)
    if best is None:
        return None
    _, path, face = best
    known = any(entry.fname == path for entry in font_manager.fontManager.ttflist)
    if not known:
        font_manager.fontManager.addfont(path)
    return FT2Font(path, face_index=face).family_name, _coverage(path, face)


@lru_cache(maxsize=1)
def _installed_faces() -> tuple[tuple[str, int, str, int], ...]:
    """Path, number, family and plainness of every scalable upright regular face."""
    faces = []
    for path in sorted(font_manager.findSystemFonts()):
        if Path(path).suffix.lower() not in _FONT_SUFFIXES:
            continue
        try:
            for number in range(FT2Font(path).num_faces):
                font = FT2Font(path, face_index=number)
                style = font.style_name.lower()
                if not font.scalable or "bold" in style or "italic" in style or "obl" in style:
                    continue
                family = font.family_name
                # Last Resort has a glyph for everything, but they are boxes.
                if "last resort" in family.lower() or "lastresort" in family.lower():
                    continue
                plain = 2 * ("sans" in family.lower()) + (style in ("regular", "book", "roman"))
                faces.append((path, number, family, plain - 4 * ("mono" in family.lower())))
        except RuntimeError:
            continue  # a file that FreeType cannot read is no font for us
    return tuple(faces)


def _warn_of_missing(missing: set[int]) -> None:
    names = sorted({_script_name(code) for code in missing} - {"symbol"}) or ["symbol"]
    # A mark alone is no character that a reader knows.
    readable = [code for code in sorted(missing) if unicodedata.category(chr(code))[0] != "M"]
    some = (readable or sorted(missing))[:_NAMED_CHARACTERS]
    more = f" and {len(missing) - len(some)} more" if len(missing) > len(some) else ""
    logger.warning(
        "No installed font has the %s characters %s%s: a PNG shows boxes in their place; an SVG "
        "keeps them as text. Install a font for them, such as Noto Sans (Debian and Ubuntu: "
        "fonts-noto-core, fonts-noto-cjk), or name its file with `--font`.",
        " and ".join(names),
        " ".join(map(chr, some)),
        more,
    )


def _script_name(code: int) -> str:
    name = scripts.script_name(scripts.script(chr(code)))
    return "symbol" if name in ("Common", "Inherited", "Unknown") else name
