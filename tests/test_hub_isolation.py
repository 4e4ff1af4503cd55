"""`vaswani.hub_isolation`: a folder that loads alone, and one that only seems to."""

import json
from pathlib import Path

from vaswani.hub import check_self_contained
from vaswani.hub_isolation import loading_problems


def test_saved_folder_loads_alone_and_a_broken_one_does_not(folder: Path) -> None:
    """Three trials in one test, since each takes seconds."""
    assert loading_problems(folder) == []
    settings = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    kept = json.dumps(settings)
    settings["model"]["vocab"]["a_token_without_a_row"] = 9_999
    (folder / "tokenizer.json").write_text(json.dumps(settings), encoding="utf-8")
    (problem,) = loading_problems(folder)
    assert "as many entries as the model's source table, got 10000 and " in problem
    (folder / "tokenizer.json").write_text(kept, encoding="utf-8")
    code = folder / "loss_vaswani.py"
    # What no reading of the code can tell: the name is put together when it runs.
    line = '__import__("importlib").import_module("vas" + "wani")\n'
    code.write_text(code.read_text(encoding="utf-8") + line, encoding="utf-8")
    check_self_contained(folder)
    assert loading_problems(folder) == [
        "it does not load without the package (ModuleNotFoundError: it needs the package vaswani)"
    ]
