"""Translates text line by line; the same as `vaswani translate`.

python scripts/translate.py --model runs/en-de --input letters.en --output letters.de
python scripts/translate.py --model runs/en-de < letters.en > letters.de
"""

import sys
from pathlib import Path

# Python puts this folder first, where a script may bear the name of a package, as evaluate.py does.
sys.path[:] = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]

from vaswani.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(["translate", *sys.argv[1:]]))
