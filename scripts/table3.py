"""Trains every row of the paper's Table 3 at a reduced size and writes a table beside the paper's.

python scripts/table3.py --output-dir runs/table3
python scripts/table3.py --output-dir runs/some --rows base table3-a-h1 big-en-de --seeds 3

The same command goes on after an interruption; measured rows are not trained again.
"""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

# Python puts this folder first, where a script may bear the name of a package, as evaluate.py does.
sys.path[:] = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]

from vaswani.cli._arguments import parse_arguments  # noqa: E402
from vaswani.errors import InputError  # noqa: E402
from vaswani.table3 import Table3Arguments, measure_table3  # noqa: E402

# As a module of `vaswani.cli` would be.
COMMAND: Any = SimpleNamespace(
    __doc__=__doc__,
    PROGRAM="table3.py",
    ARGUMENTS=(Table3Arguments,),
    EXAMPLES="\n".join((__doc__ or "").splitlines()[2:4]),
)


def main() -> int:
    """Runs it; the files of the table go to stdout, progress to stderr."""
    try:
        parsed = parse_arguments("table3", COMMAND, sys.argv[1:])
        for path in measure_table3(*parsed) if parsed else ():
            print(path)
    except (InputError, FileNotFoundError) as error:
        print(f"table3: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted. The same command goes on from here.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
