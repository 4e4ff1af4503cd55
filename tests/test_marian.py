"""A MarianMTModel of transformers and a Vaswani model with its weights give the same numbers.

Marian is post-norm with biases in attention and at the output, sinusoids in halves and layer norms
with epsilon 1e-5. Its `vocab_size` is the source's; here it is the target's.
"""

import re
from typing import Any

import pytest
import torch
from tiny_model import padded, sentences
from transformers import MarianConfig, MarianMTModel

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration

PAD, END, SOURCE_WORDS, TARGET_WORDS = 22, 0, 31, 23
SIZES = {
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 80,
    "d_model": 32,
    "activation_function": "swish",
    "max_position_embeddings": 64,
    "dropout": 0.0,
    "pad_token_id": PAD,
    "eos_token_id": END,
    "bos_token_id": None,
    "decoder_start_token_id": PAD,
}
ODD = {"d_model": 33, "encoder_attention_heads": 3, "decoder_attention_heads": 11}
# The two compute in float32, in another order.
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def marian(shared: bool, **sizes: Any) -> MarianMTModel:
    """A model with random numbers everywhere, in its norms and biases too."""
    torch.manual_seed(0)
    config = MarianConfig(
        **{**SIZES, **sizes},
        vocab_size=TARGET_WORDS if shared else SOURCE_WORDS,
        decoder_vocab_size=TARGET_WORDS,
        share_encoder_decoder_embeddings=shared,
        scale_embedding=True,
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter += 0.1 * torch.randn_like(parameter)
        model.final_logits_bias += torch.randn_like(model.final_logits_bias)
    return model


def our_name(name: str) -> str:
    """Where a weight of Marian's belongs here."""
    names = {
        "final_logits_bias": "lm_head.bias",
        "model.shared.weight": "model.encoder.embed_tokens.weight",
    }
    return names.get(name) or re.sub(r"\.(fc[12])\.", r".feed_forward.\1.", name)


def vaswani(theirs: MarianMTModel, **sizes: Any) -> VaswaniForConditionalGeneration:
    """The same model with the weights of theirs; strictly all of them, and nothing else."""
    shared = theirs.config.share_encoder_decoder_embeddings
    config = VaswaniConfig(
        **{**SIZES, **sizes},
        vocab_size=TARGET_WORDS,
        encoder_vocab_size=None if shared else SOURCE_WORDS,
        share_encoder_decoder_embeddings=shared,
        position_layout="halves",
        attention_bias=True,
        output_bias=True,
        layer_norm_eps=1e-5,
    )
    model = VaswaniForConditionalGeneration(config).eval()
    weights = {
        our_name(name): weight[0] if name == "final_logits_bias" else weight
        for name, weight in theirs.state_dict().items()
        if "embed_positions" not in name
    }
    model.load_state_dict(weights, strict=True)
    return model


def batch(shared: bool) -> dict[str, torch.Tensor]:
    words = TARGET_WORDS if shared else SOURCE_WORDS
    input_ids, mask = padded(sentences(words, [7, 3, 5], end=END, avoid=PAD), pad=PAD)
    targets = sentences(TARGET_WORDS, [4, 6, 2], seed=1, end=END, avoid=PAD)
    labels, _ = padded(targets, pad=-100)
    decoder_ids, _ = padded([[PAD, *target[:-1]] for target in targets], pad=PAD)
    return {
        "input_ids": input_ids,
        "attention_mask": mask,
        "decoder_input_ids": decoder_ids,
        "labels": labels,
    }


@pytest.mark.parametrize("shared", [True, False], ids=["one_vocabulary", "two_vocabularies"])
@pytest.mark.parametrize("sizes", [{}, ODD], ids=["even", "odd"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_logits_of_a_padded_batch_equal_those_of_marian(
    shared: bool, sizes: dict[str, Any], attention: str
) -> None:
    theirs = marian(shared, **sizes)
    ours = vaswani(theirs, **sizes)
    ours.set_attn_implementation(attention)
    inputs = batch(shared)
    real = inputs.pop("labels") != -100
    with torch.no_grad():
        expected, got = theirs(**inputs), ours(**inputs)
    assert expected.logits[real].std() > 0.5, "no trivial numbers"
    torch.testing.assert_close(got.logits[real], expected.logits[real], **CLOSE)
    shown = inputs["attention_mask"].bool()
    torch.testing.assert_close(
        got.encoder_last_hidden_state[shown], expected.encoder_last_hidden_state[shown], **CLOSE
    )


@pytest.mark.parametrize("shared", [True, False], ids=["one_vocabulary", "two_vocabularies"])
def test_loss_and_decoder_inputs_from_labels_equal_those_of_marian(shared: bool) -> None:
    """Marian's decoder starts with the pad token; the loss in evaluation is not smoothed."""
    theirs = marian(shared)
    ours = vaswani(theirs)
    inputs = batch(shared)
    del inputs["decoder_input_ids"]
    expected_ids = theirs.prepare_decoder_input_ids_from_labels(inputs["labels"])
    assert torch.equal(ours.prepare_decoder_input_ids_from_labels(inputs["labels"]), expected_ids)
    with torch.no_grad():
        expected, got = theirs(**inputs).loss, ours(**inputs).loss
    torch.testing.assert_close(got, expected, **CLOSE)


@pytest.mark.parametrize("shared", [True, False], ids=["one_vocabulary", "two_vocabularies"])
@pytest.mark.parametrize("use_cache", [True, False])
def test_greedy_outputs_equal_those_of_marian(shared: bool, use_cache: bool) -> None:
    theirs = marian(shared)
    ours = vaswani(theirs)
    inputs = batch(shared)
    options = {"num_beams": 1, "max_new_tokens": 8, "use_cache": use_cache}
    source = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    assert ours.generate(**source, **options).tolist() == (
        theirs.generate(**source, **options).tolist()
    )


def test_the_default_layout_is_not_that_of_marian() -> None:
    """Without its option the positions differ: the agreement above is no accident."""
    theirs = marian(True)
    ours = vaswani(theirs)
    inputs = batch(True)
    real = inputs.pop("labels") != -100
    for stack in (ours.model.encoder, ours.model.decoder):
        stack.embed_positions.layout = "interleaved"
    with torch.no_grad():
        difference = (ours(**inputs).logits - theirs(**inputs).logits)[real]
    assert difference.abs().max() > 1e-2
