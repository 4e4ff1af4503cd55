"""`vaswani.hub_leaks`: secrets and paths that must not be published, and text that may."""

import tempfile
from pathlib import Path

import pytest

from vaswani.hub_leaks import leaks, secret_files

# None is a real one; each is put together here, so that no scanner takes this file for a leak.
SECRETS = {
    "a Hugging Face token": "hf_" + "aB3" * 12,
    "an AWS access key": "AKIA" + "ABCD2345" * 2,
    "an AWS secret key": "aws_secret_access_key = " + "aB3/" * 10,
    "a private key": "-----BEGIN OPENSSH PRIVATE" + " KEY-----",
    "a GitHub token": "ghp_" + "aB3" * 12,
    "a GitLab token": "glpat-" + "aB3" * 8,
    "a Google key": "AIza" + "aB3-_" * 7,
    "a Slack token": "xoxb-" + "12345-" * 3 + "ab",
    "an OpenAI key": "sk-proj-" + "aB3" * 14,
    "a Weights & Biases key": "WANDB_API_KEY=" + "a1b2" * 10,
    "a password in an address": "https://ada:secret" + "@example.org/x",
}


def found(text: str, *, is_record: bool = True, folder: Path = Path("/nowhere/at/all")) -> list:
    return list(leaks(text, is_record=is_record, folder=folder))


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("is_record", [False, True])
def test_secret_is_found_and_its_line_named(kind: str, is_record: bool) -> None:
    text = f'first: 1\n"key": "{SECRETS[kind]}"\n'
    assert found(text, is_record=is_record) == [f"line 2 holds {kind}"]


@pytest.mark.parametrize(
    "text",
    [
        "data: /home/ada/corpus.tsv",
        '"_name_or_path": "/tmp/run/checkpoint-5"',
        "data: [a.tsv, /mnt/disk/b.tsv]",
        "output_dir: /Users/ada/runs",
        r'"path": "C:\\Users\\ada\\runs"',
        "from file:///home/ada/model",
        "cd /workspace/run && ls",
        "data: /usr/lib/x.tsv",
    ],
)
def test_absolute_path_in_a_record_is_found(text: str) -> None:
    assert len(found(text)) == 1 and " holds the path " in found(text)[0]


@pytest.mark.parametrize(
    "text",
    [
        "see https://arxiv.org/abs/1706.03762 and http://home/tmp/x",
        "runs/base/checkpoint-5 or ./data/x.tsv or ../tmp/x or ~/corpus/x.tsv",
        "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0",
        "and/or, 1/2, km/h, </s>, en/de, /, //, 06/11/2017",
        "hf_token, AKIA, sk-learn, -----BEGIN-----, ada@example.org",
        "wmt/wmt14:de-en:test",
    ],
)
def test_what_only_looks_like_a_leak_passes(text: str) -> None:
    assert found(text) == []


def test_path_in_a_sentence_passes_but_not_one_of_this_machine(tmp_path: Path) -> None:
    """Message catalogs are full of paths; where the model was trained is another matter."""
    folder = tmp_path / "runs" / "en-de"
    folder.mkdir(parents=True)
    assert found("Cannot open /usr/share/doc: no such file", is_record=False) == []
    told = found(f"x\nwritten to {folder}/log", is_record=False, folder=folder)
    assert told == [f"line 2 holds the path {folder.parent}"]


def test_home_folder_is_a_path_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", "/export/people/ada")
    monkeypatch.setattr(tempfile, "tempdir", "/export/t")
    text = "Saved in /export/people/ada/run"
    assert found(text, is_record=False) == ["line 1 holds the path /export/people/ada"]


def test_files_of_secrets_are_known_by_their_names() -> None:
    secret = [".env", ".env.local", ".netrc", "token", "id_rsa", "id_ed25519", "key.pem", ".pypirc"]
    harmless = ["tokenizer.json", "token.json", "environment.yml", "README.md", "model.safetensors"]
    assert secret_files([*secret, *harmless]) == secret
