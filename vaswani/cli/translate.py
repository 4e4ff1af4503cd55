"""Translates text line by line: one output line for each input line, in order.

Blank lines stay blank. Standard output holds the translations alone; the report goes to stderr.
"""

import sys
from dataclasses import dataclass
from dataclasses import field as option
from pathlib import Path
from typing import Literal

from vaswani.cli._model import ComputeArguments, SearchArguments, check_writable, is_terminal
from vaswani.errors import InputError
from vaswani.text_lines import check_file


@dataclass
class TranslateArguments:
    """What to translate."""

    _argument_group_name = "model and text"

    model: list[str] = option(
        metadata={
            "metavar": "FOLDER",
            "help": "model folder, or user/name on the Hub; several with one vocabulary "
            "translate together, by the mean of their probabilities",
        }
    )
    input: str = option(
        default="-",
        metadata={
            "metavar": "FILE",
            "help": "text to translate, compressed or not; - is standard input",
        },
    )
    output: str = option(
        default="-",
        metadata={
            "metavar": "FILE",
            "help": "where to write, compressed if it ends in .gz or .xz; - is standard output",
        },
    )
    resume: bool = option(
        default=False,
        metadata={"help": "go on with an interrupted run where it stopped; needs --output"},
    )
    encoding: str = option(default="utf-8", metadata={"help": "encoding of the input"})
    input_format: Literal["text", "jsonl"] | None = option(
        default=None,
        metadata={"help": "text, or a JSON record a line (default: by the name, else text)"},
    )
    field: str = option(
        default="text",
        metadata={"metavar": "NAME", "help": "field of JSON records to translate, a.b within a"},
    )
    output_field: str = option(
        default="translation",
        metadata={"metavar": "NAME", "help": "new field of JSON records for the translation"},
    )
    bad_lines: Literal["error", "skip"] = option(
        default="error",
        metadata={"help": "skip writes a bad record with its reason in the field error"},
    )
    prefixes: str | None = option(
        default=None,
        metadata={"metavar": "FILE", "help": "what each translation begins with, line by line"},
    )
    protect: bool = option(
        default=False,
        metadata={"help": "keep placeholders, tags, entities, URLs and e-mail addresses"},
    )
    check_placeholders: bool = option(
        default=False,
        metadata={"help": "report the lines whose placeholders did not come back"},
    )
    format: Literal["text", "jsonl"] | None = option(
        default=None,
        metadata={
            "help": "of the output; jsonl adds score, truncated and the n-best list to each line "
            "of text (default: that of the input)"
        },
    )
    nbest: int = option(
        default=1, metadata={"help": "translations of each line, with --format jsonl"}
    )
    chunk_lines: int = option(
        default=2000,
        metadata={"help": "lines read ahead, to put those of like length into one batch"},
    )

    def __post_init__(self) -> None:
        if self.input_format is None:
            suffixes = [s for s in Path(self.input).suffixes if s not in (".gz", ".xz", ".zst")]
            is_json = suffixes[-1:] in ([".jsonl"], [".ndjson"])
            self.input_format = "jsonl" if is_json else "text"
        self.format = self.format or self.input_format
        if self.chunk_lines < 1:
            raise InputError(f"`--chunk-lines` must be at least 1, got {self.chunk_lines}.")
        if self.nbest < 1:
            raise InputError(f"`--nbest` must be at least 1, got {self.nbest}.")
        if self.nbest != 1 and self.format == "text":
            raise InputError(
                f"`--nbest` must be 1 with --format text, got {self.nbest}. Use --format jsonl."
            )
        if self.resume and self.output == "-":
            raise InputError("`--resume` must have an `--output` file, got standard output.")
        if self.output != "-" and Path(self.output).suffix.lower() in (".zst", ".bz2", ".zip"):
            raise InputError(f"`--output` must end in .gz or .xz if at all, got {self.output}.")

    def check_with(self, search: SearchArguments) -> None:
        """Refuses what the search cannot do, and files that are not there, before any work."""
        if self.nbest > search.num_beams:
            raise InputError(
                f"`--nbest` must be at most `--num-beams`, got {self.nbest} and "
                f"{search.num_beams}. Use a wider beam."
            )
        for flag, chosen in (
            ("--split-sentences", search.split_sentences),
            ("--protect", self.protect),
        ):
            if chosen and self.prefixes is not None:
                raise InputError(f"`--prefixes` must be left out with {flag}, got both.")
            if chosen and self.nbest > 1:
                raise InputError(f"`--nbest` must be 1 with {flag}, got {self.nbest}.")
        if self.protect and search.long_lines == "truncate":
            raise InputError(
                "`--long-lines` must be split or error with --protect, got 'truncate'. "
                "What is left out could hold placeholders."
            )
        for path in (self.input, self.prefixes):
            if path not in ("-", None):
                check_file(Path(path))
        if self.output == "-":
            return
        output = Path(self.output)
        if self.input != "-" and output.exists() and output.samefile(self.input):
            raise InputError(f"`--output` must be another file than `--input`, got {self.output}.")
        check_writable(output)


ARGUMENTS = (TranslateArguments, SearchArguments, ComputeArguments)
EXAMPLES = """
vaswani translate --model runs/en-de --input letters.en --output letters.de
vaswani translate --model runs/en-de --input letters.en --output letters.de --resume
echo "Where is the station?" | vaswani translate --model runs/en-de
vaswani translate --model runs/en-de --input messages.jsonl --field text --output-field german
vaswani translate --model runs/en-de --input manual.en --output manual.de --protect
vaswani translate --model runs/en-de --input essay.en --split-sentences --num-beams 1
vaswani translate --model runs/en-de --input letters.en --format jsonl --nbest 4
vaswani translate --model runs/en-de-1 runs/en-de-2 --input letters.en --output letters.de
"""


def run(what: TranslateArguments, search: SearchArguments, computing: ComputeArguments) -> int:
    """Translates the input to the output; see `--help`."""
    from vaswani.cli._translating import translate_lines

    what.check_with(search)
    if what.input == "-" and is_terminal(sys.stdin):
        print("reading lines from the terminal; Ctrl-D ends", file=sys.stderr)
    translate_lines(what, search, computing)
    return 0
