"""What a saved folder needs before others can load it: completeness and a model card.

`check_self_contained` looks at a folder as the Hub would serve it; `write_model_card` writes its
README.md from `model_card.md`. Saving the weights, the settings and the code is the work of
`save_pretrained`, not of this module.
"""

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from safetensors import SafetensorError, safe_open
from transformers.dynamic_module_utils import get_relative_imports

from vaswani.errors import InputError

CONFIG_CLASSES = ("AutoConfig", "AutoModel", "AutoModelForSeq2SeqLM")
BLOCK_START = re.compile(r"([-+#]+|\d+[.)])( |$)|-{3}")
WEIGHTS = "model.safetensors"
# What the Hub takes as a language in a card's metadata.
LANGUAGE_CODE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
# The percentages that `evaluation.corpus_scores` gives, with the names that people know.
METRICS = {"bleu": "BLEU", "chrf": "chrF"}
# Other scores by name, where the card shows a longer one.
SCORE_LABELS = METRICS | {
    "bleu_signature": "BLEU signature",
    "chrf_signature": "chrF signature",
    "paper_bleu": "BLEU as the paper reports it (tokenized, compounds split)",
    "paper_bleu_signature": "signature of the paper's BLEU",
    "loss": "loss, in nats a token",
    "length_ratio": "length of translations / references",
    "truncated": "translations cut off",
    "num_beams": "beam size",
    "averaged_checkpoints": "checkpoints averaged",
    "best_checkpoint_update": "best single checkpoint, in updates",
    "best_checkpoint_loss": "loss of the best single checkpoint, in nats a token",
}


def check_self_contained(folder: str | Path) -> None:
    """Raises unless the folder can be loaded where this package is not installed.

    Checks that weights, settings, tokenizer and code are there and whole; loads nothing and runs
    none of the code.

    Source: what transformers 5.24 reads in `from_pretrained(folder, trust_remote_code=True)`.

    Args:
        folder: a model folder written by `save_pretrained`, tokenizer included.

    Raises:
        FileNotFoundError: if the folder does not exist.
        InputError: if something is missing; the message names all that is.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"`folder` must be an existing model folder, got {folder}.")
    problems: list[str] = []
    config = _read_json(folder / "config.json", problems)
    tokenizer = _read_json(folder / "tokenizer_config.json", problems)
    _read_json(folder / "generation_config.json", problems)
    _read_json(folder / "tokenizer.json", problems)
    for value in tokenizer.values():
        if isinstance(value, str) and value.endswith(".json") and not (folder / value).is_file():
            problems.append(f"{value} is missing, which tokenizer_config.json names")
    problems += _weight_problems(folder)
    entries = []
    if config:
        entries += _config_entries(config, problems)
    if tokenizer:
        entries += _entries(tokenizer, "tokenizer_config.json", ["AutoTokenizer"], problems)
    problems += _code_problems(folder, entries)
    if problems:
        raise InputError(
            f"`folder` must hold all that loading needs, got {folder}: {'; '.join(problems)}. "
            "Save model and tokenizer again with `save_pretrained`."
        )


def _read_json(path: Path, problems: list[str]) -> dict[str, Any]:
    """The object in the file, or an empty one and a problem noted."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        problems.append(f"{path.name} is missing")
        return {}
    except (OSError, ValueError) as error:
        problems.append(f"{path.name} cannot be read ({error})")
        return {}
    if not isinstance(content, dict):
        problems.append(f"{path.name} holds no JSON object")
        return {}
    return content


def _weight_problems(folder: Path) -> Iterator[str]:
    """Missing or cut-off weight files; a sharded model is read through its index."""
    index_path = folder / f"{WEIGHTS}.index.json"
    names = [WEIGHTS]
    if index_path.is_file():
        unread: list[str] = []
        weight_map = _read_json(index_path, unread).get("weight_map", {})
        names = sorted(set(weight_map.values())) if isinstance(weight_map, dict) else []
        if unread or not names:
            yield f"{index_path.name} names no file"
    for name in names:
        if not (folder / name).is_file():
            yield f"{name} is missing"
            continue
        try:
            with safe_open(folder / name, framework="pt"):
                pass
        except (OSError, SafetensorError) as error:
            yield f"{name} cannot be read ({error})"


