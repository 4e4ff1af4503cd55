"""Every character of a picture gets a font that has it, or is named in a notice."""

import logging
import warnings
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the extra `plot` brings it")
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager
from matplotlib.figure import Figure

from vaswani import plot_fonts
from vaswani.errors import InputError
from vaswani.plot_fonts import font_families


@pytest.fixture(autouse=True)
def no_installed_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without fonts, except those that a test names."""
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [])
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [*font_manager.fontManager.ttflist])
    plot_fonts._installed_faces.cache_clear()
    yield
    plot_fonts._installed_faces.cache_clear()


def make_font(path: Path, family: str, characters: str, style: str = "Regular") -> Path:
    """A font with a square for each of the characters and nothing else."""
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for corner in ((0, 500), (500, 500), (500, 0)):
        pen.lineTo(corner)
    pen.closePath()
    square = pen.glyph()
    names = [".notdef", *(f"square{k}" for k in range(len(characters)))]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap(dict(zip(map(ord, characters), names[1:], strict=True)))
    builder.setupGlyf({name: square for name in names})
    builder.setupHorizontalMetrics({name: (600, 0) for name in names})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": family, "styleName": style})
    builder.setupOS2()
    builder.setupPost()
    builder.save(path)
    return path


def test_scripts_of_the_usual_font_need_no_other(caplog) -> None:
    texts = ["Straße", "λόγος", "слово", "كلمة", "מילה", "a\u200db\ufe0f", "$"]
    assert font_families(texts) == ["DejaVu Sans"]
    assert caplog.text == ""


def test_characters_without_a_font_are_named_in_one_notice(caplog) -> None:
    with caplog.at_level(logging.WARNING):
        assert font_families(["कम", "字"]) == ["DejaVu Sans"]
    (record,) = caplog.records
    message = record.getMessage()
    for part in ("Devanagari and Han", "क म 字", "fonts-noto-core", "`--font`"):
        assert part in message
    assert "\n" not in message


def test_installed_fonts_are_taken_by_what_they_cover(tmp_path, monkeypatch, caplog) -> None:
    paths = [
        make_font(tmp_path / "a.ttf", "Covers One", "क"),
        make_font(tmp_path / "b.ttf", "Covers Two", "कम"),
        make_font(tmp_path / "c.ttf", "Covers Two Bold", "कम", "Bold"),
        make_font(tmp_path / "d.ttf", "Han", "字"),
        make_font(tmp_path / "e.ttf", "Last Resort", "कम字"),
    ]
    (tmp_path / "f.ttf").write_text("no font")
    found = [*map(str, paths), str(tmp_path / "f.ttf")]
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: found)
    assert font_families(["कम字"]) == ["DejaVu Sans", "Covers Two", "Han"]
    assert caplog.text == ""


def test_named_font_file_comes_first_and_draws(tmp_path, caplog) -> None:
    path = make_font(tmp_path / "named.ttf", "Named Font", "क")
    families = font_families(["क"], fonts=[path])
    assert families == ["Named Font", "DejaVu Sans"] and caplog.text == ""
    figure = Figure()
    figure.text(0.5, 0.5, "a क", fontfamily=families)
    with warnings.catch_warnings():
        # matplotlib warns of missing glyphs and of families that it does not know.
        warnings.simplefilter("error")
        figure.savefig(tmp_path / "a.png")


def test_file_that_is_no_font_is_refused(tmp_path) -> None:
    (tmp_path / "text.ttf").write_text("no font")
    with pytest.raises(InputError, match="`font` must be a TrueType or OpenType font, got"):
        font_families(["a"], fonts=[tmp_path / "text.ttf"])
    with pytest.raises(FileNotFoundError, match="`font` must be an existing font file"):
        font_families(["a"], fonts=[tmp_path / "none.ttf"])
