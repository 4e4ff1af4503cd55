"""Averages checkpoints of a run into one model (section 6.1); the same as `vaswani average`.

python scripts/average_checkpoints.py --run runs/base --last 5 --output runs/base-average
python scripts/average_checkpoints.py --checkpoints a/checkpoint-1 a/checkpoint-2 --output a-average
"""

import sys
from pathlib import Path

# Python puts this folder first, where a script may bear the name of a package, as evaluate.py does.
sys.path[:] = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]

from vaswani.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(["average", *sys.argv[1:]]))
