"""`vaswani push`, by the real client of huggingface_hub against a server on loopback."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hub_material import client_of, write_ready_card, write_stand_in
from hub_server import HubServer, Repository, hub, sha256
from safetensors.torch import save_file

from vaswani import hub_push
from vaswani.cli import main
from vaswani.errors import InputError
from vaswani.hub_download import local_folder
from vaswani.hub_push import push

NAME = "ada/en-de"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """A Hub of this test's own. Stand-ins load nowhere, so the trial is left to other tests."""
    monkeypatch.setattr(hub_push, "loading_problems", lambda folder: [])
    with hub() as server, client_of(server, tmp_path / "cache"):
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    write_stand_in(path)
    write_ready_card(path)
    (path / "scores.json").write_text('{"bleu": 23.5}', encoding="utf-8")
    return path


def add_checkpoint(run: Path, updates: int) -> Path:
    """A checkpoint as the Trainer leaves it, with all that must never leave the machine."""
    path = run / f"checkpoint-{updates}"
    path.mkdir()
    write_stand_in(path)
    save_file({"weight": torch.full((2,), float(updates))}, path / "model.safetensors")
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin"):
        (path / name).write_bytes(b"a pickle")
    state = {"best_model_checkpoint": str(path), "log_history": []}
    (path / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    return path


def test_pushed_folder_is_there_and_its_address_returned(server: HubServer, folder: Path) -> None:
    assert push(folder, NAME) == f"{server.url}/{NAME}"
    there = server.files(NAME)
    names = {path.name for path in folder.iterdir()}
    assert set(there) == names | {".gitattributes"}
    for name in names - {"README.md"}:
        assert there[name] == (folder / name).read_bytes()
    assert not server.repositories[NAME].private


def test_examples_of_the_card_name_its_place(server: HubServer, folder: Path) -> None:
    before = (folder / "README.md").read_text(encoding="utf-8")
    push(folder, NAME)
    there = server.files(NAME)["README.md"].decode()
    assert there.count(f'\nname = "{NAME}"\n') == before.count("\nname = ") >= 2
    assert (folder / "README.md").read_text(encoding="utf-8") == before


def test_second_push_sends_only_what_changed(server: HubServer, folder: Path) -> None:
    push(folder, NAME)
    server.sent.clear()
    push(folder, NAME)
    assert server.sent == [] and len(server.repositories[NAME].messages) == 2
    (folder / "scores.json").write_text('{"bleu": 24.5}', encoding="utf-8")
    push(folder, NAME, message="Better")
    assert server.sent == ["scores.json"]
    assert server.repositories[NAME].messages[-1] == "Better"


def test_old_weights_and_code_are_taken_away(server: HubServer, folder: Path) -> None:
    """A single file left beside new shards would be what loads."""
    push(folder, NAME)
    shard = "model-00001-of-00001.safetensors"
    (folder / "model.safetensors").rename(folder / shard)
    index = json.dumps({"weight_map": {"weight": shard}})
    (folder / "model.safetensors.index.json").write_text(index, encoding="utf-8")
    repository = server.repositories[NAME]
    photo = {**server.files(NAME), "photo.png": b"from the web page", "old_vaswani.py": b""}
    repository.commit("main", photo, "by hand")
    (folder / "scores.json").unlink()
    push(folder, NAME)
    there = server.files(NAME)
    assert shard in there
    assert not {"model.safetensors", "old_vaswani.py", "scores.json"} & set(there)
    assert there["photo.png"] == b"from the web page"


def test_state_of_training_never_leaves(server: HubServer, folder: Path) -> None:
    """A checkpoint pushed by itself, with the files that the Trainer writes."""
    checkpoint = add_checkpoint(folder, 100)
    write_ready_card(checkpoint)
    (checkpoint / "ema.safetensors").write_bytes(b"weights of an average")
    push(checkpoint, NAME)
    there = set(server.files(NAME))
    assert there >= {"model.safetensors", "README.md", "modeling_vaswani.py"}
    kept = {"optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin"}
    assert not there & {*kept, "trainer_state.json", "ema.safetensors"}


def test_checkpoints_go_to_branches_of_their_names(server: HubServer, folder: Path) -> None:
    for updates in (100, 200):
        add_checkpoint(folder, updates)
    push(folder, NAME, checkpoints=True)
    assert set(server.repositories[NAME].branches) == {"main", "checkpoint-100", "checkpoint-200"}
    for updates in (100, 200):
        there = server.files(NAME, f"checkpoint-{updates}")
        weights = folder / f"checkpoint-{updates}" / "model.safetensors"
        assert there["model.safetensors"] == weights.read_bytes()
        assert f'add `revision="checkpoint-{updates}"`' in there["README.md"].decode()
        assert not {"optimizer.pt", "trainer_state.json", "training_args.bin"} & set(there)
    assert "checkpoint-100" not in {name.split("/")[0] for name in server.files(NAME)}
    repository = server.repositories[NAME]
    repository.commit("main", {**server.files(NAME), "scores.png": b"a picture"}, "by hand")
    add_checkpoint(folder, 300)
    push(folder, NAME, checkpoints=True)
    # That branch began as a copy of main, whose scores are not those of the checkpoint.
    results = {"scores.json", "scores.png"}
    assert results <= set(server.files(NAME))
    assert not results & set(server.files(NAME, "checkpoint-300"))
    fetched = local_folder(NAME, revision="checkpoint-200")
    assert (fetched / "model.safetensors").read_bytes() == weights.read_bytes()


def test_branch_is_made_and_main_left_alone(server: HubServer, folder: Path) -> None:
    push(folder, NAME)
    first = server.files(NAME)
    (folder / "scores.json").write_text("{}", encoding="utf-8")
    address = push(folder, NAME, revision="texts/letters")
    assert address == f"{server.url}/{NAME}/tree/texts/letters"
    assert server.files(NAME) == first
    assert server.files(NAME, "texts/letters")["scores.json"] == b"{}"


def test_private_model_is_seen_by_its_owner_alone(
    server: HubServer, folder: Path, tmp_path: Path
) -> None:
    push(folder, NAME, private=True)
    assert server.repositories[NAME].private
    assert (local_folder(NAME) / "config.json").is_file()
    for token in (None, "hf_of_bob"):
        with client_of(server, tmp_path / f"cache of {token}", token):
            with pytest.raises(InputError, match=r"there is none that you may read.*HF_TOKEN") as e:
                local_folder(NAME)
            assert "\n" not in str(e.value)


def test_public_model_is_not_taken_for_a_private_one(server: HubServer, folder: Path) -> None:
    push(folder, NAME)
    server.sent.clear()
    (folder / "scores.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="`private` must be left out for a public repository"):
        push(folder, NAME, private=True)
    assert server.sent == []


def test_private_model_stays_private_and_that_is_said(server: HubServer, folder: Path) -> None:
    server.repositories[NAME] = repository = Repository(private=True)
    repository.commit("main", {}, "initial")
    said: list[str] = []
    push(folder, NAME, say=said.append)
    assert f"{NAME} is private and stays so." in said and repository.private


def large_weights(folder: Path) -> bytes:
    save_file({"weight": torch.arange(140_000).float()}, folder / "model.safetensors")
    return (folder / "model.safetensors").read_bytes()


def test_connection_that_breaks_once_is_no_failure(server: HubServer, folder: Path) -> None:
    """In the middle of a file that goes in three parts."""
    weights = large_weights(folder)
    server.cuts[sha256(weights)] = 1
    push(folder, NAME)
    assert server.files(NAME)["model.safetensors"] == weights
    assert sum(line.startswith("PUT") for line in server.lines) == 1 + 3


def test_interrupted_push_is_taken_up_again(server: HubServer, folder: Path) -> None:
    """What arrived before the connection broke for good is not sent a second time."""
    weights = large_weights(folder)
    picture = b"a picture" * 10
    (folder / "attention.png").write_bytes(picture)
    server.cuts[sha256(weights)] = 100
    with pytest.raises(InputError, match=r"within reach.*Run the command again") as caught:
        push(folder, NAME)
    assert "\n" not in str(caught.value)
    assert set(server.files(NAME)) == {".gitattributes"}
    assert server.sent == [sha256(picture)]
    server.cuts.clear()
    push(folder, NAME)
    assert server.sent.count(sha256(picture)) == server.sent.count(sha256(weights)) == 1
    assert server.files(NAME)["attention.png"] == picture


def test_dry_run_sends_nothing_and_lists_the_files(
    server: HubServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "optimizer.pt").write_bytes(b"a pickle")
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    (add_checkpoint(folder, 7) / "optimizer.pt").write_bytes(b"another")
    assert main(["push", str(folder), NAME, "--dry-run", "--checkpoints"]) == 0
    assert server.lines == []
    told = capsys.readouterr()
    assert told.out == ""
    for name in ("config.json", "model.safetensors", "modeling_vaswani.py", "README.md"):
        assert f"\n  {name}\n" in told.err
    assert "stays here: optimizer.pt (state of training)" in told.err
    assert "stays here: notes.txt (no part of a model)" in told.err
    assert "stays here: checkpoint-7/optimizer.pt (state of training)" in told.err
    assert told.err.count("\n  README.md\n") == 2


def test_command_prints_the_address_alone(
    server: HubServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["push", str(folder), NAME]) == 0
    assert capsys.readouterr().out == f"{server.url}/{NAME}\n"


def test_all_that_is_wrong_is_said_at_once(
    server: HubServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_ready_card(folder, license=None)
    (folder / "loss_vaswani.py").unlink()
    (folder / ".env").write_text("KEY=1", encoding="utf-8")
    (folder / "settings.yaml").write_text("seed: 1\ndata: /home/ada/letters.tsv\n", "utf-8")
    assert main(["push", str(folder), NAME]) == 2
    told = capsys.readouterr()
    assert told.out == "" and len(told.err.splitlines()) == 1
    for part in (
        "loss_vaswani.py is missing",
        "README.md: it states no license",
        ".env is a file of secrets",
        "settings.yaml, line 2 holds the path /home/ada/letters.tsv",
    ):
        assert part in told.err
    assert server.lines == []


def test_file_that_is_left_out_is_not_checked_and_not_sent(server: HubServer, folder: Path) -> None:
    (folder / "settings.yaml").write_text("data: /home/ada/letters.tsv\n", encoding="utf-8")
    push(folder, NAME, leave_out=["settings.yaml"])
    assert "settings.yaml" not in server.files(NAME)
    with pytest.raises(InputError, match=r"must not name what loading needs, got config.json"):
        push(folder, NAME, leave_out=["config.json"])


def test_license_can_be_stated_when_pushing(server: HubServer, folder: Path) -> None:
    write_ready_card(folder, license=None)
    push(folder, NAME, license="cc-by-sa-4.0")
    card = server.files(NAME)["README.md"].decode()
    assert 'license: "cc-by-sa-4.0"' in card and "The weights are under cc-by-sa-4.0." in card
    assert "No license has been stated" not in card
    write_ready_card(folder, license="mit")
    with pytest.raises(InputError, match=r"`license` must be the one that README.md states"):
        push(folder, NAME, license="cc-by-sa-4.0")


def test_card_that_was_edited_on_the_hub_stays(server: HubServer, folder: Path) -> None:
    push(folder, NAME)
    repository = server.repositories[NAME]
    edited = server.files(NAME)["README.md"].replace(b"## Scores", b"Use with care.\n\n## Scores")
    repository.commit("main", {**server.files(NAME), "README.md": edited}, "by hand")
    (folder / "scores.json").write_text("{}", encoding="utf-8")
    said: list[str] = []
    push(folder, NAME, say=said.append)
    assert server.files(NAME)["README.md"] == edited
    assert server.files(NAME)["scores.json"] == b"{}"
    assert any("was edited on the Hub and stays" in line for line in said)
    push(folder, NAME, replace_card=True)
    assert b"Use with care." not in server.files(NAME)["README.md"]


def test_words_that_a_person_wrote_into_the_card_are_sent(server: HubServer, folder: Path) -> None:
    path = folder / "README.md"
    text = path.read_text(encoding="utf-8").replace("## Scores", "Mine: ä.\n\n## Scores")
    path.write_text(text, encoding="utf-8")
    push(folder, NAME)
    assert "Mine: ä." in server.files(NAME)["README.md"].decode()


@pytest.mark.parametrize(
    ("token", "name", "message"),
    [
        (None, NAME, "a token of the Hub must be there to push, got none. Log in"),
        ("hf_unknown", NAME, "the token must be one that the Hub knows, got 401"),
        ("hf_of_bob", NAME, "the token must have the right to do this with ada/en-de, got 403"),
    ],
)
def test_token_that_will_not_do_is_named(
    server: HubServer, folder: Path, tmp_path: Path, token: str | None, name: str, message: str
) -> None:
    with client_of(server, tmp_path / "other", token), pytest.raises(InputError) as caught:
        push(folder, name)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert NAME not in server.repositories


@pytest.mark.parametrize("name", ["en-de", "ada/en/de", "ada/en de", "ada/--", "/en-de", "ada/"])
def test_name_that_the_hub_would_refuse_is_refused_here(
    server: HubServer, folder: Path, name: str
) -> None:
    with pytest.raises(InputError, match="`repo_id` must be"):
        push(folder, name)
    assert server.lines == []


def test_no_network_is_one_line(
    server: HubServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(InputError, match=r"the Hub must be within reach.*127.0.0.1:9") as caught:
        push(folder, NAME)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"there is no such folder .* is out of reach .*network"):
        local_folder(NAME)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"is out of reach \(HF_HUB_OFFLINE is set\)"):
        local_folder(NAME)


def test_folder_without_checkpoints_or_card_is_named(
    server: HubServer, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="`checkpoints` must be left out for a folder without"):
        push(folder, NAME, checkpoints=True)
    (folder / "README.md").unlink()
    with pytest.raises(InputError, match=r"README\.md is missing"):
        push(folder, NAME)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        push(tmp_path / "nowhere", NAME)


def test_gated_model_is_named_as_such(server: HubServer, folder: Path, tmp_path: Path) -> None:
    push(folder, NAME)
    server.repositories[NAME].gated = True
    other = client_of(server, tmp_path / "other", "hf_of_bob")
    with other, pytest.raises(InputError, match=r"which is gated\. Ask for access"):
        local_folder(NAME)


def test_only_what_loading_needs_is_fetched(server: HubServer, folder: Path) -> None:
    """Never code: it would lie in the cache for a call with `trust_remote_code`."""
    push(folder, NAME)
    older = {**server.files(NAME), "older/model.safetensors": b"weights of another model"}
    server.repositories[NAME].commit("main", older, "by hand")
    fetched = {path.name for path in local_folder(NAME).iterdir()}
    assert fetched >= {"config.json", "model.safetensors", "tokenizer.json"}
    assert not any(name.endswith((".py", ".md", ".tsv")) for name in fetched)
    assert "older" not in fetched
    assert not any(".py" in line for line in server.lines if "/resolve/" in line)


def test_fetched_model_needs_no_network_again(server: HubServer, folder: Path) -> None:
    push(folder, NAME)
    first = local_folder(NAME)
    shutil.rmtree(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
        assert local_folder(NAME) == first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "ada/none"}, "`model` must be a folder or a repository on the Hub, got ada/none"),
        ({"name": NAME, "revision": "none"}, "`revision` must be a branch, tag or commit of"),
    ],
)
def test_missing_model_or_revision_is_named(
    server: HubServer, folder: Path, arguments: dict[str, Any], message: str
) -> None:
    push(folder, NAME)
    with pytest.raises(InputError) as caught:
        local_folder(**arguments)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_revision_of_a_folder_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="`revision` must be left out for a folder"):
        local_folder(folder, revision="main")
