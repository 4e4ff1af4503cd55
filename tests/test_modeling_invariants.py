"""What may not change the model's output: later words, padding, company, cache, attention code."""

import copy
import logging
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import padded, sentences, tiny_model
from torch import Tensor

SOURCES = sentences(40, [7, 3, 5])
TARGETS = [[1, *row] for row in sentences(40, [4, 6, 2], seed=1, end=None)]

# In float64 a different order of summation moves nothing above this.
EXACT = {"atol": 1e-12, "rtol": 0.0}
# "same" of the trials, in float32.
SAME = {"atol": 1e-5, "rtol": 0.0}


def double_model(**settings: Any) -> Any:
    return tiny_model(**settings).double()


def logits_of(model: Any, sources: list[list[int]], targets: list[list[int]]) -> list[Tensor]:
    """Logits `(T, W)` of each sentence, read from one padded batch."""
    input_ids, mask = padded(sources)
    decoder_ids, _ = padded(targets)
    with torch.no_grad():
        logits = model(
            input_ids=input_ids, attention_mask=mask, decoder_input_ids=decoder_ids
        ).logits
    return [row[: len(target)] for row, target in zip(logits, targets, strict=True)]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@given(place=st.integers(1, 7), word=st.integers(4, 39))
@settings(max_examples=15, deadline=None)
def test_decoder_cannot_see_later_targets(attention: str, place: int, word: int) -> None:
    """Section 3.1: the prediction for position i depends only on outputs before i."""
    model = double_model(attention=attention)
    target = [1, 9, 8, 7, 6, 5, 4, 11]
    changed = [*target[:place], word, *target[place + 1 :]]
    (before,) = logits_of(model, SOURCES[:1], [target])
    (after,) = logits_of(model, SOURCES[:1], [changed])
    torch.testing.assert_close(after[:place], before[:place], **EXACT)
    if word != target[place]:
        assert (after[place:] - before[place:]).abs().amax(dim=-1).min() > 1e-6


def test_every_target_position_sees_the_whole_source() -> None:
    model = double_model()
    source = SOURCES[0]
    (before,) = logits_of(model, [source], TARGETS[:1])
    for place in range(len(source)):
        changed = [*source[:place], 39 if source[place] != 39 else 38, *source[place + 1 :]]
        (after,) = logits_of(model, [changed], TARGETS[:1])
        assert (after - before).abs().amax(dim=-1).min() > 1e-6


def test_word_order_of_the_source_matters() -> None:
    model = double_model()
    (before,) = logits_of(model, [[5, 6, 2]], TARGETS[:1])
    (after,) = logits_of(model, [[6, 5, 2]], TARGETS[:1])
    assert (after - before).abs().max() > 1e-3


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_source_padding_changes_nothing(attention: str, left: bool) -> None:
    """On either side: a padded position takes no position number away from a word."""
    model = double_model(attention=attention)
    decoder_ids, _ = padded(TARGETS)
    input_ids, mask = padded(SOURCES)
    more_ids, more_mask = padded(SOURCES, extra=4, left=left)
    with torch.no_grad():
        expected = model(input_ids=input_ids, attention_mask=mask, decoder_input_ids=decoder_ids)
        got = model(input_ids=more_ids, attention_mask=more_mask, decoder_input_ids=decoder_ids)
    torch.testing.assert_close(got.logits, expected.logits, **EXACT)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_target_padding_changes_nothing(attention: str, left: bool) -> None:
    model = double_model(attention=attention)
    input_ids, mask = padded(SOURCES)
    decoder_ids, decoder_mask = padded(TARGETS, extra=3, left=left)
    with torch.no_grad():
        logits = model(
            input_ids=input_ids,
            attention_mask=mask,
            decoder_input_ids=decoder_ids,
            decoder_attention_mask=decoder_mask,
        ).logits
    expected = logits_of(model, SOURCES, TARGETS)
    for row, shown, wanted in zip(logits, decoder_mask.bool(), expected, strict=True):
        torch.testing.assert_close(row[shown], wanted, **EXACT)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_batch_equals_its_sentences_alone(attention: str) -> None:
    model = double_model(attention=attention)
    together = logits_of(model, SOURCES, TARGETS)
    for source, target, row in zip(SOURCES, TARGETS, together, strict=True):
        (alone,) = logits_of(model, [source], [target])
        torch.testing.assert_close(row, alone, **EXACT)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("first", [1, 3], ids=["from_the_start", "after_a_prefix"])
