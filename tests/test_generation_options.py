"""Everything else that `generate()` of transformers can do goes on working, as it does there."""

from typing import Any

import pytest
import torch
from tiny_model import (
    decisive_model,
    endless_model,
    padded,
    sentences,
    with_library_search,
    words,
)
from transformers.generation import BaseStreamer, StoppingCriteria, StoppingCriteriaList

SOURCES = sentences(20, [5, 2, 7, 3])
STEPS = {"output_scores": True, "output_logits": True, "return_dict_in_generate": True}


def twins(seed: int, **settings: Any) -> tuple[Any, Any]:
    """A model and the same with the library's search."""
    model = decisive_model(seed=seed, vocab_size=20, **settings)
    library = with_library_search(model)
    library.set_attn_implementation(model.config._attn_implementation)
    return model, library


def generate(model: Any, seed: int = 0, **options: Any) -> Any:
    input_ids, mask = padded(SOURCES)
    torch.manual_seed(seed)
    return model.generate(input_ids, attention_mask=mask, **options)


DECODING: dict[str, dict[str, Any]] = {
    "greedy": {},
    "repetition": {"repetition_penalty": 1.4},
    "ngrams": {"no_repeat_ngram_size": 2},
    "bad words": {"bad_words_ids": [[4], [5, 6]]},
    "minimum": {"min_new_tokens": 4},
    "forced": {"forced_bos_token_id": 5, "forced_eos_token_id": 2},
    "suppressed": {"suppress_tokens": [6, 7], "begin_suppress_tokens": [2]},
    "bias": {"sequence_bias": [[[7], 3.0], [[8, 9], -5.0]]},
    "sampling": {"do_sample": True, "top_k": 0},
    "nucleus": {"do_sample": True, "top_k": 0, "top_p": 0.8, "temperature": 0.7},
    "several": {"do_sample": True, "num_return_sequences": 3},
    "contrast": {"do_sample": True, "min_p": 0.05, "typical_p": 0.9},
}


@pytest.mark.parametrize("name", DECODING)
def test_greedy_search_and_sampling_are_those_of_transformers(name: str) -> None:
    for seed in range(3):
        model, library = twins(seed)
        options = {"num_beams": 1, "max_new_tokens": 8, **DECODING[name]}
        expected = generate(library, seed, **options)
        assert generate(model, seed, **options).tolist() == expected.tolist()


def test_assisted_greedy_search_finds_what_greedy_search_finds() -> None:
    model, assistant = decisive_model(vocab_size=20), decisive_model(vocab_size=20, seed=1)
    for source in SOURCES:
        ids = torch.tensor([source])
        expected = model.generate(ids, num_beams=1, max_length_b=3)
        got = model.generate(ids, num_beams=1, max_length_b=3, assistant_model=assistant)
        assert got.tolist() == expected.tolist()


class Collector(BaseStreamer):
    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.ended = False

    def put(self, value: Any) -> None:
        self.tokens += value.flatten().tolist()

    def end(self) -> None:
        self.ended = True


def test_greedy_search_streams_and_beam_search_says_that_it_cannot() -> None:
    model = decisive_model(vocab_size=20)
    source, streamer = torch.tensor([SOURCES[0]]), Collector()
    output = model.generate(source, num_beams=1, streamer=streamer)
    assert streamer.tokens == output[0].tolist() and streamer.ended
    with pytest.raises(ValueError, match="`streamer` cannot be used with beam search"):
        model.generate(source, num_beams=2, streamer=streamer)


