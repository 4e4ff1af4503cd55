"""Steps of a decoder for all open hypotheses at once, on a CPU.

    SourceMemory          keys and values of the sources
    TargetStore           keys and values of all open hypotheses, shared by those of a sentence
    DecoderSteps          a search's steps: tokens in, logits out

What they compute is what `VaswaniDecoder` and the projection compute, which is written for reading
and for training; here the same is arranged for a search:

- The hypotheses of a sentence are queries to one copy of its source.
- Each step adds a key and a value for every open hypothesis to a store, and a mask says which
  entries are a hypothesis's own ancestors. So nothing is moved when hypotheses change places;
  now and then entries that nobody descends from any more are dropped.
- Weights are laid out once, in `packed_decoder_vaswani.py`, and keys lie as their product with
  queries reads them.

Shapes: B sentences, S source tokens, Q tokens of a sentence that are read at once (those of the
prompt, or one of each of the K open hypotheses), N = B * Q rows, E entries of the store, H heads,
Dk/Dv features per head, D d_model, W vocabulary entries.
"""

from typing import Any

import torch
from torch import Tensor

from .packed_decoder_vaswani import PackedDecoder

_HIDDEN = -torch.inf  # added to the score of an entry that is no ancestor

# Entries that the store has room for at first, and by how much it may outgrow what is in use
# before it is looked through: dropping costs about as much as a step's attention.
_ROOM = 64
_SLACK = 1.5


class SourceMemory:
    """Keys and values of the sources, one copy for all hypotheses of a sentence.

    Args:
        decoder: the weights.
        states: `(B, S, D)`, the encoder's output.
        source_mask: `(B, S)`, 1 for real tokens.
    """

    def __init__(self, decoder: PackedDecoder, states: Tensor, source_mask: Tensor) -> None:
        size, length = source_mask.shape
        projected = decoder.sources(states.flatten(0, 1))  # (B * S, all layers' H * (Dk + Dv))
        hidden = ~source_mask.bool()
        start = 0
        self.keys, self.values = [], []
        for layer in decoder.layers:
            cross = layer.cross
            middle, end = (
                start + cross.heads * cross.d_k,
                start + cross.heads * (cross.d_k + cross.d_v),
            )
            keys = cross.split(projected, size, start, cross.d_k)
            values = cross.split(projected, size, middle, cross.d_v)
            self.keys.append(keys.transpose(2, 3).contiguous())  # (B, H, Dk, S)
            # Zeros, so that a source without any real token gives nothing to anyone.
            self.values.append(values.masked_fill(hidden[:, None, :, None], 0.0).contiguous())
            start = end
        self.heads = decoder.layers[0].cross.heads
        # The lowest number, not minus infinity, for such a source.
        lowest = torch.finfo(states.dtype).min
        self.mask = states.new_zeros(size, length).masked_fill(hidden, lowest)
        self.has_padding = bool(hidden.any())
        self._arrange()

    def _arrange(self) -> None:
        rows = self.mask[:, None].expand(-1, self.heads, -1).reshape(-1, 1, self.mask.size(1))
        self.rows = rows if self.has_padding else rows[:1, :, :1]
        self.flat = [
            (keys.flatten(0, 1), values.flatten(0, 1))
            for keys, values in zip(self.keys, self.values, strict=True)
        ]

    def keep(self, sentences: Tensor) -> None:
        """Drops all sentences but some, int64."""
        self.keys = [keys[sentences] for keys in self.keys]
        self.values = [values[sentences] for values in self.values]
        self.mask = self.mask[sentences]
        self._arrange()


