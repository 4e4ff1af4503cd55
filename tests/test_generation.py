"""Search: tokens and scores of the reference, the cap of section 6.1, and what is saved."""

import math
from pathlib import Path
from typing import Any

import pytest
import reference
import torch
from tiny_model import (
    decisive_model,
    endless_model,
    padded,
    plain_settings,
    sentences,
    steps,
    words,
)

from vaswani import VaswaniForConditionalGeneration

SOURCES = sentences(9, [5, 2, 4, 3])
SHORT = {"max_length_b": 3}
# transformers adds up scores in float32.
FLOAT32 = {"rel": 1e-5, "abs": 1e-5}


def search(model: Any, sources: list[list[int]], **options: Any) -> Any:
    input_ids, mask = padded(sources)
    options |= {"return_dict_in_generate": True, "output_scores": True}
    return model.generate(input_ids, attention_mask=mask, **options)


def outputs(model: Any, sources: list[list[int]], **options: Any) -> list[list[int]]:
    return [words(row) for row in search(model, sources, **options).sequences]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("use_cache", [True, False])
def test_greedy_tokens_are_those_of_the_reference(seed: int, use_cache: bool) -> None:
    model = decisive_model(seed=seed)
    got = outputs(model, SOURCES, num_beams=1, use_cache=use_cache, **SHORT)
    for source, tokens in zip(SOURCES, got, strict=True):
        limit = reference.cap(plain_settings(model), source, b=3)
        assert tokens == reference.greedy(steps(model, source), limit)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("num_beams", [2, 4])
def test_beam_hypotheses_are_those_of_the_reference(
    seed: int, use_cache: bool, num_beams: int
) -> None:
    """All of them, in order, with their scores; penalty and cap are those that a model ships."""
    model = decisive_model(seed=seed)
    got = search(
        model,
        SOURCES,
        num_beams=num_beams,
        num_return_sequences=num_beams,
        use_cache=use_cache,
        **SHORT,
    )
    for number, source in enumerate(SOURCES):
        limit = reference.cap(plain_settings(model), source, b=3)
        expected = reference.beam_search(steps(model, source), limit, num_beams=num_beams)
        rows = slice(number * num_beams, (number + 1) * num_beams)
        assert [words(row) for row in got.sequences[rows]] == [tokens for tokens, _ in expected]
        scores = [score for _, score in expected]
        assert got.sequences_scores[rows].tolist() == pytest.approx(scores, **FLOAT32)


def test_the_shipped_search_is_beam_4_alpha_06() -> None:
    model = decisive_model()
    got = outputs(model, SOURCES, **SHORT)
    for source, tokens in zip(SOURCES, got, strict=True):
        limit = reference.cap(plain_settings(model), source, b=3)
        best = reference.beam_search(steps(model, source), limit, num_beams=4, alpha=0.6)[0]
        assert tokens == best[0]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_a_full_forward_pass(seed: int, alpha: float) -> None:
    """Trial 29: sum of log-probabilities over ((5 + n) / 6)^alpha, n with the end token."""
    model = decisive_model(seed=seed)
    got = search(model, SOURCES, num_beams=4, num_return_sequences=4, length_penalty=alpha, **SHORT)
    input_ids, mask = padded(SOURCES)
    with torch.no_grad():
        logits = model(
            input_ids=input_ids.repeat_interleave(4, 0),
            attention_mask=mask.repeat_interleave(4, 0),
            decoder_input_ids=got.sequences,
        ).logits
    for row, scores, score in zip(got.sequences, logits, got.sequences_scores, strict=True):
        tokens = words(row)
        logp = sum(scores[i].log_softmax(-1)[token].item() for i, token in enumerate(tokens))
        expected = logp / ((5 + len(tokens)) / 6) ** alpha
        assert score.item() == pytest.approx(expected, **FLOAT32)
    ordered = got.sequences_scores.view(-1, 4)
    assert torch.equal(ordered, ordered.sort(dim=-1, descending=True).values)
    for number in range(len(SOURCES)):
        found = [tuple(words(row)) for row in got.sequences[number * 4 : number * 4 + 4]]
        assert len(set(found)) == 4