@pytest.mark.parametrize("prefix", [[[1]] * 4, [[1, 5, 6], [1, 6, 6], [1, 7, 5], [1, 5, 5]]])
def test_beam_search_returns_all_that_transformers_returns(prefix: list[list[int]]) -> None:
    """Scores, logits, attention weights and states of each step, also after a given beginning."""
    model, library = twins(3, attention="eager")
    options = {"num_beams": 3, "num_return_sequences": 2, "early_stopping": False}
    options |= {"max_new_tokens": 5, "length_penalty": 0.7, **STEPS}
    options |= {"output_attentions": True, "output_hidden_states": True}
    options["decoder_input_ids"] = torch.tensor(prefix)
    expected = generate(library, **options)
    got = generate(model, length_penalty_type="power", **options)
    assert isinstance(got, type(expected))
    assert torch.equal(got.sequences_scores, expected.sequences_scores)
    assert torch.equal(got.beam_indices, expected.beam_indices.long())
    for name in ("scores", "logits", "encoder_attentions", "encoder_hidden_states"):
        torch.testing.assert_close(getattr(got, name), getattr(expected, name))
    for name in ("decoder_attentions", "cross_attentions", "decoder_hidden_states"):
        torch.testing.assert_close(getattr(got, name), getattr(expected, name))
    assert got.cache.get_seq_length() == expected.cache.get_seq_length()


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("cache", [{}, {"use_cache": False}, {"cache_implementation": "static"}])
def test_logits_of_each_step_are_those_of_one_full_forward(beams: int, cache: dict) -> None:
    """Trial 27, after a beginning of three tokens and from encoder outputs that were kept."""
    model = decisive_model(vocab_size=20)
    input_ids, mask = padded(SOURCES)
    with torch.no_grad():
        encoded = model.get_encoder()(input_ids=input_ids, attention_mask=mask)
    begun = torch.tensor([[1, 5, 6, 7]] * len(SOURCES))
    options = {"num_beams": beams, "num_return_sequences": beams, "max_length_b": 3} | STEPS
    got = model.generate(
        attention_mask=mask, encoder_outputs=encoded, decoder_input_ids=begun, **options, **cache
    )
    with torch.no_grad():
        full = model(
            input_ids=input_ids.repeat_interleave(beams, 0),
            attention_mask=mask.repeat_interleave(beams, 0),
            decoder_input_ids=got.sequences,
        ).logits
    places = torch.arange(len(SOURCES))[:, None].expand(-1, len(got.logits))
    if beams > 1:
        places = got.beam_indices
    checked = 0
    for row, rows_of_steps in enumerate(places.tolist()):
        ended = False
        for step, place in enumerate(rows_of_steps):
            if place >= 0 and not ended:
                expected = full[row, begun.size(1) - 1 + step].float()
                torch.testing.assert_close(got.logits[step][place], expected)
                checked += 1
            ended |= got.sequences[row, begun.size(1) + step].item() == 2
    assert checked > 2 * len(places)


class StopAt(StoppingCriteria):
    """Ends an output with a given token."""

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        return input_ids[:, -1] == 7


@pytest.mark.parametrize("beams", [1, 3])
def test_a_flag_tells_which_outputs_were_cut(beams: int) -> None:
    """`True` exactly where no end token came within the limit; ending in other ways is no cut."""
    cut = ended = stopped = 0
    for seed in range(6):
        model = decisive_model(seed=seed)
        input_ids, mask = padded(sentences(9, [5, 2, 7, 3]))
        options = {"num_beams": beams, "max_length_b": 3, "return_dict_in_generate": True}
        output = model.generate(input_ids, attention_mask=mask, **options)
        for row, flag in zip(output.sequences, output.truncated.tolist(), strict=True):
            assert flag == (2 not in row)
            cut, ended = cut + flag, ended + (not flag)
        criteria = StoppingCriteriaList([StopAt()])
        output = model.generate(
            input_ids, attention_mask=mask, stopping_criteria=criteria, **options
        )
        lengths = [len(words(row)) for row in output.sequences]
        limits = (mask.sum(-1) + 3).tolist()
        for row, flag, n, limit in zip(
            output.sequences, output.truncated.tolist(), lengths, limits, strict=True
        ):
            if row[n] == 7 and n < limit:
                assert not flag
                stopped += 1
            elif n < limit:
                assert 2 in row and not flag
    assert cut and ended and stopped


@pytest.mark.parametrize("options", [{"num_beams": 4}, {"num_beams": 1}, {"do_sample": True}])
@pytest.mark.parametrize("limit", [{"max_length_b": 2}, {"max_new_tokens": 4}, {"max_length": 5}])
def test_an_endless_output_is_always_flagged(options: dict, limit: dict) -> None:
    output = generate(
        endless_model(vocab_size=20), return_dict_in_generate=True, **limit, **options
    )
    assert output.truncated.all()


