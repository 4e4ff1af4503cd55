"""Caches of keys and values change nothing, whatever the architecture; nor does compiling."""

from typing import Any

import pytest
import torch
from tiny_model import decisive_model, padded, sentences, tiny_model

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "dot": {"attention_score": "dot"},
    "additive": {"attention_score": "additive"},
    "hard": {"hard_attention": True},
    "hard_additive": {"attention_score": "additive", "hard_attention": True, "d_k": 3},
    "learned": {"position_encoding": "learned", "max_position_embeddings": 12},
    "halves": {"position_layout": "halves"},
    "pre_norm": {"normalize_before": True, "activation_function": "gelu"},
    "narrow_keys": {"d_k": 2},
    "separate": {
        "encoder_vocab_size": 12,
        "encoder_pad_token_id": 7,
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
    },
}
SOURCES = [[5, 6, 4, 8, 2], [4, 2], [6, 8, 5, 2]]
EXACT = {"atol": 1e-12, "rtol": 0.0}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_logits_with_a_cache_equal_those_without(architecture: str) -> None:
    model = tiny_model(**ARCHITECTURES[architecture]).double()
    input_ids, mask = padded(SOURCES, pad=model.config.source_pad_token_id)
    source = {"input_ids": input_ids, "attention_mask": mask}
    decoder_ids = torch.tensor([[1, 5, 6, 7, 8], [1, 9, 4, 4, 10], [1, 30, 2, 11, 12]])
    with torch.no_grad():
        full = model(**source, decoder_input_ids=decoder_ids).logits
        cache, steps = None, []
        for token in decoder_ids.split(1, dim=1):
            output = model(**source, decoder_input_ids=token, cache=cache, use_cache=True)
            cache = output.cache
            steps.append(output.logits)
    torch.testing.assert_close(torch.cat(steps, dim=1), full, **EXACT)


def assert_caches_agree(model: Any, input_ids: torch.Tensor, **options: Any) -> None:
    """Trial 27: the same tokens without a cache, with a growing one and with one of fixed size."""

    def found(**cache: Any) -> list[list[int]]:
        mask = (input_ids != model.config.source_pad_token_id).long()
        return model.generate(input_ids, attention_mask=mask, **options, **cache).tolist()

    expected = found(use_cache=False)
    assert found(use_cache=True) == expected
    assert found(cache_implementation="static") == expected


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("num_beams", [1, 3])
def test_caches_do_not_change_a_translation(architecture: str, num_beams: int) -> None:
    model = decisive_model(**ARCHITECTURES[architecture])
    input_ids, _ = padded(SOURCES, pad=model.config.source_pad_token_id)
    assert_caches_agree(model, input_ids, num_beams=num_beams, max_new_tokens=6)


@pytest.mark.parametrize("d_k", [16, 32])
@pytest.mark.parametrize("num_beams", [1, 4])
def test_caches_fit_the_heads_of_table_3_b(d_k: int, num_beams: int) -> None:
    """Keys of 16 or 32 features beside values of 64, which a cache of fixed size must hold."""
    torch.manual_seed(0)
    small = {"vocab_size": 40, "encoder_layers": 1, "decoder_layers": 2}
    small |= {"encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    config = VaswaniConfig.from_preset("base", d_k=d_k, **small)
    assert config.head_sizes(8) == (d_k, 64)
    # Else transformers would make a cache ahead of time with d_model / h features for both.
    assert config.qk_head_dim == d_k and VaswaniConfig.from_preset("base").qk_head_dim is None
    model = VaswaniForConditionalGeneration(config).double().eval()
    input_ids, _ = padded(sentences(40, [6, 3]))
    assert_caches_agree(model, input_ids, num_beams=num_beams, max_new_tokens=5)


@pytest.mark.parametrize("architecture", ["hard_additive", "learned", "pre_norm"])
def test_what_departs_from_the_paper_is_one_graph(architecture: str) -> None:
    """`torch.compile` finds no break, and what it traces computes the same."""
    # It counts models compiled before, other tests' too, and gives up at eight.
    torch.compiler.reset()
    model = tiny_model(**ARCHITECTURES[architecture]).double()
    input_ids, mask = padded(SOURCES, pad=model.config.source_pad_token_id)
    batch = {"input_ids": input_ids, "attention_mask": mask}
    batch["decoder_input_ids"] = torch.tensor([[1, 5, 6], [1, 9, 4], [1, 30, 2]])
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    with torch.no_grad():
        expected = model(**batch, use_cache=False).logits
        got = compiled(**batch, use_cache=False).logits
    torch.testing.assert_close(got, expected, **EXACT)
