"""From arguments to a finished model folder: what `vaswani train` does.

    ModelArguments, DataArguments    what to train, and on what
    run_training                     the run
    TrainingInterrupted              raised after a Ctrl-C, once the folder has been saved

Left to others: texts and their ids (`training_corpus`), updates and evaluation (`training`),
files in the folder (`run_folder`).
"""

import logging
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import transformers
from transformers import set_seed

from vaswani.configuration_vaswani import VaswaniConfig
from vaswani.corpus_languages import language_doubt
from vaswani.corpus_readers import Pairs
from vaswani.data_arguments import DataArguments
from vaswani.errors import InputError
from vaswani.evaluation import check_spaced_language
from vaswani.inherited_settings import check_of_command
from vaswani.model_folder import open_model, open_tokenizer
from vaswani.modeling_vaswani import VaswaniForConditionalGeneration
from vaswani.run_folder import (
    Evaluation,
    check_output,
    claim_output,
    save_model_folder,
    write_results,
)
from vaswani.run_settings import ModelArguments, check_trainable, config_overrides
from vaswani.tokenization_vaswani import VaswaniTokenizer
from vaswani.training import VaswaniTrainer, VaswaniTrainingArguments, check_savable
from vaswani.training_checkpoints import missing_checkpoints, planned_updates
from vaswani.training_corpus import (
    Corpus,
    encode_corpus,
    encode_to_evaluate,
    evaluation_limit,
    read_corpus,
    vocabulary_pairs,
)
from vaswani.training_data import TokenizedPairs
from vaswani.training_dry_run import print_plan
from vaswani.training_facts import run_facts
from vaswani.training_plan import stopping_rule, update_content
from vaswani.training_rates import fill_unset, rate_plan
from vaswani.training_segmentation import ResegmentedPairs, check_merges
from vaswani.training_streaming import StreamedPairs
from vaswani.training_updates import updates_of_pass
from vaswani.training_vocabulary import (
    check_tokenizer_fits,
    new_tokenizer,
    table_settings,
    vocabulary_sizes,
)
from vaswani.wording import counted, lasting

__all__ = ["DataArguments", "ModelArguments", "TrainingInterrupted", "run_training"]

_SAMPLE_TRANSLATIONS = 20
_AFTER_INTERRUPTION = (
    "It was interrupted: the final evaluation is left out. `vaswani train --model {}` goes on from "
    "these weights, with a new schedule and a folder of its own."
)


