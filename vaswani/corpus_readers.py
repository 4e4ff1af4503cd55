"""Sentence pairs out of files: one function for each format.

    ReadRequest        what is wanted of a corpus; counts what is skipped
    READERS            format name -> function that yields blocks of pairs
    format_of          the format that a file's name tells

The rules of text, the same for every format; those of lines and bytes are in `text_lines`, those of
XML in `tmx`, those of catalogs in `gettext_catalogs` and `corpus_messages`:

- There is no quoting, no entity is decoded, no normal form applied (the tokenizer does that).
- A text loses its NUL characters and its leading and trailing white space (`str.strip`) alone.
- A blank line, or a pair with an empty side, is always skipped and counted. A malformed line is an
  error, or with `bad_lines="skip"` skipped and counted.
- In TMX and catalogs a text of several lines becomes one line; a JSON text keeps its line breaks.
- A translation unit gives one pair: the first text of each language. Further ones are counted.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from vaswani.compressed_files import plain_suffix
from vaswani.corpus_languages import language_matches
from vaswani.errors import InputError
from vaswani.gettext_catalogs import read_catalog
from vaswani.text_lines import BadLines, ReadReport, clean_text, joined_lines, line_blocks
from vaswani.tmx import Variant, units

Pairs = tuple[list[str], list[str]]  # as many source texts as target texts

BLOCK_PAIRS = 1 << 16
# Any other is read as tsv.
SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".tmx": "tmx",
    ".po": "po",
    ".mo": "mo",
}
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class ReadRequest:
    """What was asked for, checked; readers count into its report."""

    source: str
    target: str
    columns: tuple[int, int]
    encoding: str
    bad_lines: BadLines
    report: ReadReport

    def __post_init__(self) -> None:
        if not self.source or not self.target or self.source == self.target:
            raise InputError(
                "`source` and `target` must be two different language codes, "
                f"got {self.source!r} and {self.target!r}."
            )
        if min(self.columns) < 1 or self.columns[0] == self.columns[1]:
            raise InputError(
                "`source_column` and `target_column` must be two different numbers from 1 up, "
                f"got {self.columns[0]} and {self.columns[1]}."
            )
        if self.bad_lines not in ("error", "skip"):
            raise InputError(f"`bad_lines` must be error or skip, got {self.bad_lines!r}.")

    def bad(self, name: str, number: int, reason: str, rule: str, got: str) -> None:
        """Stops at a malformed line, or counts it."""
        if self.bad_lines == "error":
            raise InputError(
                f"{name}, line {number}: {rule}, got {got}. "
                "Correct the line, or set `bad_lines` to skip."
            )
        self.report.skipped[reason] += 1

    def add(self, pairs: Pairs, source: str, target: str) -> None:
        """Takes a pair up, or counts it as empty."""
        if source and target:
            pairs[0].append(source)
            pairs[1].append(target)
        elif source or target:
            self.report.skipped["empty target" if source else "empty source"] += 1
        else:
            self.report.skipped["blank"] += 1

    def add_values(self, pairs: Pairs, record: Any, name: str, number: int) -> None:
        """Takes up the two values of a record, or says which key or type is wrong."""
        values = []
        for code in (self.source, self.target):
            if not isinstance(record, dict) or code not in record:
                keys = ", ".join(map(repr, record)) if isinstance(record, dict) else "no record"
                rule = f"`translation` must have the keys {self.source!r} and {self.target!r}"
                return self.bad(name, number, "without the language", rule, keys or "none")
            value = record[code]
            if not isinstance(value, str):
                rule = f"the value of {code!r} must be a string"
                return self.bad(name, number, "not a string", rule, _excerpt(value))
            # JSON can spell half of a surrogate pair, which no file could hold.
            if _SURROGATE.search(value):
                rule = f"the value of {code!r} must be valid Unicode"
                return self.bad(name, number, "not valid Unicode", rule, _excerpt(value))
            self.report.removed_nul += value.count("\0")
            values.append(clean_text(value))
        self.add(pairs, *values)


def _read_tsv(paths: list[Path], request: ReadRequest) -> Iterator[Pairs]:
    (path,) = paths
    name = str(path)
    first, second = (column - 1 for column in request.columns)
    last = max(first, second)
    for number, lines in line_blocks(
        path, name, request.encoding, request.bad_lines, request.report
    ):
        pairs: Pairs = ([], [])
        add_source, add_target = pairs[0].append, pairs[1].append
        for offset, line in enumerate(lines):
            if line is None:
                continue
            fields = line.split("\t", last + 1)
            if len(fields) > last:
                source, target = fields[first].strip(), fields[second].strip()
                if source and target:
                    add_source(source)
                    add_target(target)
                else:
                    request.add(pairs, source, target)
            elif not line or line.isspace():
                request.report.skipped["blank"] += 1
            else:
                rule = f"there must be {last + 1} columns with a tab between them"
                got = f"{len(fields)} in {_excerpt(line)}"
                request.bad(name, number + offset, "without a tab", rule, got)
        yield pairs


def _read_json_lines(paths: list[Path], request: ReadRequest) -> Iterator[Pairs]:
    (path,) = paths
    name = str(path)
    decode = json.JSONDecoder().decode
    for number, lines in line_blocks(
        path, name, request.encoding, request.bad_lines, request.report
    ):
        pairs: Pairs = ([], [])
        for offset, line in enumerate(lines):
            if line is None:
                continue
            if not line or line.isspace():
                request.report.skipped["blank"] += 1
                continue
            try:
                record = decode(line)
            except (ValueError, RecursionError):
                record = None
            if isinstance(record, dict):
                # A flat record has the language codes themselves as keys.
                record = record.get("translation", record)
                # Without \u there is no NUL and no half of a surrogate pair to look for.
                if "\\u" not in line and type(record) is dict:
                    source, target = record.get(request.source), record.get(request.target)
                    if type(source) is str and type(target) is str:
                        request.add(pairs, source.strip(), target.strip())
                        continue
                request.add_values(pairs, record, name, number + offset)
            else:
                rule = "each line must be one JSON object"
                request.bad(name, number + offset, "not a JSON object", rule, _excerpt(line))
        yield pairs


def _read_aligned(paths: list[Path], request: ReadRequest) -> Iterator[Pairs]:
    sources, targets = (
        chain.from_iterable(
            block
            for _, block in line_blocks(
                path, str(path), request.encoding, request.bad_lines, request.report
            )
        )
        for path in paths
    )
    number = 0
    while True:
        source_lines = list(islice(sources, BLOCK_PAIRS))
        target_lines = list(islice(targets, BLOCK_PAIRS))
        if len(source_lines) != len(target_lines):
            counts = [
                number + len(head) + sum(1 for _ in rest)
                for head, rest in ((source_lines, sources), (target_lines, targets))
            ]
            raise InputError(
                f"{paths[0]} and {paths[1]} must have as many lines as each other, "
                f"got {counts[0]} and {counts[1]}."
            )
        if not source_lines:
            return
        pairs: Pairs = ([], [])
        for source, target in zip(source_lines, target_lines, strict=True):
            # None: not decodable, counted where it was found. Its partner goes with it.
            if source is not None and target is not None:
                request.add(pairs, source.strip(), target.strip())
        yield pairs
        number += len(source_lines)


def _read_tmx(paths: list[Path], request: ReadRequest) -> Iterator[Pairs]:
    (path,) = paths
    # A text in en-GB serves the side that asks for en-GB, not that which asks for any English.
    sides = sorted((request.source, request.target), key=len, reverse=True)
    pairs: Pairs = ([], [])
    languages: set[str] = set()
    found_any = False
    for unit in units(path):
        found: dict[str, Variant] = {}
        for variant in unit.variants:
            languages.add(variant.language)
            side = next((s for s in sides if language_matches(s, variant.language)), None)
            if side in found:
                request.report.skipped["further variant of a language"] += 1
            elif side is not None:
                found[side] = variant
        if len(found) < 2:
            request.report.skipped["without the language"] += 1
            continue
        found_any = True
        _add_variants(pairs, found, request)
        if len(pairs[0]) == BLOCK_PAIRS:
            yield pairs
            pairs = ([], [])
    yield pairs
    if languages and not found_any:
        raise InputError(
            f"`source` and `target` must be languages of {path}, got {request.source!r} and "
            f"{request.target!r}. No unit has both; there are {_listed(languages)}."
        )


def _add_variants(pairs: Pairs, found: dict[str, Variant], request: ReadRequest) -> None:
    texts = []
    for code in (request.source, request.target):
        text = clean_text(found[code].text)
        texts.append(joined_lines(text))
        request.report.changed["joined to one line"] += texts[-1] != text
        request.report.changed["without inline codes"] += found[code].codes > 0
    request.report.changed = +request.report.changed
    request.add(pairs, *texts)


def _listed(languages: set[str]) -> str:
    """The first of them, for a message."""
    shown = sorted(map(repr, languages))
    return ", ".join(shown[:20]) + (" and others" if len(shown) > 20 else "")


def _catalog_reader(kind: str) -> Callable[[list[Path], ReadRequest], Iterator[Pairs]]:
    def read(paths: list[Path], request: ReadRequest) -> Iterator[Pairs]:
        (path,) = paths
        catalog = read_catalog(path, kind)
        # Messages and translations, in either direction.
        for forward in (True, False):
            codes = (request.source, request.target)[:: 1 if forward else -1]
            if language_matches(codes[0], catalog.source_language) and (
                not catalog.language or language_matches(codes[1], catalog.language)
            ):
                break
        else:
            raise InputError(
                f"`source` and `target` must be the languages of {path}, which are "
                f"{catalog.source_language!r} and {catalog.language or 'unknown'!r}, "
                f"got {request.source!r} and {request.target!r}."
            )
        request.report.skipped += catalog.skipped
        request.report.changed += catalog.changed
        pairs: Pairs = ([], [])
        for pair in catalog.pairs:
            request.add(pairs, *pair[:: 1 if forward else -1])
        yield pairs

    return read


READERS: dict[str, Callable[[list[Path], ReadRequest], Iterator[Pairs]]] = {
    "tsv": _read_tsv,
    "jsonl": _read_json_lines,
    "aligned": _read_aligned,
    "tmx": _read_tmx,
    "po": _catalog_reader("po"),
    "mo": _catalog_reader("mo"),
}


def format_of(path: Path) -> str:
    """The format that the suffix of a file tells, that of compression aside."""
    return SUFFIXES.get(plain_suffix(path), "tsv")


def _excerpt(value: object) -> str:
    shown = ascii(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
