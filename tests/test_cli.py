"""Claims about the frame of the command line: parsing, settings files, help and errors."""

import errno
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Literal

import pytest
from huggingface_hub.errors import StrictDataclassError

import vaswani.cli
from vaswani import VaswaniConfig
from vaswani.cli import COMMANDS, main
from vaswani.errors import InputError

ROOT = Path(vaswani.__file__).parents[1]


@dataclass
class Sizes:
    """A small dataclass with every kind of field."""

    _argument_group_name = "sizes"

    model: str = field(metadata={"metavar": "FOLDER", "help": "the folder"})
    num_beams: int = field(default=4, metadata={"help": "beam size"})
    rate: float = field(default=0.1, metadata={"help": "a rate"})
    kind: Literal["gnmt", "power"] = field(default="gnmt", metadata={"help": "penalty"})
    files: list[str] = field(default_factory=list, metadata={"help": "files"})
    progress: bool = field(default=True, metadata={"help": "bar"})
    limit: int | None = field(default=None, metadata={"help": "limit"})


seen: list[Sizes] = []


@pytest.fixture(autouse=True)
def fake_command(monkeypatch) -> ModuleType:
    """The command `fake`, whose `run` keeps what it was given."""
    module = ModuleType("vaswani.cli.fake", "Fakes a command.\n\nMore about it.")
    module.ARGUMENTS = (Sizes,)
    module.EXAMPLES = "vaswani fake --model runs/x"
    module.run = lambda sizes: seen.append(sizes) or 0
    monkeypatch.setitem(sys.modules, "vaswani.cli.fake", module)
    monkeypatch.setitem(COMMANDS, "fake", "fakes")
    seen.clear()
    return module


def _refused(capsys, *words: str) -> str:
    """The one line on stderr of a command line that must exit with 2."""
    assert main(list(words)) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    return captured.err


def test_flags_in_both_spellings_reach_the_command() -> None:
    words = "fake --model m --num-beams 2 --rate 1e-3 --files a b --no-progress --limit 7"
    assert main(words.split()) == 0
    assert main(words.replace("num-beams", "num_beams").split()) == 0
    assert seen == [Sizes("m", 2, 1e-3, "gnmt", ["a", "b"], False, 7)] * 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "`--model FOLDER` must be given"),
        ("--model", "`--model` must have a value, got none"),
        ("--model m --num-beam 3", "`--num-beam` must be an option .* Did you mean --num-beams"),
        ("--model m --num_beem=3", "`--num_beem` must be .* Did you mean --num-beams"),
        ("--model m --zzz", "See `vaswani fake --help`"),
        ("--model m stray", "must get its input by options, got 'stray'"),
        ("--model m --num-beams four", "`--num-beams` must be an integer, got 'four'"),
        ("--model m --rate x", "`--rate` must be a number, got 'x'"),
        ("--model m --kind wu", "`--kind` must be one of gnmt, power, got 'wu'"),
        ("--model m --progress maybe", "`--progress` must be true or false, got 'maybe'"),
        ("--model m --config none.yaml", "none.yaml: No such file or directory"),
    ],
)
def test_wrong_words_are_refused_in_one_line(capsys, words, message) -> None:
    pattern = f"^vaswani fake: error: .*{message}"
    assert re.search(pattern, _refused(capsys, "fake", *words.split()))
    assert seen == []


def test_unknown_command_names_the_nearest(capsys) -> None:
    assert "Did you mean translate?" in _refused(capsys, "tranlate")


def test_group_of_commands_lists_them_and_refuses_others(capsys) -> None:
    assert main(["plot", "--help"]) == 0
    text = capsys.readouterr().out
    assert "usage: vaswani plot COMMAND" in text
    for name in ("attention", "positions", "schedule"):
        assert f"\n  {name}" in text
    assert main(["plot"]) == 2
    assert capsys.readouterr().err == text
    line = _refused(capsys, "plot", "atention")
    assert "`COMMAND` must be one of attention, positions, schedule" in line
    assert "Did you mean attention?" in line
    assert "got '--model'. See `vaswani plot --help`" in _refused(capsys, "plot", "--model", "m")