class TargetStore:
    """Keys and values of all tokens that open hypotheses of a sentence descend from.

    Args:
        decoder: the weights.
        size: B.
        like: a tensor of the right dtype and device.
    """

    def __init__(self, decoder: PackedDecoder, size: int, like: Tensor) -> None:
        own = decoder.layers[0].own
        self.heads = own.heads
        layers = len(decoder.layers)
        self.keys = like.new_empty(layers, size, own.heads, own.d_k, _ROOM)
        self.values = like.new_empty(layers, size, own.heads, _ROOM, own.d_v)
        # 0 where a row may look, minus infinity elsewhere.
        self.ancestors = like.new_zeros(size, 1, 0)  # (B, Q, E)
        self.look_again = _ROOM

    def __len__(self) -> int:
        return self.ancestors.size(-1)

    def extend(self, among: Tensor) -> None:
        """Makes an entry for each row that is read next.

        Args:
            among: `(Q, Q)`, which of them see which: added to their scores.
        """
        size, queries, entries = self.ancestors.shape
        if entries >= self.look_again:
            self._drop_dead()
            entries = len(self)
        if entries + queries > self.values.size(3):
            self._grow(2 * (entries + queries))
        among = among.expand(size, -1, -1)
        self.ancestors = torch.cat([self.ancestors.expand(-1, len(among[0]), -1), among], dim=-1)
        self.mask = (
            self.ancestors[:, None]
            .expand(-1, self.heads, -1, -1)
            .reshape(-1, *self.ancestors.shape[1:])
        )  # (B * H, Q, E)
        whole = len(self)
        new = slice(entries, whole)
        self.new_keys = self.keys[..., new].unbind()
        self.new_values = self.values[:, :, :, new].unbind()
        self.all_keys = self.keys.flatten(1, 2)[..., :whole].unbind()
        self.all_values = self.values.flatten(1, 2)[:, :, :whole].unbind()

    def follow(self, rows: Tensor) -> None:
        """Makes each row see what another one saw, `(B * K,)` int64, whose token it continues."""
        size, _, entries = self.ancestors.shape
        self.ancestors = self.ancestors.flatten(0, 1)[rows].view(size, -1, entries)

    def keep(self, sentences: Tensor) -> None:
        """Drops all sentences but some, int64."""
        self.keys, self.values = self.keys[:, sentences], self.values[:, sentences]
        self.ancestors = self.ancestors[sentences]

    def _grow(self, room: int) -> None:
        keys, values = self.keys, self.values
        entries = len(self)
        self.keys = keys.new_empty(*keys.shape[:-1], room)
        self.values = values.new_empty(*values.shape[:3], room, values.size(-1))
        self.keys[..., :entries] = keys[..., :entries]
        self.values[:, :, :, :entries] = values[:, :, :, :entries]

    def _drop_dead(self) -> None:
        """Closes the gaps that entries leave which no row sees any more."""
        alive = (self.ancestors == 0).any(dim=1)  # (B, E)
        most = int(alive.sum(dim=-1).max())
        self.look_again = int(_SLACK * most) + _ROOM // 4
        if len(self) < _SLACK * most:
            return
        # The living first, in their order. Where a sentence has fewer, dead ones fill up.
        order = alive.to(torch.uint8).sort(dim=-1, descending=True, stable=True).indices[:, :most]
        self.ancestors = self.ancestors.gather(
            2, order[:, None].expand(-1, self.ancestors.size(1), -1)
        )
        for keys, values in zip(self.keys, self.values, strict=True):
            by_column = order[:, None, None].expand(-1, *keys.shape[1:3], -1)
            by_row = order[:, None, :, None].expand(-1, self.heads, -1, values.size(-1))
            keys[..., :most] = keys.gather(3, by_column)
            values[:, :, :most] = values.gather(2, by_row)


