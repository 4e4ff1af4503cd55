"""Attention weights are the model's own, and stand beside the right tokens."""

import pytest
import torch

from vaswani import VaswaniForConditionalGeneration, VaswaniTokenizer
from vaswani.attention_maps import PARTS, read_attention, shown_tokens, token_positions
from vaswani.errors import InputError

SOURCE, TARGET = "The baker sees the child.", "The Lehrer"


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("layer", [0, 1, -1])
def test_weights_are_those_that_the_layer_computed(
    tiny_model: VaswaniForConditionalGeneration, tiny_tokenizer: VaswaniTokenizer, part, layer
) -> None:
    """Seen by a hook on the module itself, which no choice of outputs has a part in."""
    stack = tiny_model.model.encoder if part == "encoder" else tiny_model.model.decoder
    name = "encoder_attn" if part == "cross" else "self_attn"
    seen = []
    attention = getattr(stack.layers[layer], name)
    handle = attention.register_forward_hook(lambda module, inputs, output: seen.append(output[1]))
    found = read_attention(tiny_model, tiny_tokenizer, SOURCE, TARGET, part=part, layer=layer)
    handle.remove()
    torch.testing.assert_close(found.weights, seen[0][0], rtol=0, atol=0)
    assert (found.layer, found.layers, found.part) == (layer % 2, 2, part)


@pytest.mark.parametrize("part", PARTS)
def test_rows_sum_to_1_and_have_a_token_each(tiny_model, tiny_tokenizer, part) -> None:
    found = read_attention(tiny_model, tiny_tokenizer, SOURCE, TARGET, part=part)
    heads = tiny_model.config.decoder_attention_heads
    assert found.weights.shape == (heads, len(found.queries), len(found.keys))
    torch.testing.assert_close(found.weights.sum(-1), torch.ones(found.weights.shape[:2]))


def test_tokens_are_those_that_are_read_or_predicted(tiny_model, tiny_tokenizer) -> None:
    source, target = (
        tiny_tokenizer.convert_ids_to_tokens(tiny_tokenizer(text)["input_ids"])
        for text in (SOURCE, TARGET)
    )
    encoder = read_attention(tiny_model, tiny_tokenizer, SOURCE, TARGET, part="encoder")
    assert list(encoder.queries) == list(encoder.keys) == source
    cross = read_attention(tiny_model, tiny_tokenizer, SOURCE, TARGET)
    assert (list(cross.queries), list(cross.keys)) == (target, source)
    decoder = read_attention(tiny_model, tiny_tokenizer, SOURCE, TARGET, part="decoder")
    assert list(decoder.queries) == list(decoder.keys) == ["<s>", *target[:-1]]


def test_decoder_looks_at_nothing_later(tiny_model, tiny_tokenizer) -> None:
    weights = read_attention(tiny_model, tiny_tokenizer, SOURCE, TARGET, part="decoder").weights
    assert weights.triu(1).count_nonzero() == 0
    torch.testing.assert_close(weights[:, 0, 0], torch.ones(weights.size(0)))


def test_cross_attention_depends_on_the_source_the_encoder_on_no_target(
    tiny_model, tiny_tokenizer
) -> None:
    first, second = (
        read_attention(tiny_model, tiny_tokenizer, text, TARGET) for text in ("a b", "b a")
    )
    assert first.weights.shape == second.weights.shape
    assert not torch.allclose(first.weights, second.weights)
    first, second = (
        read_attention(tiny_model, tiny_tokenizer, SOURCE, text, part="encoder")
        for text in (TARGET, "")
    )
    torch.testing.assert_close(first.weights, second.weights, rtol=0, atol=0)


def test_reading_leaves_the_model_as_it_was(tiny_model, tiny_tokenizer) -> None:
    usual = tiny_model.config._attn_implementation
    read_attention(tiny_model, tiny_tokenizer, SOURCE, TARGET)
    assert tiny_model.config._attn_implementation == usual != "eager"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer": 2}, r"`layer` must be from 0 to 1, the layers of the decoder, got 2\."),
        ({"layer": -3, "part": "encoder"}, r"the layers of the encoder, got -3\."),
        ({"part": "middle"}, r"`part` must be one of encoder, decoder, cross, got 'middle'\."),
    ],
)
def test_what_is_not_there_is_refused(tiny_model, tiny_tokenizer, settings, message) -> None:
    with pytest.raises(InputError, match=message):
        read_attention(tiny_model, tiny_tokenizer, SOURCE, TARGET, **settings)


def test_tokenizer_of_two_vocabularies_is_asked_for_the_side(tiny_model, tiny_tokenizer) -> None:
    """The interface of separate vocabularies: ids of each side have tokens of their own."""

    class TwoSides:
        target_vocab_size = 1

        def __call__(self, *args, **kwargs):
            return tiny_tokenizer(*args, **kwargs)

        def convert_ids_to_tokens(self, ids, *, side):
            return [f"{side}{index}" for index in ids]

    cross = read_attention(tiny_model, TwoSides(), SOURCE, TARGET)
    assert {token[:6] for token in cross.queries} == {"target"}
    assert {token[:6] for token in cross.keys} == {"source"}


@pytest.mark.parametrize(
    ("tokens", "shown"),
    [
        ([" The", " ba", "ker", ".", "</s>"], ["The", "ba", "·ker", ".", "</s>"]),
        (["<s>", " don", "'", "t", " ", "$", "5"], ["<s>", "don", "'", "t", "␣", "$", "5"]),
        # Chinese writes no spaces, so nothing there continues a word.
        ([" 我", "爱", "你", "。"], ["我", "爱", "你", "。"]),
        # A combining vowel sign goes on with its word.
        ([" प", "ि"], ["प", "·ि"]),
        # Words of a vocabulary of whole words stand alone.
        (["the", "house", "</s>"], ["the", "house", "</s>"]),
        # 字 is E5 AD 97 in UTF-8; FF begins no character.
        (
            [" ", "<0xE5>", "<0xAD>", "<0x97>", "<0xFF>", "<0x41>"],
            ["␣", "字 1/3", "字 2/3", "字 3/3", "<0xFF>", "A"],
        ),
        (["<0xE5>", "<0xAD>", " x"], ["<0xE5>", "<0xAD>", "x"]),
    ],
)
def test_tokens_are_shown_as_a_reader_wants_them(tokens, shown) -> None:
    assert shown_tokens(tokens) == shown


@pytest.mark.parametrize(
    ("word", "places"),
    [
        ("a", [0]),
        ("baker", [1, 2]),
        ("ker", [2]),
        ("a baker", [0, 1, 2]),
        ("sees", [3, 7]),
        (".", [4]),
        ("</s>", [8]),
        ("字", [5, 6]),
    ],
)
def test_word_is_found_wherever_its_tokens_spell_it(word, places) -> None:
    tokens = [" a", " ba", "ker", " sees", ".", "<0xC3>", "<0xA4>", " sees", "</s>"]
    # Two bytes spell ä.
    assert token_positions(word.replace("字", "ä"), tokens) == places


@pytest.mark.parametrize("word", ["house", "", " "])
def test_word_that_is_not_there_is_refused_with_the_tokens(word) -> None:
    with pytest.raises(InputError, match=r"`words` must be in the sentence, .* a ba ·ker"):
        token_positions(word, [" a", " ba", "ker"])
