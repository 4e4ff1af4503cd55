"""`vaswani tokenizer`: train, encode, decode, show; and what it refuses."""

import io
import sys
from pathlib import Path

import pytest
from trained_tokenizers import TAGS, WORDS, hostile_texts, trained, trained_pair
from training_material import write_tsv
from transformers import AutoTokenizer
from two_sided import PAIRS

from vaswani.cli import main

FILES = {"tokenizer.json", "tokenizer_config.json", "tokenization_vaswani.py"}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_tsv(tmp_path / "pairs.tsv", PAIRS)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    trained_pair("bpe").save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def train(output: Path, *words: str) -> int:
    return main(["tokenizer", "train", "--output-dir", str(output), *words])


def of_pairs(corpus: Path) -> tuple[str, ...]:
    return ("--data", str(corpus), "--source", "en", "--target", "fr", "--vocabulary-size", "330")


# Training


def test_training_on_pairs_writes_a_tokenizer_of_both_sides(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    output = tmp_path / "made" / "here"
    assert train(output, *of_pairs(corpus)) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{output}\n" and "32 pairs and 0 lines read." in printed.err
    assert {file.name for file in output.iterdir()} == FILES
    tokenizer = AutoTokenizer.from_pretrained(output)
    assert tokenizer.tokenize("see voit") == [" see", " voit"]


def test_several_corpora_and_plain_text_are_read_together(corpus: Path, tmp_path: Path) -> None:
    for name, texts in (("a.en", ["aaa bbb"] * 20), ("a.fr", ["ccc"] * 20), ("t", ["ddd"] * 20)):
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    words = ["--data", str(corpus), f"{tmp_path / 'a.en'},{tmp_path / 'a.fr'}", "--text"]
    words += [str(tmp_path / "t"), "--source", "en", "--target", "fr"]
    assert train(tmp_path / "all", *words) == 0
    entries = AutoTokenizer.from_pretrained(tmp_path / "all").get_vocab()
    assert {" aaa", " ccc", " ddd", " see"} <= entries.keys()


@pytest.mark.parametrize("model", ["bpe", "unigram", "word"])
def test_each_kind_can_be_trained_for_each_side(model: str, corpus: Path, tmp_path: Path) -> None:
    words = ("--vocabulary-model", model, "--separate-vocabularies", "--normalization", "nfkc")
    assert train(tmp_path / "two", *of_pairs(corpus), *words) == 0
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "two")
    assert tokenizer.separate_vocabularies
    assert tokenizer.normalization == tokenizer.target_tokenizer.normalization == "nfkc"
    batch = tokenizer("baker sees cook.", text_target="boulanger voit cuisinier.")
    found = tokenizer.decode(batch["labels"], skip_special_tokens=True)
    assert found == "boulanger voit cuisinier."


def test_trained_folder_is_taken_by_a_training_run(corpus: Path, tmp_path: Path) -> None:
    assert train(tmp_path / "own", *of_pairs(corpus), "--vocabulary-model", "unigram") == 0
    sizes = "d_model=16,encoder_layers=1,decoder_layers=1,encoder_attention_heads=2,"
    sizes += "decoder_attention_heads=2,encoder_ffn_dim=16,decoder_ffn_dim=16"
    words = ["train", *of_pairs(corpus)[:-2], "--tokenizer", str(tmp_path / "own"), "--device"]
    words += ["cpu", "--max-steps", "1", "--validation-split", "0", "--config-overrides", sizes]
    words += ["--tokens-per-update", "100", "--warmup-steps", "2"]
    assert main([*words, "--output-dir", str(tmp_path / "run")]) == 0
    for name in FILES:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "own" / name).read_bytes()


