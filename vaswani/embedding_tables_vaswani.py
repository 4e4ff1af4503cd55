"""The embedding tables of a model with two sides, and how they change their size.

VaswaniTwoSidedModel             base of the models that have an encoder and a decoder

Shapes: D d_model, W vocabulary entries.
"""

import copy
import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from .pretrained_vaswani import VaswaniPreTrainedModel

_SIDES = ("source", "target")


class VaswaniTwoSidedModel(VaswaniPreTrainedModel):
    """What models with an encoder and a decoder have in common: their embedding tables.

    Source: Section 3.4. There are one, two or three tables, see `VaswaniConfig`; whoever shares
    one keeps sharing it.
    """

    def get_input_embeddings(self) -> nn.Module:
        """Returns the source's table."""
        return self.get_encoder().embed_tokens

    def set_input_embeddings(self, value: Any) -> None:
        """Replaces the source's table, and the target's where they are one."""
        self.get_encoder().embed_tokens = value
        if self.config.share_encoder_decoder_embeddings:
            self.get_decoder().embed_tokens = value

    def resize_token_embeddings(
        self,
        new_num_tokens: int | None = None,
        pad_to_multiple_of: int | None = None,
        mean_resizing: bool = True,
        side: str | None = None,
    ) -> nn.Embedding:
        """Gives a vocabulary another size: its tables, its projection and the configuration.

        Rows are added or left out at the end. With one vocabulary in several tables all of them
        change, unless a side is named, which from then on has a vocabulary of its own.

        Source: `PreTrainedModel.resize_token_embeddings`, which knows one side.

        Args:
            new_num_tokens: entries of the vocabulary; `None` leaves their number.
            pad_to_multiple_of: what the number of rows is rounded up to a multiple of.
            mean_resizing: whether new rows start close to the mean of the old ones, so that the
                new entries are no likelier than the average one, or as in a new model.
            side: "source" or "target", the side whose vocabulary it is. It must be named where
                each side has its own, and cannot be where both share a table.

        Returns:
            The table `(W, D)` of that side; the source's if none is named.

        Raises:
            ValueError: if `side` is missing or too much, a number is none, a token of the
                configuration would lie beyond the new end, or a table is not a plain one any
                more. Nothing has changed then, and nothing after any other failure.
        """
        if side not in (None, *_SIDES):
            raise ValueError(f"`side` must be source or target, got {side!r}.")
        stacks = {"source": self.get_encoder(), "target": self.get_decoder()}
        if new_num_tokens is None and pad_to_multiple_of is None:
            return stacks[side or "source"].embed_tokens
        self._check_side(side)
        sides = _SIDES if side is None else (side,)
        tables = [stacks[name].embed_tokens for name in sides]
        projection = self.get_output_embeddings() if "target" in sides else None
        changing = [*tables, projection] if projection is not None else tables
        self._check_plain(changing)
        rows = _new_rows(len(tables[0].weight), new_num_tokens, pad_to_multiple_of)
        sizes = self._new_sizes(side, rows)
        with _all_or_nothing(changing):
            if projection is not None:
                # First: a tied one would have its new rows already, and a bias without.
                self._resize_output(projection, rows, mean_resizing)
            for table in tables:
                self._get_resized_embeddings(table, rows, mean_resizing=mean_resizing)
            self.tie_weights()
        for name, size in sizes.items():
            setattr(self.config, name, size)
        # Where transformers' own method leaves the number too.
        self.vocab_size = self.config.vocab_size
        return tables[0]

    def _check_side(self, side: str | None) -> None:
        config = self.config
        if config.share_encoder_decoder_embeddings and side is not None:
            raise ValueError(
                f"`side` must be None where both sides share one table, got {side!r}. "
                "Leave it out: the table changes for both."
            )
        separate = config.encoder_vocab_size is not None
        if separate and side is None and not config.share_encoder_decoder_embeddings:
            raise ValueError(
                "`side` must be source or target where each has its own vocabulary, got None."
            )

    def _check_plain(self, modules: list[Any]) -> None:
        """Refuses what adapters, quantization and the like have put in a table's place."""
        names = {id(module): name for name, module in self.named_modules()}
        for module in modules:
            weights = [module.weight, getattr(module, "bias", None)]
            weights = [weight for weight in weights if weight is not None]
            if (
                type(module) not in (nn.Embedding, nn.Linear)
                or any(type(weight) is not nn.Parameter for weight in weights)
                or any(weight.is_meta for weight in weights)
            ):
                kinds = ", ".join(type(weight).__name__ for weight in weights)
                where = " on meta" if any(getattr(w, "is_meta", False) for w in weights) else ""
                raise ValueError(
                    "`resize_token_embeddings` must find plain modules with weights in memory, "
                    f"got {type(module).__name__} with {kinds}{where} as `{names[id(module)]}`. "
                    "Resize first; adapters, quantization and offloading come afterwards."
                )

    def _new_sizes(self, side: str | None, rows: int) -> dict[str, int | None]:
        """Returns the configuration's new sizes, if all tokens stay within them."""
        sizes: dict[str, int | None] = {"vocab_size": rows, "encoder_vocab_size": None}
        if side == "source":
            sizes = {"encoder_vocab_size": rows}
        elif side == "target":
            sizes["encoder_vocab_size"] = self.config.source_vocab_size
        changed = copy.copy(self.config)
        for name, size in sizes.items():
            setattr(changed, name, size)
        changed.validate_architecture()
        generation_config = getattr(self, "generation_config", None)
        if side != "source" and generation_config is not None:
            _check_generation_ids(generation_config, rows)
        return sizes

    def _resize_output(self, projection: nn.Linear, rows: int, mean_resizing: bool) -> None:
        """Gives the projection other rows; the module stays, with its hooks."""
        resized = self._get_resized_lm_head(projection, rows, mean_resizing=mean_resizing)
        for name, parameter in resized.named_parameters():
            parameter.requires_grad_(getattr(projection, name).requires_grad)
            setattr(projection, name, parameter)
        projection.out_features = rows


@contextmanager
def _all_or_nothing(modules: list[nn.Module]) -> Iterator[None]:
    """Gives modules back what they were if what happens meanwhile fails, as for want of memory."""
    attributes = [{**vars(module), "_parameters": {**module._parameters}} for module in modules]
    weights = [(parameter, parameter.data) for m in modules for parameter in m.parameters()]
    try:
        yield
    except BaseException:
        for module, before in zip(modules, attributes, strict=True):
            vars(module).update(before)
        for parameter, data in weights:
            parameter.data = data
        raise


def _check_generation_ids(generation_config: Any, rows: int) -> None:
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
        value = getattr(generation_config, name, None)
        for token in value if isinstance(value, list) else [value]:
            if token is not None and token >= rows:
                raise ValueError(
                    f"`generation_config.{name}` must be below the vocabulary's size {rows}, "
                    f"got {token}. Change it first, or keep more entries."
                )


def _new_rows(rows: int, new_num_tokens: Any, multiple: Any) -> int:
    if new_num_tokens is not None:
        rows = _at_least_1("new_num_tokens", new_num_tokens)
    if multiple is None:
        return rows
    multiple = _at_least_1("pad_to_multiple_of", multiple)
    return -(-rows // multiple) * multiple


def _at_least_1(name: str, value: Any) -> int:
    """Returns any kind of integer as Python's; `True` is none."""
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"`{name}` must be an integer of at least 1, got {value!r}.")
    return number


__all__ = ["VaswaniTwoSidedModel"]
