"""Pictures show the numbers that they are made of, beside the right names."""

import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration

pytest.importorskip("matplotlib", reason="the extra `plot` brings it")
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.image import imread

from vaswani.attention_maps import AttentionMap
from vaswani.errors import InputError
from vaswani.modeling_vaswani import VaswaniEncoder
from vaswani.plotting import (
    attention_figure,
    position_table,
    positions_figure,
    save_figure,
    schedule_figure,
)

QUERIES = ("<s>", " The", " ba", "ker", " pays", " $", "5", "&", "2")
KEYS = (" Бу", "дет", " $", "<", "字", " سلام", "</s>")


def attention_map(heads: int = 3, queries=QUERIES, keys=KEYS, part="cross") -> AttentionMap:
    torch.manual_seed(0)
    weights = (2 * torch.randn(heads, len(queries), len(keys))).softmax(-1)
    return AttentionMap(weights, tuple(queries), tuple(keys), part, 1, 6)


def drawn_lines(figure) -> dict[int, dict[tuple[int, int], float]]:
    """Opacity of the line from query to key of each head, read from where lines and texts are."""
    found: dict[int, dict[tuple[int, int], float]] = {}
    for axes in figure.axes:
        tokens = [text for text in axes.texts if text.get_va() == "center_baseline"]
        places = [
            {round(text.get_position()[1], 6): k for k, text in enumerate(column)}
            for column in (
                [text for text in tokens if text.get_ha() == side] for side in ("right", "left")
            )
        ]
        for lines in (item for item in axes.collections if isinstance(item, LineCollection)):
            head = int(lines.get_label().removeprefix("head "))
            for (start, end), color in zip(lines.get_segments(), lines.get_colors(), strict=True):
                place = places[0][round(start[1], 6)], places[1][round(end[1], 6)]
                found.setdefault(head, {})[place] = color[3]
    return found


@pytest.mark.parametrize("together", [False, True])
def test_opacity_of_every_line_is_its_weight(together) -> None:
    attention = attention_map()
    found = drawn_lines(attention_figure(attention, together=together))
    for head in range(3):
        for (query, key), weight in np.ndenumerate(attention.weights[head].numpy()):
            # What is left out would hardly be seen.
            assert found[head].get((query, key), 0.0) == pytest.approx(weight, abs=0.01)
    strong = int((attention.weights > 0.0101).sum())
    assert sum(map(len, found.values())) >= strong


def test_each_head_has_a_panel_and_a_color_of_its_own() -> None:
    figure = attention_figure(attention_map(), heads=[2, 0])
    assert [axes.texts[0].get_text() for axes in figure.axes] == ["head 0", "head 2"]
    colors = {tuple(axes.collections[0].get_colors()[0][:3]) for axes in figure.axes}
    assert len(colors) == 2
    alone = attention_figure(attention_map(), heads=[2]).axes[0]
    # The same head keeps its color, whatever it is drawn with.
    assert tuple(alone.collections[0].get_colors()[0][:3]) in colors


def test_words_choose_the_tokens_that_look() -> None:
    """As in Figure 3: one word, all heads in one panel."""
    figure = attention_figure(attention_map(), words=["baker"])
    assert len(figure.axes) == 1
    found = drawn_lines(figure)
    assert set(found) == {0, 1, 2}
    assert {query for lines in found.values() for query, _ in lines} == {2, 3}


def test_word_of_the_keys_chooses_what_looks_at_it() -> None:
    found = drawn_lines(attention_figure(attention_map(), words=["Будет"]))
    assert {key for lines in found.values() for _, key in lines} == {0, 1}
    assert len({query for lines in found.values() for query, _ in lines}) > 2


