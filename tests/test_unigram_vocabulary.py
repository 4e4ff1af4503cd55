"""Unigram vocabularies: what is an entry, what every training run has in common."""

import json
import logging
from collections import Counter

import pytest
from trained_tokenizers import WORDS, hostile_texts, trained
from transformers import AutoTokenizer

from vaswani.errors import InputError
from vaswani.tokenization_vaswani import VaswaniTokenizer
from vaswani.vocabulary import SPECIAL_TOKENS, train_tokenizer

STEMS = ["lauf", "spiel", "sing", "schreib", "kauf", "tanz"]
ENDINGS = ["en", "st", "t", "e", "end", "er"]
TEXTS = [f"{stem}{ending} und {stem}{other}" for stem in STEMS for ending in ENDINGS
         for other in ENDINGS]  # fmt: skip


def train(texts: list[str] = TEXTS, **settings: int) -> VaswaniTokenizer:
    return train_tokenizer(texts, model="unigram", **{"vocab_size": 350, **settings})


@pytest.fixture(scope="module")
def tokenizer() -> VaswaniTokenizer:
    return train()


def entries(tokenizer: VaswaniTokenizer) -> list[tuple[str, float]]:
    """Entries and their log-probabilities, by id."""
    return json.loads(tokenizer.backend_tokenizer.to_str())["model"]["vocab"]


def test_ids_are_control_tokens_bytes_characters_and_pieces_by_probability(tokenizer) -> None:
    tokens = [token for token, _ in entries(tokenizer)]
    assert tokens[:4] == list(SPECIAL_TOKENS)
    assert tokens[4:260] == [f"<0x{byte:02X}>" for byte in range(256)]
    learnt = tokens[260:]
    characters = sorted({" ", *"".join(TEXTS)})
    assert learnt[: len(characters)] == characters
    scores = [score for token, score in entries(tokenizer) if len(token) > 1][260:]
    assert scores and scores == sorted(scores, reverse=True)
    assert all(len(token) > 1 for token in learnt[len(characters) :])


def test_frequent_word_that_no_other_holds_is_a_piece(tokenizer) -> None:
    """The library's trainer alone considers only what different characters follow."""
    assert tokenizer.tokenize("und und") == [" und", " und"]


def test_cut_is_the_most_probable_one(tokenizer) -> None:
    """Against the best of all cuts of a word, tried one by one."""
    scores = dict(entries(tokenizer))

    def best(word: str) -> float:
        if not word:
            return 0.0
        ends = range(1, len(word) + 1)
        return max(scores[word[:k]] + best(word[k:]) for k in ends if word[:k] in scores)

    for word in ("schreibend", "tanzer", "kaufstend", "undender"):
        found = sum(scores[piece] for piece in tokenizer.tokenize(word))
        assert found == pytest.approx(best(" " + word))


def test_pieces_hardly_used_are_taken_out() -> None:
    tokenizer = train(min_frequency=15)
    used = Counter(index for ids in tokenizer(TEXTS)["input_ids"] for index in ids)
    pieces = [token for token, _ in entries(tokenizer)[260:] if len(token) > 1]
    all_of_them = train(min_frequency=1)
    assert len(tokenizer) < len(all_of_them)
    assert pieces and all(used[tokenizer.convert_tokens_to_ids(piece)] > 0 for piece in pieces)


def test_vocabulary_keeps_to_its_size() -> None:
    assert len(train(vocab_size=300, min_frequency=1)) <= 300


def test_small_corpus_gives_a_smaller_vocabulary_with_a_notice(caplog) -> None:
    with caplog.at_level(logging.WARNING, logger="vaswani.vocabulary"):
        tokenizer = train(vocab_size=37_000)
    (record,) = caplog.records
    assert f"has {len(tokenizer)} entries, fewer than `vocab_size` = 37000" in record.getMessage()


def test_each_run_has_the_same_characters_and_nearly_the_same_pieces() -> None:
    """The library's trainer adds up in an order of its own, so no more can be promised."""
    first, second = (entries(train()) for _ in range(2))
    count = sum(len(token) == 1 for token, _ in first[260:])
    assert [t for t, _ in first[: 260 + count]] == [t for t, _ in second[: 260 + count]]
    both = dict(first).keys() & dict(second).keys()
    assert len(both) > 0.9 * max(len(first), len(second))
    assert all(dict(first)[t] == pytest.approx(dict(second)[t], abs=0.1) for t in both)


def test_rare_and_control_characters_get_no_entry() -> None:
    tokenizer = train([*TEXTS, *["a\x00b\tc \ue000"] * 20, "ჰო"], min_frequency=5)
    assert not {"\x00", "\t", "\ue000", "ჰ"} & {
        char for token in tokenizer.get_vocab() for char in token
    }
    assert tokenizer.tokenize("ჰო") == [" ", *(f"<0x{byte:02X}>" for byte in "ჰო".encode())]


def test_alphabet_may_hold_what_regular_expressions_read_otherwise() -> None:
    texts = ["a]b [^c] \\d -e- (f) x{41}"] * 20
    tokenizer = train(texts)
    ids = tokenizer(texts[0])["input_ids"]
    assert min(ids[:-1]) >= 260
    assert tokenizer.decode(ids, skip_special_tokens=True) == texts[0]


def test_saving_and_loading_keeps_ids_and_bytes(tmp_path) -> None:
    tokenizer = trained("unigram")
    tokenizer.save_pretrained(tmp_path / "first")
    again = AutoTokenizer.from_pretrained(tmp_path / "first")
    again.save_pretrained(tmp_path / "second")
    texts = [*hostile_texts(WORDS, seed=5), "\x00東京"]
    assert type(again) is VaswaniTokenizer
    assert again(texts)["input_ids"] == tokenizer(texts)["input_ids"]
    for file in (tmp_path / "first").iterdir():
        assert (tmp_path / "second" / file.name).read_bytes() == file.read_bytes()


def test_training_anew_keeps_the_bytes_and_the_control_tokens() -> None:
    anew = trained("unigram").train_new_from_iterator([TEXTS], vocab_size=330)
    assert anew.convert_tokens_to_ids([*SPECIAL_TOKENS, "<0x00>", "<0xFF>"]) == [0, 1, 2, 3, 4, 259]
    for text in ("laufen", " 東京 </s><0x41>"):
        ids = anew(text)["input_ids"]
        assert 3 not in ids and ids.count(2) == 1
        assert anew.decode(ids, skip_special_tokens=True) == text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocab_size": 260}, r"`vocab_size` must be more than 260 \(4 control tokens and 256"),
        ({"vocab_size": 263}, r"`vocab_size` must be at least \d+ for this text"),
        ({"normalization": "nfd"}, r"`normalization` must be one of nfc, nfkc, got 'nfd'\."),
    ],
)
def test_impossible_unigram_vocabularies_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        train(**settings)


def test_a_piece_used_exactly_as_often_as_asked_for_is_an_entry() -> None:
    """`min_frequency` is how often a piece must be used, that number included."""
    unigram = train_tokenizer(["harbor"] * 5, model="unigram", vocab_size=300, min_frequency=5)
    assert unigram.tokenize("harbor") == [" harbor"]
    fewer = train_tokenizer(["harbor"] * 5, model="unigram", vocab_size=300, min_frequency=6)
    assert " harbor" not in fewer.get_vocab()
