"""What the commands that apply a tokenizer have in common: which one, and lines in and out."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from vaswani.text_lines import ReadReport, line_blocks


@dataclass
class TokenizerArguments:
    """Which tokenizer, and which side of it."""

    _argument_group_name = "tokenizer"

    tokenizer: str = field(
        metadata={"metavar": "FOLDER", "help": "folder of a tokenizer or of a model"}
    )
    side: Literal["source", "target"] = field(
        default="source", metadata={"help": "which vocabulary, where each side has its own"}
    )

    def load(self) -> Any:
        """The tokenizer of the side.

        Raises:
            InputError, FileNotFoundError: if the folder holds no intact tokenizer.
        """
        from vaswani.model_folder import open_tokenizer
        from vaswani.tokenization_vaswani import target_side

        tokenizer = open_tokenizer(self.tokenizer)
        return tokenizer if self.side == "source" else target_side(tokenizer)


@dataclass
class LineArguments:
    """Where lines come from and go to."""

    _argument_group_name = "lines"

    input: str = field(
        default="-", metadata={"metavar": "FILE", "help": "lines to read; - is standard input"}
    )
    output: str = field(
        default="-", metadata={"metavar": "FILE", "help": "where to write; - is standard output"}
    )
    encoding: str = field(default="utf-8", metadata={"help": "encoding of the input"})

    def blocks(self) -> Iterator[tuple[int, list[str]]]:
        """The number of a block's first line and its lines, white space kept.

        Raises:
            InputError, FileNotFoundError: for what cannot be read.
        """
        from vaswani.text_lines import check_file, checked_encoding

        lines: Any = sys.stdin.buffer
        if self.input != "-":
            lines = self.input
            check_file(Path(lines))
        name = "standard input" if self.input == "-" else self.input
        report = ReadReport()
        encoding = checked_encoding(self.encoding)
        for number, block in line_blocks(lines, name, encoding, "error", report):
            # One \r before the \n belongs to the end of the line.
            yield number, [(line or "").removesuffix("\r") for line in block]
        if report.removed_nul:
            print(f"{report.removed_nul:,} NUL characters left out.", file=sys.stderr)

    def place(self, number: int) -> str:
        """What a message calls a line."""
        return f"{'standard input' if self.input == '-' else self.input}, line {number}"
