"""Claims about `vaswani.translation`, `decoding` and `model_folder`."""

import copy
import json
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani import VaswaniForConditionalGeneration, piece_search
from vaswani.decoding import Hypothesis, batches_by_length, search_batch
from vaswani.errors import InputError
from vaswani.placeholders import find_placeholders
from vaswani.translation import Translator

TEXTS = [
    "The baker sees the child.",
    "",
    "The sailor greets the teacher. The child finds the baker and the sailor.",
    "   ",
    "Kind",
    "Der Lehrer findet den Matrosen.",
    "The child.",
]


@pytest.fixture
def translator(copying_model, tiny_tokenizer) -> Translator:
    """A trained model in float64, where near-ties cannot flip a token."""
    return Translator(copying_model.double(), tiny_tokenizer)


@pytest.fixture
def endless(tiny_config, tiny_tokenizer) -> Translator:
    """A model that never ends a sentence by itself."""
    tiny_config.output_bias = True
    model = VaswaniForConditionalGeneration(tiny_config)
    with torch.no_grad():
        model.lm_head.bias[tiny_config.eos_token_id] -= 1e4
    return Translator(model, tiny_tokenizer)


@pytest.mark.parametrize("batch_tokens", [30, 4096])
def test_results_keep_the_order_of_the_input(translator, batch_tokens) -> None:
    """Each text alone is the reference; batches by length force a different order of work."""
    together = translator.translate(TEXTS, batch_tokens=batch_tokens)
    for text, found in zip(TEXTS, together, strict=True):
        assert found.text == translator.translate([text])[0].text
        assert found.score == pytest.approx(translator.translate([text])[0].score, abs=1e-9)
    assert len({found.text for found in together}) > 4


def test_blank_texts_never_reach_the_model(translator, monkeypatch) -> None:
    def refuse(*args, **kwargs):
        raise AssertionError("the model was called")

    monkeypatch.setattr(translator.model, "generate", refuse)
    for blank in translator.translate(["", "  ", "\t", "\u00a0", "\0"]):
        assert (blank.text, blank.score, blank.truncated, blank.tokens) == ("", 0.0, False, 0)


@pytest.mark.parametrize("num_beams", [1, 4])
def test_score_undoes_the_length_penalty_of_the_search(translator, num_beams) -> None:
    """Wu et al. (2016), Equation 14: score = log P / ((5 + n) / 6)^0.6, for greedy search too."""
    model = translator.model
    config = copy.deepcopy(model.generation_config)
    config.num_beams = num_beams
    sources = translator.tokenizer(["The baker sees the child.", "Kind"])["input_ids"]
    with torch.inference_mode():
        for source, (found,) in zip(sources, search_batch(model, sources, config), strict=True):
            loss = model(input_ids=torch.tensor([source]), labels=torch.tensor([found.ids])).loss
            tokens = len(found.ids)
            assert not found.truncated and found.ids[-1] == model.config.eos_token_id
            assert found.score * ((5 + tokens) / 6) ** 0.6 == pytest.approx(
                -loss.item() * tokens, rel=1e-6
            )


def test_score_is_the_loss_of_the_model(translator) -> None:
    """In evaluation mode the model's own loss is the mean negative log-likelihood."""
    sources, targets = ["The baker.", "The child finds the baker."], ["Kind", "Der Lehrer sieht."]
    scores = translator.score(sources, targets)
    for source, target, score in zip(sources, targets, scores, strict=True):
        batch = translator.tokenizer([source], text_target=[target], return_tensors="pt")
        loss = translator.model(**batch).loss.item()
        assert score.log_probability == pytest.approx(-loss * score.tokens, rel=1e-9)


def test_alternatives_are_sorted_and_begin_with_the_best(translator) -> None:
    (best,) = translator.translate(["The child."], num_return_sequences=4)
    scores = [other.score for other in best.alternatives]
    assert len(scores) == 4 and scores == sorted(scores, reverse=True)
    assert best.alternatives[0].text == best.text and best.score == scores[0]
    assert len({other.text for other in best.alternatives}) == 4


