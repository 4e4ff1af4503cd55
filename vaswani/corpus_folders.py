"""Sentence pairs into a folder that `datasets.load_from_disk` and `load_parallel` read.

folder_writer         opens a folder for blocks of pairs; whole or not at all
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vaswani.corpus_readers import Pairs
from vaswani.errors import InputError
from vaswani.output_folder import check_free, written_aside
from vaswani.text_lines import ReadReport


class FolderWriter:
    """Writes blocks of pairs to an Arrow file; made by `folder_writer`."""

    def __init__(self, arrow: Any, source: str, target: str) -> None:
        self.report = ReadReport()
        self._arrow = arrow
        self._codes = (source, target)

    def write(self, pairs: Pairs) -> None:
        """Writes a block; a text is stored as it is."""
        import pyarrow

        columns = dict(zip(self._codes, pairs, strict=True))
        codes = sorted(columns)  # the order that `Translation` wants
        arrays = [pyarrow.array(columns[code], pyarrow.string()) for code in codes]
        rows = pyarrow.StructArray.from_arrays(arrays, names=codes)
        self._arrow.write_table(pyarrow.table({"translation": rows}))
        self.report.pairs += len(pairs[0])


@contextmanager
def folder_writer(output: str | Path, *, source: str, target: str) -> Iterator[FolderWriter]:
    """Opens a folder for pairs; it appears under its name when the block ends well.

    Args:
        output: a folder that is new or empty.
        source: language code of the source, a key of the column `translation`.
        target: the same of the target.

    Raises:
        InputError: if the folder holds something or cannot be made.
    """
    try:
        import datasets
        from datasets.arrow_writer import ArrowWriter
    except ImportError as error:
        raise ImportError("Folders need `datasets`: pip install 'vaswani[data]'.") from error
    output = Path(output)
    check_free(output, "output", kind="corpus", mark="dataset_info.json", overwrite=False)
    features = datasets.Features(
        translation=datasets.Translation(languages=sorted([source, target]))
    )
    with written_aside(output) as folder, tempfile.TemporaryDirectory(dir=folder) as scratch:
        path = Path(scratch) / "pairs.arrow"
        with ArrowWriter(path=str(path), features=features) as arrow:
            writer = FolderWriter(arrow, source, target)
            yield writer
            arrow.finalize()
        if not writer.report.pairs:
            raise InputError(f"{output} must get at least one pair, got none.")
        datasets.disable_progress_bars()
        datasets.Dataset.from_file(str(path)).save_to_disk(str(folder))
