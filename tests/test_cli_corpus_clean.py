"""`vaswani corpus clean`, `stats` and `split`: what they write, print and refuse."""

import json
from pathlib import Path

import pytest

from vaswani.cli import main

ROWS = [
    ("The bridge is open.", "Die Brücke ist offen."),
    ("Radio", "Radio"),
    ("Page 7: maps", "Seite 7: Karten"),
    ("the bridge is open!", "die Brücke ist offen"),
    (
        "A short text",
        "Ein sehr langer Text, der viel mehr sagt als jener, der neben ihm steht.",
    ),
    ("Page 12: maps", "Seite 12: Karten"),
    ("The bridge is open.", "Die Brücke ist offen."),
    ("It  keeps its\u00a0spaces ", "Es  behält  seine\u00a0Leerzeichen"),
]
LANGUAGES = ["--source", "en", "--target", "de"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "raw.tsv"
    path.write_text("".join(f"{s}\t{t}\n" for s, t in ROWS) + "\n", encoding="utf-8")
    return path


def rows_of(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def test_clean_parts_the_pairs_and_counts_them(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    kept, dropped = tmp_path / "kept.tsv", tmp_path / "dropped.tsv"
    words = ["--data", str(corpus), *LANGUAGES, "--output", str(kept), "--dropped", str(dropped)]
    assert main(["corpus", "clean", *words]) == 0
    assert rows_of(kept) == [[s.strip(), t] for s, t in (ROWS[0], ROWS[2], ROWS[7])]
    assert rows_of(dropped) == [
        [*ROWS[1], "identical", "2"],
        [*ROWS[3], "near-duplicates", "4"],
        [*ROWS[4], "length-ratio", "5"],
        [*ROWS[5], "near-duplicates", "6"],
        [*ROWS[6], "duplicates", "7"],
    ]
    captured = capsys.readouterr()
    counts = {line.split()[0]: int(line.split()[1]) for line in captured.out.splitlines()}
    assert counts["read"] == 8 and counts["kept"] == 3
    assert sum(counts.values()) == 2 * 8
    assert captured.err == "Reading: 8 pairs; skipped 1 (1 blank).\n"


def test_clean_writes_json_lines_that_hold_any_text(tmp_path: Path) -> None:
    raw, dropped = tmp_path / "raw.jsonl", tmp_path / "dropped.jsonl"
    pair = {"en": "two\nlines\tand a tab", "de": "two\nlines\tand a tab"}
    raw.write_text(json.dumps(pair) + "\n" + json.dumps({"en": "a", "de": "b"}) + "\n")
    words = ["--data", str(raw), *LANGUAGES, "--output", str(tmp_path / "kept.tsv")]
    assert main(["corpus", "clean", *words, "--dropped", str(dropped)]) == 0
    (record,) = map(json.loads, dropped.read_text().splitlines())
    assert record == {"translation": pair, "reason": "identical", "pair": 1}


def test_clean_reads_several_corpora_and_settings_of_filters(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    kept = tmp_path / "kept.tsv"
    words = ["--data", str(corpus), str(corpus), *LANGUAGES, "--output", str(kept)]
    assert main(["corpus", "clean", *words, "--filters", "length:most=3", "duplicates"]) == 0
    assert rows_of(kept) == [list(ROWS[1]), list(ROWS[2]), list(ROWS[5])]
    assert "length:most=3" in capsys.readouterr().out


def test_failed_cleaning_leaves_what_was_there(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    kept, dropped = tmp_path / "kept.tsv", tmp_path / "dropped.tsv"
    kept.write_text("earlier\n")
    with corpus.open("a", encoding="utf-8") as stream:
        stream.write("no tab here\n")
    words = ["--data", str(corpus), *LANGUAGES, "--output", str(kept), "--dropped", str(dropped)]
    assert main(["corpus", "clean", *words]) == 2
    assert "line 10" in capsys.readouterr().err
    assert kept.read_text() == "earlier\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.tsv", "raw.tsv"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["clean", "--output", "{}/k.tsv", "--filters", "identicle"], "Did you mean identical?"),
        (["clean", "--output", "{}/k.tsv", "--dropped", "{}/k.tsv"], "must be another file"),
        (["clean", "--output", "{}/no/k.tsv"], "must be in an existing folder"),
        (["split", "--output-dir", "{}/new", "--validation", "1.5"], "must be a whole number"),
        (["split", "--output-dir", "{}/new", "--test", "8"], "got none for"),
        (["split", "--output-dir", "{}"], "must be new or empty"),
        (["split", "--output-dir", "{}/new", "--test", "0.6", "--validation", "0.4"], "a share"),
        (["split", "--output-dir", "{}/new", "--test", "0", "--validation", "0"], "above 0"),
        (["stats", "--examples", "-1"], "must not be negative"),
        (["stats", "--json", "{}/no/s.json"], "must be in an existing folder"),
    ],
)
def test_impossible_request_is_one_line_and_writes_nothing(
    words: list[str], message: str, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    words = [word.format(tmp_path) for word in words]
    assert main(["corpus", *words, "--data", str(corpus), *LANGUAGES]) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["raw.tsv"]


def test_empty_corpus_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    empty = tmp_path / "empty.tsv"
    empty.touch()
    for words in (["clean", "--output", f"{tmp_path}/k.tsv"], ["stats"]):
        assert main(["corpus", *words, "--data", str(empty), *LANGUAGES]) == 2
        assert "`data` must hold at least one pair" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["empty.tsv"]


def test_split_parts_the_pairs_without_loss(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    folder = tmp_path / "splits"
    words = ["--data", str(corpus), *LANGUAGES, "--output-dir", str(folder)]
    assert main(["corpus", "split", *words, "--validation", "2", "--test", "1"]) == 0
    parts = {path.name: rows_of(path) for path in folder.iterdir()}
    assert parts.keys() == {"train.tsv", "validation.tsv", "test.tsv"}
    assert len(parts["validation.tsv"]) == 2 and len(parts["test.tsv"]) == 1
    written = sorted(row for rows in parts.values() for row in rows)
    assert written == sorted([s.strip(), t] for s, t in ROWS)
    # The order within a split is that of the corpus.
    order = [[s.strip(), t] for s, t in ROWS]
    assert parts["train.tsv"] == [row for row in order if row in parts["train.tsv"]]
    assert "validation  2" in capsys.readouterr().out
    assert main(["corpus", "split", *words, "--test", "1", "--validation", "0", "--overwrite"]) == 0
    assert {path.name for path in folder.iterdir()} == {"train.tsv", "test.tsv"}


def test_stats_prints_counts_outliers_and_draws(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    pytest.importorskip("matplotlib")
    picture, figures = tmp_path / "lengths.png", tmp_path / "stats.json"
    words = ["--data", str(corpus), *LANGUAGES, "--plot", str(picture), "--json", str(figures)]
    assert main(["corpus", "stats", *words, "--examples", "1"]) == 0
    out = capsys.readouterr().out
    assert "8 pairs; skipped 1 (1 blank)" in out
    assert "pair 5: 14 words" in out and "pair 1: 3 times" in out
    assert "U+00A0 NO-BREAK SPACE 1" in out
    assert picture.read_bytes().startswith(b"\x89PNG")
    summary = json.loads(figures.read_text(encoding="utf-8"))
    assert summary["outliers"]["longest"][0]["target"] == ROWS[4][1]


def test_stats_spells_out_what_a_terminal_would_obey(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    raw = tmp_path / "raw.tsv"
    raw.write_text("red \x1b[31m text\tein\u202eText\n", encoding="utf-8")
    assert main(["corpus", "stats", "--data", str(raw), *LANGUAGES]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\u202e" not in out
    assert r"red \x1b[31m text" in out and r"ein\u202eText" in out


def test_stats_counts_tokens_of_a_tokenizer(
    corpus: Path, tiny_folder: Path, capsys: pytest.CaptureFixture
) -> None:
    words = ["--data", str(corpus), *LANGUAGES, "--model", str(tiny_folder)]
    assert main(["corpus", "stats", *words]) == 0
    assert "en tokens" in capsys.readouterr().out
