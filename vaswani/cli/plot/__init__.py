"""Draws attention, positions or the learning rate, as PNG or SVG."""

COMMANDS = {
    "attention": "what the heads of a layer look at in a sentence pair",
    "positions": "the vectors that are added to tell positions",
    "schedule": "the learning rate over the updates",
}
