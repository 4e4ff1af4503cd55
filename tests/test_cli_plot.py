"""Claims about `vaswani plot`: from a model folder to a picture, or to one line of refusal."""

from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the extra `plot` brings it")
from vaswani.cli import main
from vaswani.translation import Translator

PNG = b"\x89PNG\r\n\x1a\n"


def plot(*words: object) -> int:
    return main(["plot", *map(str, words)])


@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("style", ["lines", "heatmap"])
def test_attention_is_drawn_from_a_folder(tmp_path, tiny_folder, capsys, part, style) -> None:
    output = tmp_path / "a.svg"
    words = ["--model", tiny_folder, "--source", "The baker", "--target", "Kind $1", "--part", part]
    words += ["--style", style, "--heads", 0, 3, "--layer", 0, "--output", output]
    assert plot("attention", *words) == 0
    assert capsys.readouterr().out == f"{output}\n"
    text = output.read_text(encoding="utf-8")
    assert "head 0" in text and "head 3" in text and "head 1" not in text
    assert "layer 0 of 2" in text
    assert (">$<" in text) == (part != "encoder")


def test_without_target_the_model_translates(tmp_path, copying_model, tiny_tokenizer) -> None:
    folder, output = tmp_path / "copying", tmp_path / "a.svg"
    copying_model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    source = "The baker sees the Kind."
    assert plot("attention", "--model", folder, "--source", source, "--output", output) == 0
    (translation,) = Translator(copying_model, tiny_tokenizer).translate([source])
    tokens = tiny_tokenizer.convert_ids_to_tokens(
        tiny_tokenizer(text_target=translation.text)["input_ids"]
    )
    text = output.read_text(encoding="utf-8")
    heads = copying_model.config.decoder_attention_heads
    # Queries and keys are one sentence where a model copies.
    assert translation.text == source
    assert text.count(">&lt;/s&gt;<") == 2 * heads == 8 and len(tokens) > 4


def test_words_highlight_and_panels_are_chosen(tmp_path, tiny_folder) -> None:
    output = tmp_path / "a.png"
    words = ["--model", tiny_folder, "--source", "The baker sees", "--part", "encoder"]
    assert plot("attention", *words, "--words", "baker", "--output", output) == 0
    one = output.stat().st_size
    words += ["--words", "baker", "--panels", "each", "--output", output]
    assert plot("attention", *words) == 0
    assert output.read_bytes().startswith(PNG) and output.stat().st_size > one


def test_script_without_a_font_is_named_in_one_line(
    tmp_path, tiny_folder, monkeypatch, caplog
) -> None:
    from matplotlib import font_manager

    from vaswani import plot_fonts

    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [])
    plot_fonts._installed_faces.cache_clear()
    output = tmp_path / "a.png"
    words = ["--model", tiny_folder, "--source", "कम", "--target", "x", "--output", output]
    assert plot("attention", *words) == 0
    plot_fonts._installed_faces.cache_clear()
    assert "No installed font has the Devanagari characters" in caplog.text
    assert len([r for r in caplog.records if r.name.startswith("vaswani")]) == 1
    assert output.read_bytes().startswith(PNG)


def test_positions_are_drawn_of_a_preset_and_of_a_folder(tmp_path, tiny_folder, capsys) -> None:
    output = tmp_path / "p.svg"
    assert plot("positions", "--preset", "base", "--output", output) == 0
    assert "Sinusoidal positions, d_model 512" in output.read_text(encoding="utf-8")
    words = ["--model", tiny_folder, "--part", "decoder", "--positions", 20, "--output", output]
    assert plot("positions", *words) == 0
    assert "Sinusoidal positions, d_model 32" in output.read_text(encoding="utf-8")


def test_schedule_is_drawn(tmp_path, capsys) -> None:
    output = tmp_path / "s.png"
    words = "--d-model 512 1024 --warmup-steps 4000 8000 --updates 9000 --output"
    assert plot("schedule", *words.split(), output) == 0
    assert output.read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("attention", "`--model FOLDER`, `--source TEXT`, `--output FILE` must be given"),
        ("attention --model m --source a --output a.gif", "`output` must end in .png or .svg"),
        ("attention --model m --source a --output no/a.png", "in an existing folder"),
        ("attention --model none --source a --output a.png", "existing folder, got none"),
        ("attention --model FOLDER --source a --layer 7 --output a.png", "from 0 to 1"),
        ("attention --model FOLDER --source a --heads 9 --output a.png", "`heads` must be from 0"),
        ("attention --model FOLDER --source a --words b --target a --output a.png", "`words` must"),
        ("attention --model FOLDER --source a --target b --font x --output a.png", "`font` must"),
        ("attention --part middle", "must be one of cross, encoder, decoder, got 'middle'"),
        ("positions --output a.png", "either `--preset` or `--model` must be given, got neither"),
        ("positions --preset big --output a.png", "`preset` must be one of base"),
        ("positions --preset base --positions 0 --output a.png", "`positions` must be at least 1"),
        ("schedule --updates 0 --output a.png", "`updates` must be at least 1"),
        ("schedule --updates 9 --output a.pdf", "`output` must end in"),
    ],
)
def test_impossible_requests_are_refused_in_one_line(
    tmp_path: Path, tiny_folder, monkeypatch, capsys, words, message
) -> None:
    monkeypatch.chdir(tmp_path)
    assert plot(*words.replace("FOLDER", str(tiny_folder)).split()) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and message in captured.err
    assert not list(tmp_path.glob("a.*"))
