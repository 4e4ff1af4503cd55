"""Averages of checkpoints: the right numbers in a complete folder, or a refusal that names why."""

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from checkpoint_material import TABLE, checkpoints, save, write_run
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from vaswani.checkpoints import average_checkpoints, last_checkpoints
from vaswani.errors import InputError
from vaswani.hub import check_self_contained


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three checkpoints, whose numbers sort otherwise than their names."""
    return write_run(tmp_path_factory.mktemp("run"))


@pytest.fixture
def run(saved: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(saved, tmp_path / "run"))


def test_average_is_the_mean_of_every_weight(saved: Path, tmp_path: Path) -> None:
    """Against torch's own mean, in float64."""
    averaged = load_file(
        average_checkpoints(checkpoints(saved), tmp_path / "a") / "model.safetensors"
    )
    stored = [load_file(folder / "model.safetensors") for folder in checkpoints(saved)]
    assert set(averaged) == set(stored[0])
    for name, tensor in averaged.items():
        expected = torch.stack([one[name].double() for one in stored]).mean(0)
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor, expected.float(), rtol=1e-7, atol=0)


def test_average_does_not_depend_on_the_order_to_the_bit(saved: Path, tmp_path: Path) -> None:
    written = set()
    for number, folders in enumerate(itertools.permutations(checkpoints(saved))):
        output = average_checkpoints(folders, tmp_path / str(number))
        written.add((output / "model.safetensors").read_bytes())
    assert len(written) == 1


