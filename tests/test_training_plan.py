"""What a plan says before a run: its costs against torch's own counts, its words, its width."""

import re
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani.batching import TokenBudgetBatchSampler
from vaswani.data_arguments import DataArguments
from vaswani.generation_vaswani import paper_generation_config
from vaswani.parameter_counts import count_parameters
from vaswani.run_settings import ModelArguments
from vaswani.training_arguments import VaswaniTrainingArguments
from vaswani.training_checkpoints import planned_checkpoints
from vaswani.training_cost import CorpusCounts, Memory, Operations
from vaswani.training_plan import TrainingPlan, stopping_rule

# Every size differs from every other, so that no two can be mistaken for one another.
UNLIKE = {
    "vocab_size": 50,
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 56,
}
ROWS, SOURCE, TARGET = 3, 5, 7


def one_update() -> CorpusCounts:
    """A pass of one update: `ROWS` sentences of equal length."""
    sampler = TokenBudgetBatchSampler(
        [SOURCE] * ROWS, [TARGET] * ROWS, tokens_per_update=ROWS * TARGET
    )
    return CorpusCounts.counted_in(sampler, sampler.source_lengths, sampler.target_lengths)


def batch_of(config: VaswaniConfig, rows: int, source: int, target: int) -> dict[str, Any]:
    torch.manual_seed(0)
    ids = torch.randint(4, config.vocab_size, (rows, source))
    labels = torch.randint(4, config.vocab_size, (rows, target))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


@pytest.mark.parametrize("heads", [{}, {"d_k": 6, "d_v": 10}])
def test_operations_are_those_that_torch_counts(heads: dict[str, int]) -> None:
    config = VaswaniConfig(**UNLIKE, **heads, dropout=0.0, attn_implementation="eager")
    model = VaswaniForConditionalGeneration(config).train()
    with FlopCounterMode(display=False) as counter:
        model(**batch_of(config, ROWS, SOURCE, TARGET), use_cache=False).loss.backward()
    counted = Operations.of(config, count_parameters(config), one_update())
    assert counted.total == counter.get_total_flops()


def test_operations_of_the_base_model_are_the_known_figure() -> None:
    """6 x parameters x tokens is about 0.9e18 for 100,000 updates of 25,000 tokens a side."""
    config = VaswaniConfig.from_preset("base")
    full = {"pairs": 1000, "source_tokens": 25_000, "target_tokens": 25_000}
    counts = CorpusCounts.declared(full, 25_000)
    operations = Operations.of(config, count_parameters(config), counts)
    assert 100_000 * operations.matrices == pytest.approx(0.94e18, rel=0.01)
    assert operations.attention < 0.02 * operations.matrices


def saved_bytes(config: VaswaniConfig, rows: int, source: int, target: int) -> int:
    """Bytes that autograd keeps of a forward pass, weights left out, storages counted once."""
    model = VaswaniForConditionalGeneration(config).train()
    own = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        batch = batch_of(config, rows, source, target)
        output = model(**batch, return_logits=False, use_cache=False)
        assert output.loss.requires_grad
    return sum(kept.values())


# So wide that what is left out, such as the means of norms, is below 0.2 % of what is kept.
WIDE = UNLIKE | {"d_model": 512, "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1024}


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize(("source", "target"), [(40, 4), (4, 40)])
@pytest.mark.parametrize("heads", [{}, {"d_k": 96, "d_v": 96}], ids=str)
def test_activations_are_what_autograd_keeps(
    heads: dict[str, int], source: int, target: int, dropout: float
) -> None:
    """A number more or less for each feature of a token would show."""
    config = VaswaniConfig(**WIDE, **heads, dropout=dropout)
    rows = 4
    memory = Memory.of(
        config,
        count_parameters(config),
        source_places=rows * source,
        target_places=rows * target,
    )
    kept = saved_bytes(config, rows, source, target)
    # The gradient of the projection is kept too; the formula has it under `logits`.
    kept -= 4 * config.vocab_size * config.d_model
    assert memory.activations == pytest.approx(kept, rel=0.003)


def test_masks_of_dropout_take_a_byte_a_feature() -> None:
    """As many features as really pass through dropout."""
    config = VaswaniConfig(**UNLIKE, dropout=0.1)
    model = VaswaniForConditionalGeneration(config).train()
    masked: list[int] = []
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout) and module.p:
            module.register_forward_hook(lambda module, given, made: masked.append(made.numel()))
    model(**batch_of(config, ROWS, SOURCE, TARGET), use_cache=False)
    dropping, keeping = (
        Memory.of(
            VaswaniConfig(**UNLIKE, dropout=dropout),
            count_parameters(config),
            source_places=ROWS * SOURCE,
            target_places=ROWS * TARGET,
        ).activations
        for dropout in (0.1, 0.0)
    )
    assert dropping - keeping == sum(masked) > 0


def test_weights_gradients_and_moments_are_16_bytes_a_parameter() -> None:
    config = VaswaniConfig.from_preset("tiny")
    counts = count_parameters(config)
    memory = Memory.of(config, counts, source_places=1, target_places=1)
    assert memory.weights + memory.gradients + memory.adam == 16 * counts.total


def test_counts_of_a_corpus_are_those_of_its_batches() -> None:
    sources, targets = [3, 3, 5, 9, 2, 4], [4, 2, 5, 8, 2, 6]
    sampler = TokenBudgetBatchSampler(sources, targets, tokens_per_update=12, seed=3)
    counts = CorpusCounts.counted_in(sampler, sampler.source_lengths, sampler.target_lengths)
    assert (counts.source_tokens, counts.target_tokens) == (sum(sources), sum(targets))
    assert counts.updates == sum(1 for _ in sampler)
    assert counts.padding == pytest.approx(sampler.padding_fraction())
    # Nothing but padding makes it more than the sum of squares.
    assert counts.source_squares >= sum(length**2 for length in sources)


