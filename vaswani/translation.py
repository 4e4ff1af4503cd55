"""Text in, text out: translates and scores with a saved model.

    Translator            loads folders; `translate` and `score`
    Translation           what `translate` returns

Sentences of like length share a batch, and results come back in the order of the input. Left to
others: files and lines (the command line), pieces of text (`source_pieces`, `piece_search`,
`translated_pieces`), batches of token ids (`decoding`, `scoring`), several models as one
(`ensemble`), what a folder must hold (`model_folder`).
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch
from tqdm.auto import tqdm
from transformers import GenerationConfig, PreTrainedTokenizerBase

from vaswani.decoding import batches_by_length, output_limit
from vaswani.ensemble import VaswaniEnsemble
from vaswani.errors import InputError
from vaswani.generation_vaswani import check_search_settings
from vaswani.hub_download import local_folder
from vaswani.model_folder import check_rows, check_same_vocabulary, checked_device, open_model
from vaswani.modeling_vaswani import VaswaniForConditionalGeneration
from vaswani.piece_search import PieceSearch, Progress
from vaswani.prepacked_vaswani import DECODING_PRECISIONS
from vaswani.scoring import Score, token_log_probabilities
from vaswani.source_pieces import LONG_LINES, LongLines, Source, SourceReader
from vaswani.text_lines import clean_text
from vaswani.translated_pieces import Translation, checked_placeholders, joined_translation

__all__ = ["BATCH_TOKENS", "PRECISIONS", "Translation", "Translator"]

# The number format of a model's weights, which may be packed in another one for the search.
_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
PRECISIONS = (*DECODING_PRECISIONS, *_DTYPES)
BATCH_TOKENS = 4096


class Translator:
    """Translates texts with a model, or several as one, and its tokenizer.

    Args:
        model: the model, already on its device; or several with the same vocabulary, whose
            probabilities are averaged. Settings of the search are those of the first.
        tokenizer: the tokenizer that they were trained with.
        precision: what the weights of a model in float32 are packed in for the search on a CPU:
            float32, float16-weights, int8 or auto; `None` is the model's own setting, float32
            unless it says otherwise. What cannot be packed (an ensemble, an adapter, a model on a
            GPU) is searched with as it is.

    Raises:
        InputError: if there is no model, if the vocabularies differ, if the tokenizer has more
            entries than the models have rows, or if there is no such precision.
    """

    model: VaswaniForConditionalGeneration | VaswaniEnsemble

    def __init__(
        self,
        model: VaswaniForConditionalGeneration | Sequence[VaswaniForConditionalGeneration],
        tokenizer: PreTrainedTokenizerBase,
        *,
        precision: str | None = None,
    ) -> None:
        _check_precision(precision, DECODING_PRECISIONS)
        models = model if isinstance(model, Sequence) else [model]
        if not models:
            raise InputError("`model` must hold at least one model, got none.")
        self.model = models[0] if len(models) == 1 else VaswaniEnsemble(models)
        check_rows(self.model.config, tokenizer)
        self.model.eval()
        self.tokenizer = tokenizer
        self.precision = precision

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path | Sequence[str | Path],
        *,
        precision: str | None = None,
        device: str | None = None,
        threads: int | None = None,
        revision: str | None = None,
    ) -> "Translator":
        """Loads a folder that `save_pretrained` or `vaswani train` wrote, or an ensemble of them.

        A model on the Hub is fetched, without its code: this package's classes load it.

        Args:
            folder: the folder, the name of a model on the Hub (`user/name`), or several that share
                a vocabulary.
            precision: bfloat16 or float16 for weights in this format; else float32, packed for
                the search as `Translator` has it.
            device: where to compute, such as "cpu" or "cuda:1"; `None` is a GPU where there is one.
            threads: CPU threads for the whole process; `None` leaves torch's choice.
            revision: branch, tag or commit of models on the Hub; `None` is main.

        Raises:
            InputError: if a folder holds no model of ours, lacks a part, its tokenizer does not
                fit the model, several folders have different vocabularies, or the Hub has no such
                model that may be read.
            FileNotFoundError: if there is no such folder.
        """
        _check_precision(precision, PRECISIONS)
        target_device = checked_device(device)
        if threads is not None:
            _check_at_least("threads", threads, 1)
            torch.set_num_threads(threads)
        names = [folder] if isinstance(folder, str | Path) else list(folder)
        folders = [local_folder(name, revision=revision) for name in names]
        check_same_vocabulary(folders)
        dtype = _DTYPES.get(precision or "")
        opened = [open_model(folder, dtype=dtype or torch.float32) for folder in folders]
        for model, _ in opened:
            model.to(device=target_device)  # type: ignore[call-arg]
        models = [model for model, _ in opened]
        return cls(models, opened[0][1], precision=None if dtype else precision)

    def translate(
        self,
        texts: Iterable[str],
        *,
        num_beams: int = 4,
        num_return_sequences: int = 1,
        length_penalty: float | None = None,
        max_new_tokens: int | None = None,
        max_source_tokens: int | None = None,
        prefixes: Sequence[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        long_lines: LongLines = "split",
        split_sentences: bool = False,
        protect: bool = False,
        progress: bool | Callable[[int], object] = False,
        first_line: int = 1,
    ) -> list[Translation]:
        """Translates each text; result k belongs to text k.

        Blank texts come back as "" and never reach the model. Every output ends by the model's
        own rule, source tokens + 50 unless its generation settings say otherwise.

        Args:
            texts: the texts; white space at their ends and NUL characters are dropped.
            num_beams: beam size; 1 is greedy search.
            num_return_sequences: how many translations `alternatives` holds, at most `num_beams`.
            length_penalty: alpha of the length penalty; `None` takes the model's (0.6).
            max_new_tokens: a smaller limit for outputs, in tokens with the end token.
            max_source_tokens: most tokens of a source that is read at once, the end token
                included; `None` takes the model's `max_position_embeddings`, which nothing may
                exceed where positions are learned.
            prefixes: what each translation begins with, one for each text, "" for nothing; white
                space at their ends is dropped. Their tokens count like others in scores and
                limits. A blank text's is not used.
            batch_tokens: source tokens of a batch, padding included; a CPU takes at most 1,024. It
                bounds the memory.
            long_lines: what to do with a source above `max_source_tokens`: "split" translates it
                sentence by sentence, and a sentence above it in parts (see `source_pieces`);
                "truncate" leaves out what is beyond; "error" refuses it. `Translation.long_source`
                tells what was done.
            split_sentences: whether to translate every text sentence by sentence and to join the
                results with the white space that was between them.
            protect: whether each translation must have the placeholders of its text and no
                others, see `placeholders` and `piece_search`.
            progress: whether to show a bar on stderr, or a function that is told how many more
                texts are finished.
            first_line: number of the first text, for messages.

        Raises:
            InputError: if an argument is out of range, or a text is too long and `long_lines` is
                "error".
        """
        if isinstance(texts, str):
            raise TypeError("`texts` must be a list of texts, got one text. Put it in a list.")
        _check_at_least("batch_tokens", batch_tokens, 1)
        _check_choices(long_lines, split_sentences, protect, num_return_sequences, prefixes)
        config = self._search_settings(
            num_beams, num_return_sequences, length_penalty, max_new_tokens
        )
        cleaned = [clean_text(text) for text in texts]
        if prefixes is not None and len(prefixes) != len(cleaned):
            raise InputError(
                "`prefixes` must hold one prefix for each text, "
                f"got {len(prefixes)} and {len(cleaned)}."
            )
        limit = self._source_limit(max_source_tokens)
        reader = SourceReader(
            self._encode, limit, self._most_characters(limit), long_lines, split_sentences, protect
        )
        sources = reader.read(cleaned, first_line=first_line)
        pieces = [piece for source in sources for piece in source.pieces]
        owners = [k for k, source in enumerate(sources) for _ in source.pieces]
        bar = tqdm(total=len(cleaned), unit="text", disable=progress is not True)
        report = progress if callable(progress) else bar.update
        search = PieceSearch(self.model, self.tokenizer, config, batch_tokens)
        with bar:
            told = Progress(owners, report)
            report(sum(not source.pieces for source in sources))
            if protect:
                kept = search.translate_protected(pieces, reader, told.finished)
                found = [[translation] for translation in kept]
            else:
                begun = None
                if prefixes is not None:
                    begun = self._prefix_ids(prefixes, sources, config, first_line)
                found = search.translate(pieces, begun, told.finished)
        in_order = iter(found)
        joined = [
            joined_translation(
                source, [next(in_order) for _ in source.pieces], several=num_return_sequences > 1
            )
            for source in sources
        ]
        return list(map(checked_placeholders, cleaned, joined)) if protect else joined

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        batch_tokens: int = BATCH_TOKENS,
        names: Sequence[str] | None = None,
    ) -> list[Score]:
        """Scores each target given its source, by one forward pass.

        The log-probability is what the search's score becomes when its length penalty is undone.
        That of an ensemble is the logarithm of the mean of its members' probabilities.

        Args:
            sources: source texts.
            targets: as many target texts.
            batch_tokens: source or target tokens of a batch, padding included.
            names: what messages call each pair; `None` numbers them from 1.

        Raises:
            InputError: if the numbers of texts differ, `batch_tokens` is out of range, or a text
                has more tokens than the model has learned positions.
        """
        if len(sources) != len(targets):
            raise InputError(
                "`sources` and `targets` must have the same number of texts, "
                f"got {len(sources)} and {len(targets)}."
            )
        _check_at_least("batch_tokens", batch_tokens, 1)
        source_ids = self._encode([clean_text(text) for text in sources])
        target_ids = self._encode([clean_text(text) for text in targets], target=True)
        for name, rows in (("sources", source_ids), ("targets", target_ids)):
            _check_positions(name, rows, self.model.config.position_limit, names)
        lengths = [max(map(len, pair)) for pair in zip(source_ids, target_ids, strict=True)]
        scores: list[Score] = [Score(0.0, 0)] * len(lengths)
        with torch.inference_mode():
            for batch in batches_by_length(
                lengths, batch_tokens=batch_tokens, vocab_size=self.model.config.vocab_size
            ):
                found = token_log_probabilities(
                    self.model, [source_ids[k] for k in batch], [target_ids[k] for k in batch]
                )
                for k, values in zip(batch, found, strict=True):
                    pieces = self.tokenizer.convert_ids_to_tokens(target_ids[k])
                    scores[k] = Score(sum(values), len(values), tuple(values), tuple(pieces))
        return scores

    def _search_settings(
        self,
        num_beams: int,
        num_return_sequences: int,
        length_penalty: float | None,
        max_new_tokens: int | None,
    ) -> GenerationConfig:
        """The model's own settings with those of one call, checked."""
        config = copy.deepcopy(self.model.generation_config)
        config.num_beams = num_beams
        config.num_return_sequences = num_return_sequences
        config.do_sample = False
        if self.precision is not None:
            config.update(decoding_precision=self.precision, allow_custom_entries=True)
        if length_penalty is not None:
            config.length_penalty = length_penalty
        if max_new_tokens is not None:
            _check_at_least("max_new_tokens", max_new_tokens, 1)
            config.max_new_tokens = max_new_tokens
        _check_at_least("num_return_sequences", num_return_sequences, 1)
        try:
            check_search_settings(config)
        except ValueError as error:
            raise InputError(str(error)) from error
        return config

    def _source_limit(self, max_source_tokens: int | None) -> int:
        """How many tokens of a source are read at most."""
        if max_source_tokens is None:
            return self.model.config.max_position_embeddings
        _check_at_least("max_source_tokens", max_source_tokens, 2)
        limit = self.model.config.position_limit
        if limit is not None and max_source_tokens > limit:
            raise InputError(
                f"`max_source_tokens` must be at most `max_position_embeddings` = {limit}, since "
                f"the model's positions are learned, got {max_source_tokens}. Leave it out."
            )
        return max_source_tokens

    def _encode(self, texts: list[str], *, target: bool = False) -> list[list[int]]:
        if not texts:
            return []
        # Not verbose: a text above the length limit is ours to cut and to report.
        if target:
            return self.tokenizer(text_target=texts, verbose=False)["input_ids"]
        return self.tokenizer(texts, verbose=False)["input_ids"]

    def _prefix_ids(
        self,
        prefixes: Sequence[str],
        sources: list[Source],
        config: GenerationConfig,
        first_line: int,
    ) -> list[list[int]]:
        """The ids that each piece begins with, without end tokens: none but for a text's first."""
        encoded = self._encode([clean_text(prefix) for prefix in prefixes], target=True)
        found = []
        for line, (ids, source) in enumerate(zip(encoded, sources, strict=True), first_line):
            for place, piece in enumerate(source.pieces):
                limit = output_limit(config, len(piece.ids))
                if place == 0 and len(ids) > limit:
                    raise InputError(
                        f"the prefix of line {line} must be shorter than its output may be, got "
                        f"{len(ids) - 1} and {limit} tokens. Shorten it, or raise the limit."
                    )
                found.append([] if place else ids[:-1])
        return found

    def _most_characters(self, tokens: int) -> int:
        """More characters than so many tokens hold, to judge a text without counting its tokens.

        Four times the longest entry: no normal form shortens a text more than that. Only words
        that are a single unknown token can be longer.
        """
        return 4 * tokens * max(map(len, self.tokenizer.get_vocab()))


