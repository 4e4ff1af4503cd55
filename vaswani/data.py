"""Reads parallel text: tab-separated, line-aligned and JSON-lines files, and `datasets` datasets.

Every format ends as one `datasets.Dataset` with one column `translation`, a string per language
code. A format is one function in `_READERS`; it yields blocks of pairs and counts what it skips.

    load_parallel         parallel text in any format -> datasets.Dataset
    read_lines            one side alone, line by line, for translating
    clean_text            what is done to every text, in training and in translation alike
    ReadReport            how many pairs were read, and what was skipped, by reason

The rules of text, the same for every format; those of lines and bytes are in `text_lines`:

- There is no quoting, no entity is decoded, no normal form applied (the tokenizer does that).
- A text loses its NUL characters and its leading and trailing white space (`str.strip`) alone.
- A blank line, or a pair with an empty side, is always skipped and counted. A malformed line is an
  error, or with `bad_lines="skip"` skipped and counted.
"""

import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaswani.errors import InputError
from vaswani.text_lines import (
    BadLines,
    ReadReport,
    check_file,
    checked_encoding,
    clean_text,
    line_blocks,
    read_lines,
)

if TYPE_CHECKING:
    import datasets

__all__ = ["ReadReport", "clean_text", "is_on_hub", "load_parallel", "read_lines"]

Pairs = tuple[list[str], list[str]]  # as many source texts as target texts

_BLOCK_PAIRS = 1 << 16
_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}  # any other is read as tsv
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(:[\w.-]+(:[\w.-]+)?)?")
_SURROGATE = re.compile("[\ud800-\udfff]")

logger = logging.getLogger(__name__)


def load_parallel(
    data: "str | Path | Sequence[str | Path] | datasets.Dataset",
    *,
    source: str,
    target: str,
    format: str | None = None,
    source_column: int = 1,
    target_column: int = 2,
    split: str = "train",
    encoding: str = "utf-8",
    bad_lines: BadLines = "error",
    report: ReadReport | None = None,
) -> "datasets.Dataset":
    """Parallel text as one dataset in memory.

    Args:
        data: a file; a pair of line-aligned files, the source first; a folder written by
            `save_to_disk`; a Hub dataset `owner/name`, `owner/name:configuration` or
            `owner/name:configuration:split`; or a `datasets.Dataset`. Files may be gzipped.
        source: language code of the source, a key of the result and of every record read.
        target: language code of the target, likewise.
        format: `tsv` or `jsonl`; `None` goes by the file name (.jsonl, .ndjson, .json; else tsv).
        source_column: column of a tab-separated file that holds the source, counted from 1.
        target_column: the same for the target. Other columns are ignored.
        split: which split of a folder, or of a Hub dataset that names none, to read.
        encoding: how the bytes of files become text.
        bad_lines: what to do with a malformed line: `error` stops at it, `skip` counts it.
        report: filled with the counts, which are logged as well.

    Returns:
        A dataset with the one column `translation`, a `datasets.Translation` of both codes.

    Raises:
        InputError: for a malformed line, unequal files, damaged gzip or no pairs at all.
        FileNotFoundError: if there is no such file, folder or Hub dataset.
    """
    request = _Request(
        source,
        target,
        (source_column, target_column),
        checked_encoding(encoding),
        bad_lines,
        ReadReport() if report is None else report,
    )
    name, blocks = _chosen_reader(data, format, split, request)
    dataset = _as_dataset(blocks, request, name)
    report = request.report
    level = logging.WARNING if report.skipped or report.removed_nul else logging.INFO
    logger.log(level, "%s: %s", name, report)
    return dataset


@dataclass(frozen=True)
class _Request:
    """What was asked for, checked; readers count into its report."""

    source: str
    target: str
    columns: tuple[int, int]
    encoding: str
    bad_lines: BadLines
    report: ReadReport

    def __post_init__(self) -> None:
        if not self.source or not self.target or self.source == self.target:
            raise InputError(
                "`source` and `target` must be two different language codes, "
                f"got {self.source!r} and {self.target!r}."
            )
        if min(self.columns) < 1 or self.columns[0] == self.columns[1]:
            raise InputError(
                "`source_column` and `target_column` must be two different numbers from 1 up, "
                f"got {self.columns[0]} and {self.columns[1]}."
            )
        if self.bad_lines not in ("error", "skip"):
            raise InputError(f"`bad_lines` must be error or skip, got {self.bad_lines!r}.")

    def bad(self, name: str, number: int, reason: str, rule: str, got: str) -> None:
        """Stops at a malformed line, or counts it."""
        if self.bad_lines == "error":
            raise InputError(
                f"{name}, line {number}: {rule}, got {got}. "
                "Correct the line, or set `bad_lines` to skip."
            )
        self.report.skipped[reason] += 1

    def add(self, pairs: Pairs, source: str, target: str) -> None:
        """Takes a pair up, or counts it as empty."""
        if source and target:
            pairs[0].append(source)
            pairs[1].append(target)
        elif source or target:
            self.report.skipped["empty target" if source else "empty source"] += 1
        else:
            self.report.skipped["blank"] += 1

    def add_values(self, pairs: Pairs, record: Any, name: str, number: int) -> None:
        """Takes up the two values of a record, or says which key or type is wrong."""
        values = []
        for code in (self.source, self.target):
            if not isinstance(record, dict) or code not in record:
                keys = ", ".join(map(repr, record)) if isinstance(record, dict) else "no record"
                rule = f"`translation` must have the keys {self.source!r} and {self.target!r}"
                return self.bad(name, number, "without the language", rule, keys or "none")
            value = record[code]
            if not isinstance(value, str):
                rule = f"the value of {code!r} must be a string"
                return self.bad(name, number, "not a string", rule, _excerpt(value))
            # JSON can spell half of a surrogate pair, which no file could hold.
            if _SURROGATE.search(value):
                rule = f"the value of {code!r} must be valid Unicode"
                return self.bad(name, number, "not valid Unicode", rule, _excerpt(value))
            self.report.removed_nul += value.count("\0")
            values.append(clean_text(value))
        self.add(pairs, *values)


