"""Claims about outputs and inputs of commands on text: none takes the place of what is read."""

import os
import threading
from pathlib import Path

import pytest

from vaswani.cli import main
from vaswani.errors import InputError
from vaswani.output_folder import check_apart
from vaswani.text_lines import check_lasting

LANGUAGES = ["--source", "en", "--target", "de"]
PAIRS = "".join(f"text number {chr(97 + k)}\tText Nummer {chr(97 + k)}\n" for k in range(20))


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus under several names in the working folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "pairs.tsv"
    path.write_text(PAIRS)
    os.symlink("pairs.tsv", "symbolic.tsv")
    os.link("pairs.tsv", "hard.tsv")
    (tmp_path / "a.en").write_text("one\n")
    (tmp_path / "a.de").write_text("eins\n")
    return path


@pytest.mark.parametrize("name", ["pairs.tsv", "./pairs.tsv", "symbolic.tsv", "hard.tsv"])
@pytest.mark.parametrize(
    "words",
    [
        ["convert", "--output"],
        ["clean", "--output"],
        ["clean", "--output", "kept.tsv", "--dropped"],
        ["stats", "--json"],
    ],
)
def test_no_corpus_command_replaces_what_it_reads(
    corpus: Path, capsys: pytest.CaptureFixture[str], words: list[str], name: str
) -> None:
    assert main(["corpus", words[0], "--data", "pairs.tsv", *LANGUAGES, *words[1:], name]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "must be apart from what is read" in error
    assert corpus.read_text() == PAIRS
    assert not Path("kept.tsv").exists()


def test_one_side_of_aligned_files_is_not_replaced_either(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["corpus", "convert", "--data", "a.en,a.de", *LANGUAGES, "--output"]
    for output in ("new.en,a.de", "a.en"):
        assert main([*words, output]) == 2
        assert "must be apart" in capsys.readouterr().err
    assert Path("a.de").read_text() == "eins\n"
    assert main([*words, "new.en,new.de"]) == 0


def test_a_split_does_not_replace_the_folder_of_its_corpus(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*LANGUAGES, "--output-dir", "parts", "--validation", "2", "--test", "2"]
    assert main(["corpus", "split", "--data", "pairs.tsv", *words]) == 0
    before = Path("parts/train.tsv").read_bytes()
    assert main(["corpus", "split", "--data", "parts/train.tsv", *words, "--overwrite"]) == 2
    assert "which would take the place of parts/train.tsv" in capsys.readouterr().err
    assert Path("parts/train.tsv").read_bytes() == before
    assert main(["corpus", "split", "--data", "pairs.tsv", *words, "--overwrite"]) == 0


def test_devices_and_names_of_nothing_are_apart_from_everything(corpus: Path) -> None:
    for output in ("/dev/null", "new.tsv", "new/folder"):
        check_apart("output", output, ["pairs.tsv", "owner/name:de-en:train", "-"])
    with pytest.raises(InputError, match=r"`x` must be apart .* got hard.tsv, .* place of pairs"):
        check_apart("x", "hard.tsv", ["a.en", "pairs.tsv"])


@pytest.mark.parametrize(
    "words",
    [
        ["corpus", "stats"],
        ["corpus", "split", "--output-dir", "parts", "--validation", "2", "--test", "2"],
        ["train", "--output-dir", "run", "--preset", "tiny", "--cache-dir", "cache"],
        ["train", "--output-dir", "run", "--streaming", "--max-steps=2", "--validation-split=0"],
    ],
)
def test_a_pipe_is_refused_where_a_corpus_is_read_more_than_once(
    corpus: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """Read again it is empty, or never ends."""
    os.mkfifo("pipe")
    assert main([*words, "--data", "pipe", *LANGUAGES]) == 2
    error = capsys.readouterr().err
    assert "`data` must be a file, since it is read more than once, got pipe" in error
    assert not Path("run").exists() and not Path("parts").exists()


def test_a_pipe_is_read_where_once_is_enough(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo("pipe")
    for words in (["convert", "--output", "out.tsv"], ["stats", "--examples", "0"]):
        writer = threading.Thread(target=Path("pipe").write_text, args=(PAIRS,))
        writer.start()
        assert main(["corpus", *words, "--data", "pipe", *LANGUAGES]) == 0
        writer.join()
    assert Path("out.tsv").read_text() == PAIRS
    for path in ("pairs.tsv", ".", "nothing"):
        check_lasting(Path(path))
