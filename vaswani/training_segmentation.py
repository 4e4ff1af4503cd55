"""Training pairs cut anew each time they are read: BPE-dropout.

    ResegmentedPairs       the same pairs under ids that change from one reading to the next
    check_merges           refuses a tokenizer that has nothing to leave out

Source: no part of the paper; Provilkov, Emelianenko and Voita, 2020.

What holds: every row decodes to the text that it decoded to before. Which merges are left out is
drawn by `tokenizers`, which takes no seed, so two runs differ. Which pairs make an update is
settled from their lengths without dropout, hence in every process alike; an update then holds more
tokens than its budget says. A side that dropout makes longer than the run allows stays as it was.
"""

import copy
from collections.abc import Sequence

from vaswani.run_settings import check_bpe
from vaswani.tokenization_vaswani import VaswaniTokenizer
from vaswani.training_data import TokenizedPairs

_REPLACEMENT = "\ufffd"


class ResegmentedPairs(TokenizedPairs):
    """`TokenizedPairs` whose items are segmented anew, with a share of the merges left out.

    Lengths are those without dropout. The tokenizer itself stays as it is: evaluation, and what is
    saved, know nothing of dropout.

    Args:
        pairs: the pairs under their usual ids.
        tokenizer: what made the ids; byte-pair encoding on both sides.
        dropout: probability that a merge is left out, in (0, 1).
        most_tokens: most tokens of a side, end token included.
    """

    def __init__(
        self,
        pairs: TokenizedPairs,
        tokenizer: VaswaniTokenizer,
        *,
        dropout: float,
        most_tokens: int,
    ) -> None:
        vars(self).update(vars(pairs))
        self._pairs = pairs
        self._most_tokens = most_tokens
        self._sides = {}
        for name, owner in (("input_ids", tokenizer), ("labels", tokenizer.target_tokenizer)):
            dropping = copy.deepcopy(owner.backend_tokenizer)
            dropping.no_truncation()
            dropping.no_padding()
            dropping.encode_special_tokens = owner.split_special_tokens
            dropping.model.dropout = dropout
            self._sides[name] = (owner, dropping)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, list[int]]]:
        """The rows of a batch; torch asks for them at once."""
        rows = [dict(self._pairs[index]) for index in indices]
        for name, (owner, dropping) in self._sides.items():
            texts = [
                owner.decode(row[name], skip_special_tokens=True, side="source") for row in rows
            ]
            for row, text, encoding in zip(
                rows, texts, dropping.encode_batch_fast(texts), strict=True
            ):
                # A side that was cut may end within a character, which no text can give back.
                if _REPLACEMENT not in text and len(encoding.ids) <= self._most_tokens:
                    row[name] = encoding.ids
        return rows


def check_merges(tokenizer: VaswaniTokenizer) -> None:
    """Raises InputError if one of the tokenizer's vocabularies isn't byte-pair encoding."""
    for owner in (tokenizer, tokenizer.target_tokenizer):
        check_bpe(type(owner.backend_tokenizer.model).__name__)
