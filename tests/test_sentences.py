"""Claims about `vaswani.sentences`."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani.sentences import split_sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["One came.", "Two went!", "Who stayed?"],
        ["Dr. Weber met Mrs. Long.", "They talked."],
        ["Am 3. Mai regnet es.", "Danach nicht."],
        ["It was in 1999.", "Nobody knew."],
        ["J. Weber, z. B. hier, schreibt.", "Gut."],
        ["So do I.", "You too."],
        ['"Why?" he asked.', "(Nobody answered.)", "“Well…”", "Silence."],
        ["It costs 3.50 in total.", "2 are enough."],
        ["He said: «Non.»", "Élodie left."],
        ["wait... and see.", "Then go."],
    ],
)
def test_sentences_are_found(sentences) -> None:
    assert [sentence for sentence, _ in split_sentences(" ".join(sentences))] == sentences


def test_full_width_marks_need_no_space() -> None:
    assert split_sentences("我来了。你好！再见") == [("我来了。", ""), ("你好！", ""), ("再见", "")]  # noqa: RUF001


def test_white_space_is_kept() -> None:
    assert split_sentences(" One.  Two.\u00a0Three \n four ") == [
        ("One.", "  "), ("Two.", "\u00a0"), ("Three", " \n "), ("four", ""),
    ]  # fmt: skip


@given(st.text(alphabet=" \n\t.!?…。abAB3\"')»", max_size=60))
def test_pieces_join_to_the_text(text) -> None:
    pieces = split_sentences(text)
    assert "".join(sentence + space for sentence, space in pieces) == text.strip()
    assert all(sentence and sentence == sentence.strip() for sentence, _ in pieces)
    assert all(not space.strip() for _, space in pieces)


@pytest.mark.parametrize("text", ["?" * 200_000, "a" + " " * 200_000 + "b", "A. " * 60_000])
def test_long_runs_take_linear_time(text) -> None:
    """A quadratic scan of such a line would take minutes."""
    start = time.process_time()
    split_sentences(text)
    assert time.process_time() - start < 5
