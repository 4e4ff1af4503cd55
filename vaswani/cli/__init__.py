"""The command `vaswani`: finds the subcommand, parses its arguments, runs it, words its errors.

A subcommand `vaswani NAME` is a module `vaswani/cli/NAME.py` with

    ARGUMENTS   a tuple of dataclasses; every field becomes a flag and a key of `--config`
    EXAMPLES    command lines that work, shown at the end of `--help`
    TAKES_RECIPE    (may be left out) whether there is `--recipe NAME`
    POSITIONAL      (may be left out) fields that words without an option fill, in this order
    run         takes one object per dataclass, returns the exit code

and one line in `COMMANDS` below. A group `vaswani NAME WORD` is a package `vaswani/cli/NAME/` with
`COMMANDS` of its own and a module for each. They are imported only when their command is called.

Help and refusals should come at once. So a command's module imports at its top only what its
options need, and within `run` what does the work; the classes are registered just before that.

Exit codes: 0 done, 2 the input is at fault (one line on stderr says which and how to mend it),
130 interrupted, 141 the reader of our output went away. Any other failure is a defect of this
package and keeps its traceback.
"""

import difflib
import errno
import importlib
import io
import os
import re
import sys
from collections.abc import Iterable
from types import ModuleType

from vaswani import register
from vaswani.errors import InputError

COMMANDS = {
    "train": "train a model on parallel text, or go on from one",
    "translate": "translate a file or standard input, line by line",
    "score": "tell how probable a model finds given translations",
    "average": "average the weights of checkpoints into one model",
    "evaluate": "measure BLEU, chrF and perplexity of a model or of translations",
    "tokenizer": "train a tokenizer, apply one to lines, or show what one is",
    "push": "check a model folder and send it to the Hugging Face Hub",
    "presets": "list the models that have a name, every row of the paper's Table 3 among them",
    "corpus": "convert, clean, count and split parallel text; find some in installed packages",
    "plot": "draw attention, positions or the learning rate",
    "demo": "show the whole way on a generated corpus, in minutes",
}

_HELP = ("-h", "--help", "help")
# The extra that brings a package, where it isn't `train`.
_EXTRAS = {
    "matplotlib": "plot",
    "fontTools": "data",
    "babel": "data",
    "defusedxml": "data",
    "zstandard": "data",
}

_SURROGATE = re.compile("[\udc80-\udcff]")  # bytes of a command line that are no UTF-8

_DESCRIPTION = """\
usage: vaswani COMMAND [options]

The encoder-decoder of "Attention Is All You Need", from parallel text to a translating model.

commands:
{commands}

  vaswani COMMAND --help   options and examples of one command
  vaswani --version        version of this package

examples:
  vaswani train --data train.tsv.gz --source en --target de --preset small --output-dir runs/en-de
  vaswani translate --model runs/en-de --input letters.en --output letters.de
  vaswani evaluate --model runs/en-de --data dev.tsv.gz --source en --target de
"""


