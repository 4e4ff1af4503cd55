"""A second, naive implementation of the paper that the tests hold the package to.

It shares no code with the package and uses no `torch.nn` module: loops over sentences, heads and
positions, vectors one at a time, every formula written out as the paper prints it. Weights come
from a state dict with the names of a saved model, settings from a plain dict. Autograd works.

    sinusoid                                     3.5
    attend                                       3.2.1, 3.2.2
    encode, decode, logits                       3.1, 3.3, 3.4
    smoothed_loss                                5.4
    greedy, beam_search, best_of_all             6.1

Shapes: B batch, S source tokens, T target tokens, D d_model, W vocabulary entries.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

Weights = dict[str, Tensor]
Settings = dict[str, Any]
Hypothesis = tuple[list[int], float]

PAPER: Settings = {
    "vocab_size": 37000,
    "d_model": 512,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
    "d_k": None,
    "d_v": None,
    "layer_norm_eps": 1e-6,
    "pad_token_id": 0,
    "encoder_pad_token_id": None,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}


def real_tokens(settings: Settings, source: list[int]) -> list[bool]:
    """`S` booleans: `True` where the source holds a word, not padding."""
    settings = {**PAPER, **settings}
    pad = settings["encoder_pad_token_id"]
    pad = settings["pad_token_id"] if pad is None else pad
    return [token != pad for token in source]


def sinusoid(position: int, d_model: int) -> Tensor:
    """Position vector `(D,)` in float64: sines at even features, cosines at odd ones.

    Source: Section 3.5.
    """
    vector = torch.zeros(d_model, dtype=torch.float64)
    for feature in range(d_model):
        pair = feature // 2
        angle = position / 10000 ** (2 * pair / d_model)
        vector[feature] = math.sin(angle) if feature % 2 == 0 else math.cos(angle)
    return vector


def linear(weights: Weights, name: str, vector: Tensor) -> Tensor:
    """Product of the matrix called `name` and `vector`, plus its bias where there is one."""
    product = weights[f"{name}.weight"] @ vector
    bias = weights.get(f"{name}.bias")
    return product if bias is None else product + bias


def layer_norm(weights: Weights, name: str, vector: Tensor, epsilon: float) -> Tensor:
    """The vector with mean 0 and variance 1 over its features, scaled and shifted."""
    mean = vector.sum() / len(vector)
    variance = ((vector - mean) ** 2).sum() / len(vector)
    normal = (vector - mean) / torch.sqrt(variance + epsilon)
    return weights[f"{name}.weight"] * normal + weights[f"{name}.bias"]


def softmax(scores: list[Tensor]) -> list[Tensor]:
    """Weights that sum to 1 and are proportional to exp(score)."""
    largest = max(float(score.detach()) for score in scores)
    powers = [torch.exp(score - largest) for score in scores]
    total = sum(powers[1:], start=powers[0])
    return [power / total for power in powers]


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
                    (query[of_keys] * all_keys[j][of_keys]).sum() / math.sqrt(d_k) for j in visible
                ]
                for weight, j in zip(softmax(scores), visible, strict=True):
                    context = context + weight * all_values[j][head * d_v : (head + 1) * d_v]
            contexts.append(context)
        results.append(linear(weights, f"{name}.out_proj", torch.cat(contexts)))
    return results


def feed_forward(weights: Weights, name: str, vector: Tensor) -> Tensor:
    """`max(0, xW1 + b1)W2 + b2`. Source: Section 3.3."""
    inner = linear(weights, f"{name}.fc1", vector)
    positive = torch.where(inner > 0, inner, torch.zeros_like(inner))
    return linear(weights, f"{name}.fc2", positive)


def embed(weights: Weights, stack: str, settings: Settings, tokens: list[int]) -> list[Tensor]:
    """Embedding times sqrt(d_model) plus the position's sinusoid. Source: Sections 3.4, 3.5."""
    table = weights[f"model.{stack}.embed_tokens.weight"]
    d_model = settings["d_model"]
    return [
        table[token] * math.sqrt(d_model) + sinusoid(position, d_model).to(table.dtype)
        for position, token in enumerate(tokens)
    ]


def add_and_norm(
    weights: Weights, name: str, settings: Settings, before: list[Tensor], change: list[Tensor]
) -> list[Tensor]:
    """LayerNorm(x + Sublayer(x)) at every position. Source: Section 3.1."""
    epsilon = settings["layer_norm_eps"]
    return [
        layer_norm(weights, name, old + new, epsilon)
        for old, new in zip(before, change, strict=True)
    ]


