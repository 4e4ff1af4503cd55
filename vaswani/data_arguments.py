"""Where the sentence pairs of a training run come from: a part of its arguments.

DataArguments      corpora, their weights and filters, what is held out, what is too long
"""

from dataclasses import dataclass, field
from typing import Any

from vaswani.corpus_filters import parse_filters
from vaswani.epoch_rows import check_weight
from vaswani.errors import InputError

NO_DATA = "none"
_DECLARED = ("pairs", "source_tokens", "target_tokens")


@dataclass
class DataArguments:
    """Where the sentence pairs come from.

    Raises:
        InputError: for a number out of range, or a malformed declaration.
    """

    _argument_group_name = "data"
    _hidden_options = ("declared_counts",)

    data: list[str] = field(
        metadata={
            "help": "training pairs, one corpus a word: a .tsv or .jsonl file (also .gz), line-"
            "aligned files as SOURCE_FILE,TARGET_FILE, or a dataset of the Hub, as "
            "owner/name:configuration:split",
            "aliases": ["--train-data"],
        }
    )
    source: str = field(metadata={"help": "language code of the source, such as en"})
    target: str = field(metadata={"help": "language code of the target, such as de"})
    data_weights: list[float] | None = field(
        default=None,
        metadata={"help": "how often each corpus comes in a pass (default: 1); 0.5 is half of it"},
    )
    data_licenses: list[str] | None = field(
        default=None,
        metadata={"help": "license of each corpus, for the model card, such as cc-by-4.0"},
    )
    validation_data: list[str] | None = field(
        default=None,
        metadata={"help": "validation pairs, in the same forms; none turns a recipe's off"},
    )
    validation_split: int | None = field(
        default=None,
        metadata={
            "help": "pairs held out of the training data if there is no validation data; 0 for "
            "none (default: a twentieth, 1000 at most)"
        },
    )
    test_data: list[str] | None = field(
        default=None,
        metadata={
            "help": "pairs that the finished model is measured on, in the same forms; none turns a "
            "recipe's off"
        },
    )
    filters: list[str] = field(
        default_factory=list,
        metadata={
            "help": "leave out training pairs that these filters object to, as `vaswani corpus "
            "clean` does: default, or names such as length-ratio:most=2.5",
        },
    )
    max_tokens: int = field(
        default=256, metadata={"help": "leave out training pairs with more tokens on a side"}
    )
    cut_long: bool = field(
        default=False,
        metadata={"help": "cut sides of more tokens to --max-tokens instead, end token kept"},
    )
    max_pairs: int | None = field(
        default=None, metadata={"help": "use the first so many training pairs only"}
    )
    source_column: int = field(
        default=1, metadata={"help": "column of the source in a .tsv file, from 1"}
    )
    target_column: int = field(
        default=2, metadata={"help": "column of the target in a .tsv file, from 1"}
    )
    declared_counts: dict | None = field(
        default=None,
        metadata={
            "help": "size of a dataset that a dry run shall not fetch: data (its name), pairs, "
            "source_tokens, target_tokens"
        },
    )
    encoding: str = field(default="utf-8", metadata={"help": "encoding of the files"})
    bad_lines: str = field(
        default="error",
        metadata={"help": "what to do with malformed lines", "choices": ["error", "skip"]},
    )

    cache_dir: str | None = field(
        default=None,
        metadata={"help": "folder for read and encoded corpora (default: in that of datasets)"},
    )
    streaming: bool = field(
        default=False,
        metadata={"help": "read and encode while training, and keep nothing on disk"},
    )
    shuffle_buffer: int = field(
        default=100_000,
        metadata={"help": "pairs that are shuffled and put into updates together, in streaming"},
    )

    def __post_init__(self) -> None:
        for name in ("validation_data", "test_data"):
            # What a recipe names can be turned off: a flag has no other way to say so.
            if getattr(self, name) == [NO_DATA]:
                setattr(self, name, None)
        parse_filters(self.filters)
        self._check_corpora()
        if self.max_tokens < 1:
            raise InputError(f"`max_tokens` must be at least 1, got {self.max_tokens}.")
        if self.max_pairs is not None and self.max_pairs < 1:
            raise InputError(f"`max_pairs` must be at least 1, got {self.max_pairs}.")
        if self.validation_split is not None and self.validation_split < 0:
            raise InputError(
                f"`validation_split` must not be negative, got {self.validation_split}."
            )
        if self.declared_counts is not None:
            _check_declared(self.declared_counts)

    @property
    def weights(self) -> list[float]:
        """How often each corpus comes in a pass."""
        return self.data_weights or [1.0] * len(self.data)

    @property
    def reading_options(self) -> dict[str, Any]:
        """The options of `vaswani.data.read_pairs`."""
        names = ("source", "target", "source_column", "target_column", "encoding", "bad_lines")
        return {name: getattr(self, name) for name in names}

    @property
    def declared(self) -> dict[str, int] | None:
        """Declared pairs, source and target tokens, if it is `data` that they were declared for."""
        counts = self.declared_counts
        if counts is None or self.data != [counts["data"]]:
            return None
        return {name: counts[name] for name in _DECLARED}

    def _check_corpora(self) -> None:
        if self.data_weights is not None and len(self.data_weights) != len(self.data):
            raise InputError(
                f"`data_weights` must be one number for each corpus, got {len(self.data_weights)} "
                f"for {len(self.data)}."
            )
        if self.data_licenses is not None and len(self.data_licenses) != len(self.data):
            raise InputError(
                f"`data_licenses` must be one for each corpus, got {len(self.data_licenses)} "
                f"for {len(self.data)}. Write unknown for one that you do not know."
            )
        for weight in self.weights:
            check_weight(weight)
        if self.shuffle_buffer < 1:
            raise InputError(f"`shuffle_buffer` must be at least 1, got {self.shuffle_buffer}.")
        if self.streaming and not self.validation_data and self.validation_split != 0:
            raise InputError(
                "`validation_data` must be given with `streaming`, got none. Name a corpus, or set "
                "`validation_split` to 0 to train without."
            )


def _check_declared(counts: dict[str, Any]) -> None:
    if set(counts) != {"data", *_DECLARED}:
        raise InputError(
            f"`declared_counts` must hold data, {', '.join(_DECLARED)}, got {', '.join(counts)}."
        )
    for name in _DECLARED:
        if type(counts[name]) is not int or counts[name] < 1:
            raise InputError(
                f"`{name}` of `declared_counts` must be a whole number above 0, "
                f"got {counts[name]!r}."
            )
