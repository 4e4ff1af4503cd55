"""What a training run costs in operations and in memory, by formulas that are stated.

CorpusCounts      pairs, tokens, updates and padding of one pass over the training data
Operations        multiplications and additions, counted
Memory            bytes on the device

Letters of the formulas: d d_model, h heads, k and v features per head, f feed-forward features,
W vocabulary entries.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vaswani.batching import TokenBudgetBatchSampler
from vaswani.configuration_vaswani import VaswaniConfig
from vaswani.loss_vaswani import CHUNK
from vaswani.parameter_counts import ParameterCounts

# A multiplication and an addition forward, and twice as many for the gradients of both factors.
_OPERATIONS_PER_ELEMENT = 6
_FLOAT = 4


@dataclass(frozen=True)
class CorpusCounts:
    """One pass over the training data.

    Args:
        pairs: sentence pairs.
        source_tokens: tokens without padding.
        target_tokens: likewise.
        updates: updates of one pass.
        source_places: tokens with padding.
        target_places: likewise.
        source_squares: sum over sentences of source places times source places.
        target_squares: the same of target places.
        products: sum over sentences of source places times target places.
        counted: whether all this was counted in the data, or estimated from declared sizes as
            if there were no padding and all sentences were equally long.
    """

    pairs: int
    source_tokens: int
    target_tokens: int
    updates: int
    source_places: int
    target_places: int
    source_squares: float
    target_squares: float
    products: float
    counted: bool

    @property
    def padding(self) -> float:
        """Share of all places that padding takes, in [0, 1)."""
        places = self.source_places + self.target_places
        return 1 - (self.source_tokens + self.target_tokens) / places

    @classmethod
    def declared(cls, counts: Mapping[str, int], tokens_per_update: int) -> "CorpusCounts":
        """The pass over a corpus of which only `pairs`, `source_tokens`, `target_tokens` are known.

        Real lengths differ and are padded: updates and products are a little more than this.
        """
        pairs, source, target = (counts[n] for n in ("pairs", "source_tokens", "target_tokens"))
        return cls(
            pairs,
            source,
            target,
            updates=-(-max(source, target) // tokens_per_update),
            source_places=source,
            target_places=target,
            source_squares=source**2 / pairs,
            target_squares=target**2 / pairs,
            products=source * target / pairs,
            counted=False,
        )

    @classmethod
    def counted_in(
        cls, sampler: TokenBudgetBatchSampler, source_lengths: Any, target_lengths: Any
    ) -> "CorpusCounts":
        """The first epoch of the sampler, batch by batch.

        Args:
            sampler: what makes the batches; its own lengths may be of another kind.
            source_lengths: tokens of each source.
            target_lengths: tokens of each target.
        """
        sources, targets = np.asarray(source_lengths), np.asarray(target_lengths)
        sums = np.zeros(5)
        pairs = source_tokens = target_tokens = 0
        for batch in sampler:
            if batch:
                pairs += len(batch)
                source_tokens += int(sources[batch].sum())
                target_tokens += int(targets[batch].sum())
                source = int(sources[batch].max())
                target = int(targets[batch].max())
                each = source, target, source**2, target**2, source * target
                sums += len(batch) * np.array(each, dtype=float)
        return cls(
            pairs,
            source_tokens,
            target_tokens,
            sampler.updates_per_epoch,
            source_places=int(sums[0]),
            target_places=int(sums[1]),
            source_squares=float(sums[2]),
            target_squares=float(sums[3]),
            products=float(sums[4]),
            counted=True,
        )


@dataclass(frozen=True)
class Operations:
    """Operations of one update, forward and backward.

    Args:
        matrices: in weight matrices and the projection to the vocabulary.
        attention: in the products of queries, keys, weights and values.
    """

    matrices: float
    attention: float

    @property
    def total(self) -> float:
        """Both together."""
        return self.matrices + self.attention

    @classmethod
    def of(
        cls, config: VaswaniConfig, parameters: ParameterCounts, corpus: CorpusCounts
    ) -> "Operations":
        """Counted for an average update of the corpus, padding computed like anything else.

        6 x (elements of the matrices that a token goes through) x tokens, and
        6 x layers x h (k + v) x (places that attend x places attended to). Softmax, norms and
        other work that grows with the width alone are left out.
        """
        elements = parameters.source_matrices * corpus.source_places
        projected = parameters.target_matrices + config.d_model * config.vocab_size
        elements += projected * corpus.target_places
        encoder = config.encoder_layers * _features(config, "encoder")
        decoder = config.decoder_layers * _features(config, "decoder")
        products = encoder * corpus.source_squares
        products += decoder * (corpus.target_squares + corpus.products)
        share = _OPERATIONS_PER_ELEMENT / corpus.updates
        return cls(share * elements, share * products)


@dataclass(frozen=True)
class Memory:
    """Bytes that training needs at once.

    Args:
        weights: 4 bytes a parameter.
        gradients: 4 bytes a parameter.
        adam: two moments, 8 bytes a parameter.
        activations: what the backward pass needs of the forward one.
        logits: one chunk of scores and the gradient of the projection.
    """

    weights: int
    gradients: int
    adam: int
    activations: int
    logits: int

    @property
    def total(self) -> int:
        """All together."""
        return self.weights + self.gradients + self.adam + self.activations + self.logits

    @classmethod
    def of(
        cls,
        config: VaswaniConfig,
        parameters: ParameterCounts,
        *,
        source_places: int,
        target_places: int,
    ) -> "Memory":
        """Estimated for one micro-batch in float32, with a fused attention kernel.

        Args:
            source_places: source tokens of the micro-batch, padding included.
            target_places: its target tokens.
        """
        source, target = activation_features(config)
        source_masks, target_masks = _dropped_features(config)
        # A mask of dropout takes a byte a feature.
        per_source = _FLOAT * source + source_masks
        per_target = _FLOAT * target + target_masks
        return cls(
            weights=_FLOAT * parameters.total,
            gradients=_FLOAT * parameters.total,
            adam=2 * _FLOAT * parameters.total,
            activations=per_source * source_places + per_target * target_places,
            # Scores and their gradient share a chunk; the library keeps a copy on the way.
            logits=_FLOAT * config.vocab_size * (2 * CHUNK + config.d_model),
        )


def activation_features(config: VaswaniConfig) -> tuple[int, int]:
    """Numbers kept for the backward pass, for each source token and for each target token.

    Encoder layer: 4 d + h (2 k + 2 v) + f. Decoder layer: 6 d + h (3 k + 3 v) + f, and h (k + v)
    for each source token. The encoder's output and the gradient of the decoder's: d each.
    """
    d = config.d_model
    encoder, decoder = _features(config, "encoder"), _features(config, "decoder")
    source = config.encoder_layers * (4 * d + 2 * encoder + config.encoder_ffn_dim)
    source += config.decoder_layers * decoder + d
    target = config.decoder_layers * (6 * d + 3 * decoder + config.decoder_ffn_dim) + d
    return source, target


def _dropped_features(config: VaswaniConfig) -> tuple[int, int]:
    """Features that a mask of dropout is kept for, by source token and target token."""
    if not config.dropout:
        return 0, 0
    d = config.d_model
    return d * (2 * config.encoder_layers + 1), d * (3 * config.decoder_layers + 1)


def _features(config: VaswaniConfig, side: str) -> int:
    """h (k + v): features of keys and values of all heads of a layer."""
    heads: Any = getattr(config, f"{side}_attention_heads")
    return heads * sum(config.head_sizes(heads))
