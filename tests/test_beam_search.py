"""Beam search against trying every output, against transformers, and whatever shares the batch."""

from itertools import product
from typing import Any

import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import (
    VARIANTS,
    decisive_model,
    padded,
    sentences,
    steps,
    tiny_model,
    with_library_search,
    words,
)
from transformers.generation import LogitsProcessor, LogitsProcessorList

from vaswani import VaswaniForConditionalGeneration
from vaswani.beam_search_vaswani import BeamSearch, BeamSettings, LengthPenalty

# Scores are added up in float32, as in transformers.
FLOAT32 = {"rel": 1e-5, "abs": 1e-5}
PENALTIES = {"gnmt": reference.gnmt_penalty, "power": reference.power_penalty}


def search(model: Any, sources: list[list[int]], **options: Any) -> Any:
    input_ids, mask = padded(sources)
    return model.generate(input_ids, attention_mask=mask, return_dict_in_generate=True, **options)


def found(output: Any) -> list[tuple[list[int], float]]:
    """Tokens and score of each row; a row without tokens is no hypothesis."""
    scores = output.sequences_scores.tolist()
    rows = zip(output.sequences, scores, strict=True)
    return [(words(row), score) for row, score in rows if score > -torch.inf]


@given(
    seed=st.integers(0, 1000),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    kind=st.sampled_from(["gnmt", "power"]),
)
@settings(max_examples=25, deadline=None)
def test_the_n_best_are_those_of_all_outputs(seed: int, alpha: float, kind: str) -> None:
    """Five symbols, at most 3 tokens and a beam that prunes nothing: tokens, order and scores."""
    model = decisive_model(seed=seed, vocab_size=5)
    source = [4, 3, 2]
    options = {"length_penalty": alpha, "length_penalty_type": kind, "max_new_tokens": 3}
    got = found(search(model, [source], num_beams=85, num_return_sequences=20, **options))
    every = reference.best_of_all(steps(model, source), 3, alpha=alpha, penalty=PENALTIES[kind])
    assert [score for _, score in got] == pytest.approx([s for _, s in every[:20]], **FLOAT32)
    for place, (tokens, _) in enumerate(got):
        near = [t for t, s in every if abs(s - every[place][1]) < 1e-5]
        assert tokens in near
    assert len({tuple(tokens) for tokens, _ in got}) == 20


@pytest.mark.parametrize("seed", range(4))
def test_stopping_early_misses_nothing(seed: int) -> None:
    """`early_stopping="never"` against a search that goes on up to the limit of each sentence."""
    sources = sentences(9, [5, 2, 8, 3])
    model = decisive_model(seed=seed)
    known = [steps(model, source) for source in sources]
    for kind, alpha, wanted in product(PENALTIES, (0.0, 0.6, 2.0), (1, 2, 4)):
        options = {"length_penalty": alpha, "length_penalty_type": kind, "max_length_b": 3}
        got = search(model, sources, num_beams=4, num_return_sequences=wanted, **options)
        expected = []
        for source, step in zip(sources, known, strict=True):
            limit = len(source) + 3
            plain = reference.beam_search(step, limit, alpha=alpha, penalty=PENALTIES[kind])
            expected += plain[:wanted]
        assert [tokens for tokens, _ in found(got)] == [tokens for tokens, _ in expected]
        scores = [score for _, score in expected]
        assert got.sequences_scores.tolist() == pytest.approx(scores, **FLOAT32)


def _steps_taken(log_probs: list[list[float]], limit: int, early_stopping: Any) -> tuple[int, Any]:
    """A search of beam 2 over tables of the step alone (0 goes on, 1 goes on, 2 ends)."""
    configured = BeamSettings(
        num_beams=2,
        num_return_sequences=1,
        penalty=LengthPenalty("power", 1.0),
        early_stopping=early_stopping,
        sample=False,
        end_token_ids=torch.tensor([2]),
        pad_token_id=-1,
    )
    beams = BeamSearch(torch.tensor([[0]]), torch.tensor([limit]), configured)
    while not beams.done.all():
        beams.advance(torch.tensor(log_probs[beams.generated]).expand(2, -1))
    return beams.generated, beams.result()


