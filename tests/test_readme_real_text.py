"""The second example of the README, on a small package of the test's own: catalogs to a model."""

import sys
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from training_material import WORDS, reversal_pairs

from vaswani.cli import main


def install_program(site: Path) -> int:
    """A package with a German catalog, as pip leaves one; how many translations it has."""
    catalog = Catalog(locale="de")
    pairs = {source: target for source, target in reversal_pairs(200) if source != target}
    for source, target in pairs.items():
        catalog.add(source, string=target)
    catalog.add("%(n)s eins", string="eins %(m)s")  # another placeholder: no pair
    folder = site / "reversing/locale/de/LC_MESSAGES"
    folder.mkdir(parents=True)
    with (folder / "reversing.mo").open("wb") as file:
        write_mo(file, catalog)
    info = site / "reversing-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: reversing\nVersion: 1\n")
    (info / "RECORD").write_text("reversing/locale/de/LC_MESSAGES/reversing.mo,,\n")
    return len(pairs)


def test_catalogs_of_a_package_become_a_model_that_translates(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    count = install_program(tmp_path / "site")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "site")])
    monkeypatch.chdir(tmp_path)
    codes = ["--source", "en", "--target", "de"]
    words = ["--package", "reversing", "--language", "de", "--output", "pairs.tsv"]
    assert main(["corpus", "gettext", *words]) == 0
    assert "with other placeholders" in capsys.readouterr().out

    words = ["--output-dir", "parts", "--validation", "20", "--test", "20"]
    assert main(["corpus", "split", "--data", "pairs.tsv", *codes, *words]) == 0
    parts = {
        name: (tmp_path / f"parts/{name}.tsv").read_text().splitlines()
        for name in ("train", "validation", "test")
    }
    assert sum(map(len, parts.values())) <= count
    assert len(parts["validation"]) == len(parts["test"]) == 20

    words = ["--validation-data", "parts/validation.tsv", "--preset", "tiny", "--max-steps", "3"]
    words += ["--vocabulary-size", "300", "--output-dir", "run"]
    assert main(["train", "--data", "parts/train.tsv", *codes, *words]) == 0
    assert main(["evaluate", "--model", "run", "--data", "parts/test.tsv", *codes]) == 0
    assert "sentences       20" in capsys.readouterr().out

    (tmp_path / "in.txt").write_text("".join(f"{word}\n" for word in WORDS))
    words = ["--model", "run", "--input", "in.txt", "--output", "out.txt"]
    assert main(["translate", *words]) == 0
    assert len((tmp_path / "out.txt").read_text().splitlines()) == len(WORDS)
