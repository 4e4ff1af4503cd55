"""Averages of weights within a training run: of its last checkpoints, or moving along.

    AveragingArguments    the two settings
    AveragingTrainer      a Seq2SeqTrainer that saves and uses the averages
    weights_update        the update whose weights a run ends with

Left to others: averages of folders (`checkpoints`), the moving average itself (`moving_average`),
all other training (`training`).
"""

import logging
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accelerate.utils import broadcast, broadcast_object_list
from safetensors import SafetensorError
from transformers import Seq2SeqTrainer, TrainerCallback, TrainerControl, TrainerState
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.training_args import TrainingArguments

from vaswani.checkpoint_files import find_checkpoints, refuse_foreign_states, updates_of
from vaswani.checkpoints import average_weights
from vaswani.errors import InputError
from vaswani.moving_average import MovingAverage
from vaswani.wording import counted

# In a checkpoint, beside model.safetensors with the weights that training goes on from.
MOVING_AVERAGE = "ema.safetensors"

logger = logging.getLogger(__name__)


@dataclass
class AveragingArguments:
    """Which average of the weights becomes the model, if any."""

    average_last: int = field(
        default=0,
        metadata={
            "help": "the average of the last N checkpoints becomes the model, in place of the best "
            "one (the paper: base 5, big 20; default: 0, off)"
        },
    )
    ema_decay: float | None = field(
        default=None,
        metadata={
            "help": "keep an exponential moving average of the weights with this decay, such as "
            "0.999; it is evaluated and becomes the model (default: off)"
        },
    )

    def settle_averaging(self: Any) -> None:
        """Checks both settings and keeps as many checkpoints as they need.

        Raises:
            InputError: for a value out of range, or settings that exclude each other.
        """
        if self.average_last < 0:
            raise InputError(f"`average_last` must be at least 0 (off), got {self.average_last}.")
        if self.ema_decay is not None:
            MovingAverage(self.ema_decay)
        if not self.average_last:
            return
        if self.ema_decay is not None:
            raise InputError(
                f"`average_last` must be 0 with `ema_decay`, got {self.average_last} and "
                f"{self.ema_decay}. Choose one of the two averages."
            )
        if str(getattr(self.save_strategy, "value", self.save_strategy)) == "no":
            raise InputError(
                f"`average_last` must be 0 with `save_strategy` no, got {self.average_last}. "
                "Leave `save_strategy` out."
            )
        # The best checkpoint is still told of and kept, but is not what the run ends with.
        self.load_best_model_at_end = False
        if self.save_total_limit:
            self.save_total_limit = max(self.save_total_limit, self.average_last + 1)

    def averaging_plan(self: Any, *, validated: bool = True) -> str:
        """What becomes the model, in a sentence; "" if it is no average.

        Args:
            validated: whether there is anything to tell the best checkpoint by.
        """
        evaluates = str(getattr(self.eval_strategy, "value", self.eval_strategy)) != "no"
        if self.average_last:
            last = (
                "last checkpoint"
                if self.average_last == 1
                else f"average of the last {self.average_last:,} checkpoints"
            )
            kept = "; the best one is kept beside" if validated and evaluates else ""
            return f"The {last} becomes the model{kept}."
        if self.ema_decay is not None:
            return (
                f"The moving average of the weights, decay {self.ema_decay:g}, "
                f"{'is evaluated and ' if validated and evaluates else ''}becomes the model."
            )
        return ""


def weights_update(args: TrainingArguments, state: TrainerState) -> int:
    """The update whose weights the model has after training: the best one's if they are kept."""
    if args.load_best_model_at_end and state.best_model_checkpoint is not None:
        return int(state.best_global_step or state.global_step)
    return int(state.global_step)


class _AverageUpdates(TrainerCallback):
    """Lets the moving average see the weights after each update."""

    def __init__(self, trainer: "AveragingTrainer") -> None:
        self.trainer = trainer

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        average = self.trainer.moving_average
        # Half-precision training leaves out updates whose gradients overflow.
        if average is not None and not self.trainer.accelerator.optimizer_step_was_skipped:
            average.update(self.trainer.model)


