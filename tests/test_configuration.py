"""The configuration: its rules, their messages, the presets and what is kept when saved."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub.errors import (
    StrictDataclassClassValidationError,
    StrictDataclassFieldValidationError,
)
from tiny_model import VARIANTS, tiny_config

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration, presets

RULES: list[tuple[dict[str, Any], str]] = [
    *(
        ({name: value}, rf"`{name}` must be at least 1, got {value}\.")
        for name in (
            "vocab_size",
            "d_model",
            "encoder_layers",
            "decoder_layers",
            "encoder_attention_heads",
            "decoder_attention_heads",
            "encoder_ffn_dim",
            "decoder_ffn_dim",
            "d_k",
            "d_v",
            "max_position_embeddings",
        )
        for value in (0, -3)
    ),
    *(
        ({name: value}, rf"`{name}` must be a probability in \[0, 1\), got {value}\.")
        for name in ("dropout", "attention_dropout", "activation_dropout", "label_smoothing")
        for value in (-0.1, 1.0, 1.5, float("nan"))
    ),
    *(
        (
            {"layer_norm_eps": value},
            rf"`layer_norm_eps` must be a positive number, got {value}\. \w",
        )
        for value in (0, -1e-06, float("nan"))
    ),
    (
        {"smoothing_formula": "torch"},
        r"`smoothing_formula` must be one of uniform, others, others_not_pad, got 'torch'\.",
    ),
    (
        {"d_model": 34},
        r"`d_model` must be a multiple of `encoder_attention_heads`, got 34 and 4\. .*`d_k`.*`d_v`",
    ),
    (
        {"decoder_attention_heads": 3},
        r"`d_model` must be a multiple of `decoder_attention_heads`, got 32 and 3\. .*`d_k`.*`d_v`",
    ),
    *(
        (
            {"encoder_attention_heads": 3, "decoder_attention_heads": 3, given: 10},
            rf"`{left_out}` must be set beside `{given}` where it does not follow from `d_model` / "
            r"`encoder_attention_heads`, got None with 32 / 3\.",
        )
        for given, left_out in (("d_k", "d_v"), ("d_v", "d_k"))
    ),
    (
        {"decoder_attention_heads": 5, "d_k": 6},
        r"`d_v` must be set beside `d_k` .* `decoder_attention_heads`, got None with 32 / 5\.",
    ),
    *(
        ({name: "other"}, rf"`{name}` must be one of {words}\b.*, got 'other'\.")
        for name, words in (
            ("position_encoding", "sinusoidal, learned"),
            ("position_layout", "interleaved, halves"),
            ("attention_score", "scaled_dot_product, dot, additive"),
            ("activation_function", "gelu"),
        )
    ),
    ({"activation_function": "prelu"}, r"`activation_function` must be .*, got 'prelu'\."),
    (
        {"tie_word_embeddings": False},
        r"`tie_word_embeddings` must be True when `share_encoder_decoder_embeddings` is, "
        r"got False\. Set ",
    ),
    (
        {"encoder_vocab_size": 41},
        r"`encoder_vocab_size` must equal `vocab_size` .*, got 41 and 40\. "
        r"Set `share_encoder_decoder_embeddings=False`",
    ),
    *(
        ({name: value}, rf"`{name}` must be at least 0 and below .* 40, got {value}\.")
        for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
        for value in (-1, 40)
    ),
    ({"unk_token_id": 40}, r"`unk_token_id` must be at least 0 and below .* 40, got 40\."),
    ({"eos_token_id": [2, 77]}, r"`eos_token_id` must be at least 0 and below .* 40, got 77\."),
    (
        {
            "encoder_vocab_size": 20,
            "encoder_pad_token_id": 20,
            "share_encoder_decoder_embeddings": False,
        },
        r"`encoder_pad_token_id` must be at least 0 and below .* 20, got 20\.",
    ),
]


@pytest.mark.parametrize(("change", "message"), RULES, ids=lambda value: str(value)[:50])
def test_a_broken_rule_names_field_rule_value_and_remedy(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(StrictDataclassClassValidationError, match=message) as caught:
        tiny_config(**change)
    assert isinstance(caught.value.__cause__, ValueError)
    assert "\n" not in str(caught.value.__cause__)


def test_padding_beyond_the_other_vocabulary_is_no_warning_of_transformers(monkeypatch) -> None:
    """An id of the source may exceed every id of the target; any other stray id still warns."""
    said: list[str] = []
    monkeypatch.setattr("transformers.configuration_utils.logger.warning_once", said.append)
    sides = {"encoder_vocab_size": 45, "share_encoder_decoder_embeddings": False}
    config = tiny_config(**sides, encoder_pad_token_id=44)
    assert not said and config.encoder_pad_token_id == 44
    tiny_config(**sides, encoder_pad_token_id=44, language_token_id=44)
    assert len(said) == 1 and "language_token_id must be `None`" in said[0]


WRONG_TYPES = [
    {"d_model": "512"},
    {"d_model": 512.0},
    {"d_model": True},
    {"encoder_layers": None},
    {"encoder_vocab_size": "40"},
    {"d_k": 8.0},
    {"dropout": "0.1"},
    {"label_smoothing": None},
    {"attention_bias": 1},
    {"output_bias": "yes"},
    {"smoothing_formula": 3},
    {"position_encoding": None},
    {"position_layout": 1},
    {"attention_score": True},
    {"activation_function": None},
    {"hard_attention": "yes"},
    {"normalize_before": 0},
    {"tie_word_embeddings": "true"},
    {"pad_token_id": None},
    {"eos_token_id": "</s>"},
]


@pytest.mark.parametrize("change", WRONG_TYPES, ids=str)
def test_a_wrong_type_is_refused(change: dict[str, Any]) -> None:
    """On creation and on assignment."""
    ((name, value),) = change.items()
    with pytest.raises(StrictDataclassFieldValidationError, match=f"'{name}'"):
        tiny_config(**change)
    config = tiny_config()
    with pytest.raises(StrictDataclassFieldValidationError, match=f"'{name}'"):
        setattr(config, name, value)


def test_a_rule_broken_by_assignment_is_found_on_saving(tmp_path: Path) -> None:
    config = tiny_config()
    config.d_model = 34
    with pytest.raises(StrictDataclassClassValidationError, match="got 34 and 4"):
        config.save_pretrained(tmp_path)
    assert not (tmp_path / "config.json").exists()


@pytest.mark.parametrize(
    ("keyword", "field"),
    [
        ("d_modl", "d_model"),
        ("encoder_layer", "encoder_layers"),
        ("vocabsize", "vocab_size"),
        ("dropuot", "dropout"),
        ("decoder_ffn_dims", "decoder_ffn_dim"),
        ("label_smooting", "label_smoothing"),
        ("layernorm_eps", "layer_norm_eps"),
    ],
)
def test_a_keyword_close_to_a_field_warns(keyword: str, field: str) -> None:
    with pytest.warns(UserWarning, match=rf"`{keyword}` .*`{field}`"):
        config = tiny_config(**{keyword: 3})
    assert getattr(config, field) == getattr(tiny_config(), field)


@pytest.mark.parametrize("keyword", ["auto_map", "num_labels", "a_newer_field", "hidden_size"])
def test_other_keywords_do_not_warn(keyword: str) -> None:
    value = {"auto_map": {}, "num_labels": 3, "hidden_size": 64}.get(keyword, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = VaswaniConfig(**{keyword: value})
    assert getattr(config, keyword) == value


def test_generic_names_are_the_papers_fields() -> None:
    config = VaswaniConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4)
    assert (config.d_model, config.encoder_layers, config.encoder_attention_heads) == (64, 2, 4)
    config.hidden_size = 32
    assert config.d_model == 32


@pytest.mark.parametrize("variant", VARIANTS)
def test_configuration_survives_saving(variant: str, tmp_path: Path) -> None:
    config = tiny_config(**VARIANTS[variant])
    config.save_pretrained(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = VaswaniConfig.from_pretrained(tmp_path)
    assert again.to_dict() == config.to_dict()
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "vaswani"


def test_unequal_stacks_size_the_cache_of_the_decoder() -> None:
    config = tiny_config(encoder_layers=1, decoder_layers=3, decoder_attention_heads=8)
    assert config.get_text_config(decoder=True).num_hidden_layers == 3
    assert config.get_text_config(decoder=True).num_attention_heads == 8


def test_defaults_are_the_papers_base_model() -> None:
    """Table 3, first row, and section 5.1's vocabulary."""
    config = VaswaniConfig()
    assert config.to_dict() == VaswaniConfig.from_preset("base").to_dict()
    assert (config.encoder_layers, config.decoder_layers) == (6, 6)
    assert (config.d_model, config.encoder_ffn_dim, config.decoder_ffn_dim) == (512, 2048, 2048)
    assert (config.encoder_attention_heads, config.decoder_attention_heads) == (8, 8)
    assert config.head_sizes(8) == (64, 64)
    assert (config.dropout, config.label_smoothing, config.vocab_size) == (0.1, 0.1, 37_000)
    assert (config.attention_dropout, config.activation_dropout) == (0, 0)
    assert (config.attention_bias, config.output_bias) == (False, False)
    ids = config.pad_token_id, config.bos_token_id, config.eos_token_id, config.unk_token_id
    assert ids == (0, 1, 2, 3)
    assert config.decoder_start_token_id == config.bos_token_id
    assert config.share_encoder_decoder_embeddings and config.tie_word_embeddings
    assert (config.position_encoding, config.position_layout) == ("sinusoidal", "interleaved")
    assert (config.attention_score, config.activation_function) == ("scaled_dot_product", "relu")
    assert (config.normalize_before, config.hard_attention) == (False, False)


