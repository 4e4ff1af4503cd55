"""Turns each line of token ids back into a line of text.

Control tokens and -100 are left out. A character that would end the line becomes a space.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vaswani.cli._model import opened_output
from vaswani.cli.tokenizer._lines import LineArguments, TokenizerArguments
from vaswani.errors import InputError
from vaswani.output_folder import check_apart


@dataclass
class DecodeArguments(LineArguments):
    """What is read and written."""


ARGUMENTS: tuple[type, ...] = (TokenizerArguments, DecodeArguments)
EXAMPLES = """
vaswani tokenizer decode --tokenizer runs/en-de --input letters.ids
vaswani tokenizer decode --tokenizer runs/en-de --side target --input letters.ids --output out.de
"""


def run(tokenizer_arguments: TokenizerArguments, arguments: DecodeArguments) -> int:
    """Writes one line for each line read."""
    check_apart("output", arguments.output, [arguments.input])
    tokenizer = tokenizer_arguments.load()
    with opened_output(arguments.output) as stream:
        for first, lines in arguments.blocks():
            for number, line in enumerate(lines, start=first):
                ids = _ids(line, tokenizer, arguments.place(number))
                text = tokenizer.decode(ids, skip_special_tokens=True, side="source")
                stream.write(text.replace("\n", " ") + "\n")
    return 0


def _ids(line: str, tokenizer: Any, place: str) -> Sequence[int]:
    """The ids of a line.

    Raises:
        InputError: if one is no id of the vocabulary.
    """
    ids = []
    for word in line.split():
        index = int(word) if word.removeprefix("-").isdecimal() else None
        if index != -100 and (index is None or not 0 <= index < len(tokenizer)):
            raise InputError(
                f"{place}: ids must be whole numbers from 0 to {len(tokenizer) - 1}, got {word!r}."
            )
        ids.append(index)
    return ids
