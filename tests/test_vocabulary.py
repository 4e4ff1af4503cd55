"""Training: what a vocabulary holds, that it is reproducible, and what is refused."""

import json
import logging
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from vaswani.errors import InputError
from vaswani.tokenization_vaswani import VaswaniTokenizer
from vaswani.vocabulary import SPECIAL_TOKENS, train_tokenizer

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Sentences of invented words with accents, digits and punctuation, and one rare script."""
    rng = random.Random(0)
    syllables = ["ba", "dö", "kél", "nu", "ri", "sta", "tem", "ßo"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(150)]
    ends = [".", "?", " 42!"]
    made_up = (rng.choices(words, k=rng.randint(2, 9)) for _ in range(400))
    return [*(" ".join(sentence) + rng.choice(ends) for sentence in made_up), "ჰო"]


def learned_tokens(tokenizer: VaswaniTokenizer) -> list[str]:
    """The entries after control tokens and bytes, by id."""
    return tokenizer.convert_ids_to_tokens(list(range(260, len(tokenizer))))


def test_ids_are_control_tokens_then_bytes_then_characters_then_merges(texts: list[str]) -> None:
    tokenizer = train_tokenizer(texts, vocab_size=400)
    assert len(tokenizer) == tokenizer.vocab_size == 400
    first = tokenizer.convert_ids_to_tokens(list(range(260)))
    assert first[:4] == list(SPECIAL_TOKENS) == ["<pad>", "<s>", "</s>", "<unk>"]
    assert first[4:] == [f"<0x{byte:02X}>" for byte in range(256)]
    lengths = [len(token) for token in learned_tokens(tokenizer)]
    characters = lengths.count(1)
    assert characters and max(lengths[:characters]) == 1 < min(lengths[characters:])
    assert learned_tokens(tokenizer)[:characters] == sorted(learned_tokens(tokenizer)[:characters])


def test_frequent_words_become_single_tokens_with_their_space() -> None:
    tokenizer = train_tokenizer(["Der Hund sieht den Hund."] * 20, vocab_size=400)
    assert tokenizer.tokenize("Hund sieht Hund.") == [" Hund", " sieht", " Hund", "."]


def test_numbers_are_cut_into_digits() -> None:
    tokenizer = train_tokenizer(["2026 2026 2026"] * 20, vocab_size=400)
    assert tokenizer.tokenize("2026") == [" 2", "0", "2", "6"]


def test_no_break_space_stays_with_punctuation_only() -> None:
    tokenizer = train_tokenizer(["oui\u00a0? 10\u202f000\u00a0oui"] * 20, vocab_size=400)
    assert tokenizer.tokenize("oui\u00a0?") == [" oui", "\u00a0?"]
    assert tokenizer.tokenize("10\u202f000") == [" 1", "0", "\u202f", "0", "0", "0"]


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONHASHSEED": "1", "RAYON_NUM_THREADS": "1"},
        {"PYTHONHASHSEED": "2", "RAYON_NUM_THREADS": "3", "TOKENIZERS_PARALLELISM": "true"},
    ],
)
def test_same_text_and_settings_give_the_same_bytes_in_another_process(
    texts: list[str], tmp_path: Path, environment: dict[str, str]
) -> None:
    """Whatever the seed of Python's hashes and the number of threads."""
    settings = {"vocab_size": 500, "min_frequency": 1}
    for model in ("bpe", "word"):
        tokenizer = train_tokenizer(texts, model=model, **settings)
        tokenizer.save_pretrained(tmp_path / "here" / model)
    (tmp_path / "texts.json").write_text(json.dumps([texts, settings]), encoding="utf-8")
    code = (
        "import json, sys, pathlib; from vaswani.vocabulary import train_tokenizer\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "texts, settings = json.loads((folder / 'texts.json').read_bytes())\n"
        "for model in ('bpe', 'word'):\n"
        "    tokenizer = train_tokenizer(texts, model=model, **settings)\n"
        "    tokenizer.save_pretrained(folder / 'there' / model)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, **environment})
    for name in ("tokenizer.json", "tokenizer_config.json"):
        for model in ("bpe", "word"):
            here, there = (tmp_path / side / model / name for side in ("here", "there"))
            assert here.read_bytes() == there.read_bytes()


def test_equally_rare_characters_are_chosen_by_code_point() -> None:
    """The library alone would choose at random among ties."""
    letters = "".join(chr(code) for code in range(ord("а"), ord("а") + 32))  # noqa: RUF001
    tokenizer = train_tokenizer([letters[::-1]] * 10, vocab_size=300, limit_alphabet=9)
    kept = [token for token in learned_tokens(tokenizer) if len(token) == 1]
    assert kept == [" ", *letters[:8]]


def test_iterator_gives_what_a_list_gives(texts: list[str]) -> None:
    def stream() -> Iterator[str]:
        yield from texts

    from_list = train_tokenizer(texts, vocab_size=400).backend_tokenizer.to_str()
    assert train_tokenizer(stream(), vocab_size=400).backend_tokenizer.to_str() == from_list


@pytest.mark.parametrize("normalization", ["nfc", "nfkc"])
def test_composed_and_decomposed_text_give_the_same_vocabulary(normalization: str) -> None:
    settings = {"vocab_size": 300, "normalization": normalization}
    composed = train_tokenizer(["d\u00f6 k\u00e9l"] * 20, **settings)
    decomposed = train_tokenizer(["do\u0308 ke\u0301l"] * 20, **settings)
    assert composed.get_vocab() == decomposed.get_vocab()


def test_characters_that_nfkc_replaces_get_no_entry() -> None:
    texts = ["\ufb01n \uff11 a\u00a0b"] * 20
    assert {"\ufb01", "\uff11", "\u00a0"} <= train_tokenizer(
        texts, vocab_size=300
    ).get_vocab().keys()
    plain = train_tokenizer(texts, vocab_size=300, normalization="nfkc").get_vocab()
    assert not {"\ufb01", "\uff11", "\u00a0"} & plain.keys() and {"f", "1"} <= plain.keys()


def test_rare_script_is_spelt_in_bytes(texts: list[str]) -> None:
    tokenizer = train_tokenizer(texts, vocab_size=400)
    assert tokenizer.tokenize("ჰო") == [" ", *(f"<0x{byte:02X}>" for byte in "ჰო".encode())]


@pytest.mark.parametrize("char", ["\x00", "\x07", "\t", "\n", "\x85", "\ue000", "\U0010ffff"])
def test_control_and_private_characters_get_no_entry(char: str) -> None:
    tokenizer = train_tokenizer([f"a{char}b {char}"] * 20, vocab_size=300)
    assert not any(char in token for token in tokenizer.get_vocab())
    ids = tokenizer(f"a{char}b")["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == f"a{char}b"


HOSTILE = ["</s>", "<s>", "<pad>", "<unk>", "<0x41>", "<0xC3>", "<2de>", "a</s>b <0x41><0x41>"]


@pytest.fixture(scope="module")
def hostile() -> VaswaniTokenizer:
    """Trained on nothing but what looks like control and byte tokens."""
    return train_tokenizer(HOSTILE * 50, vocab_size=400)


@pytest.mark.parametrize("text", [*HOSTILE, "".join(HOSTILE), " ".join(HOSTILE)])
def test_text_full_of_control_tokens_trains_no_way_to_their_ids(
    hostile: VaswaniTokenizer, text: str
) -> None:
    ids = hostile(text)["input_ids"]
    assert min(ids[:-1]) >= 260
    assert ids[-1] == 2
    assert hostile.decode(ids, skip_special_tokens=True) == text


def test_no_entry_mixes_punctuation_with_letters_or_digits(hostile: VaswaniTokenizer) -> None:
    """The reason why no merge can spell a control or byte token."""
    assert any(len(token.strip()) > 1 for token in learned_tokens(hostile))
    for token in learned_tokens(hostile):
        assert len({char.isalnum() for char in token.strip()}) <= 1


def test_small_corpus_gives_a_smaller_vocabulary_with_a_notice(
    texts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="vaswani.vocabulary"):
        tokenizer = train_tokenizer(texts)
    (record,) = caplog.records
    message = record.getMessage()
    assert 260 < len(tokenizer) < 37000
    assert f"{len(tokenizer)} entries" in message and "37000" in message and "\n" not in message


@pytest.mark.parametrize(
    ("min_frequency", "reason"),
    [(1, "there is nothing else in this text."), (3, "nothing else occurs 3 times or more")],
)
def test_notice_says_why_there_are_no_more_entries(
    texts: list[str], caplog: pytest.LogCaptureFixture, min_frequency: int, reason: str
) -> None:
    train_tokenizer(texts, min_frequency=min_frequency)
    assert reason in caplog.records[0].getMessage()


def test_vocabulary_of_the_size_asked_for_gives_no_notice(
    texts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    train_tokenizer(texts, vocab_size=300)
    assert not caplog.records


def test_pairs_seen_too_rarely_are_not_merged() -> None:
    texts = ["xy"] * 9 + ["uv"] * 10 + ["x y u v"] * 10
    vocabulary = train_tokenizer(texts, vocab_size=400, min_frequency=10).get_vocab()
    assert " uv" in vocabulary
    assert "xy" not in vocabulary and " xy" not in vocabulary


@pytest.mark.parametrize("vocab_size", [-1, 0, 4, 260])
def test_vocabulary_without_room_for_the_bytes_is_refused(
    texts: list[str], vocab_size: int
) -> None:
    with pytest.raises(
        InputError, match=rf"`vocab_size` must be more than 260 .* got {vocab_size}\."
    ):
        train_tokenizer(texts, vocab_size=vocab_size)


def test_vocabulary_without_room_for_the_characters_is_refused() -> None:
    with pytest.raises(InputError, match=r"`vocab_size` must be at least 267 .*7 char.* got 266\."):
        train_tokenizer(["abc def"] * 10, vocab_size=266)
    assert len(train_tokenizer(["abc def"] * 10, vocab_size=267)) == 267


@pytest.mark.parametrize("texts", [[], [""], ["", " ", "\n\t"], iter(())])
def test_empty_text_is_refused(texts: list[str]) -> None:
    with pytest.raises(InputError, match=r"`texts` must hold text to train on, got no text\."):
        train_tokenizer(texts)


def test_unknown_model_is_refused(texts: list[str]) -> None:
    with pytest.raises(
        InputError, match=r"`model` must be one of bpe, unigram, word, got 'wordpiece'\."
    ):
        train_tokenizer(texts, model="wordpiece")


def test_unknown_normal_form_is_refused(texts: list[str]) -> None:
    with pytest.raises(InputError, match=r"`normalization` must be one of nfc, nfkc, got 'nfd'\."):
        train_tokenizer(texts, normalization="nfd")


@pytest.mark.parametrize("name", ["min_frequency", "limit_alphabet", "model_max_length"])
def test_setting_below_one_is_refused(texts: list[str], name: str) -> None:
    settings: dict[str, int] = {name: 0}
    with pytest.raises(InputError, match=rf"`{name}` must be at least 1, got 0\."):
        train_tokenizer(texts, **settings)  # type: ignore[arg-type]


def test_single_text_in_place_of_a_list_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"`texts` must be an iterable of texts, got a single text"
    ):
        train_tokenizer("abc")


def test_what_is_no_text_is_refused_by_its_number() -> None:
    with pytest.raises(InputError, match=r"`texts` must hold str, got NoneType as text 2\."):
        train_tokenizer(["a", None])  # type: ignore[list-item]


def test_lone_surrogate_is_refused_by_its_number() -> None:
    with pytest.raises(InputError, match=r"got a lone surrogate in text 3: 'x\\udc80'\."):
        train_tokenizer(["a", "b", "x\udc80"])
