"""Scores given translations: one output line for each pair, in order.

A line has the log-probability of the target given the source (nats, end token included), the number
of target tokens, and the log-probability of each token. The perplexity goes to stderr.
"""

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tqdm import tqdm

from vaswani.cli._model import ComputeArguments, check_writable, is_terminal, opened_output
from vaswani.errors import InputError
from vaswani.text_lines import ReadReport, check_file, checked_encoding, line_blocks, read_lines

if TYPE_CHECKING:
    from vaswani.translation import Score


@dataclass
class ScoreArguments:
    """What to score."""

    _argument_group_name = "model and text"

    model: list[str] = field(
        metadata={"metavar": "FOLDER", "help": "model folder; several score together"}
    )
    data: list[str] = field(
        metadata={
            "metavar": "FILE",
            "help": "pairs: a file with source, tab and target a line, or two line-aligned files",
        }
    )
    output: str = field(
        default="-", metadata={"metavar": "FILE", "help": "where to write; - is standard output"}
    )
    encoding: str = field(default="utf-8", metadata={"help": "encoding of the data"})
    format: Literal["tsv", "jsonl"] = field(
        default="tsv",
        metadata={"help": "jsonl names each value and shows each token beside its own"},
    )
    chunk_lines: int = field(
        default=2000,
        metadata={"help": "lines read ahead, to put those of like length into one batch"},
    )

    def __post_init__(self) -> None:
        if len(self.data) > 2:
            raise InputError(f"`--data` must be one file or two, got {len(self.data)}.")
        if self.chunk_lines < 1:
            raise InputError(f"`--chunk-lines` must be at least 1, got {self.chunk_lines}.")
        if self.output != "-":
            check_writable(self.output)


ARGUMENTS = (ScoreArguments, ComputeArguments)
EXAMPLES = """
vaswani score --model runs/en-de --data pairs.tsv --output scores.tsv
vaswani score --model runs/en-de --data letters.en letters.de --format jsonl
vaswani score --model runs/en-de-1 runs/en-de-2 --data pairs.tsv
"""


def run(what: ScoreArguments, computing: ComputeArguments) -> int:
    """Writes a line a pair; see `--help`."""
    pairs = _pairs(what)
    translator = computing.load(what.model)
    done, tokens, total = 0, 0, 0.0
    with (
        opened_output(what.output) as output,
        tqdm(unit=" pairs", disable=not is_terminal()) as bar,
    ):
        while chunk := list(islice(pairs, what.chunk_lines)):
            found = translator.score(
                [source for source, _ in chunk],
                [target for _, target in chunk],
                batch_tokens=computing.batch_tokens,
            )
            output.writelines(_formatted(score, what.format) + "\n" for score in found)
            done += len(chunk)
            tokens += sum(score.tokens for score in found)
            total += sum(score.log_probability for score in found)
            bar.update(len(chunk))
    summary = f"scored {done} pair{'s' * (done != 1)}"
    if done:
        perplexity = math.exp(min(-total / tokens, 700.0))
        summary += f", {tokens} target tokens, perplexity {perplexity:.3f}"
    print(summary, file=sys.stderr)
    return 0


def _pairs(what: ScoreArguments) -> Iterator[tuple[str, str]]:
    """Source and target of each line; files that do not exist are refused at the call."""
    if len(what.data) == 1:
        check_file(Path(what.data[0]))
        return _columns(what.data[0], checked_encoding(what.encoding))
    sources, targets = (read_lines(path, encoding=what.encoding) for path in what.data)
    return _aligned(what.data, sources, targets)


def _aligned(
    names: list[str], sources: Iterator[str], targets: Iterator[str]
) -> Iterator[tuple[str, str]]:
    for number, (source, target) in enumerate(zip_longest(sources, targets)):
        if source is None or target is None:
            raise InputError(
                f"{names[0]} and {names[1]} must have as many lines as each other, "
                f"but {names[0] if source is None else names[1]} ends after {number}."
            )
        yield source, target


def _columns(path: str, encoding: str) -> Iterator[tuple[str, str]]:
    blocks = line_blocks(path, path, encoding, "error", ReadReport())
    # Not stripped yet: a blank source begins its line with the tab.
    for number, line in enumerate((line or "" for _, block in blocks for line in block), 1):
        source, tab, rest = line.partition("\t")
        if not tab:
            raise InputError(
                f"{path}, line {number}: there must be 2 columns with a tab between them, got 1."
            )
        yield source, rest.split("\t")[0]


def _formatted(score: "Score", format: str) -> str:
    if format == "tsv":
        values = " ".join(f"{value:.6f}" for value in score.token_log_probabilities)
        return f"{score.log_probability:.6f}\t{score.tokens}\t{values}"
    record = {
        "log_probability": score.log_probability,
        "tokens": score.tokens,
        "pieces": score.pieces,
        "token_log_probabilities": score.token_log_probabilities,
    }
    return json.dumps(record, ensure_ascii=False)
