"""Corpora, caches, settings and cards are data: nothing in them is executed.

Each test plants a canary, see test_security.py, or text that would do what it says.
"""

import io
import json
import pickle
import re
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from canary import Canary, plant
from training_material import reversal_pairs, tiny_model, tokenizer, write_tsv

from vaswani.checkpoints import average_checkpoints
from vaswani.cli import main
from vaswani.corpus_cache import CorpusCache, _note, stored_array
from vaswani.data import load_parallel
from vaswani.errors import InputError

LANGUAGES = ["--source", "en", "--target", "de"]


@pytest.fixture
def flown(tmp_path: Path):
    """The folder that a canary makes; at the end it must not be there."""
    folder = tmp_path / "flown"
    yield folder
    assert not folder.exists()


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    return str(write_tsv(tmp_path / "data.tsv", reversal_pairs(60)))


def last_line(capsys) -> str:
    return capsys.readouterr().err.splitlines()[-1]


# Caches


def test_an_array_of_objects_is_refused_by_name(tmp_path: Path, flown: Path) -> None:
    objects = np.empty(1, dtype=object)
    objects[0] = Canary(flown)
    np.save(tmp_path / "kept.npy", objects, allow_pickle=True)
    with pytest.raises(InputError, match=r"kept.npy, which is something else.*Delete "):
        stored_array(tmp_path / "kept.npy")
    plant(tmp_path / "kept.npy", flown, by="pickle")
    with pytest.raises(InputError, match=r"kept.npy, which is something else.*Delete "):
        stored_array(tmp_path / "kept.npy")


def train(corpus: str, cache: Path, output: Path) -> int:
    words = ["train", "--data", corpus, *LANGUAGES, "--preset", "tiny", "--device", "cpu"]
    words += ["--cache-dir", str(cache), "--output-dir", str(output), "--max-steps", "1"]
    words += [
        "--vocabulary-size",
        "300",
        "--validation-split",
        "5",
        "--filters",
        "duplicates",
        "--dry-run",
    ]
    return main(words)


def test_canaries_in_a_cache_with_right_checksums_are_refused_by_name(
    corpus: str, tmp_path: Path, flown: Path, capsys
) -> None:
    """Whoever can write there can also write the checksums that tell damage."""
    cache = tmp_path / "cache"
    assert train(corpus, cache, tmp_path / "first") == 0
    planted = 0
    for path in sorted([*cache.glob("*/*.arrow"), *cache.glob("*/*.npy")]):
        good, facts = path.read_bytes(), (path.parent / "entry.json").read_bytes()
        plant(path, flown, by="pickle")
        (path.parent / "entry.json").unlink()
        _note(path.parent, json.loads(facts)["facts"])
        assert train(corpus, cache, tmp_path / "second") == 2
        assert f"{path}, which is something else" in last_line(capsys)
        path.write_bytes(good)
        (path.parent / "entry.json").write_bytes(facts)
        planted += 1
    assert planted >= 3
    assert train(corpus, cache, tmp_path / "second") == 0


def test_the_facts_of_an_entry_are_json(tmp_path: Path, flown: Path) -> None:
    cache = CorpusCache(tmp_path / "cache")
    entry = cache.entry("pairs", "k", lambda folder: {})
    plant(entry.folder / "entry.json", flown, by="pickle")
    assert not cache.entry("pairs", "k", lambda folder: {}).found


def test_a_dataset_folder_with_a_pickle_is_refused(tmp_path: Path, flown: Path) -> None:
    pairs = load_parallel(write_tsv(tmp_path / "x.tsv", [("a", "b")]), source="en", target="de")
    pairs.save_to_disk(str(tmp_path / "saved"))
    for path in (tmp_path / "saved").glob("*.arrow"):
        plant(path, flown, by="pickle")
    with pytest.raises(InputError, match="saved"):
        load_parallel(tmp_path / "saved", source="en", target="de")


def test_the_journal_of_a_translation_is_json(tmp_path: Path, flown: Path, capsys) -> None:
    tiny_model().save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "in.txt").write_text("eins zwei\n")
    (tmp_path / ".out.txt.partial").write_text("")
    plant(tmp_path / ".out.txt.journal", flown, by="pickle")
    words = ["translate", "--model", str(tmp_path / "model"), "--input", str(tmp_path / "in.txt")]
    assert main([*words, "--output", str(tmp_path / "out.txt"), "--resume"]) == 0
    assert (tmp_path / "out.txt").is_file()


# Settings

YAML = "!!python/object/apply:os.mkdir [{flown}]"


