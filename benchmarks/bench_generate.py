"""Speed of beam search, beside MarianMTModel and CTranslate2, and what packed weights cost.

    python benchmarks/bench_generate.py
    python benchmarks/bench_generate.py --parts speed --batches 1 --threads 1 --rounds 9
    python benchmarks/bench_generate.py --parts corpus faithful --model runs/en-de --data dev.tsv

    speed      outputs of one length, by batch: `generate()`, `Translator` and the peers
    steps      time of a step, from step 10 to step 200
    memory     most memory of a search, by batch
    corpus     sentences of mixed lengths a second, batched by tokens, both cores busy
    faithful   how often translations differ from plain steps, by how much, and BLEU

The first four take a base model with random weights, whose end token can never win, so that all
contenders take the same number of steps; sources have lengths from a lognormal distribution with a
mean of 27 tokens. The last takes a trained model, and so does corpus if one is given. CTranslate2
has the weights of our model, and is left out where it is not installed: `pip install
"vaswani[bench]"`. Like it, `generate()` gets ids; `Translator` gets texts.
"""

import argparse
import importlib.util
import os
import resource
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench_train import lengths, marian_model
from measuring import machine, quartiles, table, take_turns

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani.prepacked_vaswani import packed_bytes
from vaswani.translation import Translator
from vaswani.vocabulary import train_tokenizer

VOCABULARY, BEAMS, OUTPUT = 37_000, 4, 32
PRECISIONS = ("float32", "float16-weights", "int8")
HAS_CTRANSLATE2 = importlib.util.find_spec("ctranslate2") is not None
Contenders = dict[str, Callable[[], object]]


class Material:
    """A model, its tokenizer and the same weights for CTranslate2."""

    def __init__(self, model: Any, tokenizer: Any, folder: Path, threads: int) -> None:
        self.model, self.tokenizer, self.threads = model, tokenizer, threads
        self.tokens = tokenizer.convert_ids_to_tokens(list(range(model.config.vocab_size)))
        self.folder = folder
        if HAS_CTRANSLATE2:
            from ctranslate2_folder import save_ctranslate2

            # Two entries of one name would be one entry there.
            names = [f"{token} {k}" for k, token in enumerate(self.tokens)]
            save_ctranslate2(model, names, folder)
            self.tokens = names

    def peer(self, compute_type: str, **settings: int) -> Any:
        """CTranslate2's translator."""
        import ctranslate2

        settings = {"intra_threads": self.threads, "inter_threads": 1} | settings
        return ctranslate2.Translator(str(self.folder), compute_type=compute_type, **settings)


def random_material(folder: Path, threads: int) -> Material:
    """A base model over made-up words; its end token scores 0, where others have more."""
    torch.manual_seed(0)
    words = [f"w{k}" for k in range(VOCABULARY)]
    tokenizer = train_tokenizer(words, vocab_size=VOCABULARY, model="word", min_frequency=1)
    config = VaswaniConfig.from_preset("base", vocab_size=len(tokenizer))
    model = VaswaniForConditionalGeneration(config).eval()
    with torch.no_grad():
        model.lm_head.weight[config.eos_token_id] = 0.0
    return Material(model, tokenizer, folder, threads)


