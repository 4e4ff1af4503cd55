"""Shows what a tokenizer is: kind, sizes, normal form, control tokens; and how a text is split."""

import json
from dataclasses import dataclass, field
from typing import Any

from vaswani.errors import InputError

_LONGEST = 10
_KINDS = {"BPE": "byte-pair encoding", "Unigram": "unigram", "WordLevel": "whole words"}


@dataclass
class ShowArguments:
    """What to show."""

    _argument_group_name = "tokenizer"

    tokenizer: str = field(
        metadata={"metavar": "FOLDER", "help": "folder of a tokenizer or of a model"}
    )
    text: str | None = field(
        default=None, metadata={"help": "a text to split into pieces, on each side"}
    )


ARGUMENTS: tuple[type, ...] = (ShowArguments,)
EXAMPLES = """
vaswani tokenizer show --tokenizer runs/en-de
vaswani tokenizer show --tokenizer runs/en-de --text "Is </s> a control token?"
"""


def run(arguments: ShowArguments) -> int:
    """Prints one `name: value` a line, for each vocabulary."""
    from vaswani.model_folder import open_tokenizer
    from vaswani.tokenization_vaswani import target_side

    tokenizer = open_tokenizer(arguments.tokenizer)
    target = target_side(tokenizer)
    sides = {"source and target": tokenizer}
    if target is not tokenizer:
        sides = {"source": tokenizer, "target": target}
    print("\n\n".join(_described(name, side, arguments.text) for name, side in sides.items()))
    return 0


def _described(name: str, tokenizer: Any, text: str | None) -> str:
    kind = type(tokenizer.backend_tokenizer.model).__name__
    control = {
        token: tokenizer.convert_tokens_to_ids(token) for token in tokenizer.all_special_tokens
    }
    added = {
        token.content: index
        for index, token in tokenizer.added_tokens_decoder.items()
        if token.content not in control
    }
    learnt = set(tokenizer.get_vocab()) - {*control, *added}
    learnt = {token for token in learnt if not (token.startswith("<0x") and token.endswith(">"))}
    longest = sorted(learnt, key=lambda token: (-len(token), token))[:_LONGEST]
    lines = {
        "vocabulary": name,
        "kind": _KINDS.get(kind, kind),
        "entries": f"{len(tokenizer):,}",
        "normal form": str(getattr(tokenizer, "normalization", None) or "none").upper(),
        "longest text": f"{tokenizer.model_max_length:,} tokens",
        "control tokens": _numbered(control),
        "added tokens": _numbered(added) or "none",
        "longest pieces": _quoted(longest) or "none",
    }
    if text is not None:
        try:
            ids = tokenizer(text, verbose=False)["input_ids"]
        except ValueError as error:
            raise InputError(str(error)) from error
        pieces = tokenizer.convert_ids_to_tokens(ids, side="source")
        lines |= {"pieces": _quoted(pieces), "ids": " ".join(map(str, ids))}
        lines["read back"] = json.dumps(
            tokenizer.decode(ids, skip_special_tokens=True, side="source"), ensure_ascii=False
        )
    width = max(map(len, lines)) + 2
    return "\n".join(f"{label + ':':<{width}}{value}" for label, value in lines.items())


def _numbered(tokens: dict[str, int]) -> str:
    ordered = sorted(tokens.items(), key=lambda item: item[1])
    return ", ".join(f"{token} {index}" for token, index in ordered)


def _quoted(pieces: list[str]) -> str:
    """Pieces in quotes, since most begin with a space."""
    return " ".join(json.dumps(piece, ensure_ascii=False) for piece in pieces)