def encode(
    weights: Weights, settings: Settings, source: list[int], real: list[bool] | None = None
) -> list[Tensor]:
    """Encoder output, one vector per source position, of one sentence.

    Args:
        source: `S` token ids.
        real: `S` booleans, `True` = may be attended to. By default all that are not padding.
    """
    settings = {**PAPER, **settings}
    if real is None:
        real = real_tokens(settings, source)
    heads = settings["encoder_attention_heads"]
    states = embed(weights, "encoder", settings, source)
    for number in range(settings["encoder_layers"]):
        layer = f"model.encoder.layers.{number}"
        change = attend(
            weights, f"{layer}.self_attn", settings, heads, states, states, lambda i, j: real[j]
        )
        states = add_and_norm(weights, f"{layer}.self_attn_layer_norm", settings, states, change)
        change = [feed_forward(weights, f"{layer}.feed_forward", state) for state in states]
        states = add_and_norm(weights, f"{layer}.final_layer_norm", settings, states, change)
    return states


def decode(
    weights: Weights,
    settings: Settings,
    memory: list[Tensor],
    real: list[bool],
    target: list[int],
) -> list[Tensor]:
    """Decoder output, one vector per target position, of one sentence."""
    settings = {**PAPER, **settings}
    heads = settings["decoder_attention_heads"]
    states = embed(weights, "decoder", settings, target)
    for number in range(settings["decoder_layers"]):
        layer = f"model.decoder.layers.{number}"
        change = attend(
            weights, f"{layer}.self_attn", settings, heads, states, states, lambda i, j: j <= i
        )
        states = add_and_norm(weights, f"{layer}.self_attn_layer_norm", settings, states, change)
        change = attend(
            weights, f"{layer}.encoder_attn", settings, heads, states, memory, lambda i, j: real[j]
        )
        states = add_and_norm(weights, f"{layer}.encoder_attn_layer_norm", settings, states, change)
        change = [feed_forward(weights, f"{layer}.feed_forward", state) for state in states]
        states = add_and_norm(weights, f"{layer}.final_layer_norm", settings, states, change)
    return states


def logits(
    weights: Weights,
    settings: Settings,
    sources: list[list[int]],
    masks: list[list[bool]],
    targets: list[list[int]],
) -> Tensor:
    """Scores before the softmax, `(B, T, W)`, sentence by sentence."""
    rows = []
    for source, real, target in zip(sources, masks, targets, strict=True):
        memory = encode(weights, settings, source, real)
        states = decode(weights, settings, memory, real, target)
        rows.append(torch.stack([linear(weights, "lm_head", state) for state in states]))
    return torch.stack(rows)


def log_probabilities(scores: Tensor) -> Tensor:
    """Logarithm of the softmax of one vector of scores `(W,)`."""
    shifted = scores - scores.detach().max()
    return shifted - torch.log(torch.exp(shifted).sum())


def wanted_distribution(
    gold: int, vocabulary: int, epsilon: float, formula: str, pad: int
) -> list[float]:
    """The target distribution of a smoothed label over all `W` entries; it sums to 1.

    Source: Section 5.4 for the idea; the three formulas are those that toolkits use for it.
    """
    wanted = [0.0] * vocabulary
    for entry in range(vocabulary):
        if formula == "uniform":
            wanted[entry] = epsilon / vocabulary + (1 - epsilon if entry == gold else 0.0)
        elif formula == "others":
            wanted[entry] = 1 - epsilon if entry == gold else epsilon / (vocabulary - 1)
        elif formula == "others_not_pad":
            if entry == gold:
                wanted[entry] = 1 - epsilon
            elif entry != pad:
                wanted[entry] = epsilon / (vocabulary - 2)
        else:
            raise ValueError(f"`formula` is unknown, got {formula}.")
    return wanted


def smoothed_loss(
    scores: Tensor,
    labels: list[list[int]],
    *,
    epsilon: float = 0.0,
    formula: str = "uniform",
    pad: int = 0,
    items: int | None = None,
) -> Tensor:
    """Cross entropy in nats against the smoothed labels, per real target token.

    Args:
        scores: `(B, T, W)`, before the softmax.
        labels: `B` lists of `T` ids; -100 and `pad` take no part.
        items: divisor, by default the number of real target tokens.
    """
    total = (scores * 0).sum()
    count = 0
    for row, row_labels in enumerate(labels):
        for position, gold in enumerate(row_labels):
            if gold in (-100, pad):
                continue
            count += 1
            logp = log_probabilities(scores[row, position])
            wanted = wanted_distribution(gold, len(logp), epsilon, formula, pad)
            for entry, mass in enumerate(wanted):
                if mass:
                    total = total - mass * logp[entry]
    divisor = items if items is not None else count
    return total / divisor if divisor else total


