"""Measures how fast the default filters are on one core, and what memory they need.

The pairs are generated, so that no corpus is needed: words of random letters in lengths like those
of English and German, one pair in ten a near copy of an earlier one.

    python benchmarks/bench_cleaning.py
    python benchmarks/bench_cleaning.py --pairs 5000000
"""

import argparse
import resource
import time
from collections.abc import Iterator

import numpy as np

from vaswani.corpus_cleaning import Cleaner
from vaswani.corpus_readers import Pairs

_LETTERS = np.array(list("eeennniiirrssttaaddhhuullccggmmoobbwwffkkzzppvüäöß"))
_BLOCK = 1 << 15


def generated(pairs: int) -> Iterator[Pairs]:
    """Blocks of pairs of 14 words a side on average."""
    generator = np.random.default_rng(1)
    words = ["".join(generator.choice(_LETTERS, size)) for size in generator.integers(2, 10, 20000)]
    for start in range(0, pairs, _BLOCK):
        block: Pairs = ([], [])
        for _ in range(min(_BLOCK, pairs - start)):
            if len(block[0]) > 100 and generator.random() < 0.1:
                copied = int(generator.integers(len(block[0])))
                source, target = block[0][copied].upper(), f"{block[1][copied]}!"
            else:
                size = int(generator.integers(4, 25))
                source, target = (
                    " ".join(words[k] for k in generator.integers(len(words), size=size)) + "."
                    for _ in range(2)
                )
            block[0].append(source)
            block[1].append(target)
        yield block


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=300_000)
    parser.add_argument("--filters", nargs="+", default=["default"])
    arguments = parser.parse_args()
    # Tables of characters are made once, which is no matter of pairs.
    Cleaner(arguments.filters, source="en", target="de").judge((["warm"], ["up"]))
    cleaner = Cleaner(arguments.filters, source="en", target="de")
    seconds = 0.0
    for block in generated(arguments.pairs):
        start = time.process_time()
        cleaner.judge(block)
        seconds += time.process_time() - start
    print("\n".join(cleaner.table()))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{arguments.pairs / seconds:,.0f} pairs a second of processor time; {memory:,.0f} MiB")


if __name__ == "__main__":
    main()
