"""Measures a model or finished translations; the same as `vaswani evaluate`.

python scripts/evaluate.py --model runs/en-de --data dev.tsv.gz --source en --target de
python scripts/evaluate.py --hypotheses letters.out --references letters.de
"""

import sys
from pathlib import Path

# Python puts this folder first, where a script may bear the name of a package, as evaluate.py does.
sys.path[:] = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]

from vaswani.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(["evaluate", *sys.argv[1:]]))
