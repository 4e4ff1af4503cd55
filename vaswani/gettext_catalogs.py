"""Sentence pairs out of the message catalogs of programs, .po and .mo.

    read_catalog          the pairs of one catalog, and what was left out
    package_catalogs      the catalogs of a language that an installed package carries

- Babel parses the files; a catalog is held in memory. Its encoding is what its header says.
- Left out, counted by reason: the header, entries that are fuzzy, obsolete or untranslated (empty,
  or the same as the message), those with plural forms, and what `corpus_messages` finds to be no
  sentence pair.
- A context (`msgctxt`) tells entries apart and is no part of the text.
- Messages are English unless the header says otherwise in `X-Source-Language`. The catalog's own
  language is the folder around `LC_MESSAGES`, or else the header's `Language`, or else the name of
  the file.
"""

import codecs
import re
from collections import Counter
from dataclasses import dataclass, field
from importlib import metadata
from io import BytesIO
from pathlib import Path
from typing import Any

from vaswani.compressed_files import opened_for_reading
from vaswani.corpus_languages import language_matches, language_tag
from vaswani.corpus_messages import sentence_pair
from vaswani.errors import InputError

_SOURCE_LANGUAGE = re.compile(rb"X-Source-Language:[ \t]*([\w@.-]+)")
_LANGUAGE_NAME = re.compile(r"[a-z]{2,3}([_-][A-Za-z0-9]{2,8})*(\.[\w-]+)?(@\w+)?")


@dataclass
class Catalog:
    """The pairs of a catalog, its messages first, and what became of the other entries."""

    source_language: str
    language: str  # "" where nothing tells it
    pairs: list[tuple[str, str]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)


def read_catalog(path: Path, kind: str) -> Catalog:
    """The pairs of one catalog.

    Args:
        path: the file, which may be packed.
        kind: `po` or `mo`.

    Raises:
        InputError: if the file is no catalog, or damaged.
    """
    with opened_for_reading(path) as stream:
        data = stream.read()
    entries = _parsed(path, kind, data)
    found = _SOURCE_LANGUAGE.search(data)
    catalog = Catalog(
        found[1].decode(errors="replace") if found else "en",
        _folder_language(path) or str(entries.locale_identifier or "") or _name_language(path),
    )
    catalog.skipped["obsolete"] += len(entries.obsolete)
    for entry in entries:
        message, translation = entry.id, entry.string
        if not message:
            reason = "header"
        elif isinstance(message, list | tuple) or isinstance(translation, list | tuple):
            reason = "plural"
        elif not translation or translation.isspace():
            reason = "untranslated"
        elif entry.fuzzy:
            reason = "fuzzy"
        elif message == translation:
            reason = "same as the message"
        else:
            pair = sentence_pair(message, translation)
            if not isinstance(pair, str):
                catalog.pairs.append((pair.source, pair.target))
                catalog.changed += pair.changes
                continue
            reason = pair
        catalog.skipped[reason] += 1
    catalog.skipped = +catalog.skipped
    return catalog


def _parsed(path: Path, kind: str, data: bytes) -> Any:
    """Babel's catalog of the bytes."""
    try:
        from babel.messages.mofile import read_mo
        from babel.messages.pofile import PoFileError, read_po
    except ImportError as error:
        raise ImportError("Catalogs need `babel`: pip install 'vaswani[data]'.") from error
    try:
        if kind == "mo":
            return read_mo(BytesIO(data))
        # Without `abort_invalid` the library prints to stdout and goes on with what it understood.
        return read_po(BytesIO(data.removeprefix(codecs.BOM_UTF8)), abort_invalid=True)
    except PoFileError as error:
        got = f"{error} (line {error.lineno + 1})"
        cause: Exception = error
    except Exception as error:  # the library has no error of its own for damaged bytes
        got = str(getattr(error, "strerror", None) or error) or type(error).__name__
        cause = error
    raise InputError(
        f"{path} must be a .{kind} catalog, got {' '.join(got.split())[:200]}. "
        "The file is truncated or damaged: fetch it again, or correct that place."
    ) from cause


def _folder_language(path: Path) -> str:
    parts = path.parts
    return parts[-3] if len(parts) > 2 and parts[-2] == "LC_MESSAGES" else ""


def _name_language(path: Path) -> str:
    name = path.name.partition(".")[0]
    return name if _LANGUAGE_NAME.fullmatch(name) else ""


def package_catalogs(package: str, language: str) -> list[Path]:
    """The catalogs of a language among the files of an installed package, sorted.

    Those whose language is spelt exactly so, or, if there are none, those of all its kinds:
    `de` takes `de_AT` only where there is no `de`. Of a .po and a .mo of one name, the .po.

    Raises:
        InputError: if the package isn't installed, or has no catalog of the language.
    """
    try:
        files = metadata.files(package) or []
    except (metadata.PackageNotFoundError, ValueError) as error:
        raise InputError(
            f"`--package` must be an installed package, got {package!r}. "
            f"Install it first: pip install {package}."
        ) from error
    found: dict[Path, str] = {}
    for file in sorted(files, key=lambda file: str(file)):
        path = Path(str(file.locate())).resolve()
        name = _folder_language(path) or _name_language(path)
        if path.suffix in (".mo", ".po") and name and path.is_file():
            found[path] = name
    exact = [path for path in found if language_tag(found[path]) == language_tag(language)]
    chosen = exact or [path for path in found if language_matches(language, found[path])]
    if not chosen:
        languages = ", ".join(sorted(set(found.values()))) or "no catalogs"
        raise InputError(
            f"`--language` must be one of those in {package}, got {language!r}. It has {languages}."
        )
    kept = set(chosen)
    return sorted(p for p in chosen if p.suffix == ".po" or p.with_suffix(".po") not in kept)
