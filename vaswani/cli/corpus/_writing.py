"""Files of sentence pairs that appear whole or not at all."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from vaswani.cli._model import written_whole
from vaswani.corpus_readers import Pairs
from vaswani.errors import InputError


@contextmanager
def open_writer(path: str | Path, source: str, target: str) -> Iterator[Callable[[Pairs], None]]:
    """Gives a function that writes a block of pairs to a tab-separated file.

    Raises:
        InputError: for a text that would not come back: one with a tab or a line end.
    """
    with written_whole(path) as stream:

        def write(pairs: Pairs) -> None:
            stream.write(tsv_lines(path, pairs))

        yield write


def tsv_lines(path: str | Path, columns: Sequence[Sequence[str]]) -> str:
    """Lines of a tab-separated file, from as many texts of each column."""
    lines = ["\t".join(fields) + "\n" for fields in zip(*columns, strict=True)]
    text = "".join(lines)
    if text.count("\n") != len(lines) or text.count("\t") != len(lines) * (len(columns) - 1):
        raise InputError(
            f"{path} must have texts without tabs and line ends, got one with such a character. "
            "Write JSON lines, which can hold it: a name that ends in .jsonl."
        )
    return text
