"""The beam search of the paper, on tokens and numbers alone; `generate()` brings the model.

Source: Section 6.1, "beam search with a beam size of 4 and length penalty alpha = 0.6", which cites
Wu et al. (2016); its Equation 14 is the penalty.

    LengthPenalty         what the log-probability of a hypothesis is divided by
    likeliest             the best few of a row of scores
    Hypotheses            token sequences with their scores
    BeamSearch            the search of a batch: `advance` takes one step

A hypothesis is *open* while it can be continued and *finished* with its end token or at its limit.
A step continues every open hypothesis by every token and ranks these candidates by log P. Of the
first K, those that end are finished; of all, the first K that do not end are the next open ones.
What reaches the limit is finished as it stands and competes by its score like any other.
A score that is not a number, as broken weights give, counts as minus infinity.

Of equal candidates the one of the likelier hypothesis comes first, and of the same hypothesis the
likelier token, or the one with the lower id.

Nothing here depends on the other sentences of the batch.

Shapes: B sentences, K beam size, N hypotheses of a sentence, C candidates, L tokens with the
prompt, W vocabulary entries.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

LENGTH_PENALTY_TYPES = ("gnmt", "power")
_NEVER = -torch.inf  # the score of what cannot be
_BLOCK = 64  # neighbors of which `likeliest` looks at the maximum first


@dataclass(frozen=True)
class LengthPenalty:
    """What log P of n generated tokens is divided by; n counts the end token, not the prompt.

    Args:
        kind: "gnmt" for ((5 + n) / 6)^alpha, "power" for n^alpha.
        alpha: the exponent, at least 0; 0 divides by 1.
    """

    kind: str
    alpha: float

    @classmethod
    def of(cls, generation_config: Any) -> "LengthPenalty":
        """Returns the penalty that search settings ask for."""
        kind = getattr(generation_config, "length_penalty_type", "gnmt")
        alpha = generation_config.length_penalty
        return cls(kind, 1.0 if alpha is None else alpha)

    def __call__(self, tokens: Any) -> Any:
        """Returns the divisor for a number, or a tensor of numbers, of generated tokens."""
        return ((5.0 + tokens) / 6.0 if self.kind == "gnmt" else tokens) ** self.alpha


def likeliest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Returns the `count` highest scores of each row and their places, the best first.

    Of equal scores the one further left comes first. In long rows only the blocks with the highest
    maxima are looked at: each of them has an element that is at least as good as any elsewhere.

    Args:
        scores: `(N, W)` float32, at most 0. What is no number counts as minus infinity.
        count: at most W.

    Returns:
        The scores `(N, count)` and their places `(N, count)` int64.
    """
    size, width = scores.shape
    blocks = width // _BLOCK
    if blocks <= 2 * count:
        scores = scores.masked_fill(scores.isnan(), _NEVER)
        best = _first_of_equals(scores, count)
        return scores.gather(1, best), best
    maxima = scores[:, : blocks * _BLOCK].unflatten(1, (blocks, _BLOCK)).amax(dim=-1)
    if maxima.isnan().any():
        return likeliest(scores.masked_fill(scores.isnan(), _NEVER), count)
    chosen = _first_of_equals(maxima, count).sort(dim=-1).values  # (N, count)
    within = torch.arange(_BLOCK, device=scores.device)
    rest = torch.arange(blocks * _BLOCK, width, device=scores.device).expand(size, -1)
    places = torch.cat([(chosen[..., None] * _BLOCK + within).flatten(1), rest], dim=1)
    scores, best = likeliest(scores.gather(1, places), count)
    return scores, places.gather(1, best)


def _first_of_equals(scores: Tensor, count: int) -> Tensor:
    """Returns the places of the `count` highest float32 scores, `topk` but for equal ones.

    Float64 has room below the last bit of a float32 for the places of 2^20 elements.
    """
    order = torch.arange(scores.size(1), dtype=torch.float64, device=scores.device)
    return (scores * (1.0 + order * 2.0**-50)).topk(count).indices


