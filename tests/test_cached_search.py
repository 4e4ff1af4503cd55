"""A cache changes no answer of a model that has learned something (trial 27)."""

from typing import Any

import pytest
import torch
from torch import Tensor

from vaswani import VaswaniForConditionalGeneration, VaswaniTokenizer

TEXTS = ["The baker sees the child.", "The Kind.", "The sailor grüßt the Lehrer."]
CACHES: dict[str, dict[str, Any]] = {
    "growing": {"use_cache": True},
    "dynamic": {"cache_implementation": "dynamic"},
    "static": {"cache_implementation": "static"},
}
# How many tokens of an output are given beforehand, after the start token.
PREFIXES = (0, 3)
DOUBLE = {"atol": 1e-10, "rtol": 0.0}
# A search records its logits in float32.
FLOAT = {"atol": 1e-5, "rtol": 0.0}


@pytest.fixture
def model(copying_model: VaswaniForConditionalGeneration) -> VaswaniForConditionalGeneration:
    return copying_model.double()


@pytest.fixture
def source(tiny_tokenizer: VaswaniTokenizer) -> dict[str, Tensor]:
    return dict(tiny_tokenizer(TEXTS, padding=True, return_tensors="pt"))


@pytest.mark.parametrize("encoded", [False, True], ids=["ids", "encoder_outputs"])
@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("cache", CACHES)
def test_caches_do_not_change_what_a_trained_model_says(
    cache: str,
    num_beams: int,
    prefix: int,
    encoded: bool,
    model: VaswaniForConditionalGeneration,
    source: dict[str, Tensor],
) -> None:
    """With a given beginning or none, from ids or from what the encoder made of them."""
    options: dict[str, Any] = {"num_beams": num_beams, "attention_mask": source["attention_mask"]}
    if prefix:
        beginning = torch.full((len(TEXTS), 1), model.config.decoder_start_token_id)
        given = [beginning, source["input_ids"][:, :prefix]]
        options["decoder_input_ids"] = torch.cat(given, dim=1)
    expected = model.generate(source["input_ids"], use_cache=False, **options)
    # It has learned to end its sentences, and to say other things of other sources.
    assert (expected == model.config.eos_token_id).any(-1).all()
    assert len({*map(tuple, expected.tolist())}) == len(TEXTS)
    start: dict[str, Any] = {"input_ids": source["input_ids"]}
    if encoded:
        with torch.no_grad():
            start = {"encoder_outputs": model.get_encoder()(**source)}
    found = model.generate(**start, **CACHES[cache], **options)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("cache", CACHES)
def test_logits_of_each_step_are_those_of_one_pass(
    cache: str, prefix: int, model: VaswaniForConditionalGeneration, source: dict[str, Tensor]
) -> None:
    """Step by step with a cache, and all at once without."""
    beginning = torch.full((len(TEXTS), 1), model.config.decoder_start_token_id)
    beginning = torch.cat([beginning, source["input_ids"][:, :prefix]], dim=1)
    output = model.generate(
        **source,
        **CACHES[cache],
        num_beams=1,
        decoder_input_ids=beginning,
        output_logits=True,
        return_dict_in_generate=True,
    )
    with torch.no_grad():
        whole = model(**source, decoder_input_ids=output.sequences[:, :-1], use_cache=False).logits
    steps = torch.stack(output.logits, dim=1)  # (B, T, W)
    # After its end token a sentence is fed padding, which one pass masks as nothing.
    lengths = (output.sequences[:, 1:] != model.config.pad_token_id).sum(-1) - prefix
    for row, length in enumerate(lengths.tolist()):
        expected = whole[row, prefix : prefix + length].float()
        torch.testing.assert_close(steps[row, :length], expected, **FLOAT)


@pytest.mark.parametrize("kind", ["tuple", "list", "output"])
def test_the_encoder_may_have_run_before(
    kind: str, model: VaswaniForConditionalGeneration, source: dict[str, Tensor]
) -> None:
    """What it returned comes as an output, or as a bare tuple, for `forward` and its loss."""
    with torch.no_grad():
        encoded = model.get_encoder()(**source, output_hidden_states=True)
        given = {"tuple": encoded.to_tuple(), "list": list(encoded.to_tuple()), "output": encoded}
        labels = source["input_ids"]
        expected = model(**source, labels=labels, output_hidden_states=True)
        found = model(
            encoder_outputs=given[kind],
            attention_mask=source["attention_mask"],
            labels=labels,
        )
        as_tuple = model(
            encoder_outputs=given[kind],
            attention_mask=source["attention_mask"],
            labels=labels,
            return_dict=False,
        )
    torch.testing.assert_close(found.logits, expected.logits, **DOUBLE)
    torch.testing.assert_close(found.loss, expected.loss, **DOUBLE)
    torch.testing.assert_close(found.encoder_last_hidden_state, encoded.last_hidden_state, **DOUBLE)
    assert len(found.encoder_hidden_states) == len(expected.encoder_hidden_states)
    torch.testing.assert_close(as_tuple[0], expected.loss, **DOUBLE)
