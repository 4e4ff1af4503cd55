"""Claims about `vaswani translate`: one output line for each input line, whatever is in it."""

import io
import json
import sys
from pathlib import Path

import pytest

from vaswani.cli import main
from vaswani.cli._model import one_line, written_whole
from vaswani.errors import InputError
from vaswani.translation import Translator

LINES = ["The baker sees the child.", "", "   ", "baker finds the Kind.", "The child"]


def _translate(tmp_path: Path, folder: Path, data: bytes, *words: str) -> str:
    """What the command writes for these bytes."""
    given, written = tmp_path / "given.txt", tmp_path / "written.txt"
    given.write_bytes(data)
    command = ["translate", "--model", str(folder), "--input", str(given)]
    assert main([*command, "--output", str(written), "--device", "cpu", *words]) == 0
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []
    return written.read_bytes().decode("utf-8")


@pytest.mark.parametrize("chunk_lines", ["2", "2000"])
def test_lines_come_out_in_order_and_blank_ones_blank(
    tmp_path, folder, capsys, chunk_lines
) -> None:
    data = "\n".join(LINES).encode()
    text = _translate(tmp_path, folder, data, "--chunk-lines", chunk_lines)
    translator = Translator.from_pretrained(folder, device="cpu")
    assert text == "".join(translator.translate([line])[0].text + "\n" for line in LINES)
    captured = capsys.readouterr()
    assert "translated 5 lines (2 blank, 0 truncated)" in captured.err
    assert captured.out == ""


def test_byte_order_mark_and_windows_line_ends_change_nothing(tmp_path, folder) -> None:
    plain = _translate(tmp_path, folder, "\n".join([*LINES, ""]).encode())
    marked = _translate(tmp_path, folder, b"\xef\xbb\xbf" + "\r\n".join([*LINES, ""]).encode())
    assert marked == plain and plain.count("\n") == len(LINES)


def test_characters_that_end_lines_elsewhere_end_none_here(tmp_path, folder) -> None:
    data = "The\u2028baker\x0b\nThe\x85child\x0c\x1c.\nThe\rKind".encode()
    assert _translate(tmp_path, folder, data, "--max-new-tokens", "4").count("\n") == 3


def test_translation_is_written_as_one_line() -> None:
    """Whatever a reader takes for the end of a line; Python's own list is the longest."""
    ends = [chr(k) for k in range(0x110000) if len(f"a{chr(k)}b".splitlines()) > 1]
    assert len(ends) == 10
    assert one_line("a\r\nb" + "".join(ends) + "c\0d") == "a b" + " " * 10 + "c d"


def test_empty_file_gives_an_empty_file(tmp_path, folder) -> None:
    assert _translate(tmp_path, folder, b"") == ""


def test_endless_repetition_ends_with_a_report_and_later_lines_follow(
    tmp_path, folder, capsys
) -> None:
    data = ("a " * 3000 + "\n" + "b " * 2500 + "\nThe child\n").encode()
    words = ("--num-beams", "1", "--max-source-tokens", "60", "--chunk-lines", "1")
    words += ("--long-lines", "truncate")
    lines = _translate(tmp_path, folder, data, *words).split("\n")
    assert len(lines) == 4 and lines[2]
    err = capsys.readouterr().err
    assert "longer than the model reads, the rest left out: 2 (lines 1, 2)" in err
    assert "2 truncated)" in err


def test_standard_input_goes_to_standard_output_alone(folder, monkeypatch, capfdbinary) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"The child\n\nThe Kind"))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert main(["translate", "--model", str(folder), "--device", "cpu"]) == 0
    out = capfdbinary.readouterr().out
    translator = Translator.from_pretrained(folder, device="cpu")
    expected = [t.text for t in translator.translate(["The child", "", "The Kind"])]
    assert out.decode("utf-8").split("\n") == [*expected, ""]


def test_records_hold_scores_and_the_best_few(tmp_path, folder) -> None:
    text = _translate(tmp_path, folder, b"The child\n\n", "--format", "jsonl", "--nbest", "3")
    full, blank = (json.loads(line) for line in text.splitlines())
    assert full["alternatives"][0]["text"] == full["text"]
    assert len(full["alternatives"]) == 3 and full["score"] == full["alternatives"][0]["score"]
    assert blank == {"text": "", "score": 0.0, "truncated": False}


def test_paragraph_is_translated_sentence_by_sentence_when_asked(tmp_path, folder) -> None:
    split = _translate(tmp_path, folder, b"The child.  The Kind.", "--split-sentences")
    first, second = _translate(tmp_path, folder, b"The child.\nThe Kind.").splitlines()
    assert split == f"{first}  {second}\n"