def test_a_larger_alpha_prefers_longer_outputs() -> None:
    longer = 0
    for seed in range(6):
        model = decisive_model(seed=seed)
        short = outputs(model, SOURCES, length_penalty=0.0, **SHORT)
        long = outputs(model, SOURCES, length_penalty=3.0, **SHORT)
        for one, other in zip(short, long, strict=True):
            assert len(one) <= len(other)
            longer += len(one) < len(other)
    assert longer > 0


@pytest.mark.parametrize("num_beams", [1, 3])
def test_a_finished_output_is_filled_with_padding(num_beams: int) -> None:
    """Never with end tokens: an output that was cut could not be told from one that ended."""
    model = decisive_model(seed=1)
    for row in search(model, SOURCES, num_beams=num_beams, **SHORT).sequences:
        assert not row[1 + len(words(row)) :].any()


def test_an_unknown_penalty_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"`length_penalty_type` must be one of gnmt, power, got 'wu'\."
    ):
        search(decisive_model(), SOURCES, length_penalty_type="wu")


SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"num_beams": 1},
    "sampling": {"num_beams": 1, "do_sample": True},
    "beam": {"num_beams": 4},
    "beam_sampling": {"num_beams": 2, "do_sample": True},
}


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_output_ends_at_source_plus_50(kind: str, left: bool) -> None:
    """Section 6.1, for each sentence of a padded batch by its own length; real tokens count."""
    model = endless_model()
    input_ids, mask = padded(SOURCES, extra=3, left=left)
    torch.manual_seed(0)
    rows = model.generate(input_ids, attention_mask=mask, **SEARCHES[kind])
    assert [len(words(row)) for row in rows] == [len(source) + 50 for source in SOURCES]


@pytest.mark.parametrize("kind", SEARCHES)
def test_output_ends_at_the_cap_without_a_mask(kind: str) -> None:
    model = endless_model()
    input_ids, _ = padded(SOURCES, extra=3)
    rows = model.generate(input_ids, max_length_b=4, **SEARCHES[kind])
    assert [len(words(row)) for row in rows] == [len(source) + 4 for source in SOURCES]


@pytest.mark.parametrize("kind", SEARCHES)
def test_cap_follows_its_two_settings(kind: str) -> None:
    model = endless_model()
    got = outputs(model, SOURCES, max_length_a=1.5, max_length_b=1, **SEARCHES[kind])
    assert [len(tokens) for tokens in got] == [
        math.floor(1.5 * len(source)) + 1 for source in SOURCES
    ]


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize(
    ("limit", "lengths"),
    [
        ({"max_new_tokens": 6}, [6, 6, 6, 6]),
        ({"max_new_tokens": 8}, [8, 6, 8, 7]),
        ({"max_new_tokens": 100}, [9, 6, 8, 7]),
        ({"max_length": 8}, [7, 6, 7, 7]),
        ({"max_length": 100}, [9, 6, 8, 7]),
    ],
    ids=str,
)
def test_the_smaller_limit_wins(kind: str, limit: dict[str, int], lengths: list[int]) -> None:
    """`max_new_tokens` counts generated tokens, `max_length` the start token too."""
    got = outputs(endless_model(), SOURCES, max_length_b=4, **limit, **SEARCHES[kind])
    assert [len(tokens) for tokens in got] == lengths


@pytest.mark.parametrize("kind", ["sampling", "beam"])
def test_several_outputs_of_a_sentence_share_its_cap(kind: str) -> None:
    options = {"num_return_sequences": 2, "max_length_b": 4, **SEARCHES[kind]}
    got = outputs(endless_model(), SOURCES, **options)
    assert [len(tokens) for tokens in got] == [9, 9, 6, 6, 8, 8, 7, 7]


def test_cap_counts_the_tokens_after_a_given_beginning() -> None:
    model = endless_model()
    input_ids, mask = padded(SOURCES[:1])
    row = model.generate(
        input_ids,
        attention_mask=mask,
        decoder_input_ids=torch.tensor([[1, 5, 6]]),
        max_length_b=4,
    )[0]
    assert row[:3].tolist() == [1, 5, 6]
    assert len(row) == 3 + len(SOURCES[0]) + 4


