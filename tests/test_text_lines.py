"""Claims about bytes to lines that hold for every format; the rest is in test_data.py."""

import gzip
import io
import re
from pathlib import Path

import pytest

from vaswani import text_lines
from vaswani.errors import InputError
from vaswani.text_lines import ReadReport, line_blocks, read_lines


@pytest.mark.parametrize("blocks", [1, 3, 100])
def test_a_line_that_no_memory_could_hold_is_refused_by_number(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, blocks: int
) -> None:
    """However the bytes arrive; a line of the most that is allowed is read."""
    monkeypatch.setattr(text_lines, "MOST_LINE_BYTES", 40)
    monkeypatch.setattr(text_lines, "_BLOCK_BYTES", blocks)
    good = b"one\n\n" + b"x" * 40 + b"\ny\n"
    assert list(read_lines(io.BytesIO(good))) == ["one", "", "x" * 40, "y"]
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(good + b"z" * 2000, mtime=0))
    message = f"{path}, line 5: a line must have at most 40 bytes, got more"
    for bad_lines in ("error", "skip"):
        with pytest.raises(InputError, match=re.escape(message)):
            list(line_blocks(path, str(path), "utf-8", bad_lines, ReadReport()))


def test_the_most_that_a_line_may_have_is_far_beyond_text() -> None:
    assert text_lines.MOST_LINE_BYTES == 128 * 2**20