def test_average_of_equal_checkpoints_is_each_of_them_to_the_bit(tmp_path: Path) -> None:
    """Three times a third would not give it back in float32."""
    folders = [save(tmp_path / f"checkpoint-{n}", seed=4) for n in range(1, 4)]
    averaged = load_file(average_checkpoints(folders, tmp_path / "a") / "model.safetensors")
    stored = load_file(folders[0] / "model.safetensors")
    assert all(torch.equal(averaged[name], stored[name]) for name in stored)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_average_is_summed_in_a_wide_format_and_stored_in_that_of_the_checkpoints(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    """300 + 1 + 1 + ... in bfloat16 stays 300: seven checkpoints of 1 would be lost."""
    folders = [save(tmp_path / f"checkpoint-{n}", seed=0, dtype=dtype) for n in range(8)]
    for n, folder in enumerate(folders):
        weights = load_file(folder / "model.safetensors")
        weights[TABLE].fill_(300.0 if n == 0 else 1.0)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    averaged = load_file(average_checkpoints(folders, tmp_path / "a") / "model.safetensors")
    assert averaged[TABLE].dtype == dtype
    assert torch.equal(averaged[TABLE], torch.full_like(averaged[TABLE], 307 / 8))


@pytest.mark.parametrize(
    ("ties", "tables"),
    [
        ({}, 1),
        ({"share_encoder_decoder_embeddings": False}, 2),
        ({"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}, 3),
    ],
)
def test_a_shared_table_is_averaged_and_stored_once(
    ties: dict[str, bool], tables: int, tmp_path: Path
) -> None:
    folders = [save(tmp_path / f"checkpoint-{n}", seed=n, **ties) for n in range(2)]
    output = average_checkpoints(folders, tmp_path / "a")
    stored = load_file(output / "model.safetensors")
    assert len([name for name in stored if "embed_tokens" in name or "lm_head" in name]) == tables
    model = AutoModelForSeq2SeqLM.from_pretrained(output)
    one, other = (AutoModelForSeq2SeqLM.from_pretrained(f).state_dict() for f in folders)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, (one[name] + other[name]) / 2)
    owners = {model.lm_head.weight.data_ptr(), model.get_input_embeddings().weight.data_ptr()}
    owners.add(model.get_decoder().embed_tokens.weight.data_ptr())
    assert len(owners) == tables


def test_shards_give_the_same_average(saved: Path, tmp_path: Path) -> None:
    folders = [save(tmp_path / f"checkpoint-{n}", seed=n, max_shard_size="20kB") for n in range(3)]
    assert not (folders[0] / "model.safetensors").exists()
    assert len(list(folders[0].glob("*.safetensors"))) > 2
    whole = average_checkpoints(checkpoints(saved), tmp_path / "whole") / "model.safetensors"
    dealt = average_checkpoints(folders, tmp_path / "dealt") / "model.safetensors"
    assert whole.read_bytes() == dealt.read_bytes()


def test_averaged_folder_is_complete_and_loads_by_auto_class(saved: Path, tmp_path: Path) -> None:
    output = average_checkpoints(checkpoints(saved), tmp_path / "deep" / "average")
    check_self_contained(output)
    names = {path.name for path in output.iterdir()}
    assert names >= {"README.md", "averaged.json", "generation_config.json", "tokenizer.json"}
    assert not names & {"trainer_state.json", "training_args.bin", "optimizer.pt"}
    assert list(output.parent.iterdir()) == [output]
    model = AutoModelForSeq2SeqLM.from_pretrained(output)
    encoded = AutoTokenizer.from_pretrained(output)("eins zwei", return_tensors="pt")
    assert model.generate(**encoded, max_new_tokens=3).size(0) == 1


def test_card_and_record_name_the_checkpoints(saved: Path, tmp_path: Path) -> None:
    output = average_checkpoints(checkpoints(saved)[:2], tmp_path / "average")
    record = json.loads((output / "averaged.json").read_text())
    assert record == {
        "checkpoints": [f"{saved.name}/checkpoint-900", f"{saved.name}/checkpoint-1000"]
    }
    card = (output / "README.md").read_text()
    assert "# average" in card and "average of 2 checkpoints" in card
    assert f"{saved.name}/checkpoint-900, {saved.name}/checkpoint-1000" in card
    assert "A translation model, en to de" in card


def test_card_of_an_average_tells_the_data_and_license_of_its_run(
    run: Path, tmp_path: Path
) -> None:
    settings = {"source": "en", "target": "de", "data": ["/home/ada/a.tsv", "b.en,b.de"]}
    settings |= {"data_licenses": ["cc-by-4.0", "mit"], "license": "cc-by-sa-4.0"}
    (run / "settings.yaml").write_text(yaml.safe_dump(settings))
    card = (average_checkpoints(checkpoints(run), tmp_path / "average") / "README.md").read_text()
    assert "| corpora | a.tsv, b.en, b.de |" in card and "/home/ada" not in card
    assert "| licenses of the corpora | cc-by-4.0, mit |" in card
    assert "\nlicense: cc-by-sa-4.0\n" in card


def test_last_checkpoints_go_by_number(saved: Path) -> None:
    """As names checkpoint-1000 comes before checkpoint-900."""
    assert last_checkpoints(saved, 2) == checkpoints(saved)[1:]
    assert last_checkpoints(saved, 3) == checkpoints(saved)


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (0, "`last` must be at least 1, got 0"),
        (-1, "`last` must be at least 1, got -1"),
        (4, "at most the number of checkpoints in the run, got 4, and .* has 3"),
    ],
)
def test_impossible_counts_are_refused(saved: Path, count: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        last_checkpoints(saved, count)


def test_a_run_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"`run` must be the folder .*, got .*nowhere"):
        last_checkpoints(tmp_path / "nowhere", 1)


