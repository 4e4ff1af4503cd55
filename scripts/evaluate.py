"""Measures a model or finished translations; the same as `vaswani evaluate`.

python scripts/evaluate.py --model runs/en-de --data dev.tsv.gz --source en --target de
python scripts/evaluate.py --hypotheses letters.out --references letters.de
"""

import sys

from vaswani.cli import main

if __name__ == "__main__":
    sys.exit(main(["evaluate", *sys.argv[1:]]))
