"""The texts of a training run, read and encoded by way of the cache on disk.

Corpus                 what the run trains, validates and tests on
read_corpus            from files or data sets
encode_corpus          as token ids, for training and validation
encode_to_evaluate     pairs that are only measured on
vocabulary_pairs       what a vocabulary is trained on
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from tqdm.auto import tqdm

from vaswani.corpus_cache import CorpusCache, data_key, joined_key, plain_content, stored_array
from vaswani.corpus_cleaning import Cleaner
from vaswani.corpus_ids import IdLists, map_ids, write_ids
from vaswani.corpus_readers import Pairs
from vaswani.corpus_splits import Hashes, fold_hashes, hold_out
from vaswani.corpus_store import PairBlocks, StoredCorpus, StoredPairs, store_corpus
from vaswani.data import ReadReport, check_words, corpus_of, is_on_hub, read_pairs, read_texts
from vaswani.data_arguments import DataArguments
from vaswani.errors import InputError
from vaswani.tokenization_vaswani import target_side
from vaswani.training_arguments import VaswaniTrainingArguments
from vaswani.training_data import CorpusShare, TokenizedPairs
from vaswani.training_streaming import FirstPairs, PairStream, StreamedPairs
from vaswani.wording import counted

_LARGEST_HOLD_OUT = 1000
_IDS = "ids.arrow"
_KEPT = "kept.npy"
_FOLDED = "folded.npy"


@dataclass
class Corpus:
    """Texts of both sides: those to train on, on disk or as a stream, and those to measure on."""

    training: StoredPairs | PairStream
    validation: Pairs | None = None
    test: Pairs | None = None


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
    validation, test = (read_to_evaluate(arguments, name, say, fetch=fetch) for name in _MEASURED)
    if arguments.streaming:
        return Corpus(PairStream(arguments, say), validation, test)
    check_words(arguments.data, arguments.encoding)
    cache = CorpusCache(arguments.cache_dir)
    stored = [_stored(cache, word, arguments, say) for word in arguments.data]
    pairs = StoredPairs(stored)
    if arguments.filters:
        pairs = _filtered(cache, pairs, arguments, say)
    if arguments.max_pairs is not None and arguments.max_pairs < len(pairs):
        say(f"Only the first {arguments.max_pairs:,} of {counted(len(pairs), 'pair')} are used.")
        pairs = pairs.select(slice(arguments.max_pairs))
    corpus = Corpus(pairs, validation, test)
    count = 0 if arguments.validation_data else arguments.validation_split
    if count is None:
        count = min(_LARGEST_HOLD_OUT, len(pairs) // 20)
    if validation is not None:
        say(f"{counted(len(pairs), 'pair')} to train on, {len(validation[0]):,} to validate on.")
    elif count == 0:
        say(f"{counted(len(pairs), 'pair')} to train on, none to validate on.")
    else:
        held = hold_out(*_folded(cache, pairs), count)
        corpus.training = pairs.select(held.training)
        corpus.validation = pairs.take(held.validation)
        left_out = f"; {held.dropped:,} with the target of one of those left out"
        say(
            f"{counted(len(held.training), 'pair')} to train on; "
            f"{counted(len(held.validation), 'pair')} of the same data held out to validate on"
            f"{left_out if held.dropped else ''}."
        )
    return corpus


_MEASURED = ("validation_data", "test_data")


def read_to_evaluate(arguments: DataArguments, name: str, say: Any, *, fetch: bool) -> Pairs | None:
    """The validation or test data that the arguments name, if any."""
    words = getattr(arguments, name)
    if not words or (not fetch and any(map(is_on_hub, words))):
        return None
    _say_fetched(words, say)
    return read_texts(words, setting=name, **arguments.reading_options)


def _say_fetched(words: list[str], say: Any) -> None:
    """Says what will take a while: without a network the library tries for half a minute."""
    for word in filter(is_on_hub, words):
        say(f"Fetching {word} from the Hub.")


def _stored(cache: CorpusCache, word: str, arguments: DataArguments, say: Any) -> StoredCorpus:
    data, options = corpus_of(word), arguments.reading_options
    _say_fetched([word], say)
    # Missing files and wrong settings before a long file is hashed.
    read_pairs(data, **options)
    key = joined_key([data_key(data), sorted(options.items())])

    def read() -> tuple[Iterable[Pairs], Callable[[], str]]:
        report = ReadReport()
        blocks = read_pairs(data, **options, report=report)
        return _counted(blocks, f"Reading {_short(word)}"), report.__str__

    stored = store_corpus(cache, word, key, read)
    said = f"{stored.name}: {stored.report}"
    if stored.entry.damaged:
        said += "; the cache held it damaged, it was read anew"
    elif stored.entry.found:
        said += f"; read from the cache, {stored.entry.folder}"
    say(said + ".")
    return stored


def _filtered(
    cache: CorpusCache, pairs: StoredPairs, arguments: DataArguments, say: Any
) -> StoredPairs:
    """The pairs that no filter objects to: one pass over all corpora, kept in the cache."""
    languages = {"source": arguments.source, "target": arguments.target}

    def make(folder: Path) -> dict[str, Any]:
        cleaner = Cleaner(arguments.filters, **languages)
        blocks = _counted(pairs.blocks(), "Filtering")
        verdicts = [cleaner.judge(block) for block in blocks]
        if not cleaner.kept:
            raise InputError(f"`filters` must let some pairs through, got {cleaner}.")
        np.save(folder / _KEPT, np.concatenate(verdicts) < 0)
        return {"report": str(cleaner)}

    names = Cleaner(arguments.filters, **languages).names
    key = joined_key([[corpus.key for corpus in pairs.corpora], names, sorted(languages.items())])
    entry = cache.entry("kept", key, make)
    say(f"{entry.facts['report']}.")
    return pairs.select(stored_array(entry.folder / _KEPT))


def _folded(cache: CorpusCache, pairs: StoredPairs) -> tuple[Hashes, Hashes]:
    """The hashes of the folded sources and targets, of each corpus from the cache."""
    found = []
    for number, corpus in enumerate(pairs.corpora):

        def make(folder: Path, corpus: StoredCorpus = corpus) -> dict[str, Any]:
            blocks = _counted(StoredPairs([corpus]).blocks(), f"Folding {_short(corpus.name)}")
            hashes = [[fold_hashes(side) for side in block] for block in blocks]
            np.save(folder / _FOLDED, np.concatenate(hashes, axis=1))
            return {}

        entry = cache.entry("folded", joined_key([corpus.key]), make)
        found.append(stored_array(entry.folder / _FOLDED)[:, pairs.kept_of(number)])
    sources, targets = np.concatenate(found, axis=1)
    return sources, targets


def _short(word: str) -> str:
    return Path(word.split(",")[0]).name


def _counted(blocks: Iterable[Pairs], title: str) -> Iterable[Pairs]:
    with _bar(title, None) as bar:
        for block in blocks:
            yield block
            bar.update(len(block[0]))


def _bar(title: str, total: int | None) -> Any:
    hidden = not sys.stderr.isatty()
    return tqdm(desc=title, total=total, unit=" pairs", dynamic_ncols=True, disable=hidden)


def vocabulary_pairs(corpus: Corpus, say: Any) -> PairBlocks:
    """What a new vocabulary is trained on: all pairs to train on, or the first ones of a stream."""
    if not isinstance(corpus.training, PairStream):
        return corpus.training
    pairs = FirstPairs(corpus.training)
    say(f"The vocabulary is trained on the first {len(pairs):,} pairs of the stream.")
    return pairs


def encode_corpus(
    corpus: Corpus,
    tokenizer: Any,
    arguments: DataArguments,
    args: VaswaniTrainingArguments,
    config: Any,
    say: Any,
) -> tuple[TokenizedPairs | StreamedPairs, TokenizedPairs | None]:
    """Training and validation pairs as ids, without those that are too long.

    Args:
        corpus: the texts.
        tokenizer: of the model.
        arguments: how long a training pair may be, and where the cache is.
        args: size and seed of the updates of a stream.
        config: of the model, which says where its positions end; `None` for no limit.
        say: told in a line what was left out or cut.

    Raises:
        InputError: if no training pair is short enough.
    """
    name, max_tokens = "max_tokens", arguments.max_tokens
    position_limit = None if config is None else config.position_limit
    if position_limit is not None and position_limit < max_tokens:
        name, max_tokens = "max_position_embeddings", position_limit
    train: TokenizedPairs | StreamedPairs
    if isinstance(corpus.training, PairStream):
        train = StreamedPairs(
            corpus.training, tokenizer, args, max_tokens=max_tokens, cut=arguments.cut_long
        )
    else:
        encoded = _encoded(corpus.training, tokenizer, arguments, say)
        train = encoded.shortest(max_tokens, cut=arguments.cut_long)
        _report_length(train, name, max_tokens, say)
    if corpus.validation is None:
        return train, None
    limit = None if config is None else evaluation_limit(config, arguments.max_tokens)
    return train, encode_to_evaluate(corpus.validation, tokenizer, limit, "validation", say)


def _report_length(train: TokenizedPairs, name: str, max_tokens: int, say: Any) -> None:
    """Says what was too long, and what each corpus contributes where that needs saying."""
    if train.left_out:
        say(
            f"{counted(train.left_out, 'training pair')} left out: a side has more than "
            f"`{name}` = {max_tokens} tokens."
        )
    if train.shortened:
        say(
            f"{counted(train.shortened, 'training pair')} cut to "
            f"{counted(max_tokens, 'token')} a side."
        )
    if not len(train):
        raise InputError(
            f"`{name}` must let some pairs through, got {max_tokens} for "
            f"{train.left_out} longer pairs."
        )
    if len(train.shares) > 1 or train.shares[0].weight != 1:
        for share in train.shares:
            times = "once" if share.weight == 1 else f"{share.weight:g} times"
            say(f"{share.name}: {counted(share.pairs, 'pair')}, {times} a pass.")


def _encoded(
    pairs: StoredPairs, tokenizer: Any, arguments: DataArguments, say: Any
) -> TokenizedPairs:
    """All pairs as ids, whatever their length, mapped from the cache."""
    cache = CorpusCache(arguments.cache_dir)
    settings = [_tokenizer_key(side) for side in (tokenizer, target_side(tokenizer))]
    sides: list[tuple[IdLists, IdLists]] = []
    shares: list[CorpusShare] = []
    found = damaged = 0
    for number, corpus in enumerate(pairs.corpora):

        def make(folder: Path, corpus: StoredCorpus = corpus) -> dict[str, Any]:
            with _bar(f"Encoding {_short(corpus.name)}", corpus.pairs) as bar:
                blocks = StoredPairs([corpus]).blocks()
                return write_ids(folder / _IDS, blocks, tokenizer, bar.update)

        # All pairs of the corpus: which of them are held out or too long is no part of the key.
        entry = cache.entry("ids", joined_key([corpus.key, settings]), make)
        found += entry.found
        damaged += entry.damaged
        kept = pairs.kept_of(number)
        with plain_content(entry.folder / _IDS):
            sources, targets = map_ids(entry.folder / _IDS)
        if not kept.all():
            sources, targets = sources.select(kept), targets.select(kept)
        sides.append((sources, targets))
        weight = arguments.weights[number]
        shares.append(CorpusShare(corpus.name, int(np.count_nonzero(kept)), weight))
    if found:
        say(f"Token ids of {found} of {len(sides)} corpora read from the cache, {cache.folder}.")
    if damaged:
        entries = "entry of the cache was" if damaged == 1 else "entries of the cache were"
        say(f"{damaged} damaged {entries} encoded anew.")
    both = (IdLists.joined(side) for side in zip(*sides, strict=True))
    return TokenizedPairs(*both, shares=shares)


def _tokenizer_key(tokenizer: Any) -> list[object]:
    """All that decides which ids a text gets."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    state = backend.to_str() if backend is not None else repr(sorted(tokenizer.get_vocab().items()))
    split = getattr(tokenizer, "split_special_tokens", None)
    return [type(tokenizer).__name__, state, split, tokenizers.__version__]


def evaluation_limit(config: Any, max_tokens: int) -> tuple[str, int]:
    """The setting that says how long a pair to be measured on may be, and its tokens a side.

    Sinusoids have no end, but attention to 100,000 tokens has no room in any memory.

    Args:
        config: of the model.
        max_tokens: most tokens of a training pair.
    """
    if config.position_limit is None and max_tokens > config.max_position_embeddings:
        return "max_tokens", max_tokens
    return "max_position_embeddings", config.max_position_embeddings


def encode_to_evaluate(
    texts: Pairs,
    tokenizer: Any,
    limit: tuple[str, int] | None,
    name: str,
    say: Any,
) -> TokenizedPairs | None:
    """Pairs to measure on: all within the limit; `None` if there are none."""
    setting, most = limit or ("", None)
    pairs = TokenizedPairs.from_texts(*texts, tokenizer, max_tokens=most, keep_texts=True)
    if pairs.left_out:
        say(
            f"{counted(pairs.left_out, f'{name} pair')} left out: a side has more than "
            f"`{setting}` = {most} tokens."
        )
    return pairs if len(pairs) else None
