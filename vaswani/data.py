"""Parallel text from anywhere, as one `datasets.Dataset` or block by block.

    load_parallel         parallel text in any format -> datasets.Dataset
    read_pairs            the same as blocks of pairs, for what does not fit into memory
    read_texts            all pairs of several corpora as two lists, for what is measured on
    corpus_of             the file, pair of files or Hub dataset that one word of a command names
    check_words           refuses a source and a target file given as two corpora
    named_dataset         the dataset that is named, where it is no file
    read_lines            one side alone, line by line, for translating
    clean_text            what is done to every text, in training and in translation alike
    ReadReport            how many pairs were read, and what was skipped, by reason

What a format looks like is in `corpus_readers`, what a line is in `text_lines`.
"""

import hashlib
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaswani.compressed_files import plain_suffix
from vaswani.corpus_readers import (
    BLOCK_PAIRS,
    READERS,
    SUFFIXES,
    Pairs,
    ReadRequest,
    format_of,
)
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

__all__ = [
    "ReadReport",
    "check_words",
    "clean_text",
    "corpus_of",
    "is_on_hub",
    "load_parallel",
    "named_dataset",
    "read_lines",
    "read_pairs",
    "read_texts",
]

_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(:[\w.-]+(:[\w.-]+)?)?")
_FILE_SUFFIXES = {".tsv", ".txt", ".csv", *SUFFIXES}

# A file without a tab in so many lines is no table.
_LINES_LOOKED_AT = 20

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
            `owner/name:configuration:split`; or a `datasets.Dataset`. Files may be packed with
            gzip, xz or zstd.
        source: language code of the source, a key of the result and of every record read.
        target: language code of the target, likewise.
        format: `tsv`, `jsonl`, `tmx`, `po` or `mo`; `None` goes by the file name (.jsonl, .ndjson,
            .json, .tmx, .po, .mo; else tsv).
        source_column: column of a tab-separated file that holds the source, counted from 1.
        target_column: the same for the target. Other columns are ignored.
        split: which split of a folder, or of a Hub dataset that names none, to read.
        encoding: how the bytes of files become text.
        bad_lines: what to do with a malformed line: `error` stops at it, `skip` counts it.
        report: filled with the counts, which are logged as well.

    Returns:
        A dataset with the one column `translation`, a `datasets.Translation` of both codes.

    Raises:
        InputError: for a malformed line, unequal or damaged files, or no pairs at all.
        FileNotFoundError: if there is no such file, folder or Hub dataset.
    """
    report = ReadReport() if report is None else report
    request = ReadRequest(
        source,
        target,
        (source_column, target_column),
        checked_encoding(encoding),
        bad_lines,
        report,
    )
    name, blocks = _chosen_reader(data, format, split, request)
    dataset = _as_dataset(blocks, request, name)
    log_report(name, report)
    return dataset


def read_pairs(
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
) -> Iterator[Pairs]:
    """Blocks of source texts and target texts, as many of the one as of the other.

    The arguments and errors are those of `load_parallel`, save that an empty corpus is no error.
    Errors of a setting or a missing file come at the call, those of a line when it is reached.
    """
    report = ReadReport() if report is None else report
    request = ReadRequest(
        source,
        target,
        (source_column, target_column),
        checked_encoding(encoding),
        bad_lines,
        report,
    )
    return _counted(_chosen_reader(data, format, split, request)[1], report)


def read_texts(words: Sequence[str], *, setting: str = "data", **options: Any) -> Pairs:
    """All sources and all targets of the corpora that the words of a command name, in order.

    Args:
        words: see `corpus_of`.
        setting: what messages about a dataset that cannot be fetched call the words.
        options: of `read_pairs`.

    Raises:
        InputError, FileNotFoundError: as `load_parallel` does, for each corpus.
    """
    check_words(words, options.get("encoding", "utf-8"))
    texts: Pairs = ([], [])
    for word in words:
        report = ReadReport()
        data: Any = corpus_of(word)
        if is_on_hub(word):
            data = _hub_dataset(word, "train", setting)
        for sources, targets in read_pairs(data, **options, report=report):
            texts[0].extend(sources)
            texts[1].extend(targets)
        if not report.pairs:
            raise InputError(f"{word} must hold at least one pair, got {report}.")
        log_report(word, report)
    return texts


def check_words(words: Sequence[str], encoding: str = "utf-8") -> None:
    """Refuses two line-aligned files that were given as two corpora.

    Raises:
        InputError: if a file beside another has no tab in any of its first lines.
    """
    plain = [word for word in words if isinstance(corpus_of(word), str)]
    files = [word for word in plain if Path(word).is_file() and format_of(Path(word)) == "tsv"]
    if len(files) < 2:
        return
    for word in files:
        # A bad byte is the reader's to report.
        blocks = line_blocks(Path(word), word, checked_encoding(encoding), "skip", ReadReport())
        filled = (line for _, block in blocks for line in block if line and not line.isspace())
        lines = list(islice(filled, _LINES_LOOKED_AT))
        if lines and not any("\t" in line for line in lines):
            raise InputError(
                f"{word} must have a tab between source and target, got none in its first lines. "
                "A source and a target file are one corpus: join them with a comma, as in "
                f"{','.join(files[:2])}"
            )


def log_report(name: str, report: ReadReport) -> None:
    """Logs what reading kept, as a warning where it left something out."""
    odd = report.skipped or report.removed_nul or report.changed
    level = logging.WARNING if odd else logging.INFO
    logger.log(level, "%s: %s", name, report)


def _counted(blocks: Iterable[Pairs], report: ReadReport) -> Iterator[Pairs]:
    for block in blocks:
        report.pairs += len(block[0])
        yield block


def corpus_of(word: str) -> str | list[str]:
    """What one word of a command names: a path, a Hub dataset, or `SOURCE_FILE,TARGET_FILE`."""
    parts = word.split(",")
    return parts if len(parts) == 2 and all(parts) and not Path(word).exists() else word


def _chosen_reader(
    data: object, format: str | None, split: str, request: ReadRequest
) -> tuple[str, Iterator[Pairs]]:
    """What messages call the data, and its pairs."""
    dataset = named_dataset(data, split)
    name = "`data`"
    if isinstance(data, str | Path):
        name = str(data)
        data = [data]
    elif isinstance(data, list | tuple):
        name = " and ".join(map(str, data))
    if dataset is not None:
        return name, _read_dataset(dataset, name, request)
    if isinstance(data, list | tuple):
        return name, _read_files([Path(path) for path in data], format, request)
    raise InputError(
        "`data` must be a path, a pair of paths or a datasets.Dataset (one split), "
        f"got {type(data).__name__}."
    )


def named_dataset(data: object, split: str = "train") -> "datasets.Dataset | None":
    """The dataset that `data` is, or names: a folder or one of the Hub; `None` for files.

    Raises:
        InputError, FileNotFoundError: if it names one that cannot be opened.
    """
    if isinstance(data, _import_datasets().Dataset):
        return data
    if isinstance(data, str | Path) and Path(data).is_dir():
        return _saved_dataset(str(data), split)
    if isinstance(data, str) and is_on_hub(data):
        return _hub_dataset(data, split)
    return None


def _read_files(paths: list[Path], format: str | None, request: ReadRequest) -> Iterator[Pairs]:
    """Goes by `format` or the file's name; two files are line-aligned."""
    if len(paths) not in (1, 2):
        raise InputError(f"`data` must be one file or a pair of files, got {len(paths)}.")
    if format is None and len(paths) == 1:
        format = format_of(paths[0])
    elif format is None:
        format = "aligned"
    if format not in READERS or (format == "aligned") != (len(paths) == 2):
        single = ", ".join(name for name in READERS if name != "aligned")
        allowed = "aligned for two files" if len(paths) == 2 else f"one of {single} for one file"
        raise InputError(f"`format` must be {allowed}, got {format!r}.")
    for path in paths:
        check_file(path)
    return READERS[format](paths, request)