def test_texts_that_differ_in_tokens_alone_are_one_alternative(translator, monkeypatch) -> None:
    """The better of them stands for the text."""
    ids = [translator.tokenizer(text)["input_ids"] for text in ("Kind", "The child")]
    found = [[Hypothesis(ids[k], score, False) for k, score in ((0, -1.0), (1, -2.0), (0, -3.0))]]
    monkeypatch.setattr(piece_search, "search_batch", lambda *args: found)
    (best,) = translator.translate(["x"], num_return_sequences=3)
    listed = [(other.text, other.score) for other in best.alternatives]
    assert listed == [("Kind", -1.0), ("The child", -2.0)]


PREFIXES = ["The sailor", "ignored", "", "", "Der Ma", "Ki", "The baker sees the"]


@pytest.mark.parametrize("num_beams", [1, 4])
def test_translations_begin_with_their_prefixes(translator, num_beams) -> None:
    """One for each text, of any length, within one batch; an empty one changes nothing."""
    found = translator.translate(TEXTS, prefixes=PREFIXES, num_beams=num_beams)
    free = translator.translate(TEXTS, num_beams=num_beams)
    changed = 0
    for text, prefix, begun, plain in zip(TEXTS, PREFIXES, found, free, strict=True):
        if text.strip():
            assert begun.text.startswith(prefix)
            changed += begun.text != plain.text
            alone = translator.translate([text], prefixes=[prefix], num_beams=num_beams)[0]
            assert (alone.text, alone.tokens) == (begun.text, begun.tokens)
        else:
            assert begun.text == ""
        if not prefix:
            assert begun.text == plain.text
            assert begun.score == pytest.approx(plain.score, rel=1e-5, abs=1e-9)
    assert changed >= 3


def test_prefix_counts_in_the_score(translator) -> None:
    """log P of all tokens, those that were given too."""
    (found,) = translator.translate(["The baker sees the child."], prefixes=["The sailor"])
    (score,) = translator.score(["The baker sees the child."], [found.text])
    assert score.tokens == found.tokens
    undone = found.score * ((5 + found.tokens) / 6) ** 0.6
    assert undone == pytest.approx(score.log_probability, rel=1e-5)


def test_prefix_longer_than_the_output_may_be_is_refused(translator) -> None:
    with pytest.raises(InputError, match=r"the prefix of line 8 must be shorter .* and 3 tokens"):
        translator.translate(
            ["Kind", "Kind"], prefixes=["", "The baker sees"], max_new_tokens=3, first_line=7
        )


@pytest.mark.parametrize(
    "text",
    ["salad " * 60, "????????", "salad", "12345 67890", "a " * 3000],
    ids=["repeated", "marks", "word", "digits", "6000-characters"],
)
def test_odd_text_ends_by_the_source_length_and_says_so(endless, text) -> None:
    (found,) = endless.translate([text], max_source_tokens=100, long_lines="truncate", num_beams=2)
    source_tokens = min(len(endless.tokenizer(text)["input_ids"]), 100)
    assert found.truncated
    assert found.tokens == source_tokens + 50


def test_smaller_limit_of_the_user_wins(endless) -> None:
    found = endless.translate(["salad", "The baker sees the child."], max_new_tokens=7)
    assert [(f.tokens, f.truncated) for f in found] == [(7, True)] * 2


LONG = ["The child.", "The baker. " * 40, "Kind", "The baker, " * 40]


def test_long_source_is_cut_when_asked_and_says_so(translator) -> None:
    found = translator.translate(LONG, max_source_tokens=20, long_lines="truncate")
    assert [f.truncated for f in found] == [False, True, False, True]
    assert [f.long_source for f in found] == ["", "cut", "", "cut"]
    assert found[2].text == translator.translate(["Kind"])[0].text


def test_long_source_loses_nothing_by_default(translator) -> None:
    """Its sentences, or parts of one, are what is translated; each alone is the reference."""
    found = translator.translate(LONG, max_source_tokens=20)
    assert [f.long_source for f in found] == ["", "sentences", "", "clauses"]
    (one,) = translator.translate(["The baker."])
    assert found[1].text == " ".join([one.text] * 40)
    assert not found[1].truncated and found[1].tokens == 40 * one.tokens
    assert found[0].text == translator.translate(["The child."])[0].text


