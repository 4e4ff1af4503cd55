"""The tokenizer class: text to ids and back, for the source side and the target side.

Everything that decides an id (normal form, pieces, merges, end token) stands in `tokenizer.json`,
which is loaded as a whole; that is why the class has no `__init__`. Training is in
`vaswani.vocabulary`.

With one shared vocabulary both sides are the same. With a vocabulary for each side, the tokenizer
itself is the source's and holds the target's, `target_tokenizer`, which is a tokenizer too; its
ids stand in `target_tokenizer.json`, which `tokenizer_config.json` names.

Three laws hold for a trained tokenizer, for every `text` of valid Unicode; with separate
vocabularies, for each side:

- `decode(encode(text), skip_special_tokens=True)` is the normal form of `text` that `normalization`
  tells: NFC, unless NFKC was asked for in training.
- No text yields a control id (`<pad>` 0, `<s>` 1, `</s>` 2, `<unk>` 3): typed by a user, they are
  text like any other, and so are control tokens that were added, such as `<2de>`.
  `split_special_tokens=False` in a call lifts this for that call.
- No text yields `<unk>`: characters outside the vocabulary become the ids of their UTF-8 bytes.

What is no valid Unicode, a lone surrogate, is refused wherever a text or a token comes in. Decoding
gives U+FFFD for bytes that spell no character.

Of a vocabulary of whole words the first and the third cannot hold: decoding gives the words in
lower case, with spaces of its own, and a word outside the vocabulary becomes `<unk>`, which stays
visible with `skip_special_tokens` too.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from tokenizers import AddedToken, Tokenizer, models
from transformers import BatchEncoding, PreTrainedTokenizerFast

TARGET_FILE = "target_tokenizer.json"

_IGNORED_LABEL = -100
# What a side has beside its vocabulary and the names of its control tokens.
_SETTINGS = (
    "model_max_length",
    "padding_side",
    "truncation_side",
    "split_special_tokens",
    "clean_up_tokenization_spaces",
    "model_input_names",
)


class VaswaniTokenizer(PreTrainedTokenizerFast):
    """Gives `input_ids` for a text and `labels` for a `text_target`, each closed by one `</s>`.

    Source: Section 5.1 (one vocabulary shared by source and target). Separate vocabularies are no
    part of the paper.

    With separate vocabularies everything that a tokenizer tells of itself (`len`, `pad_token_id`,
    `get_vocab`, ...) is the source's; `target_vocab_size`, `target_pad_token_id` and
    `target_tokenizer` are the target's. What takes ids has an argument `side`, "source" or
    "target": `decode`, `batch_decode` and `convert_ids_to_tokens` read the target by default, since
    outputs of a model are what is decoded. `decode` leaves out -100, which pads labels.
    """

    padding_side = "right"
    model_input_names = ["input_ids", "attention_mask"]  # noqa: RUF012
    # So that `from_pretrained` finds the file, in a folder as on the Hub.
    vocab_files_names = {  # noqa: RUF012
        **PreTrainedTokenizerFast.vocab_files_names,
        "target_tokenizer_file": TARGET_FILE,
    }
    _target: VaswaniTokenizer | None = None

    @property
    def separate_vocabularies(self) -> bool:
        """Whether each side has a vocabulary of its own."""
        return self._target is not None

    @property
    def target_tokenizer(self) -> VaswaniTokenizer:
        """The tokenizer of the target side: this one where the vocabulary is shared."""
        return self if self._target is None else self._target

    @property
    def normalization(self) -> str | None:
        """The normal form of the source side's texts, "nfc" or "nfkc"; `None` if there is none."""
        normalizer = self.backend_tokenizer.normalizer
        steps = json.loads(normalizer.__getstate__()) if normalizer else {}
        kinds = [
            step["type"].lower() for step in steps.get("normalizers", [steps] if steps else [])
        ]
        return next((kind for kind in kinds if kind in ("nfc", "nfkc")), None)

    @property
    def target_vocab_size(self) -> int:
        """Entries of the target's vocabulary, added tokens included."""
        return len(self.target_tokenizer)

    @property
    def target_pad_token_id(self) -> int:
        """Id of padding in the target."""
        return self.target_tokenizer.pad_token_id

    def with_target(self, target: VaswaniTokenizer) -> VaswaniTokenizer:
        """A copy of this tokenizer whose target side is a copy of `target`.

        Raises:
            ValueError: if one of the two has two sides already, or no padding or end token.
        """
        for name, side in (("source", self), ("target", target)):
            if side.separate_vocabularies:
                raise ValueError(f"`{name}` must be a tokenizer of one vocabulary, got one of two.")
            for token in ("pad_token", "eos_token"):
                if getattr(side, token) is None:
                    raise ValueError(f"`{name}` must be a tokenizer with `{token}`, got None.")
        paired = copy.deepcopy(self)
        paired._target = copy.deepcopy(target)
        return paired

    # Text to ids

    def __call__(
        self,
        text: Any = None,
        text_pair: Any = None,
        text_target: Any = None,
        text_pair_target: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> BatchEncoding:
        """Encodes as the base class does: `text` by the source side, `text_target` by the target.

        Returns:
            `input_ids` and `attention_mask`; for both texts also `labels`, the target's ids.
        """
        if self._target is None or text_target is None:
            return super().__call__(text, text_pair, text_target, text_pair_target, *args, **kwargs)
        labels = self._target(None, None, text_target, text_pair_target, *args, **kwargs)
        if text is None:
            return labels
        encoded = super().__call__(text, text_pair, None, None, *args, **kwargs)
        encoded["labels"] = labels["input_ids"]
        return encoded

    def _encode_plus(self, *args: Any, **kwargs: Any) -> BatchEncoding:
        """Encodes as the base class does, but says why a lone surrogate cannot be."""
        try:
            return super()._encode_plus(*args, **kwargs)
        except TypeError:
            given = [*args, kwargs.get("text"), kwargs.get("text_pair")]
            if (surrogate := _find_surrogate(given)) is None:
                raise
            raise _surrogate_error("text", surrogate) from None

    # Ids to text

    def _decode(
        self,
        token_ids: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        *,
        side: str = "target",
        **kwargs: Any,
    ) -> Any:
        """Decodes one sequence or each of nested ones; all ways of decoding come here."""
        owner = self._side(side)
        if isinstance(token_ids, dict):
            token_ids = token_ids["input_ids"]
        ids = [token_ids] if isinstance(token_ids, int) else token_ids
        if len(ids) and isinstance(ids[0], (list, tuple)):
            kwargs |= {"clean_up_tokenization_spaces": clean_up_tokenization_spaces, "side": side}
            return [self._decode(part, skip_special_tokens, **kwargs) for part in ids]
        left_out = {_IGNORED_LABEL}
        if skip_special_tokens and isinstance(owner.backend_tokenizer.model, models.WordLevel):
            # An unknown word is a gap in the text, and a gap should be seen.
            left_out |= {*owner.all_special_ids} - {owner.unk_token_id}
            skip_special_tokens = False
        decode = super()._decode if owner is self else owner._decode
        return decode(
            [index for index in ids if index not in left_out],
            skip_special_tokens=skip_special_tokens,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
            **kwargs,
        )

    def convert_ids_to_tokens(
        self, ids: int | list[int], skip_special_tokens: bool = False, *, side: str = "target"
    ) -> str | list[str]:
        """The tokens of ids of one side."""
        owner = self._side(side)
        convert = super().convert_ids_to_tokens if owner is self else owner.convert_ids_to_tokens
        return convert(ids, skip_special_tokens)

    def _side(self, side: str) -> VaswaniTokenizer:
        if side not in ("source", "target"):
            raise ValueError(f"`side` must be source or target, got {side!r}.")
        return self if side == "source" else self.target_tokenizer

    # Vocabularies

    def add_tokens(
        self, new_tokens: Any, special_tokens: bool = False, *, side: str | None = None
    ) -> int:
        """Adds tokens to the vocabulary, of the side that must be named where there are two.

        Raises:
            ValueError: if `side` is missing where it is needed, or a token is no valid Unicode.
        """
        if side is None and self.separate_vocabularies:
            raise ValueError(
                "`side` must be source or target where each has its own vocabulary, got None."
            )
        owner = self._side(side or "source")
        add = super().add_tokens if owner is self else owner.add_tokens
        return add(new_tokens, special_tokens)

    def add_special_tokens(
        self, special_tokens_dict: dict[str, Any], *args: Any, **kwargs: Any
    ) -> int:
        """Adds control tokens as the base class does.

        Raises:
            ValueError: if each side has a vocabulary of its own, or a token is no valid Unicode.
        """
        self._refuse_two_sides("get control tokens")
        if (surrogate := _find_surrogate([*special_tokens_dict.values()])) is not None:
            raise _surrogate_error("special_tokens_dict", surrogate)
        return super().add_special_tokens(special_tokens_dict, *args, **kwargs)

    def _add_tokens(self, new_tokens: Any, special_tokens: bool = False) -> int:
        """Adds tokens as the base class does, and has control tokens found in the normal form.

        Found before, each would make a text of what follows it, and texts that begin with a space
        get one more.
        """
        tokens: list[str | AddedToken] = []
        for token in new_tokens:
            if (surrogate := _find_surrogate(token)) is not None:
                raise _surrogate_error("new_tokens", surrogate)
            if not isinstance(token, AddedToken):
                token = AddedToken(token, normalized=True, special=special_tokens)
            elif token.special or special_tokens:
                token = AddedToken(
                    token.content,
                    single_word=token.single_word,
                    lstrip=token.lstrip,
                    rstrip=token.rstrip,
                    normalized=True,
                    special=True,
                )
            tokens.append(token)
        return super()._add_tokens(tokens, special_tokens)

    def train_new_from_iterator(self, *args: Any, **kwargs: Any) -> VaswaniTokenizer:
        """Trains anew with the same steps, and keeps the 256 bytes, which the base class drops.

        `vaswani.vocabulary.train_tokenizer` is the better way: it leaves rare characters out.

        Raises:
            ValueError: if each side has a vocabulary of its own.
        """
        self._refuse_two_sides("be trained anew")
        if isinstance(self.backend_tokenizer.model, models.WordLevel):
            return super().train_new_from_iterator(*args, **kwargs)
        byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
        kwargs["new_special_tokens"] = [*byte_tokens, *(kwargs.get("new_special_tokens") or [])]
        trained = super().train_new_from_iterator(*args, **kwargs)
        # The base class made the bytes tokens to be found in text; here they only spell characters.
        state = json.loads(trained.backend_tokenizer.to_str())
        state["model"]["byte_fallback"] = True
        state["added_tokens"] = [
            token for token in state["added_tokens"] if token["content"] not in byte_tokens
        ]
        settings = trained.init_kwargs | {
            "extra_special_tokens": [
                token for token in trained.extra_special_tokens if str(token) not in byte_tokens
            ]
        }
        return type(self)(tokenizer_object=Tokenizer.from_str(json.dumps(state)), **settings)

    def _refuse_two_sides(self, what: str) -> None:
        if self.separate_vocabularies:
            raise ValueError(
                f"a tokenizer must have one vocabulary to {what}, got one of two sides. Do it to "
                "the tokenizer of one side, then pair them with `with_target`."
            )

    # Files

    def save_pretrained(self, *args: Any, **kwargs: Any) -> tuple[str, ...]:
        """Writes the tokenizer's files; the same files again when it has been loaded from them."""
        # Left there by loading: they say how this copy was found, nothing about the tokenizer.
        for key in ("is_local", "local_files_only", "target_file", "target_settings"):
            self.init_kwargs.pop(key, None)
        if self._target is not None:
            self.init_kwargs["target_file"] = TARGET_FILE
            self.init_kwargs["target_settings"] = self._target._own_settings()
        return super().save_pretrained(*args, **kwargs)

    def _own_settings(self) -> dict[str, Any]:
        """What the constructor needs beside the file to make this tokenizer again."""
        settings = {name: getattr(self, name) for name in _SETTINGS}
        settings |= self.special_tokens_map
        if self.extra_special_tokens:
            settings["extra_special_tokens"] = self.extra_special_tokens
        return settings

    def _save_pretrained(
        self,
        save_directory: Any,
        file_names: tuple[str, ...],
        legacy_format: bool | None = None,
        filename_prefix: str | None = None,
    ) -> tuple[str, ...]:
        """Writes the vocabularies; called when `tokenizer_config.json` has been written."""
        for side in (self, self.target_tokenizer):
            # Left there by the last call, and set anew by the next.
            side.backend_tokenizer.no_padding()
            side.backend_tokenizer.no_truncation()
        names = super()._save_pretrained(save_directory, file_names, legacy_format, filename_prefix)
        if self._target is None:
            return names
        path = f"{save_directory}/{filename_prefix + '-' if filename_prefix else ''}{TARGET_FILE}"
        self._target.backend_tokenizer.save(path)
        return (*names, path)

    @classmethod
    def _from_pretrained(cls, *args: Any, **kwargs: Any) -> VaswaniTokenizer:
        """Loads as the base class does; then the target side, if `tokenizer_config.json` names it.

        Raises:
            ValueError: if the file that it names is not there.
        """
        loaded = super()._from_pretrained(*args, **kwargs)
        if "target_file" not in loaded.init_kwargs:
            return loaded
        path = loaded.init_kwargs.get("target_tokenizer_file")
        if path is None or loaded.init_kwargs["target_file"] != TARGET_FILE:
            raise ValueError(
                f"`{loaded.init_kwargs['target_file']}` must lie beside tokenizer.json under the "
                f"name {TARGET_FILE}, since tokenizer_config.json names it, got no such file."
            )
        settings = loaded.init_kwargs.get("target_settings") or {}
        loaded._target = cls(tokenizer_file=path, **settings)
        return loaded


def target_side(tokenizer: Any) -> Any:
    """The tokenizer of the target side: of another class than ours, the tokenizer itself."""
    return getattr(tokenizer, "target_tokenizer", tokenizer)


def check_entries(config: Any, tokenizer: Any, name: str = "`tokenizer`") -> None:
    """Refuses a tokenizer that can give ids that the model's tables have no row for.

    Args:
        config: the model's.
        tokenizer: of one side or of both.
        name: what to call the tokenizer in the message.

    Raises:
        ValueError: with both numbers.
    """
    for side, owner, rows in (
        ("source", tokenizer, config.source_vocab_size),
        ("target", target_side(tokenizer), config.vocab_size),
    ):
        entries = max(owner.get_vocab().values()) + 1
        if entries > rows:
            raise ValueError(
                f"{name} must have at most as many entries as the model's "
                f"{side} table, got {entries} and {rows}. Use the tokenizer that the model was "
                "trained with, or call `model.resize_token_embeddings` and train on."
            )


def _surrogate_error(name: str, surrogate: str) -> ValueError:
    return ValueError(
        f"`{name}` must be valid Unicode, got the lone surrogate U+{ord(surrogate):04X}. "
        'Replace it first: text.encode("utf-8", "replace").decode("utf-8").'
    )


def _find_surrogate(text: Any) -> str | None:
    """The first lone surrogate in a string or in nested lists of strings."""
    if isinstance(text, str):
        return next((char for char in text if "\ud800" <= char <= "\udfff"), None)
    if isinstance(text, (list, tuple)):
        found = (_find_surrogate(part) for part in text)
        return next((surrogate for surrogate in found if surrogate is not None), None)
    return None
