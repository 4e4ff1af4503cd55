"""Sentence pairs into files: TSV, JSON lines, TMX 1.4 or two line-aligned files.

    corpus_writer         opens an output for blocks of pairs; whole or not at all
    CorpusWriter          takes the blocks, counts what it changed and left out
    format_to_write       the format that the name of an output tells

A file is packed as its suffix says (.gz, .xz, .zst). What comes out is read as it went in, but for
what the format cannot hold, which is counted:

- TSV and line-aligned files have no tabs and line breaks in a text, TMX none and no `\\r`: a run
  of white space with one becomes one space.
- TMX cannot hold most control characters nor U+FFFE and U+FFFF; no file can hold half a surrogate
  pair. Such a pair is left out, as are pairs with an empty side.
- NUL characters and white space at the ends go, as in reading.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from xml.sax.saxutils import escape, quoteattr

from vaswani import __version__
from vaswani.compressed_files import opened_for_writing, plain_suffix
from vaswani.corpus_readers import SUFFIXES, Pairs
from vaswani.errors import InputError
from vaswani.text_lines import ReadReport, clean_text, joined_lines

_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_IN_XML = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_LANGUAGE = re.compile(r"[A-Za-z0-9_@.-]+")
# JSON allows them in a string, but other readers take them for the end of a line.
_LINE_ENDS = str.maketrans({"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})


class CorpusWriter:
    """Writes blocks of pairs in one format; made by `corpus_writer`."""

    def __init__(self, streams: Sequence[BinaryIO], format: str, source: str, target: str) -> None:
        self.report = ReadReport()
        self._streams = streams
        self._format = format
        self._source = source
        self._target = target

    def write(self, pairs: Pairs) -> None:
        """Writes a block, or what the format can hold of it."""
        sources, targets = self._held(pairs)
        if not sources:
            return
        blocks = _FORMATS[self._format](sources, targets, self._source, self._target)
        for stream, block in zip(self._streams, blocks, strict=True):
            if not self.report.pairs and block.startswith("\ufeff"):
                # The first of two is taken for a byte order mark, the second stays text.
                block = "\ufeff" + block
            stream.write(block.encode())
        self.report.pairs += len(sources)

    def _held(self, pairs: Pairs) -> Pairs:
        """The pairs as the format can hold them."""
        if _is_plain(pairs[0]) and _is_plain(pairs[1]) and self._format != "tmx":
            return pairs
        kept: Pairs = ([], [])
        for pair in zip(*pairs, strict=True):
            texts = [self._held_text(text) for text in pair]
            if any(map(self._unfit.search, texts)):
                reason = "control character" if self._format == "tmx" else "not valid Unicode"
                self.report.skipped[reason] += 1
            elif all(texts):
                kept[0].append(texts[0])
                kept[1].append(texts[1])
            else:
                self.report.skipped["empty side"] += 1
        return kept

    @property
    def _unfit(self) -> re.Pattern[str]:
        return _NOT_IN_XML if self._format == "tmx" else _SURROGATE

    def _held_text(self, text: str) -> str:
        self.report.removed_nul += text.count("\0")
        text = clean_text(text)
        if self._format == "jsonl" or not _holds_break(text, self._format):
            return text
        self.report.changed["joined to one line"] += 1
        return joined_lines(text)


def _is_plain(texts: list[str]) -> bool:
    """Whether any format but TMX holds the texts as they are: the rule, but fast."""
    joined = "\n".join(texts)
    return (
        all(texts)
        and joined.count("\n") == len(texts) - 1
        and "\t" not in joined
        and "\0" not in joined
        and _SURROGATE.search(joined) is None
        and all(map(str.__eq__, map(str.strip, texts), texts))
    )


def _holds_break(text: str, format: str) -> bool:
    return "\n" in text or "\t" in text or (format == "tmx" and "\r" in text)


def _tsv(sources: list[str], targets: list[str], *_: str) -> list[str]:
    lines = map("\t".join, zip(sources, targets, strict=True))
    return ["\n".join(lines) + "\n"]


def _aligned(sources: list[str], targets: list[str], *_: str) -> list[str]:
    return ["\n".join(texts) + "\n" for texts in (sources, targets)]


def _json_lines(sources: list[str], targets: list[str], source: str, target: str) -> list[str]:
    encode = json.JSONEncoder(ensure_ascii=False).encode
    lines = (
        encode({"translation": {source: text, target: translation}}).translate(_LINE_ENDS)
        for text, translation in zip(sources, targets, strict=True)
    )
    return ["\n".join(lines) + "\n"]


def _tmx(sources: list[str], targets: list[str], source: str, target: str) -> list[str]:
    opening = [f"<tuv xml:lang={quoteattr(code)}><seg>" for code in (source, target)]
    return [
        "".join(
            f"<tu>{opening[0]}{escape(text)}</seg></tuv>"
            f"{opening[1]}{escape(translation)}</seg></tuv></tu>\n"
            for text, translation in zip(sources, targets, strict=True)
        )
    ]


_FORMATS: dict[str, Callable[[list[str], list[str], str, str], list[str]]] = {
    "tsv": _tsv,
    "jsonl": _json_lines,
    "tmx": _tmx,
    "aligned": _aligned,
}
_TMX_END = "</body>\n</tmx>\n"


def _tmx_start(source: str) -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<tmx version="1.4">\n'
        f'<header creationtool="vaswani" creationtoolversion={quoteattr(__version__)} '
        'segtype="sentence" o-tmf="vaswani" adminlang="en" '
        f'srclang={quoteattr(source)} datatype="plaintext"/>\n<body>\n'
    )


def format_to_write(output: str | Path | Sequence[str | Path], format: str | None = None) -> str:
    """The format of an output, `format` or what its name tells.

    Raises:
        InputError: if `format` cannot be written, or not to so many files.
    """
    paths = [output] if isinstance(output, str | Path) else list(output)
    if format is None:
        format = "aligned" if len(paths) == 2 else SUFFIXES.get(plain_suffix(paths[0]), "tsv")
    if format not in _FORMATS or len(paths) != 1 + (format == "aligned"):
        single = ", ".join(name for name in _FORMATS if name != "aligned")
        raise InputError(
            f"The format to write must be one of {single} for one file or aligned for two "
            f"(SOURCE_FILE,TARGET_FILE), got {format} for {len(paths)}."
        )
    return format


@contextmanager
def corpus_writer(
    output: str | Path | Sequence[str | Path],
    *,
    source: str,
    target: str,
    format: str | None = None,
) -> Iterator[CorpusWriter]:
    """Opens an output for pairs; it appears under its name when the block ends well.

    Args:
        output: a file, or the two of line-aligned texts.
        source: language code of the source, which JSON lines and TMX store.
        target: the same of the target.
        format: `tsv`, `jsonl`, `tmx` or `aligned`; `None` goes by the name.

    Raises:
        InputError: if the format cannot be written or the file not be made.
    """
    format = format_to_write(output, format)
    paths = [output] if isinstance(output, str | Path) else list(output)
    if len({Path(path).resolve() for path in paths}) < len(paths):
        raise InputError(f"`output` must be two different files, got {paths[0]} twice.")
    for code in (source, target):
        if format == "tmx" and not _LANGUAGE.fullmatch(code):
            raise InputError(
                f"`source` and `target` must be language codes in a TMX, got {code!r}. "
                "Codes are such as en or pt-BR."
            )
    with opened_for_writing(*paths) as streams:
        if format == "tmx":
            streams[0].write(_tmx_start(source).encode())
        yield CorpusWriter(streams, format, source, target)
        if format == "tmx":
            streams[0].write(_TMX_END.encode())
