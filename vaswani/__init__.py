"""A Hugging Face-compatible implementation of "Attention Is All You Need"."""