@pytest.mark.parametrize("options", [{"num_beams": 4}, {"num_beams": 1}, {"do_sample": True}])
def test_the_limit_counts_what_is_generated_not_the_beginning(options: dict) -> None:
    """A beginning of four tokens, an end token among them, ends nothing and is not counted."""
    begun = torch.tensor([[1, 5, 2, 7]] * len(SOURCES))
    output = generate(
        endless_model(vocab_size=20),
        decoder_input_ids=begun,
        max_length_b=3,
        return_dict_in_generate=True,
        **options,
    )
    limits = [len(source) + 3 for source in SOURCES]
    for row, limit in zip(output.sequences.tolist(), limits, strict=True):
        assert row[:4] == [1, 5, 2, 7]
        assert all(row[4 : 4 + limit]) and not any(row[4 + limit :])
    assert output.truncated.all()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"num_beams": 0}, "`num_beams` must be at least 1, got 0"),
    ({"num_beams": -2}, "`num_beams` must be at least 1, got -2"),
    ({"length_penalty": -0.1}, "`length_penalty` must be a number of at least 0, got -0.1"),
    ({"length_penalty": float("nan")}, "`length_penalty` must be a number of at least 0, got nan"),
    ({"length_penalty_type": "wu"}, "must be one of gnmt, power, got 'wu'"),
    ({"max_length_a": -1.0}, "`max_length_a` must be a number of at least 0, got -1.0"),
    ({"max_length_b": "50"}, "`max_length_b` must be a number of at least 0, got '50'"),
    ({"num_return_sequences": 5}, "`num_return_sequences` .*(5.*num_beams.*4|5 and 4)"),
    ({"early_stopping": "soon"}, "`early_stopping` must be .*soon"),
]


@pytest.mark.parametrize(("setting", "message"), REFUSED, ids=str)
@pytest.mark.parametrize("saved", [False, True], ids=["given", "in the model's settings"])
def test_impossible_settings_are_refused_before_any_work(
    setting: dict, message: str, saved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = decisive_model()
    monkeypatch.setattr(model.model.encoder, "forward", lambda *args, **kwargs: pytest.fail("work"))
    if saved:
        for name, value in setting.items():
            setattr(model.generation_config, name, value)
    with pytest.raises(ValueError, match=message):
        model.generate(torch.tensor([[4, 5, 2]]), **({} if saved else setting))


def test_a_process_that_is_done_goes_on_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `synced_gpus` every process must call the model until the last one is done."""
    model = decisive_model(vocab_size=20)
    expected = generate(model, num_beams=3, max_length_b=3)
    calls = {"left": 3, "forward": 0}
    forward = model.forward

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls["forward"] += 1
        return forward(*args, **kwargs)

    def others_need(finished: bool, synced_gpus: bool, device: Any) -> bool:
        calls["left"] -= finished and synced_gpus
        return not finished or (synced_gpus and calls["left"] >= 0)

    monkeypatch.setattr(model, "_has_unfinished_sequences", others_need)
    monkeypatch.setattr(model, "forward", counted)
    generate(model, num_beams=3, max_length_b=3, synced_gpus=False)
    alone, calls["forward"], calls["left"] = calls["forward"], 0, 3
    got = generate(model, num_beams=3, max_length_b=3, synced_gpus=True)
    assert got.tolist() == expected.tolist()
    assert calls["forward"] == alone + 3


@pytest.mark.parametrize("beams", [1, 3])
def test_sinusoids_beyond_the_longest_text_of_training_are_no_reason_to_warn(
    beams: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers warns past `max_position_embeddings`, where sinusoids have no end."""
    model = endless_model(vocab_size=20, max_position_embeddings=4)
    said: list[str] = []
    logger = "transformers.generation.stopping_criteria.logger.warning_once"
    monkeypatch.setattr(logger, said.append)
    output = generate(model, num_beams=beams, max_length_b=9)
    assert output.size(1) > 10 and said == []
