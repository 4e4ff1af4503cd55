"""Turns the bytes of a text file into lines, and says which line breaks a rule.

The one place that knows encodings and line ends. What a line holds is left to `corpus_readers`,
packed files to `compressed_files`.

    read_lines            cleaned lines of one file or stream, for translating
    line_blocks           numbered blocks of lines, for the readers of `data`
    clean_text            what is done to every text, in training and in translation alike
    joined_lines          a text of several lines as one
    ReadReport            how many pairs were read, and what was skipped, by reason
    check_file, check_lasting, checked_encoding

- A line ends at `\\n` alone; a `\\r` before it belongs to the end. No other character ends a line.
- A byte order mark at the start of a file is dropped. Bytes are decoded strictly.
- Line numbers in messages start at 1 and count blank lines.
- A line of more than 128 MiB is an error, so that no file can take all memory.
"""

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

from vaswani.compressed_files import opened_for_reading
from vaswani.errors import InputError
from vaswani.wording import counted

BadLines = Literal["error", "skip"]

_BLOCK_BYTES = 1 << 23
# A few megabytes can be packed so that they unpack to one line of terabytes.
MOST_LINE_BYTES = 1 << 27
_BREAK = re.compile(r"[\t\n\r]")
_WHITE_SPACE = re.compile(r"\s+")


@dataclass
class ReadReport:
    """Counts what reading kept and what it left out.

    Args:
        pairs: pairs kept.
        skipped: lines or records left out, by reason.
        removed_nul: NUL characters taken out of texts.
        changed: texts that were kept but altered, by what was done.
    """

    pairs: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    removed_nul: int = 0
    changed: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        parts = [counted(self.pairs, "pair")]
        for verb, counts in (("skipped", self.skipped), ("changed", self.changed)):
            if counts:
                reasons = ", ".join(f"{count:,} {reason}" for reason, count in counts.items())
                parts.append(f"{verb} {sum(counts.values()):,} ({reasons})")
        if self.removed_nul:
            parts.append(f"removed {counted(self.removed_nul, 'NUL character')}")
        return "; ".join(parts)


def clean_text(text: str) -> str:
    """The text without NUL characters and without white space at its ends."""
    return text.replace("\0", "").strip()


def joined_lines(text: str) -> str:
    """The text with each run of white space that holds a tab, `\\n` or `\\r` as one space."""
    return _WHITE_SPACE.sub(_joined, text) if _BREAK.search(text) else text


def _joined(space: re.Match[str]) -> str:
    return " " if _BREAK.search(space[0]) else space[0]


def read_lines(
    lines: str | Path | BinaryIO, *, encoding: str = "utf-8", name: str | None = None
) -> Iterator[str]:
    """The cleaned lines of a file or binary stream, one for each line whatever it holds.

    A last line without `\\n` counts; a `\\n` at the very end begins no further line. Lines of a
    stream are handed out as soon as they arrive.

    Args:
        lines: a path, possibly to a packed file, or a stream of bytes such as `sys.stdin.buffer`.
        encoding: how bytes become text.
        name: what error messages call a stream; `None` is its own name.

    Raises:
        InputError: for a byte that the encoding does not allow; it names file and line.
        FileNotFoundError: if there is no such file, at the call and not at the first line.
    """
    encoding = checked_encoding(encoding)
    if isinstance(lines, str | Path):
        name = str(lines) if name is None else name
        check_file(Path(lines))
    elif name is None:
        name = str(getattr(lines, "name", "standard input"))
    blocks = line_blocks(lines, name, encoding, "error", ReadReport())
    return (line.strip() for _, block in blocks for line in block if line is not None)


def line_blocks(
    lines: str | Path | BinaryIO, name: str, encoding: str, bad_lines: BadLines, report: ReadReport
) -> Iterator[tuple[int, list[str | None]]]:
    """Yields the number of a block's first line and its lines, `None` for an undecodable one."""
    number = 1
    with _reading(lines) as read:
        for block in _byte_blocks(read, name):
            if number == 1 and encoding == "utf-8":
                block = block.removeprefix(codecs.BOM_UTF8)
                if not block:
                    return  # a file of nothing but the mark is empty
            block = block.removesuffix(b"\n")
            texts: list[str | None] = []
            try:
                text = block.decode(encoding)
            except UnicodeDecodeError:
                for offset, line in enumerate(block.split(b"\n")):
                    texts.append(_decoded(line, name, number + offset, encoding, bad_lines))
                report.skipped[f"not {encoding}"] += texts.count(None)
            else:
                report.removed_nul += text.count("\0")
                # A \r before the \n falls to the strip() that every text gets.
                texts.extend(text.replace("\0", "").split("\n"))
            yield number, texts
            number += len(texts)


def _decoded(line: bytes, name: str, number: int, encoding: str, bad_lines: BadLines) -> str | None:
    try:
        return line.decode(encoding).replace("\0", "")
    except UnicodeDecodeError as error:
        if bad_lines == "skip":
            return None
        if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            remedy = "The file looks like UTF-16: convert it to UTF-8."
        else:
            remedy = "Set `encoding` to that of the file, for example latin-1, or correct the line."
        raise InputError(
            f"{name}, line {number}: text must be {encoding.upper()}, got the byte "
            f"0x{line[error.start]:02x} at position {error.start + 1}, "
            f"which is not {encoding.upper()}. {remedy}"
        ) from None


@contextmanager
def _reading(lines: str | Path | BinaryIO) -> Iterator[Callable[[int], bytes]]:
    if isinstance(lines, str | Path):
        with opened_for_reading(Path(lines)) as stream:
            yield stream.read
    else:
        # read1 hands over what has arrived; files need no haste.
        yield getattr(lines, "read1", lines.read)


def _byte_blocks(read: Callable[[int], bytes], name: str) -> Iterator[bytes]:
    """Yields the bytes in blocks of whole lines, none of them empty."""
    number, size = 1, 0
    pending: list[bytes] = []
    while data := read(_BLOCK_BYTES):
        end = data.rfind(b"\n") + 1
        if end:
            block = b"".join([*pending, data[:end]])
            yield block
            number += block.count(b"\n")
            pending, size = [], 0
        if end < len(data):
            pending.append(data[end:])
            size += len(data) - end
        if size > MOST_LINE_BYTES:
            raise InputError(
                f"{name}, line {number}: a line must have at most {MOST_LINE_BYTES:,} bytes, "
                f"got more. Break it, or see whether {name} is a text at all."
            )
    if pending:
        yield b"".join(pending)


def check_file(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path} must be a file, got a folder.")
    if not path.exists():
        raise FileNotFoundError(f"{path} must exist, got no such file.")


def check_lasting(path: Path) -> None:
    """Refuses a pipe or a device where a corpus is read more than once.

    Raises:
        InputError: for one of these; files, folders and what does not exist pass.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(
            f"`data` must be a file, since it is read more than once, got {path}, which can be "
            "read only once. Save it to a file first."
        )


def checked_encoding(encoding: str) -> str:
    """The encoding's usual name; lines can be found only where `\\n` and tab are single bytes."""
    try:
        name = codecs.lookup(encoding).name.removesuffix("-sig")
        usable = "\t\n\r".encode(name) == b"\t\n\r"
    except LookupError:
        usable = False
    if not usable:
        raise InputError(
            "`encoding` must be one that Python knows and that extends ASCII, "
            f"got {encoding!r}. Convert the file to UTF-8."
        )
    return name
