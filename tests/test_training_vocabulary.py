"""Training with separate and with word-level vocabularies: which side is used where."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from training_material import write_tsv
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from two_sided import PAIRS, TARGET_PAD, model_for, paired

from vaswani import VaswaniForConditionalGeneration, VaswaniTokenizer
from vaswani.attention_maps import read_attention, shown_tokens
from vaswani.batching import TokenBudgetBatchSampler, TranslationCollator
from vaswani.cli import main
from vaswani.errors import InputError
from vaswani.evaluation import decode_predictions, evaluate_translator
from vaswani.hub import check_self_contained
from vaswani.training import VaswaniTrainer
from vaswani.training_arguments import VaswaniTrainingArguments
from vaswani.training_data import TokenizedPairs
from vaswani.training_run import ModelArguments
from vaswani.training_vocabulary import check_tokenizer_fits
from vaswani.translation import Translator

SOURCES, TARGETS = [source for source, _ in PAIRS], [target for _, target in PAIRS]
SIZES = (
    "d_model=32,encoder_layers=1,decoder_layers=1,encoder_attention_heads=2,"
    "decoder_attention_heads=2,encoder_ffn_dim=64,decoder_ffn_dim=64"
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tsv(tmp_path_factory.mktemp("corpus") / "pairs.tsv", PAIRS)


def flags(corpus: Path, output: Path, *others: str) -> list[str]:
    return [
        "train", "--data", str(corpus), "--source", "en", "--target", "fr",
        "--output-dir", str(output), "--max-steps", "4", "--eval-steps", "2",
        "--eval-sentences", "4", "--validation-split", "4", "--device", "cpu",
        "--warmup-steps", "4", *others,
    ]  # fmt: skip


NEW = ("--config-overrides", SIZES, "--tokens-per-update", "100", "--separate-vocabularies")


@pytest.fixture(scope="module")
def finished(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("runs") / "finished"
    sizes = ("--vocabulary-size", "290", "--target-vocabulary-size", "280")
    assert main(flags(corpus, output, *NEW, *sizes)) == 0
    return output


# The run


def test_run_leaves_a_folder_with_a_vocabulary_for_each_side(finished: Path) -> None:
    check_self_contained(finished)
    config = json.loads((finished / "config.json").read_text(encoding="utf-8"))
    tokenizer = AutoTokenizer.from_pretrained(finished)
    assert (config["encoder_vocab_size"], config["vocab_size"]) == (290, 280)
    assert (len(tokenizer), tokenizer.target_vocab_size) == (290, 280)
    assert config["share_encoder_decoder_embeddings"] is False
    assert config["tie_word_embeddings"] is True
    card = (finished / "README.md").read_text(encoding="utf-8")
    assert "290 (source) and 280 (target)" in card


def test_incomplete_folder_is_refused_by_name(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    for file in finished.iterdir():
        if file.is_file() and file.name != "target_tokenizer.json":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(InputError, match=r"target_tokenizer\.json is missing"):
        check_self_contained(tmp_path)
    assert main(["translate", "--model", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "target_tokenizer.json` must lie beside" in error and error.count("\n") == 1


def test_finished_folder_goes_through_auto_classes(finished: Path) -> None:
    model = AutoModelForSeq2SeqLM.from_pretrained(finished)
    tokenizer = AutoTokenizer.from_pretrained(finished)
    ids = model.generate(**tokenizer(SOURCES[:2], padding=True, return_tensors="pt"))
    assert len(tokenizer.batch_decode(ids, skip_special_tokens=True)) == 2
    assert int(ids.max()) < 280


def test_going_on_from_a_folder_keeps_both_vocabularies(
    corpus: Path, finished: Path, tmp_path: Path
) -> None:
    output = tmp_path / "more"
    more = ("--model", str(finished), "--tokens-per-update", "100")
    assert main(flags(corpus, output, *more)) == 0
    for name in ("tokenizer.json", "target_tokenizer.json", "config.json"):
        assert (output / name).read_bytes() == (finished / name).read_bytes()


def test_min_frequency_decides_what_a_run_gives_an_entry(tmp_path: Path) -> None:
    """Two of four words are seen nine times; four control tokens come beside."""
    pairs = [("alpha", "eins")] * 10 + [("beta", "zwei")] * 3
    corpus = write_tsv(tmp_path / "pairs.tsv", pairs)
    sizes = []
    for least in ("1", "9"):
        output = tmp_path / least
        words = ("--vocabulary-model", "word", "--min-frequency", least)
        words += ("--validation-split", "0")
        assert main(flags(corpus, output, "--config-overrides", SIZES, *words)) == 0
        sizes.append(json.loads((output / "config.json").read_text())["vocab_size"])
    assert sizes == [4 + 4, 4 + 2]


def test_given_tokenizer_of_two_sides_makes_separate_tables(
    corpus: Path, finished: Path, tmp_path: Path
) -> None:
    output = tmp_path / "run"
    words = flags(corpus, output, *NEW[:-1], "--tokenizer", str(finished))
    assert main(words) == 0
    config = json.loads((output / "config.json").read_text(encoding="utf-8"))
    assert (config["encoder_vocab_size"], config["vocab_size"]) == (290, 280)
    assert config["share_encoder_decoder_embeddings"] is False


def test_settings_of_a_run_by_sentences_start_it_again(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    words = ("--sentences-per-update", "7", "--vocabulary-model", "word", "--max-pairs", "20")
    cut = ("--max-tokens", "3", "--cut-long")
    assert main(flags(corpus, first, "--config-overrides", SIZES, *words, *cut)) == 0
    said = capsys.readouterr().err
    assert "Only the first 20 of 32 pairs are used." in said
    assert "16 training pairs cut to 3 tokens a side." in said
    assert "Updates of 7 sentence pairs; 3 updates are one pass" in said
    settings = str(first / "settings.yaml")
    assert main(["train", "--config", settings, "--output-dir", str(second)]) == 0
    for name in ("tokenizer.json", "model.safetensors"):
        assert (second / name).read_bytes() == (first / name).read_bytes()


def test_updates_by_sentences_hold_as_many_of_any_length() -> None:
    args = VaswaniTrainingArguments(output_dir="x", sentences_per_update=6, max_steps=1)
    lengths = torch.arange(1, 27).numpy()
    sampler = TokenBudgetBatchSampler(**args.update_size(lengths, lengths))
    for epoch in range(3):
        sampler.set_epoch(epoch)
        updates = list(sampler)
        assert sorted(map(len, updates)) == [2, 6, 6, 6, 6]
        assert sorted(index for update in updates for index in update) == list(range(26))
        # Not sentences of like length together, as they are where tokens are counted.
        assert max(max(update) - min(update) for update in updates) > 12


# What is refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target_vocabulary_size": 300}, "must be left out without `separate_vocabularies`"),
        ({"vocabulary_model": "char"}, "must be one of bpe, unigram, word, got 'char'"),
        ({"vocabulary_model": "word", "vocabulary_size": 4}, "`vocabulary_size` must be more than"),
        (
            {"separate_vocabularies": True, "target_vocabulary_size": 260},
            "`target_vocabulary_size` must be more than 260",
        ),
        (
            {"model": "x", "separate_vocabularies": True},
            "`separate_vocabularies` must be left out with `model`, got True: the one of x",
        ),
        (
            {"tokenizer": "x", "vocabulary_model": "word"},
            "`vocabulary_model` must be left out with `tokenizer`, got word",
        ),
        (
            {
                "separate_vocabularies": True,
                "config_overrides": "share_encoder_decoder_embeddings=true",
            },
            "`share_encoder_decoder_embeddings` must be left out or false",
        ),
    ],
)
def test_impossible_vocabulary_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ModelArguments(**settings)


def test_two_sizes_of_an_update_are_refused() -> None:
    with pytest.raises(InputError, match=r"`tokens_per_update` must be left out .* 100 and 64"):
        VaswaniTrainingArguments(
            output_dir="x", max_steps=1, tokens_per_update=100, sentences_per_update=64
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder_vocab_size": 280}, r"model's source table, got \d+ and 280\."),
        (
            {"vocab_size": 10},
            r"`tokenizer` must have .* entries as the model's target table, got 11 and 10\.",
        ),
        ({"encoder_pad_token_id": 3}, r"source side, must have the padding id .* got 0 and 3\."),
        ({"pad_token_id": 0}, rf"target side, must have the padding .* got {TARGET_PAD} and 0\."),
        (
            {
                "share_encoder_decoder_embeddings": True,
                "vocab_size": 400,
                "encoder_vocab_size": None,
            },
            "`share_encoder_decoder_embeddings` must be False .* got True",
        ),
    ],
)
def test_each_side_must_fit_its_own_table(settings: dict[str, Any], message: str) -> None:
    """Trial 14, with its own number for each side."""
    tokenizer = paired()
    check_tokenizer_fits(tokenizer, model_for(tokenizer).config)
    with pytest.raises(InputError, match=message):
        check_tokenizer_fits(tokenizer, model_for(tokenizer, **settings).config)


# Padding with another id on each side


@pytest.fixture(scope="module")
def tokenizer() -> VaswaniTokenizer:
    return paired()


@pytest.fixture(scope="module")
def learned(tokenizer: VaswaniTokenizer) -> VaswaniForConditionalGeneration:
    """A model that knows the pairs by heart, from batches padded on both sides."""
    model = model_for(tokenizer, label_smoothing=0.0).train()
    pairs = TokenizedPairs.from_texts(SOURCES, TARGETS, tokenizer)
    collate = TranslationCollator(model.config.source_pad_token_id)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(150):
        rows = [pairs[(step * 7 + 5 * k) % len(pairs)] for k in range(16)]
        model(**collate(rows), return_logits=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


def test_model_with_two_vocabularies_learns_and_translates(learned, tokenizer) -> None:
    translator = Translator(learned, tokenizer)
    found = translator.translate([*SOURCES, ""])
    assert [translation.text for translation in found] == [*TARGETS, ""]
    for translation, score in zip(found, translator.score(SOURCES, TARGETS), strict=False):
        penalty = ((5 + translation.tokens) / 6) ** 0.6
        assert translation.score * penalty == pytest.approx(score.log_probability, abs=1e-4)
    scores, _ = evaluate_translator(translator, SOURCES, TARGETS, num_beams=1)
    assert scores["bleu"] == pytest.approx(100)


def test_labels_and_predictions_are_read_as_the_target(tokenizer) -> None:
    ids = tokenizer(text_target=["marin voit enfant.", "marin"])["input_ids"]
    padded = [row + [-100] * (6 - len(row)) for row in ids]
    assert decode_predictions(tokenizer, padded) == ["marin voit enfant.", "marin"]


def test_picture_is_labelled_with_the_tokens_of_each_side(learned, tokenizer) -> None:
    found = read_attention(learned, tokenizer, "cook sees child.", TARGETS[0])
    assert [*found.queries] == [*tokenizer.target_tokenizer.tokenize(TARGETS[0]), "</s>"]
    assert shown_tokens(found.keys) == ["cook", "sees", "child", ".", "</s>"]


def trainer_for(tokenizer: VaswaniTokenizer, output: Path) -> VaswaniTrainer:
    """A trainer of one update on rows of ids alone."""
    arguments = VaswaniTrainingArguments(
        output_dir=str(output), max_steps=1, tokens_per_update=200, device_name="cpu"
    )
    rows = [dict(tokenizer(source, text_target=target)) for source, target in PAIRS]
    return VaswaniTrainer(
        model_for(tokenizer),
        arguments,
        train_dataset=rows,
        eval_dataset=rows[:4],
        processing_class=tokenizer,
    )


def test_training_keeps_the_padding_ids_of_both_sides(tokenizer, tmp_path: Path) -> None:
    """transformers would set those of the tokenizer, which are the source's, for the target."""
    trainer = trainer_for(tokenizer, tmp_path)
    trainer.train()
    config, search = trainer.model.config, trainer.model.generation_config
    assert (config.source_pad_token_id, config.pad_token_id) == (0, TARGET_PAD)
    assert search.pad_token_id == TARGET_PAD and search.eos_token_id == 2
    outputs = trainer._pad_tensors_to_max_len(torch.tensor([[4, 2]]), 4)
    assert outputs.tolist() == [[4, 2, TARGET_PAD, TARGET_PAD]]