def change_weights(change: Callable[[dict], None]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        change(weights)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    return damage


def change_config(**fields: Any) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    return damage


def cut_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def pickle_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def other_vocabulary(folder: Path) -> None:
    path = folder / "tokenizer.json"
    settings = json.loads(path.read_text())
    settings["model"]["merges"] = settings["model"]["merges"][:-1]
    path.write_text(json.dumps(settings))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (change_weights(lambda w: w.pop(TABLE)), f"only .*checkpoint-900 has {TABLE}"),
        (
            change_weights(lambda w: w.update(extra=torch.zeros(1))),
            "only .*checkpoint-1000 has extra",
        ),
        (
            change_weights(lambda w: w.update({TABLE: torch.zeros(2, 32)})),
            rf"shapes of {TABLE} \(\d+, 32\) and \(2, 32\)",
        ),
        (
            change_weights(lambda w: w.update({TABLE: w[TABLE].half()})),
            f"number formats of {TABLE} F32 and F16",
        ),
        (
            change_weights(lambda w: w[TABLE].fill_(float("nan"))),
            f"finite weights, got .*checkpoint-1000, where {TABLE} is not",
        ),
        (change_config(dropout=0.3), "differ: `dropout` of config.json is 0.0 and 0.3"),
        (other_vocabulary, "tokenizer.json holds another vocabulary"),
        (cut_weights, "whole weights, got .*checkpoint-1000, whose model.safetensors cannot be"),
        (
            lambda folder: (folder / "trainer_state.json").unlink(),
            "must be finished, got .*checkpoint-1000, which lacks trainer_state.json",
        ),
        (
            lambda folder: (folder / "model.safetensors").unlink(),
            "got .*checkpoint-1000, which has none",
        ),
        (
            lambda folder: (folder / "config.json").write_text("{"),
            "got .*checkpoint-1000, whose config.json cannot be read",
        ),
        (
            pickle_weights,
            r"checkpoint-1000 with pytorch_model.bin: .*weights_only=True.*call `save_pre",
        ),
        (
            change_config(model_type="bart"),
            "of a vaswani model, got .*1000.*`model_type` is 'bart'",
        ),
        (change_config(d_model="wide"), "valid config.json, got .*checkpoint-1000"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_averaged_is_named_and_leaves_nothing(
    run: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(run / "checkpoint-1000")
    before = sorted(run.parent.rglob("*"))
    with pytest.raises(InputError, match=message):
        average_checkpoints(checkpoints(run), run / "average")
    assert sorted(run.parent.rglob("*")) == before


def test_models_of_other_sizes_are_told_apart_by_fields_and_tensors(tmp_path: Path) -> None:
    one, other = save(tmp_path / "one"), save(tmp_path / "other", d_model=16)
    message = r"`d_model` of config.json is 32 and 16; shapes of model\.decoder\S+ \(.*\d+ more"
    with pytest.raises(InputError, match=message):
        average_checkpoints([one, other], tmp_path / "a")


def test_a_lost_shard_is_named(tmp_path: Path) -> None:
    folder = save(tmp_path / "checkpoint-1", max_shard_size="20kB")
    lost = min(folder.glob("model-*.safetensors"))
    lost.unlink()
    with pytest.raises(InputError, match=f"checkpoint-1, whose {lost.name} cannot be read"):
        average_checkpoints([folder], tmp_path / "a")


def test_a_checkpoint_without_its_tokenizer_is_refused(run: Path) -> None:
    for folder in checkpoints(run):
        (folder / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"checkpoint-1100: tokenizer.json is missing"):
        average_checkpoints(checkpoints(run), run / "average")


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        ([], "`checkpoints` must name at least 1 folder, got none"),
        (["checkpoint-900", "checkpoint-900"], "different folders, got .*checkpoint-900 twice"),
    ],
)
def test_impossible_lists_are_refused(saved: Path, folders: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        average_checkpoints([saved / name for name in folders], saved / "average")


def test_one_folder_in_place_of_a_list_is_refused(saved: Path) -> None:
    with pytest.raises(InputError, match="must be a list of folders"):
        average_checkpoints(str(saved), saved / "average")  # type: ignore[arg-type]


def test_a_folder_that_does_not_exist_is_named(saved: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"existing folders, got .*checkpoint-7"):
        average_checkpoints([saved / "checkpoint-7"], saved / "average")
