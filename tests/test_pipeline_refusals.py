"""VaswaniTranslationPipeline: what it refuses and how, and input that is nearly refused."""

from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import BartConfig, BartForConditionalGeneration, GenerationConfig
from transformers.pipelines.pt_utils import KeyDataset
from two_sided import model_for, paired

from vaswani import (
    VaswaniConfig,
    VaswaniForConditionalGeneration,
    VaswaniModel,
    VaswaniTokenizer,
    VaswaniTranslationPipeline,
)

TEXT = "The baker sees the child."


@pytest.fixture
def translate(
    copying_model: VaswaniForConditionalGeneration, tiny_tokenizer: VaswaniTokenizer
) -> VaswaniTranslationPipeline:
    return VaswaniTranslationPipeline(copying_model, tiny_tokenizer)


def test_tokenizer_with_more_entries_than_rows_is_refused(
    tiny_config: VaswaniConfig, tiny_tokenizer: VaswaniTokenizer
) -> None:
    entries = len(tiny_tokenizer)
    smaller = VaswaniConfig(**tiny_config.to_dict() | {"vocab_size": entries - 1})
    model = VaswaniForConditionalGeneration(smaller)
    rule = rf"^`tokenizer` must .* source table, got {entries} and {entries - 1}\. Use the "
    with pytest.raises(ValueError, match=rule + r".*`model.resize_token_embeddings`"):
        VaswaniTranslationPipeline(model, tiny_tokenizer)
    model.resize_token_embeddings(entries)
    VaswaniTranslationPipeline(model, tiny_tokenizer)


def test_each_side_is_held_against_its_own_table() -> None:
    tokenizer = paired()
    model = model_for(tokenizer)
    tokenizer.add_tokens(["new"], side="target")
    entries = len(tokenizer.target_tokenizer)
    with pytest.raises(ValueError, match=rf"target table, got {entries} and {entries - 1}\."):
        VaswaniTranslationPipeline(model, tokenizer)
    model.resize_token_embeddings(entries, side="target")
    VaswaniTranslationPipeline(model, tokenizer)


def test_wrong_models_are_named_by_their_class(
    tiny_config: VaswaniConfig, tiny_tokenizer: VaswaniTokenizer
) -> None:
    sizes = dict.fromkeys(("encoder_layers", "decoder_layers"), 1)
    other = BartConfig(vocab_size=400, d_model=16, encoder_ffn_dim=16, decoder_ffn_dim=16, **sizes)
    for model in (VaswaniModel(tiny_config), BartForConditionalGeneration(other)):
        rule = rf"^`model` must be a .*, got {type(model).__name__}\. .*\.\Z"
        with pytest.raises(TypeError, match=rule):
            VaswaniTranslationPipeline(model, tiny_tokenizer)


def test_empty_column_of_a_data_set_gives_nothing(translate: VaswaniTranslationPipeline) -> None:
    nothing = Dataset.from_dict({"source": []})
    assert list(translate(KeyDataset(nothing, "source"))) == []
    assert list(translate(KeyDataset(nothing, "source"), batch_size=4)) == []


@pytest.mark.parametrize("wanted", [0, -1, 2.0, 1.5, "2", True, None])
@pytest.mark.parametrize(
    "inputs", [TEXT, " ", [TEXT], iter([TEXT])], ids=["text", "blank", "list", "iterator"]
)
def test_number_of_translations_must_be_a_positive_integer(
    translate: VaswaniTranslationPipeline, wanted: object, inputs: Any
) -> None:
    """Refused by the call, not when the first of its results is taken."""
    with pytest.raises(ValueError) as caught:
        translate(inputs, num_return_sequences=wanted)
    assert str(caught.value).startswith(
        f"`num_return_sequences` must be an integer of at least 1, got {wanted!r}. "
    )


def test_number_of_translations_of_a_generation_config_is_checked_too(
    translate: VaswaniTranslationPipeline,
) -> None:
    config = GenerationConfig()
    config.num_return_sequences = 0
    with pytest.raises(ValueError, match=r"`num_return_sequences` must be an integer .* got 0\."):
        translate(TEXT, generation_config=config)


@pytest.mark.parametrize("config", [{}, {"num_beams": 2}, 3, "greedy"])
def test_what_is_no_generation_config_is_refused_by_type(
    translate: VaswaniTranslationPipeline, config: object
) -> None:
    rule = rf"`generation_config` must be a GenerationConfig, got .* {type(config).__name__}\. Make"
    with pytest.raises(TypeError, match=rule):
        translate(TEXT, generation_config=config)
    with pytest.raises(TypeError, match=rule):
        VaswaniTranslationPipeline(translate.model, translate.tokenizer, generation_config=config)(
            TEXT
        )


@pytest.mark.parametrize("beams", [1, 4])
def test_without_an_end_token_every_output_is_cut(
    translate: VaswaniTranslationPipeline, beams: int
) -> None:
    settings: dict[str, Any] = {"eos_token_id": None, "max_new_tokens": 12, "num_beams": beams}
    source = translate.tokenizer(TEXT, return_tensors="pt")
    ids = translate.model.generate(**source, **settings)[0, 1:]
    (found,) = translate(
        TEXT, return_tensors=True, return_scores=True, return_truncated=True, **settings
    )
    assert found["truncated"] is True
    assert found["translation_token_ids"].tolist() == ids.tolist()
    assert len(ids) == 12
    assert found["score"] < 0


def test_answers_have_no_dropout_after_training_between_calls(
    translate: VaswaniTranslationPipeline,
) -> None:
    """Nor where training goes on while results of a generator are taken one by one."""
    for module in translate.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.9
    expected = translate([TEXT], return_scores=True)
    translate.model.train()
    assert translate([TEXT], return_scores=True) == expected
    results = iter(translate((text for text in [TEXT, TEXT]), return_scores=True))
    translate.model.train()
    assert [next(results), next(results)] == [expected, expected]
