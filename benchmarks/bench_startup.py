"""How long starting takes: imports, help pages, loading a model, the first translation.

    python benchmarks/bench_startup.py
    python benchmarks/bench_startup.py --threads 1 --rounds 9

Models have the base size and random weights, and one tokenizer of 37,000 entries serves both. Files
have been read before, so none comes from the disk. Loading takes place in this process. Everything
else is a process of its own: of imports and help pages the processor time is told, of a translation
the time from its start to its first line, which is one of 27 tokens at most.
"""

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from bench_train import VOCABULARY, marian_model, vaswani_model
from measuring import machine, table, take_turns
from transformers import MarianMTModel, PreTrainedTokenizerFast
from transformers.utils import logging

from vaswani import VaswaniForConditionalGeneration, VaswaniTokenizer
from vaswani.vocabulary import train_tokenizer

MOST_TOKENS = 27
PEER = f"""
import sys
from transformers import AutoTokenizer, MarianMTModel
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = MarianMTModel.from_pretrained(sys.argv[1])
for line in sys.stdin:
    inputs = tokenizer([line.strip()], return_tensors="pt")
    output = model.generate(**inputs, num_beams=4, max_new_tokens={MOST_TOKENS})
    print(tokenizer.batch_decode(output, skip_special_tokens=True)[0], flush=True)
"""


def made_up_text(entries: int) -> list[str]:
    """Sentences of made-up words, enough for a vocabulary of so many entries."""
    generator = random.Random(1)
    syllables = [c + v + e for c in "bdfgklmnprstvw" for v in "aeiou" for e in ("", "n", "r", "s")]
    lengths = generator.choices((1, 2, 3, 4), k=entries)
    words = ["".join(generator.choices(syllables, k=length)) for length in lengths]
    words *= 12
    generator.shuffle(words)
    return [" ".join(words[k : k + 20]) for k in range(0, len(words), 20)]


def make_folders(parent: Path) -> tuple[Path, Path, str]:
    """A folder of ours, one of MarianMTModel, and a sentence for both."""
    texts = made_up_text(VOCABULARY)
    tokenizer: VaswaniTokenizer = train_tokenizer(texts, vocab_size=VOCABULARY)
    ours, marian = parent / "vaswani", parent / "marian"
    vaswani_model().save_pretrained(ours)
    tokenizer.save_pretrained(ours)
    marian_model().save_pretrained(marian)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer,
        **{name: getattr(tokenizer, name) for name in ("pad_token", "eos_token", "unk_token")},
    ).save_pretrained(marian)
    return ours, marian, texts[0]


def to_the_end(*words: str) -> Callable[[], object]:
    """Runs Python with the words, whatever its exit code."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return lambda: subprocess.run([sys.executable, *words], check=False, **quiet)  # type: ignore[call-overload]


def to_the_first_line(text: Path, *words: str) -> Callable[[], object]:
    """Runs Python with the words until it has written a line."""

    def run() -> None:
        with (
            text.open("rb") as lines,
            subprocess.Popen(
                [sys.executable, *words],
                stdin=lines,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            ) as process,
        ):
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError(f"{words} wrote no line.")
            process.kill()

    return run


def processor_seconds() -> float:
    """Of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def report(
    title: str,
    contenders: dict[str, Callable[[], object]],
    peer: str,
    rounds: int,
    clock: Callable[[], float] | None = None,
) -> None:
    """Prints the table of one comparison."""
    timings = take_turns(contenders, rounds=rounds, **({"clock": clock} if clock else {}))
    print(f"\n{title}. {timings.quietness()}\n")
    rows = [timings.row(name, [peer]) for name in contenders]
    print(table(["", "median", f"fits into {peer}"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)  # of the other processes
    logging.disable_progress_bar()
    print(machine())
    with tempfile.TemporaryDirectory() as parent:
        ours, marian, sentence = make_folders(Path(parent))
        report(
            "`from_pretrained`, time",
            {
                "VaswaniForConditionalGeneration": lambda: (
                    VaswaniForConditionalGeneration.from_pretrained(ours)
                ),
                "MarianMTModel": lambda: MarianMTModel.from_pretrained(marian),
            },
            "MarianMTModel",
            3 * arguments.rounds,
        )
        text = Path(parent, "text")
        text.write_text(sentence, encoding="utf-8")
        words = ("-m", "vaswani", "translate", "--model", str(ours))
        report(
            "To the first translation, time",
            {
                "vaswani translate": to_the_first_line(
                    text, *words, "--max-new-tokens", str(MOST_TOKENS)
                ),
                "MarianMTModel": to_the_first_line(text, "-c", PEER, str(marian)),
            },
            "MarianMTModel",
            arguments.rounds,
        )
    pages = ("--help", "translate --help", "translate --mistyped", "train --help")
    report(
        "Imports and help, processor time",
        {
            "import vaswani": to_the_end("-c", "import vaswani"),
            "import MarianMTModel": to_the_end("-c", "from transformers import MarianMTModel"),
            **{f"vaswani {page}": to_the_end("-m", "vaswani", *page.split()) for page in pages},
        },
        "import vaswani",
        arguments.rounds,
        processor_seconds,
    )


if __name__ == "__main__":
    main()