def test_all_beams_go_on_however_many_tokens_can_end_an_output() -> None:
    """Three of nine tokens are ends and the likeliest continuations of every open hypothesis."""
    beams, ends = 2, [1, 2, 3]
    configured = BeamSettings(
        num_beams=beams,
        num_return_sequences=beams,
        penalty=LengthPenalty("gnmt", 0.6),
        early_stopping="never",
        sample=False,
        end_token_ids=torch.tensor(ends),
        pad_token_id=0,
    )
    one = BeamSearch(torch.tensor([[8]]), torch.tensor([10]), configured)
    scores = torch.tensor([[-9.0, -1.0, -1.1, -1.2, -5.0, -6.0, -7.0, -8.0, -9.0]] * beams)
    for step in (1, 2, 3):
        one.advance(scores.log_softmax(-1))
        assert (one.open.scores > -torch.inf).all()
        assert not torch.isin(one.open.tokens[..., -1], torch.tensor(ends)).any()
        # Token 4 each time but for the last place of the second hypothesis.
        assert one.open.tokens[0, 0].tolist() == [8] + [4] * step


def test_never_waits_for_a_longer_output_that_wins_and_no_longer() -> None:
    """By hand: ending at once gives -1.0 / 1. Going on costs 0.1 a token, so that 4 tokens reach
    (-0.1 - 0.1 - 0.1 - 0.5) / 4 = -0.2."""
    table = [[-0.1, -9.0, -1.0], [-0.1, -9.0, -9.0], [-0.1, -9.0, -9.0], [-9.0, -9.0, -0.5]]
    table += [[-0.1, -9.0, -9.0]] * 6
    generated, best = _steps_taken(table, 10, "never")
    assert best.tokens[0, 0].tolist()[1:5] == [0, 0, 0, 2]
    assert best.scores.item() == pytest.approx(-0.2)
    # After 4 tokens the open one has -9.3, at best -9.3 / 10 = -0.93 and out of reach.
    assert generated == 4
    # With a limit of 2 it is cut there, at -0.2 / 2.
    generated, best = _steps_taken(table, 2, "never")
    assert (generated, best.tokens[0, 0].tolist()[1:]) == (2, [0, 0])
    assert best.scores.item() == pytest.approx(-0.1)


def test_stopping_at_the_first_finished_ones_misses_it() -> None:
    """By hand: two have ended after two tokens, the better with (-0.1 - 0.1) / 2. One of 8 tokens
    reaches (-0.1 - 0.3 - 6 x 0.001) / 8."""
    table = [[-0.1, -0.2, -0.15], [-0.3, -9.0, -0.1]]
    table += [[-0.001, -9.0, -9.0]] * 5 + [[-9.0, -9.0, -0.001]] * 3
    generated, best = _steps_taken(table, 10, True)
    assert generated == 2 and best.scores.item() == pytest.approx(-0.1)
    generated, best = _steps_taken(table, 10, "never")
    assert generated == 8 and best.scores.item() == pytest.approx(-0.406 / 8)


def generated(output: Any) -> list[list[int]]:
    """The generated tokens of each row; the library's filling with pad id 0 is the end token."""
    lengths = (output.beam_indices >= 0).sum(-1).tolist()
    return [row[1 : 1 + n].tolist() for row, n in zip(output.sequences, lengths, strict=True)]


