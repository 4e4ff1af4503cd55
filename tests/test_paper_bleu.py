"""The paper's BLEU: tokenized text, compounds split, no smoothing."""

import json
import math

import pytest
import sacrebleu
from training_material import reversal_pairs, write_tsv

from vaswani.cli import main
from vaswani.errors import InputError
from vaswani.evaluation import corpus_scores, split_compounds, tokenized_compound_split_bleu

pytest.importorskip("sacremoses", reason="the extra `train` brings it")


def bleu(hypotheses: list[str], references: list[str], language: str = "de") -> float:
    return tokenized_compound_split_bleu(hypotheses, references, language)["paper_bleu"]


def test_matches_of_split_compounds_count_as_by_hand() -> None:
    """x ##AT##-##AT## y b c d e against x ##AT##-##AT## z b c d e: 6/7, 4/6, 2/5 and 1/4 match."""
    expected = 100 * (6 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** (1 / 4)
    assert bleu(["x-y b c d e"], ["x-z b c d e"]) == pytest.approx(expected)
    # Without the split: 4/5, 3/4, 2/3, 1/2.
    unsplit = sacrebleu.BLEU(tokenize="none", smooth_method="none")
    whole = unsplit.corpus_score(["x-y b c d e"], [["x-z b c d e"]]).score
    assert whole == pytest.approx(100 * 0.2**0.25)


def test_short_output_is_penalized_as_by_hand() -> None:
    """Five of seven tokens, all right: exp(1 - 7/5)."""
    assert bleu(["a b c d e"], ["a b c d e f g"]) == pytest.approx(100 * math.exp(1 - 7 / 5))


def test_no_run_of_four_right_tokens_is_0() -> None:
    """multi-bleu.perl smooths nothing; sacreBLEU's default does."""
    hypotheses, references = ["a b c x e"], ["a b c d e"]
    assert bleu(hypotheses, references) == pytest.approx(0.0, abs=1e-9)
    assert corpus_scores(hypotheses, references)["bleu"] > 10


def test_counts_are_summed_over_the_corpus_and_case_matters() -> None:
    """Token by token: 4/4 and 4/5 right, so 8/9, 6/7, 4/5 and 2/3 of the corpus."""
    expected = 100 * (8 / 9 * 6 / 7 * 4 / 5 * 2 / 3) ** (1 / 4)
    hypotheses, references = ["a b c d", "f g h i J"], ["a b c d", "f g h i j"]
    assert bleu(hypotheses, references) == pytest.approx(expected)


def test_text_is_tokenized_as_moses_does() -> None:
    """Written out by hand: marks stand alone, abbreviations keep theirs, quotes are escaped."""
    hypotheses = ['Er sagt: "Das ist z.B. gut."', "Am 3. Mai (heute) kommt's doch."]
    references = ['Er sagt: "Das ist z.B. alt."', "Am 3. Mai (gestern) kommt's doch."]
    tokenized = [
        [
            "Er sagt : &quot; Das ist z.B. gut . &quot;",
            "Am 3. Mai ( heute ) kommt &apos; s doch .",
        ],
        [
            "Er sagt : &quot; Das ist z.B. alt . &quot;",
            "Am 3. Mai ( gestern ) kommt &apos; s doch .",
        ],
    ]
    counted = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    expected = counted.corpus_score(tokenized[0], [tokenized[1]]).score
    assert 0 < expected < 100
    assert bleu(hypotheses, references) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("rich-text format", "rich ##AT##-##AT## text format"),
        ("a - b -c d-", "a - b -c d-"),
        ("ab-cd-ef", "ab ##AT##-##AT## cd ##AT##-##AT## ef"),
        # The left hyphen has used up the b.
        ("a-b-c", "a ##AT##-##AT## b-c"),
    ],
)
def test_hyphens_between_characters_are_split(text, split) -> None:
    assert split_compounds(text) == split


def test_scores_name_what_they_are() -> None:
    scores = corpus_scores(["Das Haus."], ["Das Haus."], paper_bleu="de-AT")
    signature = scores["paper_bleu_signature"]
    for part in ("nrefs:1", "case:mixed", "tok:moses-de+compound-split", "smooth:none"):
        assert part in signature.split("|")
    assert "version:" in signature and "sacremoses:" in signature
    assert "tok:13a" in scores["bleu_signature"]
    assert "paper_bleu" not in corpus_scores(["Das Haus."], ["Das Haus."])


@pytest.mark.parametrize("language", ["zh", "zh-CN", "ja", "TH", "my_MM"])
def test_languages_without_spaces_are_refused(language) -> None:
    with pytest.raises(InputError, match=r"`paper_bleu` must be left out .* Use chrF"):
        corpus_scores(["a"], ["a"], paper_bleu=language)


def test_command_adds_it_to_finished_translations(tmp_path, capsys) -> None:
    for name, line in (("out", "x-y b c d e"), ("ref", "x-z b c d e")):
        (tmp_path / name).write_text(line + "\n")
    words = ["--hypotheses", tmp_path / "out", "--references", tmp_path / "ref", "--paper-bleu"]
    words = ["evaluate", *map(str, words)]
    assert main(words) == 2
    assert "`--target` must be given with --paper-bleu" in capsys.readouterr().err
    assert main([*words, "--target", "zh"]) == 2
    assert "without spaces" in capsys.readouterr().err
    assert main([*words, "--target", "de", "--json", str(tmp_path / "a.json")]) == 0
    figures = json.loads((tmp_path / "a.json").read_text())
    expected = 100 * (6 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** (1 / 4)
    assert figures["paper_bleu"] == pytest.approx(expected)
    table = capsys.readouterr().out
    assert f"paper's BLEU    {expected:.2f}\n" in table
    assert figures["paper_bleu_signature"] in table


def test_training_ends_with_it_where_the_setting_asks(tmp_path, capsys) -> None:
    corpus = write_tsv(tmp_path / "pairs.tsv", reversal_pairs(60, longest=4))
    output = tmp_path / "run"
    sizes = "d_model=32,encoder_layers=1,decoder_layers=1,encoder_attention_heads=2,"
    sizes += "decoder_attention_heads=2,encoder_ffn_dim=64,decoder_ffn_dim=64"
    words = ["train", "--data", str(corpus), "--source", "en", "--output-dir", str(output)]
    words += ["--config-overrides", sizes, "--vocabulary-size", "340", "--device", "cpu"]
    words += ["--max-steps", "2", "--validation-split", "12", "--paper-bleu", "--target"]
    assert main([*words, "zh"]) == 2
    assert "without spaces" in capsys.readouterr().err and not output.exists()
    assert main([*words, "de"]) == 0
    scores = json.loads((output / "scores.json").read_text())
    assert "tok:moses-de+compound-split" in scores["paper_bleu_signature"]
    rows = (output / "translations.tsv").read_text(encoding="utf-8").split("\n")[1:-1]
    found = [row.split("\t") for row in rows]
    assert len(found) == 12
    # All of the validation pairs are among the sample translations.
    expected = bleu([row[1] for row in found], [row[2] for row in found])
    assert scores["paper_bleu"] == pytest.approx(expected)
    assert "BLEU as the paper reports it" in (output / "README.md").read_text(encoding="utf-8")
