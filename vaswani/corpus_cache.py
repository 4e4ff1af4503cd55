"""Results of reading and encoding on disk: made once, found again by the content they came from.

    CorpusCache        a folder of entries, each of which is there whole or not at all
    CacheEntry         one of them
    data_key           what a corpus is made of, as a short text
    joined_key         several such texts as one
    stored_array       an array of an entry
    plain_content      refuses files of an entry that are none of ours

An entry is made in a folder aside and renamed, so nobody ever sees a part of one. A lock lets a
second run wait for the first instead of doing the same work; without a working lock, as on some
network disks, both do it and the first to finish is kept. Sizes and checksums show damage.
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vaswani.data import named_dataset
from vaswani.errors import InputError
from vaswani.text_lines import check_lasting

# Part of every key: raise it when the form of an entry or the rules of reading change.
_FORM = "1"
_FACTS = "entry.json"
_CHUNK_BYTES = 1 << 22
_SECONDS_LEFT_ALONE = 24 * 3600


@dataclass(frozen=True)
class CacheEntry:
    """One entry: a folder with files, and what was noted when they were made.

    Args:
        folder: where the files are.
        facts: what the maker returned.
        found: whether it was there already.
        damaged: whether one was there that had to be made anew.
    """

    folder: Path
    facts: dict[str, Any]
    found: bool
    damaged: bool = False


class CorpusCache:
    """A folder of entries.

    Args:
        folder: where; `None` is the folder `vaswani` in the cache of `datasets`
            (`HF_DATASETS_CACHE`).

    Raises:
        InputError: if nothing can be written there.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        if folder is None:
            from datasets import config

            folder = Path(config.HF_DATASETS_CACHE) / "vaswani"
        self.folder = Path(folder).expanduser().absolute()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.folder, prefix=".writable-"):
                pass
        except OSError as error:
            raise InputError(
                f"`cache_dir` must be a folder where you may write, got {folder} "
                f"({error.strerror}). Choose another, or read with `streaming`."
            ) from error

    def entry(self, kind: str, key: str, make: Callable[[Path], dict[str, Any]]) -> CacheEntry:
        """The entry of that kind and key, made if there is none or a damaged one.

        Args:
            kind: a word that the name of its folder begins with.
            key: what it was made from.
            make: fills the folder that it is given with files, and returns facts for JSON.
        """
        folder = self.folder / f"{kind}-{key}"
        with self._locked(folder):
            facts = _intact(folder)
            if facts is not None:
                return CacheEntry(folder, facts, found=True)
            damaged = folder.exists()
            for left in self.folder.glob(f".{folder.name}.making-*"):
                # Of a run that was killed, not of one that is at work where locks do nothing.
                if time.time() - left.stat().st_mtime > _SECONDS_LEFT_ALONE:
                    shutil.rmtree(left, ignore_errors=True)
            aside = Path(tempfile.mkdtemp(dir=self.folder, prefix=f".{folder.name}.making-"))
            try:
                facts = make(aside)
                _note(aside, facts)
                _move(aside, folder)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                raise InputError(
                    f"`cache_dir` must have room for the corpus, got {self.folder} "
                    f"({os.strerror(error.errno)}). Choose another, or read with `streaming`."
                ) from error
            finally:
                shutil.rmtree(aside, ignore_errors=True)
            return CacheEntry(folder, facts, found=False, damaged=damaged)

    def _locked(self, folder: Path) -> contextlib.AbstractContextManager[Any]:
        from filelock import FileLock

        return FileLock(self.folder / f".{folder.name}.lock")


def _note(folder: Path, facts: dict[str, Any]) -> None:
    """Writes the facts beside the files, with the size and the checksum of each."""
    files = {path.name: [path.stat().st_size, _checksum(path)] for path in folder.iterdir()}
    text = json.dumps({"facts": facts, "files": files}, ensure_ascii=False, indent=1)
    (folder / _FACTS).write_text(text, encoding="utf-8")


def _intact(folder: Path) -> dict[str, Any] | None:
    """The facts of an entry whose files are as they were written; `None` of any other."""
    try:
        noted = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
        for name, (size, checksum) in noted["files"].items():
            path = folder / name
            if path.stat().st_size != size or _checksum(path) != checksum:
                return None
        return noted["facts"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _move(aside: Path, folder: Path) -> None:
    """Puts a finished entry in its place, unless somebody has put an intact one there meanwhile."""
    try:
        os.rename(aside, folder)
        return
    except OSError:
        if _intact(folder) is not None:
            return
    # What is mapped from the damaged one stays readable for those who have it open.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.damaged-") as old:
        with contextlib.suppress(FileNotFoundError):
            os.rename(folder, Path(old) / folder.name)
        os.rename(aside, folder)


@contextlib.contextmanager
def plain_content(path: Path) -> Iterator[None]:
    """Refuses a file of an entry that is no table or array of plain values, such as a pickle.

    Whoever put it there gave it the right checksum: it was not damaged by accident.
    """
    try:
        yield
    except ValueError as error:  # also that of pyarrow
        raise InputError(
            f"`cache_dir` must hold what this package wrote there, got {path}, which is something "
            f"else ({' '.join(str(error).split())}). Delete {path.parent}."
        ) from error


def stored_array(path: Path) -> NDArray[Any]:
    """An array that `numpy.save` wrote, of plain values."""
    with plain_content(path):
        return np.load(path, allow_pickle=False)


def _checksum(path: Path) -> str:
    from xxhash import xxh3_128

    digest = xxh3_128()
    for block in _blocks(path):
        digest.update(block)
    return digest.hexdigest()


def _blocks(path: Path) -> Iterator[bytes]:
    # Read, not mapped: pages of a map would count towards the memory of the process.
    with path.open("rb") as file:
        while block := file.read(_CHUNK_BYTES):
            yield block


def data_key(data: Any, *, split: str = "train") -> str:
    """A text that changes with any byte of the files, or with the version of a dataset.

    Args:
        data: as for `load_parallel`.
        split: which split of a dataset is read.

    Raises:
        InputError, FileNotFoundError: for what cannot be read.
    """
    dataset = named_dataset(data, split)
    if dataset is not None:
        return f"dataset {dataset._fingerprint}"
    paths = [data] if isinstance(data, str | Path) else data
    for path in paths:
        check_lasting(Path(path))
    return " ".join(_digest(Path(path)) for path in paths)


def _digest(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for block in _blocks(path):
        digest.update(block)
    # The name tells the format and the compression.
    return f"{''.join(path.suffixes[-2:])}:{digest.hexdigest()}"


def joined_key(parts: Iterable[object]) -> str:
    """A key of an entry: the same for the same parts in the same order."""
    return hashlib.blake2b(repr([_FORM, *parts]).encode(), digest_size=16).hexdigest()
