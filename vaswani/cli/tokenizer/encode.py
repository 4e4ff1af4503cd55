"""Turns each line of text into a line of token ids, the end token included.

Blank lines give the end token alone. What looks like a control token is text.
"""

import json
from dataclasses import dataclass, field

from vaswani.cli._model import opened_output
from vaswani.cli.tokenizer._lines import LineArguments, TokenizerArguments
from vaswani.output_folder import check_apart


@dataclass
class EncodeArguments(LineArguments):
    """What is read and written."""

    pieces: bool = field(
        default=False, metadata={"help": "write a JSON list of pieces a line instead of ids"}
    )
    allow_control_tokens: bool = field(
        default=False, metadata={"help": "read control tokens such as </s> in the text as such"}
    )


ARGUMENTS: tuple[type, ...] = (TokenizerArguments, EncodeArguments)
EXAMPLES = """
vaswani tokenizer encode --tokenizer runs/en-de --input letters.en --output letters.ids
vaswani tokenizer encode --tokenizer runs/en-de --side target --pieces --input letters.de
"""


def run(tokenizer_arguments: TokenizerArguments, arguments: EncodeArguments) -> int:
    """Writes one line for each line read."""
    check_apart("output", arguments.output, [arguments.input])
    tokenizer = tokenizer_arguments.load()
    with opened_output(arguments.output) as stream:
        for _, lines in arguments.blocks():
            # Not verbose: no model has to read these lines.
            rows = tokenizer(
                lines, split_special_tokens=not arguments.allow_control_tokens, verbose=False
            )["input_ids"]
            for row in rows:
                if arguments.pieces:
                    pieces = tokenizer.convert_ids_to_tokens(row, side="source")
                    stream.write(json.dumps(pieces, ensure_ascii=False) + "\n")
                else:
                    stream.write(" ".join(map(str, row)) + "\n")
    return 0
