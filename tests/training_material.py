"""Small corpora, models and trainers for the tests of training: numbers to be said in reverse."""

import os
import random
import signal
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani.training import VaswaniTrainer, VaswaniTrainingArguments
from vaswani.training_data import TokenizedPairs
from vaswani.vocabulary import train_tokenizer

WORDS = ["null", "eins", "zwei", "drei", "vier", "acht", "neun", "zehn", "elf", "zwoelf"]


def reversal_pairs(count: int, *, longest: int = 6, seed: int = 0) -> list[tuple[str, str]]:
    """Sentences and the same words from last to first."""
    chance = random.Random(seed)
    rows = [chance.choices(WORDS, k=chance.randint(1, longest)) for _ in range(count)]
    return [(" ".join(row), " ".join(reversed(row))) for row in rows]


def write_tsv(path: Path, pairs: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    return path


@lru_cache(maxsize=1)
def tokenizer() -> Any:
    return train_tokenizer([text for pair in reversal_pairs(300) for text in pair], vocab_size=350)


def tokenized(pairs: list[tuple[str, str]], *, keep_texts: bool = True) -> TokenizedPairs:
    sources, targets = zip(*pairs, strict=True)
    return TokenizedPairs.from_texts(
        list(sources), list(targets), tokenizer(), keep_texts=keep_texts
    )


def tiny_config(**overrides: Any) -> VaswaniConfig:
    settings: dict[str, Any] = {
        "vocab_size": len(tokenizer()),
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "dropout": 0.0,
    }
    return VaswaniConfig(**{**settings, **overrides})


def tiny_model(seed: int = 0, **overrides: Any) -> VaswaniForConditionalGeneration:
    torch.manual_seed(seed)
    return VaswaniForConditionalGeneration(tiny_config(**overrides))


def arguments(folder: Path, **settings: Any) -> VaswaniTrainingArguments:
    defaults: dict[str, Any] = {
        "tokens_per_update": 200,
        "warmup_steps": 10,
        "max_steps": 6,
        "eval_steps": 1000,
        "logging_steps": 1,
        "device_name": "cpu",
        "save_strategy": "no",
        "load_best_model_at_end": False,
    }
    return VaswaniTrainingArguments(output_dir=str(folder), **{**defaults, **settings})


def trainer(folder: Path, *, model: Any = None, **settings: Any) -> VaswaniTrainer:
    return VaswaniTrainer(
        model or tiny_model(),
        arguments(folder, **settings),
        train_dataset=tokenized(reversal_pairs(120)),
        eval_dataset=tokenized(reversal_pairs(37, seed=1)),
        processing_class=tokenizer(),
    )


class Watch(TrainerCallback):
    """Keeps what each optimizer update was about to do, and may interrupt the run."""

    def __init__(self, interrupt_at: int | None = None) -> None:
        self.gradients: list[torch.Tensor] = []
        self.rates: list[float] = []
        self.interrupt_at = interrupt_at

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, model: Any = None, **others: Any
    ) -> None:
        self.gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
        self.rates.append(others["optimizer"].param_groups[0]["lr"])
        if state.global_step + 1 == self.interrupt_at:
            os.kill(os.getpid(), signal.SIGINT)


def weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
