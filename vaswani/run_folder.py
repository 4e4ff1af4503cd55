"""The folder of a training run: claimed before, a complete model folder after.

check_output         refuses a folder that holds anything
claim_output         makes it and writes `settings.yaml`
save_model_folder    puts a whole model at its top level, or nothing
write_results        scores, sample translations and the model card
"""

import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from transformers.trainer import TRAINING_ARGS_NAME

from vaswani.data_arguments import DataArguments
from vaswani.errors import InputError
from vaswani.model_card import write_model_card
from vaswani.output_folder import check_free
from vaswani.preset_settings import PAPER_SETTINGS
from vaswani.run_settings import ModelArguments
from vaswani.training import VaswaniTrainer
from vaswani.training_arguments import VaswaniTrainingArguments

SETTINGS = "settings.yaml"
LOG = "log.jsonl"
SCORES = "scores.json"
TRANSLATIONS = "translations.tsv"
TEST = "test_"


def check_output(args: VaswaniTrainingArguments, model_arguments: ModelArguments) -> Path:
    """The output folder, which must be new, empty, or an earlier run given up by `overwrite`.

    A dry run writes nothing and needs none.

    Raises:
        InputError: if it is something else.
    """
    if not args.output_dir or args.output_dir == "trainer_output":
        if args.dry_run:
            return Path()
        raise InputError("`output_dir` must be given: the folder that becomes the model.")
    output = Path(args.output_dir)
    if _never_saved(output):
        return output
    if not check_free(output, "output_dir", kind="run", mark=SETTINGS, overwrite=args.overwrite):
        return output
    for name in ("model", "tokenizer"):
        needed = getattr(model_arguments, name)
        if needed and Path(needed).resolve().is_relative_to(output.resolve()):
            raise InputError(
                f"`output_dir` must not hold the `{name}` to go on from, got {output}. "
                "Choose another."
            )
    return output


def _never_saved(output: Path) -> bool:
    """Whether a run claimed the folder and ended before it had saved anything."""
    if not (output / SETTINGS).is_file():
        return False
    names = {path.name for path in output.iterdir()}
    return names <= {SETTINGS, LOG}


def claim_output(
    output: Path,
    model_arguments: ModelArguments,
    data_arguments: DataArguments,
    args: VaswaniTrainingArguments,
    say: Callable[[str], object] = lambda line: None,
) -> None:
    """Makes the folder, without the run that `overwrite` gives up, and writes the settings.

    Args:
        say: told in a line where an earlier run saved nothing, and the folder is taken over.
    """
    if _never_saved(output):
        say(f"{output} holds the settings of a run that saved nothing: they are replaced.")
    if output.is_dir() and (output / SETTINGS).is_file():
        shutil.rmtree(output)
    output.mkdir(parents=True, exist_ok=True)
    settings = _chosen(data_arguments) | _chosen(model_arguments) | args.chosen
    settings |= {name: getattr(args, name) for name in PAPER_SETTINGS}
    settings["seed"] = args.seed
    settings.pop("overwrite", None)
    plain = {key: value for key, value in settings.items() if _is_plain(value)}
    text = "# The same run again: vaswani train --config settings.yaml --output-dir NEW\n"
    text += yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    _write(output / SETTINGS, text)


def _chosen(arguments: Any) -> dict[str, Any]:
    values = {field.name: getattr(arguments, field.name) for field in dataclasses.fields(arguments)}
    defaults = {field.name: field.default for field in dataclasses.fields(arguments)}
    return {name: value for name, value in values.items() if value != defaults[name]}


def _is_plain(value: Any) -> bool:
    return type(value) in (str, int, float, bool, list, dict)


def save_model_folder(trainer: VaswaniTrainer, output: Path) -> None:
    """Saves model, config, tokenizer and code at the top level of the folder.

    Written aside and moved into place, config.json last: without it the folder is no model.
    """
    with tempfile.TemporaryDirectory(dir=output, prefix=".saving-") as aside:
        trainer.save_model(aside)
        if not trainer.args.should_save:
            return
        # A pickle of settings; they are in settings.yaml, which opens anywhere.
        (Path(aside) / TRAINING_ARGS_NAME).unlink(missing_ok=True)
        files = sorted(Path(aside).iterdir(), key=lambda path: path.name == "config.json")
        for file in files:
            os.replace(file, output / file.name)


class Evaluation(NamedTuple):
    """What measuring the finished model gave.

    Args:
        scores: results by name.
        samples: source, translation and reference of some pairs.
    """

    scores: dict[str, Any]
    samples: list[tuple[str, str, str]]


def write_results(
    output: Path,
    args: VaswaniTrainingArguments,
    facts: Mapping[str, Any],
    evaluation: Evaluation | None = None,
    test: Evaluation | None = None,
) -> None:
    """Writes the model card, and scores and translations if there are any.

    Args:
        facts: arguments of `write_model_card`, but for the scores.
        evaluation: of the validation data, unless that was left out.
        test: of the test data, if there is any.
    """
    if not args.should_save:
        return
    shown: list[dict[str, Any]] = [{}, {}]
    for k, (prefix, measured) in enumerate((("", evaluation), (TEST, test))):
        if measured is not None:
            _write_scores(output, prefix, *measured)
            # Of no interest to those who use the model, or told twice.
            hidden = ("seconds", "pairs")
            shown[k] = {name: x for name, x in measured.scores.items() if name not in hidden}
    write_model_card(output, **facts, scores=shown[0], test_scores=shown[1])


def _write_scores(
    output: Path,
    prefix: str,
    scores: Mapping[str, Any],
    samples: Sequence[tuple[str, str, str]],
) -> None:
    if scores:
        text = json.dumps(scores, indent=2, ensure_ascii=False) + "\n"
        _write(output / f"{prefix}{SCORES}", text)
    if samples:
        rows = [("source", "translation", "reference"), *samples]
        lines = ["\t".join(" ".join(cell.split()) for cell in row) for row in rows]
        _write(output / f"{prefix}{TRANSLATIONS}", "\n".join(lines) + "\n")


def _write(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}.saving")
    aside.write_text(text, encoding="utf-8", newline="\n")
    os.replace(aside, path)