def test_settings_file_fills_in_and_flags_win(tmp_path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text(
        "model: from-file\nnum-beams: 2\nrate: 1e-3\nfiles: [a, b]\nprogress: false\nlimit: null\n"
    )
    assert main(["fake", "--config", str(settings)]) == 0
    assert main(["fake", "--num-beams", "9", "--config", str(settings), "--limit", "1"]) == 0
    assert seen == [
        Sizes("from-file", 2, 1e-3, "gnmt", ["a", "b"], False, None),
        Sizes("from-file", 9, 1e-3, "gnmt", ["a", "b"], False, 1),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("num_beam: 3", "`num_beam` must be a setting of `vaswani fake`. Did you mean num_beams?"),
        ("num_beams: four", "`num_beams` must be an integer, got 'four'"),
        ("num_beams: 2.5", "`num_beams` must be an integer, got 2.5"),
        ("num_beams: true", "`num_beams` must be an integer, got True"),
        ("num_beams: [1]", "`num_beams` must be an integer, got [1]"),
        ("num_beams:", "`num_beams` must have a value, got nothing"),
        ("kind: wu", "`kind` must be one of gnmt, power, got 'wu'"),
        ("progress: 3", "`progress` must be true or false, got 3"),
        ("model: no", "`model` must be a text, got False. Put it in quotes."),
        ("- a\n- b", "must be one `name: value` a line, got list"),
        ("a: [", "line 1: `--config` must be YAML"),
    ],
)
def test_wrong_settings_are_refused_with_the_file(capsys, tmp_path, text, message) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    line = _refused(capsys, "fake", "--model", "m", "--config", str(path))
    assert str(path) in line and message in line


def test_settings_that_are_not_utf8_are_refused(capsys, tmp_path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes("kind: grün".encode("latin-1"))
    assert "must be UTF-8 text" in _refused(capsys, "fake", "--config", str(path))


def test_help_shows_kebab_case_defaults_and_examples(capsys) -> None:
    assert main(["fake", "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: vaswani fake --model FOLDER [options]\n\nFakes a command.\n")
    for part in ("--num-beams N", "(default: 4)", "--kind {gnmt,power}", "--no-progress"):
        assert part in text
    assert "num_beams" not in text and "More about it" not in text
    assert text.rstrip().endswith("examples:\n  vaswani fake --model runs/x")


def test_own_options_can_wait_for_help_all(capsys, fake_command, monkeypatch) -> None:
    """Also those of a dataclass that inherits nothing from transformers."""
    monkeypatch.setattr(Sizes, "_hidden_options", ("limit",), raising=False)
    assert main(["fake", "--help"]) == 0
    assert "--limit" not in capsys.readouterr().out
    assert main(["fake", "--help-all"]) == 0
    assert "--limit" in capsys.readouterr().out
    assert main(["fake", "--model", "m", "--limit", "3"]) == 0
    assert seen[0].limit == 3


def test_inherited_options_wait_for_help_all(capsys, fake_command) -> None:
    """The hundred options of transformers neither hide ours nor get lost."""
    from transformers import Seq2SeqTrainingArguments

    @dataclass
    class Training(Seq2SeqTrainingArguments):
        _shown_options = ("seed",)
        _hidden_options = ("debug_file",)
        debug_file: str | None = field(default=None, metadata={"help": "for few"})
        tokens_per_update: int = field(default=25_000, metadata={"help": "tokens"})

    fake_command.ARGUMENTS = (Sizes, Training)
    fake_command.run = lambda sizes, training: seen.append(training) or 0
    assert main(["fake", "--help"]) == 0
    short = capsys.readouterr().out
    assert "--tokens-per-update" in short and "--seed" in short
    assert "--weight-decay" not in short and "--debug-file" not in short
    assert main(["fake", "--help-all"]) == 0
    full = capsys.readouterr().out
    assert full.index("--tokens-per-update") < full.index("--weight-decay")
    assert "--debug-file" in full
    words = "fake --model m --output-dir x --weight-decay 0.5 --seed 3"
    assert main(words.split()) == 0
    assert (seen[0].weight_decay, seen[0].seed, seen[0].tokens_per_update) == (0.5, 3, 25_000)


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["presets"]])
def test_words_without_a_model_print_and_succeed(capsys, words) -> None:
    assert main(words) == 0
    assert "vaswani" in capsys.readouterr().out or words == ["presets"]


def test_no_words_print_the_help_on_stderr(capsys) -> None:
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "commands:" in captured.err


def test_every_module_is_a_command_and_explains_itself(capsys) -> None:
    folder = Path(vaswani.cli.__file__).parent
    for path in [*folder.glob("[!_]*.py"), *folder.glob("[!_]*/[!_]*.py")]:
        names = path.relative_to(folder).with_suffix("").parts
        assert names[0] in COMMANDS
        assert main([*names, "--help"]) == 0
        text = capsys.readouterr().out
        assert f"usage: vaswani {' '.join(names)}" in text and "examples:" in text
        assert max(map(len, text.splitlines())) <= 100


