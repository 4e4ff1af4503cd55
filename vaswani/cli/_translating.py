"""What `vaswani translate` does: lines in chunks, through the model, to the output.

A chunk is written before the next one is read, and batches never reach over its end. So a run that
goes on after a chunk writes what the whole run would have written.
"""

import hashlib
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tqdm import tqdm

from vaswani import __version__
from vaswani.cli._model import (
    ComputeArguments,
    SearchArguments,
    is_terminal,
    one_line,
    opened_output,
)
from vaswani.errors import InputError
from vaswani.line_report import LineReport
from vaswani.placeholders import placeholder_changes
from vaswani.resumable_file import folder_fingerprint, partial_path, resumable_file
from vaswani.text_lines import ReadReport, checked_encoding, clean_text, line_blocks, read_lines
from vaswani.text_records import TextRecord, TextRecords, dumped

if TYPE_CHECKING:
    from vaswani.cli.translate import TranslateArguments
    from vaswani.translation import Translation, Translator

_REASONS = {
    "sentences": "longer than the model reads, translated sentence by sentence",
    "clauses": "longer than the model reads, split within a sentence",
    "cut": "longer than the model reads, the rest left out",
    "limit": "output cut at its length limit",
    "nothing": "nothing but white space came out",
    "words": "placeholders that did not come back put between words translated by themselves",
    "removed": "placeholders that the model made up taken out",
    "untranslated": "left untranslated to keep placeholders",
    "placeholders": "placeholders lost, added or in another order",
    "bad": "bad lines, not translated",
}


def translate_lines(
    what: "TranslateArguments", search: SearchArguments, computing: ComputeArguments
) -> None:
    """Translates the input to the output and reports on stderr."""
    work = _Work(what, search, computing)
    start = time.perf_counter()
    with _opened(what, search, computing) as output:
        work.resume(output.state)
        work.translator = computing.load(what.model)
        # On a terminal that shows the translations themselves a bar would run into them.
        shows_text = what.output == "-" and is_terminal(sys.stdout)
        hidden = not is_terminal() or shows_text
        with tqdm(
            total=None if hidden else _count_lines(what),
            initial=work.done,
            unit=" lines",
            leave=False,
            disable=hidden,
        ) as bar:
            for text in work.chunks(bar):
                output.append(text, work.state())
    blank, truncated = (work.report.count(key) for key in ("blank", "truncated"))
    print(
        f"translated {work.done} line{'s' * (work.done != 1)} "
        f"({blank} blank, {truncated} truncated) in {time.perf_counter() - start:.1f} s",
        file=sys.stderr,
    )
    if told := str(work.report):
        print(told, file=sys.stderr)


