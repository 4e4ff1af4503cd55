"""Texts in lines: plain ones, or JSON records with other fields that are kept.

    TextRecords    lines to records, records and translations to lines
    TextRecord     one line
    parsed_record  the fields of a JSON line
    text_of        the text in one of them
    dumped         a JSON line

JSON records: `field` names where the text is, `output_field` where its translation goes. A dot
leads into an object (`translation.en`), unless a field has that very name. All other fields are
written as they were read and in their order.
"""

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Literal

from vaswani.errors import InputError
from vaswani.text_lines import BadLines, clean_text

_SURROGATE = re.compile("[\ud800-\udfff]")
# Characters at which some readers end a line though JSON does not.
_LINE_ENDS = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}


class BadRecordError(ValueError):
    """Why a line holds no text."""


@dataclass(frozen=True)
class TextRecord:
    """One line of the input.

    Args:
        text: what is to be translated, "" for nothing.
        fields: the fields of a JSON record.
        error: why there is nothing to translate, where the line is bad.
        line: the whole line, where it is bad.
    """

    text: str
    fields: dict[str, Any] | None = None
    error: str | None = None
    line: str = ""


@dataclass(frozen=True)
class TextRecords:
    """How lines are read and written.

    Args:
        format: of the input.
        field: where the text of a JSON record is.
        output_field: where its translation goes, a field that no record may have yet.
        bad_lines: whether a bad line is an error, or a line with its reason in the output too.
    """

    format: Literal["text", "jsonl"]
    field: str = "text"
    output_field: str = "translation"
    bad_lines: BadLines = "error"

    def read(self, line: str | None, name: str, number: int) -> TextRecord:
        """The record of a line, `None` for one that is not in the encoding.

        Args:
            name: what messages call the input.
            number: the line's.

        Raises:
            InputError: for a bad line, unless it is to be skipped.
        """
        if line is None:
            return TextRecord("", error="the line is not in the encoding of the input")
        if self.format == "text" or not clean_text(line):
            return TextRecord(line)
        fields: dict[str, Any] | None = None
        try:
            fields = parsed_record(line)
            text = text_of(fields, self.field)
            self._check_free(fields)
        except BadRecordError as error:
            if self.bad_lines == "error":
                raise InputError(
                    f"{name}, line {number}: {error}. Correct it, or set `bad_lines` to skip."
                ) from error
            return TextRecord("", fields, str(error), line)
        return TextRecord(text, fields)

    def write(self, record: TextRecord, translation: Any) -> str:
        """The line of the output, without its end.

        Args:
            record: what `read` gave.
            translation: what JSON can hold; goes to `output_field`.
        """
        if record.error is not None:
            if record.fields is None:
                return dumped({"error": record.error, "line": record.line})
            if "error" in record.fields:
                return dumped({"error": record.error, "record": record.fields})
            return dumped(record.fields | {"error": record.error})
        if record.fields is None:
            return ""
        fields = dict(record.fields)
        *way, last = _way(fields, self.output_field)
        inner = fields
        for key in way:
            inner[key] = dict(inner.get(key, {}))
            inner = inner[key]
        inner[last] = translation
        return dumped(fields)

    def _check_free(self, fields: dict[str, Any]) -> None:
        inner: Any = fields
        *way, last = _way(fields, self.output_field)
        for key in way:
            inner = inner.get(key, {})
            if not isinstance(inner, dict):
                raise BadRecordError(f"the field {key!r} must be an object to write into")
        if last in inner:
            raise BadRecordError(
                f"the field {self.output_field!r} must not exist yet, got one; choose another "
                "`output_field`"
            )


def _way(fields: Any, name: str) -> list[str]:
    """The keys that lead to a field."""
    return [name] if name in fields else name.split(".")


def parsed_record(line: str) -> dict[str, Any]:
    """The fields of a line.

    Raises:
        BadRecordError: if it is no JSON object, has a field twice or a number out of range.
    """
    try:
        fields = json.loads(line, object_pairs_hook=_object, parse_float=_number)
    except BadRecordError:
        raise
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise BadRecordError("the line must be one JSON object")
    return fields


def text_of(fields: Any, name: str) -> str:
    """The text in a field.

    Raises:
        BadRecordError: if there is none.
    """
    value = fields
    for key in _way(fields, name):
        if not isinstance(value, dict) or key not in value:
            raise BadRecordError(f"there must be the field {name!r}, got none")
        value = value[key]
    if not isinstance(value, str):
        kind = "null" if value is None else type(value).__name__
        raise BadRecordError(f"the field {name!r} must be a string, got {kind}")
    if _SURROGATE.search(value):
        raise BadRecordError(f"the field {name!r} must be valid Unicode")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise BadRecordError("each field must be there once")
    return fields


def _number(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise BadRecordError(f"numbers must fit 64 bits, got {digits[:40]}")
    return value


def dumped(value: Any) -> str:
    """JSON on one line for every reader, in characters where that is possible."""
    text = json.dumps(value, ensure_ascii=False)
    if _SURROGATE.search(text):
        # Half a surrogate pair can be spelled, but not written.
        text = json.dumps(value)
    return text.translate(_LINE_ENDS)
