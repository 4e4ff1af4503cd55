"""Translation units out of TMX 1.4 (LISA OSCAR, 2005), unit by unit.

    units                 the translation units of a file, with the text of each language

- Parsed by defusedxml: nothing is fetched, not even the DTD that a DOCTYPE names, and a file that
  declares entities is refused. Memory is that of one unit.
- The encoding is what the byte order mark or the XML declaration says.
- A file that isn't well-formed to its end is an error, after the units before that place.
- Inline elements: `bpt`, `ept`, `it`, `ph`, `ut` hold the formatting codes of some program, so they
  go with all that is in them, a `sub` included, which is a text apart (a footnote, a title).
  `hi` and any other element goes, too, but its text stays. In place of `ph` or `ut` comes a space
  where two letters or digits would otherwise meet.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax import SAXException, SAXParseException
from xml.sax.handler import ContentHandler, feature_external_ges

from vaswani.compressed_files import opened_for_reading
from vaswani.errors import InputError

_READ_BYTES = 1 << 16
_CODES = {"bpt", "ept", "it", "ph", "ut"}
_STANDALONE = {"ph", "ut"}


@dataclass
class Variant:
    """A text in one language, and how many inline codes were left out of it."""

    language: str
    text: str = ""
    codes: int = 0


@dataclass
class Unit:
    """A translation unit and the line on which it begins."""

    line: int
    variants: list[Variant] = field(default_factory=list)


def units(path: Path) -> Iterator[Unit]:
    """Yields the translation units of a file in order.

    Raises:
        InputError: if the file is no TMX, is damaged or ends too soon, or declares entities.
    """
    expatreader = _import_expatreader()
    from defusedxml.common import DefusedXmlException, EntitiesForbidden

    # A DOCTYPE may name a DTD, as every TMX 1.4 does; without the feature nothing is fetched.
    parser = expatreader.create_parser(
        forbid_dtd=False, forbid_entities=True, forbid_external=False
    )
    parser.setFeature(feature_external_ges, False)
    handler = _Units(parser)
    parser.setContentHandler(handler)
    with opened_for_reading(path) as stream:
        more = True
        while more:
            data = stream.read(_READ_BYTES)
            more = bool(data)
            try:
                if more:
                    parser.feed(data)
                else:
                    parser.close()
            except EntitiesForbidden as error:
                raise _error(path, parser, f"the entity {error.name!r}", _NO_ENTITIES) from error
            except SAXParseException as error:
                raise _error(path, parser, error.getMessage(), _BROKEN) from error
            except (SAXException, DefusedXmlException) as error:
                raise _error(path, parser, str(error), _BROKEN) from error
            except (ValueError, LookupError) as error:  # of the encoding that the file declares
                raise _error(path, parser, str(error), "Convert the file to UTF-8.") from error
            finished, handler.finished = handler.finished, []
            yield from finished
    if not handler.has_root:
        raise _error(path, parser, "an empty file", _BROKEN)


_BROKEN = "The file is truncated or damaged, or no TMX: fetch it again."
_NO_ENTITIES = "Write the characters themselves: a file that declares entities is not read."


def _error(path: Path, parser: Any, got: str, remedy: str) -> InputError:
    line = parser.getLineNumber() or 1
    return InputError(f"{path}, line {line}: must be well-formed TMX, got {got}. {remedy}")


def _import_expatreader() -> Any:
    try:
        from defusedxml import expatreader
    except ImportError as error:
        raise ImportError("TMX needs `defusedxml`: pip install 'vaswani[data]'.") from error
    return expatreader


class _Units(ContentHandler):
    """Collects finished units; the parser calls the methods."""

    def __init__(self, parser: Any) -> None:
        super().__init__()
        self.parser = parser
        self.finished: list[Unit] = []
        self.has_root = False
        self.depth = 0
        self.unit: Unit | None = None
        self.variant: Variant | None = None
        self.segment: list[str] | None = None
        self.code_depth = 0  # that of the outermost inline code which is open, or 0
        self.gap = False  # a standalone code was left out after what `segment` holds

    def startElement(self, name: str, attrs: Any) -> None:
        self.depth += 1
        self.has_root = True
        if self.depth == 1 and name != "tmx":
            raise SAXException(f"the root element <{name}>")
        if self.segment is not None:
            if name in _CODES and not self.code_depth:
                self.code_depth = self.depth
                self.gap |= name in _STANDALONE
                assert self.variant is not None
                self.variant.codes += 1
        elif name == "tu":
            self.unit = Unit(self.parser.getLineNumber())
        elif name == "tuv" and self.unit is not None:
            # TMX 1.4 has xml:lang, versions before it lang.
            language = attrs.get("xml:lang") or attrs.get("lang") or ""
            self.variant = Variant(language)
        elif name == "seg" and self.variant is not None:
            self.segment = []
            self.gap = False

    def characters(self, content: str) -> None:
        if self.segment is None or self.code_depth or not content:
            return
        if self.gap and self.segment and self.segment[-1][-1].isalnum() and content[0].isalnum():
            self.segment.append(" ")
        self.gap = False
        self.segment.append(content)

    def endElement(self, name: str) -> None:
        if self.depth == self.code_depth:
            self.code_depth = 0
        elif name == "seg" and self.segment is not None and self.variant is not None:
            self.variant.text = "".join(self.segment)
            self.segment = None
        elif name == "tuv" and self.unit is not None and self.variant is not None:
            self.unit.variants.append(self.variant)
            self.variant = None
        elif name == "tu" and self.unit is not None:
            self.finished.append(self.unit)
            self.unit = None
        self.depth -= 1

    def skippedEntity(self, name: str) -> None:
        raise SAXException(f"the undeclared entity {name!r}")
