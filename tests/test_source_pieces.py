"""Claims about `vaswani.source_pieces`, with a token for each character and one for the end."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani.errors import InputError
from vaswani.placeholders import find_placeholders
from vaswani.source_pieces import Source, SourceReader, halves


def encode(texts: list[str]) -> list[list[int]]:
    return [[*map(ord, text), 0] for text in texts]


def reader(limit: int, **settings: object) -> SourceReader:
    return SourceReader(encode, limit, 1000, **settings)  # type: ignore[arg-type]


def whole(source: Source) -> str:
    return "".join(piece.text + piece.between for piece in source.pieces)


def test_text_within_the_limit_is_one_piece() -> None:
    (source,) = reader(5).read(["abcd"])
    assert [piece.text for piece in source.pieces] == ["abcd"] and source.long == ""
    assert reader(5).read([""]) == [Source()]


def test_long_text_is_split_at_sentence_ends_first() -> None:
    short, long = reader(12).read(["One. Two.", "He came.  She went."])
    assert (len(short.pieces), short.long) == (1, "")
    assert [(p.text, p.between) for p in long.pieces] == [("He came.", "  "), ("She went.", "")]
    assert long.long == "sentences"


def test_long_sentence_is_split_at_the_clause_nearest_to_the_middle() -> None:
    """By hand: half of 29 characters is 14, and the comma before "and" is nearest."""
    (source,) = reader(20).read(["No, the sun rose, and he went"])
    assert [p.text for p in source.pieces] == ["No, the sun rose,", "and he went"]
    assert source.long == "clauses"
    assert halves("aaa bb ccccc") == ("aaa bb", " ", "ccccc")
    assert halves("我来了，你好") == ("我来了，", "", "你好")  # noqa: RUF001
    assert halves("abcdef") == ("abc", "", "def")
    # The mark goes with its letter.
    assert halves("abcd\u0301ef") == ("abc", "", "d\u0301ef")


WORDS = st.sampled_from(["One.", "two,", "three", "%(name)s", "<b>", "x" * 30, "é", "  ", "。"])


@given(st.lists(WORDS, max_size=30).map(" ".join), st.integers(3, 40), st.booleans(), st.booleans())
def test_pieces_fit_and_lose_nothing(text, limit, sentences, protect) -> None:
    text = text.strip()
    (source,) = reader(limit, sentences=sentences, protect=protect).read([text])
    assert whole(source) == text
    assert all(len(piece.ids) <= limit for piece in source.pieces)
    assert [piece.ids for piece in source.pieces if piece.text] == encode(
        [piece.text for piece in source.pieces if piece.text]
    )
    assert source.long != "cut"
    if protect:
        kept = [
            found
            for piece in source.pieces
            for part in (piece.text, piece.between)
            for found in find_placeholders(part)
        ]
        assert kept == find_placeholders(text)


def test_truncation_keeps_the_first_tokens_and_the_end() -> None:
    (source,) = reader(4, long_lines="truncate").read(["abcdef"])
    (piece,) = source.pieces
    assert (piece.ids, source.long) == ([*map(ord, "abc"), 0], "cut")


def test_refusal_names_the_line_and_its_length() -> None:
    with pytest.raises(InputError, match="line 12 must have at most 4 tokens, got 7"):
        reader(4, long_lines="error").read(["abc", "abcdef"], first_line=11)
    with pytest.raises(InputError, match="got more than 1001"):
        reader(4, long_lines="error").read(["a" * 5000])


def test_character_of_too_many_tokens_is_cut_and_told() -> None:
    many = SourceReader(lambda texts: [[1] * 4 * len(t) + [0] for t in texts], 3, 1000)
    (source,) = many.read(["ab"])
    assert [(p.text, len(p.ids)) for p in source.pieces] == [("a", 3), ("b", 3)]
    assert source.long == "cut"


def test_sentence_end_within_a_placeholder_ends_nothing() -> None:
    text = 'Go to <a title="Here. There">it</a> now. Then stop.'
    parts = [[p.text for p in reader(99, sentences=True, protect=p).read([text])[0].pieces]
             for p in (False, True)]  # fmt: skip
    assert parts[0][0] == 'Go to <a title="Here.'
    assert parts[1] == ['Go to <a title="Here. There">it</a> now.', "Then stop."]


@pytest.mark.parametrize("text", ["a" * 1_000_000, "ab, " * 250_000 + "a", "Go. " * 250_000 + "a"])
def test_line_of_a_million_characters_is_never_encoded_whole(text) -> None:
    longest = 0

    def watched(texts: list[str]) -> list[list[int]]:
        nonlocal longest
        longest = max([longest, *map(len, texts)])
        return encode(texts)

    start = time.process_time()
    (source,) = SourceReader(watched, 500, 2000).read([text])
    assert whole(source) == text
    assert longest <= 2000
    assert time.process_time() - start < 10
