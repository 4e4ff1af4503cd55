"""Translates text line by line; the same as `vaswani translate`.

python scripts/translate.py --model runs/en-de --input letters.en --output letters.de
python scripts/translate.py --model runs/en-de < letters.en > letters.de
"""

import sys

from vaswani.cli import main

if __name__ == "__main__":
    sys.exit(main(["translate", *sys.argv[1:]]))