class TrainingInterrupted(KeyboardInterrupt):
    """A Ctrl-C ended the run early; `folder` holds a usable model."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self.folder = folder


def run_training(
    model_arguments: ModelArguments,
    data_arguments: DataArguments,
    training_arguments: VaswaniTrainingArguments,
) -> Path:
    """Trains a model as the arguments say and returns its folder.

    Everything that can be refused is refused before the first update. The folder ends with
    weights, config, search settings, tokenizer, code, model card, `settings.yaml`, `scores.json`,
    `log.jsonl` and `translations.tsv`. With `dry_run` nothing is written: the plan is printed.

    Raises:
        InputError, FileNotFoundError: for what a user can put right.
        TrainingInterrupted: after a Ctrl-C; the folder has been saved.
    """
    started = time.monotonic()
    args = training_arguments
    say = _speaker(args)
    _check_settings(args, data_arguments, say)
    output = check_output(args, model_arguments)
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("vaswani").setLevel(logging.INFO)
    model, tokenizer = _given_parts(model_arguments)
    fill_unset(args, model, model_arguments.preset)
    settled = model_arguments, data_arguments, args
    if args.dry_run and data_arguments.declared:
        return print_plan(*settled, model, tokenizer)
    corpus = read_corpus(data_arguments, say, fetch=not args.dry_run)
    _check_stopping(args, corpus)
    if tokenizer is None:
        tokenizer = new_tokenizer(model_arguments, vocabulary_pairs(corpus, say), say)
    if model is None:
        model = _new_model(model_arguments, tokenizer, args.seed)
    model.generation_config.update(**model_arguments.search)
    check_tokenizer_fits(tokenizer, model.config)
    check_savable(model)
    train, validation = encode_corpus(corpus, tokenizer, data_arguments, args, model.config, say)
    if model_arguments.model:
        fill_unset(args, model, None, updates_of_pass(train, args))
    if args.dry_run:
        assert isinstance(train, TokenizedPairs)
        return print_plan(*settled, model, tokenizer, train)
    _report(model, tokenizer, train, validation, args, say)

    if args.should_save:
        claim_output(output, model_arguments, data_arguments, args, say)
    limit = model.config.position_limit
    rows = _rows(train, tokenizer, model_arguments, data_arguments, limit)
    datasets = {"train_dataset": rows, "eval_dataset": validation}
    log = output / "log.jsonl"
    trainer = VaswaniTrainer(model, args, processing_class=tokenizer, log_file=log, **datasets)
    trainer.clock.started = started
    trainer.train()
    interrupted = trainer.switch.requested
    facts = run_facts(model_arguments, data_arguments, train, validation, trainer)
    with trainer.switch.listening():
        save_model_folder(trainer, output)
        write_results(output, args, facts)
    updates = counted(trainer.state.global_step, "update")
    say(f"Saved the model to {output} after {updates}, with {trainer.ended_with()}.")
    if interrupted:
        say(_AFTER_INTERRUPTION.format(output))
        raise TrainingInterrupted(output)
    trainer.paper_bleu = data_arguments.target if args.paper_bleu else None
    write = partial(write_results, output, args, facts)
    _measure(trainer, validation, corpus.test, data_arguments.max_tokens, write, say)
    say(f"Done in {lasting(time.monotonic() - started)}.")
    return output


def _check_settings(args: VaswaniTrainingArguments, arguments: DataArguments, say: Any) -> None:
    """Refuses settings of the data and of the training that do not go together."""
    check_of_command(args)
    for name in ("source", "target"):
        doubt = language_doubt(name, getattr(arguments, name))
        if doubt:
            say(f"Warning: {doubt}")
    if args.paper_bleu:
        check_spaced_language(arguments.target)
    if not arguments.streaming:
        return
    if args.dry_run and not arguments.declared:
        raise InputError(
            "`dry_run` must be left out with `streaming`, got true: the pairs are not counted. "
            "Leave `streaming` out for the plan."
        )
    if "num_train_epochs" in args.chosen:
        raise InputError(
            f"`num_train_epochs` must be left out with `streaming`, got {args.num_train_epochs:g}: "
            "nobody knows the length of a pass. Set `max_steps` or `max_minutes`."
        )


def _check_stopping(args: VaswaniTrainingArguments, corpus: Corpus) -> None:
    if args.early_stopping_patience and corpus.validation is None:
        raise InputError(
            "`early_stopping_patience` must be left out without validation data, "
            f"got {args.early_stopping_patience}. Name some with `validation_data`."
        )


def _speaker(args: VaswaniTrainingArguments) -> Any:
    def say(line: str) -> None:
        if args.process_index == 0:
            print(line, file=sys.stderr, flush=True)

    return say


def _given_parts(
    arguments: ModelArguments,
) -> tuple[VaswaniForConditionalGeneration | None, Any]:
    """Model and tokenizer that the user named; both before anything slow happens."""
    overrides = config_overrides(arguments)
    if arguments.model is None:
        if arguments.tokenizer is None:
            return None, None
        tokenizer = open_tokenizer(arguments.tokenizer)
        if arguments.bpe_dropout:
            check_merges(tokenizer)
        # What the tables cannot hold shows without reading the corpus.
        config = VaswaniConfig.from_preset(
            arguments.preset or "base", **{**table_settings(tokenizer), **overrides}
        )
        check_tokenizer_fits(tokenizer, config)
        return None, tokenizer
    model, tokenizer = open_model(arguments.model)
    check_trainable(model.config.hard_attention)
    if arguments.tokenizer is not None:
        tokenizer = open_tokenizer(arguments.tokenizer)
        check_tokenizer_fits(tokenizer, model.config)
    if arguments.bpe_dropout:
        check_merges(tokenizer)
    if overrides:
        model = VaswaniForConditionalGeneration.from_pretrained(arguments.model, **overrides)
    return model, tokenizer


def _new_model(
    arguments: ModelArguments, tokenizer: VaswaniTokenizer, seed: int
) -> VaswaniForConditionalGeneration:
    settings = {**table_settings(tokenizer), **config_overrides(arguments)}
    config = VaswaniConfig.from_preset(arguments.preset or "base", **settings)
    # Same seed, same initial weights.
    set_seed(seed)
    return VaswaniForConditionalGeneration(config)


def _rows(
    train: TokenizedPairs | StreamedPairs,
    tokenizer: Any,
    model_arguments: ModelArguments,
    data_arguments: DataArguments,
    limit: int | None,
) -> TokenizedPairs | StreamedPairs:
    """The training pairs as they are read: as encoded, or with merges left out."""
    if not model_arguments.bpe_dropout:
        return train
    most = data_arguments.max_tokens if limit is None else min(limit, data_arguments.max_tokens)
    resegmented = partial(
        ResegmentedPairs, tokenizer=tokenizer, dropout=model_arguments.bpe_dropout, most_tokens=most
    )
    if isinstance(train, TokenizedPairs):
        return resegmented(train)
    train.as_read = resegmented
    return train


def _report(
    model: VaswaniForConditionalGeneration,
    tokenizer: Any,
    train: TokenizedPairs | StreamedPairs,
    validation: TokenizedPairs | None,
    args: VaswaniTrainingArguments,
    say: Any,
) -> None:
    config = model.config
    say(
        f"Model: {model.num_parameters():,} parameters, d_model {config.d_model}, "
        f"{config.encoder_layers}+{config.decoder_layers} layers, vocabulary "
        f"{vocabulary_sizes(tokenizer)}; "
        f"device {args.device}."
    )
    epoch, one_pass = updates_of_pass(train, args), "read and encoded on the way"
    if isinstance(train, TokenizedPairs):
        one_pass = (
            f"{epoch:,} {'update is' if epoch == 1 else 'updates are'} one pass over "
            f"{int(train.source_lengths.sum()):,} source and "
            f"{int(train.target_lengths.sum()):,} target tokens"
        )
    say(f"Updates of {update_content(args)}; {one_pass}.")
    say(rate_plan(args, config.d_model, planned_updates(args, epoch)))
    say(f"Ends after {stopping_rule(args)}. Ctrl-C ends it earlier and saves the model.")
    for line in (
        args.averaging_plan(validated=validation is not None),
        missing_checkpoints(args, epoch),
    ):
        if line:
            say(line)


def _measure(
    trainer: VaswaniTrainer,
    validation: TokenizedPairs | None,
    texts: Pairs | None,
    max_tokens: int,
    write: Any,
    say: Any,
) -> None:
    """Measures the finished model, and writes each result before the next is measured."""
    evaluation = None
    if validation is not None:
        evaluation = _final_evaluation(trainer, validation, say)
        write(evaluation)
    test = _measured_test(trainer, texts, max_tokens, say)
    if test is not None:
        write(evaluation, test)


def _measured_test(
    trainer: VaswaniTrainer, texts: Pairs | None, max_tokens: int, say: Any
) -> Evaluation | None:
    """Measures the finished model on the test data, if there is any."""
    if texts is None:
        return None
    limit = evaluation_limit(trainer.model.config, max_tokens)
    test = encode_to_evaluate(texts, trainer.processing_class, limit, "test", say)
    if test is None:
        return None
    measured = _final_evaluation(trainer, test, say, name="test")
    say(f"Test: BLEU {measured.scores['bleu']:.1f}, chrF {measured.scores['chrf']:.1f}.")
    return measured


def _final_evaluation(
    trainer: VaswaniTrainer, validation: TokenizedPairs, say: Any, name: str = "validation"
) -> Evaluation:
    """Scores of beam search on every pair, and a few translations as they are."""
    beams = trainer.model.generation_config.num_beams or 1
    prefix = "eval" if name == "validation" else name
    say(f"Final evaluation: beam {beams} on {counted(len(validation), f'{name} pair')}.")
    metrics = trainer.evaluate(
        validation, metric_key_prefix=prefix, num_beams=beams, max_sentences=len(validation)
    )
    scores = {key.removeprefix(f"{prefix}_"): value for key, value in metrics.items()}
    scores |= {"num_beams": beams, "pairs": len(validation)}
    if name == "validation":
        scores |= trainer.comparison()
    if "best_checkpoint_loss" in scores:
        say(
            f"Loss of the average: {scores['loss']:.4f} nats a token; of the best checkpoint, "
            f"update {scores['best_checkpoint_update']:,}: {scores['best_checkpoint_loss']:.4f}."
        )
    assert validation.sources is not None and validation.targets is not None
    some = validation.spread(_SAMPLE_TRANSLATIONS)
    found, references, _ = trainer.translate_pairs(validation, some, num_beams=beams)
    sources = [validation.sources[k] for k in some]
    return Evaluation(scores, list(zip(sources, found, references, strict=True)))
