"""Vocabularies that get another size: which tables change, what stays, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from tiny_model import VARIANTS, padded, sentences, tiny_model

from vaswani import VaswaniForConditionalGeneration, VaswaniModel

SEPARATE = VARIANTS["separate_vocabularies"]
# name: settings, side, rows of (source, target, projection), vocab_size, encoder_vocab_size
CASES: dict[str, tuple[dict[str, Any], str | None, tuple[int, int, int], int, int | None]] = {
    "one_table": ({}, None, (45, 45, 45), 45, None),
    "two_tables": (VARIANTS["two_tables"], None, (45, 45, 45), 45, None),
    "three_tables": (VARIANTS["no_ties"], None, (45, 45, 45), 45, None),
    "two_tables_source": (VARIANTS["two_tables"], "source", (45, 40, 40), 40, 45),
    "two_tables_target": (VARIANTS["two_tables"], "target", (40, 45, 45), 45, 40),
    "three_tables_target": (VARIANTS["no_ties"], "target", (40, 45, 45), 45, 40),
    "separate_source": (SEPARATE, "source", (45, 23, 23), 23, 45),
    "separate_target": (SEPARATE, "target", (31, 45, 45), 45, 31),
    "separate_untied_target": (
        {**SEPARATE, "tie_word_embeddings": False},
        "target",
        (31, 45, 45),
        45,
        31,
    ),
    "equal_sizes_named_twice": ({"encoder_vocab_size": 40}, None, (45, 45, 45), 45, None),
}


def tables(model: Any) -> list[torch.Tensor]:
    """The weights of source, target and projection."""
    return [
        model.model.encoder.embed_tokens.weight,
        model.model.decoder.embed_tokens.weight,
        model.lm_head.weight,
    ]


def inputs(model: Any) -> dict[str, torch.Tensor]:
    """A batch that uses only words which every model here has."""
    config = model.config
    input_ids, mask = padded(
        sentences(20, [5, 3], avoid=config.source_pad_token_id), pad=config.source_pad_token_id
    )
    labels, _ = padded(sentences(20, [4, 2], seed=1))
    return {"input_ids": input_ids, "attention_mask": mask, "labels": labels}


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(**inputs(model)).logits


@pytest.mark.parametrize("output_bias", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_side_grows_and_nothing_else_changes(
    case: str, output_bias: bool, tmp_path: Path
) -> None:
    """Tables, projection, bias, configuration; the old words keep their scores, and all loads."""
    settings, side, rows, vocab_size, encoder_vocab_size = CASES[case]
    model = tiny_model(output_bias=output_bias, **settings)
    before, old = logits(model), [table.detach().clone() for table in tables(model)]
    shared = [[one is other for other in tables(model)] for one in tables(model)]

    table = model.resize_token_embeddings(45, side=side)

    expected = model.model.decoder if side == "target" else model.model.encoder
    assert table is expected.embed_tokens
    assert tuple(len(weight) for weight in tables(model)) == rows
    assert [
        stack.embed_tokens.num_embeddings for stack in (model.model.encoder, model.model.decoder)
    ] == [*rows[:2]]
    assert model.lm_head.out_features == rows[2]
    if output_bias:
        assert model.lm_head.bias.shape == (rows[2],)
    assert (model.config.vocab_size, model.config.encoder_vocab_size) == (
        vocab_size,
        encoder_vocab_size,
    )
    assert [[one is other for other in tables(model)] for one in tables(model)] == shared
    for weight, previous in zip(tables(model), old, strict=True):
        assert torch.equal(weight[: len(previous)], previous)
    after = logits(model)
    assert after.shape[-1] == rows[2]
    torch.testing.assert_close(after[..., : before.shape[-1]], before)
    model.save_pretrained(tmp_path)
    loaded, report = VaswaniForConditionalGeneration.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert torch.equal(logits(loaded), after)
    assert not report["missing_keys"] and not report["mismatched_keys"]


@pytest.mark.parametrize("case", CASES)
def test_a_resized_model_learns_and_translates_its_new_words(case: str) -> None:
    settings, side, rows, _, _ = CASES[case]
    model = tiny_model(output_bias=True, **settings)
    model.resize_token_embeddings(45, side=side)
    batch = inputs(model)
    batch["input_ids"][:, 0] = rows[0] - 1
    batch["labels"][:, 0] = rows[1] - 1
    with torch.no_grad():
        model.lm_head.bias[rows[2] - 1] = 50.0
    assert (model.generate(batch["input_ids"], max_new_tokens=3)[:, 1:] == rows[2] - 1).all()
    with torch.no_grad():
        model.lm_head.bias[rows[2] - 1] = 0.0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first = model(**batch).loss
    first.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert model.model.encoder.embed_tokens.weight.grad[-1].any()
    assert model.model.decoder.embed_tokens.weight.grad[-1].any()
    optimizer.step()
    assert model(**batch).loss < first


@pytest.mark.parametrize(
    ("side", "rows"), [(None, (20, 20)), ("source", (20, 40)), ("target", (40, 20))]
)
def test_a_side_can_shrink(side: str | None, rows: tuple[int, int]) -> None:
    """The first rows stay; the words left out are gone from the scores too."""
    model = tiny_model(**VARIANTS["two_tables"], output_bias=True)
    before = logits(model)
    model.resize_token_embeddings(20, side=side)
    assert tuple(len(table) for table in tables(model)[:2]) == rows
    torch.testing.assert_close(logits(model), before[..., : rows[1]])


@pytest.mark.parametrize("kind", [VaswaniModel, VaswaniForConditionalGeneration])
def test_rows_are_rounded_up_to_a_multiple(kind: Any) -> None:
    model = kind(tiny_model().config)
    assert model.resize_token_embeddings(pad_to_multiple_of=16).num_embeddings == 48
    assert model.resize_token_embeddings(49, pad_to_multiple_of=8).num_embeddings == 56
    assert model.resize_token_embeddings(56, pad_to_multiple_of=8).num_embeddings == 56
    assert model.config.vocab_size == 56


def test_asking_for_no_change_changes_nothing() -> None:
    """`resize_token_embeddings()` is how some callers look up the table."""
    model = tiny_model(**SEPARATE)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    assert model.resize_token_embeddings() is model.model.encoder.embed_tokens
    assert model.resize_token_embeddings(side="target") is model.model.decoder.embed_tokens
    model.resize_token_embeddings(31, side="source")
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name])
    assert (model.config.vocab_size, model.config.encoder_vocab_size) == (23, 31)


@pytest.mark.parametrize("mean", [True, False])
@pytest.mark.parametrize("variant", ["paper", "no_ties"])
def test_new_rows_start_near_the_mean_or_as_in_a_new_model(variant: str, mean: bool) -> None:
    """With 4,000 rows their statistics show which; the projection follows, and its bias."""
    model = tiny_model(noise=0.0, output_bias=True, **VARIANTS[variant])
    with torch.no_grad():
        for weight in tables(model):
            weight += 3.0
        model.lm_head.bias += 2.0
    old = [table.mean(0) for table in tables(model)]
    model.resize_token_embeddings(4040, mean_resizing=mean)
    initial = [32**-0.5, 32**-0.5, 32**-0.5 if variant == "paper" else (2 / (32 + 4040)) ** 0.5]
    for weight, center, spread in zip(tables(model), old, initial, strict=True):
        new = weight[40:]
        if mean:
            torch.testing.assert_close(new, center.expand_as(new), atol=1e-3, rtol=0.0)
        else:
            assert new.mean().abs() < 0.01
            assert new.std().item() == pytest.approx(spread, rel=0.03)
    new_bias = model.lm_head.bias[40:]
    torch.testing.assert_close(
        new_bias, torch.full_like(new_bias, 2.0 if mean else 0.0), atol=1e-3, rtol=0.0
    )


def test_frozen_tables_stay_frozen() -> None:
    model = tiny_model(output_bias=True, **VARIANTS["no_ties"])
    frozen = [model.model.encoder.embed_tokens.weight, model.lm_head.bias]
    for parameter in frozen:
        parameter.requires_grad_(False)
    model.resize_token_embeddings(45)
    flags = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    assert flags == {"model.encoder.embed_tokens.weight", "lm_head.bias"}


@pytest.mark.parametrize(
    ("variant", "rows", "side", "message"),
    [
        ("separate_vocabularies", 45, None, r"`side` must be source or target .* got None\."),
        ("paper", 45, "target", r"`side` must be None where both .* got 'target'\. Leave it out"),
        ("two_tables", 45, "both", r"`side` must be source or target, got 'both'\."),
        ("paper", 3, None, r"`unk_token_id` must be .* size 3, got 3\."),
        ("separate_vocabularies", 7, "source", r"`encoder_pad_token_id` must .* size 7, got 7\."),
        ("paper", 0, None, r"`new_num_tokens` must be an integer of at least 1, got 0\."),
        ("paper", True, None, r"`new_num_tokens` must be an integer .* got True\."),
        ("paper", 45.0, None, r"`new_num_tokens` must be an integer .* got 45\.0\."),
        ("paper", "45", None, r"`new_num_tokens` must be an integer .* got '45'\."),
        ("two_tables", None, "both", r"`side` must be source or target, got 'both'\."),
    ],
)
def test_what_would_leave_a_broken_model_is_refused_before_any_change(
    variant: str, rows: Any, side: str | None, message: str
) -> None:
    model = tiny_model(**VARIANTS[variant])
    before, sizes = logits(model), (model.config.vocab_size, model.config.encoder_vocab_size)
    with pytest.raises(ValueError, match=message):
        model.resize_token_embeddings(rows, side=side)
    assert torch.equal(logits(model), before)
    assert (model.config.vocab_size, model.config.encoder_vocab_size) == sizes


def state(model: Any) -> dict[str, Any]:
    """All that a resizing may change: weights, sizes and which weights are one."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    config = model.config
    stacks = (model.model.encoder, model.model.decoder)
    return {
        "weights": {name: weight.tolist() for name, weight in parameters.items()},
        "owners": {name: id(weight) for name, weight in parameters.items()},
        "tables": [(s.embed_tokens.num_embeddings, s.embed_tokens.padding_idx) for s in stacks],
        "output": getattr(model.lm_head, "out_features", None),
        "sizes": (config.vocab_size, config.encoder_vocab_size),
    }


