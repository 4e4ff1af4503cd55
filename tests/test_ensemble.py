"""Claims about several models that translate as one."""

import copy
from pathlib import Path

import pytest
import torch
from tiny_model import decisive_model, endless_model, padded, sentences, words

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani.cli import main
from vaswani.ensemble import VaswaniEnsemble
from vaswani.errors import InputError
from vaswani.translation import Translator
from vaswani.vocabulary import train_tokenizer

SOURCES = sentences(9, [5, 2, 7, 3])
OTHER = {"d_model": 12, "decoder_layers": 2, "decoder_attention_heads": 3, "d_k": 5}
TEXTS = ["The baker sees the child.", "Kind", "The sailor"]


@pytest.fixture
def other_model(tiny_tokenizer) -> VaswaniForConditionalGeneration:
    """Another size and other weights than the copying model, the same vocabulary."""
    torch.manual_seed(1)
    config = VaswaniConfig(
        vocab_size=len(tiny_tokenizer), d_model=24, encoder_layers=1, decoder_layers=3,
        encoder_attention_heads=2, decoder_attention_heads=3, encoder_ffn_dim=32,
        decoder_ffn_dim=32,
    )  # fmt: skip
    return VaswaniForConditionalGeneration(config).eval()


def test_next_tokens_have_the_mean_of_the_probabilities() -> None:
    """Members of different width and depth, in a padded batch."""
    members = [decisive_model(seed=1), decisive_model(seed=2, **OTHER)]
    input_ids, mask = padded(SOURCES)
    batch = {"input_ids": input_ids, "attention_mask": mask}
    batch["decoder_input_ids"] = torch.tensor([[1, 5, 6]] * len(SOURCES))
    with torch.no_grad():
        mean = sum(member(**batch).logits.softmax(-1) for member in members) / 2
        got = VaswaniEnsemble(members)(**batch).logits.exp()
    assert torch.allclose(got, mean, atol=1e-12)


def test_members_see_the_masks_that_are_given() -> None:
    """Masks that ids of padding do not tell: hidden words of the source, a padded beginning."""
    members = [decisive_model(seed=1), decisive_model(seed=2, **OTHER)]
    input_ids, mask = padded(SOURCES)
    mask[:, 0] = 0
    batch = {"input_ids": input_ids, "attention_mask": mask}
    batch["decoder_input_ids"] = torch.tensor([[0, 1, 6]] * len(SOURCES))
    batch["decoder_attention_mask"] = torch.tensor([[0, 1, 1]] * len(SOURCES))
    with torch.no_grad():
        mean = sum(member(**batch).logits.softmax(-1) for member in members) / 2
        got = VaswaniEnsemble(members)(**batch).logits.exp()
        last = VaswaniEnsemble(members)(**batch, logits_to_keep=1).logits.exp()
    assert torch.allclose(got[:, 1:], mean[:, 1:], atol=1e-12)
    assert last.shape == (len(SOURCES), 1, 9)
    assert torch.allclose(last, mean[:, -1:], atol=1e-12)


def test_mean_of_half_precision_members_is_taken_in_float32() -> None:
    """Their scores are rounded to bfloat16, so they are the same on both sides."""
    members = [decisive_model(seed=seed).bfloat16() for seed in (1, 2)]
    input_ids, mask = padded(SOURCES)
    batch = {"input_ids": input_ids, "attention_mask": mask}
    batch["decoder_input_ids"] = torch.tensor([[1, 5, 6]] * len(SOURCES))
    with torch.no_grad():
        mean = sum(member(**batch).logits.double().softmax(-1) for member in members) / 2
        got = VaswaniEnsemble(members)(**batch).logits
    assert got.dtype == torch.float32
    assert torch.allclose(got.double(), mean.log(), atol=1e-6)


def learned(rows: int, seed: int = 0) -> VaswaniForConditionalGeneration:
    return endless_model(seed=seed, position_encoding="learned", max_position_embeddings=rows)


