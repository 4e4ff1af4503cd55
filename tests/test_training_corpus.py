"""The texts of a run by way of the cache: found again by content, and the same as read plainly."""

from pathlib import Path
from typing import Any

import pytest
from training_material import arguments, reversal_pairs, tokenizer, write_tsv

from vaswani import VaswaniConfig
from vaswani.corpus_splits import fold_hashes, hold_out
from vaswani.data_arguments import DataArguments
from vaswani.errors import InputError
from vaswani.training_corpus import encode_corpus, evaluation_limit, read_corpus
from vaswani.training_data import TokenizedPairs
from vaswani.vocabulary import train_tokenizer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_tsv(tmp_path / "pairs.tsv", reversal_pairs(60))


def run(folder: Path, words: list[Any], model_tokenizer: Any = None, **settings: Any) -> Any:
    """Training pairs of these settings, and what was said."""
    said: list[str] = []
    options = {"validation_split": 0, "cache_dir": str(folder / "cache"), **settings}
    data = DataArguments(list(map(str, words)), "en", "de", **options)
    corpus = read_corpus(data, said.append, fetch=True)
    chosen = model_tokenizer or tokenizer()
    train, _ = encode_corpus(corpus, chosen, data, arguments(folder), None, said.append)
    return train, "\n".join(said), corpus


def rows(pairs: TokenizedPairs) -> list[tuple[list[int], list[int]]]:
    return [(pairs[k]["input_ids"], pairs[k]["labels"]) for k in range(len(pairs))]


def plainly(pairs: list[tuple[str, str]], **settings: Any) -> list[Any]:
    sources, targets = map(list, zip(*pairs, strict=True))
    return rows(TokenizedPairs.from_texts(sources, targets, tokenizer(), **settings))


def entries(folder: Path, kind: str) -> int:
    return len(list((folder / "cache").glob(f"{kind}-*")))


def test_a_second_run_reads_the_cache_and_says_so(file: Path, tmp_path: Path) -> None:
    first, said, _ = run(tmp_path, [file])
    assert "cache" not in said and "60 pairs" in said
    second, said, _ = run(tmp_path, [file])
    assert "read from the cache" in said and "Token ids of 1 of 1 corpora read" in said
    assert rows(first) == rows(second) == plainly(reversal_pairs(60))


def test_ids_of_files_of_several_corpora_equal_those_encoded_in_memory(tmp_path: Path) -> None:
    pairs = reversal_pairs(50), reversal_pairs(30, seed=4)
    files = [write_tsv(tmp_path / f"{k}.tsv", part) for k, part in enumerate(pairs)]
    aligned = []
    for side in (0, 1):
        aligned.append(tmp_path / f"side{side}")
        aligned[-1].write_text("".join(f"{pair[side]}\n" for pair in pairs[1]))
    words = [files[0], f"{aligned[0]},{aligned[1]}", files[1]]
    train, said, _ = run(tmp_path, words, data_weights=[1.0, 0.5, 2.0])
    assert rows(train) == plainly([*pairs[0], *pairs[1], *pairs[1]])
    assert train.weights == [(50, 1.0), (30, 0.5), (30, 2.0)]
    assert "30 pairs, 0.5 times a pass" in said and "50 pairs, once a pass" in said


@pytest.mark.parametrize(
    ("settings", "texts", "ids"),
    [
        ({"bad_lines": "skip"}, 2, 2),
        ({"encoding": "latin-1"}, 2, 2),
        ({"source_column": 2, "target_column": 1}, 2, 2),
        # What is chosen from the ids makes no entry.
        ({"max_tokens": 4}, 1, 1),
        ({"max_tokens": 4, "cut_long": True}, 1, 1),
        ({"max_pairs": 20}, 1, 1),
        ({"validation_split": 7}, 1, 1),
        ({"data_weights": [2.0]}, 1, 1),
    ],
)
def test_a_setting_of_reading_makes_a_new_entry(
    settings: dict[str, Any], texts: int, ids: int, file: Path, tmp_path: Path
) -> None:
    run(tmp_path, [file])
    run(tmp_path, [file], **settings)
    assert (entries(tmp_path, "pairs"), entries(tmp_path, "ids")) == (texts, ids)


