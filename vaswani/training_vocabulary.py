"""Vocabularies within a training run: new ones, and how a tokenizer fits a model.

new_tokenizer            trained on the texts of the run
table_settings           fields of the config that the tokenizer settles
check_tokenizer_fits     refuses ids that the model's tables do not have
vocabulary_sizes         for reports and the model card
KeptTokenIds             keeps the config's ids where transformers would take the source's
"""

import copy
from collections.abc import Callable
from typing import Any

from transformers import PreTrainedTokenizerBase, TrainerCallback

from vaswani.corpus_store import PairBlocks
from vaswani.errors import InputError
from vaswani.run_settings import ModelArguments
from vaswani.tokenization_vaswani import VaswaniTokenizer, check_entries, target_side
from vaswani.vocabulary import train_tokenizer, train_tokenizer_pair

# Merges that occur often enough to be learnt; the paper's 37,000 fit millions of pairs.
_SIZES_BY_PAIRS = ((50_000, 4000), (300_000, 8000), (1_000_000, 16_000))
_LARGEST_SIZE = 37_000
_KINDS = {
    "bpe": "byte-pair encoding",
    "unigram": "pieces of a unigram model",
    "word": "whole words",
}
# What transformers sets from a tokenizer when training begins.
_ALIGNED_IDS = ("pad_token_id", "bos_token_id", "eos_token_id")


def new_tokenizer(
    arguments: ModelArguments,
    pairs: PairBlocks,
    say: Callable[[str], object],
) -> VaswaniTokenizer:
    """Trains what the arguments ask for: one vocabulary or one for each side."""
    model = arguments.vocabulary_model
    size = arguments.vocabulary_size
    if size is None:
        # Only parts of words have to be chosen by the size of the corpus; words choose themselves.
        by_pairs = (size for most, size in _SIZES_BY_PAIRS if len(pairs) <= most)
        size = _LARGEST_SIZE if model == "word" else next(by_pairs, _LARGEST_SIZE)
    chosen = ""
    if arguments.vocabulary_size is None and size < _LARGEST_SIZE:
        chosen = (
            f" ({_LARGEST_SIZE:,} are for more than {_SIZES_BY_PAIRS[-1][0]:,} pairs; "
            "`--vocabulary-size` sets the number)"
        )
    kind = _KINDS[model]
    settings: dict[str, Any] = {
        "vocab_size": size,
        "model": model,
        "normalization": arguments.normalization,
        "min_frequency": arguments.min_frequency,
    }
    if not arguments.separate_vocabularies:
        say(f"Training a shared vocabulary of {kind}, at most {size:,} entries{chosen}.")
        return train_tokenizer(pairs.texts, **settings)
    target_size = arguments.target_vocabulary_size
    if target_size is None:
        target_size = size
    say(
        f"Training a vocabulary of {kind} for each side, at most {size:,} source and "
        f"{target_size:,} target entries{chosen}."
    )
    return train_tokenizer_pair(
        pairs.sources,
        pairs.targets,
        target_vocab_size=target_size,
        **settings,
    )


def table_settings(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """Fields of `VaswaniConfig` that follow from the tokenizer: sizes, ids, shared table or not."""
    target = target_side(tokenizer)
    settings = {
        "vocab_size": len(target),
        "pad_token_id": target.pad_token_id,
        "bos_token_id": target.bos_token_id,
        "eos_token_id": target.eos_token_id,
        "unk_token_id": target.unk_token_id,
        "decoder_start_token_id": target.bos_token_id,
    }
    if target is not tokenizer:
        settings["encoder_vocab_size"] = len(tokenizer)
        settings["encoder_pad_token_id"] = tokenizer.pad_token_id
        settings["share_encoder_decoder_embeddings"] = False
    return settings


def check_tokenizer_fits(tokenizer: PreTrainedTokenizerBase, config: Any) -> None:
    """Raises InputError if the tokenizer can give ids that the model's tables do not have.

    Also if each side has its own vocabulary and the model one table for both, or if padding has
    another id in the model.
    """
    target = target_side(tokenizer)
    separate = target is not tokenizer
    try:
        check_entries(config, tokenizer)
    except ValueError as error:
        raise InputError(str(error)) from error
    if not separate:
        return
    if config.share_encoder_decoder_embeddings:
        raise InputError(
            "`share_encoder_decoder_embeddings` must be False for a tokenizer with a vocabulary "
            "for each side, got True. Set it to False, or use one shared vocabulary."
        )
    for side, owner, field in (
        ("source", tokenizer, "source_pad_token_id"),
        ("target", target, "pad_token_id"),
    ):
        if owner.pad_token_id != getattr(config, field):
            raise InputError(
                f"`tokenizer`, {side} side, must have the padding id of the model, got "
                f"{owner.pad_token_id} and {getattr(config, field)}. Use the tokenizer that the "
                "model was trained with."
            )


def vocabulary_sizes(tokenizer: Any) -> str:
    """Entries of the vocabulary, or of both."""
    target = target_side(tokenizer)
    if target is tokenizer:
        return f"{len(tokenizer):,}"
    return f"{len(tokenizer):,} (source) and {len(target):,} (target)"


class KeptTokenIds(TrainerCallback):
    """Keeps the ids of control tokens that the config and the search settings have.

    When training begins, transformers replaces them by those of the tokenizer, which are the
    source's; with separate vocabularies the config's are the target's.
    """

    def __init__(self, model: Any) -> None:
        self._kept = [
            (settings, name, copy.copy(getattr(settings, name)))
            for settings in (model.config, model.generation_config)
            for name in _ALIGNED_IDS
        ]

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        """Puts the ids back; nothing has read them in between."""
        for settings, name, value in self._kept:
            setattr(settings, name, value)
