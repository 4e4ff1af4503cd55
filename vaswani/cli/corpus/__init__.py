"""Reads, cleans, counts and splits parallel text."""

COMMANDS = {
    "clean": "drop the pairs that filters object to, and tell how many and why",
    "stats": "count pairs, lengths, copies and odd characters; draw the lengths",
    "split": "part a corpus into training, validation and test without near copies between them",
}
