"""What weights are packed in for a search: settings, results, and models that cannot be packed."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import tiny_sentences
from peft import LoraConfig, get_peft_model
from tiny_model import VARIANTS, tiny_model
from torch import Tensor

from vaswani import VaswaniForConditionalGeneration
from vaswani.cli import main
from vaswani.errors import InputError
from vaswani.packed_encoder_vaswani import packed_encoding
from vaswani.prepacked_vaswani import packed_bytes
from vaswani.translation import Translator

PACKED = ["float32", "float16-weights", "int8", "auto"]
# Of scores, in nats. Rounding to float16 changes a weight by 1/2048 at most, to 8 bits by 1/254 of
# the largest of its row, and errors of many weights add up to less than their sum.
TOLERANCES = {"float32": 1e-4, "float16-weights": 5e-3, "int8": 0.15, "auto": 5e-3}
SENTENCES = [
    "The baker sees the child.",
    "The Kind finds the Lehrer.",
    "The teacher greets the baker.",
]


def search(model: Any, tokenizer: Any = None, **settings: Any) -> Any:
    """The outcome of a search for a padded batch."""
    if tokenizer is None:
        ids = torch.tensor([[5, 6, 7, 8, 2], [9, 8, 2, 0, 0]])
        batch = {"input_ids": ids, "attention_mask": (torch.arange(5) < torch.tensor([[5], [3]]))}
    else:
        batch = dict(tokenizer(SENTENCES, return_tensors="pt", padding=True))
    settings = {"num_beams": 3, "max_new_tokens": 12, "return_dict_in_generate": True} | settings
    return model.generate(**batch, **settings)


def plain_search(model: Any, tokenizer: Any = None, **settings: Any) -> Any:
    """The same by calls of the model: a cache that the caller asks for keeps packed steps away."""
    return search(model, tokenizer, cache_implementation="dynamic", **settings)


@pytest.mark.parametrize("precision", PACKED)
def test_a_trained_model_gives_the_tokens_of_plain_steps(
    precision: str, copying_model: Any, tiny_tokenizer: Any
) -> None:
    model = copying_model
    plain = plain_search(model, tiny_tokenizer)
    found = search(model, tiny_tokenizer, decoding_precision=precision)
    assert found.sequences.equal(plain.sequences)
    torch.testing.assert_close(
        found.sequences_scores, plain.sequences_scores, atol=TOLERANCES[precision], rtol=0.0
    )
    assert packed_bytes(model) > 0


def test_each_precision_is_really_used(copying_model: Any, tiny_tokenizer: Any) -> None:
    found = {
        name: search(copying_model, tiny_tokenizer, decoding_precision=name).sequences_scores
        for name in PACKED
    }
    assert not found["float32"].equal(found["float16-weights"])
    assert not found["float32"].equal(found["int8"])
    assert not found["int8"].equal(found["float16-weights"])
    default = search(copying_model, tiny_tokenizer).sequences_scores
    assert default.equal(found["float32"])
    assert any(found["auto"].equal(found[name]) for name in ("float32", "float16-weights"))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("precision", ["float16-weights", "int8"])
def test_any_architecture_is_searched_with(precision: str, variant: str) -> None:
    """An output of one token, whose score no other token can have."""
    model = tiny_model(**VARIANTS[variant])
    limits = {"max_new_tokens": 1, "num_return_sequences": 3}
    plain = plain_search(model, **limits)
    found = search(model, decoding_precision=precision, **limits)
    torch.testing.assert_close(
        found.sequences_scores, plain.sequences_scores, atol=TOLERANCES[precision], rtol=0.0
    )


@pytest.mark.parametrize("precision", PACKED)
def test_a_sentence_alone_is_translated_as_in_a_batch(
    precision: str, copying_model: Any, tiny_tokenizer: Any
) -> None:
    translator = Translator(copying_model, tiny_tokenizer, precision=precision)
    sentences = tiny_sentences()[::40]
    together = translator.translate(sentences)
    alone = [translator.translate([sentence])[0] for sentence in sentences]
    assert [x.text for x in together] == [x.text for x in alone]
    scores = [torch.tensor([x.score for x in found]) for found in (together, alone)]
    torch.testing.assert_close(*scores, atol=1e-4, rtol=0.0)


def optimizer_step(model: Any) -> None:
    model.lm_head.weight.square().sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.3).step()


def other_weights(model: Any) -> None:
    model.load_state_dict({name: 1.5 * x for name, x in model.state_dict().items()})


def write_through_data(model: Any) -> None:
    model.get_decoder().layers[0].feed_forward.fc1.weight.data += 1.0


def write_in_inference(model: Any) -> None:
    with torch.inference_mode():
        model.get_decoder().layers[1].self_attn.v_proj.weight.mul_(-2.0)


def scale_a_norm(model: Any) -> None:
    model.get_decoder().layers[0].final_layer_norm.weight.data *= 3.0


def encoder_write_through_data(model: Any) -> None:
    model.get_encoder().layers[0].feed_forward.fc2.weight.data += 1.0


def resize(model: Any) -> None:
    torch.manual_seed(1)
    model.resize_token_embeddings(60, mean_resizing=False)


def merge_adapter(model: Any) -> None:
    torch.manual_seed(1)
    settings = {"target_modules": ["q_proj", "fc2"], "init_lora_weights": False}
    adapted = get_peft_model(model, LoraConfig(task_type="SEQ_2_SEQ_LM", **settings))
    assert adapted.merge_and_unload() is model


def there_and_back(model: Any) -> None:
    model.to(torch.bfloat16).to(torch.float32)


CHANGES = [optimizer_step, other_weights, write_through_data, write_in_inference, scale_a_norm]
CHANGES += [encoder_write_through_data, resize, merge_adapter, there_and_back]


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("change", CHANGES)
def test_packed_weights_follow(change: Callable[[Any], None], precision: str) -> None:
    model = tiny_model()
    before = search(model, decoding_precision=precision).sequences_scores
    change(model)
    found = search(model, decoding_precision=precision)
    # A copy has nothing packed yet.
    fresh = search(copy.deepcopy(model), decoding_precision=precision)
    assert found.sequences.equal(fresh.sequences)
    assert found.sequences_scores.equal(fresh.sequences_scores)
    assert not found.sequences_scores.equal(before)
    if precision == "float32":
        plain = plain_search(model).sequences_scores
        torch.testing.assert_close(found.sequences_scores, plain, atol=1e-4, rtol=1e-4)


def encoded(model: Any, **settings: Any) -> tuple[Tensor | None, Tensor]:
    """A padded batch encoded for a search in 8 bits, if it may be, and by the encoder's call."""
    ids = torch.tensor([[5, 6, 7, 8, 2], [9, 8, 2, 0, 0]])
    kwargs = {"attention_mask": (ids != 0).long(), "use_cache": True}
    config = copy.deepcopy(model.generation_config)
    settings = {"decoding_precision": "int8"} | settings
    config.update(allow_custom_entries=True, **settings)
    with torch.no_grad():
        found = packed_encoding(model, ids, kwargs, "input_ids", config)
        own = model.get_encoder()(ids, attention_mask=kwargs["attention_mask"])
    return None if found is None else found.last_hidden_state, own.last_hidden_state


