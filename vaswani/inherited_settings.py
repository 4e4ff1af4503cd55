"""Settings that come with transformers and that no run of ours follows: refused, not ignored.

check_followed     what `VaswaniTrainer` has no use for, since updates and rates are its own
check_of_command   what `vaswani train` has no use for, though a program around the trainer may:
                   `VaswaniTrainer.predict` loads and searches as transformers does

Only what was chosen is refused; a default says nothing.
"""

from typing import Any

from vaswani.errors import InputError

_UPDATES = "updates are formed by `tokens_per_update` or `sentences_per_update`"
_LOADER = "batches are formed before they are loaded; `dataloader_num_workers` is what can be set"
_EVALUATION = "a run evaluates in batches and in a precision of its own"
_SEARCH = "translations are greedy while training; `num_beams` sets the final search"
_RATE = (
    "`paper_schedule` gives the rate. Set `learning_rate_factor` and `warmup_steps`, or turn "
    "`paper_schedule` off (`--no-paper-schedule`)"
)
_RESUMED = "a run on the command line begins anew"
_HUB = (
    "a run publishes nothing. Upload the finished folder, as in the README under Publish, "
    "or with `hf upload`"
)

_NOT_FOLLOWED = {
    "per_device_train_batch_size": _UPDATES,
    "auto_find_batch_size": f"{_UPDATES}; `gradient_accumulation_steps` needs less memory",
    "train_sampling_strategy": _UPDATES,
    "length_column_name": _UPDATES,
    "sortish_sampler": _UPDATES,
    "use_liger_kernel": "there are no such kernels for this model",
    "liger_kernel_config": "there are no such kernels for this model",
}
_NOT_WITH_PAPER_SCHEDULE = ("learning_rate", "lr_scheduler_type", "lr_scheduler_kwargs")
_NOT_OF_COMMAND = {
    "resume_from_checkpoint": (
        f"{_RESUMED}. `--model CHECKPOINT` goes on from its weights with a new schedule; from "
        "Python `VaswaniTrainer.train(resume_from_checkpoint=...)` goes on exactly"
    ),
    "ignore_data_skip": _RESUMED,
    "restore_callback_states_from_checkpoint": _RESUMED,
    "do_train": "`vaswani train` always trains",
    "do_eval": "`eval_strategy` says when a run evaluates; `vaswani evaluate` does only that",
    "do_predict": "`test_data` names what the finished model is measured on",
    "dataloader_drop_last": f"{_UPDATES}, and none is left out",
    "dataloader_persistent_workers": _LOADER,
    "dataloader_prefetch_factor": _LOADER,
    "dataloader_multiprocessing_context": _LOADER,
    "dataloader_in_order": _LOADER,
    "per_device_eval_batch_size": _EVALUATION,
    "prediction_loss_only": "`eval_sentences` 0 looks at the loss alone",
    "eval_do_concat_batches": _EVALUATION,
    "eval_use_gather_object": _EVALUATION,
    "eval_accumulation_steps": _EVALUATION,
    "batch_eval_metrics": _EVALUATION,
    "include_for_metrics": _EVALUATION,
    "label_names": _EVALUATION,
    "bf16_full_eval": _EVALUATION,
    "fp16_full_eval": _EVALUATION,
    "generation_max_length": _SEARCH,
    "generation_num_beams": _SEARCH,
    "generation_config": _SEARCH,
    "push_to_hub": _HUB,
    "hub_model_id": _HUB,
    "hub_strategy": _HUB,
    "hub_token": _HUB,
    "hub_always_push": _HUB,
    "hub_revision": _HUB,
}
# Never shown, not even in the message that refuses it.
_SECRET = ("hub_token",)


def check_followed(args: Any) -> None:
    """Raises InputError for the first chosen setting that the trainer would not follow."""
    _refuse(args, _NOT_FOLLOWED)
    if args.paper_schedule:
        _refuse(args, dict.fromkeys(_NOT_WITH_PAPER_SCHEDULE, _RATE))


def check_of_command(args: Any) -> None:
    """Raises InputError for the first chosen setting that `vaswani train` would not follow."""
    _refuse(args, _NOT_OF_COMMAND)


def _refuse(args: Any, settings: dict[str, str]) -> None:
    for name, why in settings.items():
        if name in args.chosen:
            value = getattr(args.chosen[name], "value", args.chosen[name])
            got = "one" if name in _SECRET else value
            raise InputError(f"`{name}` must be left out, got {got}: {why}.")
