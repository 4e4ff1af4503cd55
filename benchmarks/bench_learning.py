"""Learning per hour: `VaswaniTrainer` beside MarianMTModel with transformers' Seq2SeqTrainer.

    python benchmarks/bench_learning.py --data train.tsv.gz --validation-data dev.tsv.gz \\
        --output-dir runs/learning --contender vaswani --minutes 10
    python benchmarks/bench_learning.py --data train.tsv.gz --validation-data dev.tsv.gz \\
        --output-dir runs/learning --contender marian --minutes 40
    python benchmarks/bench_learning.py --output-dir runs/learning --report

Both learn from nothing: the same sizes, tokenizer, pairs, dropout, label smoothing, Adam, warm-up
and peak rate, in float32. What differs is what the two trainers do by themselves: ours makes
updates of `--tokens-per-update` tokens a side of sentences of like length, the peer takes 64
random sentences. One function measures both, with the clock stopped. OUTPUT_DIR/CONTENDER.jsonl
gets the settings in its first line, then a line for each measurement. Reading and encoding the
text is not counted; planning the batches is.

On a machine that others use too, wall time says little. `--updates N` ends a run by count instead,
and `--report --quiet-seconds OURS THEIRS` counts time as updates times the seconds that one takes
on a quiet machine. Each measurement tells them as `quiet_seconds_per_update`: the median of the
moments at which other programs had next to nothing of the processors, `null` if there were none.
`processor_seconds` is what the process itself had of them, all threads together.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import yaml
from learning_report import CONTENDERS, report
from measuring import machine
from stopwatch import CountingCollator, Stopwatch, append_line
from torch import Tensor
from torch.nn import functional
from transformers import (
    DataCollatorForSeq2Seq,
    MarianConfig,
    MarianMTModel,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration, VaswaniTokenizer
from vaswani.batching import TranslationCollator
from vaswani.data_arguments import DataArguments
from vaswani.presets_vaswani import PRESETS
from vaswani.recipe_files import recipe_file
from vaswani.run_settings import ModelArguments
from vaswani.training import VaswaniTrainer, VaswaniTrainingArguments
from vaswani.training_corpus import encode_corpus, read_corpus, vocabulary_pairs
from vaswani.training_data import TokenizedPairs
from vaswani.training_vocabulary import new_tokenizer, table_settings

IGNORED = -100
SMOOTHING = 0.1
EPSILON = 1e-9
# Sentences of the development set that go through a model at once.
SENTENCES = 32


def decoder_inputs(labels: Tensor, config: Any) -> Tensor:
    """The labels `(B, T)` one place to the right, after the start token."""
    shifted = labels.masked_fill(labels == IGNORED, config.pad_token_id).roll(1, dims=1)
    shifted[:, 0] = config.decoder_start_token_id
    return shifted


@torch.no_grad()
def development_loss(model: Any, pairs: TokenizedPairs) -> float:
    """Negative log-likelihood of all pairs in nats per target token, without smoothing."""
    collate = TranslationCollator(model.config.pad_token_id)
    lengths = zip(pairs.source_lengths.tolist(), pairs.target_lengths.tolist(), strict=True)
    order = [k for k, _ in sorted(enumerate(lengths), key=lambda entry: entry[1])]
    total, tokens = 0.0, 0
    training = model.training
    model.eval()
    for start in range(0, len(order), SENTENCES):
        batch = collate([pairs[k] for k in order[start : start + SENTENCES]])
        labels = batch.pop("labels")
        inputs = decoder_inputs(labels, model.config)
        logits = model(**batch, decoder_input_ids=inputs, use_cache=False).logits
        losses = functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum"
        )
        total += float(losses)
        tokens += int((labels != IGNORED).sum())
    model.train(training)
    return total / tokens


def read_pairs(
    arguments: argparse.Namespace,
) -> tuple[VaswaniTokenizer, TokenizedPairs, TokenizedPairs]:
    """The tokenizer, trained by whichever contender comes first, and the pairs of both sets."""
    data = DataArguments(
        data=arguments.data,
        validation_data=arguments.validation_data,
        source=arguments.source,
        target=arguments.target,
        max_tokens=arguments.max_tokens,
        cache_dir=str(arguments.output_dir / "cache"),
    )
    corpus = read_corpus(data, say, fetch=True)
    folder = arguments.output_dir / "tokenizer"
    if not folder.is_dir():
        wanted = ModelArguments(vocabulary_size=arguments.vocabulary_size)
        new_tokenizer(wanted, vocabulary_pairs(corpus, say), say).save_pretrained(folder)
    tokenizer = VaswaniTokenizer.from_pretrained(folder)
    settings = VaswaniTrainingArguments(output_dir=str(arguments.output_dir), device_name="cpu")
    train, development = encode_corpus(corpus, tokenizer, data, settings, None, say)
    return tokenizer, train, development


def say(line: str) -> None:
    """Tells what happens."""
    print(line, file=sys.stderr, flush=True)


def vaswani_config(arguments: argparse.Namespace, tokenizer: VaswaniTokenizer) -> VaswaniConfig:
    """The sizes of both contenders."""
    settings = {"dropout": arguments.dropout, "label_smoothing": SMOOTHING}
    return VaswaniConfig.from_preset(arguments.preset, **table_settings(tokenizer), **settings)


def vaswani_trainer(
    arguments: argparse.Namespace, tokenizer: VaswaniTokenizer, train: TokenizedPairs
) -> VaswaniTrainer:
    """What `vaswani train` makes of a recipe, without its evaluations and checkpoints."""
    config = vaswani_config(arguments, tokenizer)
    set_seed(arguments.seed)
    model = VaswaniForConditionalGeneration(config)
    settings = VaswaniTrainingArguments(
        output_dir=str(arguments.output_dir / "vaswani"),
        max_steps=arguments.updates or -1,
        # The stopwatch ends the run earlier.
        max_minutes=None if arguments.updates else 1_000_000,
        tokens_per_update=arguments.tokens_per_update,
        warmup_steps=arguments.warmup_steps,
        learning_rate_factor=arguments.learning_rate_factor,
        adam_epsilon=EPSILON,
        ema_decay=arguments.ema_decay,
        eval_strategy="no",
        save_strategy="no",
        logging_steps=500,
        device_name="cpu",
        seed=arguments.seed,
    )
    collator = CountingCollator(TranslationCollator(config.source_pad_token_id))
    return VaswaniTrainer(
        model, settings, train_dataset=train, processing_class=tokenizer, data_collator=collator
    )


def marian_config(ours: VaswaniConfig) -> MarianConfig:
    """The same sizes as ours, one table for both sides and the output."""
    same = (
        "vocab_size",
        "d_model",
        "dropout",
        "pad_token_id",
        "bos_token_id",
        "eos_token_id",
        "encoder_layers",
        "encoder_attention_heads",
        "encoder_ffn_dim",
        "decoder_layers",
        "decoder_attention_heads",
        "decoder_ffn_dim",
    )
    return MarianConfig(
        **{name: getattr(ours, name) for name in same},
        # As Marian's own models have it.
        decoder_start_token_id=ours.pad_token_id,
        activation_function="relu",
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        max_position_embeddings=ours.max_position_embeddings,
    )


def marian_trainer(
    arguments: argparse.Namespace, tokenizer: VaswaniTokenizer, train: TokenizedPairs
) -> Seq2SeqTrainer:
    """MarianMTModel and the trainer of transformers, as their documentation puts them together."""
    config = marian_config(vaswani_config(arguments, tokenizer))
    set_seed(arguments.seed)
    model = MarianMTModel(config)
    peak = arguments.learning_rate_factor * (config.d_model * arguments.warmup_steps) ** -0.5
    settings = Seq2SeqTrainingArguments(
        output_dir=str(arguments.output_dir / "marian"),
        # The stopwatch ends a timed run.
        max_steps=arguments.updates or 1_000_000,
        per_device_train_batch_size=arguments.sentences,
        label_smoothing_factor=SMOOTHING,
        optim="adamw_torch_fused",
        learning_rate=peak,
        lr_scheduler_type="inverse_sqrt",
        warmup_steps=arguments.warmup_steps,
        adam_beta2=0.98,
        adam_epsilon=EPSILON,
        max_grad_norm=0.0,
        eval_strategy="no",
        save_strategy="no",
        logging_steps=500,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
        seed=arguments.seed,
    )
    collator = CountingCollator(DataCollatorForSeq2Seq(tokenizer, model=model))
    return Seq2SeqTrainer(
        model, settings, train_dataset=train, processing_class=tokenizer, data_collator=collator
    )


TRAINERS = {"vaswani": vaswani_trainer, "marian": marian_trainer}


def train_contender(arguments: argparse.Namespace) -> Path:
    """Trains one of the two; returns the file of its measurements."""
    torch.set_num_threads(arguments.threads)
    arguments.output_dir.mkdir(parents=True, exist_ok=True)
    tokenizer, train, development = read_pairs(arguments)
    trainer = TRAINERS[arguments.contender](arguments, tokenizer, train)
    file = arguments.output_dir / f"{arguments.contender}.jsonl"
    file.unlink(missing_ok=True)
    settings = {k: v for k, v in vars(arguments).items() if isinstance(v, int | float | str)}
    append_line(
        file,
        settings
        | {
            "ended_by": "updates" if arguments.updates else "minutes",
            "parameters": trainer.model.num_parameters(only_trainable=True),
            "development_pairs": len(development),
            "machine": machine(),
        },
    )
    average = getattr(trainer, "moving_average", None)

    def measure() -> float:
        with average.in_place(trainer.model) if average else nullcontext():
            return development_loss(trainer.model, development)

    watch = Stopwatch(
        measure,
        trainer.data_collator,
        file,
        minutes=arguments.minutes,
        updates=arguments.updates,
        measurements=arguments.measurements,
    )
    trainer.add_callback(watch)
    watch.start()
    trainer.train()
    return file


def parsed(words: Sequence[str] | None) -> argparse.Namespace:
    """The settings; what is not given is that of the recipe for small models."""
    recipe = yaml.safe_load(recipe_file("small").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output-dir", type=Path, required=True)
    parser.add_argument("--report", action="store_true", help="compare what was measured")
    parser.add_argument("--quiet-seconds", type=float, nargs=2, metavar=("OURS", "THEIRS"))
    parser.add_argument("--contender", choices=CONTENDERS)
    parser.add_argument("--data", nargs="+")
    parser.add_argument("--validation-data", nargs="+")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--updates", type=int, help="end after so many, whatever the time")
    parser.add_argument("--measurements", type=int, default=10)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--preset", choices=PRESETS)
    parser.add_argument("--vocabulary-size", type=int)
    parser.add_argument("--max-tokens", type=int)
    parser.add_argument("--dropout", type=float)
    parser.add_argument("--warmup-steps", type=int)
    parser.add_argument("--learning-rate-factor", type=float)
    parser.add_argument("--source")
    parser.add_argument("--target")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--tokens-per-update", type=int, help="of ours, a side")
    parser.add_argument("--ema-decay", type=float, help="of ours")
    parser.add_argument("--sentences", type=int, default=64, help="in an update of the peer")
    known = {action.dest for action in parser._actions}
    parser.set_defaults(**{name: value for name, value in recipe.items() if name in known})
    arguments = parser.parse_args(words)
    if not arguments.report and None in (
        arguments.contender,
        arguments.data,
        arguments.validation_data,
    ):
        parser.error("`--contender`, `--data` and `--validation-data` must be given to train.")
    return arguments


def main(words: Sequence[str] | None = None) -> None:
    arguments = parsed(words)
    if arguments.report:
        print(report(arguments.output_dir, arguments.quiet_seconds))
    else:
        print(train_contender(arguments))


if __name__ == "__main__":
    main()
