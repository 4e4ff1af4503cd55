"""Trains a model: `vaswani train` as a script, for launchers that start scripts.

python scripts/train.py --config vaswani/recipes/small.yaml --data train.tsv --output-dir runs/a
accelerate launch scripts/train.py --data train.tsv --source en --target de --output-dir runs/b
"""

import sys
from pathlib import Path

# Python puts this folder first, where a script may bear the name of a package, as evaluate.py does.
sys.path[:] = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]

from vaswani.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