class DecoderSteps:
    """The steps of one search.

    Args:
        decoder: the weights.
        encoder_states: `(B, S, D)`.
        source_mask: `(B, S)`, 1 for real tokens.
        num_beams: K.
        most_read: tokens of an output that are read at most, the prompt included.
    """

    # Nothing but tokens comes out, and any number of sentences may go on.
    outputs = cache = None
    may_shrink = True

    def __init__(
        self,
        decoder: PackedDecoder,
        encoder_states: Tensor,
        source_mask: Tensor,
        num_beams: int,
        most_read: int,
    ) -> None:
        self.decoder = decoder
        self.num_beams = num_beams
        self.size = len(source_mask)
        self.source = SourceMemory(decoder, encoder_states, source_mask)
        self.store = TargetStore(decoder, self.size, encoder_states)
        places = torch.arange(most_read, device=encoder_states.device)
        self.positions = decoder.embed_positions(places, encoder_states.dtype)  # (most_read, D)
        self.read_tokens = 0
        apart = encoder_states.new_full((num_beams, num_beams), _HIDDEN)
        self.apart = apart.fill_diagonal_(0.0)

    def logits(self, tokens: Tensor) -> Tensor:
        """Returns the logits `(B * K, W)` of the token after `tokens`, `(B * K, L)` int64."""
        if not self.read_tokens:
            return self._read_prompt(tokens[:: self.num_beams])
        hidden_states = self._read(tokens[:, -1], self.apart, self.positions[self.read_tokens])
        self.read_tokens += 1
        return self.decoder.projection(hidden_states)

    def follow(self, rows: Tensor, stay: Tensor | None) -> None:
        """Goes on with other hypotheses than those whose tokens were read.

        Args:
            rows: `(B * K,)` int64, the row that each open hypothesis continues.
            stay: `(B,)` bool, the sentences that are not done; `None`: all stay.
        """
        self.store.follow(rows)
        if stay is not None:
            sentences = stay.nonzero()[:, 0]
            self.store.keep(sentences)
            self.source.keep(sentences)
            self.size = len(sentences)

    def _read_prompt(self, prompts: Tensor) -> Tensor:
        """Reads `(B, P)` tokens, the same for all hypotheses of a sentence."""
        length = prompts.size(1)
        later = self.positions.new_full((length, length), _HIDDEN).triu(1)
        positions = self.positions[:length].repeat(self.size, 1)
        hidden_states = self._read(prompts.flatten(), later, positions)
        self.read_tokens = length
        last = hidden_states.view(self.size, length, -1)[:, -1]
        self.store.ancestors = self.store.ancestors[:, -1:].repeat(1, self.num_beams, 1)
        return self.decoder.projection(last).repeat_interleave(self.num_beams, dim=0)

    def _read(self, tokens: Tensor, among: Tensor, positions: Tensor) -> Tensor:
        """Returns the last layer's `(N, D)` for `(N,)` tokens, and remembers their keys and values.

        Args:
            tokens: int64.
            among: `(Q, Q)`, which of the tokens read now see which: added to their scores.
            positions: `(N, D)` or `(D,)`.
        """
        decoder, source, store, size = self.decoder, self.source, self.store, self.size
        store.extend(among)
        embedded = decoder.embed_tokens(tokens)
        hidden_states = torch.add(positions, embedded, alpha=decoder.embedding_scale)
        for number, layer in enumerate(decoder.layers):
            own, cross, residual = layer.own, layer.cross, layer.feed_forward.residual

            def attend_to_target(states: Tensor, number: int = number, own: Any = own) -> Tensor:
                rows = own.inputs(states)
                query = own.split(rows, size, 0, own.d_k)
                keys = own.split(rows, size, own.heads * own.d_k, own.d_k)
                values = own.split(rows, size, 2 * own.heads * own.d_k, own.d_v)
                store.new_keys[number].copy_(keys.transpose(2, 3))
                store.new_values[number].copy_(values)
                return own.attend(
                    query, store.all_keys[number], store.all_values[number], store.mask
                )

            def attend_to_source(
                states: Tensor, number: int = number, cross: Any = cross
            ) -> Tensor:
                query = cross.split(cross.inputs(states), size, 0, cross.d_k)
                return cross.attend(query, *source.flat[number], source.rows)

            hidden_states = residual(hidden_states, layer.own_norm, attend_to_target)
            hidden_states = residual(hidden_states, layer.cross_norm, attend_to_source)
            hidden_states = residual(hidden_states, layer.feed_forward.norm, layer.feed_forward)
        return decoder.layer_norm(hidden_states)


__all__ = ["DecoderSteps", "SourceMemory", "TargetStore"]
