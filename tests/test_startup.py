"""What starting costs, told by what is imported and what is computed: never by a clock."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import vaswani
from vaswani import VaswaniForConditionalGeneration
from vaswani.cli import COMMANDS, find_command
from vaswani.model_folder import open_model

PROJECT = Path(__file__).resolve().parent.parent
# What a model class of transformers needs, and what makes one known to the Auto classes.
PEER = """
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, MarianMTModel
from transformers import PreTrainedTokenizerFast
AutoModelForSeq2SeqLM.register, AutoTokenizer.register
"""
# Seconds of imports.
HEAVY = {"torch", "datasets", "accelerate", "sacrebleu", "matplotlib", "sklearn", "pandas", "scipy"}


def started(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """A finished Python process that found the package."""
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def modules_after(statements: str) -> set[str]:
    """Names of all modules that are there after the statements."""
    return set(started("-c", f"{statements}\nimport sys; print(*sys.modules)").stdout.split())


def packages_of_command(*words: str, code: int = 0) -> set[str]:
    """Top-level packages that a command line of `vaswani` imports."""
    told = started("-X", "importtime", "-m", "vaswani", *words, code=code).stderr
    lines = [line for line in told.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def test_import_needs_no_more_than_a_model_class_of_transformers_and_its_registration() -> None:
    own = {name for name in modules_after("import vaswani") if not name.startswith("vaswani")}
    assert own - modules_after(PEER) == set()


@pytest.mark.parametrize(
    ("words", "code"), [(["--help"], 0), ([], 2), (["--version"], 0), (["plot", "--help"], 0)]
)
def test_pages_of_the_command_need_no_library(words: list[str], code: int) -> None:
    found = packages_of_command(*words, code=code)
    assert "vaswani" in found
    assert not found & {*HEAVY, "transformers", "numpy", "yaml", "huggingface_hub"}


def test_installed_command_imports_no_library_for_its_help(tmp_path: Path) -> None:
    """What pip writes for the entry point is a file of the command's name."""
    command = tmp_path / "vaswani"
    command.write_text(
        "import sys\nfrom vaswani.cli import main\n"
        "assert main(['--help']) == 0\nprint(*sys.modules)\n",
        encoding="utf-8",
    )
    assert "torch" not in started(str(command)).stdout.splitlines()[-1].split()


def command_lines() -> list[str]:
    """Every command but `train`, whose options are those of transformers' own arguments too."""
    lines = []
    for name in COMMANDS:
        group = getattr(find_command([name])[1], "COMMANDS", None)
        lines += [name] if group is None else [f"{name} {word}" for word in group]
    return [line for line in lines if line != "train"]


@pytest.mark.parametrize("option", ["--help", "--no-such-option"])
def test_options_of_a_command_are_told_and_refused_without_torch(option: str) -> None:
    code = f"""
import sys
sys.argv = ["vaswani"]
from vaswani.cli import main
codes = [main([*line.split(), {option!r}]) for line in {command_lines()!r}]
print(sorted({sorted(HEAVY)!r} & sys.modules.keys()), set(codes))
"""
    expected = 0 if option == "--help" else 2
    assert started("-c", code).stdout.splitlines()[-1] == f"[] {{{expected}}}"


def test_command_at_work_knows_its_own_classes(tiny_folder: Path) -> None:
    """A tokenizer is opened by AutoTokenizer, which must not look for code in the folder."""
    done = started("-m", "vaswani", "tokenizer", "show", "--tokenizer", str(tiny_folder))
    assert "source and target" in done.stdout


def test_any_other_program_has_the_classes_registered(tmp_path: Path, tiny_folder: Path) -> None:
    program = tmp_path / "vaswani_report.py"
    program.write_text(
        "import sys\nimport vaswani\nfrom transformers import AutoModelForSeq2SeqLM\n"
        "print(type(AutoModelForSeq2SeqLM.from_pretrained(sys.argv[1])).__module__)",
        encoding="utf-8",
    )
    module = started(str(program), str(tiny_folder)).stdout.strip()
    assert module == "vaswani.modeling_vaswani"


def test_every_public_name_is_there_and_no_other() -> None:
    assert set(vaswani.__all__) <= set(dir(vaswani))
    for name in vaswani.__all__:
        assert getattr(vaswani, name) is not None
    with pytest.raises(AttributeError, match="module 'vaswani' has no attribute 'VaswaniModle'"):
        vaswani.VaswaniModle  # noqa: B018


def test_loading_draws_no_random_numbers_for_weights_that_the_folder_has(
    tiny_folder: Path,
) -> None:
    before = torch.get_rng_state()
    VaswaniForConditionalGeneration.from_pretrained(tiny_folder)
    open_model(tiny_folder)
    assert torch.equal(torch.get_rng_state(), before)


def test_loading_draws_numbers_for_a_weight_that_the_folder_lacks(tiny_folder: Path) -> None:
    """Otherwise the test above could not see any."""
    path = tiny_folder / "model.safetensors"
    weights = load_file(path)
    del weights[next(name for name in weights if name.endswith("fc1.weight"))]
    save_file(weights, path, metadata={"format": "pt"})
    before = torch.get_rng_state()
    VaswaniForConditionalGeneration.from_pretrained(tiny_folder)
    assert not torch.equal(torch.get_rng_state(), before)