@pytest.mark.parametrize("variant", VARIANTS)
def test_packed_encoder_gives_what_the_encoder_gives(variant: str) -> None:
    model = tiny_model(**VARIANTS[variant])
    found, own = encoded(model)
    if model.config.attention_score == "additive" or model.config.hard_attention:
        assert found is None
        return
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    error = (found - own)[real].norm() / own[real].norm()
    # Two layers of products in 8 bits, each with errors of about 1 %.
    assert 0 < error < 0.05


def hook(model: Any) -> None:
    model.get_encoder().layers[0].self_attn.register_forward_hook(lambda *_: None)


def train_on(model: Any) -> None:
    model.get_encoder().train()


def replace_a_layer(model: Any) -> None:
    model.get_encoder().layers[0].feed_forward.fc1.forward = lambda states: states


@pytest.mark.parametrize("change", [hook, train_on, replace_a_layer])
def test_packed_encoder_keeps_away_from_changed_modules(change: Callable[[Any], None]) -> None:
    model = tiny_model(encoder_ffn_dim=32)
    assert encoded(model)[0] is not None
    change(model)
    assert encoded(model)[0] is None


@pytest.mark.parametrize(
    "settings",
    [
        {"num_beams": 1},
        {"do_sample": True},
        {"output_attentions": True},
        {"cache_implementation": "dynamic"},
        {"decoding_precision": "float16-weights"},
    ],
    ids=str,
)
def test_packed_encoder_is_for_beam_search_in_8_bits(settings: dict[str, Any]) -> None:
    model = tiny_model()
    assert encoded(model, **settings)[0] is None


