"""Small models and batches for the tests of the model; nothing here is a test."""

from typing import Any

import reference
import torch
from torch import Tensor, nn
from transformers.generation import GenerationMixin

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration

TINY: dict[str, Any] = {
    "vocab_size": 40,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "dropout": 0.0,
}

# Every width and tie that changes which weights meet which; each is held to the references.
VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "two_tables": {"share_encoder_decoder_embeddings": False},
    "no_ties": {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
    "wide_values": {"d_k": 5, "d_v": 11},
    "narrow_keys": {"d_k": 3},
    "unequal_stacks": {"encoder_layers": 1, "decoder_layers": 3},
    "unequal_widths": {
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 8,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 80,
    },
    "odd_width": {"d_model": 33, "encoder_attention_heads": 3, "decoder_attention_heads": 11},
    "heads_do_not_divide": {
        "encoder_attention_heads": 3,
        "decoder_attention_heads": 3,
        "d_k": 10,
        "d_v": 10,
    },
    "separate_vocabularies": {
        "vocab_size": 23,
        "encoder_vocab_size": 31,
        "encoder_pad_token_id": 7,
        "share_encoder_decoder_embeddings": False,
    },
    "biases": {"attention_bias": True, "output_bias": True},
    "learned_positions": {"position_encoding": "learned", "max_position_embeddings": 12},
    "odd_halves": {
        "position_layout": "halves",
        "d_model": 33,
        "encoder_attention_heads": 3,
        "decoder_attention_heads": 11,
    },
    "pre_norm": {"normalize_before": True, "activation_function": "gelu"},
    "dot": {"attention_score": "dot", "activation_function": "swish"},
    "additive": {"attention_score": "additive", "d_k": 5, "activation_function": "tanh"},
}
# No fused kernel computes these scores.
EAGER_ONLY = ("dot", "additive")


def tiny_config(**settings: Any) -> VaswaniConfig:
    """`TINY` with changes."""
    return VaswaniConfig(**{**TINY, **settings})


def tiny_model(
    *, seed: int = 0, noise: float = 0.1, attention: str | None = None, **settings: Any
) -> VaswaniForConditionalGeneration:
    """A model in eval mode. Noise on every weight: no bias is 0 and no norm is 1 by accident."""
    torch.manual_seed(seed)
    model = VaswaniForConditionalGeneration(tiny_config(**settings))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += noise * torch.randn_like(parameter)
    if attention is not None:
        model.set_attn_implementation(attention)
    return model.eval()


def decisive_model(**settings: Any) -> VaswaniForConditionalGeneration:
    """A float64 model for search: 9 words, uneven scores so that ends come at several lengths.

    The output bias keeps the padding token out of the outputs, where it could not be told from
    real padding.
    """
    small = {"vocab_size": 9, "d_model": 8, "encoder_layers": 1, "decoder_layers": 1}
    small |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    small |= {"encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "output_bias": True}
    model = tiny_model(**{"noise": 0.5, **small, **settings}).double()
    with torch.no_grad():
        model.lm_head.bias[model.config.pad_token_id] = -50.0
    return model


def endless_model(**settings: Any) -> VaswaniForConditionalGeneration:
    """A model that never says the end token."""
    model = decisive_model(**settings)
    with torch.no_grad():
        model.lm_head.bias[model.config.eos_token_id] = -50.0
    return model


class LibrarySearch(VaswaniForConditionalGeneration):
    """A model of ours with the search of transformers."""

    _beam_search = GenerationMixin._beam_search
    _sample = GenerationMixin._sample


def with_library_search(model: VaswaniForConditionalGeneration) -> LibrarySearch:
    """The same weights, searched with by transformers."""
    other = LibrarySearch(model.config).to(model.dtype).eval()
    other.load_state_dict(model.state_dict())
    return other


def leaves(model: nn.Module) -> tuple[dict[str, Tensor], dict[int, Tensor]]:
    """Copies of the weights by name, as leaves of autograd, and by the id of the original.

    Tied weights share one leaf, so that its gradient is the sum over the owners.
    """
    by_name: dict[str, Tensor] = {}
    by_id: dict[int, Tensor] = {}
    for name, weight in model.state_dict(keep_vars=True).items():
        if id(weight) not in by_id:
            by_id[id(weight)] = weight.detach().clone().requires_grad_()
        by_name[name] = by_id[id(weight)]
    return by_name, by_id


def padded(
    rows: list[list[int]], *, pad: int = 0, extra: int = 0, left: bool = False
) -> tuple[Tensor, Tensor]:
    """Ids `(B, S)` and the 0/1 mask `(B, S)`, with `extra` columns beyond the longest row."""
    width = max(map(len, rows)) + extra
    ids, mask = [], []
    for row in rows:
        filler = [pad] * (width - len(row))
        real, unreal = [1] * len(row), [0] * len(filler)
        ids.append(filler + row if left else row + filler)
        mask.append(unreal + real if left else real + unreal)
    return torch.tensor(ids), torch.tensor(mask)


def sentences(
    vocabulary: int, lengths: list[int], *, seed: int = 0, end: int | None = 2, avoid: int = 0
) -> list[list[int]]:
    """Random ordinary words, each sentence closed by the end token and counted with it."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for length in lengths:
        row = torch.randint(4, vocabulary, (length,), generator=generator).tolist()
        row = [4 if token == avoid else token for token in row]
        if end is not None:
            row[-1] = end
        rows.append(row)
    return rows


def plain_settings(model: Any) -> dict[str, Any]:
    return {name: getattr(model.config, name) for name in reference.PAPER}


def steps(model: Any, source: list[int]) -> reference.Continuations:
    weights = {name: weight.detach() for name, weight in model.state_dict().items()}
    return reference.Continuations(weights, plain_settings(model), source)


def words(row: Tensor) -> list[int]:
    """Generated tokens up to the end token, without the start token and padding."""
    tokens = row.tolist()[1:]
    if 2 in tokens:
        return tokens[: tokens.index(2) + 1]
    while tokens and tokens[-1] == 0:
        tokens.pop()
    return tokens