def test_earlier_tokenizer_is_replaced_only_on_request(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    output = tmp_path / "own"
    assert train(output, *of_pairs(corpus)) == 0
    before = (output / "tokenizer.json").read_bytes()
    assert train(output, *of_pairs(corpus), "--vocabulary-model", "word") == 2
    assert "`output_dir` must be new or empty" in capsys.readouterr().err
    assert (output / "tokenizer.json").read_bytes() == before
    assert train(output, *of_pairs(corpus), "--vocabulary-model", "word", "--overwrite") == 0
    assert (output / "tokenizer.json").read_bytes() != before


def test_model_is_never_replaced_by_a_tokenizer(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    trained("bpe").save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").write_bytes(b"weights")
    assert train(tmp_path / "model", *of_pairs(corpus), "--overwrite") == 2
    assert "with model.safetensors. Choose another." in capsys.readouterr().err
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == b"weights"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "`--data` or `--text` must be given, got neither."),
        (["--data", "x.tsv"], "`--source` and `--target` must be given with `--data`."),
        (["--text", "none.txt"], "none.txt must exist"),
        (["--text", "x", "--separate-vocabularies"], "`--text` must be left out with"),
        (["--text", "x", "--target-vocabulary-size", "300"], "must be left out without"),
        (["--text", "x", "--vocabulary-model", "char"], "must be one of bpe, unigram, word"),
        (["--text", "x", "--vocabulary-size", "10"], "must be more than 260"),
    ],
)
def test_impossible_trainings_are_refused_in_a_line(
    words: list[str], message: str, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_text("some text\n", encoding="utf-8")
    assert train(tmp_path / "out", *words) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert message in error and error.startswith("vaswani tokenizer: error: ")
    assert not (tmp_path / "out").exists()


# Lines


def through(words: list[str], given: bytes, capsysbinary, monkeypatch) -> tuple[int, bytes]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    code = main(["tokenizer", *words])
    return code, capsysbinary.readouterr().out


@pytest.mark.parametrize("side", ["source", "target"])
def test_decoding_what_was_encoded_gives_the_lines_back(
    side: str, saved: Path, capsysbinary, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [*hostile_texts(WORDS, count=20), "", "  ", "\ttab ", "a\rb", "\u2028x\u0085", "\u0301"]
    given = "".join(f"{line}\n" for line in lines).encode()
    words = ["--tokenizer", str(saved), "--side", side]
    code, ids = through(["encode", *words], given, capsysbinary, monkeypatch)
    assert code == 0 and ids.count(b"\n") == len(lines)
    assert through(["decode", *words], ids, capsysbinary, monkeypatch) == (0, given)


def test_encoding_gives_the_ids_of_the_side(
    saved: Path, capsysbinary, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = trained_pair("bpe")
    words = ["encode", "--tokenizer", str(saved), "--side"]
    for side, owner in (("source", tokenizer), ("target", tokenizer.target_tokenizer)):
        code, found = through([*words, side], b"the chat\r\n", capsysbinary, monkeypatch)
        expected = " ".join(map(str, owner("the chat")["input_ids"]))
        assert (code, found.decode()) == (0, f"{expected}\n")


def test_ignored_labels_and_control_tokens_are_left_out(
    saved: Path, capsysbinary, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = trained_pair("bpe")("the cat")["input_ids"]
    given = " ".join(map(str, [1, *ids, 0, -100])).encode()
    words = ["decode", "--tokenizer", str(saved)]
    assert through(words, given, capsysbinary, monkeypatch) == (0, b"the cat\n")


@pytest.mark.parametrize("word", ["x", "99999", "-5", "1.0", "²"])
def test_what_is_no_id_is_refused_with_its_line(
    word: str, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "ids").write_text(f"5 6\n7 {word}\n", encoding="utf-8")
    words = ["decode", "--tokenizer", str(saved), "--input", str(tmp_path / "ids")]
    assert main(["tokenizer", *words, "--output", str(tmp_path / "out")]) == 2
    last = len(trained_pair("bpe")) - 1
    assert f"ids, line 2: ids must be whole numbers from 0 to {last}, got '{word}'." in (
        capsys.readouterr().err
    )
    assert not (tmp_path / "out").exists()


# Show


def test_show_tells_each_side_and_how_a_text_is_split(
    saved: Path, capsys: pytest.CaptureFixture
) -> None:
    text = "the </s> x"
    assert main(["tokenizer", "show", "--tokenizer", str(saved), "--text", text]) == 0
    source, target = capsys.readouterr().out.split("\n\n")
    tokenizer = trained_pair("bpe")
    for part, side in ((source, tokenizer), (target, tokenizer.target_tokenizer)):
        told = dict(line.split(":", 1) for line in part.strip().splitlines())
        told = {name: value.strip() for name, value in told.items()}
        assert told["kind"] == "byte-pair encoding" and told["normal form"] == "NFC"
        assert told["entries"] == f"{len(side):,}"
        assert told["control tokens"] == "<pad> 0, <s> 1, </s> 2, <unk> 3"
        assert told["ids"] == " ".join(map(str, side(text)["input_ids"]))
        assert told["read back"] == f'"{text}"'
    assert source.startswith("vocabulary:") and "source" in source.splitlines()[0]


def test_show_tells_added_tokens_and_kind(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    tokenizer = AutoTokenizer.from_pretrained(_saved(trained("word", "nfkc"), tmp_path / "a"))
    tokenizer.add_special_tokens({"extra_special_tokens": TAGS[:1]})
    tokenizer.add_tokens(["ordinary"])
    _saved(tokenizer, tmp_path / "b")
    assert main(["tokenizer", "show", "--tokenizer", str(tmp_path / "b")]) == 0
    printed = capsys.readouterr().out
    assert "whole words" in printed and "NFKC" in printed
    assert f", {TAGS[0]} {len(trained('word', 'nfkc'))}\n" in printed
    assert f"ordinary {len(tokenizer) - 1}\n" in printed


def _saved(tokenizer, folder: Path) -> Path:
    tokenizer.save_pretrained(folder)
    return folder


def test_text_of_invalid_bytes_is_refused_in_a_line(
    saved: Path, capsys: pytest.CaptureFixture
) -> None:
    """How Python hands over a byte of the command line that is no UTF-8."""
    assert main(["tokenizer", "show", "--tokenizer", str(saved), "--text", "a\udcff"]) == 2
    error = capsys.readouterr().err
    assert "must be valid Unicode, got the lone surrogate U+DCFF" in error
    assert error.count("\n") == 1


def test_folder_without_a_tokenizer_is_refused(tmp_path: Path, capsys) -> None:
    for command in ("show", "encode", "decode"):
        assert main(["tokenizer", command, "--tokenizer", str(tmp_path)]) == 2
        assert "must be a folder with tokenizer.json" in capsys.readouterr().err
