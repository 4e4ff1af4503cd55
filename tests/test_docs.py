"""What README.md and docs/ show is run (Python) or parsed (command lines).

The Python blocks of one file run in order in one interpreter, in an empty folder. A block opened
with "```python skip: REASON" is only compiled.
"""

import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PROJECT = Path(__file__).resolve().parent.parent
DOCUMENTS = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted(PROJECT.glob("docs/*.md"))]
SHELLS = ("bash", "console", "sh", "shell")


class Block(NamedTuple):
    document: Path
    line: int
    language: str
    note: str
    text: str

    def __str__(self) -> str:
        return f"{self.document.name}:{self.line}"


def blocks(document: Path) -> Iterator[Block]:
    text = document.read_text(encoding="utf-8")
    for found in re.finditer(r"^```(\w+) *(.*)\n((?:.*\n)*?)```$", text, flags=re.MULTILINE):
        yield Block(document, text.count("\n", 0, found.start()) + 1, *found.groups())


ALL = [block for document in DOCUMENTS for block in blocks(document)]
PYTHON = [block for block in ALL if block.language == "python"]


def command_lines(block: Block) -> Iterator[list[str]]:
    """The words of each command, without prompts, comments and pipes."""
    text = block.text.replace("\\\n", " ")
    for line in text.splitlines():
        if block.language == "console":
            if not line.startswith("$ "):
                continue
            line = line[2:]
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>;&")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, "|"]:
            if word and set(word) <= set("|<>;&"):
                if words:
                    yield words
                # The name of a file after < or > is no command, but its first word is none of ours.
                words = []
            else:
                words.append(word)


COMMANDS = [
    pytest.param(words, id=f"{block} {shlex.join(words)[:60]}")
    for block in ALL
    if block.language in SHELLS
    for words in command_lines(block)
]
OURS = [command for command in COMMANDS if command.values[0][0] == "vaswani"]
FOLDERS = ("scripts/", "benchmarks/", "examples/")
SCRIPTS = [c for c in COMMANDS if any(word.startswith(FOLDERS) for word in c.values[0])]
MAKE = [command for command in COMMANDS if command.values[0][0] == "make"]


def test_readme_has_what_the_tests_look_for() -> None:
    """A change of notation must not leave the other tests without blocks."""
    assert len([block for block in PYTHON if block.document.name == "README.md"]) >= 3
    assert {command.values[0][1] for command in OURS} >= {"train", "translate", "evaluate"}
    assert len(MAKE) >= 4


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_blocks_run(document: Path, tmp_path: Path) -> None:
    code = "\n".join(
        # Line numbers of an error are those of the block, after the name of its place.
        f"exec(compile({block.text!r}, '{block}', 'exec'), globals())"
        for block in PYTHON
        if block.document == document and not block.note.startswith("skip:")
    )
    if not code:
        pytest.skip("no Python in this document")
    result = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.append({str(PROJECT)!r})\n{code}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_block_compiles(block: Block) -> None:
    compile(block.text, str(block), "exec")
    assert not block.note or re.match(r"skip: \w+", block.note), "say why it is skipped"


@pytest.mark.parametrize("words", OURS)
def test_command_line_parses(words: list[str]) -> None:
    """Every command and every flag exists, and every value has the right type."""
    pytest.importorskip("yaml")
    from vaswani.cli import find_command
    from vaswani.cli._arguments import parse_arguments

    name, module, rest = find_command(words[1:])
    if rest[:1] != ["--help"]:
        assert parse_arguments(name, module, rest) is not None


@pytest.mark.parametrize("words", SCRIPTS)
def test_script_exists(words: list[str]) -> None:
    for word in words:
        assert not word.startswith(FOLDERS) or (PROJECT / word).is_file()
    if words[1].startswith("benchmarks/"):
        source = (PROJECT / words[1]).read_text(encoding="utf-8")
        flags = [word for word in words[2:] if word.startswith("--")]
        assert all(f'"{flag}"' in source for flag in flags)


@pytest.mark.parametrize("words", MAKE)
def test_make_target_exists(words: list[str]) -> None:
    targets = re.findall(r"^([\w-]+):", (PROJECT / "Makefile").read_text("utf-8"), re.MULTILINE)
    named = [word for word in words[1:] if "=" not in word and not word.startswith("-")]
    assert named and set(named) <= {*targets, "layering"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", text)
    paths = re.findall(r"`((?:vaswani|scripts|tests|docs|benchmarks)/[\w./-]+\.\w+)`", text)
    missing = [path for path in links if not (document.parent / path).exists()]
    missing += [path for path in paths if not (PROJECT / path).exists()]
    assert not missing


def test_names_in_the_where_is_table_exist() -> None:
    rows = re.findall(
        r"^\|.*\| `(vaswani/\S+\.py)` \| (.*) \|$", DOCUMENTS[0].read_text("utf-8"), re.M
    )
    assert rows
    for path, names in rows:
        module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
        for name in re.findall(r"`(\w+)`", names):
            assert hasattr(module, name), f"{path} has no {name}"


def test_readme_opens_with_one_sentence_and_two_commands() -> None:
    text = DOCUMENTS[0].read_text(encoding="utf-8")
    _, opening, commands = text.split("\n\n")[:3]
    assert len(re.findall(r"\.(\s|$)", opening)) == 1
    assert re.findall(r"^\$ (make \w+)", commands, re.MULTILINE) == ["make demo", "make test"]
    assert "not affiliated" in text and "first author" in text
