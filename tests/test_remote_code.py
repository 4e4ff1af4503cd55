"""A saved folder gives the same model in an interpreter that does not have the package.

The second interpreter is that of `elsewhere`. Pipelines, training there and trust are in
`test_pipeline_remote`.
"""

import copy
import json
from pathlib import Path

import pytest
import torch
from elsewhere import run_elsewhere
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration, VaswaniModel, VaswaniTokenizer
from vaswani.checkpoints import average_checkpoints
from vaswani.hub import check_self_contained
from vaswani.vocabulary import train_tokenizer

SENTENCES = ["the boat is red", "a red boat", "where is the old boat ?", "das alte Boot 🛶"]

LOADER = """
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer

folder, inputs, outputs, again = sys.argv[1:]
config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
base = AutoModel.from_pretrained(folder, trust_remote_code=True).eval()
model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True).eval()
batch = load_file(inputs)
with torch.no_grad():
    result = {
        "logits": model(**batch).logits,
        "hidden": base(**batch).last_hidden_state,
        "generated": model.generate(batch["input_ids"], max_new_tokens=8),
    }
save_file({name: value.contiguous() for name, value in result.items()}, outputs)
if again:
    model.save_pretrained(again)
    tokenizer.save_pretrained(again)
print(json.dumps({
    "ids": tokenizer(json.loads(sys.stdin.read()))["input_ids"],
    "config": type(config).__name__,
    "tokenizer": type(tokenizer).__name__,
    "base": type(base).__name__,
    "model": type(model).__name__,
    "modules": [type(one).__module__ for one in (config, tokenizer, base, model)],
    "scores": model.generation_config.num_beams,
}))
"""


@pytest.fixture(scope="module")
def tokenizer() -> VaswaniTokenizer:
    return train_tokenizer(SENTENCES, vocab_size=320, min_frequency=1)


@pytest.fixture(scope="module")
def model(tokenizer: VaswaniTokenizer) -> VaswaniForConditionalGeneration:
    torch.manual_seed(0)
    config = VaswaniConfig(
        vocab_size=len(tokenizer),
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
    )
    return VaswaniForConditionalGeneration(config).eval()


