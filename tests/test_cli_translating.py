"""Claims about `vaswani translate` on whole files: nasty lines, records, and runs that stop."""

import gzip
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vaswani.cli import main
from vaswani.cli._translating import _blocks, _count_lines
from vaswani.cli.translate import TranslateArguments
from vaswani.translation import Translation, Translator

LINES = [f"The {word} sees the child." for word in ("baker", "sailor", "teacher")] * 4
PARTIAL, JOURNAL = ".out.txt.partial", ".out.txt.journal"
FAST = ("--num-beams", "1", "--max-new-tokens", "12", "--device", "cpu")


def _words(tmp_path: Path, folder: Path, *words: object, given: str = "in.txt") -> list[str]:
    command = ["translate", "--model", folder, "--input", tmp_path / given]
    return list(map(str, [*command, "--output", tmp_path / "out.txt", *FAST, *words]))


def _expected(folder: Path, lines: list[str]) -> list[str]:
    translator = Translator.from_pretrained(folder, device="cpu")
    found = [translator.translate([line], num_beams=1, max_new_tokens=12)[0] for line in lines]
    return [translation.text for translation in found]


NASTY = {
    "line separators": ("The\u2028baker\u2029.\nKind\x85\x0b\x0c\x1c\x1d\x1e.\n".encode(), 2),
    "windows": (b"\xef\xbb\xbfKind\r\n\r\nThe child\r\n", 3),
    "lone returns": (b"The\rchild\r\r\nKind\r", 2),
    "nul": (b"Ki\0nd\n\0\n", 2),
    "blank and no end": (b"Kind\n\n \t \nThe child", 4),
    "blank alone": (b"\n\n\n", 3),
    "no-break spaces": ("\u00a0\nKind\u202f?\n".encode(), 2),
    "long": (b"x" * 10_000 + b"\nKind\n" + b"a " * 5_000 + b"\n", 3),
    "marks": ("\u0301\n\u200d\n\U0001f468\u200d\U0001f469\n".encode(), 3),
    "control text": (b"</s>\n<pad> <unk>\n<0x41>\n", 3),
}


@pytest.mark.parametrize("kind", NASTY)
def test_as_many_lines_come_out_as_went_in(tmp_path, folder, kind) -> None:
    data, count = NASTY[kind]
    (tmp_path / "in.txt").write_bytes(data)
    words = ("--max-new-tokens", "2", "--chunk-lines", "2")
    assert main(_words(tmp_path, folder, *words)) == 0
    written = (tmp_path / "out.txt").read_bytes().decode("utf-8")
    assert written.count("\n") == len(written.splitlines()) == count and written.endswith("\n")
    given = data.decode("utf-8-sig").replace("\0", "").split("\n")
    for source, target in zip(given, written.split("\n"), strict=False):
        assert bool(source.strip()) or not target


def test_report_names_what_happened_to_which_lines(tmp_path, folder, capsys) -> None:
    text = f"Kind\n{'The child. ' * 9}\n{'The child, ' * 9}\n\nsee {{0}} and <b>\n"
    (tmp_path / "in.txt").write_text(text)
    words = ("--max-source-tokens", "12", "--check-placeholders", "--chunk-lines", "1")
    assert main(_words(tmp_path, folder, *words)) == 0
    err = capsys.readouterr().err
    assert "longer than the model reads, translated sentence by sentence: 1 (line 2)\n" in err
    assert "longer than the model reads, split within a sentence: " in err
    assert "placeholders lost, added or in another order: 1 (line 5)\n" in err
    assert main(_words(tmp_path, folder, *words, "--protect")) == 0
    err = capsys.readouterr().err
    assert "placeholders lost" not in err
    last = (tmp_path / "out.txt").read_text("utf-8").splitlines()[-1]
    assert "{0}" in last and "<b>" in last
    assert main(_words(tmp_path, folder, *words, "--long-lines", "error")) == 2
    assert "line 2 must have at most 12 tokens, got" in capsys.readouterr().err