def test_long_source_is_refused_when_asked(translator) -> None:
    tokens = len(translator.tokenizer(LONG[1].strip())["input_ids"])
    with pytest.raises(InputError, match=f"line 12 must have at most 20 tokens, got {tokens}"):
        translator.translate(LONG, max_source_tokens=20, long_lines="error", first_line=11)


def test_long_source_goes_with_prefixes_and_alternatives(translator) -> None:
    """The prefix begins its first part; there is one alternative, the whole."""
    prefixes = ["", "The sailor", "", ""]
    found = translator.translate(
        LONG, max_source_tokens=20, prefixes=prefixes, num_return_sequences=2
    )
    assert found[1].text.startswith("The sailor") and found[1].long_source == "sentences"
    assert [len(f.alternatives) for f in found] == [2, 1, 2, 1]
    assert found[1].alternatives[0].text == found[1].text


@pytest.mark.parametrize("text", ["</s>", "a <pad> b", "<unk>", "<s>", "<0x41>"])
def test_text_that_looks_like_a_control_token_is_text(translator, text) -> None:
    ids = translator.tokenizer([text])["input_ids"][0]
    control = {translator.tokenizer.pad_token_id, translator.tokenizer.eos_token_id}
    assert not control & set(ids[:-1])
    (found,) = translator.translate([text], protect=True)
    assert text.startswith("<0x") or find_placeholders(found.text) == find_placeholders(text)
    assert found.placeholders != "untranslated"


def test_source_beyond_the_position_limit_is_translated_when_asked(translator) -> None:
    """Trial 5: sinusoids go on; the later text is translated all the same."""
    translator.model.config.max_position_embeddings = 16
    long = "The baker sees the child. " * 10
    found = translator.translate([long, "Kind"], max_source_tokens=5000, num_beams=1)
    assert not found[0].truncated
    assert found[1].text == translator.translate(["Kind"], num_beams=1)[0].text


def test_split_text_is_the_join_of_its_sentences(translator) -> None:
    paragraph = "The baker sees the child.  Kind!\u00a0The sailor?"
    whole = translator.translate([paragraph], split_sentences=True)[0]
    parts = translator.translate(["The baker sees the child.", "Kind!", "The sailor?"])
    assert whole.text == f"{parts[0].text}  {parts[1].text}\u00a0{parts[2].text}"
    assert whole.score == pytest.approx(sum(part.score for part in parts), abs=1e-9)
    assert whole.tokens == sum(part.tokens for part in parts)


def test_progress_reports_every_text_once(translator) -> None:
    reports: list[int] = []
    translator.translate(
        TEXTS, batch_tokens=20, split_sentences=True, max_new_tokens=3, progress=reports.append
    )
    assert sum(reports) == len(TEXTS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_beams": 0}, "`num_beams` must be at least 1, got 0"),
        ({"num_return_sequences": 5}, "`num_return_sequences` must be at most `num_beams`, got 5"),
        ({"max_new_tokens": 0}, "`max_new_tokens` must be at least 1, got 0"),
        ({"max_source_tokens": 1}, "`max_source_tokens` must be at least 2, got 1"),
        ({"batch_tokens": 0}, "`batch_tokens` must be at least 1, got 0"),
        ({"num_return_sequences": 2, "split_sentences": True}, "must be 1 with `split_sentences`"),
        ({"num_return_sequences": 0}, "`num_return_sequences` must be at least 1, got 0"),
        ({"length_penalty": -0.6}, "`length_penalty` must be a number of at least 0, got -0.6"),
        ({"prefixes": []}, "`prefixes` must hold one prefix for each text, got 0 and 1"),
        ({"prefixes": [""], "split_sentences": True}, "left out with `split_sentences`"),
        ({"prefixes": [""], "protect": True}, "left out with `protect`"),
        ({"num_return_sequences": 2, "protect": True}, "must be 1 with `protect`"),
        ({"long_lines": "cut"}, "`long_lines` must be one of split, truncate, error, got 'cut'"),
        ({"long_lines": "truncate", "protect": True}, "must be split or error with `protect`"),
    ],
)
def test_arguments_out_of_range_are_refused(translator, arguments, message) -> None:
    with pytest.raises(InputError, match=message):
        translator.translate(["Kind"], **arguments)