def test_heatmap_holds_the_weights_and_its_rows_sum_to_1() -> None:
    attention = attention_map()
    figure = attention_figure(attention, style="heatmap", heads=[1, 2])
    images = [np.asarray(a.images[0].get_array()) for a in figure.axes if len(a.images)]
    assert len(images) == 2
    for image, head in zip(images, (1, 2), strict=True):
        np.testing.assert_array_equal(image, attention.weights[head].numpy())
        np.testing.assert_allclose(image.sum(axis=1), 1.0, rtol=1e-5)
    figure = attention_figure(attention, style="heatmap", together=True)
    (image,) = [np.asarray(a.images[0].get_array()) for a in figure.axes if len(a.images)]
    np.testing.assert_allclose(image, attention.weights.mean(0).numpy(), rtol=1e-6)


@pytest.mark.parametrize("style", ["lines", "heatmap"])
def test_svg_keeps_every_token_as_text(tmp_path: Path, style) -> None:
    figure = attention_figure(attention_map(), style=style, heads=[0])
    root = ElementTree.parse(save_figure(figure, tmp_path / "a.svg")).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = ["".join(item.itertext()) for item in root.iter("{http://www.w3.org/2000/svg}text")]
    shown = ["<s>", "The", "ba", "·ker", "pays", "$", "5", "&", "2"]
    shown += ["Бу", "·дет", "<", "字", "سلام", "</s>", "head 0"]
    assert set(shown) <= set(texts)
    assert texts.count("$") == 2
    again = save_figure(figure, tmp_path / "b.svg")
    assert again.read_bytes() == (tmp_path / "a.svg").read_bytes()


@pytest.mark.parametrize("style", ["lines", "heatmap"])
def test_png_has_the_size_of_the_figure_and_is_not_blank(tmp_path: Path, style) -> None:
    figure = attention_figure(attention_map(), style=style, heads=[0])
    path = save_figure(figure, tmp_path / "a.png")
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    pixels = imread(path)
    width, height = figure.get_size_inches()
    assert pixels.shape[:2] == pytest.approx((height * 150, width * 150), abs=1)
    assert pixels[..., :3].min() < 0.2 and pixels[..., :3].max() == 1.0


@pytest.mark.parametrize("count", [1, 60, 200])
@pytest.mark.parametrize("style", ["lines", "heatmap"])
def test_nothing_is_written_beyond_the_edges(count, style) -> None:
    """Of short and long sentences: no name is cut off, and none covers the next."""
    attention = attention_map(1, ["application"] * count, ["Zusammengehörigkeitsgefühl"] * count)
    figure = attention_figure(attention, style=style)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    texts = [text for axes in figure.axes for text in axes.texts]
    maps = [axes for axes in figure.axes if axes.axison]
    texts += [label for axes in maps for label in axes.get_xticklabels()]
    texts += [label for axes in maps for label in axes.get_yticklabels()]
    texts += figure.texts
    right, top = figure.bbox.max
    for box in (text.get_window_extent(renderer) for text in texts if text.get_text()):
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= right and box.y1 <= top
    column = [text for text in texts if text.get_text() == "application"]
    heights = sorted(text.get_window_extent(renderer).y0 for text in column)
    size = column[0].get_fontsize() * figure.dpi / 72
    assert all(b - a >= size for a, b in pairwise(heights))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": [3]}, r"`heads` must be from 0 to 2, the heads of the layer, got 3\."),
        ({"heads": [-1]}, r"`heads` must be .* got -1\."),
        ({"heads": []}, r"`heads` must name at least one head"),
        ({"words": ["no"]}, r"`words` must be in the sentence, got 'no'\."),
        ({"words": []}, r"`words` must name at least one word"),
        ({"style": "bars"}, r"`style` must be one of lines, heatmap, got 'bars'\."),
    ],
)
def test_what_cannot_be_drawn_is_refused(settings, message) -> None:
    with pytest.raises(InputError, match=message):
        attention_figure(attention_map(), **settings)


def test_sentence_too_long_to_be_legible_is_refused() -> None:
    with pytest.raises(InputError, match=r"at most 200 tokens to be legible, got 201\."):
        attention_figure(attention_map(1, [" a"] * 201))


