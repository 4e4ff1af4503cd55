"""Trains a tokenizer on text, applies one to lines, or shows what one is."""

COMMANDS = {
    "train": "train a tokenizer on parallel or plain text",
    "encode": "turn lines into ids or pieces",
    "decode": "turn lines of ids back into text",
    "show": "tell kind, sizes, normal form, and how a text is split",
}