def made_up(count: int, seed: int = 1) -> list[str]:
    """Sources of made-up words, of realistic lengths with the end token."""
    random = np.random.default_rng(seed)
    return [
        " ".join(f"w{k}" for k in random.integers(0, VOCABULARY // 2, size - 1))
        for size in lengths(count, random)[:, 0]
    ]


def speed(material: Material, batch: int, rounds: int) -> str:
    """A table of contenders on one batch."""
    texts = made_up(batch)
    ids = material.tokenizer(texts)["input_ids"]
    inputs = material.tokenizer(texts, return_tensors="pt", padding=True)
    marian = marian_model().eval()
    with torch.no_grad():
        marian.final_logits_bias[:, marian.config.eos_token_id] = -torch.inf

    def generate(model: Any) -> Any:
        return model.generate(**inputs, num_beams=BEAMS, max_new_tokens=OUTPUT)

    contenders: Contenders = {"MarianMTModel.generate": lambda: generate(marian)}
    if HAS_CTRANSLATE2:
        tokens = [[material.tokens[k] for k in row] for row in ids]
        for kind in ("float32", "int8"):
            peer = material.peer(kind)
            contenders[f"CTranslate2 {kind}"] = lambda peer=peer: peer.translate_batch(
                tokens,
                beam_size=BEAMS,
                length_penalty=0.6,
                min_decoding_length=OUTPUT,
                max_decoding_length=OUTPUT,
            )
    contenders["generate()"] = lambda: generate(material.model)
    for precision in PRECISIONS:
        # Each has a model of its own, since a model keeps weights in one precision at a time.
        own = VaswaniForConditionalGeneration(material.model.config)
        own.load_state_dict(material.model.state_dict())
        own.generation_config = material.model.generation_config
        translator = Translator(own, material.tokenizer, precision=precision)
        contenders[f"Translator {precision}"] = lambda translator=translator: translator.translate(
            texts, num_beams=BEAMS, max_new_tokens=OUTPUT
        )
    timings = take_turns(contenders, rounds=rounds)
    peers = [name for name in contenders if name.startswith(("Marian", "CTranslate2"))]
    headings = ["beam 4", "median", *(f"speed beside {peer}" for peer in peers)]
    rows = [timings.row(contender, peers) for contender in contenders]
    title = f"batch {batch}, {OUTPUT} tokens each, {torch.get_num_threads()} threads"
    return f"{title}. {timings.quietness()}\n\n{table(headings, rows)}"


def steps(material: Material, rounds: int) -> str:
    """A table of what a step takes, near the beginning of an output and far from it."""
    places = (10, 40, 100, 160, 200)
    inputs = material.tokenizer(made_up(8), return_tensors="pt", padding=True)

    def generate(tokens: int) -> Any:
        settings = {"num_beams": BEAMS, "max_new_tokens": tokens, "max_length_b": 200}
        return material.model.generate(**inputs, **settings)

    timings = take_turns(
        {str(place): lambda place=place: generate(place) for place in places}, rounds=rounds
    )
    rows = []
    for first, last in pairwise(places):
        pairs = zip(timings.seconds[str(first)], timings.seconds[str(last)], strict=True)
        each = [(late - early) / (last - first) * 1000 for early, late in pairs]
        low, middle, high = quartiles(each)
        rows.append([f"{first} to {last}", f"{middle:.1f} ms ({low:.1f} to {high:.1f})"])
    return f"batch 8. {timings.quietness()}\n\n{table(['steps', 'time of one'], rows)}"


def memory(material: Material) -> str:
    """A table of the most memory that a process had, from small batches to large ones."""
    rows, before = [], _most_memory()
    for batch in (1, 8, 16, 32, 64):
        inputs = material.tokenizer(
            [" ".join(made_up(1, seed)[0].split()[:1] * 26) for seed in range(batch)],
            return_tensors="pt",
            padding=True,
        )
        material.model.generate(**inputs, num_beams=BEAMS, max_new_tokens=OUTPUT)
        rows.append([str(batch), f"{_most_memory() - before:,.0f} MB"])
    packed = packed_bytes(material.model) / 1e6
    title = f"Packed weights take {packed:,.0f} MB of it, in any batch."
    return f"{title}\n\n{table(['batch of 27 tokens', 'memory beside the model'], rows)}"


def _most_memory() -> float:
    """The most memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def corpus(material: Material, sources: list[str], rounds: int, output: int | None = None) -> str:
    """A table of sentences a second; each has `output` tokens, or as many as it comes to."""
    limits = {"min_decoding_length": output, "max_decoding_length": output} if output else {}
    contenders: Contenders = {}
    if HAS_CTRANSLATE2:
        ids = material.tokenizer(sources)["input_ids"]
        tokens = [[material.tokens[k] for k in row] for row in ids]
        cores = os.cpu_count() or 1
        for kind in ("float32", "int8"):
            for inter, intra in ((1, cores), (cores, 1)):
                peer = material.peer(kind, inter_threads=inter, intra_threads=intra)
                name = f"CTranslate2 {kind}, {inter} x {intra} threads"
                contenders[name] = lambda peer=peer: peer.translate_batch(
                    tokens, beam_size=BEAMS, max_batch_size=2048, batch_type="tokens", **limits
                )
    for precision in PRECISIONS:
        own = VaswaniForConditionalGeneration(material.model.config)
        own.load_state_dict(material.model.state_dict())
        own.generation_config = material.model.generation_config
        translator = Translator(own, material.tokenizer, precision=precision)
        name = f"Translator {precision}"
        contenders[name] = lambda translator=translator: translator.translate(
            sources, max_new_tokens=output
        )
    timings = take_turns(contenders, rounds=rounds, warm_up=1)
    rows = [
        [name, *(f"{len(sources) / value:.1f}" for value in quartiles(timings.seconds[name])[::-1])]
        for name in contenders
    ]
    headings = [
        f"{len(sources)} sentences",
        "sentences a second: lower quartile",
        "median",
        "upper",
    ]
    return f"{timings.quietness()}\n\n{table(headings, rows)}"


def faithful(material: Material, sources: list[str], references: list[str]) -> str:
    """A table of translations beside those of plain steps."""
    from vaswani.evaluation import corpus_scores

    # A cache that the caller asks for keeps packed steps away.
    material.model.generation_config.cache_implementation = "dynamic"
    plain = Translator(material.model, material.tokenizer).translate(sources)
    material.model.generation_config.cache_implementation = None
    found = {"plain steps": plain} | {
        precision: Translator(material.model, material.tokenizer, precision=precision).translate(
            sources
        )
        for precision in PRECISIONS
    }
    rows = []
    for name, translations in found.items():
        pairs = list(zip(translations, plain, strict=True))
        same = sum(own.text == other.text and own.tokens == other.tokens for own, other in pairs)
        apart = max(
            (abs(own.score - other.score) for own, other in pairs if own.text != other.text),
            default=0.0,
        )
        bleu = corpus_scores([own.text for own in translations], references)["bleu"]
        rows.append([name, f"{same / len(pairs):.2%}", f"{apart:.1e}", f"{bleu:.2f}"])
    headings = [f"{len(sources)} sentences", "the same", "others' scores differ by at most", "BLEU"]
    return table(headings, rows)


def main() -> None:
    parts = ("speed", "steps", "memory", "corpus", "faithful")
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts[:3])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8, 32])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--model", help="folder of a trained model, for corpus and faithful")
    parser.add_argument("--data", help="its pairs, source and target in a .tsv file")
    parser.add_argument("--sentences", type=int, help="the first so many pairs alone")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(machine())
    if not HAS_CTRANSLATE2:
        print('CTranslate2 is left out, as it is not installed: pip install "vaswani[bench]"')
    wanted = list(arguments.parts)
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        if set(wanted) & set(parts[:3]) or not arguments.model:
            material = random_material(Path(folder) / "random", arguments.threads)
        if "memory" in wanted:
            print(f"\n## memory\n\n{memory(material)}", flush=True)
        for batch in arguments.batches if "speed" in wanted else ():
            print(f"\n## speed\n\n{speed(material, batch, arguments.rounds)}", flush=True)
        if "steps" in wanted:
            print(f"\n## steps\n\n{steps(material, arguments.rounds)}", flush=True)
        if "corpus" in wanted and not arguments.model:
            sources = made_up(arguments.sentences or 96)
            told = corpus(material, sources, arguments.rounds, OUTPUT)
            print(f"\n## corpus, {OUTPUT} tokens each\n\n{told}", flush=True)
            wanted.remove("corpus")
        if not set(wanted) & set(parts[3:]):
            return
        if not (arguments.model and arguments.data):
            parser.error("a trained model must have --model and --data, got one or none")
        translator = Translator.from_pretrained(arguments.model, device="cpu")
        lines = Path(arguments.data).read_text(encoding="utf-8").split("\n")
        pairs = [line.split("\t") for line in lines if line][: arguments.sentences]
        sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
        trained = Material(
            translator.model, translator.tokenizer, Path(folder) / "trained", arguments.threads
        )
        if "faithful" in wanted:
            print(f"\n## faithful\n\n{faithful(trained, sources, references)}", flush=True)
        if "corpus" in wanted:
            print(f"\n## corpus\n\n{corpus(trained, sources, arguments.rounds)}", flush=True)


if __name__ == "__main__":
    main()