class Noise(LogitsProcessor):
    """Lowers scores by an amount that depends on all tokens so far."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        factors = torch.arange(1, input_ids.size(1) + 1)
        return scores - (input_ids * factors).sum(-1, keepdim=True) % 7 / 10


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "false": {"early_stopping": False},
    "true": {"early_stopping": True},
    "never": {"early_stopping": "never"},
    "beam 8": {"num_beams": 8, "num_return_sequences": 8},
    "best alone": {"num_return_sequences": 1},
    "alpha 0": {"length_penalty": 0.0},
    "alpha 2": {"length_penalty": 2.0, "early_stopping": "never"},
    "two ends": {"eos_token_id": [2, 5]},
    "repetition": {"repetition_penalty": 1.4},
    "ngrams": {"no_repeat_ngram_size": 2},
    "bad words": {"bad_words_ids": [[4], [5, 6]]},
    "minimum": {"min_new_tokens": 4, "early_stopping": "never"},
    "forced": {"forced_bos_token_id": 5, "forced_eos_token_id": 2},
    "suppressed": {"suppress_tokens": [6, 7], "begin_suppress_tokens": [2]},
    "source words": {"encoder_no_repeat_ngram_size": 1},
    "processor": {"logits_processor": LogitsProcessorList([Noise()])},
    "sampling": {"do_sample": True, "top_k": 0},
    "top k": {"do_sample": True, "top_k": 6, "temperature": 1.5},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("precision", [torch.float32, torch.float64], ids=str)
def test_power_search_is_that_of_transformers(name: str, precision: torch.dtype) -> None:
    """Token for token and bit for bit, with all of its options; pad id 0 included."""
    options = {"num_beams": 3, "num_return_sequences": 3, "length_penalty": 0.8}
    options |= {"max_new_tokens": 7, "output_scores": True} | OPTIONS[name]
    sources = sentences(20, [5, 2, 7, 3])
    for seed in range(4):
        model = decisive_model(seed=seed, vocab_size=20).to(precision)
        theirs = with_library_search(model)
        torch.manual_seed(seed)
        expected = search(theirs, sources, **options)
        torch.manual_seed(seed)
        got = search(model, sources, length_penalty_type="power", **options)
        assert generated(got) == generated(expected)
        assert torch.equal(got.sequences_scores, expected.sequences_scores)
        assert torch.equal(got.beam_indices, expected.beam_indices.long())
        # Ours may have stopped sooner, and never goes on from what is impossible.
        assert [step.shape for step in got.scores] == [expected.scores[0].shape] * len(got.scores)
        assert torch.equal(got.scores[0], expected.scores[0])


@pytest.mark.parametrize("wanted", [1, 3])
def test_a_shrinking_batch_finds_the_same(wanted: int) -> None:
    """Without scores of each step sentences leave when they are done; with them nothing may."""
    sources = sentences(9, [5, 2, 11, 3, 7, 2])
    for seed in range(4):
        model = decisive_model(seed=seed)
        options = {"num_beams": 3, "num_return_sequences": wanted, "max_length_b": 5}
        whole = search(model, sources, output_scores=True, **options)
        shrinking = search(model, sources, **options)
        assert torch.equal(shrinking.sequences, whole.sequences)
        assert shrinking.sequences_scores.tolist() == pytest.approx(
            whole.sequences_scores.tolist(), **FLOAT32
        )
        assert torch.equal(shrinking.truncated, whole.truncated)
        assert shrinking.scores is None


@pytest.mark.parametrize("beams", [1, 4, 8])
@pytest.mark.parametrize("early_stopping", [True, False, "never"])
def test_neighbours_change_nothing(beams: int, early_stopping: Any) -> None:
    """Alone, together, sorted, reversed, padded, beside a sentence that does not end by itself."""
    sources = sentences(9, [5, 2, 4, 3, 7, 3, 6])
    options: dict[str, Any] = {"num_beams": beams, "max_length_b": 6}
    if beams > 1:
        options["early_stopping"] = early_stopping
    ended = cut = 0
    for seed in range(4):
        model = decisive_model(seed=seed)
        # From a model that ends its sentences to one that never does.
        with torch.no_grad():
            model.lm_head.bias[2] -= (0.0, 1.0, 2.0, 50.0)[seed]

        def outputs(rows: list[list[int]], extra: int = 0, model: Any = model) -> list[list[int]]:
            input_ids, mask = padded(rows, extra=extra)
            return list(map(words, model.generate(input_ids, attention_mask=mask, **options)))

        alone = [outputs([source])[0] for source in sources]
        assert outputs(sources) == alone
        assert outputs(sources, extra=5) == alone
        assert outputs(sources[::-1]) == alone[::-1]
        order = sorted(range(len(sources)), key=lambda k: len(sources[k]))
        assert outputs([sources[k] for k in order]) == [alone[k] for k in order]
        neighbour = sentences(9, [40], seed=seed)[0]
        assert outputs([*sources, neighbour])[:-1] == alone
        ended += sum(tokens[-1] == 2 for tokens in alone)
        cut += len(outputs([neighbour])[0]) == 46
    # Else the claim would be empty.
    assert ended and cut


class EndlessWhereLong(VaswaniForConditionalGeneration):
    """A model that never says the end token for a source of more than 8 tokens."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        output = super().forward(*args, **kwargs)
        long = kwargs["attention_mask"].sum(-1) > 8
        output.logits[long, :, self.config.eos_token_id] = -1e4
        return output


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize("scores_of_steps", [False, True], ids=["shrinking", "whole"])
def test_beam_8_finds_the_same_beside_a_sentence_without_end(
    early_stopping: Any, scores_of_steps: bool
) -> None:
    """All eight hypotheses, their scores and flags, whether finished sentences leave or stay."""
    finite = decisive_model(seed=3)
    with torch.no_grad():
        finite.lm_head.bias[2] += 1.0
    model = EndlessWhereLong(finite.config).double().eval()
    model.load_state_dict(finite.state_dict())
    options = {"num_beams": 8, "num_return_sequences": 8, "early_stopping": early_stopping}
    options["output_scores"] = scores_of_steps
    endless, source = sentences(9, [9, 4])
    alone = search(finite, [source], **options)
    assert words(alone.sequences[0])[-1] == 2 and not alone.truncated[0]
    for batch, own in (([endless, source], 8), ([source, endless], 0)):
        got = search(model, batch, **options)
        rows, others = slice(own, own + 8), slice(8 - own, 16 - own)
        assert [words(row) for row in got.sequences[rows]] == list(map(words, alone.sequences))
        scores = alone.sequences_scores.tolist()
        assert got.sequences_scores[rows].tolist() == pytest.approx(scores, **FLOAT32)
        assert torch.equal(got.truncated[rows], alone.truncated)
        assert got.truncated[others].all()
        assert (got.beam_indices[others] >= 0).sum(-1).tolist() == [9 + 50] * 8


