"""docs/compatibility.md names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
TABLES = (TESTS.parent / "docs" / "compatibility.md").read_text(encoding="utf-8")
ROWS = [line.split(" | ") for line in TABLES.splitlines() if re.match(r"\| (?!feature)", line)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip("| "))
def test_row_names_a_test_that_exists_or_none(row: list[str]) -> None:
    assert len(row) == 4
    tested_by = row[2]
    if "::" not in tested_by:
        assert tested_by == "\N{EN DASH}"
        return
    file, name = tested_by.strip("`").split("::")
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
