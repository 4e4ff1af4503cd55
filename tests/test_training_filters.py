"""Filters of a training run: what they leave, and what they never touch."""

from pathlib import Path

import pytest

from vaswani.data_arguments import DataArguments
from vaswani.errors import InputError
from vaswani.training_corpus import Corpus, read_corpus

TRAINING = "a bridge\teine Brücke\nRadio\tRadio\nA bridge!\tEine Brücke\nold boats\talte Boote\n"
HELD_OUT = "Radio\tRadio\nRadio\tRadio\n"


@pytest.fixture
def read(tmp_path: Path):
    (tmp_path / "train.tsv").write_text(TRAINING, encoding="utf-8")
    (tmp_path / "held.tsv").write_text(HELD_OUT, encoding="utf-8")

    def read(said: list[str], **settings) -> Corpus:
        held = [str(tmp_path / "held.tsv")]
        arguments = DataArguments(
            data=[str(tmp_path / "train.tsv")],
            source="en",
            target="de",
            validation_data=held,
            test_data=held,
            **settings,
        )
        return read_corpus(arguments, said.append, fetch=True)

    return read


def test_filters_leave_out_training_pairs_alone_and_say_so(read) -> None:
    said: list[str] = []
    corpus = read(said, filters=["identical", "near-duplicates"])
    assert list(corpus.training.sources) == ["a bridge", "old boats"]
    assert list(corpus.training.targets) == ["eine Brücke", "alte Boote"]
    assert corpus.validation == corpus.test == (["Radio", "Radio"], ["Radio", "Radio"])
    assert said[1] == "2 of 4 pairs left out by filters (1 identical, 1 near-duplicates)."
    again: list[str] = []
    assert list(read(again, filters=["identical", "near-duplicates"]).training.sources) == [
        "a bridge",
        "old boats",
    ]
    assert again[1] == said[1]  # from the cache


def test_without_filters_nothing_is_left_out(read) -> None:
    said: list[str] = []
    assert len(read(said).training) == 4
    assert not any("left out by" in line for line in said)


def test_first_pairs_are_those_of_what_the_filters_left(read) -> None:
    corpus = read([], filters=["identical"], max_pairs=2)
    assert list(corpus.training.sources) == ["a bridge", "A bridge!"]


def test_a_stream_leaves_out_the_same_pairs_before_weights_repeat_any(read) -> None:
    said: list[str] = []
    settings = {"filters": ["identical", "near-duplicates"], "data_weights": [2.0]}
    stream = read(said, streaming=True, **settings).training
    chunks = list(stream.chunks(0, seed=1))
    assert [source for sources, _ in chunks for source in sources] == [
        "a bridge",
        "a bridge",
        "old boats",
        "old boats",
    ]
    assert "2 of 4 pairs left out by filters (1 identical, 1 near-duplicates)." in said


def test_wrong_filter_is_refused_before_anything_is_read() -> None:
    with pytest.raises(InputError, match=r"`filters` must be of .* Did you mean symbols\?"):
        DataArguments(data=["none.tsv"], source="en", target="de", filters=["symbol"])


def test_filters_that_leave_nothing_are_refused(read) -> None:
    with pytest.raises(InputError, match=r"`filters` must let some pairs through, got 4 of 4"):
        read([], filters=["length:least=9"])
