"""The texts of a training run, read and encoded.

Corpus                 what the run trains, validates and tests on
read_corpus            from files or data sets
encode_corpus          as token ids, for training and validation
encode_to_evaluate     pairs that are only measured on
"""

from dataclasses import dataclass, field
from typing import Any

from vaswani.corpus_cleaning import clean_pairs
from vaswani.corpus_splits import hold_out
from vaswani.data import is_on_hub, load_parallel
from vaswani.errors import InputError
from vaswani.run_settings import DataArguments
from vaswani.training_data import TokenizedPairs

_LARGEST_HOLD_OUT = 1000


@dataclass
class Corpus:
    """Texts of both sides for training, and for validation and test if there are any."""

    sources: list[str]
    targets: list[str]
    validation_sources: list[str] = field(default_factory=list)
    validation_targets: list[str] = field(default_factory=list)
    test: tuple[list[str], list[str]] | None = None


def read_corpus(arguments: DataArguments, say: Any, *, fetch: bool) -> Corpus:
    """The texts of a run; without validation data, some of the training pairs are held out.

    Args:
        arguments: where the pairs are.
        say: told in a line what was read.
        fetch: whether validation and test data of the Hub are wanted.

    Raises:
        InputError, FileNotFoundError: for what cannot be read.
    """
    # A missing validation file must not be found out after a long corpus has been read.
    validation, test = (
        None if not paths or (not fetch and is_on_hub(paths[0])) else _load(arguments, paths)
        for paths in (arguments.validation_data, arguments.test_data)
    )
    sources, targets = _load(arguments, arguments.data)
    if arguments.filters:
        languages = {"source": arguments.source, "target": arguments.target}
        (sources, targets), cleaner = clean_pairs(sources, targets, arguments.filters, **languages)
        say(f"{cleaner}.")
    if arguments.max_pairs is not None and arguments.max_pairs < len(sources):
        say(f"Only the first {arguments.max_pairs:,} of {len(sources):,} pairs are used.")
        sources, targets = sources[: arguments.max_pairs], targets[: arguments.max_pairs]
    corpus = Corpus(sources, targets, test=test)
    if validation is not None:
        corpus.validation_sources, corpus.validation_targets = validation
        say(f"{len(sources):,} pairs to train on, {len(validation[0]):,} to validate on.")
        return corpus
    count = 0 if arguments.validation_data else arguments.validation_split
    if count is None:
        count = min(_LARGEST_HOLD_OUT, len(sources) // 20)
    if count == 0:
        say(f"{len(sources):,} pairs to train on, none to validate on.")
        return corpus
    held = hold_out(sources, targets, count)
    corpus.sources = [sources[k] for k in held.training]
    corpus.targets = [targets[k] for k in held.training]
    corpus.validation_sources = [sources[k] for k in held.validation]
    corpus.validation_targets = [targets[k] for k in held.validation]
    say(
        f"{len(held.training):,} pairs to train on; {len(held.validation):,} pairs of the same "
        "data held out to validate on"
        + (f"; {held.dropped:,} with the target of one of those left out." if held.dropped else ".")
    )
    return corpus


def _load(arguments: DataArguments, paths: list[str]) -> tuple[list[str], list[str]]:
    if len(paths) > 2:
        raise InputError(
            "`data` must be one file of pairs, or a source and a target file, "
            f"got {len(paths)} paths."
        )
    dataset = load_parallel(
        paths[0] if len(paths) == 1 else paths,
        source=arguments.source,
        target=arguments.target,
        source_column=arguments.source_column,
        target_column=arguments.target_column,
        encoding=arguments.encoding,
        bad_lines=arguments.bad_lines,  # type: ignore[arg-type]
    )
    rows = dataset["translation"]
    sources, targets = [], []
    for row in rows:
        sources.append(row[arguments.source])
        targets.append(row[arguments.target])
    return sources, targets


def encode_corpus(
    corpus: Corpus,
    tokenizer: Any,
    arguments: DataArguments,
    position_limit: int | None,
    say: Any,
) -> tuple[TokenizedPairs, TokenizedPairs | None]:
    """Training and validation pairs as ids, without those that are too long.

    Args:
        corpus: the texts.
        tokenizer: of the model.
        arguments: how long a training pair may be.
        position_limit: tokens that the model's learned positions end at; `None` for sinusoids.
        say: told in a line what was left out or cut.

    Raises:
        InputError: if no training pair is short enough.
    """
    name, max_tokens = "max_tokens", arguments.max_tokens
    if position_limit is not None and position_limit < max_tokens:
        name, max_tokens = "max_position_embeddings", position_limit
    train = TokenizedPairs.from_texts(
        corpus.sources,
        corpus.targets,
        tokenizer,
        max_tokens=max_tokens,
        cut=arguments.cut_long,
    )
    if train.left_out:
        say(
            f"{train.left_out:,} training pairs left out: a side has more than "
            f"`{name}` = {max_tokens} tokens."
        )
    if train.shortened:
        say(f"{train.shortened:,} training pairs cut to {max_tokens} tokens a side.")
    if not len(train):
        raise InputError(
            f"`{name}` must let some pairs through, got {max_tokens} for "
            f"{train.left_out} longer pairs."
        )
    if not corpus.validation_sources:
        return train, None
    texts = corpus.validation_sources, corpus.validation_targets
    return train, encode_to_evaluate(texts, tokenizer, position_limit, "validation", say)


def encode_to_evaluate(
    texts: tuple[list[str], list[str]],
    tokenizer: Any,
    position_limit: int | None,
    name: str,
    say: Any,
) -> TokenizedPairs | None:
    """Pairs to measure on: all that the model can read; `None` if there are none."""
    pairs = TokenizedPairs.from_texts(*texts, tokenizer, max_tokens=position_limit, keep_texts=True)
    if pairs.left_out:
        say(
            f"{pairs.left_out:,} {name} pairs left out: a side has more than "
            f"`max_position_embeddings` = {position_limit} tokens."
        )
    return pairs if len(pairs) else None
