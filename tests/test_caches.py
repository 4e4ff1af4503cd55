"""Every kind of cache that transformers has, by name and as an object, in every way to search.

What an architecture changes about caches is in test_modeling_caches.py.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny_model import (
    decisive_model,
    endless_model,
    padded,
    sentences,
    tiny_model,
    with_library_search,
)
from transformers import DynamicCache, EncoderDecoderCache, QuantizedCache, StaticCache
from transformers.utils import is_hqq_available, is_optimum_quanto_available

SOURCES = [[5, 6, 4, 8, 2], [4, 2], [6, 8, 5, 2]]
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"num_beams": 1},
    "sampling": {"num_beams": 1, "do_sample": True},
    "beam": {"num_beams": 3},
    "n_best": {"num_beams": 3, "num_return_sequences": 2},
    "beam_sampling": {"num_beams": 3, "do_sample": True},
}
EXACT = {"atol": 1e-12, "rtol": 0.0}


def growing(model: Any, **options: Any) -> DynamicCache:
    return DynamicCache(config=model.config.get_text_config(decoder=True), **options)


def fixed(model: Any, length: int) -> StaticCache:
    return StaticCache(config=model.config.get_text_config(decoder=True), max_cache_len=length)


def quantized(model: Any, backend: str, **options: Any) -> EncoderDecoderCache:
    config = model.config.get_text_config(decoder=True)
    return EncoderDecoderCache(
        QuantizedCache(backend=backend, config=config, **options), growing(model)
    )


CACHES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "default": lambda model: {},
    "named_dynamic": lambda model: {"cache_implementation": "dynamic"},
    "named_static": lambda model: {"cache_implementation": "static"},
    "dynamic": lambda model: {"cache": EncoderDecoderCache(growing(model), growing(model))},
    "static": lambda model: {"cache": EncoderDecoderCache(fixed(model, 12), fixed(model, 5))},
    "static_target": lambda model: {"cache": EncoderDecoderCache(fixed(model, 12), growing(model))},
    "target_alone": lambda model: {"cache": growing(model)},
    "static_alone": lambda model: {"cache": fixed(model, 12)},
    "old_name": lambda model: {
        "past_key_values": EncoderDecoderCache(growing(model), growing(model))
    },
}


def translate(model: Any, seed: int = 0, **options: Any) -> list[list[int]]:
    input_ids, mask = padded(SOURCES, extra=1)
    torch.manual_seed(seed)
    options = {"max_new_tokens": 8, **options}
    return model.generate(input_ids, attention_mask=mask, **options).tolist()


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("cache", CACHES)
def test_every_cache_gives_the_same_tokens(cache: str, search: str) -> None:
    model = decisive_model(decoder_layers=2)
    expected = translate(model, use_cache=False, **SEARCHES[search])
    # The source has six columns with its padding.
    given = CACHES[cache](model)
    if cache == "static":
        given = {"cache": EncoderDecoderCache(fixed(model, 12), fixed(model, 6))}
    assert translate(model, **given, **SEARCHES[search]) == expected


@pytest.mark.parametrize("cache", ["dynamic", "static_target", "target_alone"])
def test_logits_step_by_step_are_those_of_one_pass(cache: str) -> None:
    """Trial 27, with the cache that the model returns and padding on both sides."""
    model = tiny_model(decoder_layers=3, encoder_layers=1).double()
    input_ids, mask = padded(sentences(40, [7, 3, 5]), left=True)
    decoder_ids = torch.tensor([[1, 5, 6, 7, 8], [1, 9, 4, 4, 10], [1, 30, 2, 11, 12]])
    given = CACHES[cache](model)["cache"]
    source = {"input_ids": input_ids, "attention_mask": mask}
    with torch.no_grad():
        full = model(**source, decoder_input_ids=decoder_ids).logits
        steps = []
        for tokens in decoder_ids.split([3, 1, 1], dim=1):
            output = model(**source, decoder_input_ids=tokens, cache=given, use_cache=True)
            given = output.cache
            steps.append(output.logits)
    torch.testing.assert_close(torch.cat(steps, dim=1), full, **EXACT)
    assert isinstance(given, EncoderDecoderCache)
    assert given.cross_attention_cache.get_seq_length() == 7


@pytest.mark.parametrize("implementation", ["dynamic", "static"])
def test_a_returned_cache_is_gone_on_from(implementation: str) -> None:
    """Four tokens, then four more from where they ended, are the eight of one call.

    The mask tells `generate` that the first four are in the cache, as it does for MarianMT.
    """
    model = endless_model(seed=2)
    input_ids, mask = padded(SOURCES)
    options = {"attention_mask": mask, "num_beams": 1}
    whole = model.generate(input_ids, **options, max_new_tokens=8)
    # A cache of fixed size is made for the whole output.
    size = {"max_cache_len": 9} if implementation == "static" else {}
    first = model.generate(
        input_ids,
        **options,
        **size,
        max_new_tokens=4,
        cache_implementation=implementation,
        return_dict_in_generate=True,
    )
    assert first.sequences.tolist() == whole[:, :5].tolist()
    rest = model.generate(
        input_ids,
        **options,
        decoder_input_ids=first.sequences,
        decoder_attention_mask=torch.ones_like(first.sequences),
        cache=first.cache,
        max_new_tokens=4,
    )
    assert len(whole.unique()) > 2
    assert rest.tolist() == whole.tolist()
    assert first.cache.get_seq_length() == 8


def test_forward_takes_and_returns_caches_under_both_names() -> None:
    """`past_key_values` is what transformers called a cache until 5.24, and reads until 5.40."""
    model = tiny_model()
    input_ids, mask = padded(SOURCES)
    source = {"input_ids": input_ids, "attention_mask": mask}
    with torch.no_grad():
        outputs = []
        for name in ("cache", "past_key_values"):
            first = model(**source, decoder_input_ids=torch.full((3, 2), 5), use_cache=True)
            given = {name: first[name]}
            second = model(**source, decoder_input_ids=torch.full((3, 1), 6), **given)
            assert second[name].get_seq_length() == 3
            outputs.append(second.logits)
    assert torch.equal(*outputs)


@pytest.mark.parametrize("search", ["greedy", "beam", "n_best"])
@pytest.mark.parametrize(
    ("backend", "options"),
    [
        ("fp8", {}),
        pytest.param(
            "quanto",
            {"residual_length": 4},
            marks=pytest.mark.skipif(
                not is_optimum_quanto_available(), reason="needs optimum-quanto"
            ),
        ),
        pytest.param(
            "hqq",
            {"nbits": 8, "axis_key": 1, "axis_value": 1, "q_group_size": 16},
            marks=pytest.mark.skipif(not is_hqq_available(), reason="needs hqq"),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_quantized_caches_follow_the_search(backend: str, options: dict, search: str) -> None:
    """Rounded keys may change words, but in the search of transformers the same ones."""
    ours = tiny_model(d_model=64)
    same = {"length_penalty_type": "power", "length_penalty": 1.0, "early_stopping": True}
    found = [
        translate(model, cache=quantized(model, backend, **options), **SEARCHES[search], **same)
        for model in (ours, with_library_search(ours))
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["quantized", "offloaded", "offloaded_static"])
def test_a_named_cache_that_cannot_be_had_is_refused(name: str) -> None:
    """transformers quantizes no encoder-decoder's cache by name, and offloads from CUDA alone."""
    if name.startswith("offloaded") and torch.cuda.is_available():
        pytest.skip("CUDA is here, and the test below applies")
    with pytest.raises(
        (ValueError, AssertionError), match=r"does not support the quantized cache|CUDA"
    ):
        translate(decisive_model(), cache_implementation=name)


@pytest.mark.gpu
@pytest.mark.parametrize("search", ["greedy", "beam"])
@pytest.mark.parametrize("name", ["offloaded", "offloaded_static"])
def test_an_offloaded_cache_gives_the_same_tokens(name: str, search: str) -> None:
    model = decisive_model().to("cuda")
    input_ids, mask = (tensor.to("cuda") for tensor in padded(SOURCES))
    options = {"attention_mask": mask, "max_new_tokens": 8, **SEARCHES[search]}
    expected = model.generate(input_ids, use_cache=False, **options)
    assert torch.equal(model.generate(input_ids, cache_implementation=name, **options), expected)
