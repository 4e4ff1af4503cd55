"""What forward returns on request, and the positions of section 3.5."""

import math
from pathlib import Path
from typing import Any

import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_model import padded, sentences, tiny_model
from torch import Tensor

from vaswani import VaswaniForConditionalGeneration, VaswaniModel
from vaswani.modeling_vaswani import VaswaniPositionalEncoding

SOURCES = sentences(40, [7, 3, 5])
TARGETS = [[1, *row] for row in sentences(40, [4, 5, 2], seed=1, end=None)]
# Rounding of the angle in float32, per radian; the vector itself is rounded to 1e-7.
FLOAT32_ANGLE = 2.0**-23
ENCODING = VaswaniPositionalEncoding(32)


def forward(model: Any, **options: Any) -> Any:
    input_ids, mask = padded(SOURCES)
    decoder_ids, _ = padded(TARGETS)
    with torch.no_grad():
        return model(
            input_ids=input_ids, attention_mask=mask, decoder_input_ids=decoder_ids, **options
        )


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("use_cache", [True, False])
def test_attention_weights_of_all_three_kinds(attention: str, use_cache: bool) -> None:
    """One per layer, a distribution over what may be seen, nothing on what may not."""
    model = tiny_model(
        attention=attention,
        encoder_layers=1,
        decoder_layers=3,
        decoder_attention_heads=8,
    )
    output = forward(model, output_attentions=True, use_cache=use_cache)
    _, mask = padded(SOURCES)
    shapes = {
        "encoder_attentions": (1, (3, 4, 7, 7)),
        "decoder_attentions": (3, (3, 8, 6, 6)),
        "cross_attentions": (3, (3, 8, 6, 7)),
    }
    for name, (layers, shape) in shapes.items():
        kind = getattr(output, name)
        assert len(kind) == layers
        for weights in kind:
            assert weights.shape == shape
            torch.testing.assert_close(weights.sum(-1), torch.ones(shape[:-1]))
            assert (weights >= 0).all()
    hidden_keys = (mask == 0)[:, None, None, :]
    for weights in (*output.encoder_attentions, *output.cross_attentions):
        assert not (weights * hidden_keys).any()
    for weights in output.decoder_attentions:
        assert not weights.triu(1).any()


def test_asking_for_attention_weights_changes_no_logits() -> None:
    """sdpa keeps no weights, so that call runs the eager code: the same numbers."""
    model = tiny_model(attention="sdpa").double()
    plain, asked = forward(model), forward(model, output_attentions=True)
    torch.testing.assert_close(asked.logits, plain.logits, atol=1e-12, rtol=0.0)
    assert plain.cross_attentions is None
    torch.testing.assert_close(forward(model).logits, plain.logits, atol=0.0, rtol=0.0)


def test_attention_weights_are_those_that_weigh_the_values() -> None:
    """Equation 1, recomputed for the first encoder layer from its projections."""
    model = tiny_model(attention="eager").double()
    output = forward(model, output_attentions=True, output_hidden_states=True)
    attention = model.model.encoder.layers[0].self_attn
    states = output.encoder_hidden_states[0]
    query = (states @ attention.q_proj.weight.T).unflatten(-1, (4, 8)).transpose(1, 2)
    key = (states @ attention.k_proj.weight.T).unflatten(-1, (4, 8)).transpose(1, 2)
    scores = query @ key.transpose(-1, -2) / math.sqrt(8)
    _, mask = padded(SOURCES)
    expected = scores.masked_fill(mask[:, None, None] == 0, -torch.inf).softmax(-1)
    torch.testing.assert_close(output.encoder_attentions[0], expected)


def test_attention_weights_of_a_search_can_be_had() -> None:
    input_ids, mask = padded(SOURCES)
    options = {"max_new_tokens": 4, "num_beams": 1, "min_new_tokens": 4}
    output = tiny_model().generate(
        input_ids,
        attention_mask=mask,
        output_attentions=True,
        return_dict_in_generate=True,
        **options,
    )
    assert [len(step) for step in output.cross_attentions] == [2] * 4
    for step in output.cross_attentions:
        for weights in step:
            assert weights.shape == (3, 4, 1, 7)
            torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, 1))


