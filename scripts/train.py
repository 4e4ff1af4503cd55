"""Trains a model: `vaswani train` as a script, for launchers that start scripts.

python scripts/train.py --config vaswani/recipes/small.yaml --data train.tsv --output-dir runs/a
accelerate launch scripts/train.py --data train.tsv --source en --target de --output-dir runs/b
"""

import sys

from vaswani.cli import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
