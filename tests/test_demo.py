"""The demo goes the whole way, and its model learns what word-by-word translation cannot."""

from pathlib import Path

import pytest

from vaswani.cli import main
from vaswani.demo import DemoArguments, run_demo


def test_demo_writes_all_that_it_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "demo"
    words = f"demo --pairs 300 --updates 2 --held-out 40 --output-dir {output}".split()
    assert main(words) == 0
    printed = capsys.readouterr().out
    files = ["corpus/train.tsv", "corpus/validation.tsv", "held_out.tsv", "attention.png"]
    for name in [*files, "model/model.safetensors", "model/README.md", "model/tokenizer.json"]:
        assert (output / name).stat().st_size > 0
    assert len((output / "corpus/train.tsv").read_text(encoding="utf-8").split("\n")) == 301
    assert len((output / "held_out.tsv").read_text(encoding="utf-8").split("\n")) == 42
    for needed in ("Exact by construction", "Exact in all", "BLEU", "chrF", str(output / "model")):
        assert needed in printed


def test_interrupted_demo_says_what_is_left_and_how_to_start_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("vaswani.demo.run_training", interrupted)
    assert main(["demo", "--pairs", "30", "--output-dir", str(tmp_path / "demo")]) == 130
    error = capsys.readouterr().err
    assert str(tmp_path / "demo") in error and "the same command starts it again" in error
    assert (tmp_path / "demo" / "corpus" / "train.tsv").is_file()


@pytest.mark.slow
def test_demo_translates_nine_of_ten_held_out_sentences_exactly(tmp_path: Path) -> None:
    """What `make demo` promises: 90 % exact, where word by word stays under 20 %."""
    result = run_demo(DemoArguments(output_dir=str(tmp_path / "demo")))
    assert result.exact >= 0.9
    assert result.baseline < 0.2