def _read_tsv(paths: list[Path], request: _Request) -> Iterator[Pairs]:
    (path,) = paths
    name = str(path)
    first, second = (column - 1 for column in request.columns)
    last = max(first, second)
    for number, lines in line_blocks(
        path, name, request.encoding, request.bad_lines, request.report
    ):
        pairs: Pairs = ([], [])
        add_source, add_target = pairs[0].append, pairs[1].append
        for offset, line in enumerate(lines):
            if line is None:
                continue
            fields = line.split("\t", last + 1)
            if len(fields) > last:
                source, target = fields[first].strip(), fields[second].strip()
                if source and target:
                    add_source(source)
                    add_target(target)
                else:
                    request.add(pairs, source, target)
            elif not line or line.isspace():
                request.report.skipped["blank"] += 1
            else:
                rule = f"there must be {last + 1} columns with a tab between them"
                got = f"{len(fields)} in {_excerpt(line)}"
                request.bad(name, number + offset, "without a tab", rule, got)
        yield pairs


def _read_json_lines(paths: list[Path], request: _Request) -> Iterator[Pairs]:
    (path,) = paths
    name = str(path)
    for number, lines in line_blocks(
        path, name, request.encoding, request.bad_lines, request.report
    ):
        pairs: Pairs = ([], [])
        for offset, line in enumerate(lines):
            if line is None:
                continue
            if not line or line.isspace():
                request.report.skipped["blank"] += 1
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if isinstance(record, dict):
                # A flat record has the language codes themselves as keys.
                record = record.get("translation", record)
                request.add_values(pairs, record, name, number + offset)
            else:
                rule = "each line must be one JSON object"
                request.bad(name, number + offset, "not a JSON object", rule, _excerpt(line))
        yield pairs


def _read_aligned(paths: list[Path], request: _Request) -> Iterator[Pairs]:
    sources, targets = (
        chain.from_iterable(
            block
            for _, block in line_blocks(
                path, str(path), request.encoding, request.bad_lines, request.report
            )
        )
        for path in paths
    )
    number = 0
    while True:
        source_lines = list(islice(sources, _BLOCK_PAIRS))
        target_lines = list(islice(targets, _BLOCK_PAIRS))
        if len(source_lines) != len(target_lines):
            counts = [
                number + len(head) + sum(1 for _ in rest)
                for head, rest in ((source_lines, sources), (target_lines, targets))
            ]
            raise InputError(
                f"{paths[0]} and {paths[1]} must have as many lines as each other, "
                f"got {counts[0]} and {counts[1]}."
            )
        if not source_lines:
            return
        pairs: Pairs = ([], [])
        for source, target in zip(source_lines, target_lines, strict=True):
            # None: not decodable, counted where it was found. Its partner goes with it.
            if source is not None and target is not None:
                request.add(pairs, source.strip(), target.strip())
        yield pairs
        number += len(source_lines)


_READERS: dict[str, Callable[[list[Path], _Request], Iterator[Pairs]]] = {
    "tsv": _read_tsv,
    "jsonl": _read_json_lines,
    "aligned": _read_aligned,
}


def _chosen_reader(
    data: object, format: str | None, split: str, request: _Request
) -> tuple[str, Iterator[Pairs]]:
    """What messages call the data, and its pairs."""
    datasets = _import_datasets()
    name = "`data`"
    if isinstance(data, str | Path):
        name = str(data)
        if Path(data).is_dir():
            data = _saved_dataset(name, split)
        elif isinstance(data, str) and is_on_hub(data):
            data = _hub_dataset(data, split)
        else:
            data = [data]
    elif isinstance(data, list | tuple):
        name = " and ".join(map(str, data))
    if isinstance(data, datasets.Dataset):
        return name, _read_dataset(data, name, request)
    if isinstance(data, list | tuple):
        return name, _read_files([Path(path) for path in data], format, request)
    raise InputError(
        "`data` must be a path, a pair of paths or a datasets.Dataset (one split), "
        f"got {type(data).__name__}."
    )


