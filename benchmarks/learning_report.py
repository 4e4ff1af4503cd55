"""What two runs of `bench_learning.py` have measured, in a table and a picture.

report          when the peer has what ours has reached
minutes_until   the same for one loss
"""

import json
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from measuring import table

CONTENDERS = {"vaswani": "vaswani", "marian": "MarianMTModel + Seq2SeqTrainer"}


def read_curve(file: Path, quiet_seconds: float | None) -> list[tuple[float, float]]:
    """Minutes of training and the loss then, from the first measurement to the last."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()[1:]]
    if quiet_seconds is None:
        return [(line["training_seconds"] / 60, line["development_loss"]) for line in lines]
    return [(line["updates"] * quiet_seconds / 60, line["development_loss"]) for line in lines]


def minutes_until(curve: list[tuple[float, float]], loss: float) -> float | None:
    """When a curve first is as low as `loss`, on the line between measurements; `None` if never."""
    before: tuple[float, float] | None = None
    for minutes, reached in curve:
        if reached <= loss:
            if before is None:
                return minutes
            share = (before[1] - loss) / (before[1] - reached)
            return before[0] + share * (minutes - before[0])
        before = minutes, reached
    return None


def report(folder: Path, quiet_seconds: Sequence[float] | None) -> str:
    """A table of when the peer reaches what ours has reached, and a picture of both curves."""
    quiet = dict(zip(CONTENDERS, quiet_seconds or [None, None], strict=True))
    files = {name: folder / f"{name}.jsonl" for name in CONTENDERS}
    curves = {name: read_curve(file, quiet[name]) for name, file in files.items()}
    rows = []
    for minutes, loss in curves["vaswani"]:
        needed = minutes_until(curves["marian"], loss)
        last = curves["marian"][-1][0]
        found = f"over {last:.1f}" if needed is None else f"{needed:.1f}"
        ratio = f"over {last / minutes:.1f}" if needed is None else f"{needed / minutes:.1f}"
        rows.append([f"{minutes:.1f}", f"{loss:.3f}", found, ratio])
    clock = "wall time of training"
    if quiet_seconds:
        ours, theirs = quiet_seconds
        clock = f"updates times quiet seconds per update, {ours:g} (vaswani) and {theirs:g} (peer)"
    draw(curves, clock, folder / "learning.png")
    end = curves["marian"][-1]
    headings = ["vaswani: minutes", "nats per token", "minutes of the peer until then", "ratio"]
    return (
        f"Minutes are {clock}. The peer, {CONTENDERS['marian']}, has {end[1]:.3f} nats per token "
        f"after {end[0]:.1f} minutes.\n\n{table(headings, rows)}"
    )


def draw(curves: dict[str, list[tuple[float, float]]], clock: str, file: Path) -> None:
    """Draws loss over time."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for name, curve in curves.items():
        axes.plot(*zip(*curve, strict=True), marker="o", markersize=3, label=CONTENDERS[name])
    axes.set_xlabel(f"minutes ({clock})", fontsize=8)
    axes.set_ylabel("development loss, nats per target token")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(file, dpi=150)
