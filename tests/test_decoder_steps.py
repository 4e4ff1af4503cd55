"""The store of a search against the whole model, and what is left in it."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import decisive_model
from torch import Tensor

from vaswani import decoder_steps_vaswani
from vaswani.decoder_steps_vaswani import DecoderSteps
from vaswani.packed_decoder_vaswani import PackedDecoder

# Sums of float32 in another order.
FLOAT32 = {"rtol": 1e-4, "atol": 1e-4}


class Walk:
    """Hypotheses that take random tokens and places, and the steps that follow them.

    Args:
        sentences: B.
        beams: K.
        seed: of tokens and places.
        prompt: tokens of each output's beginning.
    """

    def __init__(self, sentences: int, beams: int, seed: int, prompt: int = 1) -> None:
        self.model = decisive_model(seed=seed % 7, decoder_layers=2).float()
        self.random = torch.Generator().manual_seed(seed)
        self.beams = beams
        self.mask = torch.ones(sentences, 5, dtype=torch.long)
        self.mask[0, 3:] = 0
        self.encoded = torch.randn(sentences, 5, 8, generator=self.random)
        with torch.no_grad():
            packed = PackedDecoder(self.model, "float32")
            self.steps = DecoderSteps(packed, self.encoded, self.mask, beams, 400)
        first = torch.randint(9, (sentences, prompt), generator=self.random)
        self.tokens = first.repeat_interleave(beams, 0)
        # The entry that holds each token of each hypothesis, by the numbers of those ever made.
        self.entries = torch.arange(prompt).expand(sentences * beams, -1)
        self.made = prompt

    def expected(self) -> Tensor:
        return self.model(
            encoder_outputs=(self.encoded.repeat_interleave(self.beams, 0),),
            attention_mask=self.mask.repeat_interleave(self.beams, 0),
            decoder_input_ids=self.tokens,
            use_cache=False,
        ).logits[:, -1]

    def go_on(self, stay: Tensor | None = None) -> None:
        size, beams = len(self.mask), self.beams
        # Rather the first places, as in a search, where few hypotheses have many descendants.
        chance = 0.5 ** torch.arange(beams, dtype=torch.float32)
        places = chance.expand(size, -1).multinomial(beams, True, generator=self.random)
        rows = (places + torch.arange(size)[:, None] * beams).flatten()
        self.steps.follow(rows, stay)
        if stay is not None:
            rows = rows[stay.repeat_interleave(beams)]
            self.mask, self.encoded = self.mask[stay], self.encoded[stay]
        new = torch.randint(9, (len(rows), 1), generator=self.random)
        self.tokens = torch.cat([self.tokens[rows], new], dim=1)
        own = self.made + torch.arange(len(rows)) % beams
        self.entries = torch.cat([self.entries[rows], own[:, None]], dim=1)
        self.made += beams

    def living(self) -> int:
        """Entries that some hypothesis descends from, of the sentence that has most."""
        by_sentence = self.entries.view(len(self.mask), -1)
        return max(len(row.unique()) for row in by_sentence)


@given(
    seed=st.integers(0, 500),
    sentences=st.integers(2, 4),
    beams=st.integers(1, 5),
    prompt=st.integers(1, 4),
    room=st.sampled_from([4, 9, 64]),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_every_hypothesis_sees_its_own_ancestors(
    seed: int, sentences: int, beams: int, prompt: int, room: int
) -> None:
    """Against the whole model over all tokens, while the store grows, drops and loses sentences."""
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(decoder_steps_vaswani, "_ROOM", room)
        walk = Walk(sentences, beams, seed, prompt)
        for step in range(24):
            got = walk.steps.logits(walk.tokens)
            torch.testing.assert_close(got, walk.expected(), **FLOAT32)
            leaving = step in (7, 15) and len(walk.mask) > 1
            walk.go_on(torch.arange(len(walk.mask)) != step % 2 if leaving else None)


@pytest.mark.parametrize("beams", [1, 4])
def test_the_store_stays_near_the_living(beams: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After any step it holds at most twice what some hypothesis descends from, and some room."""
    room = 16
    monkeypatch.setattr(decoder_steps_vaswani, "_ROOM", room)
    with torch.no_grad():
        walk = Walk(3, beams, seed=1)
        for _ in range(200):
            walk.steps.logits(walk.tokens)
            living = walk.living()
            assert living <= len(walk.steps.store) <= 2 * living + room
            walk.go_on()
        # Else nothing needed to be dropped.
        assert beams == 1 or living < 0.5 * walk.made


def test_memory_grows_with_sentences_not_with_beams() -> None:
    def held(sentences: int, beams: int) -> int:
        steps: Any = Walk(sentences, beams, seed=0).steps
        tensors = [*steps.source.keys, *steps.source.values, steps.store.keys, steps.store.values]
        return sum(tensor.nbytes for tensor in tensors)

    assert held(4, 4) == 2 * held(2, 4)
    assert held(4, 5) == held(4, 1)
