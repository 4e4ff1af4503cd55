"""Claims about `vaswani evaluate` on finished translations: what looks like a mistake is told."""

from pathlib import Path

import pytest

from vaswani.cli import main


@pytest.mark.parametrize(
    ("with_tab", "warned"), [(20, True), (19, True), (18, False), (1, False), (0, False)]
)
def test_references_that_look_like_a_table_get_a_warning(
    with_tab: int, warned: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """More than nine lines of ten; a tab in a text now and then is no table."""
    (tmp_path / "out.de").write_text("ein Haus\n" * 20)
    lines = ["a house\tein Haus\n"] * with_tab + ["ein Haus\n"] * (20 - with_tab)
    (tmp_path / "dev.tsv").write_text("".join(lines))
    words = ["--hypotheses", str(tmp_path / "out.de"), "--references", str(tmp_path / "dev.tsv")]
    assert main(["evaluate", *words]) == 0
    printed = capsys.readouterr()
    assert "BLEU" in printed.out
    expected = f"`references` should be one text a line, but {with_tab} of its 20 lines have a tab"
    assert (expected in printed.err) is warned
    assert "`hypotheses`" not in printed.err