@pytest.mark.parametrize("multiple", [True, 0, -8, 8.0, "8"])
def test_what_is_no_multiple_is_refused(multiple: Any) -> None:
    model = tiny_model()
    with pytest.raises(ValueError, match=r"`pad_to_multiple_of` must be an integer of at least 1"):
        model.resize_token_embeddings(45, pad_to_multiple_of=multiple)
    assert model.config.vocab_size == len(model.lm_head.weight) == 40


def test_any_kind_of_integer_is_a_number_of_entries(tmp_path: Path) -> None:
    """And the configuration is written as with Python's."""
    model = tiny_model()
    model.resize_token_embeddings(np.int64(43), pad_to_multiple_of=np.int32(5))
    model.save_pretrained(tmp_path)
    assert VaswaniForConditionalGeneration.from_pretrained(tmp_path).config.vocab_size == 45


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("eos_token_id", [2, 30]),
        ("eos_token_id", 30),
        ("pad_token_id", 30),
        ("bos_token_id", 30),
        ("decoder_start_token_id", 30),
    ],
)
def test_tokens_of_the_search_stay_within_the_target_vocabulary(name: str, value: Any) -> None:
    model = tiny_model(**VARIANTS["two_tables"])
    setattr(model.generation_config, name, value)
    before = state(model)
    with pytest.raises(ValueError, match=rf"`generation_config\.{name}` must .* 30, got 30\."):
        model.resize_token_embeddings(30, side="target")
    assert state(model) == before
    model.resize_token_embeddings(30, side="source")
    model.resize_token_embeddings(31, side="target")
    assert (model.config.vocab_size, model.config.encoder_vocab_size) == (31, 30)