class AveragingTrainer(Seq2SeqTrainer):
    """A Seq2SeqTrainer that ends with an average of weights, if its arguments ask for one.

    With `ema_decay` evaluations within training see the moving average, and the best checkpoint
    is the one whose average was best. Its checkpoints hold the weights to go on from in
    model.safetensors and the average in ema.safetensors.

    Raises:
        InputError: with FSDP or DeepSpeed, where no process has all the weights.
    """

    args: Any
    model: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.moving_average: MovingAverage | None = None
        self.saved_checkpoints: list[Path] = []
        self._ended_with = ""
        self._comparison: dict[str, Any] = {}
        sharded = self.is_fsdp_enabled or self.is_deepspeed_enabled
        for name in ("average_last", "ema_decay"):
            if sharded and getattr(self.args, name):
                raise InputError(
                    f"`{name}` must be left out with FSDP or DeepSpeed, got "
                    f"{getattr(self.args, name)}. Average the checkpoints with `vaswani average`."
                )
        if self.args.ema_decay is not None:
            self.add_callback(_AverageUpdates(self))

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """As the parent does, with averages of this run alone."""
        self.saved_checkpoints, self._ended_with, self._comparison = [], "", {}
        decay = self.args.ema_decay
        self.moving_average = None if decay is None else MovingAverage(decay)
        return super().train(*args, **kwargs)

    # Checkpoints

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """As the parent does; an interrupted checkpoint leaves no folder that looks whole."""
        name = f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        folder = Path(self._get_output_dir(trial=trial)) / name
        try:
            if self.moving_average is not None and self.args.should_save:
                # Before the rest, which ends with the file that tells a finished checkpoint.
                folder.mkdir(parents=True, exist_ok=True)
                self.moving_average.save(folder / MOVING_AVERAGE)
            super()._save_checkpoint(model, trial)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if folder not in self.saved_checkpoints:
            self.saved_checkpoints.append(folder)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """As the parent does, with the averages that the run had there.

        Raises:
            InputError: if the states of optimizer and schedule are not there: transformers would
                begin both anew without a word; or if a file could run code.
        """
        sharded = self.is_fsdp_enabled or self.is_deepspeed_enabled
        states = [] if sharded else [OPTIMIZER_NAME, SCHEDULER_NAME]
        missing = [name for name in states if not (Path(resume_from_checkpoint) / name).is_file()]
        if missing:
            raise InputError(
                "the checkpoint must hold the state of the training to go on from it, got "
                f"{resume_from_checkpoint}, which lacks {' and '.join(missing)}, as with "
                "`save_only_model`. Start a new run from its weights."
            )
        refuse_foreign_states(Path(resume_from_checkpoint))
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        folder = Path(resume_from_checkpoint)
        self.saved_checkpoints = [
            path
            for path in find_checkpoints(folder.parent)
            if updates_of(path) <= updates_of(folder)
        ]
        if self.moving_average is not None:
            self.moving_average.load(folder / MOVING_AVERAGE, self.model)

    def _load_best_model(self) -> None:
        """As the parent does; what was best is the moving average, if there is one."""
        super()._load_best_model()
        if self.moving_average is not None:
            best = Path(str(self.state.best_model_checkpoint))
            self.moving_average.load(best / MOVING_AVERAGE, self.model)
            self.moving_average.copy_to(self.model)

    # What is evaluated, and what the run ends with

    def _evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """As the parent does, with the moving average in the place of the weights."""
        if self.moving_average is None:
            return super()._evaluate(*args, **kwargs)
        with self.moving_average.in_place(self.model):
            return super()._evaluate(*args, **kwargs)

    def settle_weights(self) -> None:
        """Gives the model the weights that the run ends with; called once it has ended."""
        best = self.args.load_best_model_at_end and self.state.best_model_checkpoint is not None
        if best:
            update = weights_update(self.args, self.state)
            self._ended_with = f"the weights of update {update:,}, the best"
        else:
            self._ended_with = f"the weights of update {self.state.global_step:,}, the last"
        if self.moving_average is not None:
            if not best:
                self.moving_average.copy_to(self.model)
            average = f"the moving average (decay {self.args.ema_decay:g}) of "
            self._ended_with = average + self._ended_with
        if self.args.average_last:
            self._average_checkpoints()

    def ended_with(self) -> str:
        """In words, which weights the model has after training."""
        return self._ended_with

    def comparison(self) -> dict[str, Any]:
        """After an average of checkpoints: their number, and the best one's update and loss."""
        return self._comparison

    def _average_checkpoints(self) -> None:
        """The average of what was saved; the last weights, and why, where there is none."""
        folders: list[Path] = []
        problem = ""
        weights: dict[str, Any] = {}
        if self.is_world_process_zero():
            folders = [path for path in self.saved_checkpoints if path.is_dir()]
            folders = folders[-self.args.average_last :]
            try:
                weights = average_weights(folders) if folders else {}
                problem = "" if folders else "no checkpoint was saved to average"
            except (InputError, OSError, SafetensorError) as error:
                # A run of days must not be lost at its last step.
                problem = f"averaging failed: {error}"
        if self.args.world_size > 1:
            problem, folders = broadcast_object_list([problem, folders])
        if problem:
            logger.warning("%s", problem)
            self._ended_with += f" ({problem})"
            return
        self._take_over(weights)
        self._describe_average([updates_of(path) for path in folders])

    def _take_over(self, weights: dict[str, Any]) -> None:
        """Loads the first process's weights into the model of every process."""
        if weights:
            # Only the owner of a shared table is stored.
            missing, unknown = self.model.load_state_dict(weights, strict=False)
            assert not unknown and set(missing) <= set(self.model.all_tied_weights_keys)
        if self.args.world_size > 1:
            for parameter in self.model.parameters():
                parameter.data.copy_(broadcast(parameter.data))

    def _describe_average(self, updates: list[int]) -> None:
        listed = ", ".join(f"{update:,}" for update in updates)
        few = len(updates) < self.args.average_last
        self._ended_with = (
            f"the average of {counted(len(updates), 'checkpoint')} "
            f"({'update' if len(updates) == 1 else 'updates'} {listed}"
            f"{f'; {self.args.average_last} were asked for' if few else ''})"
        )
        self._comparison = {"averaged_checkpoints": len(updates)}
        best = self.state.best_global_step
        losses = {e["step"]: e["eval_loss"] for e in self.state.log_history if "eval_loss" in e}
        if best in losses:
            self._comparison |= {
                "best_checkpoint_update": best,
                "best_checkpoint_loss": losses[best],
            }