def test_settings_are_read_by_the_safe_loader(
    corpus: str, tmp_path: Path, flown: Path, capsys
) -> None:
    text = YAML.format(flown=flown)
    yaml.unsafe_load(text.replace(str(flown), str(tmp_path / "other")))
    assert (tmp_path / "other").is_dir()  # so the text does what it says
    (tmp_path / "settings.yaml").write_text(f"seed: {text}\n")
    words = ["train", "--data", corpus, *LANGUAGES, "--output-dir", str(tmp_path / "run")]
    assert main([*words, "--config", str(tmp_path / "settings.yaml")]) == 2
    assert "settings.yaml, line 1: `--config` must be YAML, got: could not" in last_line(capsys)
    assert main([*words, "--config-overrides", f"d_model={text}"]) == 2
    assert "`config_overrides` must have values in YAML or JSON" in last_line(capsys)
    assert main([*words, "--recipe", "../../settings"]) == 2
    assert "`recipe` must be one of" in last_line(capsys)
    assert not (tmp_path / "run").exists()


def test_averaging_reads_a_runs_settings_by_the_safe_loader(tmp_path: Path, flown: Path) -> None:
    folder = tmp_path / "run" / "checkpoint-1"
    tiny_model().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    (folder / "trainer_state.json").write_text("{}")
    (tmp_path / "run" / "settings.yaml").write_text(f"source: {YAML.format(flown=flown)}\n")
    average_checkpoints([folder], tmp_path / "average")
    assert (tmp_path / "average" / "model.safetensors").is_file()


# Corpora


def tar_with_odd_places(path: Path) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name in ("../escaped.tsv", "/tmp/vaswani-escaped.tsv"):
            member = tarfile.TarInfo(name)
            member.size = 4
            archive.addfile(member, io.BytesIO(b"a\tb\n"))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)


def zip_with_odd_places(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("../escaped.tsv", "/tmp/vaswani-escaped.tsv"):
            archive.writestr(name, "a\tb\n")


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("corpus.tar.gz", tar_with_odd_places),
        ("corpus.tgz", tar_with_odd_places),
        ("corpus.zip", zip_with_odd_places),
    ],
)
def test_archives_are_refused_and_nothing_is_unpacked(
    name: str, write: Any, tmp_path: Path, capsys
) -> None:
    """One file is unpacked as a stream; names inside an archive never become paths."""
    inside = tmp_path / "inside"
    inside.mkdir()
    write(inside / name)
    words = ["corpus", "stats", "--data", str(inside / name), *LANGUAGES]
    assert main(words) == 2
    assert name in last_line(capsys)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [name]
    assert not Path("/tmp/vaswani-escaped.tsv").exists()


def test_the_plural_rule_of_a_catalog_is_not_evaluated(tmp_path: Path, flown: Path) -> None:
    """The header of a catalog holds an expression; only its text side is read."""
    rule = f"nplurals=2; plural=__import__('os').mkdir({str(flown)!r})"
    header = f'"Content-Type: text/plain; charset=UTF-8\\n"\n"Plural-Forms: {rule};\\n"\n'
    header += '"Language: de\\n"\n'
    body = 'msgid "The file is open."\nmsgstr "Die Datei ist offen."\n'
    path = tmp_path / "de.po"
    path.write_text(f'msgid ""\nmsgstr ""\n{header}\n{body}', encoding="utf-8")
    found = load_parallel(path, source="en", target="de")
    assert found["translation"][0] == {"de": "Die Datei ist offen.", "en": "The file is open."}


@pytest.mark.parametrize("name", ["data.tsv", "data.jsonl", "data.tmx", "data.po", "data.mo"])
def test_a_pickle_under_the_name_of_a_corpus_is_no_corpus(
    name: str, tmp_path: Path, flown: Path
) -> None:
    (tmp_path / name).write_bytes(pickle.dumps(Canary(flown), protocol=0) + b"\n")
    with pytest.raises(InputError, match=name):
        load_parallel(tmp_path / name, source="en", target="de")


# Cards


def test_a_card_shows_template_signs_as_they_are(tmp_path: Path, flown: Path, monkeypatch) -> None:
    """Values of a user are filled in, never taken for a template."""
    code = f"{{{{ cycler.__init__.__globals__.os.mkdir('{flown.name}') }}}}{{{{ 7 * 7 }}}}"
    folder = tmp_path / code / "checkpoint-1"
    tiny_model().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    (folder / "trainer_state.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    average_checkpoints([folder], tmp_path / "average")
    card = (tmp_path / "average" / "README.md").read_text(encoding="utf-8")
    assert re.search(r"\{\{ 7 \\?\* 7 \}\}/checkpoint-1", card)
