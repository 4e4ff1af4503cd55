"""Measures a model while a Trainer trains it, with the clock stopped, and ends the run in time.

CountingCollator    how many tokens have been learnt from
Stopwatch           when to measure and to end; seconds, on a quiet machine too
append_line         where both are written
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from measuring import processor_seconds
from transformers import TrainerCallback, TrainerControl, TrainerState

# A single update's time depends on its batch, more so for batches of random sentences.
UPDATES_TIMED_TOGETHER = 5
# While other programs have more of the processors than this, the machine is not quiet.
QUIET_SHARE = 0.04


class CountingCollator:
    """A collator that counts the real tokens of both sides on the way."""

    def __init__(self, collate: Callable[[Sequence[Any]], Any]) -> None:
        self.collate = collate
        self.tokens = 0

    def __call__(self, features: Sequence[Any]) -> Any:
        self.tokens += sum(len(row["input_ids"]) + len(row["labels"]) for row in features)
        return self.collate(features)


class Stopwatch(TrainerCallback):
    """Measures the loss at evenly spaced moments with the clock stopped, and ends the run.

    Args:
        measure: gives the loss.
        collator: knows the tokens.
        file: gets a line of JSON for each measurement.
        minutes: of training, or `None` to end after
        updates: so many updates.
        measurements: how many, the last one at the end.
    """

    def __init__(
        self,
        measure: Callable[[], float],
        collator: CountingCollator,
        file: Path,
        *,
        minutes: float | None,
        updates: int | None,
        measurements: int,
    ) -> None:
        self.measure, self.collator, self.file = measure, collator, file
        self.minutes, self.updates, self.measurements = minutes, updates, measurements
        self.taken = 0
        self.trained = self.computed = 0.0
        self.since = self.computed_since = 0.0
        self.quiet: list[float] = []
        self.start()

    def start(self) -> None:
        """Lets the clocks run on."""
        self.since, self.computed_since = time.perf_counter(), time.process_time()
        self._begin_group()

    def _begin_group(self) -> None:
        self.group = (self.trained, 0, processor_seconds() - time.process_time())

    def on_step_end(
        self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Counts the update, and measures or ends the run if it is time."""
        now, computed = time.perf_counter(), time.process_time()
        self.trained += now - self.since
        self.computed += computed - self.computed_since
        self.since, self.computed_since = now, computed
        self._time_group()
        if self.updates is None:
            share = self.trained / (60 * self.minutes)
        else:
            share = state.global_step / self.updates
        if share * self.measurements >= self.taken + 1:
            self.write(state.global_step)
            self.taken = int(share * self.measurements)
            self.start()
        if share >= 1:
            control.should_training_stop = True

    def _time_group(self) -> None:
        """Keeps the time of some updates in a row if nobody else was at work."""
        start, count, busy = self.group
        count += 1
        self.group = start, count, busy
        if count < UPDATES_TIMED_TOGETHER:
            return
        seconds = self.trained - start
        others = processor_seconds() - time.process_time() - busy
        if others <= QUIET_SHARE * seconds * (os.cpu_count() or 1):
            self.quiet.append(seconds / count)
        self._begin_group()

    def write(self, updates: int) -> None:
        """Measures and writes."""
        entry = {
            "updates": updates,
            "training_seconds": round(self.trained, 3),
            "processor_seconds": round(self.computed, 3),
            "quiet_seconds_per_update": statistics.median(self.quiet) if self.quiet else None,
            "quiet_groups": len(self.quiet),
            # A batch is collated while the one before it is still learnt from.
            "tokens": self.collator.tokens,
            "development_loss": round(self.measure(), 5),
        }
        append_line(self.file, entry)


def append_line(file: Path, entry: dict[str, Any]) -> None:
    """Writes one line of JSON, to the file and to stderr."""
    line = json.dumps(entry)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(line + "\n")
    print(line, file=sys.stderr, flush=True)
