"""BPE-dropout: the texts stay, their pieces change, and only training knows of it."""

from pathlib import Path

import pytest
from torch.utils.data import DataLoader
from training_material import write_tsv
from two_sided import PAIRS, paired

from vaswani.cli import main
from vaswani.errors import InputError
from vaswani.run_settings import ModelArguments
from vaswani.tokenization_vaswani import VaswaniTokenizer
from vaswani.training_data import TokenizedPairs
from vaswani.training_segmentation import ResegmentedPairs, check_merges
from vaswani.vocabulary import pair_tokenizers, train_tokenizer

SOURCES, TARGETS = [source for source, _ in PAIRS], [target for _, target in PAIRS]
ODD = ["", " ", "  two  spaces\t", "</s> <0x41>", "e\u0301 東京 \x00", "\u0301mark"]


@pytest.fixture(scope="module")
def tokenizer() -> VaswaniTokenizer:
    """Byte-pair encoding of each side."""
    return pair_tokenizers(
        train_tokenizer(SOURCES, vocab_size=340), train_tokenizer(TARGETS, vocab_size=330)
    )


@pytest.fixture(scope="module")
def pairs(tokenizer: VaswaniTokenizer) -> TokenizedPairs:
    return TokenizedPairs.from_texts([*SOURCES, *ODD], [*TARGETS, *ODD], tokenizer)


def dropped(pairs: TokenizedPairs, tokenizer: VaswaniTokenizer, dropout: float, most: int = 999):
    return ResegmentedPairs(pairs, tokenizer, dropout=dropout, most_tokens=most)


def test_every_row_decodes_to_the_text_it_had(tokenizer, pairs) -> None:
    rows = dropped(pairs, tokenizer, 0.5)
    assert len(rows) == len(pairs)
    for index in range(len(pairs)):
        before, after = pairs[index], rows[index]
        for name, side in (("input_ids", "source"), ("labels", "target")):
            assert after[name][-1] == 2 and after[name].count(2) == 1
            assert tokenizer.decode(after[name], side=side) == tokenizer.decode(
                before[name], side=side
            )


def test_segmentation_changes_from_one_reading_to_the_next(tokenizer, pairs) -> None:
    """With half of the merges left out, 20 equal readings of a sentence are no accident."""
    rows = dropped(pairs, tokenizer, 0.5)
    assert len({tuple(rows[0]["input_ids"]) for _ in range(20)}) > 1
    assert len({tuple(rows[0]["labels"]) for _ in range(20)}) > 1


def test_nearly_all_merges_left_out_leaves_characters(tokenizer, pairs) -> None:
    rows = dropped(pairs, tokenizer, 1 - 1e-9)
    source = rows[0]["input_ids"]
    # One space is put before the first word.
    assert tokenizer.convert_ids_to_tokens(source[:-1], side="source") == [*(" " + SOURCES[0])]


def test_lengths_are_those_without_dropout(tokenizer, pairs) -> None:
    """The updates of a run are planned from them, in every process alike."""
    rows = dropped(pairs, tokenizer, 0.5)
    assert rows.source_lengths.tolist() == pairs.source_lengths.tolist()
    assert rows.target_lengths.tolist() == pairs.target_lengths.tolist()
    assert TokenizedPairs.from_rows(rows) is rows


def test_side_that_gets_too_long_stays_as_it_was(tokenizer, pairs) -> None:
    longest = int(max(pairs.source_lengths[:32].max(), pairs.target_lengths[:32].max()))
    rows = dropped(pairs, tokenizer, 1 - 1e-9, most=longest)
    for index in range(32):
        assert rows[index] == pairs[index]


def test_side_cut_within_a_character_stays_as_it_was(tokenizer) -> None:
    cut = TokenizedPairs.from_texts(["東"], ["東"], tokenizer, max_tokens=3, cut=True)
    assert dropped(cut, tokenizer, 0.5)[0] == cut[0]


def test_tokenizer_itself_knows_nothing_of_dropout(tokenizer, pairs) -> None:
    before = tokenizer(SOURCES, text_target=TARGETS)
    dropped(pairs, tokenizer, 0.9)[0]
    assert dict(tokenizer(SOURCES, text_target=TARGETS)) == dict(before)
    for side in (tokenizer, tokenizer.target_tokenizer):
        assert side.backend_tokenizer.model.dropout is None


def test_loader_of_torch_reads_whole_batches(tokenizer, pairs) -> None:
    rows = dropped(pairs, tokenizer, 0.5)
    loader = DataLoader(rows, batch_sampler=[[3, 1], []], collate_fn=list)
    found = [
        tokenizer.decode(row["labels"], skip_special_tokens=True) for row in next(iter(loader))
    ]
    assert found == [TARGETS[3], TARGETS[1]]


# The run

SIZES = (
    "d_model=32,encoder_layers=1,decoder_layers=1,encoder_attention_heads=2,"
    "decoder_attention_heads=2,encoder_ffn_dim=64,decoder_ffn_dim=64"
)


def test_run_with_dropout_saves_a_tokenizer_without(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    corpus = write_tsv(tmp_path / "pairs.tsv", PAIRS)
    words = [
        "train", "--data", str(corpus), "--source", "en", "--target", "fr", "--device", "cpu",
        "--max-steps", "3", "--validation-split", "4", "--tokens-per-update", "100",
        "--config-overrides", SIZES, "--warmup-steps", "4",
    ]  # fmt: skip
    plain, dropping = tmp_path / "plain", tmp_path / "dropping"
    assert main([*words, "--output-dir", str(plain)]) == 0
    assert main([*words, "--output-dir", str(dropping), "--bpe-dropout", "0.3"]) == 0
    assert (dropping / "tokenizer.json").read_bytes() == (plain / "tokenizer.json").read_bytes()
    weights = [(folder / "model.safetensors").read_bytes() for folder in (plain, dropping)]
    assert weights[0] != weights[1]
    assert "bpe_dropout: 0.3" in (dropping / "settings.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("value", [-0.1, 1.0, float("nan")])
def test_dropout_out_of_range_is_refused(value: float) -> None:
    with pytest.raises(InputError, match="`bpe_dropout` must be at least 0 and below 1, got"):
        ModelArguments(bpe_dropout=value)


@pytest.mark.parametrize("model", ["word", "unigram"])
def test_dropout_without_merges_is_refused(model: str) -> None:
    with pytest.raises(InputError, match=rf"`bpe_dropout` must be left out .* of {model}\."):
        ModelArguments(bpe_dropout=0.1, vocabulary_model=model)


def test_dropout_needs_merges_on_both_sides(tokenizer) -> None:
    check_merges(tokenizer)
    with pytest.raises(InputError, match=r"`bpe_dropout` must be left out .* of WordLevel\."):
        check_merges(paired())


def test_the_most_tokens_of_a_side_may_be_reached(tokenizer, pairs) -> None:
    """All merges left out, a side is its characters, the space before them and the end token."""
    most = len(SOURCES[0]) + 2
    assert len(dropped(pairs, tokenizer, 1 - 1e-9, most=most)[0]["input_ids"]) == most
    shorter = dropped(pairs, tokenizer, 1 - 1e-9, most=most - 1)[0]["input_ids"]
    assert shorter == pairs[0]["input_ids"]
