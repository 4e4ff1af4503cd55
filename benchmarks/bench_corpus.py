"""Speed and memory of parallel text: reading, filtering, encoding, and the start of a run.

    python benchmarks/bench_corpus.py --pairs 200000
    python benchmarks/bench_corpus.py --pairs 5000000 --mean-words 8

Text is made up: words of random letters whose frequencies follow Zipf's law. Each measurement is
a process of its own, so that its peak of memory is its own too. Beside ours stands the least that
the same work could cost: lines split in a loop, `encode_batch_fast` with its results thrown away.
Times of processors, not of clocks, are compared, since other programs may be running.
"""

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

WORDS = 100_000
SAMPLE_PAIRS = 200_000
BLOCK = 50_000
TSV, TINY, TOKENIZER, CACHE = "pairs.tsv", "tiny.txt", "tokenizer", "cache"


def generate(path: Path, pairs: int, mean_words: float) -> None:
    """Writes a corpus of two made-up languages."""
    random = np.random.default_rng(1)
    sides = []
    for letters in ("abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyzäöüß"):
        lengths = random.integers(2, 11, WORDS)
        drawn = random.choice(list(letters), (WORDS, 11))
        sides.append(["".join(row[:length]) for row, length in zip(drawn, lengths, strict=True)])
    ranks = np.cumsum(1 / np.arange(1, WORDS + 1))
    ranks /= ranks[-1]
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, pairs, BLOCK):
            count = min(BLOCK, pairs - start)
            columns = []
            for words in sides:
                sizes = 1 + random.poisson(mean_words - 1, count)
                chosen = iter(np.searchsorted(ranks, random.random(sizes.sum())).tolist())
                columns.append(
                    [" ".join([words[k] for k in islice(chosen, size)]) for size in sizes.tolist()]
                )
            lines = (f"{s}\t{t}\n" for s, t in zip(*columns, strict=True))
            file.writelines(lines)


def read(folder: Path) -> dict[str, float]:
    """Our reader, block by block."""
    from vaswani.data import read_pairs

    def work() -> int:
        blocks = read_pairs(folder / TSV, source="en", target="de")
        return sum(len(sources) for sources, _ in blocks)

    # The library `datasets`, which is imported at the first call, is not what is measured.
    list(read_pairs([folder / TINY] * 2, source="en", target="de"))
    return _timed(work, times=1)


def read_plainly(folder: Path) -> dict[str, float]:
    """The least: lines decoded and split."""

    def work() -> int:
        with (folder / TSV).open(encoding="utf-8", newline="\n") as file:
            return sum(len(line.rstrip("\n").split("\t")) == 2 for line in file)

    return _timed(work, times=1)


def clean(folder: Path) -> dict[str, float]:
    """The default filters, reading not counted."""
    from vaswani.corpus_cleaning import Cleaner

    cleaner = Cleaner(["default"], source="en", target="de")
    pairs = _sample(folder)
    return _timed(lambda: len(cleaner.judge(pairs)))


def train_vocabulary(folder: Path) -> dict[str, float]:
    """A tokenizer for the measurements below, trained on a sample."""
    from vaswani.vocabulary import train_tokenizer

    sources, targets = _sample(folder)
    train_tokenizer([*sources, *targets], vocab_size=16_000).save_pretrained(folder / TOKENIZER)
    return {"units": len(sources)}


def encode(folder: Path) -> dict[str, float]:
    """Both sides encoded and written as the cache does."""
    from vaswani.corpus_ids import write_ids

    tokenizer, pairs = _tokenizer(folder), _sample(folder)
    size = 1 << 13
    blocks = [
        (pairs[0][k : k + size], pairs[1][k : k + size]) for k in range(0, len(pairs[0]), size)
    ]

    def work() -> int:
        facts = write_ids(folder / "ids.arrow", blocks, tokenizer, int)
        return facts["source_tokens"] + facts["target_tokens"]

    return _timed(work)


def encode_plainly(folder: Path) -> dict[str, float]:
    """The least: the library alone, its results thrown away."""
    tokenizer, pairs = _tokenizer(folder).backend_tokenizer, _sample(folder)
    tokenizer.encode_special_tokens = True
    size = 1 << 13

    def work() -> int:
        for start in range(0, len(pairs[0]), size):
            for side in pairs:
                tokenizer.encode_batch_fast(side[start : start + size])
        return 0

    return _timed(work)


def train(folder: Path) -> dict[str, float]:
    """A run on the whole file: read, vocabulary, ids, three updates."""
    return _run(folder, [])


def train_again(folder: Path) -> dict[str, float]:
    """The same run, from the cache."""
    return _run(folder, [])


def train_streaming(folder: Path) -> dict[str, float]:
    """The same from a stream, with the tokenizer of the sample."""
    words = ["--streaming", "--validation-split", "0", "--tokenizer", str(folder / TOKENIZER)]
    return _run(folder, words)


def _run(folder: Path, words: list[str]) -> dict[str, float]:
    from vaswani.cli import main

    with tempfile.TemporaryDirectory() as output:
        flags = ["train", "--data", str(folder / TSV), "--source", "en", "--target", "de"]
        flags += ["--preset", "tiny", "--max-steps", "3", "--threads", "1", "--device", "cpu"]
        flags += ["--cache-dir", str(folder / CACHE), "--output-dir", output, "--eval-sentences"]
        flags += ["0", "--eval-strategy", "no", "--num-beams", "1"]
        if "--streaming" not in words:
            flags += ["--validation-split", "20", "--vocabulary-size", "16000"]
        assert main([*flags, *words]) == 0
    return {"units": 0}


