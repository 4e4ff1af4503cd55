"""Opening a model or going on with a run executes nothing that is in their files.

Each test plants a canary, a pickle that makes a folder when it is read without care.
"""

import ast
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from canary import plant
from elsewhere import run_elsewhere
from training_material import reversal_pairs, tiny_model, tokenizer, trainer, write_tsv
from transformers import AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer

from vaswani import VaswaniForConditionalGeneration, VaswaniModel
from vaswani.checkpoints import average_checkpoints
from vaswani.cli import main
from vaswani.errors import InputError
from vaswani.model_folder import open_tokenizer
from vaswani.translation import Translator
from vaswani.weight_files_vaswani import safetensors_settings

PACKAGE = Path(__file__).parent.parent / "vaswani"
REMEDY = "weights_only=True"


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    tiny_model().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def flown(tmp_path: Path):
    """The folder that a canary makes; at the end it must not be there."""
    folder = tmp_path / "flown"
    yield folder
    assert not folder.exists()


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A model folder of the test's own."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


@pytest.mark.parametrize("by", ["torch", "legacy", "pickle"])
def test_a_canary_flies_where_nobody_takes_care(by: str, tmp_path: Path) -> None:
    """Without this the other tests could not fail."""
    path = plant(tmp_path / "file", tmp_path / "flown", by=by)
    if by == "pickle":
        pickle.loads(path.read_bytes())
    else:
        torch.load(path, weights_only=False)
    assert (tmp_path / "flown").is_dir()


# Weights


def one_pickle(folder: Path, flown: Path, by: str) -> str:
    plant(folder / "pytorch_model.bin", flown, by=by)
    (folder / "model.safetensors").unlink()
    return "pytorch_model.bin"


def harmless_pickle(folder: Path, flown: Path, by: str) -> str:
    """Refused by its name, not by what is in it."""
    weights = tiny_model().state_dict()
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return "pytorch_model.bin"


def sharded_pickle(folder: Path, flown: Path, by: str) -> str:
    name = "pytorch_model-00001-of-00001.bin"
    plant(folder / name, flown, by=by)
    index = {"metadata": {}, "weight_map": {"model.encoder.embed_tokens.weight": name}}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()
    return name


