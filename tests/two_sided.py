"""Tokenizers and models with a vocabulary for each side; nothing here is a test."""

import json
from typing import Any

import torch
from tiny_model import TINY
from tokenizers import Tokenizer

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration, VaswaniTokenizer
from vaswani.vocabulary import pair_tokenizers, train_tokenizer

PEOPLE = {"baker": "boulanger", "sailor": "marin", "child": "enfant", "cook": "cuisinier"}
VERBS = {"sees": "voit", "greets": "salue"}
# Sentences of three words on both sides, with no word in common but the mark at the end.
PAIRS = [
    (f"{one} {verb} {other}.", f"{PEOPLE[one]} {VERBS[verb]} {PEOPLE[other]}.")
    for one in PEOPLE
    for verb in VERBS
    for other in PEOPLE
]
TARGET_PAD = 7


def move_pad(tokenizer: VaswaniTokenizer, index: int) -> VaswaniTokenizer:
    """The same tokenizer with the padding token at `index`, in exchange with the token there."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    vocabulary = state["model"]["vocab"]
    other = next(token for token, number in vocabulary.items() if number == index)
    vocabulary["<pad>"], vocabulary[other] = index, 0
    for token in state["added_tokens"]:
        if token["content"] == "<pad>":
            token["id"] = index
    state["added_tokens"].sort(key=lambda token: token["id"])
    return VaswaniTokenizer(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)),
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        split_special_tokens=True,
        model_max_length=20,
    )


def source_side() -> VaswaniTokenizer:
    """Byte-pair encoding of the sources, with room for each word as one token."""
    return train_tokenizer([source for source, _ in PAIRS], vocab_size=340, model_max_length=20)


def target_side(pad: int = TARGET_PAD) -> VaswaniTokenizer:
    """Whole words of the targets; the padding token has an id of its own."""
    words = train_tokenizer([target for _, target in PAIRS], model="word", model_max_length=20)
    return move_pad(words, pad) if pad else words


def paired(pad: int = TARGET_PAD) -> VaswaniTokenizer:
    """Both in one tokenizer."""
    return pair_tokenizers(source_side(), target_side(pad))


def model_for(tokenizer: VaswaniTokenizer, **settings: Any) -> VaswaniForConditionalGeneration:
    """An untrained model whose tables and padding ids are those of the two sides."""
    torch.manual_seed(0)
    config = VaswaniConfig(
        **{
            **TINY,
            "vocab_size": tokenizer.target_vocab_size,
            "encoder_vocab_size": len(tokenizer),
            "pad_token_id": tokenizer.target_pad_token_id,
            "encoder_pad_token_id": tokenizer.pad_token_id,
            "share_encoder_decoder_embeddings": False,
            **settings,
        }
    )
    return VaswaniForConditionalGeneration(config).eval()
