"""`vaswani push` as it is typed: every command line that is shown passes a dry run."""

import re
import shlex
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hub_material import client_of, write_ready_card, write_stand_in
from huggingface_hub import get_session

from vaswani import hub_push
from vaswani.cli import main
from vaswani.cli.push import EXAMPLES

DOCS = Path(__file__).resolve().parent.parent / "docs" / "hub.md"
SHOWN = re.findall(r"^\$ (vaswani push .*)$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `runs/en-de` of the examples, with a checkpoint and without a license."""
    monkeypatch.setattr(hub_push, "loading_problems", lambda folder: [])
    monkeypatch.chdir(tmp_path)
    for name in ("runs/en-de", "runs/en-de-letters", "runs/en-de/checkpoint-100"):
        folder = tmp_path / name
        folder.mkdir(parents=True, exist_ok=True)
        write_stand_in(folder)
        write_ready_card(folder, license=None if name == "runs/en-de" else "mit")
    return tmp_path / "runs" / "en-de"


@pytest.mark.parametrize("line", [*EXAMPLES.strip().splitlines(), *SHOWN])
def test_command_line_that_is_shown_passes_a_dry_run(
    line: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*shlex.split(line)[1:], "--dry-run", "true"]
    if "--license" not in words:
        write_ready_card(run)
    assert main(words) == 0, capsys.readouterr().err
    told = capsys.readouterr().err
    assert "\n  model.safetensors\n" in told
    assert ("branch checkpoint-100" in told) == ("--checkpoints" in words)


def test_there_are_examples_to_test() -> None:
    assert len(EXAMPLES.strip().splitlines()) >= 4 and len(SHOWN) >= 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "`FOLDER`, `USER/NAME` must be given"),
        (["runs/en-de"], "`USER/NAME` must be given"),
        (["runs/en-de", "a/b", "c"], "must get the rest of its input by options, got 'c'"),
        (["runs/en-de", "a/b", "--privat"], "Did you mean --private?"),
        (
            ["--folder", "nowhere", "a/b", "--dry-run"],
            "`folder` must be an existing model folder, got nowhere",
        ),
    ],
)
def test_words_that_make_no_sense_are_one_line(
    words: list[str], message: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["push", *words]) == 2
    told = capsys.readouterr().err
    assert message in told and len(told.splitlines()) == 1


def test_help_shows_the_words_by_their_places(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["push", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "usage: vaswani push FOLDER USER/NAME [options]" in shown
    assert "vaswani push runs/en-de your-name/en-de --dry-run" in shown


def test_server_that_says_nothing_is_not_waited_for_forever(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hub_push, "PATIENCE", 0.2)
    monkeypatch.setattr(get_session(), "timeout", None)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server: Any = SimpleNamespace(url=f"http://127.0.0.1:{silent.getsockname()[1]}")
        with client_of(server, tmp_path / "cache"):
            assert main(["push", "runs/en-de-letters", "ada/en-de"]) == 2
    assert "the Hub must be within reach for ada/en-de, got " in capsys.readouterr().err