@pytest.mark.parametrize("precision", PACKED)
def test_what_cannot_be_packed_is_searched_with_as_it_is(precision: str) -> None:
    def assert_plain(model: Any) -> None:
        found = search(model, decoding_precision=precision)
        plain = plain_search(model)
        assert found.sequences.equal(plain.sequences)
        assert found.sequences_scores.equal(plain.sequences_scores)

    assert_plain(tiny_model().to(torch.bfloat16))
    assert_plain(tiny_model().to(torch.float64))
    adapter = LoraConfig(task_type="SEQ_2_SEQ_LM", target_modules=["q_proj"])
    assert_plain(get_peft_model(tiny_model(), adapter).eval())


def test_ensembles_are_searched_with_as_they_are(copying_model: Any, tiny_tokenizer: Any) -> None:
    models = [copying_model, copy.deepcopy(copying_model)]
    plain = Translator(models, tiny_tokenizer).translate(SENTENCES)
    assert Translator(models, tiny_tokenizer, precision="int8").translate(SENTENCES) == plain


def test_a_setting_is_saved_only_if_it_was_made(tmp_path: Path) -> None:
    model = tiny_model()
    search(model, decoding_precision="int8")
    model.save_pretrained(tmp_path / "plain")
    model.generation_config.decoding_precision = "int8"
    model.save_pretrained(tmp_path / "set")
    settings = [
        json.loads((tmp_path / name / "generation_config.json").read_text())
        for name in ("plain", "set")
    ]
    assert "decoding_precision" not in settings[0]
    assert settings[1]["decoding_precision"] == "int8"
    wanted = search(model).sequences_scores
    again = VaswaniForConditionalGeneration.from_pretrained(tmp_path / "set")
    assert search(again).sequences_scores.equal(wanted)
    other = VaswaniForConditionalGeneration.from_pretrained(tmp_path / "plain")
    assert not search(other).sequences_scores.equal(wanted)
    assert search(other, decoding_precision="int8").sequences_scores.equal(wanted)


@pytest.mark.parametrize("wrong", ["int4", 8, ""])
def test_unknown_precisions_are_refused(
    wrong: Any, copying_model: Any, tiny_tokenizer: Any
) -> None:
    with pytest.raises(ValueError, match="`decoding_precision` must be one of float32, float16-"):
        search(copying_model, tiny_tokenizer, decoding_precision=wrong)
    with pytest.raises(InputError, match="`precision` must be one of float32, float16-weights"):
        Translator(copying_model, tiny_tokenizer, precision=wrong)


def test_translator_lets_the_folder_choose_unless_it_is_told(
    tmp_path: Path, copying_model: Any, tiny_tokenizer: Any
) -> None:
    def scores(**settings: Any) -> Tensor:
        translator = Translator.from_pretrained(tmp_path, device="cpu", **settings)
        return torch.tensor([found.score for found in translator.translate(SENTENCES)])

    copying_model.generation_config.decoding_precision = "int8"
    copying_model.save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    assert scores().equal(scores(precision="int8"))
    assert not scores().equal(scores(precision="float32"))
    translator = Translator.from_pretrained(tmp_path, precision="bfloat16", device="cpu")
    assert translator.model.dtype == torch.bfloat16


def test_the_command_has_the_translators_precisions(
    tmp_path: Path, copying_model: Any, tiny_tokenizer: Any, capsys: Any
) -> None:
    folder, text = tmp_path / "model", tmp_path / "text"
    copying_model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    text.write_text("\n".join(SENTENCES))
    for precision in [*PACKED, "bfloat16"]:
        words = ["--model", str(folder), "--input", str(text), "--device", "cpu"]
        output = tmp_path / precision
        words += ["--output", str(output), "--format", "jsonl", "--precision", precision]
        assert main(["translate", *words]) == 0
        found = [json.loads(line)["score"] for line in output.read_text().splitlines()]
        translator = Translator.from_pretrained(folder, device="cpu", precision=precision)
        assert found == [translation.score for translation in translator.translate(SENTENCES)]
    capsys.readouterr()
    assert main(["translate", "--model", str(folder), "--precision", "int4"]) == 2
    assert "int4" in capsys.readouterr().err
