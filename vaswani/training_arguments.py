"""What can be set about a training run: the paper's choices unless said otherwise.

VaswaniTrainingArguments    optimizer, schedule, size of an update, evaluation, device

Values that belong to a preset are in `preset_settings`.
"""

import dataclasses
import importlib.util
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import Seq2SeqTrainingArguments
from transformers.integrations import get_available_reporting_integrations
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

from vaswani.errors import InputError
from vaswani.inherited_settings import check_followed
from vaswani.preset_settings import PAPER_SETTINGS, PRESET_SETTINGS
from vaswani.training_averaging import AveragingArguments
from vaswani.training_limits import NEVER, check_best_is_saved, check_numbers

UPDATES_BETWEEN_EVALUATIONS = 1000
EVALUATIONS_OF_A_TIMED_RUN = 10
_METRICS = ("loss", "chrf", "bleu")
_LOGGING_EXTRAS = {"tensorboard": "tensorboard", "trackio": "trackio"}


@dataclass
class VaswaniTrainingArguments(AveragingArguments, Seq2SeqTrainingArguments):
    """Settings of `VaswaniTrainer`; every inherited one works too, unless refused (see
    `inherited_settings`).

    Fields left `None` take the paper's value; `unset` names them, so that a preset may choose
    better ones (see `fill_unset`).

    Raises:
        InputError: for a value out of range, a precision that the device lacks, or a logging
            service that is not installed.
    """

    _argument_group_name = "training"
    _shown_options = (
        "num_train_epochs",
        "max_steps",
        "warmup_steps",
        "max_grad_norm",
        "eval_steps",
        "logging_steps",
        "save_total_limit",
        "metric_for_best_model",
        "bf16",
        "fp16",
        "seed",
        "report_to",
    )

    _hidden_options = (
        "use_cache",
        "logging_nan_inf_filter",
        "dataloader_pin_memory",
        "remove_unused_columns",
        "adam_beta2",
        "adam_epsilon",
    )

    output_dir: str | None = field(
        default=None,
        metadata={"help": "folder that becomes the model", "aliases": ["--output"]},
    )
    overwrite: bool = field(
        default=False, metadata={"help": "replace an earlier run in the output folder"}
    )
    dry_run: bool = field(
        default=False, metadata={"help": "check and report everything, then stop before update 1"}
    )
    tokens_per_update: int | None = field(
        default=None,
        metadata={
            "help": "source tokens, and as many target tokens, of one update over all processes "
            "and accumulation steps (the paper: 25000; presets small and tiny: 1024)"
        },
    )
    sentences_per_update: int | None = field(
        default=None,
        metadata={
            "help": "sentence pairs of one update, in place of a number of tokens: of any length, "
            "drawn at random"
        },
    )
    paper_schedule: bool = field(
        default=True,
        metadata={
            "help": "Adam and learning rate of section 5.3; off: --learning-rate, --optim and "
            "--lr-scheduler-type of transformers, see --help-all"
        },
    )
    learning_rate_factor: float | None = field(
        default=None,
        metadata={"help": "multiplies the rate of the paper (default: 1, preset small: 0.3)"},
    )
    warmup_steps: float | None = field(  # type: ignore[assignment]
        default=None,
        metadata={"help": "updates of rising learning rate (paper: 4000, small: 1000, tiny: 400)"},
    )
    gradient_accumulation_steps: int = field(
        default=1,
        metadata={"help": "parts that an update is computed in, to need less memory"},
    )
    max_minutes: float | None = field(
        default=None,
        metadata={"help": "end after this time, evaluation and the final one included"},
    )
    num_train_epochs: float | None = field(  # type: ignore[assignment]
        default=None, metadata={"help": "passes over the training data"}
    )
    max_steps: int = field(
        default=-1,
        metadata={"help": "updates in all (default: the preset's, without epochs and minutes)"},
    )
    paper_bleu: bool = field(
        default=False,
        metadata={
            "help": "BLEU as the paper reports it among the final scores too: tokenized, "
            "compounds split"
        },
    )
    early_stopping_patience: int | None = field(
        default=None,
        metadata={"help": "end after this many evaluations without a better score"},
    )
    eval_sentences: int = field(
        default=300,
        metadata={
            "help": "most sentences translated (greedily) at each evaluation during training; "
            "0 looks at the loss alone"
        },
    )
    eval_steps: float | None = field(
        default=None,
        metadata={
            "help": "updates between evaluations, each of which saves a checkpoint (default: 1000, "
            "or a tenth of --max-minutes)"
        },
    )
    device_name: str = field(
        default="auto",
        metadata={
            "help": "cpu, cuda, ... ; auto takes an accelerator if there is one",
            "aliases": ["--device"],
        },
    )
    threads: int | None = field(
        default=None, metadata={"help": "CPU threads for arithmetic (default: torch's choice)"}
    )

    # Section 5.3; the paper clips no gradients.
    adam_beta2: float = field(default=0.98, metadata={"help": "Adam's beta2"})
    adam_epsilon: float = field(default=1e-9, metadata={"help": "Adam's epsilon"})
    max_grad_norm: float = field(
        default=0.0, metadata={"help": "clip gradients at this norm (the paper: 0, never)"}
    )
    eval_strategy: str = field(default="steps", metadata={"help": "steps, epoch or no"})
    save_strategy: str = field(default="steps", metadata={"help": "steps, epoch or no"})
    save_steps: float | None = field(  # type: ignore[assignment]
        default=None, metadata={"help": "updates between checkpoints (default: --eval-steps)"}
    )
    save_total_limit: int | None = field(
        default=2, metadata={"help": "checkpoints kept; the best one always is"}
    )
    load_best_model_at_end: bool = field(
        default=True, metadata={"help": "end with the best checkpoint instead of the last weights"}
    )
    metric_for_best_model: str | None = field(
        default=None,
        metadata={"help": "loss, chrf or bleu (default: loss)"},
    )
    average_last: int = field(
        default=0, metadata={"help": "average the last N checkpoints at the end; 0 for none"}
    )
    logging_steps: float = field(default=50, metadata={"help": "updates between log lines"})
    # HfArgumentParser takes the second of the three types.
    report_to: None | str | list[str] = field(  # noqa: RUF036
        default="none", metadata={"help": "tensorboard or trackio, to log there as well"}
    )
    remove_unused_columns: bool = field(
        default=False, metadata={"help": "no effect: the trainer takes the columns it needs"}
    )
    predict_with_generate: bool = field(
        default=True, metadata={"help": "translate at evaluations and score the translations"}
    )
    logging_nan_inf_filter: bool = field(
        default=False, metadata={"help": "hide losses that are not finite from the log"}
    )
    use_cache: bool = field(
        default=True, metadata={"help": "saved in config.json: cache keys and values in search"}
    )
    dataloader_pin_memory: bool = field(
        default=False, metadata={"help": "pinned memory for faster copies to an accelerator"}
    )

    def __post_init__(self) -> None:
        # As typed, before anything is derived: what settings.yaml repeats.
        self.chosen = {
            item.name: getattr(self, item.name)
            for item in dataclasses.fields(self)
            if item.init
            and getattr(self, item.name) != item.default
            and item.default_factory is dataclasses.MISSING
        }
        if None not in (self.tokens_per_update, self.sentences_per_update):
            raise InputError(
                "`tokens_per_update` must be left out with `sentences_per_update`, "
                f"got {self.tokens_per_update} and {self.sentences_per_update}."
            )
        self.unset = tuple(
            name
            for name in PAPER_SETTINGS
            if getattr(self, name) is None
            and (name != "tokens_per_update" or self.sentences_per_update is None)
        )
        for name in self.unset:
            setattr(self, name, PAPER_SETTINGS[name])
        self._check_own_fields()
        check_followed(self)
        self._check_reports()
        self._settle_length()
        self._settle_evaluation()
        self.settle_averaging()
        check_best_is_saved(self)
        if self.device_name.startswith("cpu"):
            self.use_cpu = True
        self._check_device()
        super().__post_init__()
        if self.threads is not None:
            torch.set_num_threads(self.threads)

    def fill_unset(self, preset: str | None) -> None:
        """Gives the fields that were left unset the values that suit the preset."""
        for name in self.unset:
            setattr(self, name, getattr(PRESET_SETTINGS[preset or "base"], name))

    def update_size(self, source_lengths: Any, target_lengths: Any) -> dict[str, Any]:
        """What of `TokenBudgetBatchSampler` makes updates of so many tokens, or sentences.

        Args:
            source_lengths: tokens of each source.
            target_lengths: tokens of each target.
        """
        if self.sentences_per_update is None:
            budget = self.tokens_per_update
        else:
            # Counted as one token each, sentences are all alike: none is put beside its like.
            budget = self.sentences_per_update
            source_lengths = target_lengths = np.ones(len(source_lengths), dtype=np.int32)
        return {
            "source_lengths": source_lengths,
            "target_lengths": target_lengths,
            "tokens_per_update": budget,
        }

    @property
    def evaluates_by_time(self) -> bool:
        """Whether a tenth of `max_minutes`, not a number of updates, spaces evaluations."""
        return self.eval_steps == NEVER

    def _check_own_fields(self) -> None:
        check_numbers(self)
        metric = (self.metric_for_best_model or "loss").removeprefix("eval_")
        if metric not in _METRICS:
            raise InputError(
                f"`metric_for_best_model` must be one of {', '.join(_METRICS)}, got {metric!r}."
            )
        if metric != "loss" and not (self.predict_with_generate and self.eval_sentences):
            raise InputError(
                f"`metric_for_best_model` must be loss without translations, got {metric!r}. "
                "Set `eval_sentences` above 0 and leave `predict_with_generate` on."
            )
        if self.label_smoothing_factor:
            raise InputError(
                f"`label_smoothing_factor` must be 0, got {self.label_smoothing_factor}. "
                "Set `label_smoothing` of the model's config instead: it is saved with the model."
            )

    def _check_reports(self) -> None:
        reports = [self.report_to] if isinstance(self.report_to, str) else self.report_to or []
        for service in reports:
            if service not in (*INTEGRATION_TO_CALLBACK, "none", "all"):
                raise InputError(
                    "`report_to` must be none, tensorboard, trackio or another service that "
                    f"transformers knows, got {service!r}."
                )
            module = _LOGGING_EXTRAS.get(service)
            if module is None and service not in (
                *get_available_reporting_integrations(),
                "none",
                "all",
            ):
                raise InputError(
                    f"`report_to` must name an installed package, got {service}. Install it."
                )
            if module and importlib.util.find_spec(module) is None:
                raise InputError(
                    f"`report_to` must name an installed package, got {service}. "
                    "Install it with `pip install 'vaswani[log]'`."
                )

    def _settle_length(self) -> None:
        if self.num_train_epochs is None:
            # Whichever limit is set ends the run; epochs are then no limit.
            self.num_train_epochs = NEVER
            if self.max_steps <= 0:
                self.max_steps = NEVER
                if not self.max_minutes:
                    self.max_steps = PRESET_SETTINGS["base"].max_steps
                    self.unset = (*self.unset, "max_steps")

    def _settle_evaluation(self) -> None:
        evaluates = str(getattr(self.eval_strategy, "value", self.eval_strategy))
        if "save_strategy" not in self.chosen and evaluates == "epoch":
            self.save_strategy = "epoch"
        saves = str(getattr(self.save_strategy, "value", self.save_strategy))
        if "no" in (evaluates, saves):
            # Without both there is no best checkpoint to go back to.
            self.load_best_model_at_end = False
        if evaluates == "no" and self.early_stopping_patience:
            raise InputError(
                "`early_stopping_patience` must be left out with `eval_strategy` no, "
                f"got {self.early_stopping_patience}."
            )
        if self.eval_steps is None and self.eval_strategy == "steps":
            self.eval_steps = NEVER if self.max_minutes else UPDATES_BETWEEN_EVALUATIONS
        if self.save_steps is None:
            self.save_steps = self.eval_steps or UPDATES_BETWEEN_EVALUATIONS
        if self.metric_for_best_model is None and self.load_best_model_at_end:
            # chrF of a model that is hardly trained is noise; the likelihood is not.
            self.metric_for_best_model = "loss"

    def _check_device(self) -> None:
        name = self.device_name
        accelerator = torch.accelerator.current_accelerator(check_available=True)
        found = accelerator.type if accelerator else "cpu"
        try:
            kind = found if name == "auto" else torch.device(name).type
        except RuntimeError as error:
            raise InputError(f"`device` must be a device of torch, got {name!r}.") from error
        if self.use_cpu or kind == "cpu":
            kind, self.use_cpu = "cpu", True
        if kind not in ("cpu", found):
            raise InputError(
                f"`device` must be one that this machine has, got {name}. Found: {found}."
            )
        if self.fp16 and kind == "cpu":
            raise InputError("`fp16` must be off on a CPU, got true. Leave it out, or use a GPU.")
        if self.bf16 and not _computes_in_bf16(kind):
            raise InputError(
                f"`bf16` must be off on this {kind}, which has no arithmetic for it, got true."
            )


def _computes_in_bf16(kind: str) -> bool:
    if kind == "cpu":
        # torch emulates it elsewhere, several times slower than float32.
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    if kind == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return True
