"""Text files written part by part, that appear whole and that an interrupted run goes on with.

    resumable_file        opens one
    ResumableFile         takes parts, each with what is needed to go on after it
    folder_fingerprint    what tells one model folder from another

Beside the output `letters.de` stand, until it is complete, `.letters.de.partial` with the parts and
`.letters.de.journal` with a line of JSON for each: what the run was asked for, then the size of the
parts so far and the state of the run. A part is on the disk before its line is. So whatever ends a
process, the last whole line tells where to go on; what lies beyond it is dropped.

A name that ends in .gz or .xz is compressed, each part by itself: the format allows to put such
parts one after the other.
"""

import gzip
import hashlib
import json
import lzma
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from vaswani.errors import InputError

_COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".xz": lzma.compress,
}
# Bytes hashed at once.
_BLOCK = 1 << 22


class ResumableFile:
    """The parts written so far; `resumable_file` makes it.

    Args:
        path: the output.
        partial: the file with the parts.
        journal: the open journal.
        entries: what it holds: the request, then one entry for each part.
    """

    def __init__(self, path: Path, partial: Path, journal: BinaryIO, entries: list[Any]) -> None:
        self.path = path
        self.partial = partial
        self._journal = journal
        self._compress = _COMPRESSORS.get(path.suffix.lower(), bytes)
        self._stream = partial.open("r+b" if len(entries) > 1 else "wb")
        self.parts = len(entries) - 1
        self.state: dict[str, Any] = entries[-1]["state"]
        self._stream.seek(entries[-1]["bytes"])
        self._stream.truncate()

    def append(self, text: str, state: dict[str, Any]) -> None:
        """Writes a part, and the state of the run after it.

        Args:
            text: the part.
            state: what JSON can hold; `self.state` of a run that goes on.

        Raises:
            InputError: if the disk is full, or does not take it for another reason.
        """
        try:
            self._stream.write(self._compress(text.encode("utf-8")))
            _to_disk(self._stream)
            self._write_entry({"bytes": self._stream.tell(), "state": state})
        except OSError as error:
            raise InputError(
                f"{self.partial} must be writable, got: {error.strerror or error}. "
                "Mend that; `--resume` goes on."
            ) from error
        self.state = state
        self.parts += 1

    def _write_entry(self, entry: dict[str, Any]) -> None:
        self._journal.write(json.dumps(entry).encode("ascii") + b"\n")
        _to_disk(self._journal)

    def close(self, *, complete: bool) -> None:
        """Moves a complete output into place; deletes what has no part yet, keeps the rest."""
        for stream in (self._stream, self._journal):
            try:
                stream.close()
            except OSError:
                # Bytes that a full disk did not take are beyond the journal's last line.
                if complete:
                    raise
        if complete:
            os.replace(self.partial, self.path)
        elif not self.parts:
            self.partial.unlink(missing_ok=True)
        if complete or not self.parts:
            journal_path(self.path).unlink(missing_ok=True)


def partial_path(path: Path) -> Path:
    """Where the parts of an output stand until it is complete."""
    return path.with_name(f".{path.name}.partial")


def journal_path(path: Path) -> Path:
    """Where their journal stands."""
    return path.with_name(f".{path.name}.journal")


@contextmanager
def resumable_file(
    path: str | Path, request: dict[str, Any], *, resume: bool
) -> Iterator[ResumableFile]:
    """Opens a file that appears under its name when the block ends well.

    Args:
        path: the output, in a folder that exists. What it held before is replaced at the end.
        request: what decides the content, by the name that a message shall give it.
        resume: whether to go on with the parts of an interrupted run, if there is one.

    Raises:
        InputError: if there are parts of an interrupted run and `resume` is not set, they came
            from another request, or another process is writing them.
    """
    path = Path(path).resolve()
    partial = partial_path(path)
    if partial.exists() and not resume:
        raise InputError(
            f"{path} must have no unfinished translation beside it, got {partial}. "
            "Go on with it by `--resume`, or delete it."
        )
    with journal_path(path).open("a+b") as journal:
        _lock(journal, path)
        entries = _entries(journal, partial)
        if entries:
            _check_request(entries[0]["request"], request, partial)
        file = None
        complete = False
        try:
            if not entries:
                entries = [{"request": request, "bytes": 0, "state": {}}]
                journal.truncate(0)
                journal.write(json.dumps(entries[0]).encode("ascii") + b"\n")
                _to_disk(journal)
            file = ResumableFile(path, partial, journal, entries)
            yield file
            complete = True
        finally:
            if file is not None:
                file.close(complete=complete)
            elif not partial.exists():
                journal_path(path).unlink(missing_ok=True)


def _entries(journal: BinaryIO, partial: Path) -> list[Any]:
    """The journal's whole entries whose bytes are there; what follows them is dropped."""
    if not partial.exists():
        return []
    size = partial.stat().st_size
    journal.seek(0)
    entries: list[Any] = []
    end = 0
    for line in journal:
        try:
            entry = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            entry = None
        known = {"bytes", "state"} | ({"request"} if not entries else set())
        if not isinstance(entry, dict) or not known <= set(entry) or entry["bytes"] > size:
            break
        entries.append(entry)
        end += len(line)
    journal.truncate(end)
    return entries


def _check_request(before: dict[str, Any], now: dict[str, Any], partial: Path) -> None:
    for name, value in now.items():
        if before.get(name) != value:
            shown = f"got {value!r}, then {before.get(name)!r}"
            raise InputError(
                f"{name} must be as it was when {partial} was begun, "
                f"{'but it has changed' if 'content' in name else shown}. "
                "Set it back, or delete that file to begin again."
            )


def _lock(journal: BinaryIO, path: Path) -> None:
    """Refuses a second process; the lock ends with the process, however that ends."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    try:
        fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InputError(
            f"{path} must be written by one process at a time, got another that writes it."
        ) from error


def _to_disk(stream: BinaryIO) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def folder_fingerprint(folder: str | Path) -> str:
    """A hash of the files from which a model is loaded, their names and content."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(folder).iterdir()):
        if path.suffix in (".json", ".safetensors") and path.is_file():
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
            with path.open("rb") as stream:
                while block := stream.read(_BLOCK):
                    digest.update(block)
    return digest.hexdigest()
