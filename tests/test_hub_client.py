"""The way to the Hub and back, in interpreters that were started for it.

One has the package: it pushes and loads by name. One has not: it runs the examples of the card.
Their client knows the server on loopback by HF_ENDPOINT alone, as a user's knows the Hub. What they
leave out is Xet, which the server does not speak.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hub_material import client_of, environment_of, write_ready_card
from hub_server import HubServer, hub
from safetensors.torch import load_file

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration, VaswaniTokenizer
from vaswani.model_folder import open_model, open_tokenizer

SOURCE = "The baker sees the child."

WITH_PACKAGE = """
import json, sys
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from vaswani.cli import main
from vaswani.translation import Translator

folder, examples, source = sys.argv[1:]
model = AutoModelForSeq2SeqLM.from_pretrained(folder)
tokenizer = AutoTokenizer.from_pretrained(folder)
model.push_to_hub("ada/pushed")
tokenizer.push_to_hub("ada/pushed")
report = {"push": main(["push", folder, "ada/en-de"])}
sys.stdout.flush()
report["translate"] = main(["translate", "--model", "ada/en-de", "--input", source,
                            "--output", source + ".out", "--num-beams", "2"])
report["missing"] = main(["translate", "--model", "ada/none", "--input", source])
found = AutoModelForSeq2SeqLM.from_pretrained("ada/pushed")
report["same"] = all(torch.equal(a, b) for a, b in zip(model.parameters(), found.parameters()))
report["class"] = type(AutoTokenizer.from_pretrained("ada/pushed")).__module__
exec(compile(json.loads(examples)[0], "card", "exec"))
print(json.dumps(report))
"""

WITHOUT_PACKAGE = """
import importlib.abc, json, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "vaswani":
            raise ModuleNotFoundError("refused: " + name, name=name)

sys.meta_path.insert(0, Refuse())
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

report = {"loaded": []}
translate = pipeline(model="ada/en-de", trust_remote_code=True)
report["pipeline"] = translate("The baker sees the child.")[0]["translation_text"]
for name in ("ada/en-de", "ada/pushed"):
    for kind in (AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer):
        loaded = kind.from_pretrained(name, trust_remote_code=True)
        report["loaded"].append([type(loaded).__name__, type(loaded).__module__.split(".")[0]])
for example in json.loads(sys.argv[1])[1:]:
    exec(compile(example, "card", "exec"))
try:
    AutoModelForSeq2SeqLM.from_pretrained("ada/en-de", trust_remote_code=False)
except ValueError as error:
    report["refused"] = str(error)
print(json.dumps(report))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[HubServer]:
    with hub() as server:
        yield server


@pytest.fixture(scope="module")
def folder(
    copying_weights: dict[str, torch.Tensor],
    tiny_tokenizer: VaswaniTokenizer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    path = tmp_path_factory.mktemp("hub") / "copying"
    config = VaswaniConfig(
        vocab_size=len(tiny_tokenizer),
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
    )
    model = VaswaniForConditionalGeneration(config)
    model.load_state_dict(copying_weights)
    model.save_pretrained(path)
    tiny_tokenizer.save_pretrained(path)
    write_ready_card(path)
    return path


def examples_of(card: str) -> list[str]:
    blocks = re.findall(r"^```python\n(.*?)^```$", card, re.MULTILINE | re.DOTALL)
    return [block.replace("Replace this by your text.", SOURCE) for block in blocks]


def run(
    server: HubServer, work: Path, code: str, *words: str, isolated: bool
) -> tuple[dict[str, Any], list[str]]:
    """The report of an interpreter, and the lines that it printed before."""
    result = subprocess.run(
        [sys.executable, *(["-I"] if isolated else []), "-c", code, *words],
        cwd=work,
        env=environment_of(server, work / "home"),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    *before, last = result.stdout.splitlines()
    return {**json.loads(last), "stderr": result.stderr}, before


@pytest.fixture(scope="module")
def with_package(
    server: HubServer, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], list[str]]:
    work = tmp_path_factory.mktemp("with")
    (work / "source.txt").write_text(f"{SOURCE}\n", encoding="utf-8")
    card = (folder / "README.md").read_text(encoding="utf-8")
    # The name that the card has once it is pushed.
    named = [re.sub(r"^name = .*$", 'name = "ada/en-de"', x, flags=re.M) for x in examples_of(card)]
    words = (str(folder), json.dumps(named), str(work / "source.txt"))
    report, printed = run(server, work, WITH_PACKAGE, *words, isolated=False)
    report["translated"] = (work / "source.txt.out").read_text(encoding="utf-8")
    return report, printed


@pytest.fixture(scope="module")
def without_package(
    server: HubServer, with_package: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], list[str]]:
    examples = examples_of(server.files("ada/en-de")["README.md"].decode())
    work = tmp_path_factory.mktemp("without")
    return run(server, work, WITHOUT_PACKAGE, json.dumps(examples), isolated=True)