def _check_precision(precision: str | None, known: Sequence[str]) -> None:
    if precision is not None and precision not in known:
        raise InputError(f"`precision` must be one of {', '.join(known)}, got {precision!r}.")


def _check_choices(
    long_lines: str,
    split_sentences: bool,
    protect: bool,
    num_return_sequences: int,
    prefixes: Sequence[str] | None,
) -> None:
    """Refuses what cannot be had together."""
    if long_lines not in LONG_LINES:
        raise InputError(
            f"`long_lines` must be one of {', '.join(LONG_LINES)}, got {long_lines!r}."
        )
    if protect and long_lines == "truncate":
        raise InputError(
            "`long_lines` must be split or error with `protect`, got 'truncate'. "
            "What is left out could hold placeholders."
        )
    for name, chosen in (("split_sentences", split_sentences), ("protect", protect)):
        if chosen and num_return_sequences > 1:
            raise InputError(
                f"`num_return_sequences` must be 1 with `{name}`, got {num_return_sequences}."
            )
        if chosen and prefixes is not None:
            raise InputError(f"`prefixes` must be left out with `{name}`, got both.")


def _check_positions(
    name: str, rows: list[list[int]], limit: int | None, names: Sequence[str] | None
) -> None:
    for number, ids in enumerate(rows, start=1):
        if limit is not None and len(ids) > limit:
            place = f"number {number}" if names is None else names[number - 1]
            raise InputError(
                f"`{name}` must have at most `max_position_embeddings` = {limit} tokens each, as "
                f"the positions are learned, got {len(ids)} in {place}. Shorten it."
            )


def _check_at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise InputError(f"`{name}` must be at least {least}, got {value}.")
