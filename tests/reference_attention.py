"""Attention of the second, naive implementation: section 3.2, one query and one head at a time.

Also the scores that the paper compares itself with, and hard attention. See `reference.py`.

Shapes: S keys, Dk/Dv features per head.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Weights = dict[str, Tensor]
Settings = dict[str, Any]


def linear(weights: Weights, name: str, vector: Tensor) -> Tensor:
    """Product of the matrix called `name` and `vector`, plus its bias where there is one."""
    product = weights[f"{name}.weight"] @ vector
    bias = weights.get(f"{name}.bias")
    return product if bias is None else product + bias


def softmax(scores: list[Tensor]) -> list[Tensor]:
    """Weights that sum to 1 and are proportional to exp(score)."""
    largest = max(float(score.detach()) for score in scores)
    powers = [torch.exp(score - largest) for score in scores]
    total = sum(powers[1:], start=powers[0])
    return [power / total for power in powers]


def all_on_the_first_best(scores: list[Tensor]) -> list[Tensor]:
    """1 for the highest score, the first among equals, 0 for the others."""
    best = 0
    for place, value in enumerate(scores):
        if value > scores[best]:
            best = place
    return [torch.ones_like(v) if k == best else torch.zeros_like(v) for k, v in enumerate(scores)]


def score(
    weights: Weights, name: str, settings: Settings, head: int, query: Tensor, key: Tensor
) -> Tensor:
    """How well one key fits one query, both `(Dk,)`, in one head.

    Source: Section 3.2.1; Luong et al. (2015), "dot"; Bahdanau et al. (2015), "additive".
    """
    kind = settings["attention_score"]
    if kind == "additive":
        return (weights[f"{name}.score_proj.weight"][head] * torch.tanh(query + key)).sum()
    product = (query * key).sum()
    return product / math.sqrt(len(query)) if kind == "scaled_dot_product" else product


def head_sizes(settings: Settings, heads: int) -> tuple[int, int]:
    """`d_k` and `d_v`, by default `d_model / heads` each."""
    return (
        settings["d_k"] or settings["d_model"] // heads,
        settings["d_v"] or settings["d_model"] // heads,
    )


def attend(
    weights: Weights,
    name: str,
    settings: Settings,
    heads: int,
    queries: list[Tensor],
    memory: list[Tensor],
    may_attend: Callable[[int, int], bool],
) -> list[Tensor]:
    """Multi-head attention of every query over `memory`; nothing visible gives a zero context.

    Source: Sections 3.2.1 and 3.2.2.

    Args:
        name: of the layer's weights.
        heads: h in the paper.
        may_attend: whether query i may see key j.
    """
    d_k, d_v = head_sizes(settings, heads)
    all_queries = [linear(weights, f"{name}.q_proj", vector) for vector in queries]
    all_keys = [linear(weights, f"{name}.k_proj", vector) for vector in memory]
    all_values = [linear(weights, f"{name}.v_proj", vector) for vector in memory]
    results = []
    for i, query in enumerate(all_queries):
        contexts = []
        visible = [j for j in range(len(memory)) if may_attend(i, j)]
        for head in range(heads):
            context = torch.zeros(d_v, dtype=query.dtype)
            if visible:
                of_keys = slice(head * d_k, (head + 1) * d_k)
                scores = [
                    score(weights, name, settings, head, query[of_keys], all_keys[j][of_keys])
                    for j in visible
                ]
                shares = softmax(scores)
                if settings["hard_attention"]:
                    shares = all_on_the_first_best(scores)
                for weight, j in zip(shares, visible, strict=True):
                    context = context + weight * all_values[j][head * d_v : (head + 1) * d_v]
            contexts.append(context)
        results.append(linear(weights, f"{name}.out_proj", torch.cat(contexts)))
    return results
