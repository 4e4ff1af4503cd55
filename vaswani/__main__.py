"""Runs the command line as `python -m vaswani`."""

import sys

from vaswani.cli import main

sys.exit(main())
