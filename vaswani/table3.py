"""Table 3 of the paper in miniature: every row trained at a fraction of its size.

    Table3Arguments    which rows, how small, on what
    miniature          the configuration of a row, scaled down
    measure_table3     trains what is not measured yet and writes the table

All widths of a row are divided by one number and its layers by another, so that rows differ from
one another by the factors of the paper. Vocabulary, corpus and the number of updates are those of
a small task; absolute numbers are therefore not the paper's, only their order can be compared.
"""

import dataclasses
import difflib
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import set_seed

from vaswani.configuration_vaswani import VaswaniConfig
from vaswani.corpus_splits import fold_hashes, hold_out
from vaswani.data import read_texts
from vaswani.demo_corpus import generate
from vaswani.errors import InputError
from vaswani.modeling_vaswani import VaswaniForConditionalGeneration
from vaswani.output_folder import check_can_write
from vaswani.paper_results import TABLE_3
from vaswani.parameter_counts import count_parameters
from vaswani.preset_settings import PRESET_SETTINGS
from vaswani.training import VaswaniTrainer
from vaswani.training_arguments import VaswaniTrainingArguments
from vaswani.training_data import TokenizedPairs
from vaswani.vocabulary import train_tokenizer

_RESULTS = "results.jsonl"
_CORPUS_SEED = 1
_LONGEST = 128
_LOG_LINES = 4
_LEAST = {
    "seeds": 1,
    "pairs": 1,
    "validation_pairs": 1,
    "updates": 1,
    "tokens_per_update": 1,
    "warmup_steps": 0,
    "threads": 1,
}
# What does not change a measurement.
_FREE = ("output_dir", "rows", "seeds", "threads")


@dataclass
class Table3Arguments:
    """What to measure; the defaults take one seed of every row, in minutes on two cores.

    Raises:
        InputError: for an unknown row or a number out of range.
    """

    output_dir: str = field(
        default="runs/table3", metadata={"help": "folder of the table and its measurements"}
    )
    rows: list[str] | None = field(
        default=None, metadata={"help": "presets of Table 3 to measure (default: all)"}
    )
    seeds: int = field(default=1, metadata={"help": "models per row, with seeds 1, 2, ..."})
    data: list[str] | None = field(
        default=None, metadata={"help": "pairs to train on (default: the demo's grammar)"}
    )
    validation_data: list[str] | None = field(
        default=None, metadata={"help": "pairs to measure on (default: held out of the data)"}
    )
    source: str = field(default="en", metadata={"help": "language code of the source"})
    target: str = field(default="de", metadata={"help": "language code of the target"})
    pairs: int = field(default=20_000, metadata={"help": "generated pairs, without --data"})
    validation_pairs: int = field(default=300, metadata={"help": "pairs to measure on"})
    updates: int = field(
        default=1500, metadata={"help": "updates of a row; the big one takes three times as many"}
    )
    tokens_per_update: int = field(default=1024, metadata={"help": "tokens a side of an update"})
    warmup_steps: int = field(default=400, metadata={"help": "updates of rising learning rate"})
    learning_rate_factor: float = field(
        default=0.3, metadata={"help": "multiplies the paper's learning rate"}
    )
    vocabulary_size: int = field(default=2000, metadata={"help": "entries of the vocabulary"})
    width_divisor: int = field(
        default=8, metadata={"help": "d_model, d_ff, d_k and d_v are divided by it: 1 to 16"}
    )
    depth_divisor: int = field(default=2, metadata={"help": "layers are divided by it: 1 or 2"})
    threads: int | None = field(default=None, metadata={"help": "CPU threads"})

    def __post_init__(self) -> None:
        for name in self.rows or []:
            if name not in TABLE_3:
                nearest = difflib.get_close_matches(name, TABLE_3, n=1)
                remedy = f" Did you mean {nearest[0]}?" if nearest else ""
                raise InputError(f"`rows` must be of {', '.join(TABLE_3)}, got {name!r}.{remedy}")
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"`{name}` must be at least {least}, got {value}.")
        if not 0 < self.learning_rate_factor < math.inf:
            raise InputError(
                "`learning_rate_factor` must be above 0 and finite, "
                f"got {self.learning_rate_factor}."
            )
        # Every size of the table stays whole: d_k goes down to 16, N to 2.
        for name, allowed in (("width_divisor", (1, 2, 4, 8, 16)), ("depth_divisor", (1, 2))):
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"`{name}` must be one of {', '.join(map(str, allowed))}, "
                    f"got {getattr(self, name)}."
                )


def miniature(preset: str, *, width: int, depth: int, vocab_size: int) -> VaswaniConfig:
    """The configuration of a row with widths divided by `width` and layers by `depth`."""
    full = VaswaniConfig.from_preset(preset)
    sizes = {}
    for name in ("d_model", "encoder_ffn_dim", "decoder_ffn_dim", "d_k", "d_v"):
        value = getattr(full, name)
        sizes[name] = None if value is None else value // width
    for name in ("encoder_layers", "decoder_layers"):
        sizes[name] = getattr(full, name) // depth
    return VaswaniConfig.from_preset(preset, vocab_size=vocab_size, **sizes)