def test_validation_rows_without_texts_are_decoded_by_side(tokenizer, tmp_path: Path) -> None:
    trainer = trainer_for(tokenizer, tmp_path)
    texts = trainer._texts(trainer.eval_dataset, [0, 3])
    assert texts == ([SOURCES[0], SOURCES[3]], [TARGETS[0], TARGETS[3]])


# The recipe of the write-ups


def demo_pairs(path: Path, count: int) -> list[tuple[str, str]]:
    from vaswani.demo_corpus import generate

    pairs = [(pair.source, pair.target) for pair in generate(count, seed=1, split="train")]
    write_tsv(path, [(source, f"{target}\tan attribution") for source, target in pairs])
    return pairs


def test_word_level_recipe_is_checked_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    demo_pairs(tmp_path / "fra.txt", 700)
    words = ["train", "--recipe", "word-level-fra", "--data"]
    words += [str(tmp_path / "fra.txt"), "--output-dir", str(tmp_path / "run"), "--dry-run"]
    assert main(words) == 0
    printed = capsys.readouterr()
    assert "Only the first 600 of 700 pairs are used." in printed.err
    plan = " ".join(printed.out.split())
    for words_of_plan in (
        "d_model 32; sinusoidal positions",
        "encoder and decoder: 2 layers, 4 heads of d_k 8 and d_v 8, d_ff 64",
        "64 sentence pairs each",
        "10 batches are one pass",
        "after 200 passes",
    ):
        assert words_of_plan in plan


@pytest.mark.slow
def test_word_level_recipe_learns_its_pairs_by_heart(tmp_path: Path) -> None:
    """600 pairs of short sentences come back as their words, up to what is cut or unknown."""
    pairs = demo_pairs(tmp_path / "fra.txt", 600)
    words = ["train", "--recipe", "word-level-fra", "--data"]
    words += [str(tmp_path / "fra.txt"), "--output-dir", str(tmp_path / "run"), "--device", "cpu"]
    assert main(words) == 0
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    losses = [entry["loss"] for entry in log if "loss" in entry]
    assert losses[-1] < losses[0] / 10
    translator = Translator.from_pretrained(tmp_path / "run", device="cpu")
    side = translator.tokenizer.target_tokenizer
    # Cut as in training.
    settings = {"num_beams": 1, "long_lines": "truncate"}
    found = [t.text for t in translator.translate([s for s, _ in pairs], **settings)]
    expected = [
        side.decode(side(t, truncation=True, max_length=10)["input_ids"], skip_special_tokens=True)
        for _, t in pairs
    ]
    assert sum(a == b for a, b in zip(found, expected, strict=True)) > 0.9 * len(pairs)
