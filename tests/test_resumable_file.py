"""Claims about `vaswani.resumable_file`."""

import gzip
import lzma
import os
import random
from pathlib import Path

import pytest

from vaswani.errors import InputError
from vaswani.resumable_file import folder_fingerprint, journal_path, resumable_file

REQUEST = {"`--model`": ["abc"], "`--num-beams`": 4}
PARTS = [f"Zeile {k} ä\n" * k for k in range(6)]


class StopError(Exception):
    pass


def _write(path: Path, *, stop_before: int = 99, resume: bool = False, request=REQUEST) -> int:
    """Writes `PARTS` from where an earlier run stopped, and returns where that was."""
    with resumable_file(path, request, resume=resume) as file:
        begun = file.state.get("next", 0)
        for k in range(begun, len(PARTS)):
            if k == stop_before:
                raise StopError
            file.append(PARTS[k], {"next": k + 1})
    return begun


def _interrupt(path: Path, before: int) -> None:
    with pytest.raises(StopError):
        _write(path, stop_before=before)


def test_file_appears_when_it_is_complete(tmp_path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    _interrupt(path, 3)
    assert path.read_text() == "old"
    assert _write(path, resume=True) == 3
    assert path.read_text("utf-8") == "".join(PARTS)
    assert os.listdir(tmp_path) == ["a.txt"]


def test_run_that_stops_before_its_first_part_leaves_nothing(tmp_path) -> None:
    _interrupt(tmp_path / "a.txt", 0)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("seed", range(8))
def test_whatever_stood_on_the_disk_the_file_is_the_same(tmp_path, seed) -> None:
    """A process that is killed leaves any beginning of the last part, and of its line."""
    path = tmp_path / "a.txt"
    draw = random.Random(seed)
    _interrupt(path, 4)
    partial, journal = tmp_path / ".a.txt.partial", tmp_path / ".a.txt.journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    whole = draw.randrange(1, len(lines))
    torn = lines[whole][: draw.randrange(len(lines[whole]))]
    journal.write_bytes(b"".join(lines[:whole]) + torn)
    with partial.open("ab") as stream:
        stream.write(b"Zeile"[: draw.randrange(6)])
    assert _write(path, resume=True) == whole - 1
    assert path.read_text("utf-8") == "".join(PARTS)


def test_journal_ahead_of_a_lost_part_goes_back(tmp_path) -> None:
    """Where the machine lost power, the last bytes may be missing."""
    path = tmp_path / "a.txt"
    _interrupt(path, 5)
    with (tmp_path / ".a.txt.partial").open("r+b") as stream:
        stream.truncate(len("".join(PARTS[:3]).encode()) + 2)
    assert _write(path, resume=True) == 3
    assert path.read_text("utf-8") == "".join(PARTS)


@pytest.mark.parametrize("damage", [b"", b"{", b"nonsense\n", b"[]\n", b'{"bytes": 0}\n'])
def test_journal_that_cannot_be_read_begins_again(tmp_path, damage) -> None:
    path = tmp_path / "a.txt"
    _interrupt(path, 3)
    (tmp_path / ".a.txt.journal").write_bytes(damage)
    assert _write(path, resume=True) == 0
    assert path.read_text("utf-8") == "".join(PARTS)


def test_parts_of_another_run_are_not_replaced_without_being_asked(tmp_path) -> None:
    path = tmp_path / "a.txt"
    _interrupt(path, 2)
    before = (tmp_path / ".a.txt.partial").read_bytes()
    with pytest.raises(InputError, match=r"a.txt.partial. Go on with it by `--resume`, or delete"):
        _write(path)
    assert (tmp_path / ".a.txt.partial").read_bytes() == before


def test_other_settings_are_refused_by_name(tmp_path) -> None:
    path = tmp_path / "a.txt"
    _interrupt(path, 2)
    with pytest.raises(InputError, match=r"`--num-beams` must be as it was .*got 8, then 4"):
        _write(path, resume=True, request=REQUEST | {"`--num-beams`": 8})
    assert _write(path, resume=True) == 2


def test_second_process_is_refused(tmp_path) -> None:
    path = tmp_path / "a.txt"
    with resumable_file(path, REQUEST, resume=False) as file:
        file.append("x\n", {})
        with (
            pytest.raises(InputError, match="one process at a time"),
            resumable_file(path, REQUEST, resume=True),
        ):
            pass
        file.append("y\n", {})
    assert path.read_text() == "x\ny\n"


@pytest.mark.parametrize(("suffix", "opened"), [(".gz", gzip.open), (".xz", lzma.open)])
def test_compressed_parts_are_one_file(tmp_path, suffix, opened) -> None:
    plain, path = tmp_path / f"plain{suffix}", tmp_path / f"a{suffix}"
    _write(plain)
    _interrupt(path, 3)
    _write(path, resume=True)
    assert path.read_bytes() == plain.read_bytes()
    with opened(path, "rt", encoding="utf-8") as stream:
        assert stream.read() == "".join(PARTS)


def test_disk_that_is_full_is_one_line_and_the_run_goes_on_later(tmp_path, monkeypatch) -> None:
    path = tmp_path / "a.txt"

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with (
        pytest.raises(InputError, match=r"partial must be writable, got: No space left on device"),
        resumable_file(path, REQUEST, resume=False) as file,
    ):
        file.append(PARTS[0], {"next": 1})
        file.append(PARTS[1], {"next": 2})
        monkeypatch.setattr(os, "fsync", full)
        file.append(PARTS[2], {"next": 3})
    monkeypatch.undo()
    assert _write(path, resume=True) == 2
    assert path.read_text("utf-8") == "".join(PARTS)


def test_fingerprint_tells_models_apart_and_not_their_logs(tmp_path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"abc")
    first = folder_fingerprint(tmp_path)
    (tmp_path / "log.jsonl").write_text("x")
    assert folder_fingerprint(tmp_path) == first
    (tmp_path / "model.safetensors").write_bytes(b"abd")
    assert folder_fingerprint(tmp_path) != first


def test_a_torn_line_of_the_journal_hides_no_later_part(tmp_path: Path) -> None:
    """What a second interruption leaves is gone on with, though the first tore a line."""
    path = tmp_path / "out.txt"

    def interrupted(text: str, number: int) -> None:
        with (
            pytest.raises(KeyboardInterrupt),
            resumable_file(path, {"a": 1}, resume=True) as file,
        ):
            file.append(text, {"lines": number})
            raise KeyboardInterrupt

    interrupted("one\n", 1)
    with journal_path(path).open("ab") as journal:
        journal.write(b'{"bytes": 8, "sta')
    interrupted("two\n", 2)
    with resumable_file(path, {"a": 1}, resume=True) as file:
        assert file.state == {"lines": 2}
    assert path.read_text() == "one\ntwo\n"