def test_hidden_states_go_from_the_embedding_to_the_last_layer() -> None:
    model = tiny_model(encoder_layers=1, decoder_layers=3)
    output = forward(model, output_hidden_states=True)
    assert [state.shape for state in output.encoder_hidden_states] == [(3, 7, 32)] * 2
    assert [state.shape for state in output.decoder_hidden_states] == [(3, 6, 32)] * 4
    assert torch.equal(output.encoder_hidden_states[-1], output.encoder_last_hidden_state)
    inner = forward(model.model)
    assert torch.equal(output.decoder_hidden_states[-1], inner.last_hidden_state)
    decoder_ids, _ = padded(TARGETS)
    table = model.model.decoder.embed_tokens.weight
    positions = torch.stack([reference.sinusoid(p, 32) for p in range(6)]).float()
    expected = table[decoder_ids] * math.sqrt(32) + positions
    torch.testing.assert_close(output.decoder_hidden_states[0], expected)


def test_outputs_come_as_a_tuple_when_asked() -> None:
    model = tiny_model()
    output = forward(model, return_dict=False)
    assert isinstance(output, tuple)
    torch.testing.assert_close(output[0], forward(model).logits)


def test_the_bare_model_is_the_inside_of_the_other() -> None:
    model = tiny_model()
    bare = VaswaniModel(model.config).eval()
    bare.load_state_dict(model.model.state_dict())
    states = forward(bare).last_hidden_state
    torch.testing.assert_close(model.lm_head(states), forward(model).logits)


@pytest.mark.parametrize("keep", [1, 2])
def test_only_the_last_scores_can_be_asked_for(keep: int) -> None:
    model = tiny_model()
    logits = forward(model, logits_to_keep=keep).logits
    torch.testing.assert_close(logits, forward(model).logits[:, -keep:])


def positions_of(model: Any, length: int) -> Tensor:
    """What the encoder adds to the embedding at positions 0 to `length` - 1, `(length, D)`."""
    with torch.no_grad():
        model.model.encoder.embed_tokens.weight.zero_()
        output = model.model.encoder(
            input_ids=torch.full((1, length), 5), output_hidden_states=True
        )
    return output.hidden_states[0][0]


def sinusoids(length: int, d_model: int) -> Tensor:
    return torch.stack([reference.sinusoid(p, d_model) for p in range(length)])


def one_layer(**settings: Any) -> VaswaniForConditionalGeneration:
    return tiny_model(encoder_layers=1, decoder_layers=1, **settings)


@pytest.mark.parametrize("d_model", [32, 33])
def test_positions_are_the_sinusoids_of_the_paper(d_model: int) -> None:
    """Section 3.5 and trial 4: an odd width has one sine more than cosines."""
    heads = {"encoder_attention_heads": 1, "decoder_attention_heads": 1}
    table = positions_of(one_layer(d_model=d_model, **heads).double(), 700)
    torch.testing.assert_close(table, sinusoids(700, d_model), atol=1e-10, rtol=0.0)
    assert table[0, ::2].eq(0).all() and table[0, 1::2].eq(1).all()


@given(position=st.integers(0, 2000), shift=st.integers(0, 500), pair=st.integers(0, 15))
def test_a_shift_rotates_each_pair_of_features(position: int, shift: int, pair: int) -> None:
    """Section 3.5: PE(pos + k) is a linear function of PE(pos) that depends on k alone."""
    both = ENCODING(torch.tensor([position, position + shift]), torch.float64)
    before, after = both[:, 2 * pair : 2 * pair + 2]
    angle = shift / 10000 ** (2 * pair / 32)
    rotation = torch.tensor(
        [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]],
        dtype=torch.float64,
    )
    torch.testing.assert_close(after, rotation @ before, atol=1e-9, rtol=0.0)


@pytest.mark.parametrize("how", ["to", "half", "from_pretrained", "float32"])
def test_positions_survive_a_change_of_precision(how: str, tmp_path: Path) -> None:
    """bfloat16 cannot number positions beyond 256; only the finished vector may be rounded."""
    model = one_layer()
    if how == "from_pretrained":
        model.save_pretrained(tmp_path)
        model = VaswaniForConditionalGeneration.from_pretrained(tmp_path, dtype=torch.bfloat16)
    elif how == "half":
        model = model.half()
    elif how == "to":
        model = model.to(torch.bfloat16)
    table = positions_of(model.eval(), 2001)
    expected = sinusoids(2001, 32)
    angles = 2000 * FLOAT32_ANGLE
    rounding = {torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float32: 2**-23}[table.dtype]
    torch.testing.assert_close(table.double(), expected, atol=angles + rounding, rtol=0.0)
    assert len(table.unique(dim=0)) == 2001