def test_push_command_prints_the_address(server: HubServer, with_package: Any) -> None:
    report, printed = with_package
    assert report["push"] == 0
    assert [line for line in printed if line.startswith("http")] == [f"{server.url}/ada/en-de"]


def test_translate_command_takes_a_name_on_the_hub(with_package: Any) -> None:
    report, _ = with_package
    assert report["translate"] == 0 and report["translated"] == f"{SOURCE}\n"


def test_model_to_train_on_from_may_be_a_name(
    server: HubServer, with_package: Any, folder: Path, tmp_path: Path
) -> None:
    with client_of(server, tmp_path):
        model, tokenizer = open_model("ada/en-de")
        assert open_tokenizer("ada/en-de").get_vocab() == tokenizer.get_vocab()
    weights = load_file(folder / "model.safetensors")
    assert all(torch.equal(dict(model.named_parameters())[name], weights[name]) for name in weights)
    assert type(model) is VaswaniForConditionalGeneration


def test_pipeline_without_a_task_takes_a_name_on_the_hub(without_package: Any) -> None:
    report, _ = without_package
    assert report["pipeline"] == SOURCE


def test_missing_model_is_one_line(with_package: Any) -> None:
    report, _ = with_package
    assert report["missing"] == 2
    errors = [line for line in report["stderr"].splitlines() if "error:" in line]
    assert len(errors) == 1 and "got ada/none: there is none that you may read" in errors[0]


def test_push_to_hub_of_model_and_tokenizer_gives_a_whole_model(
    server: HubServer, folder: Path, with_package: Any
) -> None:
    report, _ = with_package
    assert report["same"] and report["class"] == "vaswani.tokenization_vaswani"
    needed = {path.name for path in folder.iterdir()} - {"README.md"}
    assert needed <= set(server.files("ada/pushed"))
    weights = load_file(folder / "model.safetensors")
    (folder.parent / "there").write_bytes(server.files("ada/en-de")["model.safetensors"])
    there = load_file(folder.parent / "there")
    assert weights.keys() == there.keys()
    assert all(torch.equal(weights[name], there[name]) for name in weights)


def test_every_example_of_the_card_translates(
    server: HubServer, with_package: Any, without_package: Any
) -> None:
    card = server.files("ada/en-de")["README.md"].decode()
    config = json.loads(server.files("ada/en-de")["config.json"])
    has_pipeline = "translation" in config.get("custom_pipelines", {})
    assert len(examples_of(card)) == 2 + has_pipeline
    assert SOURCE in with_package[1]
    assert sum(SOURCE in line for line in without_package[1]) == 1 + has_pipeline


def test_all_auto_classes_load_by_name_without_the_package(without_package: Any) -> None:
    report, _ = without_package
    names = ["VaswaniConfig", "VaswaniModel", "VaswaniForConditionalGeneration", "VaswaniTokenizer"]
    assert report["loaded"] == [[name, "transformers_modules"] for name in names] * 2


def test_nothing_loads_without_trust_where_the_package_is_absent(without_package: Any) -> None:
    report, _ = without_package
    assert "trust_remote_code=True" in report["refused"]