@pytest.mark.parametrize(
    ("name", "words", "dropout"), [("big-en-de", 37_000, 0.3), ("big-en-fr", 32_000, 0.1)]
)
def test_big_presets_are_those_of_the_paper(name: str, words: int, dropout: float) -> None:
    """Table 3, last row, and section 6.1 (the English-French model has dropout 0.1)."""
    config = VaswaniConfig.from_preset(name)
    assert (config.encoder_layers, config.decoder_layers) == (6, 6)
    assert (config.d_model, config.encoder_ffn_dim, config.decoder_ffn_dim) == (1024, 4096, 4096)
    assert (config.encoder_attention_heads, config.decoder_attention_heads) == (16, 16)
    assert (config.vocab_size, config.dropout, config.label_smoothing) == (words, dropout, 0.1)


def test_small_preset_is_for_a_cpu() -> None:
    config = VaswaniConfig.from_preset("small")
    assert (config.d_model, config.encoder_layers, config.decoder_layers) == (256, 3, 3)
    assert (config.encoder_attention_heads, config.encoder_ffn_dim) == (4, 1024)


@pytest.mark.parametrize("name", presets())
def test_every_preset_can_be_changed(name: str) -> None:
    config = VaswaniConfig.from_preset(name, vocab_size=50, dropout=0.25)
    assert (config.vocab_size, config.dropout) == (50, 0.25)
    assert VaswaniConfig.from_preset(name).dropout != 0.25  # the preset itself is untouched


def test_presets_are_listed() -> None:
    assert {"base", "big-en-de", "big-en-fr", "small"} <= set(presets())


def test_an_unknown_preset_is_refused_with_the_list() -> None:
    with pytest.raises(ValueError, match=r"must be one of base, big-en-de, .*got 'basis'\."):
        VaswaniConfig.from_preset("basis")


def test_a_broken_preset_override_is_refused() -> None:
    with pytest.raises(StrictDataclassClassValidationError, match="got 510 and 8"):
        VaswaniConfig.from_preset("base", d_model=510)


def test_a_model_is_not_built_from_a_configuration_of_another_kind() -> None:
    with pytest.raises((TypeError, ValueError), match=r"VaswaniConfig|PreTrainedConfig"):
        VaswaniForConditionalGeneration({"d_model": 32})
