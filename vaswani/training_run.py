"""From arguments to a finished model folder: what `vaswani train` does.

    ModelArguments, DataArguments    what to train, and on what
    run_training                     the run
    TrainingInterrupted              raised after a Ctrl-C, once the folder has been saved

Left to others: updates and evaluation (`training`), files in the folder (`run_folder`).
"""

import logging
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import transformers
from transformers import set_seed

from vaswani.configuration_vaswani import VaswaniConfig
from vaswani.data import is_on_hub, load_parallel
from vaswani.errors import InputError
from vaswani.model_folder import open_model, open_tokenizer
from vaswani.modeling_vaswani import VaswaniForConditionalGeneration
from vaswani.run_folder import (
    check_output,
    claim_output,
    save_model_folder,
    write_results,
    write_test_results,
)
from vaswani.run_settings import DataArguments, ModelArguments, config_overrides
from vaswani.tokenization_vaswani import VaswaniTokenizer
from vaswani.training import (
    VaswaniTrainer,
    VaswaniTrainingArguments,
    check_savable,
    check_tokenizer_fits,
)
from vaswani.training_data import TokenizedPairs, hold_out
from vaswani.training_dry_run import print_plan, update_sampler
from vaswani.training_plan import stopping_rule
from vaswani.training_progress import weights_update
from vaswani.vocabulary import train_tokenizer

__all__ = ["DataArguments", "ModelArguments", "TrainingInterrupted", "run_training"]

# Merges that occur often enough to be learnt; the paper's 37,000 fit millions of pairs.
_VOCABULARY_BY_PAIRS = ((50_000, 4000), (300_000, 8000), (1_000_000, 16_000))
_LARGEST_HOLD_OUT = 1000
_SAMPLE_TRANSLATIONS = 20


