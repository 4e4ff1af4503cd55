"""What a finished run knows about itself, as its model card tells it.

run_facts      the data, the settings, and what the training took
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vaswani.data import is_on_hub
from vaswani.data_arguments import DataArguments
from vaswani.model_card import CARD, stated_license
from vaswani.run_settings import ModelArguments
from vaswani.training import VaswaniTrainer
from vaswani.training_data import TokenizedPairs
from vaswani.training_energy import compute_facts
from vaswani.training_streaming import StreamedPairs
from vaswani.training_vocabulary import vocabulary_sizes

logger = logging.getLogger(__name__)


def run_facts(
    model_arguments: ModelArguments,
    arguments: DataArguments,
    train: TokenizedPairs | StreamedPairs,
    validation: TokenizedPairs | None,
    trainer: VaswaniTrainer,
) -> dict[str, Any]:
    """The arguments of `write_model_card` but for its folder and the scores."""
    named = [*arguments.data, *(arguments.validation_data or ()), *(arguments.test_data or ())]
    datasets = [word.split(":")[0] for word in named if is_on_hub(word)]
    held_out = "held-out pairs of the training data"
    return {
        "data": {**_base(model_arguments), **_data(arguments, train, validation)},
        "settings": _settings(model_arguments, train, trainer),
        "compute": compute_facts(trainer.args, trainer.clock.minutes()),
        "corpora": (
            _names(arguments.validation_data) if arguments.validation_data else held_out,
            _names(arguments.test_data) if arguments.test_data else None,
        ),
        "base_model": _base_on_hub(model_arguments),
        "license": model_arguments.license,
        "datasets": sorted(set(datasets)),
    }


def _base_on_hub(model_arguments: ModelArguments) -> str | None:
    base = model_arguments.model
    return None if base is None or Path(base).exists() else base


def _base(model_arguments: ModelArguments) -> dict[str, Any]:
    """What the model was trained on from, with the license of those weights as its card has it."""
    if model_arguments.model is None:
        return {}
    name = _base_on_hub(model_arguments) or Path(model_arguments.model).resolve().name
    card = Path(model_arguments.model, CARD)
    license = None
    if card.is_file():
        license = stated_license(card.read_text(encoding="utf-8", errors="replace"))
    if license and model_arguments.license and license != model_arguments.license.lower():
        logger.warning(
            "The weights that training goes on from are under %s; the card will say %s.",
            license,
            model_arguments.license,
        )
    terms = f"under {license}" if license else "license: see there"
    return {"goes on from": f"{name} ({terms}), whose training data is in its own card"}


def _names(words: Sequence[str]) -> str:
    """Corpora without their folders, which are nobody's business; those of the Hub in full."""
    return ", ".join(
        word if is_on_hub(word) else ", ".join(Path(part).name for part in word.split(","))
        for word in words
    )


def _data(
    arguments: DataArguments,
    train: TokenizedPairs | StreamedPairs,
    validation: TokenizedPairs | None,
) -> dict[str, Any]:
    licenses = arguments.data_licenses
    data: dict[str, Any] = {
        "source": arguments.source,
        "target": arguments.target,
        "corpora": _names(arguments.data),
        "licenses of the corpora": ", ".join(licenses) if licenses else "not stated",
    }
    if arguments.data_weights:
        weights = ", ".join(f"{weight:g}" for weight in arguments.data_weights)
        data["weights of the corpora"] = weights
    if isinstance(train, StreamedPairs):
        data["training pairs"] = "a stream, not counted"
    else:
        data["training pairs"] = f"{len(train):,}"
        data["training tokens (source, target)"] = (
            f"{int(train.source_lengths.sum()):,}, {int(train.target_lengths.sum()):,}"
        )
        data["pairs left out as too long"] = train.left_out
        if train.shortened:
            data["pairs cut as too long"] = train.shortened
    data["validation pairs"] = len(validation) if validation is not None else 0
    return data


def _settings(
    model_arguments: ModelArguments,
    train: TokenizedPairs | StreamedPairs,
    trainer: VaswaniTrainer,
) -> dict[str, Any]:
    args, config = trainer.args, trainer.model.config
    content = (
        {"tokens per update": args.tokens_per_update}
        if args.sentences_per_update is None
        else {"sentence pairs per update": args.sentences_per_update}
    )
    return {
        "parameters": f"{trainer.model.num_parameters():,}",
        "d_model": config.d_model,
        "layers (encoder, decoder)": f"{config.encoder_layers}, {config.decoder_layers}",
        "vocabulary": vocabulary_sizes(trainer.processing_class),
        "dropout": config.dropout,
        "label smoothing": config.label_smoothing,
        **content,
        "updates": trainer.state.global_step,
        "weights": trainer.ended_with(),
        "passes over the data": (
            train.passes if isinstance(train, StreamedPairs) else round(trainer.state.epoch or 0, 2)
        ),
        "warm-up updates": args.warmup_steps,
        "learning-rate factor": args.learning_rate_factor,
        "seed": args.seed,
    }
