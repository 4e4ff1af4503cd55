"""`vaswani average`: which checkpoints it takes, and what it never overwrites."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from checkpoint_material import checkpoints, save, write_run
from safetensors.torch import load_file

from vaswani.cli import main
from vaswani.output_folder import written_aside


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("run"))


def test_last_checkpoints_of_a_run_are_averaged(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "average"
    assert main(["average", "--run", str(run), "--last", "2", "--output", str(output)]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{output}\n"
    assert "checkpoint-1000" in printed.err and "checkpoint-900" not in printed.err
    averaged = load_file(output / "model.safetensors")
    stored = [load_file(folder / "model.safetensors") for folder in checkpoints(run)[1:]]
    for name, tensor in averaged.items():
        torch.testing.assert_close(tensor, (stored[0][name] + stored[1][name]) / 2)


def test_named_checkpoints_are_averaged_by_the_script(run: Path, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parent.parent
    named = [str(folder) for folder in checkpoints(run)[:2]]
    command = [sys.executable, str(root / "scripts" / "average_checkpoints.py")]
    done = subprocess.run(
        [*command, "--checkpoints", *named, "--output", str(tmp_path / "average")],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "average" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--run", "RUN", "--last", "0"], "`--last` must be at least 1, got 0"),
        (["--run", "RUN", "--last", "9"], "`last` must be at most the number of checkpoints"),
        (["--run", "RUN"], "got 5, and"),
        (["--run", "RUN", "--checkpoints", "RUN"], "either `--run` or `--checkpoints` must be"),
        ([], "either `--run` or `--checkpoints` must be given, got neither"),
        (["--checkpoints", "RUN", "--last", "1"], "`--last` must be left out with"),
        (["--run", "nowhere"], "must be the folder of a training run, got nowhere"),
    ],
)
def test_impossible_requests_are_one_line(
    run: Path,
    words: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [str(run) if word == "RUN" else word for word in words]
    assert main(["average", *words, "--output", str(tmp_path / "a")]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error and "\n" not in error
    assert not (tmp_path / "a").exists()


def test_output_that_holds_something_is_kept(
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "letter").write_text("dear")
    words = ["average", "--run", str(run), "--last", "1", "--output", str(tmp_path)]
    for others, message in (([], "holds other files"), (["--overwrite"], "has no averaged.json")):
        assert main([*words, *others]) == 2
        error = capsys.readouterr().err.strip()
        assert message in error and "\n" not in error
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


def test_an_earlier_average_is_replaced_only_when_told_to(
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "a"
    words = ["average", "--run", str(run), "--output", str(output)]
    assert main([*words, "--last", "1"]) == 0
    first = (output / "model.safetensors").read_bytes()
    assert main([*words, "--last", "2"]) == 2
    assert "holds another average" in capsys.readouterr().err
    assert (output / "model.safetensors").read_bytes() == first
    assert main([*words, "--last", "2", "--overwrite"]) == 0
    assert (output / "model.safetensors").read_bytes() != first
    assert list(tmp_path.iterdir()) == [output]


def test_output_may_not_swallow_its_checkpoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save(tmp_path / "a" / "model")
    (tmp_path / "a" / "averaged.json").write_text("{}")
    words = ["average", "--checkpoints", str(folder), "--output", str(tmp_path / "a")]
    assert main([*words, "--overwrite"]) == 2
    assert "must not hold a checkpoint to average" in capsys.readouterr().err
    assert (folder / "model.safetensors").is_file()


def test_a_folder_that_fails_half_way_leaves_the_earlier_one(tmp_path: Path) -> None:
    output = tmp_path / "a"
    output.mkdir()
    (output / "old").write_text("old")
    with pytest.raises(KeyboardInterrupt, match="now"), written_aside(output) as aside:
        (aside / "new").write_text("new")
        raise KeyboardInterrupt("now")
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "old"]
    with written_aside(output) as aside:
        (aside / "new").write_text("new")
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "new"]


def test_what_a_killed_process_of_the_same_number_left_is_in_no_ones_way(tmp_path: Path) -> None:
    """In a container every run may be process 1."""
    output = tmp_path / "a"
    for content in ("old", "new"):
        for name in ("saving", "replaced"):
            (tmp_path / f".a.{name}-{os.getpid()}").mkdir()
            (tmp_path / f".a.{name}-{os.getpid()}" / "left").write_text("left")
        with written_aside(output) as aside:
            (aside / content).write_text(content)
    assert [path.name for path in output.iterdir()] == ["new"]
    assert not list(tmp_path.glob(".a.saving*"))


def test_a_folder_written_aside_is_readable_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with written_aside(tmp_path / "a"):
        pass
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode
