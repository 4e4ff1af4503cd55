"""VaswaniTranslationPipeline: what goes in, what comes out, and which ways lead to it."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers.pipelines
from datasets import Dataset
from tiny_model import words
from transformers import GenerationConfig, pipeline
from transformers.pipelines.pt_utils import KeyDataset
from two_sided import PAIRS, model_for, paired

from vaswani import (
    VaswaniConfig,
    VaswaniForConditionalGeneration,
    VaswaniTokenizer,
    VaswaniTranslationPipeline,
)
from vaswani.hub import check_self_contained
from vaswani.translation import Translator

# Of unequal length, with one twice, one blank and one of a single word.
TEXTS = [
    "The baker sees the child.",
    "sailor greets the Matrose.",
    " \t\0",
    "baker",
    "The teacher finds the Bäcker.",
    "The baker sees the child.",
]


@pytest.fixture
def translate(
    copying_model: VaswaniForConditionalGeneration, tiny_tokenizer: VaswaniTokenizer
) -> VaswaniTranslationPipeline:
    return VaswaniTranslationPipeline(copying_model, tiny_tokenizer)


def texts_of(results: list[dict[str, Any]]) -> list[str]:
    return [result["translation_text"] for result in results]


def test_a_text_gives_a_list_of_one_dictionary(translate: VaswaniTranslationPipeline) -> None:
    """As the pipeline of transformers 4 did; the model has learned to copy."""
    assert translate("The baker sees the child.") == [
        {"translation_text": "The baker sees the child."}
    ]


def test_a_list_gives_a_dictionary_a_text_in_order(translate: VaswaniTranslationPipeline) -> None:
    results = translate(TEXTS)
    assert results == [translate(text)[0] for text in TEXTS]
    assert texts_of(results)[2] == ""
    assert texts_of(results)[0] == texts_of(results)[5] == TEXTS[0]


@pytest.mark.parametrize("search", [{}, {"num_beams": 1}], ids=["beams", "greedy"])
def test_results_are_those_of_the_translator(
    translate: VaswaniTranslationPipeline, search: dict[str, int]
) -> None:
    """Texts, scores and cuts; some outputs end by themselves and some at the limit."""
    expected = Translator(translate.model, translate.tokenizer).translate(
        TEXTS, max_new_tokens=6, **search
    )
    results = translate(
        TEXTS, max_new_tokens=6, return_scores=True, return_truncated=True, batch_size=4, **search
    )
    assert texts_of(results) == [found.text for found in expected]
    # Sums in float32 and in float64.
    assert [result["score"] for result in results] == pytest.approx(
        [found.score for found in expected], rel=1e-4, abs=1e-5
    )
    assert [result["truncated"] for result in results] == [found.truncated for found in expected]
    assert {found.truncated for found in expected} == {True, False}


@pytest.mark.parametrize("batch_size", [2, 4, 16])
@pytest.mark.parametrize("search", [{}, {"num_beams": 1}], ids=["beams", "greedy"])
def test_batch_size_changes_nothing(
    translate: VaswaniTranslationPipeline, batch_size: int, search: dict[str, int]
) -> None:
    singles = translate(TEXTS, return_tensors=True, return_scores=True, **search)
    batched = translate(
        TEXTS, return_tensors=True, return_scores=True, batch_size=batch_size, **search
    )
    for one, other in zip(singles, batched, strict=True):
        assert one["translation_token_ids"].tolist() == other["translation_token_ids"].tolist()
        assert one["score"] == pytest.approx(other["score"], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    "several",
    [
        tuple,
        lambda texts: (text for text in texts),
        iter,
        lambda texts: Dataset.from_dict({"source": texts})["source"],
        lambda texts: KeyDataset(Dataset.from_dict({"source": texts}), "source"),
    ],
    ids=["tuple", "generator", "iterator", "column", "KeyDataset"],
)
def test_every_kind_of_collection_is_translated_in_order(
    translate: VaswaniTranslationPipeline, several: Callable[[list[str]], Any]
) -> None:
    expected = texts_of(translate(TEXTS))
    found = list(translate(several(TEXTS), batch_size=4))
    # What is not known to end is handed out text by text, each with its list.
    flat = [one if isinstance(one, dict) else one[0] for one in found]
    assert texts_of(flat) == expected


def test_a_generator_is_read_as_it_is_needed(translate: VaswaniTranslationPipeline) -> None:
    def endless() -> Any:
        while True:
            yield "baker"

    assert next(iter(translate(endless())))[0] == translate("baker")[0]


def test_no_texts_give_no_results(translate: VaswaniTranslationPipeline) -> None:
    assert translate([]) == []
    assert list(translate(text for text in [])) == []


def test_several_translations_are_those_of_generate(translate: VaswaniTranslationPipeline) -> None:
    batch = translate.tokenizer(TEXTS[:2], padding=True, return_tensors="pt")
    rows = translate.model.generate(**batch, num_beams=3, num_return_sequences=3)
    expected = translate.tokenizer.batch_decode(rows, skip_special_tokens=True)
    found = translate(TEXTS[:2], num_beams=3, num_return_sequences=3, batch_size=2)
    assert [texts_of(one) for one in found] == [expected[:3], expected[3:]]
    assert len(set(expected)) > 2


def test_score_is_log_probability_over_the_length_penalty(
    translate: VaswaniTranslationPipeline,
) -> None:
    """Section 6.1 and Wu et al., Equation 14, from one forward pass over the tokens found."""
    for search in ({}, {"num_beams": 1}, {"num_beams": 1, "length_penalty": 0.2}):
        (found,) = translate(TEXTS[0], return_scores=True, return_tensors=True, **search)
        labels = found["translation_token_ids"][None]
        source = translate.tokenizer(TEXTS[0], return_tensors="pt")
        with torch.no_grad():
            loss = translate.model(**source, labels=labels).loss
        tokens = labels.size(1)
        alpha = search.get("length_penalty", 0.6)
        assert found["score"] == pytest.approx(
            -loss.item() * tokens / ((5 + tokens) / 6) ** alpha, rel=1e-4
        )


def test_token_ids_are_the_generated_ones_with_the_end(
    translate: VaswaniTranslationPipeline,
) -> None:
    source = translate.tokenizer(TEXTS[0], return_tensors="pt")
    expected = words(translate.model.generate(**source)[0])
    (found,) = translate(TEXTS[0], return_tensors=True)
    assert list(found) == ["translation_token_ids"]
    assert found["translation_token_ids"].tolist() == expected
    assert expected[-1] == translate.model.config.eos_token_id
    (both,) = translate(TEXTS[0], return_tensors=True, return_text=True)
    assert both["translation_text"] == TEXTS[0]


def test_blank_text_never_reaches_the_model(
    translate: VaswaniTranslationPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translate.model, "generate", None)
    settings = {"return_scores": True, "return_truncated": True, "num_return_sequences": 2}
    assert translate([" ", ""], batch_size=2, **settings) == 2 * [
        [{"translation_text": "", "score": 0.0, "truncated": False}]
    ]


def test_search_that_finds_nothing_possible_gives_one_empty_result(
    translate: VaswaniTranslationPipeline,
) -> None:
    every_token = list(range(translate.model.config.vocab_size))
    settings = {"suppress_tokens": every_token, "num_return_sequences": 2, "return_scores": True}
    nothing = {"translation_text": "", "score": -float("inf")}
    assert translate(TEXTS[:2], batch_size=2, **settings) == [[nothing], [nothing]]
    assert translate(TEXTS[:1], suppress_tokens=every_token) == [{"translation_text": ""}]


def test_settings_can_be_given_once_for_all_calls(
    copying_model: VaswaniForConditionalGeneration, tiny_tokenizer: VaswaniTokenizer
) -> None:
    made = VaswaniTranslationPipeline(
        copying_model,
        tiny_tokenizer,
        max_new_tokens=2,
        num_beams=2,
        num_return_sequences=2,
        return_truncated=True,
        batch_size=3,
    )
    found = made(TEXTS[:2])
    assert [len(one) for one in found] == [2, 2]
    assert all(result["truncated"] for one in found for result in one)
    # Those of a call come before them.
    (one,) = made(TEXTS[0], max_new_tokens=40, num_return_sequences=1)
    assert one == {"translation_text": TEXTS[0], "truncated": False}


def test_generation_config_is_taken_as_generate_takes_it(
    translate: VaswaniTranslationPipeline,
) -> None:
    config = GenerationConfig(num_beams=2, num_return_sequences=2, max_new_tokens=3)
    source = translate.tokenizer(TEXTS[:1], return_tensors="pt")
    rows = translate.model.generate(**source, generation_config=config)
    expected = translate.tokenizer.batch_decode(rows, skip_special_tokens=True)
    assert [texts_of(one) for one in translate(TEXTS[:1], generation_config=config)] == [expected]


@pytest.mark.parametrize("tokens", [40, 5])
def test_assisted_generation_gives_the_greedy_results(
    translate: VaswaniTranslationPipeline, tokens: int
) -> None:
    """The assistant is the model itself here; with 5 tokens the output is cut."""
    settings: dict[str, Any] = {"num_beams": 1, "return_scores": True, "return_truncated": True}
    (expected,) = translate(TEXTS[0], max_new_tokens=tokens, **settings)
    assistant, calls = copy.deepcopy(translate.model), []
    assistant.register_forward_hook(lambda *_: calls.append(1))
    assisted = VaswaniTranslationPipeline(
        translate.model, translate.tokenizer, assistant_model=assistant
    )
    (found,) = assisted(TEXTS[0], max_new_tokens=tokens, **settings)
    assert found["score"] == pytest.approx(expected["score"], rel=1e-4)
    assert found | {"score": 0} == expected | {"score": 0}
    assert found["truncated"] is (tokens == 5)
    assert calls


def test_unknown_argument_is_refused_by_name(translate: VaswaniTranslationPipeline) -> None:
    with pytest.raises(ValueError, match=r"src_lang"):
        translate("baker", src_lang="en")


@pytest.mark.parametrize("value", [3, None, b"text", {"en": "text"}, ["a", 3]])
def test_what_is_no_text_is_refused_by_type(
    translate: VaswaniTranslationPipeline, value: object
) -> None:
    with pytest.raises(TypeError, match=r"`inputs` must be a text or several, got .* of type \w+"):
        translate(value)


def test_data_set_without_a_column_gets_the_remedy(translate: VaswaniTranslationPipeline) -> None:
    with pytest.raises(TypeError, match=r"of type Dataset\. .*KeyDataset\(dataset, column\)"):
        translate(Dataset.from_dict({"source": TEXTS}))


def test_what_is_no_model_or_tokenizer_is_refused(
    copying_model: VaswaniForConditionalGeneration, tiny_tokenizer: VaswaniTokenizer
) -> None:
    with pytest.raises(TypeError, match=r"`model` must be a loaded model, got 'runs/en-de'"):
        VaswaniTranslationPipeline("runs/en-de", tiny_tokenizer)
    with pytest.raises(TypeError, match=r"`tokenizer` must be a loaded tokenizer, got None"):
        VaswaniTranslationPipeline(copying_model)


def test_sources_too_long_for_learned_positions_are_refused_or_cut(
    tiny_config: VaswaniConfig, tiny_tokenizer: VaswaniTokenizer
) -> None:
    settings = {"position_encoding": "learned", "max_position_embeddings": 6}
    torch.manual_seed(0)
    model = VaswaniForConditionalGeneration(VaswaniConfig(**tiny_config.to_dict() | settings))
    translate = VaswaniTranslationPipeline(model, tiny_tokenizer)
    ids = tiny_tokenizer(TEXTS[0])["input_ids"]
    assert len(ids) > 6
    rule = rf"`max_position_embeddings` = 6 tokens each, .* got {len(ids)} in 'The baker"
    with pytest.raises(ValueError, match=rule + r".*set truncation=True"):
        translate(TEXTS[0])
    # The end token stays, as in every source.
    cut = model.generate(torch.tensor([[*ids[:5], ids[-1]]]))
    (found,) = translate(TEXTS[0], truncation=True, return_tensors=True)
    assert found["translation_token_ids"].tolist() == words(cut[0])


def test_sinusoids_have_no_longest_source(translate: VaswaniTranslationPipeline) -> None:
    """Beyond what the model is meant for only `truncation` cuts."""
    translate.model.config.max_position_embeddings = 6
    assert translate(TEXTS[0]) == [{"translation_text": TEXTS[0]}]
    assert translate(TEXTS[0], truncation=True) != [{"translation_text": TEXTS[0]}]


@pytest.mark.parametrize("side", ["left", "right"])
def test_separate_vocabularies_are_decoded_by_the_target(side: str) -> None:
    tokenizer = paired()
    tokenizer.padding_side = side
    model = model_for(tokenizer)
    translate = VaswaniTranslationPipeline(model, tokenizer)
    sources = [PAIRS[0][0], "the", PAIRS[5][0] + " " + PAIRS[6][0]]
    # An untrained model would give nothing but control tokens.
    search = {
        "min_new_tokens": 4,
        "max_new_tokens": 7,
        "suppress_tokens": tokenizer.target_tokenizer.all_special_ids,
    }
    expected = []
    for source in sources:
        ids = torch.tensor([tokenizer(source)["input_ids"]])
        row = model.generate(ids, **search)[0]
        expected.append(tokenizer.target_tokenizer.decode(row.tolist(), skip_special_tokens=True))
    assert texts_of(translate(sources, batch_size=3, **search)) == expected
    assert all(expected)


def test_a_model_in_training_mode_is_put_into_evaluation_mode(
    copying_model: VaswaniForConditionalGeneration, tiny_tokenizer: VaswaniTokenizer
) -> None:
    VaswaniTranslationPipeline(copying_model.train(), tiny_tokenizer)(TEXTS[0])
    assert not copying_model.training


# The ways to it


@pytest.mark.parametrize(
    "way",
    [
        {"task": "translation", "pipeline_class": VaswaniTranslationPipeline},
        {"task": "translation", "trust_remote_code": True},
        {"trust_remote_code": True},
    ],
    ids=["pipeline_class", "task", "no task"],
)
def test_pipeline_of_transformers_loads_a_folder(folder: Path, way: dict[str, Any]) -> None:
    """With the package imported the model is its own, wherever the pipeline's class is from."""
    translate = pipeline(model=str(folder), **way)
    assert type(translate).__name__ == "VaswaniTranslationPipeline"
    assert type(translate.model) is VaswaniForConditionalGeneration
    assert texts_of(translate(TEXTS[:2], batch_size=2)) == TEXTS[:2]


