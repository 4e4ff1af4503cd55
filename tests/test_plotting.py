"""Pictures of attention hold the model's own weights and name the right tokens."""

from pathlib import Path

import pytest
import torch

from vaswani import VaswaniForConditionalGeneration, VaswaniTokenizer
from vaswani.errors import InputError
from vaswani.plotting import cross_attention, draw_cross_attention

SOURCE, TARGET = "the small house", "das kleine Haus"


def test_cross_attention_has_a_row_per_target_and_a_column_per_source_token(
    tiny_model: VaswaniForConditionalGeneration, tiny_tokenizer: VaswaniTokenizer
) -> None:
    weights, rows, columns = cross_attention(tiny_model, tiny_tokenizer, SOURCE, TARGET)
    config = tiny_model.config
    assert weights.shape == (
        config.decoder_layers,
        config.decoder_attention_heads,
        len(tiny_tokenizer(TARGET)["input_ids"]),
        len(tiny_tokenizer(SOURCE)["input_ids"]),
    )
    assert (len(rows), len(columns)) == weights.shape[2:]
    assert rows[-1] == columns[-1] == "</s>"
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:3]))


def test_cross_attention_changes_with_the_source(
    tiny_model: VaswaniForConditionalGeneration, tiny_tokenizer: VaswaniTokenizer
) -> None:
    """Weights of another sentence of the same length would pass the test of shapes."""
    first, _, _ = cross_attention(tiny_model, tiny_tokenizer, "a b", TARGET)
    second, _, _ = cross_attention(tiny_model, tiny_tokenizer, "b a", TARGET)
    assert first.shape == second.shape
    assert not torch.allclose(first, second)


def test_draw_writes_a_png(
    tiny_model: VaswaniForConditionalGeneration, tiny_tokenizer: VaswaniTokenizer, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="the extra `demo` brings it")
    path = draw_cross_attention(tiny_model, tiny_tokenizer, SOURCE, TARGET, tmp_path / "a.png")
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_draw_refuses_a_layer_that_is_not_there(
    tiny_model: VaswaniForConditionalGeneration, tiny_tokenizer: VaswaniTokenizer, tmp_path: Path
) -> None:
    path = tmp_path / "a.png"
    with pytest.raises(InputError, match=r"`layer` must be below the \d+ layers .* got 9\."):
        draw_cross_attention(tiny_model, tiny_tokenizer, SOURCE, TARGET, path, layer=9)
    assert not path.exists()