class Continuations:
    """Log-probabilities of the next token after a prefix, for one source sentence, no cache used
    by the decoder: each prefix is decoded from its start (and remembered once asked)."""

    def __init__(self, weights: Weights, settings: Settings, source: list[int]) -> None:
        self.weights = weights
        self.settings = {**PAPER, **settings}
        self.real = real_tokens(self.settings, source)
        self.memory = encode(weights, self.settings, source, self.real)
        self.known: dict[tuple[int, ...], list[float]] = {}

    def __call__(self, prefix: list[int]) -> list[float]:
        key = tuple(prefix)
        if key not in self.known:
            target = [self.settings["decoder_start_token_id"], *prefix]
            states = decode(self.weights, self.settings, self.memory, self.real, target)
            scores = linear(self.weights, "lm_head", states[-1])
            self.known[key] = log_probabilities(scores).tolist()
        return self.known[key]


def cap(settings: Settings, source: list[int], a: float = 1.0, b: int = 50) -> int:
    """Most tokens that an output may have: a * real source tokens + b. Source: Section 6.1."""
    return int(a * sum(real_tokens(settings, source)) + b)


def gnmt_penalty(length: int, alpha: float) -> float:
    """Divisor of a log-probability. Source: Section 6.1, which cites Wu et al. 2016, eq. 14."""
    return ((5 + length) / 6) ** alpha


def power_penalty(length: int, alpha: float) -> float:
    """Divisor of a log-probability, as transformers has it."""
    return length**alpha


def greedy(step: Continuations, limit: int) -> list[int]:
    """The likeliest token at each step until the end token or `limit` tokens."""
    output: list[int] = []
    while len(output) < limit:
        logp = step(output)
        output.append(max(range(len(logp)), key=lambda entry: logp[entry]))
        if output[-1] == step.settings["eos_token_id"]:
            break
    return output


def beam_search(
    step: Continuations,
    limit: int,
    *,
    num_beams: int = 4,
    alpha: float = 0.6,
    penalty: Callable[[int, float], float] = gnmt_penalty,
) -> list[Hypothesis]:
    """The finished hypotheses, best score first, at most `num_beams`. It never stops early.

    At each length all continuations of the open hypotheses are ranked by log-probability. One that
    ends and is among the first `num_beams` is finished; the first `num_beams` of those that do not
    end stay open. What reaches `limit` tokens is finished as it stands.
    """
    eos = step.settings["eos_token_id"]
    open_ones: list[Hypothesis] = [([], 0.0)]
    finished: list[Hypothesis] = []
    for length in range(1, limit + 1):
        ranked: list[Hypothesis] = []
        for prefix, total in open_ones:
            ranked += [([*prefix, entry], total + logp) for entry, logp in enumerate(step(prefix))]
        ranked.sort(key=lambda hypothesis: -hypothesis[1])
        for tokens, total in ranked[:num_beams]:
            if tokens[-1] == eos or length == limit:
                finished.append((tokens, total / penalty(length, alpha)))
        open_ones = [entry for entry in ranked if entry[0][-1] != eos][:num_beams]
    finished.sort(key=lambda hypothesis: -hypothesis[1])
    return finished[:num_beams]


def all_outputs(vocabulary: int, eos: int, limit: int) -> Iterator[list[int]]:
    """Every output of at most `limit` tokens: it ends with the end token or at the limit."""
    open_ones: list[list[int]] = [[]]
    for length in range(1, limit + 1):
        longer = [[*prefix, entry] for prefix in open_ones for entry in range(vocabulary)]
        for tokens in longer:
            if tokens[-1] == eos or length == limit:
                yield tokens
        open_ones = [tokens for tokens in longer if tokens[-1] != eos]


def best_of_all(
    step: Continuations,
    limit: int,
    *,
    alpha: float = 0.6,
    penalty: Callable[[int, float], float] = gnmt_penalty,
) -> list[Hypothesis]:
    """Every possible output with its score, best first: for tiny vocabularies only."""
    scored = []
    for tokens in all_outputs(step.settings["vocab_size"], step.settings["eos_token_id"], limit):
        total = sum(step(tokens[:place])[token] for place, token in enumerate(tokens))
        scored.append((tokens, total / penalty(len(tokens), alpha)))
    return sorted(scored, key=lambda hypothesis: -hypothesis[1])
