"""The cache: what its keys depend on, and that an entry is there whole or not at all."""

import errno
import json
import multiprocessing
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from vaswani.corpus_cache import CorpusCache, data_key, joined_key
from vaswani.errors import InputError


def writes(text: str, calls: list[str] | None = None) -> Callable[[Path], dict[str, Any]]:
    def make(folder: Path) -> dict[str, Any]:
        if calls is not None:
            calls.append(text)
        (folder / "part").write_text(text)
        return {"length": len(text)}

    return make


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_an_entry_is_made_once_and_found_again(tmp_path: Path) -> None:
    calls: list[str] = []
    first = CorpusCache(tmp_path).entry("pairs", "k", writes("abc", calls))
    second = CorpusCache(tmp_path).entry("pairs", "k", writes("abc", calls))
    assert (first.found, second.found, calls) == (False, True, ["abc"])
    assert first.facts == second.facts == {"length": 3}
    assert (second.folder / "part").read_text() == "abc"


@pytest.mark.parametrize("key", ["other", "k2"])
def test_another_key_is_another_entry(key: str, tmp_path: Path) -> None:
    cache = CorpusCache(tmp_path)
    cache.entry("pairs", "k", writes("abc"))
    assert not cache.entry("pairs", key, writes("abcd")).found
    assert cache.entry("pairs", "k", writes("never")).facts == {"length": 3}


def shorten(entry: Path) -> None:
    (entry / "part").write_text("ab")


def change_a_byte(entry: Path) -> None:
    (entry / "part").write_text("abd")


def remove(entry: Path) -> None:
    (entry / "part").unlink()


def garble_facts(entry: Path) -> None:
    (entry / "entry.json").write_text("{")


def empty_facts(entry: Path) -> None:
    (entry / "entry.json").write_text("[]")


def no_facts(entry: Path) -> None:
    (entry / "entry.json").unlink()


@pytest.mark.parametrize(
    "damage", [shorten, change_a_byte, remove, garble_facts, empty_facts, no_facts]
)
def test_a_damaged_entry_is_noticed_and_made_anew(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    cache = CorpusCache(tmp_path)
    damage(cache.entry("pairs", "k", writes("abc")).folder)
    again = cache.entry("pairs", "k", writes("abc"))
    assert again.damaged and not again.found
    assert (again.folder / "part").read_text() == "abc"
    assert cache.entry("pairs", "k", writes("never")).found
    assert names(tmp_path) == ["pairs-k"]


def test_a_failed_entry_leaves_nothing(tmp_path: Path) -> None:
    def fails(folder: Path) -> dict[str, Any]:
        (folder / "part").write_text("half")
        raise InputError("line 3")

    with pytest.raises(InputError, match="line 3"):
        CorpusCache(tmp_path).entry("pairs", "k", fails)
    assert names(tmp_path) == []


def test_a_full_disk_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    def fails(folder: Path) -> dict[str, Any]:
        (folder / "part").write_text("half")
        raise OSError(errno.ENOSPC, "as Arrow has it")

    with pytest.raises(InputError, match=r"`cache_dir` must have room.*No space left.*streaming"):
        CorpusCache(tmp_path).entry("pairs", "k", fails)
    assert names(tmp_path) == []


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / ".pairs-k.making-dead"
    left.mkdir()
    os.utime(left, (0, 0))
    CorpusCache(tmp_path).entry("pairs", "k", writes("abc"))
    assert names(tmp_path) == ["pairs-k"]


def _slowly(folder: Path) -> dict[str, Any]:
    (folder / "part").write_text("a")
    time.sleep(0.5)
    (folder / "part").write_text("abc")
    return {}


def _run(folder: Path, locked: bool, results: Any) -> None:
    if not locked:
        CorpusCache._locked = lambda self, entry: nullcontext()  # type: ignore[method-assign]
    entry = CorpusCache(folder).entry("pairs", "k", _slowly)
    results.put((entry.found, (entry.folder / "part").read_text()))


@pytest.mark.parametrize("locked", [True, False])
def test_two_processes_do_not_spoil_each_others_entry(locked: bool, tmp_path: Path) -> None:
    """With the lock one waits for the other; where locks do not work both do it, unharmed."""
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    runs = [context.Process(target=_run, args=(tmp_path, locked, results)) for _ in range(2)]
    for run in runs:
        run.start()
    found = sorted(results.get(timeout=60) for _ in runs)
    for run in runs:
        run.join()
    assert found == [(False, "abc"), (locked, "abc")]
    assert names(tmp_path) == ["pairs-k"]
    assert json.loads((tmp_path / "pairs-k" / "entry.json").read_text())["facts"] == {}


def test_key_of_a_file_changes_with_a_byte_and_not_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    paths = [tmp_path / "a.tsv", tmp_path / "other" / "b.tsv", tmp_path / "c.tsv"]
    for path, text in zip(paths, ["x\ty\n", "x\ty\n", "x\tz\n"], strict=True):
        path.write_text(text)
    same, moved, changed = (data_key(path) for path in paths)
    assert same == moved != changed
    paths[0].rename(tmp_path / "a.jsonl")
    assert data_key(tmp_path / "a.jsonl") != same


def test_key_of_aligned_files_knows_their_order(tmp_path: Path) -> None:
    one, two = tmp_path / "a", tmp_path / "b"
    one.write_text("x\n")
    two.write_text("y\n")
    assert data_key([one, two]) != data_key([two, one])


def test_keys_do_not_run_into_each_other() -> None:
    assert joined_key(["a", "bc"]) != joined_key(["ab", "c"])


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="`cache_dir` must be a folder where you may write"):
        CorpusCache(tmp_path / "file" / "cache")
