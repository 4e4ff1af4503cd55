"""Attention weights of one sentence pair, with the tokens that they belong to.

    read_attention      the weights of one layer, from a model
    AttentionMap        what it returns
    shown_tokens        tokens as a reader wants to see them
    token_positions     which tokens spell a word

Left to others: drawing (`plotting`).
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from vaswani.errors import InputError
from vaswani.modeling_vaswani import VaswaniForConditionalGeneration
from vaswani.text_lines import clean_text
from vaswani.tokenization_vaswani import VaswaniTokenizer

Part = Literal["encoder", "decoder", "cross"]
PARTS: tuple[Part, ...] = get_args(Part)

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


@dataclass(frozen=True)
class AttentionMap:
    """The attention weights of one layer for one sentence pair.

    Args:
        weights: `(H, Q, K)`; each row, the weights of one query token over all key tokens, sums
            to 1. Q and K are the numbers of `queries` and `keys`.
        queries: tokens that look, as the vocabulary spells them. In cross-attention row t is what
            predicts target token t; in the decoder's self-attention it is what the decoder reads
            there, the start token first.
        keys: tokens that are looked at.
        part: "encoder", "decoder" (both self-attention) or "cross".
        layer: place of the layer in its stack, from 0.
        layers: layers of the stack.
    """

    weights: Tensor
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    part: Part
    layer: int
    layers: int


def read_attention(
    model: VaswaniForConditionalGeneration,
    tokenizer: VaswaniTokenizer,
    source: str,
    target: str,
    *,
    part: Part = "cross",
    layer: int = -1,
) -> AttentionMap:
    """Returns the weights of every head of one layer while the model reads a sentence pair.

    Args:
        model: any model; it is put into evaluation mode.
        tokenizer: its tokenizer.
        source: one sentence.
        target: its translation; the encoder's self-attention does not depend on it.
        part: whose attention: "encoder", "decoder" or "cross".
        layer: which layer, from 0; negative ones count from the end, so -1 is the last.

    Raises:
        InputError: if there is no such part or layer, or a learned position table is too short.
    """
    layer, layers = _checked_layer(model, part, layer)
    batch = tokenizer(clean_text(source), text_target=clean_text(target), return_tensors="pt")
    batch = batch.to(model.device)
    labels = batch["labels"]
    _check_lengths(model, batch["input_ids"].size(1), labels.size(1))
    model.eval()
    usual = model.config._attn_implementation
    # The others return no weights, and the model would warn that it takes this one instead.
    model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            outputs = model(**batch, output_attentions=True)
    finally:
        model.set_attn_implementation(usual)
    found = {
        "encoder": outputs.encoder_attentions,
        "decoder": outputs.decoder_attentions,
        "cross": outputs.cross_attentions,
    }
    read = model.prepare_decoder_input_ids_from_labels(labels)
    sources = _tokens(tokenizer, batch["input_ids"][0], "source")
    targets = _tokens(tokenizer, read[0] if part == "decoder" else labels[0], "target")
    return AttentionMap(
        found[part][layer][0].float().cpu(),
        sources if part == "encoder" else targets,
        targets if part == "decoder" else sources,
        part,
        layer,
        layers,
    )


def _checked_layer(
    model: VaswaniForConditionalGeneration, part: str, layer: int
) -> tuple[int, int]:
    if part not in PARTS:
        raise InputError(f"`part` must be one of {', '.join(PARTS)}, got {part!r}.")
    stack = "encoder" if part == "encoder" else "decoder"
    layers = model.config.encoder_layers if stack == "encoder" else model.config.decoder_layers
    if not -layers <= layer < layers:
        raise InputError(
            f"`layer` must be from 0 to {layers - 1}, the layers of the {stack}, got {layer}. "
            "-1 is the last."
        )
    return layer % layers, layers


def _check_lengths(model: VaswaniForConditionalGeneration, source: int, target: int) -> None:
    limit, longest = model.config.position_limit, max(source, target)
    if limit is not None and longest > limit:
        raise InputError(
            f"`source` and `target` must have at most {limit} tokens, the "
            f"learned positions of the model (`max_position_embeddings`), got {longest}. "
            "Give a shorter sentence."
        )


def _tokens(tokenizer: VaswaniTokenizer, ids: Tensor, side: str) -> tuple[str, ...]:
    return tuple(tokenizer.convert_ids_to_tokens(ids.tolist(), side=side))


def shown_tokens(tokens: Sequence[str]) -> list[str]:
    """Returns the tokens as a reader wants to see them, one text each.

    Spaces are left out; instead "·" stands before a piece that continues a word (in a vocabulary
    of whole words there is none). A token of nothing but space is "␣". Tokens that spell a
    character by its UTF-8 bytes show the character and which of its bytes they are, as in "字 1/3".
    """
    spelt = _spelt_characters(tokens)
    # The first word of a text has a space too, so without any these are whole words.
    in_pieces = any(token[:1].isspace() for token in tokens)
    shown = []
    for place, token in enumerate(tokens):
        text = token.strip()
        if place in spelt:
            character, number, count = spelt[place]
            text = character if count == 1 else f"{character} {number}/{count}"
        elif not text:
            text = "␣"
        elif in_pieces and token[0] == text[0] and place and _continues(tokens[place - 1], text):
            text = f"·{text}"
        shown.append(text)
    return shown


def _spelt_characters(tokens: Sequence[str]) -> dict[int, tuple[str, int, int]]:
    """Character, number of the byte and bytes in all of each token that is a byte of one."""
    values = [_BYTE.fullmatch(token) for token in tokens]
    spelt: dict[int, tuple[str, int, int]] = {}
    for start in range(len(tokens)):
        run: list[int] = []
        for value in values[start : start + 4]:
            if start in spelt or value is None:
                break
            run.append(int(value[1], 16))
            try:
                character = bytes(run).decode("utf-8")
            except UnicodeDecodeError:
                continue
            if character.isprintable() and not character.isspace():
                for number in range(len(run)):
                    spelt[start + number] = (character, number + 1, len(run))
            break
    return spelt


def _continues(before: str, text: str) -> bool:
    """Whether `text` goes on within a word, in a script that writes spaces between words."""
    return bool(before) and _is_of_word(before[-1]) and _is_of_word(text[0])


def _is_of_word(character: str) -> bool:
    kind, width = unicodedata.category(character)[0], unicodedata.east_asian_width(character)
    return kind in "LMN" and width not in "WF"


def token_positions(word: str, tokens: Sequence[str]) -> list[int]:
    """Returns the places of the tokens that spell `word`, everywhere that it occurs.

    Whole words are looked for first, so that "a" is not found within "baker" beside "a baker";
    then pieces of words, and control tokens such as "</s>".

    Raises:
        InputError: if no run of tokens spells it.
    """
    wanted = word.strip()
    texts = list(tokens)
    for place, (character, number, _) in _spelt_characters(tokens).items():
        texts[place] = character if number == 1 else ""
    runs = [
        range(start, end)
        for start in range(len(texts))
        for end in range(start + 1, len(texts) + 1)
        if wanted and texts[start] and "".join(texts[start:end]).strip() == wanted
    ]
    whole = [run for run in runs if _is_whole(run, tokens)]
    places = sorted({place for run in whole or runs for place in run})
    if not places:
        raise InputError(
            f"`words` must be in the sentence, got {word!r}. Its tokens are: "
            f"{' '.join(shown_tokens(tokens))}"
        )
    return places


def _is_whole(run: range, tokens: Sequence[str]) -> bool:
    before = tokens[run.start - 1] if run.start else ""
    starts = tokens[run.start][:1].isspace() or not _continues(before, tokens[run.start])
    after = tokens[run.stop] if run.stop < len(tokens) else ""
    return starts and not (after and _continues(tokens[run.stop - 1], after))