def test_positions_survive_loading_and_meta_initialization(tmp_path: Path) -> None:
    """A non-persistent buffer would come back as uninitialized memory."""
    model = one_layer()
    model.save_pretrained(tmp_path)
    loaded = VaswaniForConditionalGeneration.from_pretrained(tmp_path)
    with torch.device("meta"):
        built = VaswaniForConditionalGeneration(model.config)
    built.to_empty(device="cpu").init_weights()
    for candidate in (loaded, built):
        assert not list(candidate.buffers()), "the formula needs no table"
        table = positions_of(candidate.eval(), 50)
        torch.testing.assert_close(table.double(), sinusoids(50, 32), atol=1e-5, rtol=0.0)


def test_positions_take_no_gradient_and_no_place_in_the_checkpoint() -> None:
    """Trial 13: a fixed table is not a trainable parameter."""
    model = tiny_model()
    assert not [name for name in model.state_dict() if "position" in name]
    assert not [name for name, _ in model.named_parameters() if "position" in name]


def test_padding_gets_no_position_vector() -> None:
    model = tiny_model()
    state = forward(model, output_hidden_states=True).encoder_hidden_states[0]
    input_ids, mask = padded(SOURCES)
    hidden = mask == 0
    table = model.model.encoder.embed_tokens.weight.detach()
    torch.testing.assert_close(state[hidden], table[input_ids][hidden] * math.sqrt(32))


def test_dropout_acts_on_the_sum_of_embedding_and_position() -> None:
    """Section 5.4, in both stacks: a feature is 0 or 1 / (1 - rate) times itself."""
    model = tiny_model(dropout=0.5)
    plain = forward(model, output_hidden_states=True)
    dropped = forward(model.train(), output_hidden_states=True)
    for stack in ("encoder_hidden_states", "decoder_hidden_states"):
        whole, thinned = getattr(plain, stack)[0], getattr(dropped, stack)[0]
        kept = thinned != 0
        assert 0.4 < kept.double().mean() < 0.6
        torch.testing.assert_close(thinned[kept], 2 * whole[kept])


@pytest.mark.parametrize("length", [17, 64, 1500])
def test_sources_may_be_longer_than_the_table_that_is_not_there(length: int) -> None:
    """Trial 5: `max_position_embeddings` limits nothing, in forward and in `generate`."""
    model = one_layer(max_position_embeddings=16)
    (source,) = sentences(40, [length])
    input_ids, mask = padded([source])
    output = model.generate(input_ids, attention_mask=mask, max_new_tokens=20, min_new_tokens=20)
    assert output.shape == (1, 21)
    if length < 100:
        weights = {name: weight.detach() for name, weight in model.state_dict().items()}
        settings = {name: getattr(model.config, name) for name in reference.PAPER}
        expected = reference.encode(weights, settings, source)
        with torch.no_grad():
            got = model.get_encoder()(input_ids=input_ids, attention_mask=mask)
        torch.testing.assert_close(got.last_hidden_state[0], torch.stack(expected))


def test_neither_or_both_kinds_of_input_are_refused() -> None:
    model = tiny_model()
    embedded = torch.zeros(1, 3, 32)
    ids = torch.tensor([[5, 6, 2]])
    decoder_ids = torch.tensor([[1]])
    with pytest.raises(ValueError, match=r"`input_ids` and `inputs_embeds` must be .*got neither"):
        model(decoder_input_ids=decoder_ids)
    with pytest.raises(ValueError, match=r"`input_ids` and `inputs_embeds` must be .*got both"):
        model(input_ids=ids, inputs_embeds=embedded, decoder_input_ids=decoder_ids)


def test_a_missing_target_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match="`decoder_input_ids`"):
        tiny_model()(input_ids=torch.tensor([[5, 6, 2]]))


def test_embeddings_can_stand_for_ids() -> None:
    """As the table gives them: what asks a model for its table need not know of the scale."""
    model = tiny_model(share_encoder_decoder_embeddings=False)
    input_ids, mask = padded(SOURCES)
    decoder_ids, _ = padded(TARGETS)
    with torch.no_grad():
        got = model(
            inputs_embeds=model.get_input_embeddings()(input_ids),
            attention_mask=mask,
            decoder_inputs_embeds=model.get_decoder().get_input_embeddings()(decoder_ids),
        )
    torch.testing.assert_close(got.logits, forward(model).logits)