def test_prefix_file_begins_each_line(tmp_path, folder) -> None:
    prefixes = tmp_path / "prefixes.txt"
    prefixes.write_text("The sailor\n\nKi\n")
    data = b"The child\nThe Kind\nThe baker\n"
    lines = _translate(tmp_path, folder, data, "--prefixes", str(prefixes), "--chunk-lines", "2")
    first, second, third = lines.splitlines()
    assert first.startswith("The sailor") and third.startswith("Ki")
    assert second == _translate(tmp_path, folder, b"The Kind\n").rstrip()


def _refused(capsys, *words: object) -> str:
    assert main(["translate", *map(str, words)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    return err


def test_request_without_a_model_is_refused(capsys) -> None:
    assert "`--model FOLDER` must be given" in _refused(capsys, "--input", "x")


def test_bad_files_are_refused_before_the_model_is_loaded(tmp_path, capsys) -> None:
    given = tmp_path / "given.txt"
    given.write_text("The child\n")
    base = ("--model", tmp_path / "none", "--input")
    assert "none.txt" in _refused(capsys, *base, tmp_path / "none.txt")
    assert "another file than `--input`" in _refused(capsys, *base, given, "--output", given)
    assert "existing folder" in _refused(capsys, *base, given, "--output", tmp_path / "a" / "b")
    assert "got a folder" in _refused(capsys, *base, given, "--output", tmp_path)
    assert "must be an existing folder, got" in _refused(capsys, *base, given)
    assert given.read_text() == "The child\n"


def test_text_that_is_not_utf8_leaves_nothing_half_written(tmp_path, folder, capsys) -> None:
    given, written = tmp_path / "given.txt", tmp_path / "written.txt"
    given.write_bytes(b"The child\nThe K\xe4se\n")
    written.write_text("old\n")
    line = _refused(
        capsys, "--model", folder, "--input", given, "--output", written, "--chunk-lines", 1
    )
    assert f"{given}, line 2:" in line and "UTF-8" in line
    assert written.read_text() == "old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "copying", "given.txt", "written.txt",
    ]  # fmt: skip


def test_more_translations_than_beams_are_refused(tmp_path, folder, capsys) -> None:
    given = tmp_path / "given.txt"
    given.write_text("The child\n")
    words = ("--model", folder, "--input", given, "--nbest", 5)
    assert "Use --format jsonl" in _refused(capsys, *words)
    assert "at most `--num-beams`, got 5 and 4" in _refused(capsys, *words, "--format", "jsonl")
    words = ("--model", folder, "--input", given, "--prefixes")
    assert "no such file" in _refused(capsys, *words, tmp_path / "none.txt")
    (tmp_path / "empty.txt").write_text("")
    assert "a line for each line of the input" in _refused(capsys, *words, tmp_path / "empty.txt")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--num-beams 0", "`--num-beams` must be at least 1, got 0"),
        ("--length-penalty -0.6", "`--length-penalty` must be a number of at least 0, got -0.6"),
        ("--nbest 0 --format jsonl", "`--nbest` must be at least 1, got 0"),
        ("--max-new-tokens 0", "`--max-new-tokens` must be at least 1, got 0"),
        ("--max-source-tokens 1", "`--max-source-tokens` must be at least 2, got 1"),
        ("--protect --long-lines truncate", "`--long-lines` must be split or error with --protect"),
        ("--protect --prefixes x", "`--prefixes` must be left out with --protect"),
        ("--protect --nbest 2 --format jsonl", "`--nbest` must be 1 with --protect, got 2"),
        ("--resume", "`--resume` must have an `--output` file"),
        ("--output x.zst", "`--output` must end in .gz or .xz if at all, got x.zst"),
    ],
)
def test_impossible_searches_are_refused_before_the_model_is_loaded(capsys, words, message) -> None:
    assert message in _refused(capsys, "--model", "no-such-folder", *words.split())


def test_device_file_is_written_and_not_replaced() -> None:
    with written_whole("/dev/null") as stream:
        stream.write("x\n")
    assert not Path("/dev/null").is_file()


def test_failure_while_writing_leaves_the_old_file(tmp_path) -> None:
    path = tmp_path / "figures.json"
    path.write_text("old")
    with pytest.raises(InputError, match="stop"), written_whole(path) as stream:
        stream.write("new")
        raise InputError("stop")
    assert [p.name for p in tmp_path.iterdir()] == ["figures.json"] and path.read_text() == "old"