def test_a_changed_byte_makes_a_new_entry_and_a_new_name_none(file: Path, tmp_path: Path) -> None:
    run(tmp_path, [file])
    moved = file.rename(tmp_path / "moved.tsv")
    run(tmp_path, [moved])
    assert entries(tmp_path, "pairs") == 1
    content = bytearray(moved.read_bytes())
    content[0] ^= 1
    moved.write_bytes(content)
    train, _, _ = run(tmp_path, [moved])
    assert entries(tmp_path, "pairs") == entries(tmp_path, "ids") == 2
    assert rows(train)[1:] == plainly(reversal_pairs(60))[1:]


def test_another_tokenizer_makes_new_ids_of_the_same_text(file: Path, tmp_path: Path) -> None:
    run(tmp_path, [file])
    other = train_tokenizer([source for source, _ in reversal_pairs(300)], vocab_size=300)
    train, _, _ = run(tmp_path, [file], other)
    assert (entries(tmp_path, "pairs"), entries(tmp_path, "ids")) == (1, 2)
    assert train[0]["input_ids"] == other(reversal_pairs(60)[0][0])["input_ids"]


def test_damaged_text_and_ids_are_made_anew(file: Path, tmp_path: Path) -> None:
    run(tmp_path, [file])
    for path in (tmp_path / "cache").glob("*/*.arrow"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    again, said, _ = run(tmp_path, [file])
    assert "damaged, it was read anew" in said
    assert "1 damaged entry of the cache was encoded anew" in said
    assert rows(again) == plainly(reversal_pairs(60))


@pytest.mark.parametrize("cut", [False, True])
def test_long_pairs_are_left_out_or_cut_as_in_memory(cut: bool, file: Path, tmp_path: Path) -> None:
    train, said, _ = run(tmp_path, [file], max_tokens=5, cut_long=cut)
    expected = plainly(reversal_pairs(60), max_tokens=5, cut=cut)
    assert rows(train) == expected
    long = sum(max(map(len, pair)) > 5 for pair in plainly(reversal_pairs(60)))
    assert long and (f"{long} training pairs cut" if cut else f"{long} training pairs left") in said


def test_held_out_pairs_are_neither_trained_on_nor_lost(file: Path, tmp_path: Path) -> None:
    train, _, corpus = run(tmp_path, [file], validation_split=9)
    held = list(zip(*corpus.validation, strict=True))
    assert len(held) == 9
    left = [pair for pair in reversal_pairs(60) if pair not in held]
    assert rows(train) == plainly(left)
    texts = list(zip(corpus.training.sources, corpus.training.targets, strict=True))
    assert texts == left
    assert len(corpus.training.texts) == 2 * len(left) == len(list(corpus.training.texts))


def test_pairs_are_held_out_across_corpora_as_in_memory_and_alike_from_the_cache(
    tmp_path: Path,
) -> None:
    pairs = reversal_pairs(50), reversal_pairs(40, seed=4)
    files = [write_tsv(tmp_path / f"{k}.tsv", part) for k, part in enumerate(pairs)]
    settings = {"validation_split": 9, "filters": ["duplicates"], "max_pairs": 80}
    texts = list(dict.fromkeys([*pairs[0], *pairs[1]]))[:80]
    hashes = [fold_hashes([pair[side] for pair in texts]) for side in (0, 1)]
    held = hold_out(hashes[0], hashes[1], 9)
    for entries_made in (2, 2):
        _, _, corpus = run(tmp_path, files, **settings)
        assert entries(tmp_path, "folded") == entries_made
        found = zip(corpus.training.sources, corpus.training.targets, strict=True)
        assert list(found) == [texts[k] for k in held.training]
        assert list(zip(*corpus.validation, strict=True)) == [texts[k] for k in held.validation]


def test_what_reading_skipped_is_told_from_the_cache_too(tmp_path: Path) -> None:
    path = write_tsv(tmp_path / "a.tsv", [*reversal_pairs(5), ("eins", "")])
    for _ in range(2):
        _, said, _ = run(tmp_path, [path])
        assert "5 pairs; skipped 1 (1 empty target)" in said


def test_a_bad_line_leaves_no_entry(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("eins\tone\n" * 30 + "zwei\n")
    with pytest.raises(InputError, match="line 31"):
        run(tmp_path, [path])
    assert entries(tmp_path, "pairs") == entries(tmp_path, "ids") == 0


def test_two_line_aligned_files_as_two_corpora_are_refused(tmp_path: Path) -> None:
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("\neins\nzwei\n")
    with pytest.raises(InputError, match=r"join them with a comma, as in .*a\.en,.*a\.de$"):
        run(tmp_path, [tmp_path / "a.en", tmp_path / "a.de"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data_weights": [1.0]}, "must be one number for each corpus, got 1 for 2"),
        ({"data_weights": [1.0, 0.0]}, "`data_weights` must be above 0 and at most 1,000, got 0.0"),
    ],
)
def test_weights_that_do_not_fit_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DataArguments(["a.tsv", "b.tsv"], "en", "de", **settings)


@pytest.mark.parametrize("name", ["validation_data", "test_data"])
@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ConnectionError, "the Hub cannot be reached"),
        (FileNotFoundError, "there is none that you may read"),
    ],
)
def test_corpus_that_cannot_be_fetched_is_named_by_its_setting_and_said_before(
    name: str, error: type, why: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_dataset(*_: Any, **__: Any) -> None:
        assert said == ["Fetching owner/name:de-en:test from the Hub."]
        raise error("no")

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    said: list[str] = []
    settings: dict[str, Any] = {name: ["owner/name:de-en:test"]}
    data = DataArguments(data=[str(file)], source="en", target="de", **settings)
    with pytest.raises(FileNotFoundError, match=f"`{name}` must be a file.*{why}") as caught:
        read_corpus(data, said.append, fetch=True)
    assert "Name files of your own, or set it to none." in str(caught.value)


def test_data_of_a_recipe_can_be_turned_off(file: Path) -> None:
    off: dict[str, Any] = {"validation_data": ["none"], "test_data": ["none"]}
    data = DataArguments(data=[str(file)], source="en", target="de", **off)
    assert data.validation_data is None and data.test_data is None


@pytest.mark.parametrize(
    ("settings", "max_tokens", "expected"),
    [
        ({}, 20, ("max_position_embeddings", 30)),
        ({}, 40, ("max_tokens", 40)),
        ({"position_encoding": "learned"}, 20, ("max_position_embeddings", 30)),
        ({"position_encoding": "learned"}, 40, ("max_position_embeddings", 30)),
    ],
)
def test_pairs_to_measure_on_have_a_limit_with_sinusoids_too(
    file: Path, tmp_path: Path, settings: Any, max_tokens: int, expected: tuple[str, int]
) -> None:
    """As long as the model's text is, or as long as it is trained on where that is longer."""
    config = VaswaniConfig.from_preset("tiny", max_position_embeddings=30, **settings)
    assert evaluation_limit(config, max_tokens) == expected
    most = expected[1]
    # A word a token, and the end token.
    texts = [" ".join(["eins"] * (count - 1)) for count in (2, most, most + 1)]
    pairs = [*((text, "eins") for text in texts), ("eins", texts[2])]
    held = write_tsv(tmp_path / "held.tsv", pairs)
    data = DataArguments(
        [str(file)],
        "en",
        "de",
        validation_data=[str(held)],
        max_tokens=max_tokens,
        cache_dir=str(tmp_path / "cache"),
    )
    said: list[str] = []
    corpus = read_corpus(data, said.append, fetch=True)
    words = train_tokenizer(["eins"] * 20, model="word")
    _, validation = encode_corpus(corpus, words, data, arguments(tmp_path), config, said.append)
    assert validation is not None
    assert validation.source_lengths.tolist() == [2, most]
    assert f"2 validation pairs left out: a side has more than `{expected[0]}` = {most}" in said[-1]