@dataclass
class Hypotheses:
    """N hypotheses of each sentence.

    Args:
        tokens: `(B, N, L)` int64, the prompt first.
        rows: `(B, N, L - prompt)` int64, the row of the batch in which each token was scored; -1
            where there is no token.
        scores: `(B, N)`, log P of open ones, log P over the penalty of finished ones, in nats;
            minus infinity where there is no hypothesis.
    """

    tokens: Tensor
    rows: Tensor
    scores: Tensor

    def select(self, places: Tensor) -> "Hypotheses":
        """Returns those at `places`, `(B, M)` int64 below N."""
        deep = places[..., None]
        return Hypotheses(
            self.tokens.gather(1, deep.expand(-1, -1, self.tokens.size(-1))),
            self.rows.gather(1, deep.expand(-1, -1, self.rows.size(-1))),
            self.scores.gather(1, places),
        )

    def of(self, sentences: Tensor) -> "Hypotheses":
        """Returns those of some sentences, `(B,)` bool or their numbers in int64."""
        return Hypotheses(self.tokens[sentences], self.rows[sentences], self.scores[sentences])

    def padded(self, length: int, pad_token_id: int) -> "Hypotheses":
        """Returns the same with room for `length` tokens."""
        extra = (0, length - self.tokens.size(-1))
        return Hypotheses(
            functional.pad(self.tokens, extra, value=pad_token_id),
            functional.pad(self.rows, extra, value=-1),
            self.scores,
        )


@dataclass(frozen=True)
class BeamSettings:
    """How to search.

    Args:
        num_beams: beam size K.
        num_return_sequences: hypotheses of each sentence that are wanted, at most K.
        penalty: the length penalty.
        early_stopping: when the search of a sentence is over. True: when K hypotheses are
            finished. False: when besides the likeliest open one, were it to end now, would not
            come among them. "never": when no open one can come among the wanted ones any more,
            even at the length that suits it best, its limit; so what is returned is the best
            that the search could reach.
        sample: whether candidates are drawn (beam sampling) or the likeliest taken.
        end_token_ids: `(E,)` int64, the tokens that end a hypothesis.
        pad_token_id: fills what is shorter than the longest.
    """

    num_beams: int
    num_return_sequences: int
    penalty: LengthPenalty
    early_stopping: bool | str
    sample: bool
    end_token_ids: Tensor
    pad_token_id: int

    @property
    def num_candidates(self) -> int:
        """So many that K go on even if every other one ends."""
        return max(2, 1 + len(self.end_token_ids)) * self.num_beams