def test_other_endings_are_refused(tmp_path: Path) -> None:
    figure = attention_figure(attention_map(1))
    for name in ("a.jpg", "a", "png"):
        with pytest.raises(InputError, match=r"`output` must end in \.png or \.svg, got"):
            save_figure(figure, tmp_path / name)


def test_positions_are_the_sines_and_cosines_of_the_paper() -> None:
    encoder = VaswaniEncoder(VaswaniConfig.from_preset("tiny", encoder_layers=1, vocab_size=8))
    table = position_table(encoder, 50)
    width = encoder.config.d_model
    for position, feature in ((0, 0), (0, 1), (7, 4), (49, width - 1)):
        angle = position / 10_000 ** (2 * (feature // 2) / width)
        expected = np.cos(angle) if feature % 2 else np.sin(angle)
        assert table[position, feature].item() == pytest.approx(expected, abs=1e-5)
    image = positions_figure(table, title="$ x").axes[0].images[0]
    np.testing.assert_array_equal(np.asarray(image.get_array()), table.numpy())
    assert image.get_clim() == (-1.0, 1.0)
    with pytest.raises(InputError, match=r"`positions` must be at least 1, got 0\."):
        position_table(encoder, 0)
    with pytest.raises(InputError, match=r"`positions` must be at most 100,000, got 100001\."):
        position_table(encoder, 100_001)


def test_learned_positions_are_the_rows_of_the_table(tiny_config) -> None:
    if not hasattr(tiny_config, "position_encoding"):
        pytest.skip("this version has no learned positions")
    settings = {**tiny_config.to_dict(), "position_encoding": "learned"}
    config = VaswaniConfig(**settings | {"max_position_embeddings": 12})
    decoder = VaswaniForConditionalGeneration(config).model.decoder
    torch.testing.assert_close(position_table(decoder, 12), decoder.embed_positions.weight.detach())
    with pytest.raises(InputError, match=r"`positions` must be at most 12, the rows of the learn"):
        position_table(decoder, 13)


def test_schedule_has_a_curve_of_the_papers_formula_for_each_combination() -> None:
    figure = schedule_figure(d_models=[512, 1024], warmups=[4000, 8000], updates=20_000, factor=2.0)
    lines = figure.axes[0].get_lines()
    assert len(lines) == 4
    combinations = [(width, warmup) for width in (512, 1024) for warmup in (4000, 8000)]
    for line, (width, warmup) in zip(lines, combinations, strict=True):
        steps, rates = line.get_data()
        expected = 2 * width**-0.5 * np.minimum(steps**-0.5, steps * warmup**-1.5)
        np.testing.assert_allclose(rates, expected, rtol=1e-12)
        # The peak is among the points, wherever they lie.
        assert max(rates) == pytest.approx(2 * (width * warmup) ** -0.5)
        assert (steps[0], steps[-1]) == (1, 20_000)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"d_models": [0]}, r"`d_model` must be at least 1, got 0\."),
        ({"warmups": [-1]}, r"`warmup_steps` must be at least 0, got -1\."),
        ({"updates": 0}, r"`updates` must be at least 1, got 0\."),
        ({"factor": 0.0}, r"`learning_rate_factor` must be above 0 and finite, got 0\.0\."),
    ],
)
def test_impossible_schedules_are_refused(settings, message) -> None:
    with pytest.raises(InputError, match=message):
        schedule_figure(**{"d_models": [512], "warmups": [4], "updates": 9} | settings)


def test_an_interrupted_picture_leaves_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.svg"
    path.write_text("earlier", encoding="utf-8")
    figure = schedule_figure(d_models=[64], warmups=[10], updates=50)

    def half(place: Path, **others: object) -> None:
        Path(place).write_text("<svg", encoding="utf-8")
        raise KeyboardInterrupt("now")

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt, match="now"):
        patch.setattr(figure, "savefig", half)
        save_figure(figure, path)
    assert path.read_text(encoding="utf-8") == "earlier"
    assert list(tmp_path.iterdir()) == [path]
    save_figure(figure, path)
    assert "</svg>" in path.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [path]