@dataclass(frozen=True)
class _Material:
    """What all rows learn from and are measured on."""

    tokenizer: Any
    train: TokenizedPairs
    validation: TokenizedPairs


def measure_table3(arguments: Table3Arguments) -> list[Path]:
    """Trains and measures the rows that are not measured yet; returns the files of the table.

    The table is written anew after every model, so that an interrupted call loses only the model
    that it was training; the same call goes on from there. As in section 6.2, translations come
    from beam search, and no checkpoints are averaged.

    Raises:
        InputError: if the folder holds measurements of other settings.
        KeyboardInterrupt: after a Ctrl-C.
    """
    output = Path(arguments.output_dir)
    done = _read_results(output, arguments)
    names = [name for name in TABLE_3 if name in (arguments.rows or TABLE_3)]
    tasks = [(name, seed) for seed in range(1, arguments.seeds + 1) for name in names]
    left = [task for task in tasks if task not in done]
    if left:
        _say(f"{len(tasks) - len(left)} of {len(tasks)} models are measured already.")
        check_can_write(output, "output_dir")
        material = _material(arguments)
        output.mkdir(parents=True, exist_ok=True)
    spent, trained = 0.0, 0
    for number, (name, seed) in enumerate(left, 1):
        remaining = sum(_updates(other, arguments) for other, _ in left[number - 1 :])
        ahead = f", about {spent / trained * remaining / 60:.0f} min left" if trained else ""
        _say(f"[{number}/{len(left)}] {name}, seed {seed}{ahead}")
        result = _measured(name, seed, material, arguments)
        done[name, seed] = result
        spent += result["seconds"]
        trained += _updates(name, arguments)
        _write_all(output, arguments, done)
    return _write_all(output, arguments, done)


def _material(arguments: Table3Arguments) -> _Material:
    count = arguments.validation_pairs
    codes = {"source": arguments.source, "target": arguments.target}
    if arguments.data:
        sources, targets = read_texts(arguments.data, **codes)
        if arguments.validation_data:
            held = read_texts(arguments.validation_data, **codes)
            validation = held[0][:count], held[1][:count]
        else:
            parts = hold_out(fold_hashes(sources), fold_hashes(targets), count)
            validation = (
                [sources[k] for k in parts.validation],
                [targets[k] for k in parts.validation],
            )
            sources = [sources[k] for k in parts.training]
            targets = [targets[k] for k in parts.training]
    else:
        training = list(generate(arguments.pairs, seed=_CORPUS_SEED, split="train"))
        sources, targets = [p.source for p in training], [p.target for p in training]
        held_pairs = list(generate(count, seed=_CORPUS_SEED, split="validation"))
        validation = [p.source for p in held_pairs], [p.target for p in held_pairs]
    tokenizer = train_tokenizer([*sources, *targets], vocab_size=arguments.vocabulary_size)
    return _Material(
        tokenizer,
        TokenizedPairs.from_texts(sources, targets, tokenizer, max_tokens=_LONGEST),
        TokenizedPairs.from_texts(*validation, tokenizer, keep_texts=True),
    )


def _updates(name: str, arguments: Table3Arguments) -> int:
    """Updates of a row: the big model takes three times as many, as in the paper."""
    ratio = PRESET_SETTINGS[name].max_steps / PRESET_SETTINGS["base"].max_steps
    return round(ratio * arguments.updates)


def _measured(
    name: str, seed: int, material: _Material, arguments: Table3Arguments
) -> dict[str, Any]:
    """Trains one model and measures it; nothing of it is kept but the numbers."""
    with tempfile.TemporaryDirectory(dir=arguments.output_dir, prefix=".training-") as folder:
        return _trained(name, seed, material, arguments, folder)


