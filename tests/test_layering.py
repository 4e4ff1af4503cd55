"""Who may import whom, what `import vaswani` needs, and how long files may get.

The rule is stated in CONTRIBUTING.md. A module that is not in `EXTRA` may import the Hub files,
`errors`, `wording` and third parties.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers.dynamic_module_utils import get_relative_imports

PROJECT = Path(__file__).resolve().parent.parent
PACKAGE = PROJECT / "vaswani"
HUB_FILES = sorted(path.stem for path in PACKAGE.glob("*_vaswani.py"))
LIBRARY = sorted(
    path.stem
    for path in PACKAGE.glob("*.py")
    if path.stem not in HUB_FILES and not path.stem.startswith("__")
)
HUB_PACKAGES = {"torch", "transformers", "tokenizers", "huggingface_hub"}
OPTIONAL = (
    "datasets accelerate evaluate sacrebleu sacremoses matplotlib jinja2 tensorboard trackio peft"
)

# Besides Hub files, `errors` and `wording`. A topic that is split keeps its place in the order.
EXTRA: dict[str, set[str]] = {
    "decoding": {"scoring"},
    "source_pieces": {"placeholders", "sentences"},
    "translated_pieces": {"placeholders", "source_pieces"},
    "piece_search": {"decoding", "placeholders", "source_pieces", "translated_pieces"},
    "text_records": {"text_lines"},
    "translation": {
        *(
            "decoding",
            "ensemble",
            "hub_download",
            "model_folder",
            "piece_search",
            "scoring",
            "source_pieces",
        ),
        *("text_lines", "translated_pieces"),
    },
    "batching": {"epoch_rows"},
    "bpe_vocabulary": {"subword_pieces"},
    "unigram_vocabulary": {"subword_pieces"},
    "word_vocabulary": {"subword_pieces"},
    "vocabulary": {"bpe_vocabulary", "subword_pieces", "unigram_vocabulary", "word_vocabulary"},
    "evaluation": {"translation"},
    "checkpoints": {"checkpoint_files", "hub", "model_card", "output_folder"},
    "published_card": {"model_card"},
    "hub_files": {"model_card"},
    "hub_push": {
        *("hub", "hub_errors", "hub_files", "hub_isolation", "hub_leaks", "model_card"),
        "published_card",
    },
    "hub_download": {"hub_errors"},
    "model_folder": {"hub_download"},
    "attention_maps": {"text_lines"},
    "attention_panels": {"attention_maps", "plot_fonts"},
    "attention_pictures": {"attention_maps", "attention_panels"},
    "length_pictures": {"plot_fonts"},
    "plotting": {"attention_maps", "attention_pictures", "optimization", "output_folder"},
}
# Parallel text, from bytes to pairs: these may import one another and the vocabulary.
CORPUS = {"compressed_files", "data", "gettext_catalogs", "text_folding", "text_lines", "tmx"}
# What starts from the grammar and ends with trained models.
WHOLE_WAY = {"demo", "table3"}
# These may import every library module but the demo's own.
TRAINING = {"training", "data_arguments", "run_folder", "run_settings"}


def imported_modules(path: Path) -> Iterator[tuple[str, str]]:
    """Every import anywhere in the file, as (package, module below it); relative ones as ours."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(filter(None, ["vaswani" if node.level else "", node.module or ""]))
            # `from vaswani import data` imports a module, `from vaswani import VaswaniConfig` not.
            submodules = [a.name for a in node.names if (PACKAGE / f"{a.name}.py").is_file()]
            names = [f"vaswani.{name}" for name in submodules] if base == "vaswani" else [base]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            yield package, rest.partition(".")[0]


def own_imports(path: Path) -> set[str]:
    return {module for package, module in imported_modules(path) if package == "vaswani" and module}


def may_import(name: str, other: str) -> bool:
    """Whether the library module `name` may import the module `other` of ours."""
    if other in {"errors", "wording"}:
        return True
    if name in WHOLE_WAY:
        return other != "cli"
    if name.startswith("demo_"):
        return other.startswith("demo_")
    if name in TRAINING or name.startswith("training_"):
        return other != "cli" and not other.startswith("demo_")
    if is_corpus(name):
        return is_corpus(other) or other in {"output_folder", "vocabulary", *HUB_FILES}
    return other in {*HUB_FILES, *EXTRA.get(name, ())}


def is_corpus(name: str) -> bool:
    return name in CORPUS or name.startswith("corpus_")


@pytest.mark.parametrize("name", HUB_FILES)
def test_hub_file_imports_only_hub_siblings(name: str) -> None:
    """`save_pretrained` copies these files alone, so nothing else of ours may be needed."""
    path = PACKAGE / f"{name}.py"
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            assert node.level == 1 and node.module in HUB_FILES
    # transformers scans the text, not the syntax tree: a docstring can break it too.
    assert set(get_relative_imports(path)) <= set(HUB_FILES)


