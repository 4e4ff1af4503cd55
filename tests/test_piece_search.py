"""Claims about `vaswani.piece_search` and `translated_pieces`: placeholders, with any model."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from conftest import tiny_sentences
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vaswani import piece_search
from vaswani.decoding import Hypothesis
from vaswani.placeholders import find_placeholders, placeholder_changes
from vaswani.translation import Translator

SAMPLES = ["%s", "%(name)s", "{0}", "{}", "<b>", "</b>", "&amp;", "https://a.example/b", "%%"]


@pytest.fixture
def answers(tiny_model, tiny_tokenizer, monkeypatch):
    """A translator whose model answers as told, and the texts that it was asked for."""
    asked: list[str] = []
    translator = Translator(tiny_model, tiny_tokenizer)

    def answer_with(answer):
        def search(model, sources, config, prefixes=None):
            found = []
            for ids in sources:
                text = tiny_tokenizer.decode(ids, skip_special_tokens=True, side="source")
                asked.append(text)
                several = answer(text)[: config.num_return_sequences]
                rows = tiny_tokenizer(text_target=several)["input_ids"]
                found.append([Hypothesis(row, -1.0 * k, False) for k, row in enumerate(rows, 1)])
            return found

        monkeypatch.setattr(piece_search, "search_batch", search)
        return translator, asked

    return answer_with


def _protected(translator: Translator, *texts: str, **settings: object):
    return translator.translate(texts, protect=True, **settings)


def test_translation_with_all_placeholders_is_kept(answers) -> None:
    translator, asked = answers(lambda text: [f"so {text}"])
    (found,) = _protected(translator, "Open {0} now")
    assert (found.text, found.placeholders) == ("so Open {0} now", "kept")
    assert asked == ["Open {0} now"]


def test_second_best_is_taken_where_the_best_lost_one(answers) -> None:
    translator, _ = answers(lambda text: ["none", text.upper()])
    first, second = _protected(translator, "{a} x", "see %%")
    assert first.placeholders == "words"  # {a} is not {A}
    assert (second.text, second.score, second.placeholders) == ("SEE %%", -2.0, "kept")


def test_words_between_are_translated_where_none_has_them(answers) -> None:
    """By hand: what stands between the words stays, white space and marks too."""
    translator, asked = answers(
        lambda text: [text.translate({ord(c): None for c in "%{}<>"})[::-1]]
    )
    (found,) = _protected(translator, "%s: the file {0} (see <b>this</b>).")
    assert found.text == "%s: elif eht {0} (ees <b>siht</b>)."
    assert (found.placeholders, found.score) == ("words", -3.0)
    assert sorted(asked[1:]) == ["see", "the file", "this"]


def test_placeholder_alone_comes_back_without_the_model(answers) -> None:
    translator, _ = answers(lambda text: ["no"])
    for text in ("%s", "{0}: <b/>", "Kind {0}"):
        (found,) = _protected(translator, text)
        assert found.text == text.replace("Kind", "no") and found.placeholders == "words"


def test_invented_placeholders_are_taken_out(answers) -> None:
    translator, _ = answers(lambda text: ["Hallo %s <b>du</b>"])
    (found,) = _protected(translator, "Hello you")
    assert (found.text, found.placeholders) == ("Hallo du", "removed")


def test_without_protection_nothing_is_changed(answers) -> None:
    translator, _ = answers(lambda text: ["Hallo %s"])
    (found,) = translator.translate(["Hello {0}"])
    assert (found.text, found.placeholders) == ("Hallo %s", "")


PIECES = st.sampled_from([*SAMPLES, "word ", "Two. ", " ", "100", "%", "{", "(", "w", "\u00e9"])
TEXTS = st.lists(PIECES, max_size=8).map("".join)


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(TEXTS, max_size=3), st.lists(TEXTS, min_size=1, max_size=3), st.booleans())
def test_placeholders_are_those_of_the_source_whatever_the_model_says(
    answers, texts, replies, split
) -> None:
    """A model that answers anything: nothing lost, nothing added, order where it counts."""
    translator, _ = answers(lambda text: [*replies, text + replies[0]])
    found = _protected(translator, *texts, split_sentences=split, max_source_tokens=9, num_beams=4)
    for text, translation in zip(texts, found, strict=True):
        assert not placeholder_changes(text.strip(), translation.text)
        if find_placeholders(text):
            assert translation.placeholders or translation.long_source


def test_words_have_the_texts_of_a_real_model(copying_model, tiny_tokenizer) -> None:
    translator = Translator(copying_model.double(), tiny_tokenizer)
    (found,) = translator.translate(["The baker. {0} The child."], protect=True)
    first, second = translator.translate(["The baker.", "The child."])
    if found.placeholders == "words":
        assert found.text == f"{first.text} {{0}} {second.text}"
        assert found.tokens == first.tokens + second.tokens
    assert find_placeholders(found.text) == ["{0}"]


def test_every_text_is_reported_once_with_protection(answers) -> None:
    translator, _ = answers(lambda text: ["no"])
    reports: list[int] = []
    texts = ["a {0} b", "", "plain", "{1}", "x. y {2}. z"]
    _protected(translator, *texts, progress=reports.append, split_sentences=True)
    assert sum(reports) == len(texts)


@pytest.fixture
def threads() -> Iterator[None]:
    """Leaves the number of threads as it was."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_workers_change_neither_results_nor_order(
    copying_model, tiny_tokenizer, monkeypatch, threads
) -> None:
    """Batches of one thread each give the bits that one thread gives for all of them."""
    workers = set()
    search_batch = piece_search.search_batch

    def search(*arguments: Any) -> Any:
        workers.add(threading.get_ident())
        assert torch.get_num_threads() == 1
        return search_batch(*arguments)

    monkeypatch.setattr(piece_search, "search_batch", search)
    translator = Translator(copying_model, tiny_tokenizer)
    texts = [sentence for text in tiny_sentences()[::20] for sentence in (text, text[:9])]
    found, counts = [], []
    for number in (1, 3):
        torch.set_num_threads(number)
        found.append(translator.translate(texts, batch_tokens=40, progress=counts.append))
        assert torch.get_num_threads() == number
    assert found[0] == found[1]
    assert sum(counts) == 2 * len(texts)
    # One that was the test's own, and others.
    assert len(workers) > 1


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_in_a_worker_ends_the_others(
    error, copying_model, tiny_tokenizer, monkeypatch, threads
) -> None:
    begun = []

    def search(*arguments: Any) -> Any:
        begun.append(arguments)
        raise error("stopped")

    monkeypatch.setattr(piece_search, "search_batch", search)
    torch.set_num_threads(2)
    translator = Translator(copying_model, tiny_tokenizer)
    with pytest.raises(error, match="stopped"):
        translator.translate(tiny_sentences(), batch_tokens=20)
    assert torch.get_num_threads() == 2
    assert len(begun) < len(tiny_sentences()) / 2