@pytest.mark.parametrize("trust", [None, False])
def test_without_trust_the_folders_pipeline_is_refused_and_not_run(
    folder: Path, tmp_path: Path, trust: bool | None
) -> None:
    canary = tmp_path / "canary"
    code = folder / "pipeline_vaswani.py"
    code.write_text(f"open({str(canary)!r}, 'w')\n" + code.read_text("utf-8"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"set the option `trust_remote_code=True`"):
        pipeline("translation", model=str(folder), trust_remote_code=trust)
    assert not canary.exists()
    pipeline("translation", model=str(folder), trust_remote_code=True)
    assert canary.exists()


def test_transformers_own_tasks_stay_as_they_are() -> None:
    assert "translation" in transformers.pipelines.REMOVED_TASKS
    assert not any("vaswani" in name for name in transformers.pipelines.get_supported_tasks())
    with pytest.raises(KeyError, match=r"task translation has been removed from transformers"):
        transformers.pipelines.check_task("translation")


def test_dtype_and_device_reach_the_model(folder: Path) -> None:
    translate = pipeline(
        "translation",
        model=str(folder),
        pipeline_class=VaswaniTranslationPipeline,
        dtype=torch.bfloat16,
        device="cpu",
    )
    assert translate.model.dtype == torch.bfloat16
    assert translate.device == torch.device("cpu")
    assert texts_of(translate(TEXTS[:2], batch_size=2, return_scores=True)) == TEXTS[:2]


def test_saved_pipeline_is_a_whole_folder(
    translate: VaswaniTranslationPipeline, tmp_path: Path
) -> None:
    translate.save_pretrained(tmp_path / "saved")
    check_self_contained(tmp_path / "saved")
    again = pipeline(model=str(tmp_path / "saved"), trust_remote_code=True)
    assert texts_of(again(TEXTS[:2])) == TEXTS[:2]
