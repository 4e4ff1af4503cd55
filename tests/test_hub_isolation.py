"""`vaswani.hub_isolation`: a folder that loads alone, and one that only seems to."""

from pathlib import Path

from vaswani.hub import check_self_contained
from vaswani.hub_isolation import loading_problems


def test_saved_folder_loads_alone_and_a_broken_one_does_not(folder: Path) -> None:
    """Two trials in one test, since each takes seconds."""
    assert loading_problems(folder) == []
    code = folder / "loss_vaswani.py"
    # What no reading of the code can tell: the name is put together when it runs.
    line = '__import__("importlib").import_module("vas" + "wani")\n'
    code.write_text(code.read_text(encoding="utf-8") + line, encoding="utf-8")
    check_self_contained(folder)
    assert loading_problems(folder) == [
        "it does not load without the package (ModuleNotFoundError: it needs the package vaswani)"
    ]