def test_where_there_are_fewer_outputs_the_rest_is_empty() -> None:
    """One token of 5 symbols: 5 outputs, not 8."""
    model = decisive_model(vocab_size=5)
    got = search(model, [[4, 3, 2]], num_beams=8, num_return_sequences=8, max_new_tokens=1)
    assert torch.isfinite(got.sequences_scores).tolist() == [True] * 5 + [False] * 3
    assert sorted(got.sequences[:5, 1].tolist()) == [0, 1, 2, 3, 4]
    assert got.sequences[5:, 1].tolist() == [0, 0, 0]
    assert not got.truncated[5:].any()


@pytest.mark.parametrize("shape", [{}, {"encoder_vocab_size": 31, "encoder_pad_token_id": 7}])
def test_transition_scores_sum_to_log_p(shape: dict[str, Any]) -> None:
    """Also where the source has another vocabulary than the target."""
    if shape:
        shape = {**shape, "share_encoder_decoder_embeddings": False}
    model = tiny_model(noise=0.4, vocab_size=23, **shape)
    sources = sentences(23, [5, 3], avoid=7)
    options = {"num_beams": 4, "num_return_sequences": 4, "output_scores": True}
    got = search(model, sources, length_penalty=1.2, max_new_tokens=6, **options)
    steps_of = model.compute_transition_scores(got.sequences, got.scores, got.beam_indices)
    lengths = (got.beam_indices >= 0).sum(-1)
    expected = got.sequences_scores * ((5 + lengths) / 6) ** 1.2
    assert torch.allclose(steps_of.sum(-1), expected, atol=1e-5)


@pytest.mark.parametrize("sample", [False, True], ids=["best", "sampling"])
@pytest.mark.parametrize("early_stopping", [True, False, "never"])
def test_weights_that_are_no_numbers_end_within_the_cap(early_stopping: Any, sample: bool) -> None:
    """One word's NaN makes every log-probability one."""
    model = tiny_model()
    with torch.no_grad():
        model.lm_head.weight[3] = torch.nan
    options = {"early_stopping": early_stopping, "do_sample": sample}
    got = search(model, [[5, 6, 2]], num_beams=4, max_new_tokens=4, **options)
    assert got.sequences.size(1) <= 1 + 4
    assert got.sequences_scores.tolist() == [-torch.inf]


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
def test_a_sentence_without_numbers_leaves_the_others_alone(early_stopping: Any) -> None:
    model = tiny_model(**VARIANTS["two_tables"])
    with torch.no_grad():
        model.model.encoder.embed_tokens.weight[7] = torch.inf
    options = {"num_beams": 4, "max_new_tokens": 6, "early_stopping": early_stopping}
    alone = search(model, [[5, 6, 2]], **options)
    assert torch.isfinite(alone.sequences_scores).all()
    for batch, own in (([[5, 6, 2], [7, 8, 2]], 0), ([[7, 8, 2], [5, 6, 2]], 1)):
        got = search(model, batch, **options)
        assert words(got.sequences[own]) == words(alone.sequences[0])
        assert got.sequences_scores[own].item() == pytest.approx(
            alone.sequences_scores.item(), **FLOAT32
        )
        assert got.sequences_scores[1 - own] == -torch.inf


@pytest.mark.parametrize("kind", PENALTIES)
def test_an_infinite_penalty_ends_at_the_limit(kind: str) -> None:
    """`early_stopping="never"` divides by the penalty of the limit, here beyond float32."""
    configured = BeamSettings(
        2, 1, LengthPenalty(kind, 200.0), "never", False, torch.tensor([2]), 0
    )
    beams = BeamSearch(torch.tensor([[1]]), torch.tensor([5]), configured)
    for _ in range(5):
        beams.advance(torch.tensor([-1.0, -1.0, -torch.inf]).expand(2, -1))
    assert beams.done.all()
