"""Streams: every pair once a pass, the same updates for a seed, and the right place to resume."""

from collections import Counter
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from training_material import arguments, reversal_pairs, tiny_model, tokenizer, weights, write_tsv
from transformers import TrainerCallback

from vaswani.cli import main
from vaswani.data_arguments import DataArguments
from vaswani.errors import InputError
from vaswani.hub import check_self_contained
from vaswani.training import VaswaniTrainer
from vaswani.training_segmentation import ResegmentedPairs
from vaswani.training_streaming import FirstPairs, PairStream, StreamedPairs
from vaswani.vocabulary import train_tokenizer

Ids = tuple[tuple[int, ...], tuple[int, ...]]


def stream(paths: list[Path], said: list[str] | None = None, **settings: Any) -> PairStream:
    data = DataArguments(
        list(map(str, paths)), "en", "de", streaming=True, validation_split=0, **settings
    )
    return PairStream(data, (lambda line: None) if said is None else said.append)


def streamed(made: PairStream, folder: Path, max_tokens: int = 99, **args: Any) -> StreamedPairs:
    return StreamedPairs(made, tokenizer(), arguments(folder, **args), max_tokens=max_tokens)


def ids_of(pairs: list[tuple[str, str]]) -> Counter[Ids]:
    encoded = tokenizer()([s for s, _ in pairs], text_target=[t for _, t in pairs])
    both = zip(encoded["input_ids"], encoded["labels"], strict=True)
    return Counter((tuple(source), tuple(target)) for source, target in both)


def one_pass(pairs: StreamedPairs) -> list[list[Ids]]:
    """The batches of the first pass: the next one is begun to see its end."""
    found = []
    for batch in pairs:
        if pairs.passes:
            return found
        found.append([(tuple(row["input_ids"]), tuple(row["labels"])) for row in batch])
    raise AssertionError


@pytest.fixture
def two(tmp_path: Path) -> tuple[list[Path], list[tuple[str, str]]]:
    one, other = reversal_pairs(90), reversal_pairs(40, seed=5)
    paths = [write_tsv(tmp_path / "a.tsv", one), write_tsv(tmp_path / "b.tsv", other)]
    return paths, [*one, *other]


@pytest.mark.parametrize("buffer", [1, 7, 64, 1000])
def test_a_pass_holds_every_pair_once(buffer: int, two: Any, tmp_path: Path) -> None:
    paths, pairs = two
    batches = one_pass(streamed(stream(paths, shuffle_buffer=buffer), tmp_path))
    assert Counter(pair for batch in batches for pair in batch) == ids_of(pairs)


@pytest.mark.parametrize("accumulation", [1, 3])
def test_updates_keep_to_the_budget_and_are_dealt_in_parts(
    accumulation: int, two: Any, tmp_path: Path
) -> None:
    made = streamed(
        stream(two[0]), tmp_path, tokens_per_update=60, gradient_accumulation_steps=accumulation
    )
    batches = one_pass(made)
    assert len(batches) % accumulation == 0
    for start in range(0, len(batches), accumulation):
        update = [pair for part in batches[start : start + accumulation] for pair in part]
        assert update
        for side in (0, 1):
            assert len(update) * max(len(pair[side]) for pair in update) <= 60


