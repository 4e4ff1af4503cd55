"""Three saved folders, and a check of them in an environment that has only transformers and torch.

    python tests/fresh_environment.py write FOLDERS     with the package
    python -I tests/fresh_environment.py check FOLDERS  without it

`write` also writes down what the package makes of some texts; `check` compares, token by token.
`.ci/run` does both.
"""

import argparse
import importlib.util
import json
from pathlib import Path
from typing import Any

SHARED, SEPARATE, OTHERS = "shared-bpe", "separate-vocabularies", "learned-prenorm-additive"
PAIRS = [
    ("the boat is red", "das Boot ist rot"),
    ("the house is old", "das Haus ist alt"),
    ("a red house", "ein rotes Haus"),
    ("where is the old boat ?", "wo ist das alte Boot ?"),
]
TEXTS = [source for source, _ in PAIRS]
# Untrained models would say little but control tokens, whose ids these are.
SEARCH = {"max_new_tokens": 12, "suppress_tokens": [0, 1, 2, 3]}


def write(folders: Path) -> None:
    """Saves a folder with a vocabulary of its own for each side, and two with one for both."""
    import torch

    from vaswani import VaswaniConfig, VaswaniForConditionalGeneration
    from vaswani.vocabulary import pair_tokenizers, train_tokenizer

    sources, targets = zip(*PAIRS, strict=True)
    shared = train_tokenizer([*sources, *targets], vocab_size=320, min_frequency=1)
    source = train_tokenizer(sources, vocab_size=300, min_frequency=1)
    target = train_tokenizer(targets, vocab_size=310, min_frequency=1)
    sides = {
        "vocab_size": len(target),
        "encoder_vocab_size": len(source),
        "share_encoder_decoder_embeddings": False,
    }
    others = {
        "vocab_size": len(shared),
        "position_encoding": "learned",
        "max_position_embeddings": 48,
        "normalize_before": True,
        "attention_score": "additive",
    }
    for name, tokenizer, settings in (
        (SHARED, shared, {"vocab_size": len(shared)}),
        (SEPARATE, pair_tokenizers(source, target), sides),
        (OTHERS, shared, others),
    ):
        torch.manual_seed(0)
        config = VaswaniConfig.from_preset("tiny", **settings)
        VaswaniForConditionalGeneration(config).save_pretrained(folders / name)
        tokenizer.save_pretrained(folders / name)
        found = json.dumps(results(folders / name), ensure_ascii=False)
        (folders / f"{name}.json").write_text(found, encoding="utf-8")


def check(folders: Path) -> None:
    """Loads each folder with its own code, translates, and compares."""
    assert importlib.util.find_spec("vaswani") is None, "the package must not be installed here"
    for name in (SHARED, SEPARATE, OTHERS):
        expected = json.loads((folders / f"{name}.json").read_text(encoding="utf-8"))
        assert results(folders / name) == expected, name
        print(f"{name}: {len(TEXTS)} texts, the same tokens by generate() and by pipeline()")


def results(folder: Path) -> dict[str, Any]:
    """What the Auto classes and the pipeline make of the texts."""
    from transformers import AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
    base = AutoModel.from_pretrained(folder, trust_remote_code=True)
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    translate = pipeline("translation", model=str(folder), trust_remote_code=True)
    translations = translate(TEXTS, batch_size=3, return_tensors=True, return_text=True, **SEARCH)
    return {
        "classes": [type(one).__name__ for one in (tokenizer, model, base, translate)],
        "source_ids": batch["input_ids"].tolist(),
        "generated": model.generate(**batch, **SEARCH).tolist(),
        "texts": [one["translation_text"] for one in translations],
        "token_ids": [one["translation_token_ids"].tolist() for one in translations],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("write", "check"))
    parser.add_argument("folders", type=Path)
    chosen = parser.parse_args()
    (write if chosen.what == "write" else check)(chosen.folders)


if __name__ == "__main__":
    main()