@pytest.mark.parametrize("first", [0, 1, 2])
def test_the_shortest_table_of_positions_ends_what_is_read(first: int) -> None:
    """Whichever member comes first; sinusoids, which go on, set no end."""
    models = [learned(16), learned(12), endless_model(max_position_embeddings=6)]
    ensemble = VaswaniEnsemble(models[first:] + models[:first]).eval()
    fits, too_long = sentences(9, [12, 13])
    # The start token and 11 more are read, and the 12th token is given.
    assert ensemble.generate(torch.tensor([fits])).shape == (1, 1 + 12)
    with pytest.raises(ValueError, match=r"`max_position_embeddings` = 12 tokens.* got 13"):
        ensemble.generate(torch.tensor([too_long]))


def test_settings_of_the_search_are_those_of_the_first() -> None:
    models = [decisive_model(seed=1), decisive_model(seed=2)]
    models[0].generation_config.update(num_beams=2, max_length_b=3, length_penalty=0.1)
    search = VaswaniEnsemble(models).generation_config
    assert (search.num_beams, search.max_length_b, search.length_penalty) == (2, 3, 0.1)
    search.num_beams = 7
    assert models[0].generation_config.num_beams == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder_vocab_size": 11}, "`source_vocab_size` .*got 9 and 11"),
        ({"encoder_pad_token_id": 7}, "`source_pad_token_id` .*got 0 and 7"),
        ({"pad_token_id": 7, "encoder_pad_token_id": 0}, "`pad_token_id` .*got 0 and 7"),
        ({"eos_token_id": 3}, "`eos_token_id` .*got 2 and 3"),
        ({"decoder_start_token_id": 2}, "`decoder_start_token_id` .*got 1 and 2"),
    ],
)
def test_members_for_whom_an_id_means_something_else_are_refused(
    settings: dict, message: str
) -> None:
    other = decisive_model(share_encoder_decoder_embeddings=False, **settings)
    with pytest.raises(InputError, match=message):
        VaswaniEnsemble([decisive_model(), other])


@pytest.mark.parametrize("options", [{"num_beams": 4}, {"num_beams": 1}], ids=str)
@pytest.mark.parametrize("use_cache", [True, False])
def test_a_model_twice_is_the_model(options: dict, use_cache: bool) -> None:
    for seed in range(3):
        model = decisive_model(seed=seed)
        input_ids, mask = padded(SOURCES)
        options = {**options, "use_cache": use_cache, "max_length_b": 5}
        expected = model.generate(input_ids, attention_mask=mask, **options)
        ensemble = VaswaniEnsemble([model, model]).eval()
        got = ensemble.generate(input_ids, attention_mask=mask, **options)
        assert got.tolist() == expected.tolist()


@pytest.mark.parametrize("output_scores", [True, False], ids=["whole", "shrinking"])
def test_search_with_a_cache_is_that_without(output_scores: bool) -> None:
    ensemble = VaswaniEnsemble([decisive_model(seed=1), decisive_model(seed=2, **OTHER)]).eval()
    input_ids, mask = padded(SOURCES)
    options = {"max_length_b": 4, "return_dict_in_generate": True, "output_scores": output_scores}
    plain = ensemble.generate(input_ids, attention_mask=mask, use_cache=False, **options)
    cached = ensemble.generate(input_ids, attention_mask=mask, use_cache=True, **options)
    assert list(map(words, cached.sequences)) == list(map(words, plain.sequences))
    assert cached.sequences_scores.tolist() == pytest.approx(plain.sequences_scores.tolist())


@pytest.mark.parametrize("num_beams", [1, 3])
def test_translations_score_what_the_search_says(
    copying_model, other_model, tiny_tokenizer, num_beams
) -> None:
    """Score and search see the same probabilities, the penalty undone."""
    translator = Translator([copying_model.double(), other_model.double()], tiny_tokenizer)
    single = Translator(copying_model, tiny_tokenizer)
    for text, found in zip(TEXTS, translator.translate(TEXTS, num_beams=num_beams), strict=True):
        (score,) = translator.score([text], [found.text])
        (alone,) = single.score([text], [found.text])
        if score.tokens == found.tokens and not found.truncated:
            undone = found.score * ((5 + found.tokens) / 6) ** 0.6
            assert undone == pytest.approx(score.log_probability, rel=1e-5)
        assert score.log_probability != pytest.approx(alone.log_probability, rel=1e-3)