@pytest.mark.parametrize("module", ["lm_head", "embed_tokens"])
def test_adapters_come_after_a_resizing(module: str) -> None:
    model = tiny_model(**VARIANTS["no_ties"])
    adapted = get_peft_model(model, LoraConfig(target_modules=[module]))
    before = {name: weight.clone() for name, weight in adapted.named_parameters()}
    with pytest.raises(ValueError, match=rf"`resize_token_embeddings` must .*{module}`\. Resize"):
        model.resize_token_embeddings(45)
    for name, weight in adapted.named_parameters():
        assert torch.equal(weight, before[name])
    assert model.config.vocab_size == 40


def test_quantization_comes_after_a_resizing() -> None:
    kinds = {torch.nn.Linear}
    model = torch.ao.quantization.quantize_dynamic(tiny_model(**VARIANTS["no_ties"]), kinds)
    before = logits(model)
    with pytest.raises(ValueError, match=r"`resize_token_embeddings` must .* as `lm_head`\."):
        model.resize_token_embeddings(45)
    assert torch.equal(logits(model), before)
    assert model.config.vocab_size == model.model.encoder.embed_tokens.num_embeddings == 40


def test_weights_that_are_not_in_memory_are_refused() -> None:
    with torch.device("meta"):
        model = VaswaniForConditionalGeneration(tiny_model().config)
    with pytest.raises(ValueError, match=r"`resize_token_embeddings` must .* on meta as `model\."):
        model.resize_token_embeddings(45)
    assert model.config.vocab_size == len(model.lm_head.weight) == 40


@pytest.mark.parametrize("variant", ["paper", "two_tables", "no_ties"])
def test_too_little_memory_changes_nothing(variant: str) -> None:
    model = tiny_model(output_bias=True, **VARIANTS[variant])
    before = state(model)
    with pytest.raises(RuntimeError, match="memory"):
        model.resize_token_embeddings(10**15)
    assert state(model) == before


@pytest.mark.parametrize("variant", ["paper", "two_tables", "no_ties"])
@pytest.mark.parametrize("method", ["_get_resized_embeddings", "tie_weights"])
def test_a_failure_half_way_changes_nothing(
    variant: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first table has its new rows when the memory is gone."""
    model = tiny_model(output_bias=True, **VARIANTS[variant])
    before, real = state(model), getattr(model, method)

    def failing(*args: Any, **kwargs: Any) -> None:
        real(*args, **kwargs)
        raise torch.OutOfMemoryError

    monkeypatch.setattr(model, method, failing)
    with pytest.raises(torch.OutOfMemoryError):
        model.resize_token_embeddings(25)
    assert state(model) == before


@pytest.mark.parametrize("variant", ["paper", "two_tables", "no_ties"])
def test_tables_can_be_replaced(variant: str) -> None:
    """`set_input_embeddings` replaces the source's, and the target's where they are one."""
    model = tiny_model(**VARIANTS[variant])
    new = torch.nn.Embedding(40, 32)
    model.set_input_embeddings(new)
    model.tie_weights()
    assert model.get_input_embeddings() is new
    assert model.get_encoder().embed_tokens is new
    shared = variant == "paper"
    assert (model.get_decoder().embed_tokens.weight is new.weight) == shared
    assert (model.lm_head.weight is new.weight) == shared
