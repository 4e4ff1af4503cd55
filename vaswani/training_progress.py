"""What happens around the updates of a run: its clock, Ctrl-C, log lines, progress bar.

InterruptSwitch     the first Ctrl-C asks for an orderly end, the second one aborts
RunClock            when to evaluate and when to end, by time
ProgressReport      one line a log entry, a bar on a terminal, `log.jsonl`
"""

import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from tqdm.auto import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from vaswani.training_arguments import EVALUATIONS_OF_A_TIMED_RUN
from vaswani.training_averaging import weights_update
from vaswani.training_limits import NEVER

# Beam 4 costs about this many times a greedy translation.
_BEAM_COST = 3.0
# Evaluations spaced by time take at most one part in this many, and one, of it.
_UPDATES_FOR_EVALUATION = 6
# The final evaluation may not be given more than this share of the whole run in advance.
_MOST_RESERVED = 0.2


class InterruptSwitch:
    """Notes a Ctrl-C while `listening`; a second one raises KeyboardInterrupt at once."""

    def __init__(self) -> None:
        self.requested = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Takes over SIGINT within the block; outside the main thread it changes nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = signal.getsignal(signal.SIGINT)

        def note(number: int, frame: FrameType | None) -> None:
            if self.requested:
                raise KeyboardInterrupt
            self.requested = True
            print(
                "\nInterrupted: ends after this update and saves the model. Ctrl-C again aborts.",
                file=sys.stderr,
                flush=True,
            )

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)


class RunClock(TrainerCallback):
    """Ends a run at its time limit or on Ctrl-C, and spaces evaluations by time where asked.

    Args:
        switch: tells of Ctrl-C.
        agree: makes all processes follow the first one, `(flags) -> flags`.
    """

    def __init__(self, switch: InterruptSwitch, agree: Any = None) -> None:
        self.switch = switch
        self.agree = agree
        self.started: float | None = None
        self.training_started = time.monotonic()
        self.last_evaluation = time.monotonic()
        self.evaluation_seconds = 0.0
        # Seconds that the evaluation at the end is expected to take.
        self.reserved = 0.0

    def minutes(self) -> float:
        """Minutes since the run began."""
        return (time.monotonic() - (self.started or self.training_started)) / 60

    def minutes_left(self, args: TrainingArguments, state: TrainerState) -> float | None:
        """Minutes until the last update, by the limit that comes first; `None` if unknown."""
        left = []
        max_minutes = getattr(args, "max_minutes", None)
        if max_minutes:
            left.append(max_minutes - self.reserved / 60 - self.minutes())
        if state.max_steps < NEVER and state.global_step:
            spent = (time.monotonic() - self.training_started) / 60
            left.append(spent * (state.max_steps / state.global_step - 1))
        return max(0.0, min(left)) if left else None

    def took_evaluation(
        self, seconds: float, sentences: int, all_sentences: int, limit: float | None
    ) -> None:
        """Plans the next evaluation and the final one from one during training.

        Args:
            seconds: what that one took, for `sentences` sentences.
            limit: of the whole run, in minutes.
        """
        self.evaluation_seconds = seconds
        estimate = seconds * _BEAM_COST * all_sentences / max(1, sentences)
        if limit:
            self.reserved = min(estimate, _MOST_RESERVED * limit * 60)

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Starts the clock, unless the run began earlier."""
        self.training_started = self.last_evaluation = time.monotonic()
        if self.started is None:
            self.started = self.training_started

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> TrainerControl:
        """Sets what is due after this update."""
        limit: float = getattr(args, "max_minutes", None) or 0.0
        over = limit > 0 and self.minutes() * 60 + self.reserved >= limit * 60
        due = False
        if limit and getattr(args, "evaluates_by_time", False):
            spacing = max(
                limit * 60 / EVALUATIONS_OF_A_TIMED_RUN,
                self.evaluation_seconds * _UPDATES_FOR_EVALUATION,
            )
            due = time.monotonic() - self.last_evaluation >= spacing
        flags = [self.switch.requested, over, due]
        if self.agree is not None:
            flags = self.agree(flags)
        interrupted, over, due = flags
        if due:
            # Without validation data nothing else would space the checkpoints.
            self.last_evaluation = time.monotonic()
        if (over or due) and args.eval_strategy != "no":
            control.should_evaluate = True
        if over or due or interrupted:
            control.should_save = True
        if over or interrupted:
            control.should_training_stop = True
        if interrupted:
            control.should_evaluate = False
        return control

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """The time of an evaluation does not count towards the next one."""
        self.last_evaluation = time.monotonic()


_FORMATS = {
    "loss": ("loss {:.3f}", 1.0),
    "eval_loss": ("validation: {:.3f} nats a token", 1.0),
    "eval_perplexity": ("perplexity {:.2f}", 1.0),
    "eval_bleu": ("BLEU {:.1f}", 1.0),
    "eval_chrf": ("chrF {:.1f}", 1.0),
    "eval_truncated": ("{:.0f} cut off", 1.0),
    "eval_seconds": ("in {:.0f} s", 1.0),
    "learning_rate": ("rate {:.2e}", 1.0),
    "grad_norm": ("gradient norm {:.2f}", 1.0),
    "tokens_per_second": ("{:,.0f} tokens/s", 1.0),
    "padding": ("padding {:.1f} %", 100.0),
    "minutes_left": ("{:.0f} min left", 1.0),
}


def describe(entry: dict[str, Any]) -> str:
    """One log entry in words, without what nobody watches; "" if nothing is left."""
    words = [
        text.format(entry[name] * factor)
        for name, (text, factor) in _FORMATS.items()
        if isinstance(entry.get(name), int | float)
    ]
    return " · ".join(words)


class ProgressReport(TrainerCallback):
    """Log lines on stderr, a bar under them on a terminal, and `log.jsonl` in the output folder.

    Args:
        clock: knows the time left.
        bar: whether to draw a bar.
        log_file: gets each entry as one line of JSON; `None` writes none.
    """

    def __init__(self, clock: RunClock, *, bar: bool, log_file: Path | None = None) -> None:
        self.clock = clock
        self.draws_bar = bar
        self.log_file = log_file
        self.bar: Any = None
        self.finished = False

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Opens the bar."""
        if state.is_world_process_zero and self.draws_bar:
            total = state.max_steps if state.max_steps < NEVER else None
            self.bar = tqdm(
                total=total,
                initial=state.global_step,
                unit=" updates",
                dynamic_ncols=True,
                smoothing=0.05,
            )

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Moves the bar."""
        if self.bar is not None:
            self.bar.update(state.global_step - self.bar.n)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Writes the entry."""
        if not state.is_world_process_zero or logs is None:
            return
        update = weights_update(args, state) if self.finished else state.global_step
        if self.log_file is not None:
            entry = {"update": update, **logs}
            with self.log_file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        text = describe(logs)
        if text:
            line = f"update {update:,} · {text}"
            if self.bar is not None:
                self.bar.write(line, file=sys.stderr)
            else:
                print(line, file=sys.stderr, flush=True)

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Closes the bar."""
        self.finished = True
        if self.bar is not None:
            self.bar.close()
            self.bar = None
