"""Models whose linear layers are in 8 bits, by what transformers and torch offer on a CPU."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_model import padded, tiny_model
from training_material import reversal_pairs, tokenizer
from training_material import tiny_model as reversal_model
from transformers import AutoModelForSeq2SeqLM, TorchAoConfig

from vaswani import VaswaniForConditionalGeneration
from vaswani.translation import Translator

# 8 bits hold a weight to 1/254 of the largest of its row, and a sum of many errs by less.
TOLERANCE = 0.05
WIDE: dict[str, Any] = {"d_model": 64, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128}
LAYERS = 2 * 6 + 2 * 10


def batch() -> dict[str, torch.Tensor]:
    ids, mask = padded([[5, 6, 7, 8, 2], [9, 8, 2]])
    labels = torch.tensor([[4, 5, 2], [7, 2, -100]])
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def outputs(model: Any, **settings: Any) -> Any:
    with torch.no_grad():
        return model(**batch(), **settings)


def assert_close(model: Any, exact: Any) -> None:
    """The scores err by less than the tolerance, and the loss without logits is the same loss."""
    found, wanted = outputs(model), outputs(exact)
    error = (found.logits - wanted.logits).norm() / wanted.logits.norm()
    assert 0 < error < TOLERANCE
    torch.testing.assert_close(found.loss, wanted.loss, atol=TOLERANCE, rtol=0.0)
    torch.testing.assert_close(outputs(model, return_logits=False).loss, found.loss)


def torchao_configs() -> list[Any]:
    reason = "torchao prints a page wherever it is installed: `make test-slow` keeps it apart"
    quantization = pytest.importorskip("torchao.quantization", reason=reason)
    return [
        quantization.Int8WeightOnlyConfig(),
        quantization.Int8DynamicActivationInt8WeightConfig(),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1], ids=["weights", "weights and activations"])
def test_torchao_loads_generates_saves_and_loads_again(number: int, tmp_path: Path) -> None:
    config = torchao_configs()[number]
    exact = tiny_model(**WIDE)
    exact.save_pretrained(tmp_path / "float32")
    model = AutoModelForSeq2SeqLM.from_pretrained(
        tmp_path / "float32", quantization_config=TorchAoConfig(config)
    )
    layers = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
    assert sum("Int8" in type(layer.weight).__name__ for layer in layers) == LAYERS
    assert model.lm_head.weight is model.model.encoder.embed_tokens.weight
    assert model.model.decoder.embed_tokens.weight is model.lm_head.weight
    assert_close(model, exact)
    source = {name: batch()[name] for name in ("input_ids", "attention_mask")}
    found = model.generate(**source, num_beams=3, max_new_tokens=8)
    assert found.shape[0] == 2

    model.save_pretrained(tmp_path / "int8")
    size = {f: (tmp_path / f / "model.safetensors").stat().st_size for f in ("float32", "int8")}
    assert size["int8"] < 0.45 * size["float32"]
    again = VaswaniForConditionalGeneration.from_pretrained(tmp_path / "int8")
    assert torch.equal(outputs(again).logits, outputs(model).logits)
    assert torch.equal(again.generate(**source, num_beams=3, max_new_tokens=8), found)


@pytest.mark.slow
def test_torchao_may_quantize_the_output_projection_too() -> None:
    """`quantize_` leaves the class of the layer and changes that of its weight."""
    config = torchao_configs()[0]
    from torchao.quantization import quantize_

    exact = tiny_model(**WIDE)
    model = copy.deepcopy(exact)
    quantize_(model, config)
    assert "Int8" in type(model.lm_head.weight).__name__
    assert_close(model, exact)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_dynamic_quantization_of_torch_translates_and_scores() -> None:
    exact = tiny_model(**WIDE)
    model = torch.ao.quantization.quantize_dynamic(copy.deepcopy(exact), {torch.nn.Linear})
    # The copy of the shared table that the output projection now has is in 8 bits as well.
    assert type(model.lm_head) is not torch.nn.Linear
    assert_close(model, exact)
    small = torch.ao.quantization.quantize_dynamic(reversal_model().eval(), {torch.nn.Linear})
    sources = [source for source, _ in reversal_pairs(4)]
    assert len(Translator(small, tokenizer()).translate(sources)) == 4


def test_a_gradient_comes_through_a_projection_of_any_class() -> None:
    """An adapter trains below a quantized projection: the loss takes the plain path there."""
    model = tiny_model(**WIDE).train()
    plain = model(**batch(), return_logits=False).loss
    model.lm_head = torch.nn.Sequential(copy.deepcopy(model.lm_head))
    other = model(**batch(), return_logits=False).loss
    torch.testing.assert_close(other, plain)
    other.backward()
    assert model.model.decoder.layers[0].feed_forward.fc1.weight.grad.abs().max() > 0
