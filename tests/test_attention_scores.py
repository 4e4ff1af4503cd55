"""Other scores than Equation 1, and hard attention: values, gradients, caches, what is refused.

Values and gradients of whole models are in test_modeling_reference.py, caches in
test_modeling_caches.py.
"""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import reference
import torch
from tiny_model import leaves, padded, sentences, tiny_config, tiny_model
from transformers import AutoModelForSeq2SeqLM

from vaswani import VaswaniForConditionalGeneration
from vaswani.attention_scores_vaswani import VaswaniAdditiveScore, best_key_only
from vaswani.modeling_vaswani import eager_attention_forward

SOURCES = sentences(40, [7, 3, 5])
TARGETS = [[1, *row] for row in sentences(40, [4, 6, 2], seed=1, end=None)]
OTHERS: dict[str, dict[str, Any]] = {
    "dot": {"attention_score": "dot"},
    "additive": {"attention_score": "additive"},
    "hard": {"hard_attention": True},
    "hard_additive": {"attention_score": "additive", "hard_attention": True, "d_k": 3},
}
EXACT = {"atol": 1e-12, "rtol": 0.0}


def batch() -> dict[str, torch.Tensor]:
    input_ids, mask = padded(SOURCES)
    decoder_ids, _ = padded(TARGETS)
    return {"input_ids": input_ids, "attention_mask": mask, "decoder_input_ids": decoder_ids}


def test_additive_score_is_that_of_bahdanau() -> None:
    """v tanh(q + k), head by head and pair by pair."""
    torch.manual_seed(0)
    score = VaswaniAdditiveScore(heads=2, d_k=3).double()
    torch.nn.init.normal_(score.weight)
    query, key = torch.randn(1, 2, 4, 3).double(), torch.randn(1, 2, 5, 3).double()
    scores, v = score(query, key).detach(), score.weight.tolist()
    for head in range(2):
        for i in range(4):
            for j in range(5):
                expected = sum(
                    v[head][f] * math.tanh(float(query[0, head, i, f] + key[0, head, j, f]))
                    for f in range(3)
                )
                assert scores[0, head, i, j].item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("empty_row", [False, True])
def test_gradient_of_additive_attention_is_that_of_finite_differences(empty_row: bool) -> None:
    torch.manual_seed(0)
    score, config = VaswaniAdditiveScore(heads=4, d_k=3), tiny_config(attention_score="additive")
    shapes = [(4, 3), (2, 4, 3, 3), (2, 4, 5, 3), (2, 4, 5, 2)]
    tensors = [torch.randn(shape).double().requires_grad_() for shape in shapes]
    mask = torch.zeros(2, 1, 3, 5).double()
    mask[0, :, :, 3:] = torch.finfo(torch.float64).min
    if empty_row:
        mask[1] = torch.finfo(torch.float64).min

    def attend(v: Any, query: Any, key: Any, value: Any) -> Any:
        def score_proj(*pair: Any) -> Any:
            return torch.func.functional_call(score, {"weight": v}, pair)

        layer: Any = SimpleNamespace(score_proj=score_proj, config=config, training=False)
        return eager_attention_forward(layer, query, key, value, mask, 1.0)[0]

    assert torch.autograd.gradcheck(attend, tensors)


def test_dot_product_is_the_scaled_one_with_larger_queries() -> None:
    """q k / sqrt(d_k) = (q / sqrt(d_k)) k: a law that ties the two scores together."""
    scaled, dot = tiny_model().double(), tiny_model(attention_score="dot").double()
    weights = scaled.state_dict()
    for name, weight in weights.items():
        if name.endswith("q_proj.weight"):
            weights[name] = weight / math.sqrt(8)
    dot.load_state_dict(weights)
    with torch.no_grad():
        torch.testing.assert_close(dot(**batch()).logits, scaled(**batch()).logits, **EXACT)


@pytest.mark.parametrize("other", ["hard", "hard_additive"])
def test_hard_attention_equals_the_reference(other: str) -> None:
    """Logits, and the gradients that evaluation mode has: through the values."""
    settings = {name: getattr(tiny_config(), name) for name in reference.PAPER} | OTHERS[other]
    model = tiny_model(**OTHERS[other])
    weights, by_id = leaves(model)
    inputs = batch()
    expected = reference.logits(
        weights,
        settings,
        inputs["input_ids"].tolist(),
        inputs["attention_mask"].bool().tolist(),
        inputs["decoder_input_ids"].tolist(),
    )
    logits = model(**inputs).logits
    real = torch.stack([torch.arange(7) < len(target) for target in TARGETS])
    torch.testing.assert_close(logits[real], expected[real], atol=1e-5, rtol=1e-5)
    logits[real].square().mean().backward()
    expected[real].square().mean().backward()
    for name, parameter in model.named_parameters():
        wanted = by_id[id(parameter)].grad
        if any(part in name for part in ("q_proj", "k_proj", "score_proj")):
            assert wanted is None and (parameter.grad is None or not parameter.grad.any()), name
        else:
            torch.testing.assert_close(parameter.grad, wanted, atol=1e-5, rtol=1e-4)


