"""Trains a tokenizer on parallel or plain text and saves its folder.

`vaswani train --tokenizer FOLDER` uses it, and so does `AutoTokenizer.from_pretrained`.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vaswani.errors import InputError
from vaswani.vocabulary import NORMALIZATIONS, VOCABULARY_MODELS

# What a folder of a tokenizer alone holds; nothing else is ever replaced.
_FILES = {
    "tokenizer.json",
    "target_tokenizer.json",
    "tokenizer_config.json",
    "tokenization_vaswani.py",
}


@dataclass
class CorpusArguments:
    """What to train on.

    Raises:
        InputError: if there is nothing, or codes are missing.
    """

    _argument_group_name = "text"

    data: list[str] = field(
        default_factory=list,
        metadata={
            "metavar": "CORPUS",
            "help": "sentence pairs, each word one corpus: a file, SOURCE_FILE,TARGET_FILE or a "
            "dataset of the Hub",
        },
    )
    source: str | None = field(default=None, metadata={"help": "language code of the source"})
    target: str | None = field(default=None, metadata={"help": "language code of the target"})
    text: list[str] = field(
        default_factory=list,
        metadata={
            "metavar": "FILE",
            "help": "plain text, one sentence a line; of both sides, so for one shared vocabulary",
        },
    )
    encoding: str = field(default="utf-8", metadata={"help": "encoding of the files"})

    def __post_init__(self) -> None:
        if not self.data and not self.text:
            raise InputError("`--data` or `--text` must be given, got neither.")
        if self.data and None in (self.source, self.target):
            raise InputError("`--source` and `--target` must be given with `--data`.")

    def sides(self) -> tuple[list[str], list[str], list[str]]:
        """Sources, targets and lines of plain text."""
        from vaswani.data import corpus_of, read_lines, read_pairs

        sources: list[str] = []
        targets: list[str] = []
        for word in self.data:
            assert self.source is not None and self.target is not None
            blocks = read_pairs(
                corpus_of(word), source=self.source, target=self.target, encoding=self.encoding
            )
            for some_sources, some_targets in blocks:
                sources += some_sources
                targets += some_targets
        lines = [line for path in self.text for line in read_lines(path, encoding=self.encoding)]
        return sources, targets, lines


@dataclass
class VocabularyArguments:
    """What the vocabulary is, and where it goes.

    Raises:
        InputError: for a number out of range.
    """

    _argument_group_name = "vocabulary"

    output_dir: str = field(
        metadata={"metavar": "FOLDER", "help": "folder to write", "aliases": ["--output"]}
    )
    vocabulary_size: int = field(
        default=37_000, metadata={"help": "entries at most, of each vocabulary"}
    )
    vocabulary_model: str = field(
        default="bpe",
        metadata={
            "help": "parts of words by byte-pair encoding or by a unigram model, or whole words",
            "choices": list(VOCABULARY_MODELS),
        },
    )
    normalization: str = field(
        default="nfc",
        metadata={
            "help": "normal form of texts, saved with the tokenizer",
            "choices": list(NORMALIZATIONS),
        },
    )
    separate_vocabularies: bool = field(
        default=False, metadata={"help": "a vocabulary for each side"}
    )
    target_vocabulary_size: int | None = field(
        default=None, metadata={"help": "entries of the target's own (default: as the source's)"}
    )
    min_frequency: int | None = field(
        default=None,
        metadata={"help": "how often an entry must be seen (default: 10; 2 for whole words)"},
    )
    limit_alphabet: int | None = field(
        default=None,
        metadata={"help": "characters at most (default: a quarter of the vocabulary)"},
    )
    overwrite: bool = field(
        default=False, metadata={"help": "replace an earlier tokenizer in the output folder"}
    )

    def __post_init__(self) -> None:
        if self.target_vocabulary_size is not None and not self.separate_vocabularies:
            raise InputError(
                "`--target-vocabulary-size` must be left out without `--separate-vocabularies`, "
                f"got {self.target_vocabulary_size}."
            )

    def check_output(self) -> Path:
        """The output folder, if it may be written.

        Raises:
            InputError: if it holds what a tokenizer may not replace.
        """
        from vaswani.output_folder import check_free

        output = Path(self.output_dir)
        check_free(
            output, "output_dir", kind="tokenizer", mark="tokenizer.json", overwrite=self.overwrite
        )
        others = {file.name for file in output.iterdir()} - _FILES if output.is_dir() else set()
        if others:
            raise InputError(
                f"`output_dir` must hold nothing but an earlier tokenizer, got {output} with "
                f"{min(others)}. Choose another."
            )
        return output


ARGUMENTS: tuple[type, ...] = (CorpusArguments, VocabularyArguments)
EXAMPLES = """
vaswani tokenizer train --data train.tsv --source en --target de --output-dir tokenizers/en-de
vaswani tokenizer train --text all.txt --vocabulary-model unigram --output-dir tokenizers/unigram
vaswani tokenizer train --data a.tsv --source en --target de --separate-vocabularies --output a
"""


def run(corpus: CorpusArguments, arguments: VocabularyArguments) -> int:
    """Writes the folder; its path goes to stdout, what was read to stderr."""
    from vaswani.output_folder import written_aside
    from vaswani.vocabulary import train_tokenizer, train_tokenizer_pair

    if arguments.separate_vocabularies and corpus.text:
        raise InputError(
            "`--text` must be left out with `--separate-vocabularies`, got "
            f"{', '.join(corpus.text)}: it has no sides. Use `--data`."
        )
    output = arguments.check_output()
    settings: dict[str, Any] = {
        "vocab_size": arguments.vocabulary_size,
        "model": arguments.vocabulary_model,
        "normalization": arguments.normalization,
        "min_frequency": arguments.min_frequency,
        "limit_alphabet": arguments.limit_alphabet,
    }
    sources, targets, lines = corpus.sides()
    print(f"{len(sources):,} pairs and {len(lines):,} lines read.", file=sys.stderr)
    if arguments.separate_vocabularies:
        target_size = arguments.target_vocabulary_size
        tokenizer = train_tokenizer_pair(
            sources, targets, target_vocab_size=target_size, **settings
        )
    else:
        tokenizer = train_tokenizer([*sources, *targets, *lines], **settings)
    with written_aside(output) as folder:
        tokenizer.save_pretrained(folder)
    print(output)
    return 0
