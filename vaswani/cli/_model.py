"""Options that the commands which load a model have in common."""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

from vaswani.errors import InputError

if TYPE_CHECKING:
    from vaswani.translation import Translator

_LINE_ENDS = dict.fromkeys(map(ord, "\0\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")


@dataclass
class ComputeArguments:
    """Where and how to compute."""

    _argument_group_name = "computing"

    precision: (
        Literal["float32", "float16-weights", "int8", "auto", "bfloat16", "float16"] | None
    ) = field(
        default=None,
        metadata={
            "help": "what the search on a CPU packs the weights in, or with bfloat16 and float16 "
            "their number format (default: the model's setting, else float32)"
        },
    )
    device: str | None = field(
        default=None,
        metadata={"help": "such as cpu or cuda:0 (default: a GPU where there is one)"},
    )
    threads: int | None = field(default=None, metadata={"help": "CPU threads to use"})
    batch_tokens: int = field(
        default=4096,
        metadata={"help": "source tokens of a batch, padding included; bounds the memory"},
    )
    revision: str | None = field(
        default=None,
        metadata={"help": "branch, tag or commit of a --model on the Hub (default: main)"},
    )

    def load(self, model: str | list[str]) -> "Translator":
        """The translator of a folder or a model on the Hub, or of several as one."""
        from transformers.utils import logging

        from vaswani.translation import Translator

        logging.disable_progress_bar()
        return Translator.from_pretrained(
            model,
            precision=self.precision,
            device=self.device,
            threads=self.threads,
            revision=self.revision,
        )


@dataclass
class SearchArguments:
    """How to search."""

    _argument_group_name = "search"

    num_beams: int = field(default=4, metadata={"help": "beam size; 1 is greedy search"})
    length_penalty: float | None = field(
        default=None, metadata={"help": "alpha of the length penalty (default: the model's)"}
    )
    max_new_tokens: int | None = field(
        default=None,
        metadata={"help": "smaller limit for outputs (default: source tokens + 50)"},
    )
    max_source_tokens: int | None = field(
        default=None,
        metadata={"help": "most tokens of a source read at once (default: the model's length)"},
    )
    long_lines: Literal["split", "truncate", "error"] = field(
        default="split",
        metadata={"help": "longer sources: translate in parts, leave out the rest, or stop"},
    )
    split_sentences: bool = field(
        default=False, metadata={"help": "translate each line sentence by sentence"}
    )

    def __post_init__(self) -> None:
        # As `Translator.translate` has it, but before a model is loaded.
        for name, least in (("num_beams", 1), ("max_new_tokens", 1), ("max_source_tokens", 2)):
            value = getattr(self, name)
            if value is not None and value < least:
                flag = name.replace("_", "-")
                raise InputError(f"`--{flag}` must be at least {least}, got {value}.")
        if self.length_penalty is not None and not 0 <= self.length_penalty < math.inf:
            raise InputError(
                f"`--length-penalty` must be a number of at least 0, got {self.length_penalty}. "
                "A larger one prefers longer outputs."
            )

    def settings(self) -> dict[str, Any]:
        """The arguments of `Translator.translate`."""
        return dict(vars(self))


@contextmanager
def opened_output(path: str) -> Iterator[TextIO]:
    """Opens a file as `written_whole` does, or standard output for "-", in UTF-8."""
    if path != "-":
        with written_whole(path) as stream:
            yield stream
        return
    # UTF-8 whatever the locale says. Detached, so that closing does not close stdout.
    stream = TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n", write_through=True)
    try:
        yield stream
    finally:
        stream.detach()


@contextmanager
def written_whole(path: str | Path) -> Iterator[TextIO]:
    """Opens a file for lines of UTF-8 that appears under its name only when it is complete.

    Raises:
        InputError: if its folder does not exist.
    """
    path = Path(path).resolve()
    if path.exists() and not path.is_file() and not path.is_dir():
        # A device or a pipe, such as /dev/null, is written to and not replaced.
        with path.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream
        return
    check_writable(path)
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def check_writable(path: str | Path) -> None:
    """Refuses an output path before the work begins.

    Raises:
        InputError: if it is a folder, or its folder does not exist.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} must be a file to write, got a folder.")
    if not path.parent.is_dir():
        raise InputError(f"{path} must be in an existing folder. Make {path.parent} first.")


def one_line(text: str) -> str:
    """The text without characters at which any reader would end a line, nor NUL.

    Each becomes a space, and so does `\\r\\n`.
    """
    return text.replace("\r\n", " ").translate(_LINE_ENDS)


def is_terminal(stream: Any = None) -> bool:
    """Whether a person watches the stream (stderr by default)."""
    stream = sys.stderr if stream is None else stream
    return bool(stream is not None and stream.isatty())