class BeamSearch:
    """The search of a batch of sentences.

    Args:
        prompts: `(B, P)` int64, what each output begins with, at least the start token.
        limits: `(B,)` int64, how many tokens may be generated for each sentence.
        settings: how to search.
    """

    def __init__(self, prompts: Tensor, limits: Tensor, settings: BeamSettings) -> None:
        size, beams = len(prompts), settings.num_beams
        self.settings = settings
        self.limits = limits
        self.prompt_tokens = prompts.size(1)
        self.generated = 0
        tokens = prompts[:, None].expand(-1, beams, -1)
        rows = tokens[..., :0]
        nothing = torch.full((size, beams), _NEVER, device=prompts.device)  # float32
        self.open = Hypotheses(tokens, rows, nothing.clone())
        # One hypothesis, the empty one: K equal ones would stay equal for ever.
        self.open.scores[:, 0] = 0.0
        self.finished = Hypotheses(tokens, rows, nothing)
        self.done = torch.zeros(size, dtype=torch.bool, device=prompts.device)
        # Which sentences of the batch are still here, and the results of those that are not.
        self.sentences = torch.arange(size, device=prompts.device)
        self._results: dict[int, Hypotheses] = {}

    def open_tokens(self) -> Tensor:
        """Returns the open hypotheses `(B * K, L)` for the model's next step."""
        return self.open.tokens.flatten(0, 1)

    def advance(self, log_probs: Tensor, ends: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Continues every open hypothesis by a token.

        Args:
            log_probs: `(B * K, W)` log-probabilities of the next token, at most 0.
            ends: says of `(B * C, L)` int64 which hypotheses end, `(B * C,)` bool; `None`: those
                whose last token is an end token. Those at their limit end in any case.

        Returns:
            `(B * K,)` int64: the row that each open hypothesis continues.
        """
        beams = self.settings.num_beams
        candidates, parents = self._candidates(log_probs)
        self.generated += 1
        if ends is None:
            ended = torch.isin(candidates.tokens[..., -1], self.settings.end_token_ids)
        else:
            ended = ends(candidates.tokens.flatten(0, 1)).view_as(parents)
        ended = ended | (self.limits <= self.generated)[:, None]
        self._finish(candidates, ended)
        # In the order of their scores still; what ended is no hypothesis to go on with.
        candidates.scores = candidates.scores.masked_fill(ended, _NEVER)
        chosen = _first_of_equals(candidates.scores, beams)  # (B, K)
        self.open = candidates.select(chosen)
        self.done |= self._is_over()
        first_rows = torch.arange(len(parents), device=parents.device)[:, None] * beams
        return (parents.gather(1, chosen) + first_rows).flatten()

    def _candidates(self, log_probs: Tensor) -> tuple[Hypotheses, Tensor]:
        """The continuations `(B, C)` to choose from, best first, and the beams they continue."""
        vocabulary = log_probs.size(-1)
        beams = self.settings.num_beams
        count = min(self.settings.num_candidates, beams * vocabulary)
        if self.settings.sample:
            scores = (log_probs + self.open.scores.view(-1, 1)).view(-1, beams * vocabulary)
            # What is no number would rank first, and stay there.
            scores = scores.masked_fill(scores.isnan(), _NEVER)
            # A sentence that cannot be continued has no distribution to draw from.
            over = scores.amax(dim=-1, keepdim=True) == _NEVER
            drawn = scores.masked_fill(over, 0.0).softmax(dim=-1).multinomial(count)
            scores, order = scores.gather(1, drawn).sort(dim=-1, descending=True)
            chosen = drawn.gather(1, order)
            parents, tokens = chosen // vocabulary, chosen % vocabulary
        else:
            # Whatever is among the best of all is among the best of its hypothesis.
            each = min(count, vocabulary)
            best, tokens = likeliest(log_probs, each)  # (B * K, each)
            scores = (best + self.open.scores.view(-1, 1)).view(-1, beams * each)
            scores, chosen = likeliest(scores, count)
            parents, tokens = chosen // each, tokens.view(-1, beams * each).gather(1, chosen)
        longer = self.open.select(parents)
        rows = parents + self.sentences[:, None] * beams
        return (
            Hypotheses(
                torch.cat([longer.tokens, tokens[..., None]], dim=-1),
                torch.cat([longer.rows, rows[..., None]], dim=-1),
                scores,
            ),
            parents,
        )

    def _finish(self, candidates: Hypotheses, ended: Tensor) -> None:
        """Puts those of the first K candidates that ended among the finished ones."""
        beams = self.settings.num_beams
        new = Hypotheses(
            candidates.tokens[:, :beams], candidates.rows[:, :beams], candidates.scores[:, :beams]
        )
        finishing = ended[:, :beams] & ~self.done[:, None]
        if not finishing.any():
            return
        new.scores = new.scores / self.settings.penalty(self.generated)
        new.scores = new.scores.masked_fill(~finishing, _NEVER)
        old = self.finished.padded(new.tokens.size(-1), self.settings.pad_token_id)
        all_of_them = Hypotheses(
            torch.cat([old.tokens, new.tokens], dim=1),
            torch.cat([old.rows, new.rows], dim=1),
            torch.cat([old.scores, new.scores], dim=1),
        )
        self.finished = all_of_them.select(_first_of_equals(all_of_them.scores, beams))

    def _is_over(self) -> Tensor:
        """Which sentences are done, `(B,)` bool, by the rule of `early_stopping`."""
        settings = self.settings
        likeliest = self.open.scores[:, 0]
        if settings.early_stopping is True:
            return (self.finished.scores[:, -1] > _NEVER) | (likeliest == _NEVER)
        if settings.early_stopping == "never":
            # log P only falls and the penalty only grows: nothing open can do better than this.
            within_reach = likeliest / settings.penalty(self.limits.double()).to(likeliest.dtype)
            worst = self.finished.scores[:, settings.num_return_sequences - 1]
        else:
            within_reach = likeliest / settings.penalty(self.generated)
            worst = self.finished.scores[:, -1]
        # `worst` is minus infinity until there are as many. An infinite penalty makes what is
        # within reach of no open hypothesis no number, and no number is above another.
        return ~(within_reach > worst)

    def drop_done(self) -> Tensor | None:
        """Lets the sentences that are done leave, so that no more work is spent on them.

        Returns:
            `(B,)` bool, which sentences stay; `None` if all do.
        """
        if not self.done.any():
            return None
        stay = ~self.done
        self._keep_results(self.done)
        self.open, self.finished = self.open.of(stay), self.finished.of(stay)
        self.limits, self.sentences = self.limits[stay], self.sentences[stay]
        self.done = self.done[stay]
        return stay

    def _keep_results(self, leaving: Tensor) -> None:
        length = self.prompt_tokens + self.generated
        wanted = self.finished.padded(length, self.settings.pad_token_id)
        for place in leaving.nonzero()[:, 0].tolist():
            sentence = int(self.sentences[place])
            self._results[sentence] = wanted.of(torch.tensor([place], device=leaving.device))

    def result(self) -> Hypotheses:
        """Returns the best hypotheses `(B, num_return_sequences)` of all sentences, best first.

        Where a sentence has fewer, the others have no tokens and the score minus infinity.
        """
        self._keep_results(torch.ones_like(self.done))
        length = self.prompt_tokens + self.generated
        parts = [
            self._results[sentence].padded(length, self.settings.pad_token_id)
            for sentence in sorted(self._results)
        ]
        count = self.settings.num_return_sequences
        tokens = torch.cat([part.tokens[:, :count] for part in parts])
        rows = torch.cat([part.rows[:, :count] for part in parts])
        scores = torch.cat([part.scores[:, :count] for part in parts])
        # Places that no hypothesis took hold leftovers of the ranking.
        vacant = (scores == _NEVER)[..., None]
        rows = rows.masked_fill(vacant, -1)
        tokens[..., self.prompt_tokens :].masked_fill_(vacant, self.settings.pad_token_id)
        longest = int((rows >= 0).sum(dim=-1).max())
        return Hypotheses(tokens[..., : self.prompt_tokens + longest], rows[..., :longest], scores)


def reached_limit(hypotheses: Hypotheses, limits: Tensor, end_token_ids: Tensor) -> Tensor:
    """Returns which hypotheses were cut: at their limit without an end token.

    Args:
        hypotheses: finished ones.
        limits: `(B,)` int64, tokens that might be generated for each sentence.
        end_token_ids: `(E,)` int64.

    Returns:
        `(B, N)` bool.
    """
    lengths = (hypotheses.rows >= 0).sum(dim=-1)  # (B, N)
    prompt_tokens = hypotheses.tokens.size(-1) - hypotheses.rows.size(-1)
    last = hypotheses.tokens.gather(-1, (prompt_tokens + lengths - 1)[..., None])[..., 0]
    return (lengths >= limits[:, None]) & ~torch.isin(last, end_token_ids)


__all__ = [
    "BeamSearch",
    "BeamSettings",
    "Hypotheses",
    "LengthPenalty",
    "likeliest",
    "reached_limit",
]
