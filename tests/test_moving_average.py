"""The moving average of weights beside that of torch, in formats and places where it differs."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from training_material import tiny_model, weights

from vaswani.errors import InputError
from vaswani.moving_average import MovingAverage


def shake(model: torch.nn.Module, seed: int) -> None:
    """Stands for an update of the optimizer."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("tied", [True, False])
def test_average_is_that_of_torch(decay: float, tied: bool) -> None:
    model = tiny_model(tie_word_embeddings=tied, share_encoder_decoder_embeddings=tied)
    average = MovingAverage(decay)
    expected = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))
    for seed in range(5):
        shake(model, seed)
        average.update(model)
        expected.update_parameters(model)
    average.copy_to(model)
    torch.testing.assert_close(weights(model), weights(expected.module), rtol=1e-6, atol=1e-7)


def test_a_shared_table_is_one_average(tmp_path: Path) -> None:
    model = tiny_model()
    average = MovingAverage(0.9)
    average.update(model)
    average.save(tmp_path / "ema.safetensors")
    names = [name for name in load_file(tmp_path / "ema.safetensors") if "embed" in name]
    assert names == ["model.encoder.embed_tokens.weight"]
    assert model.lm_head.weight is model.get_input_embeddings().weight


def test_average_of_half_precision_weights_is_kept_in_float32() -> None:
    """From 1 towards 2 by thousandths: in bfloat16 the average would never move."""
    model = torch.nn.Linear(1, 1, bias=False).bfloat16()
    average = MovingAverage(0.999)
    for value in [1.0] + [2.0] * 300:
        torch.nn.init.constant_(model.weight, value)
        average.update(model)
    assert average.weights["weight"].dtype == torch.float32
    assert average.weights["weight"].item() == pytest.approx(2 - 0.999**300, rel=1e-5)


def test_weights_come_back_after_the_average_was_in_their_place() -> None:
    model = tiny_model()
    average = MovingAverage(0.5)
    average.update(model)
    shake(model, 1)
    average.update(model)
    own = weights(model).clone()
    with pytest.raises(KeyboardInterrupt, match="now"), average.in_place(model):
        assert not torch.equal(weights(model), own)
        raise KeyboardInterrupt("now")
    assert torch.equal(weights(model), own)


def test_average_goes_on_where_its_file_stopped(tmp_path: Path) -> None:
    model, path = tiny_model(), tmp_path / "ema.safetensors"
    average, other = MovingAverage(0.9), MovingAverage(0.9)
    for seed in range(3):
        shake(model, seed)
        average.update(model)
    average.save(path)
    other.load(path, model)
    shake(model, 3)
    for one in (average, other):
        one.update(model)
    assert all(torch.equal(average.weights[name], other.weights[name]) for name in average.weights)


def test_average_from_a_file_of_half_precision_goes_on_in_float32(tmp_path: Path) -> None:
    model, path = tiny_model(), tmp_path / "ema.safetensors"
    average = MovingAverage(0.9)
    average.update(model)
    save_file({name: weight.bfloat16() for name, weight in average.weights.items()}, path)
    average.load(path, model)
    average.update(model)
    assert {weight.dtype for weight in average.weights.values()} == {torch.float32}


@pytest.mark.parametrize("decay", [-0.1, 1.0, float("nan")])
def test_impossible_decay_is_refused(decay: float) -> None:
    with pytest.raises(InputError, match="`ema_decay` must be at least 0 and below 1, got"):
        MovingAverage(decay)


@pytest.mark.parametrize("kind", ["missing", "damaged", "other", "wider"])
def test_file_that_does_not_fit_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "ema.safetensors"
    if kind == "damaged":
        path.write_bytes(b"half")
    if kind == "other":
        save_file({"table": torch.zeros(2)}, path)
    if kind == "wider":
        wider = MovingAverage(0.9)
        wider.update(tiny_model(encoder_ffn_dim=96))
        wider.save(path)
    unreadable = kind in ("missing", "damaged")
    message = "intact ema.safetensors" if unreadable else "average of this model's weights"
    with pytest.raises(InputError, match=message):
        MovingAverage(0.9).load(path, tiny_model())
