"""Times contenders in turns in one process, and says how quiet the machine was.

What one contender takes means little on a machine that others use too; what it takes beside
another, a moment later, means more. So each round runs every contender once, in an order that
turns from round to round, and what is told are ratios within a round: their median and quartiles.
"""

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers


@dataclass(frozen=True)
class Timings:
    """What rounds of measurement gave.

    Args:
        seconds: of each contender, one number a round.
        load: other programs' share of the processors while measuring, in [0, 1].
        reference_spread: of one fixed matrix product, timed once a round: its 90th percentile
            over its 10th, 1 on a machine at rest.
    """

    seconds: Mapping[str, list[float]]
    load: float
    reference_spread: float

    def ratios(self, contender: str, to: str) -> list[float]:
        """How often `contender` fits into the time of `to`, a number for each round."""
        pairs = zip(self.seconds[to], self.seconds[contender], strict=True)
        return [theirs / own for theirs, own in pairs]

    def row(self, contender: str, peers: list[str]) -> list[str]:
        """Cells of a table: the median time, then the ratio to each peer with its quartiles."""
        cells = [contender, f"{statistics.median(self.seconds[contender]) * 1000:,.0f} ms"]
        for peer in peers:
            if peer == contender:
                cells.append("1")
                continue
            ratios = self.ratios(contender, peer)
            low, middle, high = quartiles(ratios)
            cells.append(f"{middle:.2f} ({low:.2f} to {high:.2f})")
        return cells

    def quietness(self) -> str:
        """One sentence on what else the machine did."""
        return (
            f"Others had {self.load:.0%} of the processors; the same matrix product took up to "
            f"{self.reference_spread:.2f} times as long as at its best."
        )


def quartiles(numbers: list[float]) -> tuple[float, float, float]:
    """The 25th, 50th and 75th percentile."""
    if len(numbers) < 2:
        return numbers[0], numbers[0], numbers[0]
    low, middle, high = statistics.quantiles(numbers, n=4, method="inclusive")
    return low, middle, high


def take_turns(
    contenders: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Timings:
    """Runs every contender once a round.

    Args:
        contenders: by name.
        rounds: that count.
        warm_up: rounds before them.
        clock: tells the seconds of which each contender takes some.
    """
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    left = torch.randn(512, 512)
    reference = []
    busy, own, began = processor_seconds(), _own_seconds(), time.perf_counter()
    for number in range(rounds + warm_up):
        if number == warm_up:
            busy, own, began = processor_seconds(), _own_seconds(), time.perf_counter()
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            start = clock()
            contenders[name]()
            if number >= warm_up:
                seconds[name].append(clock() - start)
        start = time.perf_counter()
        for _ in range(20):
            left @ left
        reference.append(time.perf_counter() - start)
    reference = sorted(reference[warm_up:])
    busy, own = processor_seconds() - busy, _own_seconds() - own
    wall = (time.perf_counter() - began) * (os.cpu_count() or 1)
    high = reference[int(0.9 * (len(reference) - 1))]
    low = reference[int(0.1 * (len(reference) - 1))]
    return Timings(seconds, max(0.0, (busy - own) / wall), high / low)


def _own_seconds() -> float:
    """What this process and those it started, and that have ended, have had of the processors."""
    return sum(os.times()[:4])


def processor_seconds() -> float:
    """What all programs together have had of the processors since the machine started."""
    stat = Path("/proc/stat")
    if not stat.is_file():
        return time.process_time()
    user, nice, system, _, _, irq, softirq, steal, *_ = (
        int(number) for number in stat.read_text(encoding="ascii").splitlines()[0].split()[1:]
    )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def machine() -> str:
    """One line: processor, threads, versions."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        name = next((x.split(": ")[1] for x in lines if x.startswith("model name")), name)
    return (
        f"{name}, {os.cpu_count()} cores, {torch.backends.cpu.get_cpu_capability()}, "
        f"{torch.get_num_threads()} threads; torch {torch.__version__}, "
        f"transformers {transformers.__version__}, Python {platform.python_version()}"
    )


def table(headings: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [headings, ["---"] + ["---:"] * (len(headings) - 1), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