@pytest.mark.parametrize(
    "shape", [{}, {"encoder_layers": 1, "decoder_layers": 3}, {"d_k": 5, "d_v": 11}], ids=str
)
def test_logits_with_a_cache_equal_those_without(attention: str, first: int, shape: dict) -> None:
    """Trial 27: step by step against one full forward, also after a prefix of 3 target tokens."""
    model = double_model(attention=attention, **shape)
    input_ids, mask = padded(SOURCES)
    decoder_ids = torch.tensor([[1, 5, 6, 7, 8], [1, 9, 4, 4, 10], [1, 30, 2, 11, 12]])
    with torch.no_grad():
        full = model(input_ids=input_ids, attention_mask=mask, decoder_input_ids=decoder_ids).logits
        encoded = model.get_encoder()(input_ids=input_ids, attention_mask=mask)
        steps, cache, start = [], None, 0
        for stop in range(first, decoder_ids.shape[1] + 1):
            output = model(
                encoder_outputs=encoded,
                attention_mask=mask,
                decoder_input_ids=decoder_ids[:, start:stop],
                cache=cache,
                use_cache=True,
            )
            steps.append(output.logits)
            cache, start = output.cache, stop
    torch.testing.assert_close(torch.cat(steps, dim=1), full, **EXACT)


def test_no_cache_is_returned_when_none_is_wanted() -> None:
    input_ids, mask = padded(SOURCES)
    decoder_ids, _ = padded(TARGETS)
    with torch.no_grad():
        output = tiny_model()(
            input_ids=input_ids,
            attention_mask=mask,
            decoder_input_ids=decoder_ids,
            use_cache=False,
        )
    assert output.cache is None


