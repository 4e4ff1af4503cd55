"""A second, naive implementation of the paper that the tests hold the package to.

It shares no code with the package and uses no `torch.nn` module: loops over sentences, heads and
positions, vectors one at a time, every formula written out as the paper prints it. Weights come
from a state dict with the names of a saved model, settings from a plain dict. Autograd works.

    sinusoid, embed                              3.4, 3.5
    feed_forward                                 3.3
    sublayer, encode, decode, logits                       3.1, 3.3, 3.4
    smoothed_loss                                5.4
    greedy, beam_search, best_of_all             6.1

Attention, 3.2, is in `reference_attention.py`.

Shapes: B batch, S source tokens, T target tokens, D d_model, W vocabulary entries.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from reference_attention import attend, linear
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
    "position_encoding": "sinusoidal",
    "position_layout": "interleaved",
    "normalize_before": False,
    "activation_function": "relu",
    "attention_score": "scaled_dot_product",
    "hard_attention": False,
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


def sinusoid(position: int, d_model: int, layout: str = "interleaved") -> Tensor:
    """Position vector `(D,)` in float64: sines at even features, cosines at odd ones.

    Source: Section 3.5. With the layout "halves" all sines come before all cosines.
    """
    vector = torch.zeros(d_model, dtype=torch.float64)
    sines = (d_model + 1) // 2
    for feature in range(d_model):
        if layout == "halves":
            pair, is_sine = feature % sines, feature < sines
        else:
            pair, is_sine = feature // 2, feature % 2 == 0
        angle = position / 10000 ** (2 * pair / d_model)
        vector[feature] = math.sin(angle) if is_sine else math.cos(angle)
    return vector


def layer_norm(weights: Weights, name: str, vector: Tensor, epsilon: float) -> Tensor:
    """The vector with mean 0 and variance 1 over its features, scaled and shifted."""
    mean = vector.sum() / len(vector)
    variance = ((vector - mean) ** 2).sum() / len(vector)
    normal = (vector - mean) / torch.sqrt(variance + epsilon)
    return weights[f"{name}.weight"] * normal + weights[f"{name}.bias"]


def activate(function: str, x: Tensor) -> Tensor:
    """Each number after the function; max(0, x) is the paper's."""
    if function == "relu":
        return torch.where(x > 0, x, torch.zeros_like(x))
    if function == "gelu":
        return x * (1 + torch.erf(x / math.sqrt(2))) / 2
    if function in ("swish", "silu"):
        return x / (1 + torch.exp(-x))
    if function == "tanh":
        return (torch.exp(x) - torch.exp(-x)) / (torch.exp(x) + torch.exp(-x))
    raise ValueError(f"`activation_function` is unknown here, got {function}.")


def feed_forward(weights: Weights, name: str, settings: Settings, vector: Tensor) -> Tensor:
    """`max(0, xW1 + b1)W2 + b2`. Source: Section 3.3."""
    inner = linear(weights, f"{name}.fc1", vector)
    return linear(weights, f"{name}.fc2", activate(settings["activation_function"], inner))


def embed(weights: Weights, stack: str, settings: Settings, tokens: list[int]) -> list[Tensor]:
    """Embedding times sqrt(d_model) plus the position's vector. Source: Sections 3.4, 3.5."""
    table = weights[f"model.{stack}.embed_tokens.weight"]
    d_model = settings["d_model"]
    states = []
    for position, token in enumerate(tokens):
        if settings["position_encoding"] == "learned":
            where = weights[f"model.{stack}.embed_positions.weight"][position]
        else:
            where = sinusoid(position, d_model, settings["position_layout"]).to(table.dtype)
        states.append(table[token] * math.sqrt(d_model) + where)
    return states


def sublayer(
    weights: Weights,
    norm: str,
    settings: Settings,
    states: list[Tensor],
    change: Callable[[list[Tensor]], list[Tensor]],
) -> list[Tensor]:
    """LayerNorm(x + Sublayer(x)) at every position, or x + Sublayer(LayerNorm(x)).

    Source: Section 3.1; the latter is what the authors' code does from its second version on.
    """
    epsilon = settings["layer_norm_eps"]

    def normal(vectors: list[Tensor]) -> list[Tensor]:
        return [layer_norm(weights, norm, vector, epsilon) for vector in vectors]

    before = settings["normalize_before"]
    changes = change(normal(states) if before else states)
    sums = [old + new for old, new in zip(states, changes, strict=True)]
    return sums if before else normal(sums)


def last_norm(
    weights: Weights, stack: str, settings: Settings, states: list[Tensor]
) -> list[Tensor]:
    """The norm at the end of a stack whose sub-layers have theirs at their beginning."""
    if not settings["normalize_before"]:
        return states
    epsilon = settings["layer_norm_eps"]
    return [layer_norm(weights, f"model.{stack}.layer_norm", state, epsilon) for state in states]


def encode(
    weights: Weights, settings: Settings, source: list[int], real: list[bool] | None = None
) -> list[Tensor]:
    """Encoder output, one vector per source position, of one sentence.

    Args:
        source: `S` token ids.
        real: `S` booleans, `True` = may be attended to. By default all that are not padding.
    """
    settings = {**PAPER, **settings}
    shown = real_tokens(settings, source) if real is None else real
    heads = settings["encoder_attention_heads"]
    states = embed(weights, "encoder", settings, source)
    for number in range(settings["encoder_layers"]):
        layer = f"model.encoder.layers.{number}"

        def look_around(x: list[Tensor], name: str = f"{layer}.self_attn") -> list[Tensor]:
            return attend(weights, name, settings, heads, x, x, lambda i, j: shown[j])

        def transform(x: list[Tensor], name: str = f"{layer}.feed_forward") -> list[Tensor]:
            return [feed_forward(weights, name, settings, state) for state in x]

        states = sublayer(weights, f"{layer}.self_attn_layer_norm", settings, states, look_around)
        states = sublayer(weights, f"{layer}.final_layer_norm", settings, states, transform)
    return last_norm(weights, "encoder", settings, states)


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

        def look_back(x: list[Tensor], name: str = f"{layer}.self_attn") -> list[Tensor]:
            return attend(weights, name, settings, heads, x, x, lambda i, j: j <= i)

        def look_over(x: list[Tensor], name: str = f"{layer}.encoder_attn") -> list[Tensor]:
            return attend(weights, name, settings, heads, x, memory, lambda i, j: real[j])

        def transform(x: list[Tensor], name: str = f"{layer}.feed_forward") -> list[Tensor]:
            return [feed_forward(weights, name, settings, state) for state in x]

        states = sublayer(weights, f"{layer}.self_attn_layer_norm", settings, states, look_back)
        states = sublayer(weights, f"{layer}.encoder_attn_layer_norm", settings, states, look_over)
        states = sublayer(weights, f"{layer}.final_layer_norm", settings, states, transform)
    return last_norm(weights, "decoder", settings, states)


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