def test_records_come_back_with_a_translation(tmp_path, folder, capsys) -> None:
    records = [
        {"id": 7, "text": "The child", "more": [1, {"a": None}]},
        {"text": "", "b": "\u2028"},
    ]
    lines = [json.dumps(records[0]), "", "{", json.dumps(records[1], ensure_ascii=False)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    words = _words(tmp_path, folder, "--output-field", "de", given="in.jsonl")
    assert main(words) == 2
    assert "in.jsonl, line 3: the line must be one JSON object" in capsys.readouterr().err
    assert main([*words, "--bad-lines", "skip"]) == 0
    assert "bad lines, not translated: 1 (line 3)" in capsys.readouterr().err
    written = (tmp_path / "out.txt").read_text("utf-8").splitlines()
    (expected,) = _expected(folder, ["The child"])
    assert list(json.loads(written[0]).items()) == [*records[0].items(), ("de", expected)]
    assert written[1] == "" and "error" in json.loads(written[2])
    assert json.loads(written[3]) == records[1] | {"de": ""}
    assert main([*words, "--bad-lines", "skip", "--format", "text"]) == 0
    assert (tmp_path / "out.txt").read_text("utf-8") == f"{expected}\n\n\n\n"


def test_line_that_is_not_text_can_be_skipped_without_a_shift(tmp_path, folder, capsys) -> None:
    (tmp_path / "in.txt").write_bytes(b"Kind\n\xff\nThe child\n")
    assert main(_words(tmp_path, folder)) == 2
    assert "line 2: text must be UTF-8" in capsys.readouterr().err
    assert main(_words(tmp_path, folder, "--bad-lines", "skip")) == 0
    written = (tmp_path / "out.txt").read_text("utf-8").split("\n")
    assert written[1] == "" and [written[0], written[2]] == _expected(folder, ["Kind", "The child"])
    assert "bad lines, not translated: 1 (line 2)" in capsys.readouterr().err


def test_empty_translation_of_a_text_is_told_and_a_blank_line_is_not(
    tmp_path, folder, capsys, monkeypatch
) -> None:
    nothing = Translation(text=" ", score=0.0, truncated=False, tokens=1)
    monkeypatch.setattr(Translator, "translate", lambda self, texts, **_: [nothing] * len(texts))
    (tmp_path / "in.txt").write_text("Kind\n\nThe child\n")
    assert main(_words(tmp_path, folder)) == 0
    assert (tmp_path / "out.txt").read_text().count("\n") == 3
    assert "nothing but white space came out: 2 (lines 1, 3)" in capsys.readouterr().err


def _stop_after(monkeypatch, chunks: int, error: BaseException) -> None:
    """Lets a run translate so many chunks and no more."""
    translate = Translator.translate
    calls = iter(range(chunks))

    def stopping(self, *args, **settings):
        if next(calls, None) is None:
            raise error
        return translate(self, *args, **settings)

    monkeypatch.setattr(Translator, "translate", stopping)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("chunks", [0, 1, 5])
def test_interrupted_run_goes_on_where_it_stopped(
    tmp_path, folder, monkeypatch, capsys, chunks, suffix
) -> None:
    """The file is that of a run without interruption; no line is translated twice."""
    data = "\n".join(LINES).encode()
    given = f"in.txt{suffix}"
    (tmp_path / given).write_bytes(gzip.compress(data, mtime=0) if suffix else data)
    words = _words(tmp_path, folder, "--chunk-lines", "2", "--check-placeholders", given=given)
    assert main(words) == 0
    whole = (tmp_path / "out.txt").read_bytes()
    report = capsys.readouterr().err.splitlines()
    (tmp_path / "out.txt").write_bytes(b"old\n")
    with monkeypatch.context() as patched:
        _stop_after(patched, chunks, KeyboardInterrupt())
        assert main(words) == 130
    err = capsys.readouterr().err
    assert (tmp_path / "out.txt").read_bytes() == b"old\n"
    assert (tmp_path / PARTIAL).exists() == bool(chunks)
    if chunks:
        assert f"{2 * chunks} lines are kept in" in err and "--resume goes on" in err
        assert main(words) == 2
        assert "Go on with it by `--resume`, or delete it" in capsys.readouterr().err
    with monkeypatch.context() as patched:
        _stop_after(patched, 6 - chunks, AssertionError("translated again"))
        assert main([*words, "--resume"]) == 0
    assert (tmp_path / "out.txt").read_bytes() == whole
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
    first, summary, *others = capsys.readouterr().err.splitlines()
    assert first.endswith(f"going on after line {2 * chunks}" if chunks else "beginning at line 1")
    assert summary.split(" in ")[0] == report[0].split(" in ")[0] and others == report[1:]


def _interrupted(tmp_path, folder, monkeypatch, *words: str) -> list[str]:
    """The command of a run that stopped after 4 of 12 lines."""
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n")
    command = _words(tmp_path, folder, "--chunk-lines", "2", *words)
    with monkeypatch.context() as patched:
        _stop_after(patched, 2, KeyboardInterrupt())
        assert main(command) == 130
    return [*command, "--resume"]


def test_other_input_settings_or_model_are_refused(tmp_path, folder, monkeypatch, capsys) -> None:
    command = _interrupted(tmp_path, folder, monkeypatch)
    kept = (tmp_path / PARTIAL).read_bytes()
    assert main([*command, "--chunk-lines", "3"]) == 2
    assert "`--chunk-lines` must be as it was" in capsys.readouterr().err
    assert main([*command, "--protect"]) == 2
    assert "`--protect` must be as it was" in capsys.readouterr().err
    for lines in (["Kind", *LINES[1:]], LINES[:3], []):
        (tmp_path / "in.txt").write_text("".join(line + "\n" for line in lines))
        assert main(command) == 2
        assert "must begin with the 4 lines that were translated" in capsys.readouterr().err
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")
    assert main(command) == 2
    assert "the content of `--model` must be as it was" in capsys.readouterr().err
    assert (tmp_path / PARTIAL).read_bytes() == kept


def test_line_mended_after_the_part_that_is_done_is_no_obstacle(
    tmp_path, folder, monkeypatch
) -> None:
    """The result is that of the input as it is now."""
    command = _interrupted(tmp_path, folder, monkeypatch)
    now = [*LINES[:8], "Kind", *LINES]
    (tmp_path / "in.txt").write_text("".join(line + "\n" for line in now))
    assert main(command) == 0
    assert (tmp_path / "out.txt").read_text("utf-8").splitlines() == _expected(folder, now)


def test_report_covers_the_lines_before_the_interruption(
    tmp_path, folder, monkeypatch, capsys
) -> None:
    command = _interrupted(tmp_path, folder, monkeypatch, "--max-source-tokens", "4")
    capsys.readouterr()
    assert main(command) == 0
    assert "split within a sentence: 12 (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more)" in (
        capsys.readouterr().err
    )


def test_compressed_output_holds_the_same_lines(tmp_path, folder) -> None:
    (tmp_path / "in.txt").write_text("\n".join(LINES))
    words = _words(tmp_path, folder, "--chunk-lines", "5")
    assert main(words) == 0
    assert main([*words, "--output", str(tmp_path / "out.gz")]) == 0
    plain = (tmp_path / "out.txt").read_bytes()
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()) == plain


