"""Packed steps against calls of the model: the same hypotheses, scores and flags."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import decisive_model, padded, sentences
from torch import nn
from transformers.cache_utils import DynamicCache
from transformers.generation import LogitsProcessor, LogitsProcessorList, MaxTimeCriteria

from vaswani import VaswaniForConditionalGeneration, decoder_steps_vaswani
from vaswani.decoder_steps_vaswani import DecoderSteps
from vaswani.decoding import PrefixProcessor

# Sums of float32 in another order, over some tens of tokens.
FLOAT32 = {"rtol": 1e-4, "atol": 1e-4}
SOURCES = sentences(9, [5, 2, 11, 3, 7, 2])
PLAIN = {"cache_implementation": "dynamic"}


class Counter:
    """Counts packed steps."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.packed = 0
        logits = DecoderSteps.logits

        def counted(steps: DecoderSteps, tokens: torch.Tensor) -> torch.Tensor:
            self.packed += 1
            return logits(steps, tokens)

        patch.setattr(DecoderSteps, "logits", counted)


def single(**options: Any) -> VaswaniForConditionalGeneration:
    """A model for search in float32, whose numbers differ enough."""
    return decisive_model(**options).float()


def search(model: Any, sources: list[list[int]], **options: Any) -> Any:
    left = options.pop("left", False)
    ids, mask = padded(sources, left=left, extra=options.pop("extra", 0))
    return model.generate(ids, attention_mask=mask, return_dict_in_generate=True, **options)


def assert_same(got: Any, expected: Any) -> None:
    assert torch.equal(got.sequences, expected.sequences)
    assert torch.equal(got.beam_indices, expected.beam_indices)
    assert torch.equal(got.truncated, expected.truncated)
    torch.testing.assert_close(got.sequences_scores, expected.sequences_scores, **FLOAT32)