def test_scores_of_a_model_twice_are_its_own(copying_model, tiny_tokenizer) -> None:
    single = Translator(copying_model, tiny_tokenizer).score(TEXTS, TEXTS[::-1])
    double = Translator([copying_model] * 2, tiny_tokenizer).score(TEXTS, TEXTS[::-1])
    for one, two in zip(single, double, strict=True):
        assert two.token_log_probabilities == pytest.approx(one.token_log_probabilities)


def test_different_vocabularies_are_refused(copying_model, tiny_tokenizer) -> None:
    config = copy.deepcopy(copying_model.config)
    config.vocab_size += 3
    larger = VaswaniForConditionalGeneration(config)
    entries = len(tiny_tokenizer)
    with pytest.raises(InputError, match=f"`vocab_size` must be the same .* {entries} and"):
        Translator([copying_model, larger], tiny_tokenizer)
    with pytest.raises(InputError, match="`model` must hold at least one model, got none"):
        Translator([], tiny_tokenizer)


def _saved(path: Path, model, tokenizer) -> str:
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


def test_command_translates_with_several_folders(
    tmp_path, copying_model, other_model, tiny_tokenizer, capsys
) -> None:
    one = _saved(tmp_path / "one", copying_model, tiny_tokenizer)
    two = _saved(tmp_path / "two", other_model, tiny_tokenizer)
    given, written = tmp_path / "given.txt", tmp_path / "written.txt"
    given.write_text("\n".join(TEXTS))
    words_ = ["translate", "--model", one, two, "--input", str(given), "--output", str(written)]
    assert main([*words_, "--device", "cpu"]) == 0
    together = Translator([copying_model, other_model], tiny_tokenizer).translate(TEXTS)
    assert written.read_text("utf-8").splitlines() == [found.text for found in together]


def test_command_evaluates_several_folders(
    tmp_path, copying_model, other_model, tiny_tokenizer, capsys
) -> None:
    pytest.importorskip("sacrebleu")
    one = _saved(tmp_path / "one", copying_model, tiny_tokenizer)
    two = _saved(tmp_path / "two", other_model, tiny_tokenizer)
    data = tmp_path / "dev.tsv"
    data.write_text("".join(f"{text}\t{text}\n" for text in TEXTS))
    words_ = ["evaluate", "--model", one, two, "--data", str(data), "--source", "en"]
    assert main([*words_, "--target", "de", "--device", "cpu"]) == 0
    scores = Translator([copying_model, other_model], tiny_tokenizer).score(TEXTS, TEXTS)
    loss = -sum(s.log_probability for s in scores) / sum(s.tokens for s in scores)
    assert f"{loss:.4f} nats a token" in capsys.readouterr().out


def test_folders_with_other_ids_are_refused_before_they_are_loaded(
    tmp_path, copying_model, tiny_tokenizer, capsys
) -> None:
    """As many entries, but other words."""
    texts = [f"A {a} {b} comes to {c}." for a in "xyzuvw" for b in "pqrst" for c in "klmno"]
    other = train_tokenizer(texts * 3, vocab_size=len(tiny_tokenizer), min_frequency=1)
    one = _saved(tmp_path / "one", copying_model, tiny_tokenizer)
    two = _saved(tmp_path / "two", copying_model, other)
    (tmp_path / "two" / "model.safetensors").unlink()
    given = tmp_path / "given.txt"
    given.write_text("The child")
    assert main(["translate", "--model", one, two, "--input", str(given)]) == 2
    with pytest.raises(InputError, match=r"same vocabulary, got .*one and .*two, whose tokenizer"):
        Translator.from_pretrained([one, two])
    with pytest.raises(InputError, match="`model` must name at least one folder"):
        Translator.from_pretrained([])