class _Work:
    """The lines of one run: what is done, and what is to come."""

    translator: "Translator"

    def __init__(
        self, what: "TranslateArguments", search: SearchArguments, computing: ComputeArguments
    ) -> None:
        assert what.input_format is not None
        self.what = what
        self.settings = {
            **search.settings(),
            "protect": what.protect,
            "num_return_sequences": what.nbest,
            "batch_tokens": computing.batch_tokens,
        }
        self.name = "standard input" if what.input == "-" else what.input
        self.records = TextRecords(what.input_format, what.field, what.output_field, what.bad_lines)
        self.blocks = _blocks(what, self.name)
        self.prefixes = read_lines(what.prefixes, encoding=what.encoding) if what.prefixes else None
        self.done = 0
        self.report = LineReport(_REASONS)
        self.digest = hashlib.blake2b(digest_size=16)

    def state(self) -> dict[str, Any]:
        """What a run needs to go on from here."""
        return {
            "lines": self.done,
            "content": self.digest.hexdigest(),
            "report": self.report.found,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Reads over the lines that an interrupted run has done, and checks them."""
        if not state:
            return
        while self.done < state["lines"]:
            lines = next(self.blocks, None)
            if lines is None:
                break
            self._take(lines)
        if state != {**self.state(), "report": state["report"]}:
            raise InputError(
                f"{self.name} must begin with the {state['lines']} lines that were translated "
                f"before the interruption, but its content has changed. Set it back, or delete "
                f"{partial_path(Path(self.what.output))} to begin again."
            )
        self.report.found = {key: (count, lines) for key, (count, lines) in state["report"].items()}
        print(f"going on after line {self.done}", file=sys.stderr)

    def chunks(self, bar: tqdm) -> Iterator[str]:
        """The lines of the output, a chunk at a time."""
        for lines in self.blocks:
            first = self.done + 1
            begun = self._take(lines)
            records = [
                self.records.read(line, self.name, number)
                for number, line in enumerate(lines, first)
            ]
            found = self.translator.translate(
                [record.text for record in records],
                prefixes=begun,
                first_line=first,
                progress=bar.update,
                **self.settings,
            )
            text = []
            for number, (record, translation) in enumerate(zip(records, found, strict=True), first):
                self._tell(number, record, translation)
                text.append(self._formatted(record, translation) + "\n")
            yield "".join(text)

    def _take(self, lines: list[str | None]) -> list[str] | None:
        """Counts lines as done, and returns what their translations begin with."""
        begun = None if self.prefixes is None else list(islice(self.prefixes, len(lines)))
        if begun is not None and len(begun) < len(lines):
            raise InputError(
                f"{self.what.prefixes} must have a line for each line of the input, "
                f"got {self.done + len(begun)} for more lines."
            )
        for line in chain(lines, begun or ()):
            self.digest.update(b"\xff\n" if line is None else line.encode("utf-8") + b"\n")
        self.done += len(lines)
        return begun

    def _tell(self, number: int, record: TextRecord, translation: "Translation") -> None:
        """Counts what has happened to a line."""
        happened = {
            "bad": record.error is not None,
            "blank": record.error is None and not clean_text(record.text),
            "truncated": translation.truncated,
            "nothing": bool(clean_text(record.text)) and not clean_text(translation.text),
            "limit": translation.truncated and translation.long_source != "cut",
            translation.long_source: True,
            translation.placeholders: True,
            "placeholders": self.what.check_placeholders
            and bool(placeholder_changes(record.text, translation.text)),
        }
        for key, applies in happened.items():
            if key and applies:
                self.report.add(key, number)

    def _formatted(self, record: TextRecord, translation: "Translation") -> str:
        if self.what.format == "text":
            return one_line(translation.text)
        details = _details(translation)
        if translation.alternatives:
            details["alternatives"] = [_details(other) for other in translation.alternatives]
        if self.what.input_format == "text":
            return dumped(details)
        return self.records.write(record, details if self.what.nbest > 1 else translation.text)


def _details(translation: "Translation") -> dict[str, Any]:
    return {
        "text": translation.text,
        "score": translation.score,
        "truncated": translation.truncated,
    }


def _blocks(what: "TranslateArguments", name: str) -> Iterator[list[str | None]]:
    """The lines of the input in chunks."""
    stream = sys.stdin.buffer if what.input == "-" else what.input
    encoding = checked_encoding(what.encoding)
    arriving = (
        block for _, block in line_blocks(stream, name, encoding, what.bad_lines, ReadReport())
    )
    if what.input == "-" and what.output == "-":
        # Somebody may wait for the answer to a line before the next one is sent.
        limit = 1 if is_terminal(sys.stdin) else what.chunk_lines
        for block in arriving:
            yield from _in_chunks(block, limit)
    else:
        yield from _in_chunks(chain.from_iterable(arriving), what.chunk_lines)


def _in_chunks(lines: Iterable[str | None], size: int) -> Iterator[list[str | None]]:
    lines = iter(lines)
    while chunk := list(islice(lines, size)):
        yield chunk


def _count_lines(what: "TranslateArguments") -> int | None:
    """How many lines there are, for the bar; `None` where that cannot be told beforehand."""
    if not Path(what.input).is_file():
        return None
    encoding = checked_encoding(what.encoding)
    blocks = line_blocks(what.input, what.input, encoding, "skip", ReadReport())
    try:
        return sum(len(lines) for _, lines in blocks)
    except InputError:
        return None


class _Stream:
    """Standard output or a device, with the interface of a `ResumableFile`."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.state: dict[str, Any] = {}

    def append(self, text: str, state: dict[str, Any]) -> None:
        self.stream.write(text)
        self.stream.flush()


@contextmanager
def _opened(
    what: "TranslateArguments", search: SearchArguments, computing: ComputeArguments
) -> Iterator[Any]:
    path = Path(what.output)
    if what.output == "-" or (path.exists() and not path.is_file()):
        with opened_output(what.output) as stream:
            yield _Stream(stream)
        return
    request = _request(what, search, computing)
    file = None
    try:
        with resumable_file(path, request, resume=what.resume) as file:
            if what.resume and not file.state:
                print("nothing to go on with: beginning at line 1", file=sys.stderr)
            yield file
    except BaseException:
        if file is not None and file.parts:
            print(
                f"{file.state['lines']} lines are kept in {file.partial}: "
                "the same command with --resume goes on",
                file=sys.stderr,
            )
        raise


def _request(
    what: "TranslateArguments", search: SearchArguments, computing: ComputeArguments
) -> dict[str, Any]:
    """What decides the output beside the text, by the names that a person knows."""
    from vaswani.hub_download import local_folder
    from vaswani.model_folder import checked_device

    folders = [local_folder(name, revision=computing.revision) for name in what.model]
    own = ("encoding", "input_format", "field", "output_field", "bad_lines", "prefixes", "protect")
    flags = {name: getattr(what, name) for name in (*own, "format", "nbest", "chunk_lines")}
    flags |= vars(search) | {
        name: getattr(computing, name) for name in ("precision", "batch_tokens")
    }
    flags |= {"device": checked_device(computing.device).type, "threads": computing.threads}
    return {
        "the content of `--model`": [
            folder_fingerprint(folder) for folder in folders if folder.is_dir()
        ],
        **{f"`--{name.replace('_', '-')}`": value for name, value in flags.items()},
        "the version of vaswani": __version__,
        "the version of torch": torch.__version__,
    }
