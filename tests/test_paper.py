"""The numbers that the paper prints, counted in the model itself."""

import math
from typing import Any

import pytest
import torch

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration


def empty_model(preset: str, **changes: Any) -> VaswaniForConditionalGeneration:
    """The model without memory for its weights."""
    with torch.device("meta"):
        return VaswaniForConditionalGeneration(VaswaniConfig.from_preset(preset, **changes))


def test_base_has_63_million_parameters_with_the_vocabulary_of_section_5() -> None:
    assert empty_model("base").num_parameters() / 1e6 == pytest.approx(63, abs=0.5)


def test_base_has_exactly_the_matrices_of_the_paper() -> None:
    """6 x (4 d^2 + 2 d d_ff) in the encoder and 6 x (8 d^2 + 2 d d_ff) in the decoder."""
    model = empty_model("base").model
    matrices = {
        stack: sum(w.numel() for w in getattr(model, stack).layers.parameters() if w.dim() == 2)
        for stack in ("encoder", "decoder")
    }
    assert matrices["encoder"] == 6 * (4 * 512**2 + 2 * 512 * 2048)
    assert matrices["decoder"] == 6 * (8 * 512**2 + 2 * 512 * 2048)


def test_biases_are_those_of_the_paper() -> None:
    """b1 and b2 of the feed-forward and of the norms; none in attention or at the output."""
    biases = {name.split(".", 4)[-1] for name, _ in empty_model("base").named_parameters()}
    assert {name for name in biases if name.endswith("bias")} == {
        "self_attn_layer_norm.bias",
        "encoder_attn_layer_norm.bias",
        "final_layer_norm.bias",
        "feed_forward.fc1.bias",
        "feed_forward.fc2.bias",
    }


def linear_weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {
        name: weight
        for name, weight in model.named_parameters()
        if weight.dim() == 2 and "embed_tokens" not in name
    }


def test_linear_weights_start_xavier_uniform() -> None:
    """Within +-sqrt(6 / (in + out)), spread evenly: standard deviation bound / sqrt(3)."""
    torch.manual_seed(0)
    config = VaswaniConfig.from_preset("tiny", vocab_size=50, d_k=24)
    weights = linear_weights(VaswaniForConditionalGeneration(config))
    assert len(weights) == 2 * (4 + 2) + 2 * (8 + 2)
    for name, weight in weights.items():
        bound = math.sqrt(6 / sum(weight.shape))
        assert weight.abs().max() <= bound, name
        assert weight.abs().max() > 0.99 * bound, name
        # 12,288 numbers or more: the standard error is below 1 %.
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03), name


@pytest.mark.parametrize("shared", [True, False])
def test_embeddings_start_normal(shared: bool) -> None:
    """Mean 0, standard deviation d_model^-0.5, all three tables where none is shared."""
    torch.manual_seed(0)
    config = VaswaniConfig.from_preset(
        "tiny", share_encoder_decoder_embeddings=shared, tie_word_embeddings=shared
    )
    model = VaswaniForConditionalGeneration(config)
    tables = [model.model.encoder.embed_tokens, model.model.decoder.embed_tokens]
    for module in tables:
        # The row of padding may be zero; 255,872 others remain.
        table = module.weight[1:]
        assert table.std().item() == pytest.approx(128**-0.5, rel=0.01)
        assert table.mean().abs() < 1e-3
        assert table.abs().max() > 3.5 * 128**-0.5  # normal, not uniform
    assert (tables[0].weight is tables[1].weight) == shared
    assert (model.lm_head.weight is tables[1].weight) == shared


def test_biases_start_at_zero_and_norms_at_one() -> None:
    config = VaswaniConfig.from_preset("tiny", vocab_size=50, attention_bias=True, output_bias=True)
    for name, weight in VaswaniForConditionalGeneration(config).named_parameters():
        if name.endswith("bias"):
            assert not weight.any(), name
        elif "layer_norm" in name:
            assert (weight == 1).all(), name


def test_scores_of_an_untrained_model_are_moderate() -> None:
    """The initial loss is near log(vocabulary): no word is certain before training."""
    torch.manual_seed(0)
    model = VaswaniForConditionalGeneration(VaswaniConfig.from_preset("tiny")).eval()
    ids = torch.randint(4, 2000, (8, 20))
    with torch.no_grad():
        loss = model(input_ids=ids, labels=torch.randint(4, 2000, (8, 20))).loss
    # Scores of unit variance add 0.5 nats to log W.
    assert loss.item() == pytest.approx(math.log(2000) + 0.5, abs=0.4)