def test_hard_attention_gives_all_weight_to_the_best_key() -> None:
    """The one that soft attention of the first layer likes best; nothing to what is masked."""
    soft, hard = tiny_model(attention="eager"), tiny_model(hard_attention=True)
    with torch.no_grad():
        liked = soft(**batch(), output_attentions=True)
        found = hard(**batch(), output_attentions=True)
    for name in ("encoder_attentions", "decoder_attentions", "cross_attentions"):
        for weights in getattr(found, name):
            assert set(weights.unique().tolist()) == {0.0, 1.0}
            assert (weights.sum(-1) == 1).all()
    first, expected = found.encoder_attentions[0], liked.encoder_attentions[0]
    assert torch.equal(first.argmax(-1), expected.argmax(-1))
    for weights in (*found.encoder_attentions, *found.cross_attentions):
        assert not weights[1, :, :, 3:].any()


def test_best_key_of_a_row_that_sees_nothing_is_none() -> None:
    weights = torch.tensor([[0.2, 0.5, 0.3], [0.0, 0.0, 0.0], [0.4, 0.2, 0.4]])
    expected = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert torch.equal(best_key_only(weights, training=False), expected)


def test_hard_attention_is_refused_in_training() -> None:
    model = tiny_model(hard_attention=True).train()
    with pytest.raises(ValueError, match=r"`hard_attention` must be False in training .* got True"):
        model(**batch())


def test_hard_attention_can_be_switched_on_later() -> None:
    """A loaded model runs a fused kernel; the switch makes it the model that was loaded hard."""
    model = tiny_model(attention="sdpa")
    with torch.no_grad():
        soft = model(**batch()).logits
        model.config.hard_attention = True
        switched = model(**batch()).logits
        expected = tiny_model(hard_attention=True)(**batch()).logits
        model.config.hard_attention = False
        assert torch.equal(model(**batch()).logits, soft)
    assert torch.equal(switched, expected)
    assert not torch.equal(switched, soft)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("other", OTHERS)
def test_a_row_of_padding_is_finite_and_alone(other: str, dtype: torch.dtype) -> None:
    """Also where scores are far below 0, as plain dot products of wide heads are."""
    model = tiny_model(noise=0.5, **OTHERS[other]).to(dtype)
    inputs = batch()
    hidden = inputs["attention_mask"].clone()
    hidden[1] = 0
    with torch.no_grad():
        got = model(**{**inputs, "attention_mask": hidden}).logits
        expected = model(**inputs).logits
    assert torch.isfinite(got).all()
    torch.testing.assert_close(got[[0, 2]], expected[[0, 2]], atol=0.0, rtol=0.0)


def test_scores_far_below_zero_leave_a_masked_row_finite() -> None:
    """In float16 the mask's lowest number plus a score of -100 would be minus infinity."""
    attention = tiny_model(attention_score="dot").half().model.encoder.layers[0].self_attn
    query, key = torch.full((1, 4, 2, 8), -4.0).half(), torch.full((1, 4, 3, 8), 4.0).half()
    mask = torch.full((1, 1, 2, 3), torch.finfo(torch.float16).min).half()
    context, weights = eager_attention_forward(attention, query, key, key, mask, 1.0)
    assert not weights.any() and not context.any()


@pytest.mark.parametrize("other", OTHERS)
def test_default_backend_is_the_plain_one(other: str, tmp_path: Path) -> None:
    model = VaswaniForConditionalGeneration(tiny_config(**OTHERS[other]))
    assert model.config._attn_implementation == "eager"
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert loaded.config._attn_implementation == "eager"
    explicit = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, attn_implementation="eager")
    assert explicit.config._attn_implementation == "eager"


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("backend", ["sdpa", "flash_attention_2", "flex_attention"])
def test_another_backend_is_refused(other: str, backend: str, tmp_path: Path) -> None:
    """At creation, on loading and on a later switch."""
    rule = rf"`attn_implementation` must be eager with .*, got '{backend}'\. Leave it out\."
    config = tiny_config(**OTHERS[other])
    with pytest.raises(ValueError, match=rule):
        AutoModelForSeq2SeqLM.from_config(config, attn_implementation=backend)
    model = VaswaniForConditionalGeneration(tiny_config(**OTHERS[other]))
    model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=rule):
        AutoModelForSeq2SeqLM.from_pretrained(tmp_path, attn_implementation=backend)
    with pytest.raises(ValueError, match=rule):
        model.set_attn_implementation(backend)
    assert model.config._attn_implementation == "eager"


def test_additive_weights_start_so_that_scores_have_unit_variance_at_most() -> None:
    torch.manual_seed(0)
    heads = {"encoder_attention_heads": 16, "decoder_attention_heads": 16, "d_k": 64, "d_v": 2}
    model = VaswaniForConditionalGeneration(tiny_config(attention_score="additive", **heads))
    v = model.model.encoder.layers[0].self_attn.score_proj.weight
    assert v.shape == (16, 64)
    # 1,024 numbers: the standard error of the deviation is 2 %.
    assert v.std().item() == pytest.approx(64**-0.5, rel=0.1)
