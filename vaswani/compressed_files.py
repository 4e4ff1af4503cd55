"""The one place that opens a file for reading or writing, packed or plain.

    opened_for_reading    the bytes of a file, unpacked
    opened_for_writing    a file to fill, packed as its name says, that appears whole or not at all
    plain_suffix          the suffix of a name, that of packing aside

- gzip, xz and zstd are known by the first bytes of a file, or else by .gz, .xz, .zst; several
  packed parts may follow one another. Anything else is plain.
- A packed file must be whole: one that is cut off, damaged, or followed by other bytes is an error.
- The same bytes packed twice give the same file: no time and no name is stored.
"""

import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from vaswani.errors import InputError

# Unpacked, so many bytes of a file made to burst its reader are 128 MB at the very most.
_FEED_BYTES = 1 << 12


@dataclass(frozen=True)
class _Packing:
    """One way of packing."""

    name: str
    first_bytes: bytes
    unpacker: Callable[[], Any]  # has decompress(), eof and unused_data
    damage: Callable[[], type[Exception]]  # what it raises
    packed: Callable[[BinaryIO], Any]  # a stream to write to


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise ImportError("Files in zstd need `zstandard`: pip install 'vaswani[data]'.") from error
    return zstandard


_PACKINGS = {
    ".gz": _Packing(
        "gzip",
        b"\x1f\x8b",
        lambda: zlib.decompressobj(wbits=zlib.MAX_WBITS | 16),
        lambda: zlib.error,
        lambda stream: gzip.GzipFile(
            filename="", fileobj=stream, mode="wb", compresslevel=6, mtime=0
        ),
    ),
    ".xz": _Packing(
        "xz",
        b"\xfd7zXZ\x00",
        lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ),
        lambda: lzma.LZMAError,
        lambda stream: lzma.LZMAFile(stream, "wb"),  # noqa: SIM115
    ),
    ".zst": _Packing(
        "zstd",
        b"\x28\xb5\x2f\xfd",
        lambda: _zstandard().ZstdDecompressor().decompressobj(),
        lambda: _zstandard().ZstdError,
        lambda stream: (
            _zstandard().ZstdCompressor(write_checksum=True).stream_writer(stream, closefd=False)
        ),
    ),
}


def plain_suffix(path: str | Path) -> str:
    """The last suffix of a name in lower case, or the one before that of packing."""
    path = Path(path)
    if path.suffix.lower() in _PACKINGS:
        path = path.with_suffix("")
    return path.suffix.lower()


@contextmanager
def opened_for_reading(path: Path) -> Iterator[BinaryIO]:
    """Opens a file, unpacked if its first bytes or its name say that it is packed.

    Raises:
        InputError: when bytes are read that are damaged, or that end too soon.
    """
    with path.open("rb") as raw:
        start = raw.peek(8)
        packing = next(
            (known for known in _PACKINGS.values() if start.startswith(known.first_bytes)),
            _PACKINGS.get(path.suffix.lower()),
        )
        if packing is None:
            yield raw
        else:
            yield io.BufferedReader(_Unpacked(raw, packing, path), buffer_size=1 << 18)


class _Unpacked(io.RawIOBase):
    """Unpacks a stream; the libraries' own readers take some files that were cut off for whole."""

    def __init__(self, raw: BinaryIO, packing: _Packing, path: Path) -> None:
        self.raw = raw
        self.packing = packing
        self.path = path
        self.unpacker: Any = packing.unpacker()
        self.ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.ready:
            if self.unpacker is None:
                return 0
            self._unpack()
        count = min(len(buffer), len(self.ready))
        buffer[:count] = self.ready[:count]
        self.ready = self.ready[count:]
        return count

    def _unpack(self) -> None:
        """Unpacks some more bytes; the unpacker is None after the last."""
        if self.unpacker.eof:
            # Tools pad a packed file with zeros, to fill the blocks of a tape or a multiple of 4.
            data = self.unpacker.unused_data.lstrip(b"\0")
            while not data and (data := self.raw.read(_FEED_BYTES)):
                data = data.lstrip(b"\0")
            self.unpacker = self.packing.unpacker() if data else None
        else:
            data = self.raw.read(_FEED_BYTES)
            if not data:
                raise self._damaged("it ends too soon")
        if data:
            try:
                self.ready = memoryview(self.unpacker.decompress(data))
            except self.packing.damage() as error:
                raise self._damaged(str(error)) from error

    def _damaged(self, how: str) -> InputError:
        return InputError(
            f"{self.path} must be whole, got truncated or damaged {self.packing.name} "
            f"({how.rstrip('.')}). Fetch or pack it again."
        )


@contextmanager
def opened_for_writing(*paths: str | Path) -> Iterator[list[BinaryIO]]:
    """Opens files for bytes that appear under their names when all of them are complete.

    Each is packed as its suffix says. If the block fails, what was there before is still there.

    Raises:
        InputError: if one is a folder, or its folder does not exist.
    """
    with ExitStack() as partials, ExitStack() as streams:
        opened, moves = [], []
        for path in map(Path, paths):
            stream, move = _opened_partial(path, streams, partials)
            packing = _PACKINGS.get(path.suffix.lower())
            if packing is not None:
                stream = streams.enter_context(packing.packed(stream))
            opened.append(stream)
            moves += move
        yield opened
        streams.close()  # all bytes must be there before the first file is moved
        for partial, path in moves:
            os.replace(partial, path)


def _opened_partial(
    path: Path, streams: ExitStack, partials: ExitStack
) -> tuple[BinaryIO, list[tuple[Path, Path]]]:
    """A stream to fill, and what must be moved where when it is complete."""
    path = path.resolve()  # what a link names is replaced, not the link
    if path.is_dir():
        raise InputError(f"{path} must be a file to write, got a folder.")
    if not path.parent.is_dir():
        raise InputError(f"{path} must be in an existing folder. Make {path.parent} first.")
    if path.exists() and not path.is_file():
        # A device or a pipe, such as /dev/null, is written to and not replaced.
        return streams.enter_context(path.open("wb")), []
    partial = path.with_name(f".{path.name}.partial")
    partials.callback(partial.unlink, missing_ok=True)
    return streams.enter_context(partial.open("wb")), [(partial, path)]