def test_score_refuses_unequal_numbers(translator) -> None:
    with pytest.raises(InputError, match="same number of texts, got 2 and 1"):
        translator.score(["a", "b"], ["c"])


@settings(deadline=None)
@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 200))
def test_batches_hold_every_index_once_within_the_budget(lengths, batch_tokens) -> None:
    batches = list(batches_by_length(lengths, batch_tokens=batch_tokens, vocab_size=10))
    assert sorted(k for batch in batches for k in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or max(lengths[k] for k in batch) * len(batch) <= batch_tokens


def test_folder_gives_the_model_that_was_saved(tiny_folder, tiny_model, tiny_tokenizer) -> None:
    in_memory = Translator(tiny_model, tiny_tokenizer).score(["Kind"], ["The child."])
    loaded = Translator.from_pretrained(tiny_folder, device="cpu").score(["Kind"], ["The child."])
    assert loaded == in_memory


def test_half_precision_is_loaded_when_asked(tiny_folder) -> None:
    translator = Translator.from_pretrained(tiny_folder, precision="bfloat16", device="cpu")
    assert translator.model.dtype == torch.bfloat16
    assert len(translator.translate(["Kind", ""], max_new_tokens=3)) == 2


def _edit_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "config.json").unlink(), "must be a folder with config.json"),
        (lambda f: (f / "model.safetensors").unlink(), "must be a folder with model.safetensors"),
        (lambda f: (f / "tokenizer.json").unlink(), "must be a folder with tokenizer.json"),
        (lambda f: (f / "config.json").write_text("{"), "must be JSON"),
        (lambda f: _edit_config(f, model_type="marian"), "whose `model_type` is 'marian'"),
        (lambda f: (f / "model.safetensors").write_bytes(b"cut off"), "with intact weights"),
        (lambda f: (f / "tokenizer.json").write_text("{}"), "with an intact tokenizer"),
        (lambda f: _edit_config(f, encoder_layers=3), "lacks model.encoder.layers.2.*and 11 more"),
        (lambda f: _edit_config(f, encoder_ffn_dim=65), "whose weights fit its config"),
    ],
)
def test_folder_that_is_not_whole_is_refused(tiny_folder, damage, message) -> None:
    damage(tiny_folder)
    with pytest.raises(InputError, match=message) as raised:
        Translator.from_pretrained(tiny_folder)
    assert "\n" not in str(raised.value)


def test_folder_of_a_run_points_at_its_checkpoint(tiny_folder, tmp_path) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_folder, run / "checkpoint-20")
    with pytest.raises(InputError, match=r"try .*checkpoint-20"):
        Translator.from_pretrained(run)


def test_folder_that_does_not_exist_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="must be an existing folder, got no/such/model"):
        Translator.from_pretrained("no/such/model")


def test_tokenizer_larger_than_the_model_is_refused(tiny_folder, tiny_tokenizer) -> None:
    """Trial 14: with both numbers, before any table is read past its end."""
    entries = len(tiny_tokenizer)
    model = VaswaniForConditionalGeneration.from_pretrained(tiny_folder)
    model.config.vocab_size = entries - 5
    VaswaniForConditionalGeneration(model.config).save_pretrained(tiny_folder)
    with pytest.raises(InputError, match=f"got {entries} and {entries - 5}.*resize"):
        Translator.from_pretrained(tiny_folder)


@pytest.mark.parametrize("name", ["cuda:99", "nonsense"])
def test_device_that_is_not_there_is_refused(tiny_folder, name) -> None:
    with pytest.raises(InputError, match=f"`device` must be one .*, got '{name}'"):
        Translator.from_pretrained(tiny_folder, device=name)
