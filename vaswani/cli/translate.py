"""Translates text line by line: one output line for each input line, in order.

Blank lines stay blank. Standard output holds the translations alone; the summary goes to stderr.
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tqdm import tqdm

from vaswani.cli._model import (
    ComputeArguments,
    SearchArguments,
    check_writable,
    is_terminal,
    one_line,
    opened_output,
)
from vaswani.errors import InputError
from vaswani.text_lines import read_lines

if TYPE_CHECKING:
    from vaswani.translation import Translation


@dataclass
class TranslateArguments:
    """What to translate."""

    _argument_group_name = "model and text"

    model: list[str] = field(
        metadata={
            "metavar": "FOLDER",
            "help": "model folder, as `vaswani train` writes it; several with one vocabulary "
            "translate together, by the mean of their probabilities",
        }
    )
    input: str = field(
        default="-", metadata={"metavar": "FILE", "help": "text to translate; - is standard input"}
    )
    output: str = field(
        default="-",
        metadata={"metavar": "FILE", "help": "where to write; - is standard output"},
    )
    encoding: str = field(default="utf-8", metadata={"help": "encoding of the input"})
    prefixes: str | None = field(
        default=None,
        metadata={"metavar": "FILE", "help": "what each translation begins with, line by line"},
    )
    format: Literal["text", "jsonl"] = field(
        default="text",
        metadata={"help": "jsonl adds score, truncated and the n-best list to each line"},
    )
    nbest: int = field(
        default=1, metadata={"help": "translations of each line, with --format jsonl"}
    )
    chunk_lines: int = field(
        default=2000,
        metadata={"help": "lines read ahead, to put those of like length into one batch"},
    )

    def __post_init__(self) -> None:
        if self.chunk_lines < 1:
            raise InputError(f"`--chunk-lines` must be at least 1, got {self.chunk_lines}.")
        if self.nbest < 1:
            raise InputError(f"`--nbest` must be at least 1, got {self.nbest}.")
        if self.nbest != 1 and self.format == "text":
            raise InputError(
                f"`--nbest` must be 1 with --format text, got {self.nbest}. Use --format jsonl."
            )


ARGUMENTS = (TranslateArguments, SearchArguments, ComputeArguments)
EXAMPLES = """
vaswani translate --model runs/en-de --input letters.en --output letters.de
echo "Where is the station?" | vaswani translate --model runs/en-de
vaswani translate --model runs/en-de --input essay.en --split-sentences --num-beams 1
vaswani translate --model runs/en-de --input letters.en --format jsonl --nbest 4
vaswani translate --model runs/en-de-1 runs/en-de-2 --input letters.en --output letters.de
"""


def run(what: TranslateArguments, search: SearchArguments, computing: ComputeArguments) -> int:
    """Translates the input to the output; see `--help`."""
    if what.nbest > search.num_beams:
        raise InputError(
            f"`--nbest` must be at most `--num-beams`, got {what.nbest} and {search.num_beams}. "
            "Use a wider beam."
        )
    if what.prefixes is not None and search.split_sentences:
        raise InputError("`--prefixes` must be left out with --split-sentences, got both.")
    lines = _opened_input(what)
    prefixes = read_lines(what.prefixes, encoding=what.encoding) if what.prefixes else None
    if what.output != "-":
        check_writable(what.output)
    translator = computing.load(what.model)
    counts = {"blank": 0, "truncated": 0}
    done = 0
    shows_text = what.output == "-" and is_terminal(sys.stdout)
    start = time.perf_counter()
    with (
        opened_output(what.output) as output,
        # On a terminal that shows the translations themselves a bar would run into them.
        tqdm(unit=" lines", leave=False, disable=not is_terminal() or shows_text) as bar,
    ):
        # A person who types wants an answer to each line.
        chunk_lines = 1 if what.input == "-" and is_terminal(sys.stdin) else what.chunk_lines
        while chunk := list(islice(lines, chunk_lines)):
            begun = None if prefixes is None else list(islice(prefixes, len(chunk)))
            if begun is not None and len(begun) < len(chunk):
                raise InputError(
                    f"{what.prefixes} must have a line for each line of the input, "
                    f"got {done + len(begun)} and more than that."
                )
            found = translator.translate(
                chunk,
                num_return_sequences=what.nbest,
                prefixes=begun,
                batch_tokens=computing.batch_tokens,
                progress=bar.update,
                first_line=done + 1,
                **search.settings(),
            )
            for translation in found:
                output.write(_formatted(translation, what.format) + "\n")
            output.flush()
            done += len(chunk)
            counts["blank"] += sum(not line for line in chunk)
            counts["truncated"] += sum(translation.truncated for translation in found)
    print(
        f"translated {done} line{'s' * (done != 1)} "
        f"({counts['blank']} blank, {counts['truncated']} truncated) "
        f"in {time.perf_counter() - start:.1f} s",
        file=sys.stderr,
    )
    return 0


def _opened_input(what: TranslateArguments) -> Iterator[str]:
    if what.input == "-":
        if is_terminal(sys.stdin):
            print("reading lines from the terminal; Ctrl-D ends", file=sys.stderr)
        return read_lines(sys.stdin.buffer, encoding=what.encoding, name="standard input")
    lines = read_lines(what.input, encoding=what.encoding)
    output = Path(what.output)
    if what.output != "-" and output.exists() and output.samefile(what.input):
        raise InputError(f"`--output` must be another file than `--input`, got {what.output}.")
    return lines


def _formatted(translation: "Translation", format: str) -> str:
    if format == "text":
        return one_line(translation.text)
    record = _record(translation)
    if translation.alternatives:
        record["alternatives"] = [_record(other) for other in translation.alternatives]
    return json.dumps(record, ensure_ascii=False)


def _record(translation: "Translation") -> dict[str, object]:
    return {
        "text": translation.text,
        "score": translation.score,
        "truncated": translation.truncated,
    }