def pickle_in_a_safe_index(folder: Path, flown: Path, by: str) -> str:
    """transformers reads whatever file the index of safetensors names."""
    plant(folder / "part.bin", flown, by=by)
    index = {"metadata": {}, "weight_map": {"model.encoder.embed_tokens.weight": "part.bin"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()
    return "part.bin"


def pickled_adapter(folder: Path, flown: Path, by: str) -> str:
    plant(folder / "adapter_model.bin", flown, by=by)
    settings = {"peft_type": "LORA", "base_model_name_or_path": str(folder)}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    return "adapter_model.bin"


PLANTED = [one_pickle, harmless_pickle, sharded_pickle, pickle_in_a_safe_index, pickled_adapter]
LOADERS: list[Callable[[Path], Any]] = [
    VaswaniForConditionalGeneration.from_pretrained,
    VaswaniModel.from_pretrained,
    AutoModel.from_pretrained,
    AutoModelForSeq2SeqLM.from_pretrained,
    Translator.from_pretrained,
]
NAMES = ["ours", "our base", "AutoModel", "AutoModelForSeq2SeqLM", "Translator"]


@pytest.mark.parametrize("by", ["torch", "legacy", "pickle"])
@pytest.mark.parametrize("planted", PLANTED, ids=lambda function: function.__name__)
@pytest.mark.parametrize("load", LOADERS, ids=NAMES)
def test_pickled_weights_are_refused_by_name(
    load: Callable[[Path], Any], planted: Any, by: str, folder: Path, flown: Path
) -> None:
    name = planted(folder, flown, by)
    with pytest.raises((OSError, InputError), match=f"{name}: .*{REMEDY}"):
        load(folder)


@pytest.mark.parametrize("load", LOADERS, ids=NAMES)
def test_a_pickle_under_the_name_of_safe_weights_is_damage(
    load: Callable[[Path], Any], folder: Path, flown: Path
) -> None:
    plant(folder / "model.safetensors", flown)
    with pytest.raises(Exception, match="header"):
        load(folder)


@pytest.mark.parametrize("load", LOADERS, ids=NAMES)
def test_pickles_beside_safe_weights_are_never_opened(
    load: Callable[[Path], Any], folder: Path, flown: Path
) -> None:
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt", "tokenizer.pkl"):
        plant(folder / name, flown)
    assert load(folder) is not None


@pytest.mark.parametrize("setting", ["use_safetensors", "weights_only"])
def test_a_call_cannot_ask_for_pickles(setting: str, folder: Path, flown: Path) -> None:
    one_pickle(folder, flown, "torch")
    with pytest.raises(ValueError, match=f"`{setting}` must be True or left out, got False"):
        VaswaniForConditionalGeneration.from_pretrained(folder, **{setting: False})


def test_a_file_of_weights_in_place_of_a_folder_is_refused(folder: Path, flown: Path) -> None:
    one_pickle(folder, flown, "torch")
    config = tiny_model().config
    with pytest.raises(OSError, match=r"pytorch_model.bin: "):
        VaswaniForConditionalGeneration.from_pretrained(folder / "pytorch_model.bin", config=config)


def test_a_config_cannot_choose_a_pickle(folder: Path, flown: Path) -> None:
    """transformers lets `transformers_weights` name adapter_model.bin."""
    settings = json.loads((folder / "config.json").read_bytes())
    settings["transformers_weights"] = "adapter_model.bin"
    (folder / "config.json").write_text(json.dumps(settings))
    torch.save(tiny_model().state_dict(), folder / "adapter_model.bin")
    with pytest.raises(OSError, match=r"adapter_model.bin: "):
        VaswaniForConditionalGeneration.from_pretrained(folder)


def test_pickled_weights_can_still_be_converted_by_hand(folder: Path, flown: Path) -> None:
    """What docs/security.md tells: the remedy works."""
    wanted = VaswaniForConditionalGeneration.from_pretrained(folder)
    harmless_pickle(folder, flown, "torch")
    weights = torch.load(folder / "pytorch_model.bin", weights_only=True)
    model = VaswaniForConditionalGeneration.from_pretrained(
        None, config=wanted.config, state_dict=weights
    )
    model.save_pretrained(folder)
    again = VaswaniForConditionalGeneration.from_pretrained(folder)
    for name, value in wanted.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)


@pytest.mark.parametrize(
    ("command", "planted"),
    [
        (command, planted)
        for command in ("translate", "score", "evaluate", "train", "average")
        for planted in PLANTED
        # Averaging looks at no adapters.
        if (command, planted) != ("average", pickled_adapter)
    ],
)
def test_commands_refuse_pickled_weights_in_one_line(
    command: str, planted: Any, folder: Path, flown: Path, tmp_path: Path, capsys
) -> None:
    name = planted(folder, flown, "torch")
    corpus = str(write_tsv(tmp_path / "data.tsv", reversal_pairs(30)))
    languages = ["--source", "en", "--target", "de"]
    output = tmp_path / "output"
    run = ["--output-dir", str(output), "--device", "cpu", "--max-steps", "1"]
    words = {
        "translate": ["--model", str(folder), "--input", corpus, "--output", str(output)],
        "score": ["--model", str(folder), "--data", corpus, *languages],
        "evaluate": ["--model", str(folder), "--data", corpus, *languages],
        "train": ["--model", str(folder), "--data", corpus, *languages, *run],
        "average": ["--checkpoints", str(folder), "--output", str(output)],
    }[command]
    assert main([command, *words]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert name in error and "pickle" in error
    assert not output.exists()


# The code of a saved folder, where the package is not installed

LOAD = """
from transformers import AutoModelForSeq2SeqLM

said = []
for folder in sys.argv[1:]:
    try:
        AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
        said.append("loaded")
    except OSError as error:
        said.append(str(error))
print(json.dumps(said))
"""


def test_the_code_in_a_saved_folder_refuses_pickles_too(
    saved: Path, tmp_path: Path, flown: Path
) -> None:
    folders = [Path(shutil.copytree(saved, tmp_path / f.__name__)) for f in PLANTED]
    names = [f(folder, flown, "torch") for f, folder in zip(PLANTED, folders, strict=True)]
    said = run_elsewhere(LOAD, *folders, work=tmp_path)
    for name, line in zip(names, said, strict=True):
        assert f"{name}: reading a pickle can run code" in line


def test_no_pickle_is_fetched_from_the_hub() -> None:
    """A name that is no folder: transformers is told to look for safetensors only."""
    assert safetensors_settings("user/name", {"revision": "x"}) == {
        "revision": "x",
        "use_safetensors": True,
    }


# Foreign code

EVIL = "import os\nos.mkdir({flown!r})\nclass Evil: pass\n"


def test_a_tokenizer_with_code_is_refused_without_a_question(
    folder: Path, flown: Path, monkeypatch
) -> None:
    """A folder of another model may bring code along; nothing of ours trusts it."""
    (folder / "config.json").write_text('{"model_type": "unheard-of"}')
    (folder / "evil.py").write_text(EVIL.format(flown=str(flown)))
    settings = json.loads((folder / "tokenizer_config.json").read_bytes())
    settings |= {"auto_map": {"AutoTokenizer": ["evil.Evil", None]}, "tokenizer_class": "Evil"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked on the terminal"))
    with pytest.raises(InputError, match="contains custom code"):
        open_tokenizer(folder)


def test_opening_a_folder_takes_the_code_of_the_package(folder: Path, flown: Path) -> None:
    for path in folder.glob("*_vaswani.py"):
        path.write_text(EVIL.format(flown=str(flown)))
    assert Translator.from_pretrained(folder).translate(["eins zwei"])
    assert AutoModelForSeq2SeqLM.from_pretrained(folder) is not None
    assert AutoTokenizer.from_pretrained(folder) is not None


FORBIDDEN = {"eval", "exec", "__import__", "pickle.load", "pickle.loads", "os.system", "os.popen"}
FORBIDDEN |= {"yaml.load", "yaml.unsafe_load", "yaml.full_load", "marshal.loads", "joblib.load"}


def test_no_module_reads_pickles_or_runs_text() -> None:
    """Of the ways to run what a file says, none stands in the package."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            given = {word.arg: ast.unparse(word.value) for word in node.keywords if word.arg}
            safe = {"torch.load": "weights_only", "np.load": "allow_pickle"}
            wanted = {"torch.load": "True", "np.load": "False"}
            unsafe = name in safe and given.get(safe[name]) != wanted[name]
            trusting = given.get("trust_remote_code", "False") == "True" or "shell" in given
            if name in FORBIDDEN or unsafe or trusting:
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {name}")
    assert found == []


# Going on with a run


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """The folder of a run with a checkpoint at its second update."""
    folder = tmp_path_factory.mktemp("run")
    trainer(folder, max_steps=2, save_strategy="steps", save_steps=2).train()
    return folder


def resumed(run: Path, tmp_path: Path) -> tuple[Path, Callable[[], Any]]:
    """A copy of the checkpoint, and a function that goes on from it for one update."""
    checkpoint = Path(shutil.copytree(run / "checkpoint-2", tmp_path / "checkpoint-2"))
    new = trainer(tmp_path / "new", max_steps=3)
    return checkpoint, lambda: new.train(resume_from_checkpoint=str(checkpoint))


@pytest.mark.parametrize("by", ["torch", "legacy", "pickle"])
@pytest.mark.parametrize(
    "name", ["optimizer.pt", "scheduler.pt", "scaler.pt", "rng_state.pth", "rng_state_1.pth"]
)
def test_a_foreign_state_is_refused_by_name(
    name: str, by: str, run: Path, tmp_path: Path, flown: Path
) -> None:
    checkpoint, go_on = resumed(run, tmp_path)
    plant(checkpoint / name, flown, by=by)
    with pytest.raises(InputError, match=f"plain values only, got .*{name}: .*Take another"):
        go_on()


@pytest.mark.parametrize("planted", PLANTED[:4], ids=lambda function: function.__name__)
def test_pickled_weights_of_a_checkpoint_are_refused_by_name(
    planted: Any, run: Path, tmp_path: Path, flown: Path
) -> None:
    checkpoint, go_on = resumed(run, tmp_path)
    name = planted(checkpoint, flown, "torch")
    with pytest.raises(InputError, match=f"{name}: .*{REMEDY}"):
        go_on()


def test_the_states_of_a_run_pass_and_its_pickled_arguments_are_not_read(
    run: Path, tmp_path: Path, flown: Path
) -> None:
    checkpoint, go_on = resumed(run, tmp_path)
    assert (checkpoint / "optimizer.pt").is_file() and (checkpoint / "rng_state.pth").is_file()
    plant(checkpoint / "training_args.bin", flown)
    assert go_on().global_step == 3


def test_averaging_refuses_a_canary(run: Path, tmp_path: Path, flown: Path) -> None:
    checkpoint, _ = resumed(run, tmp_path)
    name = one_pickle(checkpoint, flown, "pickle")
    with pytest.raises(InputError, match=f"{name}: .*{REMEDY}"):
        average_checkpoints([checkpoint], tmp_path / "average")