def _read_dataset(dataset: "datasets.Dataset", name: str, request: ReadRequest) -> Iterator[Pairs]:
    """Reads the column `translation` by blocks; a record's number counts from 1."""
    if "translation" not in dataset.column_names:
        columns = ", ".join(dataset.column_names) or "none"
        raise InputError(f"{name} must have the column `translation`, got {columns}.")
    column = dataset.select_columns("translation").with_format("arrow")
    for start in range(0, len(dataset), BLOCK_PAIRS):
        table = column[start : start + BLOCK_PAIRS]
        pairs: Pairs = ([], [])
        for number, record in enumerate(table["translation"].to_pylist(), start + 1):
            request.add_values(pairs, record, name, number)
        yield pairs


def is_on_hub(data: str) -> bool:
    """Whether `data` names a dataset of the Hub, not a file or folder."""
    looks_so = bool(_HUB_ID.fullmatch(data)) and plain_suffix(data) not in _FILE_SUFFIXES
    return looks_so and not Path(data).exists()


def _hub_dataset(data: str, split: str, setting: str = "data") -> "datasets.Dataset":
    path, configuration, own = (*data.split(":"), None, None)[:3]
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # not a line for each retry
    try:
        return _import_datasets().load_dataset(path, configuration, split=own or split)
    except (FileNotFoundError, ConnectionError) as error:
        unreachable = isinstance(error, ConnectionError)
        why = "the Hub cannot be reached" if unreachable else "there is none that you may read"
        off = "" if setting == "data" else ", or set it to none"
        raise FileNotFoundError(
            f"`{setting}` must be a file, a folder or a dataset on the Hub, got {data}, which is "
            f"no file, and as a dataset {why}. Name files of your own{off}."
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


def _as_dataset(blocks: Iterable[Pairs], request: ReadRequest, name: str) -> "datasets.Dataset":
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


def _import_datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise ImportError("Parallel text needs `datasets`: pip install 'vaswani[data]'.") from error
    return datasets
