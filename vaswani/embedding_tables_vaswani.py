"""The embedding tables of a model with two sides, and how they change their size.

VaswaniTwoSidedModel             base of the models that have an encoder and a decoder

Shapes: D d_model, W vocabulary entries.
"""

import copy
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
            ValueError: if `side` is missing or too much, or a token of the configuration would
                lie beyond the new end. Nothing has changed then.
        """
        stacks = {"source": self.get_encoder(), "target": self.get_decoder()}
        if new_num_tokens is None and pad_to_multiple_of is None:
            return stacks[side or "source"].embed_tokens
        self._check_side(side)
        sides = _SIDES if side is None else (side,)
        tables = [stacks[name].embed_tokens for name in sides]
        rows = tables[0].num_embeddings if new_num_tokens is None else new_num_tokens
        rows = _rounded_up(rows, pad_to_multiple_of)
        self._set_vocab_sizes(side, rows)
        if "target" in sides:
            # First, since a tied projection would have its new rows already and a bias without.
            self._resize_output(rows, mean_resizing)
        for table in tables:
            self._get_resized_embeddings(table, rows, mean_resizing=mean_resizing)
        self.tie_weights()
        # Where transformers' own method leaves the number too.
        self.vocab_size = self.config.vocab_size
        return tables[0]

    def _check_side(self, side: str | None) -> None:
        config = self.config
        if side not in (None, *_SIDES):
            raise ValueError(f"`side` must be source or target, got {side!r}.")
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

    def _set_vocab_sizes(self, side: str | None, rows: int) -> None:
        """Writes the sizes into the configuration, if all of its tokens stay within them."""
        sizes: dict[str, int | None] = {"vocab_size": rows, "encoder_vocab_size": None}
        if side == "source":
            sizes = {"encoder_vocab_size": rows}
        elif side == "target":
            sizes["encoder_vocab_size"] = self.config.source_vocab_size
        changed = copy.copy(self.config)
        for configuration in (changed, self.config):
            for name, size in sizes.items():
                setattr(configuration, name, size)
            configuration.validate_architecture()

    def _resize_output(self, rows: int, mean_resizing: bool) -> None:
        """Gives the projection, if there is one, other rows; the module stays, with its hooks."""
        projection = self.get_output_embeddings()
        if projection is None:
            return
        resized = self._get_resized_lm_head(projection, rows, mean_resizing=mean_resizing)
        for name, parameter in resized.named_parameters():
            parameter.requires_grad_(getattr(projection, name).requires_grad)
            setattr(projection, name, parameter)
        projection.out_features = rows


def _rounded_up(rows: int, multiple: int | None) -> int:
    if multiple is None:
        return rows
    if not isinstance(multiple, int) or multiple < 1:
        raise ValueError(f"`pad_to_multiple_of` must be an integer of at least 1, got {multiple}.")
    return -(-rows // multiple) * multiple


__all__ = ["VaswaniTwoSidedModel"]