@pytest.fixture(scope="module")
def folder(
    model: VaswaniForConditionalGeneration,
    tokenizer: VaswaniTokenizer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    path = tmp_path_factory.mktemp("saved") / "model"
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def batch(tokenizer: VaswaniTokenizer) -> dict[str, torch.Tensor]:
    encoded = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    decoder_input_ids = torch.tensor([[1, 5, 6, 7], [1, 8, 9, 10]]).repeat(2, 1)
    return {**encoded, "decoder_input_ids": decoder_input_ids}


@pytest.fixture(scope="module")
def expected(
    model: VaswaniForConditionalGeneration, batch: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """What the model in memory gives."""
    with torch.no_grad():
        return {
            "logits": model(**batch).logits,
            "hidden": model.model(**batch).last_hidden_state,
            "generated": model.generate(batch["input_ids"], max_new_tokens=8),
        }


def load_elsewhere(
    folder: Path, batch: dict[str, torch.Tensor], work: Path, again: Path | None = None
) -> tuple[dict, dict[str, torch.Tensor]]:
    """The report and the tensors of an interpreter without the package."""
    save_file({name: value.contiguous() for name, value in batch.items()}, work / "inputs")
    report = run_elsewhere(
        LOADER, folder, work / "inputs", work / "outputs", again or "", work=work, given=SENTENCES
    )
    return report, load_file(work / "outputs")


@pytest.fixture(scope="module")
def elsewhere(
    folder: Path, batch: dict[str, torch.Tensor], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict, dict[str, torch.Tensor], Path]:
    """One loading without the package, shared by the tests, and what it saved in turn."""
    work = tmp_path_factory.mktemp("elsewhere")
    return (*load_elsewhere(folder, batch, work, again=work / "again"), work / "again")


def test_saved_folder_is_self_contained(folder: Path) -> None:
    check_self_contained(folder)


def test_all_four_auto_classes_load_without_the_package(elsewhere) -> None:
    report, _, _ = elsewhere
    assert report["config"] == "VaswaniConfig"
    assert report["tokenizer"] == "VaswaniTokenizer"
    assert report["base"] == "VaswaniModel"
    assert report["model"] == "VaswaniForConditionalGeneration"
    assert all(module.startswith("transformers_modules.") for module in report["modules"])


def test_remote_code_gives_bit_equal_outputs(elsewhere, expected) -> None:
    _, outputs, _ = elsewhere
    for name in ("logits", "hidden", "generated"):
        assert torch.equal(outputs[name], expected[name]), name


def test_remote_tokenizer_gives_the_same_ids(elsewhere, tokenizer: VaswaniTokenizer) -> None:
    report, _, _ = elsewhere
    assert report["ids"] == tokenizer(SENTENCES)["input_ids"]


def test_generation_settings_travel_with_the_folder(elsewhere, model) -> None:
    report, _, _ = elsewhere
    assert report["scores"] == model.generation_config.num_beams == 4


def test_resaved_remote_copy_loads_again(elsewhere, batch, expected, tmp_path: Path) -> None:
    _, _, again = elsewhere
    check_self_contained(again)
    _, outputs = load_elsewhere(again, batch, tmp_path)
    assert torch.equal(outputs["logits"], expected["logits"])


def test_package_loads_without_trusting_remote_code(folder: Path, batch, expected) -> None:
    """Registered classes come first, so nothing in the folder is executed."""
    assert type(AutoConfig.from_pretrained(folder)) is VaswaniConfig
    base = AutoModel.from_pretrained(folder).eval()
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    assert type(base) is VaswaniModel and type(model) is VaswaniForConditionalGeneration
    with torch.no_grad():
        assert torch.equal(base(**batch).last_hidden_state, expected["hidden"])
        assert torch.equal(model(**batch).logits, expected["logits"])


def test_package_tokenizer_loads_without_trusting_remote_code(
    folder: Path, tokenizer: VaswaniTokenizer
) -> None:
    loaded = AutoTokenizer.from_pretrained(folder)
    assert type(loaded) is VaswaniTokenizer
    assert loaded(SENTENCES)["input_ids"] == tokenizer(SENTENCES)["input_ids"]


def test_other_architectures_work_without_the_package(
    tokenizer: VaswaniTokenizer, batch, tmp_path: Path
) -> None:
    """Each of the Hub files beside the paper's own is there and runs."""
    torch.manual_seed(1)
    config = VaswaniConfig.from_preset(
        "tiny",
        vocab_size=len(tokenizer),
        d_k=24,
        position_encoding="learned",
        max_position_embeddings=48,
        attention_score="additive",
        normalize_before=True,
        activation_function="swish",
        share_encoder_decoder_embeddings=False,
        tie_word_embeddings=False,
        output_bias=True,
    )
    model = VaswaniForConditionalGeneration(config).eval()
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    check_self_contained(tmp_path / "model")
    _, outputs = load_elsewhere(tmp_path / "model", batch, tmp_path)
    with torch.no_grad():
        assert torch.equal(outputs["logits"], model(**batch).logits)
        generated = model.generate(batch["input_ids"], max_new_tokens=8)
    assert torch.equal(outputs["generated"], generated)


def test_base_model_alone_loads_without_the_package(model, folder: Path, tmp_path: Path) -> None:
    """AutoModel must work for a folder that was saved from VaswaniModel, too."""
    model.model.save_pretrained(tmp_path)
    auto_map = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["auto_map"]
    assert auto_map["AutoModel"] == "modeling_vaswani.VaswaniModel"
    assert (tmp_path / "modeling_vaswani.py").is_file()


def test_average_of_checkpoints_loads_without_the_package(
    folder: Path, model, tokenizer: VaswaniTokenizer, batch, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    other = VaswaniForConditionalGeneration(model.config)
    other.save_pretrained(tmp_path / "other")
    tokenizer.save_pretrained(tmp_path / "other")
    average_checkpoints([folder, tmp_path / "other"], tmp_path / "average")
    mean = copy.deepcopy(model)
    with torch.no_grad():
        for weight, second in zip(mean.parameters(), other.parameters(), strict=True):
            weight.copy_((weight.double() + second.double()) / 2)
        expected = mean(**batch).logits
    _, outputs = load_elsewhere(tmp_path / "average", batch, tmp_path)
    assert torch.equal(outputs["logits"], expected)