SHAPES: dict[str, dict[str, Any]] = {
    "paper": {},
    "pre_norm": {"normalize_before": True, "activation_function": "gelu"},
    "dot": {"attention_score": "dot", "activation_function": "swish"},
    "wide_values": {"d_k": 5, "d_v": 11},
    "narrow_values": {"d_k": 6, "d_v": 2},
    "biases": {"attention_bias": True},
    "no_ties": {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
    "learned": {"position_encoding": "learned", "max_position_embeddings": 24},
    "halves": {"position_layout": "halves", "decoder_layers": 3},
    "heads": {"decoder_attention_heads": 4, "encoder_attention_heads": 1},
    "many_words": {"vocab_size": 700},
}


MINIMUM = {"min_new_tokens": 4, "max_length_b": 7}


@given(
    shape=st.sampled_from(sorted(SHAPES)),
    seed=st.integers(0, 50),
    end_bias=st.sampled_from([-3.0, -1.0, 0.0, 1.0]),
    lengths=st.lists(st.integers(2, 9), min_size=1, max_size=5),
    beams=st.integers(2, 6),
    wanted=st.integers(1, 6),
    early_stopping=st.sampled_from([True, False, "never"]),
    length=st.sampled_from(
        [{"max_length_b": 4}, {"max_new_tokens": 12}, {"max_length": 9}, MINIMUM]
    ),
    penalty=st.sampled_from([("gnmt", 0.6), ("gnmt", 0.0), ("power", 1.5)]),
    left=st.booleans(),
    extra=st.integers(0, 2),
    prompt=st.sampled_from([None, [1, 5, 6], [1, 4]]),
    ends=st.sampled_from([2, [2, 5]]),
    room=st.sampled_from([4, 64]),
)
# The same examples each time: of enough others, one would have a tie within the rounding.
@settings(max_examples=80, deadline=None, derandomize=True)
def test_packed_steps_find_what_the_models_calls_find(
    shape: str,
    seed: int,
    end_bias: float,
    lengths: list[int],
    beams: int,
    wanted: int,
    early_stopping: Any,
    length: dict[str, int],
    penalty: tuple[str, float],
    left: bool,
    extra: int,
    prompt: list[int] | None,
    ends: Any,
    room: int,
) -> None:
    """With little room, the store drops what is dead and grows all the time."""
    model = single(seed=seed, **SHAPES[shape])
    with torch.no_grad():
        model.lm_head.bias[2] += end_bias
    options = {"num_beams": beams, "num_return_sequences": min(wanted, beams), **length}
    options |= {"early_stopping": early_stopping, "left": left, "extra": extra}
    options |= {"length_penalty_type": penalty[0], "length_penalty": penalty[1]}
    options["eos_token_id"] = ends
    if prompt is not None:
        options["decoder_input_ids"] = torch.tensor([prompt] * len(lengths))
    sources = sentences(9, lengths, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        counter = Counter(patch)
        patch.setattr(decoder_steps_vaswani, "_ROOM", room)
        expected = search(model, sources, **options, **PLAIN)
        assert counter.packed == 0
        got = search(model, sources, **options)
        assert counter.packed > 0
    assert_same(got, expected)


class Noise(LogitsProcessor):
    """Lowers log-probabilities by an amount that depends on all tokens so far."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        factors = torch.arange(1, input_ids.size(1) + 1)
        return scores - (input_ids * factors).sum(-1, keepdim=True) % 7 / 10


OPTIONS: dict[str, dict[str, Any]] = {
    "processor": {"logits_processor": LogitsProcessorList([Noise()])},
    "repetition": {"repetition_penalty": 1.4, "no_repeat_ngram_size": 2},
    "prefixes": {
        "logits_processor": LogitsProcessorList(
            [PrefixProcessor([[5, 6], [], [4], [7, 7, 4], [8], []], torch.device("cpu"))]
        )
    },
    "criterion": {"stopping_criteria": [MaxTimeCriteria(1e6)]},
    "no dictionary": {"return_dict_in_generate": False},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("seed", range(3))
def test_processors_and_criteria_see_the_same(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = single(seed=seed)
    ids, mask = padded(SOURCES)
    options = {"num_beams": 3, "max_length_b": 5, "return_dict_in_generate": True}
    options |= {"attention_mask": mask, **OPTIONS[name]}
    expected = model.generate(ids, **options, **PLAIN)
    counter = Counter(monkeypatch)
    got = model.generate(ids, **options)
    assert counter.packed > 0
    if name == "no dictionary":
        assert torch.equal(got, expected)
    else:
        assert_same(got, expected)


def test_a_sentence_is_translated_as_alone() -> None:
    for seed in range(4):
        model = single(seed=seed)
        together = search(model, SOURCES, num_beams=4, max_length_b=6)
        for number, source in enumerate(SOURCES):
            alone = search(model, [source], num_beams=4, max_length_b=6)
            tokens = alone.sequences[0]
            assert torch.equal(together.sequences[number, : len(tokens)], tokens)
            assert not together.sequences[number, len(tokens) :].any()


def test_a_source_of_padding_alone_gives_nothing_to_attend_to() -> None:
    model = single()
    ids, mask = padded(SOURCES[:2])
    mask[0] = 0
    options = {"num_beams": 3, "max_new_tokens": 6, "return_dict_in_generate": True}
    expected = model.generate(ids, attention_mask=mask, **options, **PLAIN)
    assert_same(model.generate(ids, attention_mask=mask, **options), expected)


def test_weights_that_change_are_followed() -> None:
    """By an optimizer, in place, by a dictionary, and by another module's weights."""
    model, other = single(seed=0), single(seed=1)
    options = {"num_beams": 3, "max_length_b": 6}
    first = search(model, SOURCES, **options)
    with torch.no_grad():
        model.model.decoder.layers[0].encoder_attn.v_proj.weight.neg_()
    second = search(model, SOURCES, **options)
    assert not torch.equal(first.sequences_scores, second.sequences_scores)
    assert_same(second, search(model, SOURCES, **options, **PLAIN))
    with torch.no_grad():
        model.model.decoder.layers[0].final_layer_norm.bias.data.add_(0.5)
    assert_same(search(model, SOURCES, **options), search(model, SOURCES, **options, **PLAIN))
    model.load_state_dict(other.state_dict())
    assert_same(search(model, SOURCES, **options), search(other, SOURCES, **options, **PLAIN))
    model.model.decoder.layers[0] = single(seed=2).model.decoder.layers[0]
    assert_same(search(model, SOURCES, **options), search(model, SOURCES, **options, **PLAIN))


def test_packed_weights_stay_out_of_copies_and_files(tmp_path: Path) -> None:
    fresh, used = single(), single()
    search(used, SOURCES, num_beams=3, max_length_b=3)
    assert list(used.state_dict()) == list(fresh.state_dict())
    assert vars(used).keys() == vars(fresh).keys()
    assert len(pickle.dumps(used)) == len(pickle.dumps(fresh))
    assert vars(copy.deepcopy(used)).keys() == vars(fresh).keys()
    for name, model in (("fresh", fresh), ("used", used)):
        model.save_pretrained(tmp_path / name)
    for file in (tmp_path / "fresh").iterdir():
        assert (tmp_path / "used" / file.name).read_bytes() == file.read_bytes()


class Halved(nn.Linear):
    """Something that stands for a linear layer, as adapters and quantized layers do."""

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return super().forward(states) / 2


class OwnForward(VaswaniForConditionalGeneration):
    """A model whose user added something to it."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        output = super().forward(*args, **kwargs)
        output.logits[..., 5] -= 3.0
        return output


def _halve(model: Any) -> Any:
    layer = model.model.decoder.layers[0]
    old = layer.feed_forward.fc2
    layer.feed_forward.fc2 = Halved(old.in_features, old.out_features)
    layer.feed_forward.fc2.load_state_dict(old.state_dict())
    return model.eval()


class Tagged(nn.Parameter):
    """A weight of a class of its own, as those of quantized and distributed layers."""


def _tag(model: Any) -> Any:
    linear = model.model.decoder.layers[0].feed_forward.fc1
    linear.weight = Tagged(linear.weight.detach())
    return model


def _hook(model: Any) -> Any:
    model.lm_head.register_forward_hook(lambda module, inputs, output: output * 2)
    return model


def _hook_before(model: Any) -> Any:
    layer = model.model.decoder.layers[0]
    layer.self_attn.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,))
    return model


def _own_method(model: Any) -> Any:
    attention = model.model.decoder.layers[0].encoder_attn
    forward = attention.forward
    attention.forward = lambda *args, **kwargs: (forward(*args, **kwargs)[0] * 2, None)
    return model


def _subclass(model: Any) -> Any:
    other = OwnForward(model.config).eval()
    other.load_state_dict(model.state_dict())
    return other


def _not_a_number(model: Any) -> Any:
    with torch.no_grad():
        model.model.decoder.embed_tokens.weight[6] = torch.nan
    return model


def _dropout(model: Any) -> Any:
    model.model.decoder.layers[0].dropout.train()
    return model


NO_TIES = SHAPES["no_ties"]
CHANGED = {
    "module": _halve,
    "parameter": _tag,
    "hook": _hook,
    "hook before": _hook_before,
    "method": _own_method,
    "subclass": _subclass,
    "not a number": _not_a_number,
    "dropout": _dropout,
    "double": lambda model: model.double(),
    "bfloat16": lambda model: model.bfloat16(),
}


@pytest.mark.parametrize("change", CHANGED)
def test_whatever_changes_the_models_call_is_called(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = CHANGED[change](single(**NO_TIES))
    counter = Counter(monkeypatch)
    options = {"num_beams": 3, "max_new_tokens": 5}
    assert_same(search(model, SOURCES, **options), search(model, SOURCES, **options, **PLAIN))
    assert counter.packed == 0


ASKED: dict[str, dict[str, Any]] = {
    "dynamic": PLAIN,
    "static": {"cache_implementation": "static"},
    "none": {"use_cache": False},
    "scores": {"output_scores": True},
    "logits": {"output_logits": True},
    "attentions": {"output_attentions": True},
    "hidden states": {"output_hidden_states": True},
    "sampling": {"do_sample": True},
    "decoder mask": {"decoder_attention_mask": torch.ones(6, 1, dtype=torch.long)},
}


@pytest.mark.parametrize("name", ASKED)
def test_what_only_the_models_call_gives_is_called_for(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter(monkeypatch)
    torch.manual_seed(0)
    search(single(), SOURCES, num_beams=3, max_new_tokens=4, **ASKED[name])
    assert counter.packed == 0


def test_a_cache_of_the_callers_is_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    model = single()
    counter = Counter(monkeypatch)
    for name in ("cache", "past_key_values"):
        cache = DynamicCache(config=model.config)
        search(model, SOURCES, num_beams=3, max_new_tokens=4, **{name: cache})
        assert counter.packed == 0
        assert cache.get_seq_length() == 4


def test_recorders_that_have_been_asked_once_do_not_slow_later_searches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """transformers leaves its hooks on the modules."""
    model = single()
    counter = Counter(monkeypatch)
    search(model, SOURCES, num_beams=3, max_new_tokens=4, output_attentions=True)
    assert counter.packed == 0
    search(model, SOURCES, num_beams=3, max_new_tokens=4)
    assert counter.packed > 0


def test_autocast_keeps_packed_steps_away(monkeypatch: pytest.MonkeyPatch) -> None:
    model = single()
    counter = Counter(monkeypatch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        search(model, SOURCES, num_beams=3, max_new_tokens=4)
    assert counter.packed == 0