def plan_of(tmp_path: Any, *, corpus: CorpusCounts | None = None, **settings: Any) -> TrainingPlan:
    preset = settings.pop("preset", "base")
    args = VaswaniTrainingArguments(output_dir=str(tmp_path), device_name="cpu", **settings)
    args.fill_unset(preset)
    config = VaswaniConfig.from_preset(preset)
    counts = {"pairs": 1000, "source_tokens": 40_000, "target_tokens": 50_000}
    return TrainingPlan(
        config,
        ModelArguments(preset=preset),
        DataArguments(["a.tsv"], "en", "de"),
        args,
        paper_generation_config(config),
        corpus or CorpusCounts.declared(counts, args.tokens_per_update or 1),
        vocabulary_is_trained=False,
    )


def words_of(plan: TrainingPlan) -> str:
    return re.sub(r"\s+", " ", plan.text())


def test_plan_of_the_base_model_has_the_peak_of_the_paper(tmp_path) -> None:
    """Section 5.3: 6.99e-4 at update 4000."""
    words = words_of(plan_of(tmp_path))
    assert "0.000699 at most, at update 4,000" in words
    assert "after 100,000 updates" in words
    assert "3.3e+18 = 12 hours x 8 GPUs x 9.5e+12 a second" in words


def test_plan_of_the_big_model_has_its_own_updates(tmp_path) -> None:
    words = words_of(plan_of(tmp_path, preset="big-en-de"))
    assert "after 300,000 updates" in words and "2.3e+19 = 84 hours" in words
    assert "213 M parameters" in words


def test_given_updates_win_over_those_of_the_preset(tmp_path) -> None:
    assert "after 70 updates" in words_of(plan_of(tmp_path, preset="big-en-de", max_steps=70))


def test_plan_shows_every_setting_of_ours(tmp_path) -> None:
    words = words_of(plan_of(tmp_path, seed=11, max_steps=70)).partition(" Settings ")[2]
    names = {name for kind in (ModelArguments, DataArguments) for name in kind.__annotations__}
    names |= {"average_last", "tokens_per_update", "save_steps", "device_name", "eval_sentences"}
    for name in names:
        assert f"{name}:" in words, name
    assert "seed: 11;" in words and "max_steps: 70;" in words


@pytest.mark.parametrize(
    ("settings", "planned"),
    [
        ({"max_steps": 50, "eval_steps": 20}, 3),
        ({"max_steps": 40, "eval_steps": 10, "save_steps": 20}, 2),
        ({"max_steps": 40, "eval_steps": 0.25}, 4),
        ({"num_train_epochs": 3.0, "save_strategy": "epoch", "eval_strategy": "epoch"}, 3),
        ({"max_minutes": 5}, 10),
        ({"max_steps": 40, "save_strategy": "no"}, 0),
        ({"max_minutes": 5, "eval_steps": 20}, None),
    ],
)
def test_checkpoints_are_counted_before_the_run(
    settings: dict[str, Any], planned: int | None, tmp_path
) -> None:
    """The one that is written at the end among them."""
    args = VaswaniTrainingArguments(output_dir=str(tmp_path), device_name="cpu", **settings)
    assert planned_checkpoints(args, 10) == planned


def test_average_of_more_checkpoints_than_there_will_be_is_told(tmp_path) -> None:
    settings: dict[str, Any] = {"max_steps": 50, "save_steps": 20}
    words = words_of(plan_of(tmp_path, average_last=4, **settings))
    assert "every 20 updates; 3 in all" in words
    assert "`average_last` is 4, but the run will write 3 checkpoints: the average is of" in words
    assert "but the run will" not in words_of(plan_of(tmp_path, average_last=3, **settings))
    timed = words_of(plan_of(tmp_path, average_last=20, max_minutes=5))
    assert "`average_last` is 20, but the run will write about 10 checkpoints" in timed


def test_passes_are_updates_divided_by_those_of_one(tmp_path) -> None:
    plan = plan_of(tmp_path, max_steps=50)
    assert plan.corpus.updates == 2
    assert "passes over the data: 25.0" in words_of(plan)


def test_run_that_a_clock_ends_has_operations_of_an_update_only(tmp_path) -> None:
    plan = plan_of(tmp_path, max_minutes=30)
    assert plan.updates is None
    words = words_of(plan)
    assert "for an update" in words and "after 30 minutes" in words


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"max_steps": 1200}, "1,200 updates"),
        ({"num_train_epochs": 3.0}, "3 passes"),
        ({"max_minutes": 5, "max_steps": 9}, "5 minutes or 9 updates"),
        (
            {"max_steps": 9, "early_stopping_patience": 2},
            "9 updates or 2 evaluations without a better score",
        ),
    ],
)
def test_stopping_rule_names_every_limit(settings: dict[str, Any], rule: str, tmp_path) -> None:
    args = VaswaniTrainingArguments(output_dir=str(tmp_path), device_name="cpu", **settings)
    assert stopping_rule(args) == rule


def test_plan_fits_a_terminal_of_100_columns(tmp_path) -> None:
    for preset in ("base", "table3-b-dk16", "small"):
        lines = plan_of(tmp_path, preset=preset).text().splitlines()
        assert max(map(len, lines)) <= 100
