"""From arguments to the printed plan of a run that is not begun.

print_plan         what `vaswani train --dry-run` answers
"""

from pathlib import Path
from typing import Any

from vaswani.configuration_vaswani import VaswaniConfig
from vaswani.data import corpus_of, is_on_hub
from vaswani.data_arguments import DataArguments
from vaswani.generation_vaswani import paper_generation_config
from vaswani.modeling_vaswani import VaswaniForConditionalGeneration
from vaswani.run_settings import ModelArguments, config_overrides
from vaswani.training_arguments import VaswaniTrainingArguments
from vaswani.training_cost import CorpusCounts
from vaswani.training_data import TokenizedPairs
from vaswani.training_plan import TrainingPlan
from vaswani.training_updates import update_sampler
from vaswani.training_vocabulary import table_settings


def print_plan(
    model_arguments: ModelArguments,
    data_arguments: DataArguments,
    args: VaswaniTrainingArguments,
    model: VaswaniForConditionalGeneration | None,
    tokenizer: Any,
    train: TokenizedPairs | None = None,
) -> Path:
    """Prints the plan of the run on stdout, on the first process, and returns its folder.

    Args:
        model: the model, if there is one already.
        tokenizer: likewise.
        train: the training pairs; without them the plan goes by their declared number, and
            neither a network nor a corpus is needed.

    Raises:
        FileNotFoundError: if validation or test data are missing.
    """
    words = (data_arguments.validation_data or []) + (data_arguments.test_data or [])
    corpora = [corpus_of(word) for word in words]
    for path in (p for data in corpora for p in ([data] if isinstance(data, str) else data)):
        if not is_on_hub(path) and not Path(path).exists():
            raise FileNotFoundError(f"{path}: No such file or directory.")
    config = model.config if model else _planned_config(model_arguments, tokenizer)
    search = model.generation_config if model else paper_generation_config(config)
    search.update(**model_arguments.search)
    if train is not None:
        corpus = CorpusCounts.counted_in(
            update_sampler(train, args), train.source_lengths, train.target_lengths
        )
    else:
        assert data_arguments.declared and args.tokens_per_update
        corpus = CorpusCounts.declared(data_arguments.declared, args.tokens_per_update)
    plan = TrainingPlan(
        config,
        model_arguments,
        data_arguments,
        args,
        search,
        corpus,
        vocabulary_is_trained=tokenizer is not None,
    )
    if args.process_index == 0:
        print(plan.text())
    return Path(args.output_dir or "")


def _planned_config(arguments: ModelArguments, tokenizer: Any) -> VaswaniConfig:
    """The configuration of a new model; a vocabulary to be trained has its announced size."""
    sizes = {} if tokenizer is None else table_settings(tokenizer)
    if tokenizer is None and arguments.vocabulary_size is not None:
        sizes["vocab_size"] = arguments.vocabulary_size
    if tokenizer is None and arguments.separate_vocabularies:
        preset_size = VaswaniConfig.from_preset(arguments.preset or "base").vocab_size
        sizes["encoder_vocab_size"] = sizes.get("vocab_size", preset_size)
        sizes["vocab_size"] = arguments.target_vocabulary_size or sizes["encoder_vocab_size"]
        sizes["share_encoder_decoder_embeddings"] = False
    preset = arguments.preset or "base"
    return VaswaniConfig.from_preset(preset, **{**sizes, **config_overrides(arguments)})