def test_processes_share_the_stream_without_a_gap(
    two: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = streamed(stream(two[0]), tmp_path)
    shares = []
    for rank in (0, 1):
        monkeypatch.setattr(type(made._args), "world_size", 2, raising=False)
        monkeypatch.setattr(type(made._args), "process_index", rank, raising=False)
        shares.append(one_pass(made))
    assert len(shares[0]) == len(shares[1])
    found = Counter(pair for share in shares for batch in share for pair in batch)
    assert found == ids_of(two[1])


def test_same_seed_same_batches_and_passes_differ(two: Any, tmp_path: Path) -> None:
    def batches(seed: int, count: int = 120) -> list[Any]:
        made = streamed(stream(two[0], shuffle_buffer=50), tmp_path, seed=seed)
        return list(islice(made, count))

    assert batches(1) == batches(1)
    assert batches(1) != batches(2)
    first = len(one_pass(streamed(stream(two[0], shuffle_buffer=50), tmp_path, seed=1)))
    assert batches(1)[:first] != batches(1)[first : 2 * first]


def test_weights_hold_in_a_stream(two: Any, tmp_path: Path) -> None:
    paths, pairs = two
    made = streamed(stream(paths, data_weights=[2.0, 0.5]), tmp_path)
    found = Counter(pair for batch in one_pass(made) for pair in batch)
    once, part = ids_of(pairs[:90]), ids_of(pairs[90:])
    extra = found - (once + once)
    assert not once - found and sum(found.values()) < 2 * 90 + 40
    assert not extra - part and 5 < sum(extra.values()) < 35


def test_long_pairs_are_left_out_and_told_once(two: Any, tmp_path: Path) -> None:
    paths, pairs = two
    said: list[str] = []
    made = streamed(stream(paths, said), tmp_path, max_tokens=4)
    kept = ids_of(pairs)
    for pair in list(kept):
        if max(map(len, pair)) > 4:
            del kept[pair]
    assert Counter(pair for batch in one_pass(made) for pair in batch) == kept
    left_out = len(pairs) - sum(kept.values())
    list(islice(made, 100))
    (line,) = [line for line in said if "first pass" in line]
    assert f"{sum(kept.values())} pairs, {left_out} left out and 0 cut" in line


def test_rows_are_read_through_what_a_buffer_is_made_into(two: Any, tmp_path: Path) -> None:
    """So BPE-dropout works in a stream too: lengths plan the updates, texts stay."""
    paths, pairs = two
    tokens = train_tokenizer([text for pair in pairs for text in pair], vocab_size=300)
    made = StreamedPairs(stream(paths), tokens, arguments(tmp_path), max_tokens=99)
    made.as_read = partial(ResegmentedPairs, tokenizer=tokens, dropout=0.999999, most_tokens=99)
    found = [pair for batch in one_pass(made) for pair in batch]
    texts = Counter(tuple(tokens.decode(side[:-1]) for side in pair) for pair in found)
    assert texts == Counter(pairs)
    plain = tokens([source for source, _ in pairs])["input_ids"]
    assert sum(len(source) for source, _ in found) > sum(map(len, plain))


def test_most_pairs_of_a_pass_and_of_a_vocabulary(two: Any, tmp_path: Path) -> None:
    paths, pairs = two
    made = streamed(stream(paths[:1], max_pairs=30), tmp_path)
    found = Counter(pair for batch in one_pass(made) for pair in batch)
    assert found == ids_of(pairs[:30])
    first = FirstPairs(stream(paths[:1]), most=25)
    assert len(first) == 25
    assert list(first.sources) == list(first.sources) == [s for s, _ in pairs[:25]]
    assert len(FirstPairs(stream(paths))) == len(pairs)


def test_nothing_short_enough_is_an_error_not_an_endless_loop(two: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`max_tokens` must let some pairs through, got 1"):
        next(iter(streamed(stream(two[0]), tmp_path, max_tokens=1)))


class Stop(TrainerCallback):
    def __init__(self, at: int) -> None:
        self.at = at

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.at:
            control.should_save = control.should_training_stop = True


@pytest.mark.parametrize("accumulation", [1, 2])
def test_resumed_run_ends_with_the_weights_of_one_in_a_piece(
    accumulation: int, two: Any, tmp_path: Path
) -> None:
    """Twelve updates are more than two passes; the break is within the second."""

    def run(folder: Path) -> VaswaniTrainer:
        settings = {"max_steps": 12, "gradient_accumulation_steps": accumulation}
        settings |= {"tokens_per_update": 200, "save_strategy": "steps", "save_steps": 1000}
        made = streamed(stream(two[0], shuffle_buffer=60), folder, **settings)
        return VaswaniTrainer(
            tiny_model(dropout=0.1),
            made._args,
            train_dataset=made,
            processing_class=tokenizer(),
        )

    whole = run(tmp_path / "whole")
    whole.train()
    assert whole.train_dataset.passes >= 1
    broken = run(tmp_path / "broken")
    broken.add_callback(Stop(7))
    broken.train()
    resumed = run(tmp_path / "broken")
    resumed.train(resume_from_checkpoint=str(tmp_path / "broken" / "checkpoint-7"))
    assert resumed.state.global_step == 12
    assert torch.equal(weights(resumed.model), weights(whole.model))
    assert not torch.equal(weights(broken.model), weights(whole.model))


SIZES = (
    "d_model=32,encoder_layers=1,decoder_layers=1,encoder_attention_heads=2,"
    "decoder_attention_heads=2,encoder_ffn_dim=64,decoder_ffn_dim=64"
)


def command(two: Any, folder: Path, *others: str) -> list[str]:
    return [
        "train", "--data", *map(str, two[0]), "--source", "en", "--target", "de", "--streaming",
        "--output-dir", str(folder / "run"), "--cache-dir", str(folder / "cache"),
        "--config-overrides", SIZES, "--vocabulary-size", "330", "--tokens-per-update", "200",
        "--eval-sentences", "2", "--device", "cpu", *others,
    ]  # fmt: skip


def test_streaming_run_ends_with_a_folder_and_caches_nothing(
    two: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    validation = ["--validation-data", str(two[0][1]), "--max-pairs", "100"]
    assert main(command(two, tmp_path, "--max-steps", "6", *validation)) == 0
    check_self_contained(tmp_path / "run")
    log = capsys.readouterr().err
    assert "The vocabulary is trained on the first 100 pairs of the stream." in log
    assert "read and encoded on the way" in log
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (["--max-steps", "3"], "`validation_data` must be given with `streaming`, got none"),
        (
            ["--validation-split", "0", "--num-train-epochs", "2"],
            "`num_train_epochs` must be left out with `streaming`, got 2",
        ),
        (["--validation-split", "0", "--dry-run"], "`dry_run` must be left out with `streaming`"),
        (["--validation-split", "0", "--shuffle-buffer", "0"], "`shuffle_buffer` must be at least"),
    ],
)
def test_what_streaming_cannot_do_is_refused(
    others: list[str], message: str, two: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(two, tmp_path, *others)) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
