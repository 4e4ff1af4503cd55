"""Ids in memory and mapped from a file are those of the tokenizer, list for list."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import tiny_sentences
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani.corpus_ids import IdLists, encoder, id_type, map_ids, write_ids
from vaswani.vocabulary import train_tokenizer, train_tokenizer_pair

TEXTS = ["The baker sees.", "</s> <0x41>", "é 日本 \N{GRINNING FACE}", "x" * 3000, "  two  "]


@pytest.fixture(scope="module", params=["shared", "separate", "words"])
def any_tokenizer(request: pytest.FixtureRequest) -> Any:
    if request.param == "separate":
        return train_tokenizer_pair(tiny_sentences(), tiny_sentences()[::2], vocab_size=310)
    model = "word" if request.param == "words" else "bpe"
    return train_tokenizer(tiny_sentences(), vocab_size=320, model=model)


def lists_of(ids: IdLists) -> list[list[int]]:
    return [ids[k] for k in range(len(ids))]


def test_ids_of_a_file_equal_those_of_the_tokenizer(any_tokenizer: Any, tmp_path: Path) -> None:
    sources = [*TEXTS, *tiny_sentences()[:50]]
    targets = sources[::-1]
    blocks = [(sources[k : k + 7], targets[k : k + 7]) for k in range(0, len(sources), 7)]
    seen: list[int] = []
    facts = write_ids(tmp_path / "ids.arrow", blocks, any_tokenizer, seen.append)
    expected = any_tokenizer(sources, text_target=targets, verbose=False)
    source_ids, target_ids = map_ids(tmp_path / "ids.arrow")
    assert lists_of(source_ids) == expected["input_ids"]
    assert lists_of(target_ids) == expected["labels"]
    assert source_ids.lengths.tolist() == list(map(len, expected["input_ids"]))
    assert sum(seen) == facts["pairs"] == len(sources)
    assert facts["source_tokens"] == sum(map(len, expected["input_ids"]))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=("Cs",))), max_size=5))
def test_encoder_gives_the_ids_of_a_call(texts: list[str]) -> None:
    tokenizer = _tokenizer()
    ids, lengths = encoder(tokenizer)(texts)
    expected = [tokenizer(text)["input_ids"] for text in texts]
    assert lists_of(IdLists.stretch(ids, lengths)) == expected


def _tokenizer(made: list[Any] = []) -> Any:  # noqa: B006
    if not made:
        made.append(train_tokenizer(tiny_sentences(), vocab_size=320))
    return made[0]


def test_mapped_ids_are_no_copy(tiny_tokenizer: Any, tmp_path: Path) -> None:
    path = tmp_path / "ids.arrow"
    write_ids(path, [(TEXTS, TEXTS), (TEXTS, TEXTS)], tiny_tokenizer, int)
    source_ids, target_ids = map_ids(path)
    (source,), (target,) = source_ids._flats, target_ids._flats
    # Both are the one mapping of the file.
    assert not source.flags.owndata and not source.flags.writeable
    assert source.ctypes.data == target.ctypes.data
    assert source.nbytes == path.stat().st_size // source.itemsize * source.itemsize


@pytest.mark.parametrize(
    ("entries", "kind"),
    [(256, np.uint8), (257, np.uint16), (65_536, np.uint16), (65_537, np.uint32)],
)
def test_ids_take_the_smallest_type(entries: int, kind: Any) -> None:
    assert id_type(range(entries)) == np.dtype(kind)


ROWS = st.lists(st.lists(st.integers(0, 900), min_size=1, max_size=9), max_size=8)


@settings(max_examples=100, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=4), st.randoms(), st.integers(1, 9))
def test_joined_selected_and_cut_lists_are_those_of_python(
    parts: list[list[list[int]]], random: Any, most: int
) -> None:
    rows = [row for part in parts for row in part]
    joined = IdLists.joined([IdLists.of(part) for part in parts])
    assert lists_of(joined) == rows
    flags = np.array([random.random() < 0.5 for _ in rows], dtype=bool)
    chosen = [row for row, flag in zip(rows, flags, strict=True) if flag]
    assert lists_of(joined.select(flags)) == chosen
    cut = [row if len(row) <= most else [*row[: most - 1], row[-1]] for row in chosen]
    assert lists_of(joined.select(flags).cut(most)) == cut


def test_last_list_is_number_minus_one() -> None:
    ids = IdLists.joined([IdLists.of([[1], [2, 3]]), IdLists.of([[4, 5]])])
    assert ids[-1] == [4, 5] and ids[-3] == [1]


def test_a_tokenizer_without_backend_is_called() -> None:
    class Slow:
        def __len__(self) -> int:
            return 128

        def __call__(self, texts: list[str], verbose: bool) -> dict[str, list[list[int]]]:
            return {"input_ids": [[ord(char) for char in text] for text in texts]}

    ids, lengths = encoder(Slow())(["ab", "c"])
    assert (ids.tolist(), lengths.tolist()) == ([97, 98, 99], [2, 1])