@pytest.mark.parametrize("name", HUB_FILES)
def test_hub_file_imports_no_optional_package(name: str) -> None:
    absolute = set()
    for node in ast.walk(ast.parse((PACKAGE / f"{name}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            absolute |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            absolute.add((node.module or "").split(".")[0])
    # `vaswani` would be one more: the name does not exist where a saved folder is loaded.
    assert absolute <= set(sys.stdlib_module_names) | HUB_PACKAGES


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("configuration_vaswani", {"presets_vaswani", "versions_vaswani"}),
        ("tokenization_vaswani", set()),
    ],
)
def test_configuration_and_tokenization_stand_alone(name: str, allowed: set[str]) -> None:
    """A configuration or a tokenizer is loaded without the model's code."""
    assert own_imports(PACKAGE / f"{name}.py") <= allowed


@pytest.mark.parametrize("names", [HUB_FILES, LIBRARY], ids=["Hub files", "library"])
def test_modules_import_each_other_without_cycles(names: list[str]) -> None:
    needed = {name: own_imports(PACKAGE / f"{name}.py") for name in names}
    while needed:
        free = [name for name in needed if not needed[name] & set(needed)]
        assert free, f"cycle among {sorted(needed)}"
        for name in free:
            del needed[name]


def test_package_entry_imports_only_hub_files() -> None:
    assert own_imports(PACKAGE / "__init__.py") <= set(HUB_FILES)


@pytest.mark.parametrize("name", LIBRARY)
def test_library_module_imports_only_what_its_layer_allows(name: str) -> None:
    imports = own_imports(PACKAGE / f"{name}.py")
    assert [other for other in imports if not may_import(name, other)] == []


@pytest.mark.parametrize("name", [name for name in LIBRARY if name.startswith("demo_")])
def test_demo_module_needs_only_the_standard_library(name: str) -> None:
    packages = {package for package, _ in imported_modules(PACKAGE / f"{name}.py")}
    assert packages - {"vaswani"} <= set(sys.stdlib_module_names)


def test_package_imports_neither_scripts_nor_benchmarks_nor_tests() -> None:
    for path in PACKAGE.rglob("*.py"):
        packages = {package for package, _ in imported_modules(path)}
        assert not packages & {"scripts", "benchmarks", "tests"}, path.name


def run_python(code: str) -> str:
    """What the code prints in a fresh interpreter that finds the package."""
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


def test_import_works_without_optional_packages() -> None:
    code = f"""
import sys
for name in {OPTIONAL.split()}:
    sys.modules[name] = None  # both the import and the search for the package fail
from transformers import PreTrainedModel, PreTrainedTokenizerFast  # huggingface_hub needs yaml
sys.modules["yaml"] = None
import vaswani
print(vaswani.VaswaniForConditionalGeneration.__name__)
"""
    assert run_python(code).strip() == "VaswaniForConditionalGeneration"


def test_import_has_no_side_effects_beyond_registration(tmp_path: Path) -> None:
    code = f"""
import logging, os, random, sys, warnings
import torch, transformers
from transformers import (AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer,
                          PreTrainedModel, GenerationMixin, PreTrainedTokenizerFast)
def state():
    return [dict(os.environ), os.getcwd(), sorted(os.listdir({str(tmp_path)!r})), random.getstate(),
            torch.get_rng_state().tolist(), torch.get_default_dtype(), torch.get_num_threads(),
            torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled(),
            list(warnings.filters), logging.getLogger().level, list(logging.getLogger().handlers),
            logging.getLogger("transformers").level, sys.excepthook, list(sys.path)]
sys.path.insert(0, {str(PROJECT)!r})
os.chdir({str(tmp_path)!r})
before = state()
import vaswani
for number, (old, new) in enumerate(zip(before, state(), strict=True)):
    assert old == new, (number, old, new)
"""
    assert run_python(code) == ""


PYTHON_FILES = sorted(
    path
    for folder in ("vaswani", "scripts", "tests", "benchmarks", "examples")
    for path in (PROJECT / folder).rglob("*.py")
)


def line_limit(path: Path) -> int:
    if path.name == "modeling_vaswani.py":
        return 800
    return 120 if path.parent.name == "scripts" else 400


def test_files_are_no_longer_than_their_limit() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in PYTHON_FILES}
    too_long = {
        str(path.relative_to(PROJECT)): f"{length} > {line_limit(path)}"
        for path, length in lengths.items()
        if length > line_limit(path)
    }
    assert not too_long


def code_length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function with its signature and without its docstring."""
    length = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        length -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return length


def test_functions_are_no_longer_than_60_lines() -> None:
    too_long = {}
    for path in PYTHON_FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and code_length(node) > 60:
                too_long[f"{path.relative_to(PROJECT)}:{node.name}"] = code_length(node)
    assert not too_long


def test_no_module_is_named_after_nothing() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "misc"}
    parts = {part for path in PYTHON_FILES for part in path.with_suffix("").parts[-2:]}
    assert not parts & vague
    assert not {part for part in parts if set(part.split("_")) & vague}
