"""Pictures of attention, drawn with matplotlib (extra `demo`).

    cross_attention          weights of a translation, as numbers
    draw_cross_attention     the same as a PNG: which source tokens each target token looked at

Source: Figures 3 to 5 of the paper show self-attention in the same way.
"""

from pathlib import Path

import torch
from torch import Tensor

from vaswani.errors import InputError
from vaswani.modeling_vaswani import VaswaniForConditionalGeneration
from vaswani.tokenization_vaswani import VaswaniTokenizer


def cross_attention(
    model: VaswaniForConditionalGeneration,
    tokenizer: VaswaniTokenizer,
    source: str,
    target: str,
) -> tuple[Tensor, list[str], list[str]]:
    """Returns the cross-attention weights while the model reads `source` and predicts `target`.

    Args:
        model: any model; it is put into evaluation mode.
        tokenizer: its tokenizer.
        source: one sentence.
        target: its translation.

    Returns:
        The weights `(layers, H, T, S)`, where row t are those that predict target token t, and
        the texts of the target tokens and of the source tokens.
    """
    batch = tokenizer(source, text_target=target, return_tensors="pt").to(model.device)
    model.eval()
    usual = model.config._attn_implementation
    # The others return no weights, and the model would warn that it takes this one instead.
    model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            outputs = model(**batch, output_attentions=True)
    finally:
        model.set_attn_implementation(usual)
    weights = torch.cat(outputs.cross_attentions).cpu()
    rows = _texts(tokenizer, batch["labels"][0], "target")
    return weights, rows, _texts(tokenizer, batch["input_ids"][0], "source")


def draw_cross_attention(
    model: VaswaniForConditionalGeneration,
    tokenizer: VaswaniTokenizer,
    source: str,
    target: str,
    path: str | Path,
    *,
    layer: int = -1,
) -> Path:
    """Draws the cross-attention of one layer, averaged over its heads, and returns the PNG's path.

    Args:
        model: any model.
        tokenizer: its tokenizer.
        source: one sentence.
        target: its translation.
        path: where to write.
        layer: which decoder layer, from 0; -1 is the last.

    Raises:
        InputError: if matplotlib is missing or there is no such layer.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise InputError(
            "matplotlib must be installed to draw, got none. Install 'vaswani[demo]'."
        ) from error
    layers = model.config.decoder_layers
    if not -layers <= layer < layers:
        raise InputError(f"`layer` must be below the {layers} layers of the decoder, got {layer}.")
    weights, rows, columns = cross_attention(model, tokenizer, source, target)
    averaged = weights[layer].mean(dim=0)  # (T, S)
    figure = Figure(
        figsize=(1.8 + 0.42 * len(columns), 1.6 + 0.34 * len(rows)), layout="constrained"
    )
    axes = figure.add_subplot()
    image = axes.imshow(averaged, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks(range(len(columns)), columns, rotation=60, ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xlabel("source token attended to")
    axes.set_ylabel("target token predicted")
    axes.tick_params(length=0)
    figure.colorbar(image, label=f"weight, mean of {weights.size(1)} heads", shrink=0.8)
    figure.suptitle(f"Cross-attention of decoder layer {layer % layers + 1} of {layers}")
    figure.savefig(path, dpi=120)
    return Path(path)


def _texts(tokenizer: VaswaniTokenizer, ids: Tensor, side: str) -> list[str]:
    tokens = tokenizer.convert_ids_to_tokens(ids.tolist(), side=side)
    # A dollar sign would start a formula.
    return [token.strip().replace("$", r"\$") or "␣" for token in tokens]
