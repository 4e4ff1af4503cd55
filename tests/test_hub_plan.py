"""`vaswani.hub_push.checked_plan`: what is sent is what was checked."""

import json
import os
from pathlib import Path

import pytest
from hub_material import write_ready_card
from safetensors.torch import load_file, save_file

from vaswani.errors import InputError
from vaswani.hub_push import checked_plan

NAME = "ada/en-de"


def test_adapter_that_would_be_left_behind_is_refused(folder: Path) -> None:
    write_ready_card(folder)
    (folder / "adapter_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="makes it a model with an adapter; call `merge_and_unl"):
        checked_plan(folder, NAME)


def test_weights_that_would_not_be_sent_are_refused(folder: Path) -> None:
    """The folder itself loads: its index names a file that no pattern of weights matches."""
    write_ready_card(folder)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    save_file(weights, folder / "all.safetensors", metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": dict.fromkeys(weights, "all.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(InputError, match=r"does not load without the package .*all\.safetensors"):
        checked_plan(folder, NAME)


def test_file_name_that_is_no_text_stays_and_a_mark_before_the_card_is_none_of_it(
    folder: Path,
) -> None:
    card = write_ready_card(folder)
    (folder / "README.md").write_text("\ufeff" + card, encoding="utf-8")
    (folder / os.fsdecode(b"bad\xff.md")).write_text("notes", encoding="utf-8")
    plan = checked_plan(folder, NAME)
    assert plan.model.left_out["bad\\udcff.md"] == "its name is not in UTF-8"
    assert plan.card.startswith("---\n")
