"""`vaswani.published_card`: which cards may go out, and what is changed in them on the way."""

import re
from pathlib import Path

import pytest
from hub_material import write_ready_card, write_stand_in
from hub_server import card_errors
from huggingface_hub import ModelCard

from vaswani.model_card import write_model_card
from vaswani.published_card import SECTIONS, card_for_hub, card_gaps, card_problems, is_sealed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_stand_in(tmp_path)


@pytest.fixture
def card(folder: Path) -> str:
    return write_ready_card(folder)


def test_card_that_a_run_fills_lacks_nothing(card: str) -> None:
    assert card_problems(card) == []
    assert card_problems(card_for_hub(card, "ada/en-de")) == []


def test_card_of_which_nothing_is_known_names_all_that_is_missing(folder: Path) -> None:
    card = write_model_card(folder, data={}, settings={}, scores={}).read_text(encoding="utf-8")
    problems = card_problems(card)
    assert "`language` of its metadata is missing" in problems
    assert "it states no license, which --license does" in problems
    for name in ("Training data", "Settings"):
        assert f'its section {name} says "Not recorded."' in problems
    assert len(problems) == 4


def test_what_nobody_measured_may_be_said_so(folder: Path) -> None:
    data = {"source": "en", "target": "de", "pairs": 4}
    settings = {"updates": 1}
    path = write_model_card(folder, data=data, settings=settings, scores={}, license="mit")
    card = path.read_text(encoding="utf-8")
    assert card_problems(card) == []
    assert card_gaps(card) == [
        'its section Hardware says "Not recorded."',
        'its section Scores says "Not evaluated."',
    ]
    assert card_gaps(write_ready_card(folder)) == []


@pytest.mark.parametrize("name", SECTIONS)
def test_each_section_must_be_there_and_hold_something(card: str, name: str) -> None:
    section = re.compile(rf"^(## {name}.*\n)((?:(?!## ).*\n)*)", re.MULTILINE)
    assert card_problems(section.sub("", card)) == [f"it has no section {name}"]
    assert card_problems(section.sub(r"\1\n", card)) == [f"its section {name} is empty"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("- en\n- de\n", "- English\n", "`language` of its metadata holds English, which is no"),
        ("license: cc-by-4.0", "license: CC-BY 4", "`license` of its metadata is 'CC-BY 4', which"),
        ("license: cc-by-4.0", "license: other", "other, without a `license_name`"),
        ("library_name: transformers\n", "", "`library_name` of its metadata is None"),
        ("language:", "language: [", "its metadata cannot be read"),
        ("---\nlanguage", "language", "it has no metadata between two lines ---"),
        ("  - task:", "  - job:", "its metadata cannot be read"),
    ],
)
def test_metadata_that_the_hub_would_not_take_is_refused(
    card: str, old: str, new: str, problem: str
) -> None:
    assert old in card
    assert any(problem in one for one in card_problems(card.replace(old, new, 1)))


def test_license_may_be_left_open_where_the_card_says_why(folder: Path) -> None:
    card = write_ready_card(folder, license=None)
    assert card_problems(card) == ["it states no license, which --license does"]
    reason = re.sub(r"No license has been[^\n]*", "The rights in the corpus are not settled.", card)
    assert card_problems(reason) == []


def test_unknown_license_has_a_name_of_its_own(folder: Path) -> None:
    card = write_ready_card(folder, license="My Terms 2.0")
    data = ModelCard(card).data
    assert (data.license, data.license_name) == ("other", "my-terms-2.0")
    assert card_problems(card) == [] and card_errors(card) == []
    later = card_for_hub(write_ready_card(folder, license=None), "a/b", license="My Terms 2.0")
    assert ModelCard(later).data.license_name == "my-terms-2.0" and card_problems(later) == []


def test_hub_takes_the_metadata(card: str) -> None:
    """By rules written from the Hub's own messages, since its check cannot be asked offline."""
    assert card_errors(card) == []
    assert card_errors(card.replace("cc-by-4.0", "mine", 1)) != []
    assert card_errors(card.replace("type: translation", "type: ''")) != []


def test_seal_holds_only_for_the_words_that_were_sent(card: str) -> None:
    sent = card_for_hub(card, "ada/en-de")
    assert is_sealed(sent) and is_sealed(sent.replace("\n", "\r\n"))
    assert not is_sealed(card)
    assert not is_sealed(sent.replace("23.5", "43.5"))
    assert card_for_hub(sent, "ada/en-de") == sent


def test_lines_that_a_person_changed_stay_as_they_are(card: str) -> None:
    mine = card.replace("  # the path of this folder, or its name on the Hub", "  # mine", 1)
    sent = card_for_hub(mine, "ada/en-de")
    kept = re.search(r"^name = .*# mine$", mine, re.MULTILINE)
    assert kept is not None and kept[0] in sent
    assert sent.count('name = "ada/en-de"\n') == card.count("\nname = ") - 1


@pytest.mark.parametrize("name", ["run", "a_b *c*", "x: y", "1.5", "[z]"])
def test_name_of_the_folder_gives_way_to_that_on_the_hub(folder: Path, name: str) -> None:
    sent = card_for_hub(write_ready_card(folder, name=name), "ada/en-de")
    card = ModelCard(sent)
    assert card.data.model_name == "en-de"
    assert [line for line in card.text.splitlines() if line.startswith("# ")] == ["# en-de"]
    mine = card_for_hub(sent.replace("# en-de\n", "# Letters\n"), "ada/fr-de")
    assert "\n# Letters\n" in mine


def test_heading_within_an_example_is_none(card: str) -> None:
    text = card.replace("```python\n", "```python\n## Citation\n", 1)
    text = re.sub(r"\n## Citation\n\nThe arch(.*\n)*", "\n", text)
    assert card_problems(text) == ["it has no section Citation"]
