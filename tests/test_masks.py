"""Which source tokens are real: the same by lengths, by mask and by ids, wherever they are said."""

from typing import Any

import pytest
import torch
import transformers
from test_modeling_invariants import LogRecorder
from tiny_model import decisive_model, padded, sentences, tiny_model

from vaswani.modeling_vaswani import VaswaniModel

SOURCES = sentences(40, [7, 3, 5])
TARGETS = [[1, *row] for row in sentences(40, [4, 6, 2], seed=1, end=None)]
LENGTHS = torch.tensor([7, 3, 5])
EXACT = {"atol": 0.0, "rtol": 0.0}


def logits(model: Any, **source: Any) -> torch.Tensor:
    decoder_ids, _ = padded(TARGETS)
    with torch.no_grad():
        return model(decoder_input_ids=decoder_ids, **source)[0]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_lengths_equal_the_mask(attention: str, dtype: torch.dtype) -> None:
    """With ids, with embeddings, with the encoder's output; in the whole model and in the bare."""
    model = tiny_model(attention=attention)
    bare = VaswaniModel(model.config).eval()
    bare.load_state_dict(model.model.state_dict())
    bare.set_attn_implementation(attention)
    input_ids, mask = padded(SOURCES, extra=2)
    lengths = LENGTHS.to(dtype)
    with torch.no_grad():
        encoded = model.get_encoder()(input_ids=input_ids, attention_mask=mask)
        by_lengths = model.get_encoder()(input_ids=input_ids, source_lengths=lengths)
        embeds = model.model.encoder.embed_tokens(input_ids) * 32**0.5
    assert torch.equal(by_lengths.last_hidden_state, encoded.last_hidden_state)
    for source in (
        {"input_ids": input_ids},
        {"inputs_embeds": embeds},
        {"encoder_outputs": encoded},
        {"encoder_outputs": (encoded.last_hidden_state,)},
    ):
        for kind in (model, bare):
            expected = logits(kind, **source, attention_mask=mask)
            got = logits(kind, **source, source_lengths=lengths)
            torch.testing.assert_close(got, expected, **EXACT)


def test_lengths_say_what_ids_cannot() -> None:
    """A source that ends with the pad id, and one whose words beyond its length do not count."""
    model = tiny_model().double()
    input_ids = torch.tensor([[5, 6, 0, 9, 9], [5, 6, 7, 8, 2]])
    decoder_ids = torch.tensor([[1, 5], [1, 6]])
    lengths = torch.tensor([3, 5])
    with torch.no_grad():
        got = model(
            input_ids=input_ids, decoder_input_ids=decoder_ids, source_lengths=lengths
        ).logits
        alone = model(
            input_ids=input_ids[:1, :3],
            attention_mask=torch.ones(1, 3).long(),
            decoder_input_ids=decoder_ids[:1],
        ).logits
    torch.testing.assert_close(got[:1], alone, atol=1e-12, rtol=0.0)


@pytest.mark.parametrize("num_beams", [1, 3])
def test_generate_takes_lengths(num_beams: int) -> None:
    """Tokens and caps of the mask; also where ids alone would be read otherwise."""
    model = decisive_model()
    input_ids, mask = padded(sentences(9, [5, 2, 4]), extra=3)
    lengths = mask.sum(-1)
    input_ids[mask == 0] = 5
    options = {"num_beams": num_beams, "max_length_b": 3}
    expected = model.generate(input_ids, attention_mask=mask, **options)
    got = model.generate(input_ids, source_lengths=lengths, **options)
    assert got.tolist() == expected.tolist()
    assert got.tolist() != model.generate(input_ids, **options).tolist()


@pytest.mark.parametrize("num_beams", [1, 3])
def test_generate_takes_lengths_of_separate_vocabularies(num_beams: int) -> None:
    """Trial 7: pad ids differ, and the target's is a word of the source."""
    separate = {"encoder_vocab_size": 12, "encoder_pad_token_id": 7}
    model = decisive_model(share_encoder_decoder_embeddings=False, **separate)
    input_ids, mask = padded([[5, 0, 9, 8, 2], [11, 0, 2]], pad=7, extra=1)
    options = {"num_beams": num_beams, "max_length_b": 3}
    expected = model.generate(input_ids, attention_mask=mask, **options).tolist()
    assert model.generate(input_ids, source_lengths=mask.sum(-1), **options).tolist() == expected
    assert model.generate(input_ids, **options).tolist() == expected
    alone = model.generate(input_ids[1:, :3], **options)[0].tolist()
    assert [token for token in expected[1] if token] == [token for token in alone if token]


def test_lengths_need_no_warning_where_padding_is_the_end_token() -> None:
    model = tiny_model(pad_token_id=2)
    transformers.utils.logging.warning_once.cache_clear()
    batch = {"input_ids": torch.tensor([[5, 2, 2]]), "decoder_input_ids": torch.tensor([[1]])}
    with LogRecorder() as recorder, torch.no_grad():
        got = model(**batch, source_lengths=torch.tensor([2])).logits
        expected = model(**batch, attention_mask=torch.tensor([[1, 1, 0]])).logits
    assert recorder.messages == []
    assert torch.equal(got, expected)


def test_a_length_of_zero_is_finite() -> None:
    input_ids, _ = padded(SOURCES)
    got = logits(tiny_model(), input_ids=input_ids, source_lengths=torch.tensor([7, 0, 5]))
    assert torch.isfinite(got).all()


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (torch.tensor([7, 3]), r"must be 3 integers, .* got torch\.int64 of shape \(2,\)\."),
        (torch.tensor([[7, 3, 5]]), r"must be 3 integers, .* of shape \(1, 3\)\."),
        (torch.tensor([7.0, 3.0, 5.0]), r"must be 3 integers, .* got torch\.float32"),
        (torch.tensor([7, 8, 5]), r"must be between 0 and the source's 7 tokens, got 8\."),
        (torch.tensor([7, 3, -1]), r"must be between 0 and the source's 7 tokens, got -1\."),
    ],
    ids=str,
)
def test_lengths_that_do_not_fit_are_refused(lengths: torch.Tensor, message: str) -> None:
    """In forward and in `generate`."""
    model = tiny_model()
    input_ids, _ = padded(SOURCES)
    with pytest.raises(ValueError, match="`source_lengths` " + message):
        logits(model, input_ids=input_ids, source_lengths=lengths)
    with pytest.raises(ValueError, match="`source_lengths` " + message):
        model.generate(input_ids, source_lengths=lengths)


def test_mask_and_lengths_together_are_refused() -> None:
    model = tiny_model()
    input_ids, mask = padded(SOURCES)
    rule = r"`attention_mask` and `source_lengths` must not both be given, got both\."
    both = {"attention_mask": mask, "source_lengths": LENGTHS}
    with pytest.raises(ValueError, match=rule):
        logits(model, input_ids=input_ids, **both)
    with pytest.raises(ValueError, match=rule):
        model.get_encoder()(input_ids=input_ids, **both)
    with pytest.raises(ValueError, match=rule):
        model.generate(input_ids, **both)