def _config_entries(config: Mapping[str, Any], problems: list[str]) -> list[tuple[str, str]]:
    """The classes that config.json names: those of the models and those of its own pipelines."""
    entries = _entries(config, "config.json", CONFIG_CLASSES, problems)
    pipelines = config.get("custom_pipelines")
    for task, pipeline in pipelines.items() if isinstance(pipelines, dict) else ():
        entries.append((f"pipeline {task} in config.json", str(pipeline.get("impl"))))
    return entries


def _entries(
    settings: Mapping[str, Any], file: str, names: Sequence[str], problems: list[str]
) -> list[tuple[str, str]]:
    """The classes that `auto_map` gives for `names`, as (where it is named, `module.Class`)."""
    auto_map = settings.get("auto_map")
    entries = []
    for name in names:
        references = auto_map.get(name) if isinstance(auto_map, dict) else None
        # A tokenizer has a list of two, of which one is null.
        found = [references] if isinstance(references, str) else references or []
        found = [reference for reference in found if reference]
        if not found:
            problems.append(f"`auto_map` of {file} has no {name}")
        entries += [(f"{name} in {file}", reference) for reference in found]
    return entries


def _code_problems(folder: Path, entries: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Code files or classes that are missing, or that need this package installed."""
    modules: dict[str, ast.Module | None] = {}
    for place, reference in entries:
        if "--" in reference:
            yield f"{place} names code of another repository ({reference})"
            continue
        module, _, class_name = reference.rpartition(".")
        yield from _module_problems(folder, module, place, modules)
        tree = modules.get(module)
        names = (
            {node.name for node in tree.body if isinstance(node, ast.ClassDef)} if tree else set()
        )
        if tree and class_name not in names:
            yield f"{module}.py has no class {class_name}, which {place} names"


def _module_problems(
    folder: Path, module: str, place: str, modules: dict[str, ast.Module | None]
) -> Iterator[str]:
    """Problems of one code file and of all it imports from beside it; `modules` fills up."""
    if module in modules:
        return
    modules[module] = None
    path = folder / f"{module}.py"
    if not path.is_file():
        yield f"{path.name} is missing, which {place} needs"
        return
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError) as error:
        yield f"{path.name} cannot be read ({error})"
        return
    modules[module] = tree
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            continue
        if "vaswani" in (name.split(".")[0] for name in names):
            yield f"{path.name} imports the package `vaswani` in line {node.lineno}"
    # By the library's own scan of the text, since that decides which files it copies.
    for sibling in sorted(get_relative_imports(path)):
        yield from _module_problems(folder, sibling, path.name, modules)


def write_model_card(
    folder: str | Path,
    *,
    data: Mapping[str, object],
    settings: Mapping[str, object],
    scores: Mapping[str, object],
    source: str | None = None,
    target: str | None = None,
    name: str | None = None,
    license: str | None = None,
    datasets: Sequence[str] = (),
    limitations: Sequence[str] = (),
) -> Path:
    """Writes README.md into the folder and returns its path.

    Args:
        folder: a model folder; its config.json says whether it carries its own pipeline.
        data: what the model was trained on, shown as a table in this order; for example the
            files, the number of pairs, the license of the text.
        settings: how it was trained, shown as a table in this order.
        scores: `bleu` and `chrf` in percent go into the metadata too, each with its signature if
            `bleu_signature`, `chrf_signature` are there. Any other entry is shown only.
        source: language code of the source, for example `en`; `data["source"]` by default.
        target: language code of the target; `data["target"]` by default.
        name: title of the card; the folder's name by default.
        license: identifier of the license of the weights, for example `cc-by-4.0`. Left out by
            default: nobody but their owner can choose one.
        datasets: names of data sets on the Hub that the model was trained on.
        limitations: sentences to add to the general ones.

    Raises:
        FileNotFoundError: if the folder does not exist.
        ImportError: if jinja2 is not installed.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"`folder` must be an existing model folder, got {folder}.")
    languages = [source or data.get("source"), target or data.get("target")]
    text = _render(
        folder,
        # YAML reads this line break, which no title needs, as a space.
        title=(name or folder.resolve().name).replace("\x85", " "),
        languages=[str(language) for language in languages if language],
        data=data,
        settings=settings,
        scores=scores,
        license=license,
        datasets=datasets,
        limitations=limitations,
    )
    path = folder / "README.md"
    # A file name from the system may hold bytes that are no text.
    path.write_text(text, encoding="utf-8", errors="backslashreplace")
    return path


