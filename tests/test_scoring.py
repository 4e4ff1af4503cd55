"""Claims about `vaswani.scoring`, `vaswani score` and what `Translator.score` returns."""

import json
import math
import re
from pathlib import Path

import pytest

from vaswani.cli import main
from vaswani.translation import Translator

PAIRS = [
    ("The baker sees the child.", "Kind"),
    ("Kind", "The sailor greets the teacher."),
    ("", "The child."),
    ("The child.", ""),
    ("The Kind finds.", "The Kind finds."),
]


@pytest.fixture
def translator(copying_model, tiny_tokenizer) -> Translator:
    return Translator(copying_model.double(), tiny_tokenizer)


def test_each_token_is_scored_by_the_models_own_distribution(translator) -> None:
    """One pair at a time through `forward`, without padding, against all in one batch."""
    model, tokenizer = translator.model, translator.tokenizer
    scores = translator.score(*zip(*PAIRS, strict=True))
    for (source, target), score in zip(PAIRS, scores, strict=True):
        batch = tokenizer([source], text_target=[target], return_tensors="pt")
        log_probs = model(**batch).logits[0].log_softmax(-1)
        labels = batch["labels"][0].tolist()
        expected = [log_probs[place, token].item() for place, token in enumerate(labels)]
        assert list(score.token_log_probabilities) == pytest.approx(expected, abs=1e-9)
        assert score.log_probability == pytest.approx(sum(expected), abs=1e-9)
        assert (score.tokens, score.pieces[-1]) == (len(labels), "</s>")
        assert list(score.pieces) == tokenizer.convert_ids_to_tokens(labels)


@pytest.mark.parametrize("num_beams", [1, 4])
def test_translations_score_what_the_search_says(translator, num_beams) -> None:
    """Trial 29: every entry of the n-best list, the penalty of n tokens undone."""
    sources = ["The baker sees the child.", "Kind", "The sailor"]
    found = translator.translate(sources, num_beams=num_beams, num_return_sequences=num_beams)
    checked = 0
    for source, best in zip(sources, found, strict=True):
        for entry in best.alternatives or [best]:
            (score,) = translator.score([source], [entry.text])
            # Another way to spell the same text with the vocabulary is another hypothesis.
            if score.tokens == entry.tokens and not entry.truncated:
                undone = entry.score * ((5 + entry.tokens) / 6) ** 0.6
                assert undone == pytest.approx(score.log_probability, rel=1e-5)
                checked += 1
    assert checked >= len(sources)


def _score(folder: Path, capfd, *words: object) -> tuple[list[str], str]:
    assert main(["score", "--model", str(folder), "--device", "cpu", *map(str, words)]) == 0
    captured = capfd.readouterr()
    return captured.out.splitlines(), captured.err


@pytest.mark.parametrize("chunk", ["2", "2000"])
def test_command_writes_a_line_for_each_pair(tmp_path, folder, capfd, chunk) -> None:
    expected = Translator.from_pretrained(folder, device="cpu").score(*zip(*PAIRS, strict=True))
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"{source}\t{target}\tthird\n" for source, target in PAIRS))
    lines, err = _score(folder, capfd, "--data", table, "--chunk-lines", chunk)
    for line, score in zip(lines, expected, strict=True):
        total, tokens, values = line.split("\t")
        assert float(total) == pytest.approx(score.log_probability, abs=1e-4)
        assert int(tokens) == score.tokens == len(values.split())
        assert sum(map(float, values.split())) == pytest.approx(float(total), abs=1e-4)
    tokens = sum(score.tokens for score in expected)
    perplexity = math.exp(-sum(score.log_probability for score in expected) / tokens)
    assert f"scored 5 pairs, {tokens} target tokens, perplexity " in err
    assert float(err.split()[-1]) == pytest.approx(perplexity, rel=1e-4, abs=1e-3)


def test_two_files_and_records_say_the_same(tmp_path, folder, capfd) -> None:
    for name, side in (("a", 0), ("b", 1)):
        (tmp_path / name).write_text("".join(pair[side] + "\n" for pair in PAIRS))
    files = [tmp_path / "a", tmp_path / "b"]
    plain, _ = _score(folder, capfd, "--data", *files)
    written = tmp_path / "scores.jsonl"
    lines, _ = _score(folder, capfd, "--data", *files, "--format", "jsonl", "--output", written)
    assert lines == []
    for line, record in zip(plain, written.read_text("utf-8").splitlines(), strict=True):
        total, tokens, values = line.split("\t")
        record = json.loads(record)
        assert f"{record['log_probability']:.6f}" == total
        assert record["tokens"] == int(tokens) == len(record["pieces"])
        assert [f"{v:.6f}" for v in record["token_log_probabilities"]] == values.split()


@pytest.mark.parametrize(
    ("text", "other", "message"),
    [
        ("a\tb\nc\n", None, "line 2: there must be 2 columns"),
        ("a\nb\n", "a\n", "as many lines as each other, but .*other.txt ends after 1"),
        (None, None, "given.txt must exist"),
    ],
)
def test_bad_data_is_refused_in_one_line(tmp_path, folder, capsys, text, other, message) -> None:
    given, second = tmp_path / "given.txt", tmp_path / "other.txt"
    if text is not None:
        given.write_text(text)
    if other is not None:
        second.write_text(other)
    files = [str(given)] + [str(second)] * (other is not None)
    assert main(["score", "--model", str(folder), "--data", *files]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert re.search(message, err)


def test_three_files_are_refused_before_a_model_is_loaded(capsys) -> None:
    assert main(["score", "--model", "none", "--data", "a", "b", "c"]) == 2
    assert "`--data` must be one file or two, got 3" in capsys.readouterr().err