def _trained(
    name: str, seed: int, material: _Material, arguments: Table3Arguments, folder: str
) -> dict[str, Any]:
    started = time.monotonic()
    config = miniature(
        name,
        width=arguments.width_divisor,
        depth=arguments.depth_divisor,
        vocab_size=len(material.tokenizer),
    )
    set_seed(seed)
    model = VaswaniForConditionalGeneration(config)
    updates = _updates(name, arguments)
    args = VaswaniTrainingArguments(
        # An interrupted run saves a checkpoint, whatever it was asked for.
        output_dir=folder,
        max_steps=updates,
        tokens_per_update=arguments.tokens_per_update,
        warmup_steps=arguments.warmup_steps,
        learning_rate_factor=arguments.learning_rate_factor,
        eval_strategy="no",
        save_strategy="no",
        logging_steps=max(1, updates // _LOG_LINES),
        seed=seed,
        threads=arguments.threads,
    )
    trainer = VaswaniTrainer(
        model,
        args,
        train_dataset=material.train,
        eval_dataset=material.validation,
        processing_class=material.tokenizer,
    )
    trainer.train()
    if trainer.switch.requested:
        raise KeyboardInterrupt
    metrics = trainer.evaluate(
        num_beams=model.generation_config.num_beams, max_sentences=len(material.validation)
    )
    return {
        "preset": name,
        "seed": seed,
        "parameters": count_parameters(config).total,
        "updates": updates,
        "perplexity": metrics["eval_perplexity"],
        "bleu": metrics["eval_bleu"],
        "seconds": time.monotonic() - started,
    }


def _settings(arguments: Table3Arguments) -> dict[str, Any]:
    """What must be the same in all rows of a table."""
    values = dataclasses.asdict(arguments)
    return {name: value for name, value in values.items() if name not in _FREE}


def _read_results(
    output: Path, arguments: Table3Arguments
) -> dict[tuple[str, int], dict[str, Any]]:
    path = output / _RESULTS
    if output.exists() and not output.is_dir():
        raise InputError(f"`output_dir` must be a folder, got the file {output}.")
    done: dict[tuple[str, int], dict[str, Any]] = {}
    if not path.is_file():
        return done
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            result = json.loads(line)
        except ValueError as error:
            raise InputError(
                f"`output_dir` must hold whole measurements, got {path}, a line of which is no "
                f"JSON ({error}). Delete that line; its row is measured again."
            ) from error
        own = _settings(arguments)
        for name, value in result.pop("settings").items():
            if own[name] != value:
                raise InputError(
                    f"`{name}` must be that of the rows measured already in {output}, {value}, "
                    f"got {own[name]}. Choose another `output_dir`."
                )
        done[result["preset"], result["seed"]] = result
    return done


def _write_all(
    output: Path, arguments: Table3Arguments, done: dict[tuple[str, int], dict[str, Any]]
) -> list[Path]:
    """Writes measurements and tables, whole or not at all, and returns the tables."""
    settings = {"settings": _settings(arguments)}
    lines = [json.dumps(result | settings) + "\n" for result in done.values()]
    _write(output / _RESULTS, "".join(lines))
    rows = []
    for name in TABLE_3:
        results = [result for (preset, _), result in done.items() if preset == name]
        if results:
            rows.append((name, results))
    files = {output / "table3.md": _markdown(rows, arguments), output / "table3.tsv": _tsv(rows)}
    for path, text in files.items():
        _write(path, text)
    return list(files)


def _write(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}.saving")
    aside.write_text(text, encoding="utf-8", newline="\n")
    os.replace(aside, path)


_Rows = Sequence[tuple[str, list[dict[str, Any]]]]


def _markdown(rows: _Rows, arguments: Table3Arguments) -> str:
    data = " and ".join(arguments.data) if arguments.data else "the demo's grammar"
    text = (
        "# Table 3 in miniature\n\n"
        f"Widths divided by {arguments.width_divisor}, layers by {arguments.depth_divisor}; "
        f"{arguments.updates:,} updates (big: three times as many) of "
        f"{arguments.tokens_per_update:,} tokens a side on {data}. Perplexity and BLEU (sacreBLEU) "
        "are of held-out pairs of that corpus, the paper's of newstest2013: compare the order of "
        "the rows, not the numbers. ± is the standard deviation over seeds.\n\n"
        "| | preset | change | parameters | seeds | perplexity | BLEU | paper's | paper's |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
    )
    for name, results in rows:
        paper = TABLE_3[name]
        cells = [
            paper.group,
            f"`{name}`",
            paper.change,
            f"{results[0]['parameters']:,}",
            str(len(results)),
            _spread([result["perplexity"] for result in results], 2),
            _spread([result["bleu"] for result in results], 1),
            f"{paper.perplexity:.2f}",
            f"{paper.bleu:.1f}",
        ]
        text += f"| {' | '.join(cells)} |\n"
    return text


def _spread(values: list[float], digits: int) -> str:
    mean = f"{statistics.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


def _tsv(rows: _Rows) -> str:
    titles = "group preset parameters updates seeds perplexity perplexity_sd bleu bleu_sd seconds "
    titles += "paper_perplexity paper_bleu"
    lines = ["\t".join(titles.split())]
    for name, results in rows:
        paper = TABLE_3[name]
        cells: list[Any] = [paper.group, name, results[0]["parameters"], results[0]["updates"]]
        cells.append(len(results))
        for key in ("perplexity", "bleu"):
            values = [result[key] for result in results]
            deviation = f"{statistics.stdev(values):.4f}" if len(values) > 1 else ""
            cells += [f"{statistics.mean(values):.4f}", deviation]
        cells.append(f"{statistics.mean(result['seconds'] for result in results):.0f}")
        lines.append("\t".join(map(str, [*cells, paper.perplexity, paper.bleu])))
    return "\n".join(lines) + "\n"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