def _metadata(folder: Path, values: Mapping[str, Any]) -> ModelCardData:
    """The card's head, which the Hub reads."""
    config = _read_json(folder / "config.json", [])
    codes = [code for code in values["languages"] if LANGUAGE_CODE.fullmatch(code)]
    # A folder with this tag and no pipeline of its own cannot be loaded by `pipeline()`.
    has_pipeline = "translation" in config.get("custom_pipelines", {})
    return ModelCardData(
        language=codes or None,
        license=values["license"],
        library_name="transformers",
        pipeline_tag="translation" if has_pipeline else None,
        tags=["translation", "vaswani", "custom_code"],
        datasets=list(values["datasets"]) or None,
        model_name=values["title"],
        eval_results=_eval_results(values["data"], values["scores"], values["languages"]) or None,
    )


def _eval_results(
    data: Mapping[str, object], scores: Mapping[str, object], languages: Sequence[str]
) -> list[EvalResult]:
    """The card's machine-readable scores."""
    corpus = str(data.get("evaluated_on") or data.get("name") or "held-out pairs")
    results = []
    for key, label in METRICS.items():
        value = scores.get(key)
        if not isinstance(value, int | float):
            continue
        signature = scores.get(f"{key}_signature")
        results.append(
            EvalResult(
                task_type="translation",
                task_name=f"Translation {' to '.join(languages)}".rstrip(),
                dataset_type=re.sub(r"[^A-Za-z0-9_.-]+", "-", corpus).strip("-") or "held-out",
                dataset_name=corpus,
                metric_type=key,
                metric_name=label,
                metric_value=float(value),
                metric_args={"signature": str(signature)} if signature else None,
            )
        )
    return results


def _render(folder: Path, **values: Any) -> str:
    """The text of the card; every value in its body passes a filter of the template."""
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(
            "`jinja2` must be installed to write a model card. Run: pip install 'vaswani[train]'"
        ) from error
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["markdown"] = escape_markdown
    template = environment.from_string(_template_path().read_text(encoding="utf-8"))
    metadata = _metadata(folder, values).to_yaml()
    scores = {SCORE_LABELS.get(name, name): value for name, value in values["scores"].items()}
    values |= {"scores": scores}
    text = template.render(card_data=metadata, **values)
    # Reading it back checks that the metadata block is one that the Hub can parse.
    return str(ModelCard(text.rstrip() + "\n"))


def _template_path() -> Path:
    """The template beside this module in a wheel, at the top of the project in a checkout."""
    here = Path(__file__).resolve().parent
    beside = here / "model_card.md"
    return beside if beside.is_file() else here.parent / "model_card.md"


def escape_markdown(value: object) -> str:
    """The value as one line of text that Markdown shows as it is, in a table cell too."""
    if isinstance(value, float):
        text = f"{value:.6g}"
    elif isinstance(value, Sequence) and not isinstance(value, str):
        text = ", ".join(str(one) for one in value)
    else:
        text = str(value)
    # Every kind of line break and tab would end a table row or start a block.
    text = re.sub(r"([\\`*_\[\]<>|~$&])", r"\\\1", " ".join(text.split()))
    # At the start of a line these would open a list or a heading.
    return re.sub(r"^(\d*)([-+#.)])", r"\1\\\2", text) if re.match(BLOCK_START, text) else text
