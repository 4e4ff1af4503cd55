"""Reads, converts, cleans, counts and splits parallel text."""

COMMANDS = {
    "convert": "write parallel text in another format",
    "gettext": "take sentence pairs from the message catalogs of programs",
    "clean": "drop the pairs that filters object to, and tell how many and why",
    "stats": "count pairs, lengths, copies and odd characters; draw the lengths",
    "split": "part a corpus into training, validation and test without near copies between them",
}
