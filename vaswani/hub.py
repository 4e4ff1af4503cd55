"""What a saved folder needs before others can load it.

`check_self_contained` looks at a folder as the Hub would serve it. Saving the weights, the settings
and the code is the work of `save_pretrained`, the card that of `model_card`, sending of `hub_push`.
"""

import ast
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from transformers.dynamic_module_utils import get_relative_imports

from vaswani.errors import InputError

CONFIG_CLASSES = ("AutoConfig", "AutoModel", "AutoModelForSeq2SeqLM")
WEIGHTS = "model.safetensors"


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
    problems = missing_parts(Path(folder))
    if problems:
        raise InputError(
            f"`folder` must hold all that loading needs, got {folder}: {'; '.join(problems)}. "
            "Save model and tokenizer again with `save_pretrained`."
        )


def missing_parts(folder: Path) -> list[str]:
    """What a folder lacks to be loaded elsewhere, in words, as `check_self_contained` says it.

    Raises:
        FileNotFoundError: if the folder does not exist.
    """
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
    return problems


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
