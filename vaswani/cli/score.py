"""Scores given translations: one output line for each pair, in order.

A line has the log-probability of the target given the source (nats, end token included), the number
of target tokens, and the log-probability of each token. The perplexity goes to stderr. A blank side
counts as the empty text, which has the end token alone, so that no line is missing.
"""

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tqdm import tqdm

from vaswani.cli._model import ComputeArguments, check_writable, is_terminal, opened_output
from vaswani.corpus_readers import format_of
from vaswani.data import corpus_of
from vaswani.errors import InputError
from vaswani.output_folder import check_apart
from vaswani.text_lines import (
    ReadReport,
    check_file,
    checked_encoding,
    clean_text,
    line_blocks,
    read_lines,
)
from vaswani.text_records import BadRecordError, parsed_record, text_of

if TYPE_CHECKING:
    from vaswani.translation import Score


@dataclass
class ScoreArguments:
    """What to score."""

    _argument_group_name = "model and text"

    model: list[str] = field(
        metadata={
            "metavar": "FOLDER",
            "help": "model folder, or user/name on the Hub; several score together",
        }
    )
    data: list[str] = field(
        metadata={
            "metavar": "CORPUS",
            "help": "pairs: a file with source, tab and target a line, a JSON-lines file, or two "
            "line-aligned files as SOURCE_FILE,TARGET_FILE; several are scored in order",
        }
    )
    source: str | None = field(
        default=None,
        metadata={"metavar": "CODE", "help": "source language of JSON records, such as en"},
    )
    target: str | None = field(
        default=None, metadata={"metavar": "CODE", "help": "their target language, such as de"}
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
        if self.chunk_lines < 1:
            raise InputError(f"`--chunk-lines` must be at least 1, got {self.chunk_lines}.")
        if self.output != "-":
            check_writable(self.output)


ARGUMENTS = (ScoreArguments, ComputeArguments)
EXAMPLES = """
vaswani score --model runs/en-de --data pairs.tsv --output scores.tsv
vaswani score --model runs/en-de --data letters.en,letters.de --format jsonl
vaswani score --model runs/en-de --data pairs.jsonl --source en --target de
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
                [source for _, source, _ in chunk],
                [target for _, _, target in chunk],
                batch_tokens=computing.batch_tokens,
                names=[place for place, _, _ in chunk],
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


def _pairs(what: ScoreArguments) -> Iterator[tuple[str, str, str]]:
    """Where each pair is, its source and its target; what cannot be read is refused at the call."""
    encoding = checked_encoding(what.encoding)
    corpora = [corpus_of(word) for word in what.data]
    for corpus in corpora:
        paths = [corpus] if isinstance(corpus, str) else corpus
        for path in paths:
            check_file(Path(path))
        if what.output != "-":
            check_apart("--output", what.output, paths)
        if isinstance(corpus, str) and format_of(Path(corpus)) not in ("tsv", "jsonl"):
            raise InputError(
                "`--data` must be tab-separated, JSON lines or two line-aligned files, "
                f"got {corpus}. Make one of it by `vaswani corpus convert`."
            )
        if isinstance(corpus, str) and _is_json(corpus) and not (what.source and what.target):
            raise InputError(
                f"`--source` and `--target` must be given for the records of {corpus}, "
                f"got {what.source} and {what.target}."
            )
    return chain.from_iterable(_read(corpus, what, encoding) for corpus in corpora)


def _read(
    corpus: str | list[str], what: ScoreArguments, encoding: str
) -> Iterator[tuple[str, str, str]]:
    if not isinstance(corpus, str):
        yield from _aligned(corpus, *(read_lines(path, encoding=encoding) for path in corpus))
        return
    blocks = line_blocks(corpus, corpus, encoding, "error", ReadReport())
    # Not stripped yet: a blank source begins its line with the tab.
    lines = (line or "" for _, block in blocks for line in block)
    for number, line in enumerate(lines, 1):
        place = f"{corpus}, line {number}"
        if not clean_text(line):
            yield place, "", ""
        elif _is_json(corpus):
            yield place, *_record(line, what, place)
        else:
            source, tab, rest = line.partition("\t")
            if not tab:
                raise InputError(
                    f"{place}: there must be 2 columns with a tab between them, got 1."
                )
            yield place, source, rest.split("\t")[0]


def _aligned(
    names: list[str], sources: Iterator[str], targets: Iterator[str]
) -> Iterator[tuple[str, str, str]]:
    for number, (source, target) in enumerate(zip_longest(sources, targets)):
        if source is None or target is None:
            more = number + 1 + sum(1 for _ in chain(sources, targets))
            counts = (number, more) if source is None else (more, number)
            raise InputError(
                f"{names[0]} and {names[1]} must have as many lines as each other, "
                f"got {counts[0]} and {counts[1]}."
            )
        yield f"{names[0]} and {names[1]}, line {number + 1}", source, target


def _record(line: str, what: ScoreArguments, place: str) -> tuple[str, str]:
    """Source and target of a JSON record, in the form of Hugging Face or flat."""
    assert what.source and what.target  # `_pairs` has seen to it
    try:
        fields = parsed_record(line)
        languages = fields.get("translation", fields)
        return text_of(languages, what.source), text_of(languages, what.target)
    except BadRecordError as error:
        raise InputError(f"{place}: {error}. Correct it.") from error


def _is_json(path: str) -> bool:
    return format_of(Path(path)) == "jsonl"


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
