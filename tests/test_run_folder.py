"""Claims about which output folders a run may take."""

from pathlib import Path

import pytest
from training_material import arguments

from vaswani.data_arguments import DataArguments
from vaswani.errors import InputError
from vaswani.run_folder import SETTINGS, check_output, claim_output
from vaswani.run_settings import ModelArguments

DATA = DataArguments(data=["a.tsv"], source="en", target="de")


def test_folder_of_a_run_that_saved_nothing_is_taken_over_in_words(tmp_path: Path) -> None:
    """After two Ctrl-C in the first updates there are settings, and a log at most."""
    (tmp_path / SETTINGS).write_text("seed: 1\n")
    (tmp_path / "log.jsonl").write_text("{}\n")
    args = arguments(tmp_path, seed=7)
    assert check_output(args, ModelArguments()) == tmp_path
    said: list[str] = []
    claim_output(tmp_path, ModelArguments(), DATA, args, said.append)
    assert len(said) == 1 and str(tmp_path) in said[0] and "saved nothing" in said[0]
    assert "seed: 7" in (tmp_path / SETTINGS).read_text()
    assert not (tmp_path / "log.jsonl").exists()


@pytest.mark.parametrize("name", ["config.json", "checkpoint-3", "notes.txt"])
def test_folder_with_anything_else_is_not(name: str, tmp_path: Path) -> None:
    (tmp_path / SETTINGS).write_text("seed: 1\n")
    (tmp_path / name).write_text("")
    with pytest.raises(InputError, match=r"must be new or empty.*which holds another run"):
        check_output(arguments(tmp_path), ModelArguments())


def test_new_folder_is_claimed_without_a_word(tmp_path: Path) -> None:
    said: list[str] = []
    claim_output(tmp_path / "run", ModelArguments(), DATA, arguments(tmp_path), said.append)
    assert said == [] and (tmp_path / "run" / SETTINGS).is_file()
