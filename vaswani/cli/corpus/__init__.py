"""Reads, converts, cleans, counts and splits parallel text."""

COMMANDS = {
    "convert": "write parallel text in another format",
    "gettext": "take sentence pairs from the message catalogs of programs",
}