def _read_files(paths: list[Path], format: str | None, request: _Request) -> Iterator[Pairs]:
    """Goes by `format` or the file's name; two files are line-aligned."""
    if len(paths) not in (1, 2):
        raise InputError(f"`data` must be one file or a pair of files, got {len(paths)}.")
    if format is None and len(paths) == 1:
        suffixes = [suffix.lower() for suffix in paths[0].suffixes if suffix.lower() != ".gz"]
        format = _SUFFIXES.get(suffixes[-1] if suffixes else "", "tsv")
    elif format is None:
        format = "aligned"
    if format not in _READERS or (format == "aligned") != (len(paths) == 2):
        allowed = "aligned for two files" if len(paths) == 2 else "tsv or jsonl for one file"
        raise InputError(f"`format` must be {allowed}, got {format!r}.")
    for path in paths:
        check_file(path)
    return _READERS[format](paths, request)


def _read_dataset(dataset: "datasets.Dataset", name: str, request: _Request) -> Iterator[Pairs]:
    """Reads the column `translation` by blocks; a record's number counts from 1."""
    if "translation" not in dataset.column_names:
        columns = ", ".join(dataset.column_names) or "none"
        raise InputError(f"{name} must have the column `translation`, got {columns}.")
    column = dataset.select_columns("translation").with_format("arrow")
    for start in range(0, len(dataset), _BLOCK_PAIRS):
        table = column[start : start + _BLOCK_PAIRS]
        pairs: Pairs = ([], [])
        for number, record in enumerate(table["translation"].to_pylist(), start + 1):
            request.add_values(pairs, record, name, number)
        yield pairs


def is_on_hub(data: str) -> bool:
    """Whether `data` names a dataset of the Hub, not a file or folder."""
    suffix = Path(data.removesuffix(".gz")).suffix.lower()
    looks_so = bool(_HUB_ID.fullmatch(data)) and suffix not in (*_SUFFIXES, ".tsv", ".txt", ".csv")
    return looks_so and not Path(data).exists()


def _hub_dataset(data: str, split: str) -> "datasets.Dataset":
    path, configuration, own = (*data.split(":"), None, None)[:3]
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # not a line for each retry
    try:
        return _import_datasets().load_dataset(path, configuration, split=own or split)
    except (FileNotFoundError, ConnectionError) as error:
        raise FileNotFoundError(
            f"`data` must be a file, a folder or a dataset on the Hub, got {data}."
        ) from error
    except ValueError as error:  # no such configuration or split: the library lists them
        raise InputError(f"{data} must be readable, got: {' '.join(str(error).split())}") from error


def _saved_dataset(folder: str, split: str) -> "datasets.Dataset":
    datasets = _import_datasets()
    try:
        saved = datasets.load_from_disk(folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"`data` must be a file or a folder written by `save_to_disk`, got the folder {folder}."
        ) from error
    if not isinstance(saved, datasets.DatasetDict):
        return saved
    if split not in saved:
        raise InputError(f"`split` must be one of {', '.join(saved)}, got {split!r}.")
    return saved[split]


def _as_dataset(blocks: Iterable[Pairs], request: _Request, name: str) -> "datasets.Dataset":
    """Packs the pairs into Arrow, block by block, under a fingerprint of the text alone."""
    datasets = _import_datasets()
    import pyarrow

    codes = sorted([request.source, request.target])  # the order that `Translation` wants
    digest = hashlib.blake2b(repr(codes).encode(), digest_size=8)
    chunks = []
    for sources, targets in blocks:
        sides = {request.source: sources, request.target: targets}
        columns = [pyarrow.array(sides[code], pyarrow.string()) for code in codes]
        for column in columns:
            for buffer in column.buffers():
                digest.update(buffer or b"")
        chunks.append(pyarrow.StructArray.from_arrays(columns, names=codes))
        request.report.pairs += len(sources)
    if not request.report.pairs:
        raise InputError(f"{name} must hold at least one pair, got {request.report}.")
    table = pyarrow.table({"translation": pyarrow.chunked_array(chunks)})
    features = datasets.Features(translation=datasets.Translation(languages=codes))
    # Without a fingerprint of ours the library would pickle the whole table to hash it.
    return datasets.Dataset(
        datasets.table.InMemoryTable(table),
        info=datasets.DatasetInfo(features=features),
        fingerprint=digest.hexdigest(),
    )


def _excerpt(value: object) -> str:
    shown = ascii(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _import_datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise ImportError("Parallel text needs `datasets`: pip install 'vaswani[data]'.") from error
    return datasets