def main(argv: list[str] | None = None) -> int:
    """Runs one command line and returns its exit code.

    Args:
        argv: the words after `vaswani`; `None` takes those of this process.
    """
    words = sys.argv[1:] if argv is None else argv
    if argv is None and isinstance(sys.stdout, io.TextIOWrapper):
        # Names of files are shown as they are, also where they are no text of the locale.
        sys.stdout.reconfigure(errors="surrogateescape")
    program = f"vaswani {words[0]}" if words and words[0] in COMMANDS else "vaswani"
    try:
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _give_up_stdout()
        return 141
    except KeyboardInterrupt:
        print(f"{program}: interrupted.", file=sys.stderr)
        return 130
    except Exception as error:
        message = _message_for_user(error)
        if isinstance(error, UnicodeEncodeError) and _SURROGATE.search(" ".join(words)):
            message = "words of this command must be valid UTF-8, got bytes that are not. Rename."
        if message is None:
            raise
        print(f"{program}: error: {message}", file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:  # what is left of it found no room either
            _give_up_stdout()
        return 2


def _give_up_stdout() -> None:
    """The interpreter flushes stdout once more on exit; gives it somewhere to go."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in _HELP:
        text = _DESCRIPTION.format(commands=_listed(COMMANDS))
        print(text, end="", file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    if words[0] == "--version":
        from vaswani import __version__

        print(f"vaswani {__version__}")
        return 0
    name, command, rest = find_command(words)
    group = getattr(command, "COMMANDS", None)
    if group is not None:
        summary = (command.__doc__ or "").split("\n\n")[0]
        print(
            f"usage: vaswani {name} COMMAND [options]\n\n{summary}\n\n"
            f"commands:\n{_listed(group)}\n\n"
            f"  vaswani {name} COMMAND --help   options and examples of one command",
            file=sys.stdout if rest else sys.stderr,
        )
        return 0 if rest else 2

    from vaswani.cli._arguments import parse_arguments

    arguments = parse_arguments(name, command, rest)
    if arguments is None:
        return 0
    register()
    return command.run(*arguments)


def find_command(words: list[str]) -> tuple[str, ModuleType, list[str]]:
    """The name and the module of the command that a command line begins with, and the words left.

    It is a group itself, with `COMMANDS`, where none of its commands is named.

    Raises:
        InputError: if there is no such command.
    """
    name, rest = words[0], words[1:]
    _check_command(name, COMMANDS, "vaswani")
    module = importlib.import_module(f"vaswani.cli.{name}")
    group = getattr(module, "COMMANDS", None)
    if group is None or not rest or rest[0] in _HELP:
        return name, module, rest
    _check_command(rest[0], group, f"vaswani {name}")
    module = importlib.import_module(f"vaswani.cli.{name}.{rest[0]}")
    return f"{name} {rest[0]}", module, rest[1:]


def _check_command(name: str, commands: Iterable[str], program: str) -> None:
    if name not in commands:
        nearest = difflib.get_close_matches(name, commands, n=1)
        remedy = f"Did you mean {nearest[0]}?" if nearest else f"See `{program} --help`."
        raise InputError(f"`COMMAND` must be one of {', '.join(commands)}, got {name!r}. {remedy}")


def _listed(commands: dict[str, str]) -> str:
    return "\n".join(f"  {name:<12}{summary}" for name, summary in commands.items())


def _memory_wanted(error: Exception) -> str | None:
    """What could not be allocated, in words; `None` for an error of another kind."""
    text = str(error)
    # Of torch's allocators only those of accelerators have a class of their own.
    signs = ("can't allocate memory", "out of memory")
    of_torch = isinstance(error, RuntimeError) and any(sign in text for sign in signs)
    if not (of_torch or isinstance(error, MemoryError)):
        return None
    match = re.search(r"allocate (\d+ bytes|[\d.]+ .iB)", text)
    return match[1] if match else "more than there is"


def _room_wanted(error: Exception) -> str | None:
    """Why there is no room on a disk, in words; `None` for an error of another kind."""
    if isinstance(error, OSError):
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        return error.strerror or str(error) if full else None
    # Libraries that write by themselves have errors of their own, without a number.
    reasons = [os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)]
    if "PytorchStreamWriter failed writing" in str(error):
        return "a file that could not be written to its end"
    return next((reason for reason in reasons if reason in str(error)), None)


def _message_for_user(error: Exception) -> str | None:
    """The one line for an error that the user can mend; `None` for any other."""
    from huggingface_hub.errors import StrictDataclassError

    if isinstance(error, OSError) and error.filename is not None:
        # Of a copy the second is what was written.
        full = error.filename2 is not None and _room_wanted(error) is not None
        text = f"{error.filename2 if full else error.filename}: {error.strerror or error}."
    elif isinstance(error, InputError | FileNotFoundError):
        text = str(error)
    elif (reason := _room_wanted(error)) is not None:
        text = f"the disk must have room for the output, got {reason!r}. Make room there."
    elif isinstance(error, StrictDataclassError):
        text = re.sub(
            r"^Field '(\w+)' expected (.*), got \w+ \(value: (.*)\)$",
            r"`\1` must be \2, got \3.",
            str(error.__cause__ or error),
        )
    elif isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("vaswani"):
        name = error.name or ""
        extra = _EXTRAS.get(name.partition(".")[0], "train")
        text = f"{name} is not installed. Install it with `pip install 'vaswani[{extra}]'`."
    elif (memory := _memory_wanted(error)) is not None:
        text = f"the sizes asked for must fit into memory, got {memory}. Choose smaller ones."
    else:
        return None
    return " ".join(text.split())