@pytest.mark.parametrize("kind", ["greedy", "beam"])
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("seed", range(3))
def test_a_batch_translates_as_its_sentences_alone(kind: str, left: bool, seed: int) -> None:
    model = decisive_model(seed=seed)
    input_ids, mask = padded(SOURCES, extra=2, left=left)
    together = model.generate(input_ids, attention_mask=mask, **SHORT, **SEARCHES[kind])
    for source, row in zip(SOURCES, together, strict=True):
        assert words(row) == outputs(model, [source], **SHORT, **SEARCHES[kind])[0]


@pytest.mark.parametrize("kind", ["greedy", "beam"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize(
    "shape", [{}, {"d_k": 3, "d_v": 5}, {"encoder_layers": 1, "decoder_layers": 2}], ids=str
)
def test_caches_do_not_change_a_translation(kind: str, attention: str, shape: dict) -> None:
    """Trial 27: without a cache, with a growing one and with one of fixed size."""
    model = decisive_model(attention=attention, **shape)
    options = {**SHORT, **SEARCHES[kind]}
    expected = outputs(model, SOURCES, use_cache=False, **options)
    assert outputs(model, SOURCES, use_cache=True, **options) == expected
    assert outputs(model, SOURCES, cache_implementation="static", **options) == expected


def test_encoder_outputs_stand_for_the_source() -> None:
    model = decisive_model()
    input_ids, mask = padded(SOURCES)
    with torch.no_grad():
        encoded = model.get_encoder()(input_ids=input_ids, attention_mask=mask)
    expected = model.generate(input_ids, attention_mask=mask, **SHORT)
    got = model.generate(encoder_outputs=encoded, attention_mask=mask, **SHORT)
    assert got.tolist() == expected.tolist()


def test_sampling_follows_the_seed() -> None:
    model = decisive_model()
    drawn = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        drawn.append(outputs(model, SOURCES * 3, num_beams=1, do_sample=True, top_k=0, **SHORT))
    assert drawn[0] == drawn[1] != drawn[2]


def test_sampling_draws_from_the_models_distribution() -> None:
    """First tokens of 4,000 samples; the standard error of a frequency is below 0.008."""
    model = decisive_model()
    source = SOURCES[0]
    torch.manual_seed(0)
    options = {"num_beams": 1, "do_sample": True, "top_k": 0, "max_new_tokens": 1}
    got = search(model, [source], num_return_sequences=4000, **options).sequences[:, 1]
    for entry, logp in enumerate(steps(model, source)([])):
        assert (got == entry).double().mean().item() == pytest.approx(math.exp(logp), abs=0.03)


def test_generation_settings_survive_saving(tmp_path: Path) -> None:
    """Shipped values, fields of our own included; then changed ones."""
    shipped = {
        "num_beams": 4,
        "length_penalty": 0.6,
        "length_penalty_type": "gnmt",
        "max_length_a": 1.0,
        "max_length_b": 50,
        "early_stopping": "never",
        "decoder_start_token_id": 1,
    }
    changed = {"length_penalty_type": "power", "max_length_a": 2.0, "max_length_b": 7}
    model = decisive_model()
    for expected in (shipped, shipped | changed):
        for name, value in expected.items():
            setattr(model.generation_config, name, value)
        folder = tmp_path / str(len(expected))
        model.save_pretrained(folder)
        model = VaswaniForConditionalGeneration.from_pretrained(folder)
        assert {name: getattr(model.generation_config, name) for name in expected} == expected


def test_a_fresh_model_ships_the_papers_search() -> None:
    """Section 6.1. No repetition option is on by default (trial 30)."""
    settings = decisive_model().generation_config
    assert (settings.num_beams, settings.length_penalty) == (4, 0.6)
    assert (settings.length_penalty_type, settings.early_stopping) == ("gnmt", "never")
    assert (settings.max_length_a, settings.max_length_b) == (1.0, 50)
    assert settings.repetition_penalty in (None, 1.0)
    assert settings.no_repeat_ngram_size in (None, 0)
    assert settings.max_length is None or settings.max_length == 20