def _sample(folder: Path) -> tuple[list[str], list[str]]:
    with (folder / TSV).open(encoding="utf-8", newline="\n") as file:
        rows = [line.rstrip("\n").split("\t") for line in islice(file, SAMPLE_PAIRS)]
    return [row[0] for row in rows], [row[1] for row in rows]


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    import vaswani  # noqa: F401

    return AutoTokenizer.from_pretrained(folder / TOKENIZER)


def _timed(work: Callable[[], int], times: int = 3) -> dict[str, float]:
    """The best of several times; what was prepared before is not counted."""
    best: dict[str, float] = {}
    for _ in range(times):
        started, before = time.perf_counter(), _cpu()
        units = work()
        found = {"units": units, "seconds": time.perf_counter() - started, "cpu": _cpu() - before}
        if not best or found["cpu"] < best["cpu"]:
            best = found
    return best


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Memory(threading.Thread):
    """Peaks of memory of this process, by kind, as /proc tells them every tenth of a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peaks = {"RssAnon": 0, "RssFile": 0, "VmRSS": 0}

    def run(self) -> None:
        while True:
            for line in Path("/proc/self/status").read_text().splitlines():
                name, _, value = line.partition(":")
                if name in self.peaks:
                    self.peaks[name] = max(self.peaks[name], int(value.split()[0]) * 1024)
            time.sleep(0.1)


MEASURES: dict[str, Callable[[Path], dict[str, float]]] = {
    "read": read,
    "read_plainly": read_plainly,
    "clean": clean,
    "train_vocabulary": train_vocabulary,
    "encode": encode,
    "encode_plainly": encode_plainly,
    "train": train,
    "train_again": train_again,
    "train_streaming": train_streaming,
}


def measure(name: str, folder: Path) -> dict[str, float]:
    """What one process measures of itself."""
    memory = Memory()
    if Path("/proc/self/status").exists():
        memory.start()
    started, before = time.perf_counter(), _cpu()
    with (folder / f"{name}.log").open("w") as log, redirect_stderr(log):
        found = MEASURES[name](folder)
    whole = {"seconds": time.perf_counter() - started, "cpu": _cpu() - before}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {**whole, **found, **memory.peaks, "peak": peak}


def row(title: str, found: dict[str, float], unit: str, least: dict[str, float] | None) -> str:
    """One line of the table."""
    units = found["units"]
    rate = f"{units / found['cpu']:>12,.0f} {unit}" if units else " " * 13 + " " * len(unit)
    ratio = f"{found['cpu'] / least['cpu']:>6.2f}" if least else " " * 6
    memory = " ".join(f"{found[name] / 1e9:>6.2f}" for name in ("peak", "RssAnon", "RssFile"))
    return f"{title:<28}{rate:<28}{ratio} {found['cpu']:>8.1f} {found['seconds']:>8.1f}   {memory}"


def table(folder: Path, pairs: int, chosen: list[str]) -> None:
    """Measures one after another, and prints each as soon as it is there."""
    print(f"{'':<28}{'a second of a core':<28}{'x':>6} {'cpu s':>8} {'s':>8}   peak GB, anon, file")
    found: dict[str, dict[str, float]] = {}
    for name in chosen:
        if name == "clean" and importlib.util.find_spec("vaswani.corpus_cleaning") is None:
            continue
        command = [sys.executable, __file__, "--measure", name, "--folder", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{name} failed: {done.stderr.strip()}")
        found[name] = json.loads(done.stdout.splitlines()[-1])
        least = None
        if name == "encode_plainly" and "encode" in found:
            found[name]["units"] = found["encode"]["units"]
        if name in ("read", "encode"):
            # Measured right after, while the machine is as busy.
            plain = [sys.executable, __file__, "--measure", f"{name}_plainly", "--folder"]
            done = subprocess.run([*plain, str(folder)], capture_output=True, text=True, check=True)
            least = json.loads(done.stdout.splitlines()[-1])
            least["units"] = found[name]["units"]
        unit = "tokens" if name.startswith("encode") else "pairs"
        print(row(name.replace("_", " "), found[name], unit, least), flush=True)
        if least:
            print(row("  the least", least, unit, None), flush=True)


def main() -> None:
    """Measures everything, or one thing within a process of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--mean-words", type=float, default=12.0)
    parser.add_argument("--only", nargs="+", choices=list(MEASURES), help="leave out the others")
    parser.add_argument("--measure", choices=list(MEASURES), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="where to work (default: a temporary one)")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.folder)))
        return
    chosen = arguments.only or [name for name in MEASURES if not name.endswith("_plainly")]
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        started = time.perf_counter()
        (folder / TINY).write_text("a\n")
        generate(folder / TSV, arguments.pairs, arguments.mean_words)
        size = (folder / TSV).stat().st_size
        print(
            f"{arguments.pairs:,} pairs, {size / 1e9:.2f} GB, "
            f"made in {time.perf_counter() - started:.0f} s; {os.cpu_count()} cores"
        )
        table(folder, arguments.pairs, chosen)
    after = os.getloadavg()[0]
    quiet = "quiet" if before < 0.3 else "not quiet: clocks tell little, processor times more"
    print(f"Load before {before:.1f}, after {after:.1f}: the machine was {quiet}.")


if __name__ == "__main__":
    main()