FULL = "the disk must have room for the output, got 'No space left on device'. Make room there."


def _strict_error() -> StrictDataclassError:
    with pytest.raises(StrictDataclassError, match="multiple") as raised:
        VaswaniConfig(d_model=33, encoder_attention_heads=4)
    return raised.value


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (lambda: InputError("`a` must be b,\ngot c."), "`a` must be b, got c."),
        (lambda: FileNotFoundError("no x"), "no x"),
        (lambda: PermissionError(13, "Permission denied", "x.tsv"), "x.tsv: Permission denied."),
        (lambda: IsADirectoryError(21, "Is a directory", "runs"), "runs: Is a directory."),
        (_strict_error, "`d_model` must be a multiple of `encoder_attention_heads`, got 33 and 4."),
        (lambda: ModuleNotFoundError("no", name="sacrebleu"), "sacrebleu is not installed"),
        (lambda: OSError(errno.ENOSPC, "No space left on device"), FULL),
        (lambda: OSError(errno.EFBIG, "File too large"), FULL[:43]),
        (lambda: RuntimeError("I/O error: No space left on device (os error 28)"), FULL),
        (lambda: RuntimeError("PytorchStreamWriter failed writing file data/1"), FULL[:43]),
        (lambda: OSError(errno.ENOSPC, "No space left", "a.py", None, "b.py"), "b.py: No space"),
        (lambda: OSError(errno.ENOSPC, "No space left", "a.py"), "a.py: No space left."),
        (lambda: PermissionError(13, "Permission denied", "a", None, "b"), "a: Permission denied."),
        (lambda: InputError("`c` must have room: No space left on device"), "`c` must have room"),
    ],
)
def test_errors_of_the_input_become_one_line(capsys, fake_command, error, message) -> None:
    def fail(sizes: Sizes) -> int:
        raise error()

    fake_command.run = fail
    assert f"vaswani fake: error: {message}" in _refused(capsys, "fake", "--model", "m")


@pytest.mark.parametrize("error", [ValueError("ours"), KeyError("ours"), OSError("ours")])
def test_errors_of_ours_keep_their_traceback(fake_command, error) -> None:
    def fail(sizes: Sizes) -> int:
        raise error

    fake_command.run = fail
    with pytest.raises(type(error), match="ours"):
        main(["fake", "--model", "m"])


def test_interrupt_exits_with_130(capsys, fake_command) -> None:
    def fail(sizes: Sizes) -> int:
        raise KeyboardInterrupt

    fake_command.run = fail
    assert main(["fake", "--model", "m"]) == 130
    assert capsys.readouterr().err == "vaswani fake: interrupted.\n"


def _started(code: str, **streams: object) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, timeout=120, check=False, **streams
    )


def test_reader_that_goes_away_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    code = "import sys; from vaswani.cli import main; sys.exit(main(['--help']))"
    done = _started(code, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_output_that_finds_no_room_is_one_line_of_error() -> None:
    code = "import sys; from vaswani.cli import main; sys.exit(main(['--help']))"
    with open("/dev/full", "wb") as full:
        done = _started(code, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.decode() == f"vaswani: error: {FULL}\n"


def test_names_that_are_no_text_are_shown_as_they_are_or_refused(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xe9.tsv"
    try:
        with open(name, "wb") as file:
            file.write(b"a\tb\n")
    except OSError:
        pytest.skip("file names must be UTF-8 here")
    code = "import sys; from vaswani.cli import main; sys.exit(main())"
    for language, expected in (("en", 0), (b"\xe9", 2)):
        words = [
            "--data",
            name,
            "--target",
            "de",
            "--source",
            language,
            "--output",
            name + b".jsonl",
        ]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
        done = subprocess.run(
            [sys.executable, "-c", code, "corpus", "convert", *words],
            env=environment,
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == expected, done.stderr
        if expected:
            assert done.stderr.startswith(b"vaswani corpus: error: words of this command must be")
            assert done.stderr.count(b"\n") == 1
        else:
            assert done.stdout == name + b".jsonl: 1 pair\n"


def test_help_loads_no_library_of_the_extras() -> None:
    code = (
        "import sys; from vaswani.cli import main\n"
        "main(['--help']); main(['translate', '--help'])\n"
        "print({'datasets', 'sacrebleu', 'evaluate', 'pandas'} & set(sys.modules))"
    )
    done = _started(code, stdout=subprocess.PIPE)
    assert done.stdout.endswith(b"\nset()\n")
