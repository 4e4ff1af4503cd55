"""An interpreter that does not have the package, and folders to load there; nothing here is a test.

It works in another folder, in isolated mode, and refuses to import the package; it is offline and
keeps its copies of the code of saved folders in a folder of its own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

REFUSE_THE_PACKAGE = """
import importlib.abc, json, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "vaswani":
            raise ModuleNotFoundError("refused: " + name, name=name)

sys.meta_path.insert(0, Refuse())
"""


def run_elsewhere(code: str, *arguments: object, work: Path, given: Any = None) -> Any:
    """What the code prints in its last line, which is JSON.

    Args:
        code: the program; its `sys.argv[1:]` are `arguments`.
        work: the folder in which it runs.
        given: what it can read from standard input, as JSON.
    """
    result = subprocess.run(
        # -I: neither the working directory nor PYTHONPATH can bring the package in.
        [sys.executable, "-I", "-c", REFUSE_THE_PACKAGE + code, *map(str, arguments)],
        cwd=work,
        env={**os.environ, "HF_MODULES_CACHE": str(work / "modules"), "HF_HUB_OFFLINE": "1"},
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])