def loss_and_gradients(model: Any, mask: Tensor) -> tuple[Tensor, list[Tensor]]:
    input_ids, _ = padded(SOURCES)
    labels, _ = padded([[*row[1:], 2] for row in TARGETS], pad=-100)
    loss = model(input_ids=input_ids, attention_mask=mask, labels=labels).loss
    loss.backward()
    return loss.detach(), [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("empty_row", [False, True], ids=["all_real", "a_row_of_padding"])
def test_sdpa_equals_eager(empty_row: bool) -> None:
    """Values and gradients, also where a source row may not be seen at all: never NaN."""
    _, mask = padded(SOURCES)
    if empty_row:
        mask[1] = 0
    results = {}
    for attention in ("eager", "sdpa"):
        model = double_model(attention=attention)
        results[attention] = loss_and_gradients(model, mask)
    torch.testing.assert_close(results["sdpa"], results["eager"], **EXACT)
    loss, gradients = results["eager"]
    assert torch.isfinite(loss)
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_row_of_padding_is_finite_and_alone(attention: str, dtype: torch.dtype) -> None:
    """A fully padded source row gives finite numbers, and its neighbors the same as without it."""
    model = tiny_model(attention=attention).to(dtype)
    input_ids, mask = padded(SOURCES)
    decoder_ids, _ = padded(TARGETS)
    hidden = mask.clone()
    hidden[1] = 0
    with torch.no_grad():
        got = model(input_ids=input_ids, attention_mask=hidden, decoder_input_ids=decoder_ids)
        expected = model(input_ids=input_ids, attention_mask=mask, decoder_input_ids=decoder_ids)
    assert torch.isfinite(got.logits).all()
    torch.testing.assert_close(got.logits[[0, 2]], expected.logits[[0, 2]], atol=0.0, rtol=0.0)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_all_ways_to_evaluate_agree(attention: str) -> None:
    """Trial 2: train mode without dropout, eval, no_grad and inference_mode; all columns kept."""
    model = tiny_model(attention=attention)
    input_ids, mask = padded(SOURCES, extra=2)
    decoder_ids, _ = padded(TARGETS, extra=2)
    batch = {"input_ids": input_ids, "attention_mask": mask, "decoder_input_ids": decoder_ids}
    outputs = {"train": model.train().model(**batch), "eval": model.eval().model(**batch)}
    with torch.no_grad():
        outputs["no_grad"] = model.model(**batch)
    with torch.inference_mode():
        outputs["inference_mode"] = model.model(**batch)
    for output in outputs.values():
        assert output.last_hidden_state.shape[:2] == decoder_ids.shape
        assert output.encoder_last_hidden_state.shape[:2] == input_ids.shape
        torch.testing.assert_close(
            output.last_hidden_state.detach().clone(),
            outputs["train"].last_hidden_state.detach(),
            **SAME,
        )


def test_dropout_acts_in_training_only() -> None:
    model = tiny_model(dropout=0.3)
    input_ids, mask = padded(SOURCES)
    decoder_ids, _ = padded(TARGETS)
    batch = {"input_ids": input_ids, "attention_mask": mask, "decoder_input_ids": decoder_ids}
    with torch.no_grad():
        assert torch.equal(model(**batch).logits, model(**batch).logits)
        model.train()
        assert not torch.equal(model(**batch).logits, model(**batch).logits)


@pytest.mark.parametrize("field", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_dropout_is_wired(field: str) -> None:
    model = tiny_model(**{field: 0.3}).train()
    input_ids, mask = padded(SOURCES)
    decoder_ids, _ = padded(TARGETS)
    batch = {"input_ids": input_ids, "attention_mask": mask, "decoder_input_ids": decoder_ids}
    with torch.no_grad():
        assert not torch.equal(model(**batch).logits, model(**batch).logits)


def assert_generate_needs_no_mask(model: Any, input_ids: Tensor, mask: Tensor) -> None:
    """Tokens and scores of a beam search are those of the explicit mask."""
    settings = {"num_beams": 2, "max_new_tokens": 6}
    settings |= {"return_dict_in_generate": True, "output_scores": True}
    without = model.generate(input_ids, **settings)
    with_mask = model.generate(input_ids, attention_mask=mask, **settings)
    assert without.sequences.tolist() == with_mask.sequences.tolist()
    # generate keeps scores in float32.
    torch.testing.assert_close(without.sequences_scores, with_mask.sequences_scores, **SAME)


class LogRecorder(logging.Handler):
    """Collects what transformers logs while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())

    def __enter__(self) -> "LogRecorder":
        for name in ("transformers", "vaswani"):
            logging.getLogger(name).addHandler(self)
        return self

    def __exit__(self, *exception: object) -> None:
        for name in ("transformers", "vaswani"):
            logging.getLogger(name).removeHandler(self)


def test_source_padding_is_found_without_a_mask() -> None:
    """Trial 7: forward masks what equals the source pad id, as `generate` does."""
    model = double_model()
    input_ids, mask = padded(SOURCES)
    decoder_ids, _ = padded(TARGETS)
    with torch.no_grad():
        with_mask = model(input_ids=input_ids, attention_mask=mask, decoder_input_ids=decoder_ids)
        without = model(input_ids=input_ids, decoder_input_ids=decoder_ids)
    torch.testing.assert_close(without.logits, with_mask.logits, **EXACT)
    assert_generate_needs_no_mask(model, input_ids, mask)


def test_source_padding_is_that_of_the_source_vocabulary() -> None:
    """Trial 7: with separate vocabularies 0 is a word of the source and 7 its padding."""
    model = double_model(
        encoder_vocab_size=31, encoder_pad_token_id=7, share_encoder_decoder_embeddings=False
    )
    sources = [[5, 0, 9, 8, 2], [6, 0, 2]]
    input_ids, mask = padded(sources, pad=7)
    decoder_ids, _ = padded(TARGETS[:2])
    with torch.no_grad():
        with_mask = model(input_ids=input_ids, attention_mask=mask, decoder_input_ids=decoder_ids)
        without = model(input_ids=input_ids, decoder_input_ids=decoder_ids)
    torch.testing.assert_close(without.logits, with_mask.logits, **EXACT)
    assert_generate_needs_no_mask(model, input_ids, mask)


def test_a_real_end_token_is_never_masked() -> None:
    """Trial 7: padding with the id of the end token cannot be told apart, so all is attended to."""
    model = double_model(pad_token_id=2)
    input_ids = torch.tensor([[5, 6, 2], [7, 8, 2]])
    decoder_ids = torch.tensor([[1, 5], [1, 6]])
    with torch.no_grad():
        without = model(input_ids=input_ids, decoder_input_ids=decoder_ids).logits
        with_mask = model(
            input_ids=input_ids,
            attention_mask=torch.ones_like(input_ids),
            decoder_input_ids=decoder_ids,
        ).logits
    torch.testing.assert_close(without, with_mask, **EXACT)
    assert_generate_needs_no_mask(model, input_ids, torch.ones_like(input_ids))


def test_ambiguous_padding_is_warned_about() -> None:
    """Trial 7: several end tokens in a row look like padding that no mask was given for."""
    model = double_model(pad_token_id=2)
    transformers.utils.logging.warning_once.cache_clear()
    with LogRecorder() as recorder, torch.no_grad():
        model(input_ids=torch.tensor([[5, 2, 2]]), decoder_input_ids=torch.tensor([[1]]))
    assert any("`attention_mask` must be given" in text for text in recorder.messages)


def test_copies_do_not_share_state() -> None:
    """A deep copy answers alike: nothing the model needs lives outside it."""
    model = double_model()
    twin = copy.deepcopy(model)
    torch.testing.assert_close(
        logits_of(twin, SOURCES, TARGETS), logits_of(model, SOURCES, TARGETS), **EXACT
    )


@pytest.mark.parametrize("use_cache", [False, True])
def test_no_sentences_have_no_logits(use_cache: bool) -> None:
    """A batch of 0 rows, with a mask and without; sdpa of transformers 5.24 takes none."""
    model = tiny_model(attention="eager")
    source, target = torch.empty(0, 7, dtype=torch.long), torch.empty(0, 4, dtype=torch.long)
    for mask in (None, torch.ones_like(source)):
        with torch.no_grad():
            output = model(
                input_ids=source,
                attention_mask=mask,
                decoder_input_ids=target,
                use_cache=use_cache,
            )
        assert output.logits.shape == (0, 4, 40)
        assert output.encoder_last_hidden_state.shape == (0, 7, 32)
