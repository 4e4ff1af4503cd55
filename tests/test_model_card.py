"""`vaswani.model_card`: a card that any text survives in."""

import json
import re
import sys
from pathlib import Path

import pytest
from hub_material import edit_json, write_stand_in
from huggingface_hub import ModelCard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vaswani import model_card
from vaswani.model_card import license_metadata, write_model_card

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_stand_in(tmp_path)


def test_card_has_the_metadata_that_the_hub_reads(folder: Path) -> None:
    path = write_model_card(
        folder,
        data={"source": "en", "target": "de", "name": "letters"},
        settings={"preset": "small"},
        scores={"bleu": 23.5, "bleu_signature": SIGNATURE, "chrf": 50, "loss": 2.0},
        name="letters-en-de",
        license="cc-by-4.0",
        datasets=["someone/letters"],
    )
    card = ModelCard.load(path)
    assert path == folder / "README.md"
    assert card.data.language == ["en", "de"]
    assert card.data.license == "cc-by-4.0"
    assert card.data.library_name == "transformers"
    assert card.data.datasets == ["someone/letters"]
    assert "translation" in card.data.tags
    found = {result.metric_type: result for result in card.data.eval_results}
    assert set(found) == {"bleu", "chrf"}
    assert found["bleu"].metric_value == 23.5
    assert found["bleu"].metric_args == {"signature": SIGNATURE}
    assert found["chrf"].dataset_name == "letters"


@pytest.mark.parametrize(
    ("written", "known"),
    [("Apache 2.0", "apache-2.0"), ("CC BY 4.0", "cc-by-4.0"), ("MIT License", "mit")],
)
def test_license_is_known_as_people_write_it(written: str, known: str) -> None:
    assert license_metadata(written) == {"license": known}


def test_card_states_no_license_unless_one_is_given(folder: Path) -> None:
    card = ModelCard.load(write_model_card(folder, data={}, settings={}, scores={}))
    assert card.data.license is None
    assert "No license has been stated" in card.text


def test_card_without_scores_or_languages_loads(folder: Path) -> None:
    card = ModelCard.load(write_model_card(folder, data={}, settings={}, scores={}))
    assert card.data.language is None
    assert card.data.eval_results is None
    assert "Not evaluated." in card.text


@pytest.mark.parametrize("has_pipeline", [False, True])
def test_pipeline_tag_only_where_a_pipeline_can_load_it(folder: Path, has_pipeline: bool) -> None:
    """transformers 5 has no `translation` task of its own: the tag alone makes it raise."""
    if has_pipeline:
        pipelines = {"translation": {"impl": "pipeline_vaswani.VaswaniPipeline"}}
        edit_json(folder / "config.json", custom_pipelines=pipelines)
    card = ModelCard.load(write_model_card(folder, data={}, settings={}, scores={}))
    assert card.data.pipeline_tag == ("translation" if has_pipeline else None)


@settings(max_examples=40, deadline=None)
@given(text=st.text(st.characters(codec="utf-8"), min_size=1, max_size=30))
@example(text="\x85")
@example(text="a\x85b\u2028c")
def test_any_value_leaves_the_card_whole(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    """Values come from file names and flags: they may hold YAML, Markdown or template syntax."""
    folder = tmp_path_factory.mktemp("card")
    path = write_model_card(
        folder,
        data={"source": text, "file": text},
        settings={text: text},
        scores={"bleu": 1.0, "bleu_signature": text},
        name=text,
        limitations=[text],
    )
    card = ModelCard.load(path)
    assert card.data.model_name == text.replace("\x85", " ")
    rows = [line for line in card.text.splitlines() if re.match(r"\| (file|BLEU) \|", line)]
    assert len(rows) == 2
    # Two cells: three bars that are not escaped.
    assert all(len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 3 for row in rows)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a|b_c*d", r"a\|b\_c\*d"),
        ("{{ 7 * 7 }}", r"{{ 7 \* 7 }}"),
        ("one\n# two", "one # two"),
        ("# one", r"\# one"),
        ("1. one", r"1\. one"),
        ("<b>", r"\<b\>"),
        ([1, "x"], "1, x"),
        (0.0006987712, "0.000698771"),
    ],
)
def test_markdown_in_values_is_shown_as_it_is(folder: Path, value: object, shown: str) -> None:
    path = write_model_card(folder, data={"x": value}, settings={}, scores={}, limitations=[])
    assert f"| x | {shown} |" in path.read_text(encoding="utf-8").splitlines()


def test_missing_jinja_names_the_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'vaswani\[train\]'"):
        write_model_card(folder, data={}, settings={}, scores={})


def test_card_code_blocks_are_python(folder: Path) -> None:
    name = '"""\n``` {{ x }}'
    text = write_model_card(folder, data={}, settings={}, scores={}, name=name).read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        compile(block, "card", "exec")


def test_template_is_found_in_a_wheel_and_in_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "vaswani"
    package.mkdir()
    monkeypatch.setattr(model_card, "__file__", str(package / "model_card.py"))
    assert model_card._template_path() == tmp_path / "model_card.md"
    (package / "model_card.md").touch()
    assert model_card._template_path() == package / "model_card.md"


def test_scores_of_validation_and_test_stay_apart(folder: Path) -> None:
    path = write_model_card(
        folder,
        data={"source": "en", "target": "de"},
        settings={},
        scores={"bleu": 20.0},
        test_scores={"bleu": 18.0, "bleu_signature": SIGNATURE},
        corpora=("dev.tsv", "wmt/wmt14:de-en:test"),
    )
    card = ModelCard.load(path)
    first, second = card.data.eval_results
    assert (first.dataset_name, first.dataset_split, first.metric_value) == (
        "dev.tsv",
        "validation",
        20.0,
    )
    assert (second.dataset_type, second.dataset_config, second.dataset_split) == (
        "wmt/wmt14",
        "de-en",
        "test",
    )
    assert second.metric_value == 18.0 and second.metric_args == {"signature": SIGNATURE}
    tables = re.findall(r"^(\w+) data: .*\n\n(?:\|.*\n)+", card.text, re.MULTILINE)
    assert tables == ["Validation", "Test"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"num_beams": 4, "length_penalty": 0.6, "max_length_a": 1.0, "max_length_b": 50},
            "searches with beam 4 and the GNMT length penalty of 0.6, and writes at most 50 tokens",
        ),
        ({"num_beams": 1, "length_penalty": 1.0}, "takes the most probable token at each step"),
        (
            {"num_beams": 9, "length_penalty": 1.5, "length_penalty_type": "power"},
            "searches with beam 9 and a power as length penalty of 1.5.",
        ),
    ],
)
def test_card_tells_the_search_that_is_saved_with_the_model(
    folder: Path, settings: dict, words: str
) -> None:
    (folder / "generation_config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert words in write_model_card(folder, data={}, settings={}, scores={}).read_text("utf-8")


def test_card_shows_a_pipeline_only_where_there_is_one(folder: Path) -> None:
    def examples() -> int:
        text = write_model_card(folder, data={}, settings={}, scores={}).read_text("utf-8")
        return len(re.findall(r"^```python$", text, re.MULTILINE))

    assert examples() == 2
    edit_json(folder / "config.json", custom_pipelines={"translation": {"impl": "p.P"}})
    assert examples() == 3


def test_card_of_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"`folder` must be an existing .*nowhere"):
        write_model_card(tmp_path / "nowhere", data={}, settings={}, scores={})
