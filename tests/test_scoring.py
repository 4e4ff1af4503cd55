"""Claims about `vaswani.scoring`, `vaswani score` and what `Translator.score` returns."""

import json
import math
import re
from pathlib import Path

import pytest

from vaswani import VaswaniForConditionalGeneration
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
    files = f"{tmp_path / 'a'},{tmp_path / 'b'}"
    plain, _ = _score(folder, capfd, "--data", files)
    written = tmp_path / "scores.jsonl"
    lines, _ = _score(folder, capfd, "--data", files, "--format", "jsonl", "--output", written)
    assert lines == []
    for line, record in zip(plain, written.read_text("utf-8").splitlines(), strict=True):
        total, tokens, values = line.split("\t")
        record = json.loads(record)
        assert f"{record['log_probability']:.6f}" == total
        assert record["tokens"] == int(tokens) == len(record["pieces"])
        assert [f"{v:.6f}" for v in record["token_log_probabilities"]] == values.split()


def test_every_kind_of_corpus_gives_a_line_for_each_line(tmp_path, folder, capfd) -> None:
    """Blank sides and blank lines too, so that scores never shift; several corpora in order."""
    pairs = [("The child.", "Kind"), ("", ""), ("", "Kind"), ("Kind", "")]
    table, records = tmp_path / "pairs.tsv", tmp_path / "pairs.jsonl"
    table.write_text("The child.\tKind\n\n \tKind\nKind\t\n")
    forms = [
        {"translation": {"en": "The child.", "de": "Kind"}},
        None,
        {"id": 3, "en": " ", "de": "Kind"},
        {"de": "", "translation": {"de": "", "en": "Kind"}},
    ]
    records.write_text("\n".join(json.dumps(form) if form else "" for form in forms))
    for side, name in enumerate(("a", "b")):
        (tmp_path / name).write_text("".join(pair[side] + "\n" for pair in pairs))
    aligned = f"{tmp_path / 'a'},{tmp_path / 'b'}"
    languages = ("--source", "en", "--target", "de")
    lines, _ = _score(folder, capfd, "--data", table, records, aligned, *languages)
    expected = Translator.from_pretrained(folder, device="cpu").score(*zip(*pairs, strict=True))
    assert len(lines) == 12
    for line, score in zip(lines, expected * 3, strict=True):
        assert float(line.split("\t")[0]) == pytest.approx(score.log_probability, abs=1e-4)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: the line must be one JSON object"),
        ('{"en": "a"}', "line 2: there must be the field 'de', got none"),
        ('{"en": "a", "de": 5}', "line 2: the field 'de' must be a string, got int"),
        ('{"translation": "a"}', "line 2: there must be the field 'en', got none"),
    ],
)
def test_bad_record_is_refused_with_its_line(tmp_path, folder, capsys, line, message) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"en": "a", "de": "b"}\n' + line)
    command = ["score", "--model", str(folder), "--data", str(path), "--device", "cpu"]
    assert main(command) == 2
    assert "`--source` and `--target` must be given for the records" in capsys.readouterr().err
    assert main([*command, "--source", "en", "--target", "de"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "other", "message"),
    [
        ("a\tb\nc\n", None, "line 2: there must be 2 columns"),
        ("a\nb\n", "a\n", "given.txt and .*other.txt must have as many .*, got 2 and 1"),
        ("a\nb\n", "a\nb\nc\nd\n", "must have as many lines as each other, got 2 and 4"),
        (None, None, "given.txt must exist"),
    ],
)
def test_bad_data_is_refused_in_one_line(tmp_path, folder, capsys, text, other, message) -> None:
    given, second = tmp_path / "given.txt", tmp_path / "other.txt"
    if text is not None:
        given.write_text(text)
    if other is not None:
        second.write_text(other)
    files = ",".join([str(given)] + [str(second)] * (other is not None))
    assert main(["score", "--model", str(folder), "--data", files]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert re.search(message, err)


@pytest.mark.parametrize("name", ["a.tmx", "a.po", "a.mo", "a.tmx.gz"])
def test_formats_without_lines_are_refused_by_name(tmp_path, folder, capsys, name) -> None:
    (tmp_path / name).write_text("<tmx/>")
    assert main(["score", "--model", str(folder), "--data", str(tmp_path / name)]) == 2
    assert f"{name}. Make one of it by `vaswani corpus convert`" in capsys.readouterr().err


def test_text_too_long_for_learned_positions_is_named_by_its_line(
    tmp_path, capsys, request
) -> None:
    """Also in a later chunk."""
    config = request.getfixturevalue("tiny_config")
    config.position_encoding, config.max_position_embeddings = "learned", 16
    VaswaniForConditionalGeneration(config).save_pretrained(tmp_path / "learned")
    request.getfixturevalue("tiny_tokenizer").save_pretrained(tmp_path / "learned")
    path = tmp_path / "pairs.tsv"
    path.write_text("Kind\tKind\n" * 2 + "The child. " * 20 + "\tKind\n")
    command = ["score", "--model", str(tmp_path / "learned"), "--data", str(path)]
    assert main([*command, "--device", "cpu", "--chunk-lines", "2"]) == 2
    assert "pairs.tsv, line 3. Shorten it" in capsys.readouterr().err