class TrainingInterrupted(KeyboardInterrupt):
    """A Ctrl-C ended the run early; `folder` holds a usable model."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self.folder = folder


@dataclass
class Corpus:
    """Texts of both sides for training, and for validation and test if there are any."""

    sources: list[str]
    targets: list[str]
    validation_sources: list[str] = field(default_factory=list)
    validation_targets: list[str] = field(default_factory=list)
    test: tuple[list[str], list[str]] | None = None


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
    output = check_output(args, model_arguments)
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("vaswani").setLevel(logging.INFO)
    model, tokenizer = _given_parts(model_arguments)
    args.fill_unset(_preset_like(model) if model else model_arguments.preset or "base")
    settled = model_arguments, data_arguments, args
    if args.dry_run and data_arguments.declared:
        return print_plan(*settled, model, tokenizer)
    corpus = _read_corpus(data_arguments, say, fetch=not args.dry_run)
    if tokenizer is None:
        tokenizer = _new_tokenizer(model_arguments, corpus, say)
    if model is None:
        model = _new_model(model_arguments, tokenizer, args.seed)
    model.generation_config.update(**model_arguments.search)
    check_tokenizer_fits(tokenizer, model.config)
    check_savable(model)
    train, validation = _encode(corpus, tokenizer, data_arguments, say)
    if args.dry_run:
        return print_plan(*settled, model, tokenizer, train)
    _report(model, tokenizer, train, args, say)

    if args.should_save:
        claim_output(output, model_arguments, data_arguments, args)
    trainer = VaswaniTrainer(
        model,
        args,
        train_dataset=train,
        eval_dataset=validation,
        processing_class=tokenizer,
        log_file=output / "log.jsonl",
    )
    trainer.clock.started = started
    trainer.train()
    interrupted = trainer.switch.requested
    facts = _facts(data_arguments, train, validation, trainer)
    with trainer.switch.listening():
        save_model_folder(trainer, output)
        write_results(output, args, facts, {}, [])
    updates, kept = trainer.state.global_step, weights_update(trainer.args, trainer.state)
    best = f", with the weights of update {kept:,}, the best" if kept != updates else ""
    say(f"Saved the model to {output} after {updates:,} updates{best}.")
    if interrupted:
        say("It was interrupted: the final evaluation is left out.")
        raise TrainingInterrupted(output)
    if validation is not None:
        scores, samples = _final_evaluation(trainer, validation, "validation", say)
        write_results(output, args, facts, scores, samples)
    if corpus.test is not None:
        _measure_test(trainer, corpus.test, output, say)
    say(f"Done in {(time.monotonic() - started) / 60:.1f} minutes.")
    return output


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
        # What the tables cannot hold shows without reading the corpus.
        config = VaswaniConfig.from_preset(
            arguments.preset or "base", **{"vocab_size": len(tokenizer), **overrides}
        )
        check_tokenizer_fits(tokenizer, config)
        return None, tokenizer
    model, tokenizer = open_model(arguments.model)
    if arguments.tokenizer is not None:
        tokenizer = open_tokenizer(arguments.tokenizer)
        check_tokenizer_fits(tokenizer, model.config)
    if overrides:
        model = VaswaniForConditionalGeneration.from_pretrained(arguments.model, **overrides)
    return model, tokenizer


def _preset_like(model: VaswaniForConditionalGeneration) -> str:
    """The preset whose size of update suits the model."""
    return "small" if model.config.d_model <= 256 else "base"


def _read_corpus(arguments: DataArguments, say: Any, *, fetch: bool) -> Corpus:
    # A missing validation file must not be found out after a long corpus has been read.
    validation, test = (
        None if not paths or (not fetch and is_on_hub(paths[0])) else _load(arguments, paths)
        for paths in (arguments.validation_data, arguments.test_data)
    )
    sources, targets = _load(arguments, arguments.data)
    corpus = Corpus(sources, targets, test=test)
    if validation is not None:
        corpus.validation_sources, corpus.validation_targets = validation
        say(f"{len(sources):,} pairs to train on, {len(validation[0]):,} to validate on.")
        return corpus
    count = 0 if arguments.validation_data else arguments.validation_split
    if count is None:
        count = min(_LARGEST_HOLD_OUT, len(sources) // 20)
    if count == 0:
        say(f"{len(sources):,} pairs to train on, none to validate on.")
        return corpus
    held = hold_out(sources, targets, count)
    corpus.sources = [sources[k] for k in held.training]
    corpus.targets = [targets[k] for k in held.training]
    corpus.validation_sources = [sources[k] for k in held.validation]
    corpus.validation_targets = [targets[k] for k in held.validation]
    say(
        f"{len(held.training):,} pairs to train on; {len(held.validation):,} pairs of the same "
        "data held out to validate on"
        + (f"; {held.dropped:,} equal to one of those left out." if held.dropped else ".")
    )
    return corpus


def _load(arguments: DataArguments, paths: list[str]) -> tuple[list[str], list[str]]:
    if len(paths) > 2:
        raise InputError(
            "`data` must be one file of pairs, or a source and a target file, "
            f"got {len(paths)} paths."
        )
    dataset = load_parallel(
        paths[0] if len(paths) == 1 else paths,
        source=arguments.source,
        target=arguments.target,
        source_column=arguments.source_column,
        target_column=arguments.target_column,
        encoding=arguments.encoding,
        bad_lines=arguments.bad_lines,  # type: ignore[arg-type]
    )
    rows = dataset["translation"]
    sources, targets = [], []
    for row in rows:
        sources.append(row[arguments.source])
        targets.append(row[arguments.target])
    return sources, targets


def _new_tokenizer(arguments: ModelArguments, corpus: Corpus, say: Any) -> VaswaniTokenizer:
    size = arguments.vocabulary_size
    if size is None:
        pairs = len(corpus.sources)
        size = next((size for most, size in _VOCABULARY_BY_PAIRS if pairs <= most), 37_000)
    say(f"Training a shared vocabulary of at most {size:,} entries.")
    return train_tokenizer([*corpus.sources, *corpus.targets], vocab_size=size)


def _new_model(
    arguments: ModelArguments, tokenizer: VaswaniTokenizer, seed: int
) -> VaswaniForConditionalGeneration:
    settings = {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "unk_token_id": tokenizer.unk_token_id,
        "decoder_start_token_id": tokenizer.bos_token_id,
        **config_overrides(arguments),
    }
    config = VaswaniConfig.from_preset(arguments.preset or "base", **settings)
    # Same seed, same initial weights.
    set_seed(seed)
    return VaswaniForConditionalGeneration(config)


def _encode(
    corpus: Corpus, tokenizer: Any, arguments: DataArguments, say: Any
) -> tuple[TokenizedPairs, TokenizedPairs | None]:
    train = TokenizedPairs.from_texts(
        corpus.sources, corpus.targets, tokenizer, max_tokens=arguments.max_tokens
    )
    if train.left_out:
        say(
            f"{train.left_out:,} training pairs left out: a side has more than "
            f"`max_tokens` = {arguments.max_tokens} tokens."
        )
    if not len(train):
        raise InputError(
            f"`max_tokens` must let some pairs through, got {arguments.max_tokens} for "
            f"{train.left_out} longer pairs."
        )
    if not corpus.validation_sources:
        return train, None
    validation = TokenizedPairs.from_texts(
        corpus.validation_sources, corpus.validation_targets, tokenizer, keep_texts=True
    )
    return train, validation


def _report(
    model: VaswaniForConditionalGeneration,
    tokenizer: Any,
    train: TokenizedPairs,
    args: VaswaniTrainingArguments,
    say: Any,
) -> None:
    config = model.config
    say(
        f"Model: {model.num_parameters():,} parameters, d_model {config.d_model}, "
        f"{config.encoder_layers}+{config.decoder_layers} layers, vocabulary {len(tokenizer):,}; "
        f"device {args.device}."
    )
    epoch = update_sampler(train, args).updates_per_epoch
    say(
        f"Updates of {args.tokens_per_update:,} source and as many target tokens; "
        f"{epoch:,} {'update is' if epoch == 1 else 'updates are'} one pass over "
        f"{int(train.source_lengths.sum()):,} source and "
        f"{int(train.target_lengths.sum()):,} target tokens."
    )
    say(f"Ends after {stopping_rule(args)}. Ctrl-C ends it earlier and saves.")


def _facts(
    arguments: DataArguments,
    train: TokenizedPairs,
    validation: TokenizedPairs | None,
    trainer: VaswaniTrainer,
) -> dict[str, dict[str, Any]]:
    """What the model card tells about data and settings."""
    args, config = trainer.args, trainer.model.config
    data = {
        "source": arguments.source,
        "target": arguments.target,
        "files": ", ".join(Path(path).name for path in arguments.data),
        "training pairs": len(train),
        "training tokens (source, target)": (
            f"{int(train.source_lengths.sum()):,}, {int(train.target_lengths.sum()):,}"
        ),
        "pairs left out as too long": train.left_out,
        "validation pairs": len(validation) if validation is not None else 0,
    }
    settings = {
        "parameters": f"{trainer.model.num_parameters():,}",
        "d_model": config.d_model,
        "layers (encoder, decoder)": f"{config.encoder_layers}, {config.decoder_layers}",
        "dropout": config.dropout,
        "label smoothing": config.label_smoothing,
        "tokens per update": args.tokens_per_update,
        "updates": trainer.state.global_step,
        "weights of update": weights_update(trainer.args, trainer.state),
        "passes over the data": round(trainer.state.epoch or 0, 2),
        "warm-up updates": args.warmup_steps,
        "learning-rate factor": args.learning_rate_factor,
        "seed": args.seed,
        "minutes": round(trainer.clock.minutes(), 1),
    }
    return {"data": data, "settings": settings}


def _measure_test(
    trainer: VaswaniTrainer, texts: tuple[list[str], list[str]], output: Path, say: Any
) -> None:
    """Measures the finished model on the test data and writes what came out."""
    test = TokenizedPairs.from_texts(*texts, trainer.processing_class, keep_texts=True)
    scores, samples = _final_evaluation(trainer, test, "test", say)
    say(f"Test: BLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f}.")
    write_test_results(output, trainer.args, scores, samples)


def _final_evaluation(
    trainer: VaswaniTrainer, validation: TokenizedPairs, name: str, say: Any
) -> tuple[dict[str, Any], list[tuple[str, str, str]]]:
    """Scores of beam search on every pair, and a few translations as they are."""
    beams = trainer.model.generation_config.num_beams or 1
    prefix = "eval" if name == "validation" else name
    say(f"Final evaluation: beam {beams} on {len(validation):,} {name} pairs.")
    metrics = trainer.evaluate(
        validation, metric_key_prefix=prefix, num_beams=beams, max_sentences=len(validation)
    )
    scores = {key.removeprefix(f"{prefix}_"): value for key, value in metrics.items()}
    scores |= {"num_beams": beams, "pairs": len(validation)}
    assert validation.sources is not None and validation.targets is not None
    some = validation.spread(_SAMPLE_TRANSLATIONS)
    found, references, _ = trainer.translate_pairs(validation, some, num_beams=beams)
    sources = [validation.sources[k] for k in some]
    return scores, list(zip(sources, found, references, strict=True))