def _kill_and_go_on(tmp_path, folder, when: float, how: int) -> None:
    """Ends a run of its own process; `when` counts chunks before it."""
    (tmp_path / "in.txt").write_text("\n".join(LINES * 5))
    words = _words(tmp_path, folder, "--chunk-lines", "1", "--threads", "1")
    assert main(words) == 0
    whole = (tmp_path / "out.txt").read_bytes()
    (tmp_path / "out.txt").unlink()
    process = subprocess.Popen(
        [sys.executable, "-m", "vaswani", *words],
        stderr=subprocess.DEVNULL,
        # A shell lets jobs in the background ignore it, and so do their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    journal = tmp_path / JOURNAL
    while process.poll() is None:
        if journal.exists() and journal.read_bytes().count(b"\n") > when:
            process.send_signal(how)
            break
        time.sleep(0.001)
    process.wait(timeout=120)
    assert process.returncode, "it was done before it could be stopped"
    assert not (tmp_path / "out.txt").exists()
    assert main([*words, "--resume"]) == 0
    assert (tmp_path / "out.txt").read_bytes() == whole
    assert not (tmp_path / PARTIAL).exists() and not journal.exists()


def test_killed_run_goes_on(tmp_path, folder) -> None:
    _kill_and_go_on(tmp_path, folder, random.Random(0).randrange(1, 20), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("seed", range(4))
def test_run_stopped_at_any_moment_goes_on(tmp_path, folder, how, seed) -> None:
    _kill_and_go_on(tmp_path, folder, random.Random(seed).randrange(0, 40), how)


def test_line_of_a_stream_is_answered_before_the_next_one_comes(monkeypatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        blocks = _blocks(TranslateArguments(model=["m"]), "standard input")
        for line in ("one", "two"):
            os.write(writing, f"{line}\n".encode())
            assert next(blocks) == [line]
        os.close(writing)
        assert next(blocks, None) is None


def test_bar_knows_how_many_lines_a_file_has(tmp_path) -> None:
    (tmp_path / "a").write_bytes(b"x\n\n\xff\ny")
    assert _count_lines(TranslateArguments(model=["m"], input=str(tmp_path / "a"))) == 4
    assert _count_lines(TranslateArguments(model=["m"])) is None
