"""Measures a model on parallel text, or finished translations against references.

With --model: translates the sources of --data and reports BLEU, chrF, loss, perplexity and speed.
With --hypotheses and --references: BLEU and chrF of two files. --paper-bleu adds the paper's BLEU.
"""

import json
import sys
from dataclasses import dataclass, field
from typing import Any, Literal

from tqdm import tqdm

from vaswani.cli._model import (
    ComputeArguments,
    SearchArguments,
    check_writable,
    is_terminal,
    one_line,
    written_whole,
)
from vaswani.errors import InputError
from vaswani.text_lines import read_lines

# Of the lines of a file; a tab in some lines is text.
_SHARE_OF_TABLE = 0.9


@dataclass
class EvaluateArguments:
    """What to measure."""

    _argument_group_name = "what to measure"

    model: list[str] = field(
        default_factory=list,
        metadata={
            "metavar": "FOLDER",
            "help": "model folder, or user/name on the Hub; several translate together",
        },
    )
    data: list[str] = field(
        default_factory=list,
        metadata={
            "metavar": "CORPUS",
            "help": "parallel text: a file, SOURCE_FILE,TARGET_FILE or a dataset; several are one",
        },
    )
    source: str | None = field(
        default=None, metadata={"metavar": "CODE", "help": "source language, such as en"}
    )
    target: str | None = field(
        default=None, metadata={"metavar": "CODE", "help": "target language, such as de"}
    )
    encoding: str = field(default="utf-8", metadata={"help": "encoding of the data"})
    bad_lines: Literal["error", "skip"] = field(
        default="error", metadata={"help": "what to do with malformed lines of --data"}
    )
    hypotheses: str | None = field(
        default=None, metadata={"metavar": "FILE", "help": "finished translations, one a line"}
    )
    references: str | None = field(
        default=None, metadata={"metavar": "FILE", "help": "their references, line by line"}
    )
    predictions: str | None = field(
        default=None, metadata={"metavar": "FILE", "help": "write the model's translations here"}
    )
    paper_bleu: bool = field(
        default=False,
        metadata={
            "help": "BLEU as the paper reports it too: tokenized, compounds split; needs --target"
        },
    )
    json: str | None = field(
        default=None, metadata={"metavar": "FILE", "help": "write the figures here too"}
    )

    def __post_init__(self) -> None:
        if bool(self.model) == (self.hypotheses is not None):
            given = "both" if self.model else "neither"
            raise InputError(f"either `--model` or `--hypotheses` must be given, got {given}.")
        if not self.model:
            self._require("--hypotheses", "references")
        else:
            self._require("--model", "data", "source", "target")
        if self.paper_bleu:
            self._require("--paper-bleu", "target")
            from vaswani.evaluation import check_spaced_language

            check_spaced_language(self.target or "")
        for path in (self.predictions, self.json):
            if path is not None:
                check_writable(path)

    @property
    def paper_language(self) -> str | None:
        """The language to compute the paper's BLEU for, if it is asked for."""
        return self.target if self.paper_bleu else None

    def _require(self, option: str, *names: str) -> None:
        missing = [f"`--{name}`" for name in names if not getattr(self, name)]
        if missing:
            raise InputError(f"{', '.join(missing)} must be given with {option}.")


ARGUMENTS = (EvaluateArguments, SearchArguments, ComputeArguments)
EXAMPLES = """
vaswani evaluate --model runs/en-de --data dev.tsv.gz --source en --target de
vaswani evaluate --model runs/en-de --data dev.en,dev.de --source en --target de --json dev.json
vaswani evaluate --hypotheses letters.out --references letters.de
vaswani evaluate --hypotheses letters.out --references letters.de --target de --paper-bleu
"""


def run(what: EvaluateArguments, search: SearchArguments, computing: ComputeArguments) -> int:
    """Prints the figures as a table; see `--help`."""
    from vaswani.evaluation import corpus_scores

    if not what.model:
        hypotheses, references = (
            list(read_lines(path, encoding=what.encoding))
            for path in (what.hypotheses, what.references)
            if path
        )
        for name, lines in (("hypotheses", hypotheses), ("references", references)):
            _warn_of_columns(name, lines)
        figures = corpus_scores(hypotheses, references, paper_bleu=what.paper_language)
    else:
        figures = _figures_of_model(what, search, computing)
    _print_table(figures)
    if what.json:
        with written_whole(what.json) as stream:
            stream.write(json.dumps(figures, indent=2) + "\n")
    return 0


def _warn_of_columns(name: str, lines: list[str]) -> None:
    """Says on stderr that a file of one text a line looks like a table of pairs."""
    with_tab = sum("\t" in line for line in lines)
    if with_tab > _SHARE_OF_TABLE * len(lines):
        print(
            f"vaswani evaluate: warning: `{name}` should be one text a line, but "
            f"{with_tab:,} of its {len(lines):,} lines have a tab. If they are pairs, take one "
            "column of them, as `cut -f2` does.",
            file=sys.stderr,
        )


def _figures_of_model(
    what: EvaluateArguments, search: SearchArguments, computing: ComputeArguments
) -> dict[str, Any]:
    from vaswani.data import is_on_hub, read_texts
    from vaswani.evaluation import evaluate_translator

    assert what.model and what.source and what.target  # EvaluateArguments has seen to it
    for word in filter(is_on_hub, what.data):
        print(f"Fetching {word} from the Hub.", file=sys.stderr)
    sources, references = read_texts(
        what.data,
        source=what.source,
        target=what.target,
        encoding=what.encoding,
        bad_lines=what.bad_lines,
    )
    translator = computing.load(what.model)
    with tqdm(total=len(sources), unit=" lines", disable=not is_terminal()) as bar:
        figures, translations = evaluate_translator(
            translator,
            sources,
            references,
            paper_bleu=what.paper_language,
            progress=bar.update,
            batch_tokens=computing.batch_tokens,
            **search.settings(),
        )
    if what.predictions:
        with written_whole(what.predictions) as stream:
            stream.writelines(one_line(translation.text) + "\n" for translation in translations)
    return figures


def _print_table(figures: dict[str, Any]) -> None:
    rows = [
        ("BLEU", "bleu", "{:.2f}"),
        ("chrF", "chrf", "{:.2f}"),
        ("paper's BLEU", "paper_bleu", "{:.2f}"),
        ("loss", "loss", "{:.4f} nats a token"),
        ("perplexity", "perplexity", "{:.2f}"),
        ("length ratio", "length_ratio", "{:.3f}"),
        ("sentences", "sentences", "{}"),
        ("truncated", "truncated", "{}"),
        ("seconds", "seconds", "{:.1f}"),
        ("tokens/second", "tokens_per_second", "{:.0f}"),
        ("BLEU signature", "bleu_signature", "{}"),
        ("chrF signature", "chrf_signature", "{}"),
        ("paper's BLEU is", "paper_bleu_signature", "{}"),
    ]
    for title, key, form in rows:
        if key in figures:
            sys.stdout.write(f"{title:<16}{form.format(figures[key])}\n")
