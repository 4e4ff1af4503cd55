"""Claims about `vaswani.decoding` and `vaswani.scoring`, on ids alone and tiny models."""

import copy

import pytest
import torch
from tiny_model import decisive_model, endless_model, sentences

from vaswani import scoring
from vaswani.decoding import PrefixProcessor, batches_by_length, output_limit, search_batch
from vaswani.ensemble import VaswaniEnsemble
from vaswani.scoring import token_log_probabilities

SOURCES = sentences(9, [5, 2, 7, 3])
TARGETS = sentences(9, [4, 6, 1, 3], seed=1)


def test_a_prefix_allows_its_own_tokens_and_changes_no_score() -> None:
    """Three sentences of two beams: an id of 0 is a token like others, an empty one is free."""
    prefixes = [[0, 5, 3], [7], []]
    processor = PrefixProcessor(prefixes, torch.device("cpu"))
    scores = torch.randn(6, 9, generator=torch.Generator().manual_seed(0))
    for step in range(5):
        got = processor(torch.zeros(6, 1 + step, dtype=torch.long), scores.clone())
        for row in range(6):
            prefix = prefixes[row // 2]
            allowed = [prefix[step]] if step < len(prefix) else list(range(9))
            for token in range(9):
                expected = scores[row, token] if token in allowed else -torch.inf
                assert got[row, token] == expected


@pytest.mark.parametrize("num_beams", [1, 3])
def test_prefixes_of_a_batch_are_forced_whatever_their_length(num_beams: int) -> None:
    """As each source alone; the score is that of all tokens, the prefix's too."""
    model = decisive_model()
    config = copy.deepcopy(model.generation_config)
    config.update(num_beams=num_beams, num_return_sequences=num_beams, max_length_b=4)
    prefixes = [[4, 8, 5], [], [6], [3, 3]]
    found = search_batch(model, SOURCES, config, prefixes)
    for source, prefix, together in zip(SOURCES, prefixes, found, strict=True):
        (alone,) = search_batch(model, [source], config, [prefix])
        assert [h.ids for h in together] == [h.ids for h in alone]
        for hypothesis in together:
            assert hypothesis.ids[: len(prefix)] == prefix
            (values,) = token_log_probabilities(model, [source], [hypothesis.ids])
            undone = hypothesis.score * ((5 + len(hypothesis.ids)) / 6) ** 0.6
            assert undone == pytest.approx(sum(values), rel=1e-5)


@pytest.mark.parametrize("num_beams", [1, 2])
@pytest.mark.parametrize(("settings", "extra"), [({}, 50), ({"max_length_b": 3}, 3)])
def test_each_output_ends_at_the_limit_of_its_own_source(
    num_beams: int, settings: dict, extra: int
) -> None:
    model = endless_model()
    config = copy.deepcopy(model.generation_config)
    config.update(num_beams=num_beams, num_return_sequences=num_beams, **settings)
    for source, found in zip(SOURCES, search_batch(model, SOURCES, config), strict=True):
        assert {len(hypothesis.ids) for hypothesis in found} == {len(source) + extra}
        assert all(hypothesis.truncated for hypothesis in found)


def test_the_smaller_of_two_limits_counts() -> None:
    config = decisive_model().generation_config
    for given, expected in ((None, 57), (3, 3), (500, 57)):
        config.max_new_tokens = given
        assert output_limit(config, 7) == expected


def own_distribution(model: torch.nn.Module, source: list[int], target: list[int]) -> list[float]:
    """log P of each token by `forward` on the pair alone, in float64."""
    ids, start = torch.tensor([source]), model.config.decoder_start_token_id
    decoder_ids = torch.tensor([[start, *target[:-1]]])
    with torch.no_grad():
        logits = model(
            input_ids=ids, attention_mask=torch.ones_like(ids), decoder_input_ids=decoder_ids
        ).logits[0]
    log_probs = logits.double().log_softmax(-1)
    return [log_probs[place, token].item() for place, token in enumerate(target)]


@pytest.mark.parametrize("entries", [1, 9 * 4, 9 * 5, scoring.MAX_ENTRIES])
def test_scores_do_not_depend_on_how_many_are_computed_at_once(
    entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """24 tokens, padding included: in chunks of 1, 4, 5 (with a rest) and all."""
    monkeypatch.setattr(scoring, "MAX_ENTRIES", entries)
    model = decisive_model()
    sizes: list[int] = []
    model.lm_head.register_forward_hook(lambda module, given, made: sizes.append(made.numel()))
    with torch.no_grad():
        found = token_log_probabilities(model, SOURCES, TARGETS)
    assert max(sizes) <= max(entries, 9)
    for source, target, values in zip(SOURCES, TARGETS, found, strict=True):
        assert values == pytest.approx(own_distribution(model, source, target), abs=1e-9)


def test_scores_of_a_half_precision_model_are_taken_in_float32() -> None:
    """Its logits are rounded to bfloat16, so they are the same on both sides."""
    model = decisive_model().bfloat16()
    source, target = SOURCES[2], TARGETS[1]
    with torch.no_grad():
        (values,) = token_log_probabilities(model, [source], [target])
    assert values == pytest.approx(own_distribution(model, source, target), abs=1e-6)


def test_a_hypothesis_may_hold_the_padding_token() -> None:
    """Greedy search can say it; its probability counts as that of any other token."""
    model = decisive_model()
    target = [5, 0, 6, 2]
    with torch.no_grad():
        (values,) = token_log_probabilities(model, SOURCES[:1], [target])
    assert values == pytest.approx(own_distribution(model, SOURCES[0], target), abs=1e-9)


def test_sources_are_padded_with_an_id_of_their_own_vocabulary() -> None:
    """The target's padding is no entry of the source's table."""
    model = decisive_model(
        vocab_size=15,
        pad_token_id=12,
        encoder_vocab_size=9,
        encoder_pad_token_id=0,
        share_encoder_decoder_embeddings=False,
    )
    with torch.no_grad():
        found = token_log_probabilities(model, SOURCES, TARGETS)
        searched = search_batch(model, SOURCES, model.generation_config)
    for source, target, values in zip(SOURCES, TARGETS, found, strict=True):
        assert values == pytest.approx(own_distribution(model, source, target), abs=1e-9)
    assert len(searched) == len(SOURCES)


def test_padding_of_a_batch_is_told_by_lengths_not_by_ids() -> None:
    """A source may hold the id of padding as a word."""
    model = decisive_model()
    sources, targets = [[5, 0, 6, 2], [4, 2]], [[7, 2], [8, 6, 2]]
    with torch.no_grad():
        found = token_log_probabilities(model, sources, targets)
    for source, target, values in zip(sources, targets, found, strict=True):
        assert values == pytest.approx(own_distribution(model, source, target), abs=1e-9)


def test_scores_of_an_ensemble_are_logarithms_of_mean_probabilities() -> None:
    members = [decisive_model(seed=seed) for seed in (1, 2, 3)]
    with torch.no_grad():
        found = token_log_probabilities(VaswaniEnsemble(members), SOURCES, TARGETS)
    for source, target, values in zip(SOURCES, TARGETS, found, strict=True):
        alone = torch.tensor([own_distribution(model, source, target) for model in members])
        assert values == pytest.approx(alone.double().exp().mean(0).log().tolist(), abs=1e-6)


@pytest.mark.parametrize("batch_tokens", [1, 7, 12, 10_000])
def test_batches_hold_every_text_once_within_the_budget(batch_tokens: int) -> None:
    lengths = [3, 9, 1, 4, 4, 2, 9, 5]
    batches = list(batches_by_length(lengths, batch_tokens=batch_tokens, vocab_size=9))
    assert sorted(k for batch in batches for k in batch) == list(range(len(lengths)))
    longest = [max(lengths[k] for k in batch) for batch in batches]
    assert longest == sorted(longest, reverse=True)
    for most, batch in zip(longest, batches, strict=True):
        assert most * len(batch) <= batch_tokens or len(batch) == 1
