"""The tokenizer class: text to ids and back, for the source side and the target side.

Everything that decides an id (normal form, pieces, merges, end token) stands in `tokenizer.json`,
which is loaded as a whole; that is why the class has no `__init__`. Training is in
`vaswani.vocabulary`.

Three laws hold for a trained tokenizer, for every `text` of valid Unicode:

- `decode(encode(text), skip_special_tokens=True)` is the normal form C (NFC) of `text`.
- No text yields a control id (`<pad>` 0, `<s>` 1, `</s>` 2, `<unk>` 3): typed by a user, they are
  text like any other. `split_special_tokens=False` in a call lifts this for that call.
- No text yields `<unk>`: characters outside the vocabulary become the ids of their UTF-8 bytes.
"""

from __future__ import annotations

from typing import Any

from transformers import BatchEncoding, PreTrainedTokenizerFast


class VaswaniTokenizer(PreTrainedTokenizerFast):
    """Gives `input_ids` for a text and `labels` for a `text_target`, each closed by one `</s>`.

    Source: Section 5.1 (one vocabulary shared by source and target).
    """

    padding_side = "right"
    model_input_names = ["input_ids", "attention_mask"]  # noqa: RUF012

    def save_pretrained(self, *args: Any, **kwargs: Any) -> tuple[str, ...]:
        """Writes the tokenizer's files; the same files again when it has been loaded from them."""
        # Left there by loading: they say how this copy was found, nothing about the tokenizer.
        for key in ("is_local", "local_files_only"):
            self.init_kwargs.pop(key, None)
        return super().save_pretrained(*args, **kwargs)

    def _encode_plus(self, *args: Any, **kwargs: Any) -> BatchEncoding:
        """Encodes as the base class does, but says why a lone surrogate cannot be."""
        try:
            return super()._encode_plus(*args, **kwargs)
        except TypeError:
            given = [*args, kwargs.get("text"), kwargs.get("text_pair")]
            if (surrogate := _find_surrogate(given)) is None:
                raise
            raise ValueError(
                f"`text` must be valid Unicode, got the lone surrogate U+{ord(surrogate):04X}. "
                'Replace it first: text.encode("utf-8", "replace").decode("utf-8").'
            ) from None


def _find_surrogate(text: Any) -> str | None:
    """The first lone surrogate in a string or in nested lists of strings."""
    if isinstance(text, str):
        return next((char for char in text if "\ud800" <= char <= "\udfff"), None)
    if isinstance(text, (list, tuple)):
        found = (_find_surrogate(part) for part in text)
        return next((surrogate for surrogate in found if surrogate is not None), None)
    return None
