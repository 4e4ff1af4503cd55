# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     name: python3
# ---

# %% [markdown]
# # Train or fine-tune a translation model with the Trainer of transformers
#
# **As it stands it trains a small new model from scratch**: it needs no model to begin with. Put a
# saved folder into `MODEL` and it fine-tunes that one, with the folder's tokenizer.
#
# Of this package only model and tokenizer are used; all else is what works with every
# encoder-decoder of transformers. It runs as a script, `python examples/fine_tune.py`, and opens as
# a notebook in VS Code, PyCharm or Jupyter (with jupytext). It needs `vaswani[train]`, no network,
# and two minutes on two CPU cores.
#
# Copy it, put your own pairs into the cell "Data" and your model into `MODEL`. The learning rate is
# that of a new model; fine-tuning takes a lower one.

# %%
from typing import Any

import sacrebleu
from datasets import Dataset
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani.demo_corpus import generate
from vaswani.vocabulary import train_tokenizer

# %% [markdown]
# ## Settings

# %%
MODEL = ""  # a saved folder, or a name on the Hub, to go on from; "" makes a small new model
OUTPUT = "runs/fine_tune"
PAIRS = 40_000
HELD_OUT = 300
UPDATES = 600
BATCH = 64
set_seed(1)

# %% [markdown]
# ## Data
#
# English-German sentences of a generated grammar. What is held out joins words with constructions
# that the training pairs never join.


# %%
def pairs(count: int, split: str) -> Dataset:
    """Sentence pairs as two columns."""
    found = list(generate(count, seed=1, split=split))
    return Dataset.from_dict({"en": [p.source for p in found], "de": [p.target for p in found]})


training, held_out = pairs(PAIRS, "train"), pairs(HELD_OUT, "held_out")
print(training[0])

# %% [markdown]
# ## Model and tokenizer

# %%
if MODEL:
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    model = AutoModelForSeq2SeqLM.from_pretrained(MODEL)
else:
    tokenizer = train_tokenizer([*training["en"], *training["de"]], vocab_size=2000)
    config = VaswaniConfig.from_preset(
        "tiny",
        vocab_size=len(tokenizer),
        # So many different sentences cannot be learnt by heart: nothing to regularize.
        dropout=0.0,
        label_smoothing=0.0,
    )
    model = VaswaniForConditionalGeneration(config)
# Without a number of its own the first evaluation would set it to 20. Not to be saved: see below.
model.generation_config.max_length = 128
print(f"{model.num_parameters():,} parameters")


# %%
def encode(rows: dict[str, list[str]]) -> dict[str, list[list[int]]]:
    """Ids of the sources and, as labels, of the targets."""
    ids = tokenizer(rows["en"], text_target=rows["de"], truncation=True, max_length=128)
    return {"input_ids": ids["input_ids"], "labels": ids["labels"]}


training_ids = training.map(encode, batched=True, remove_columns=["en", "de"])
held_out_ids = held_out.map(encode, batched=True, remove_columns=["en", "de"])


# %% [markdown]
# ## Training
#
# `evaluate.load("sacrebleu")` downloads a script that calls this very function, so it is called
# directly.


# %%
def scores(prediction: Any) -> dict[str, float]:
    """BLEU and chrF of generated ids."""
    ids, labels = prediction.predictions, prediction.label_ids
    # The Trainer fills rows up with -100, which is no token.
    ids[ids < 0] = labels[labels < 0] = tokenizer.pad_token_id
    hypotheses = tokenizer.batch_decode(ids, skip_special_tokens=True)
    references = tokenizer.batch_decode(labels, skip_special_tokens=True)
    return {
        "bleu": sacrebleu.corpus_bleu(hypotheses, [references]).score,
        "chrf": sacrebleu.corpus_chrf(hypotheses, [references]).score,
    }


trainer = Seq2SeqTrainer(
    model=model,
    args=Seq2SeqTrainingArguments(
        output_dir=OUTPUT,
        max_steps=UPDATES,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        # Sentences of like length share a batch, so that little of it is padding.
        train_sampling_strategy="group_by_length",
        learning_rate=2.5e-3,
        lr_scheduler_type="linear",
        warmup_steps=0.15,
        adam_beta2=0.98,
        predict_with_generate=True,
        generation_num_beams=1,
        eval_strategy="steps",
        eval_steps=max(UPDATES // 2, 1),
        logging_steps=max(UPDATES // 6, 1),
        save_strategy="no",
        report_to="none",
    ),
    train_dataset=training_ids,
    eval_dataset=held_out_ids,
    data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
    processing_class=tokenizer,
    compute_metrics=scores,
)
trainer.train()

# %%
result = trainer.evaluate(num_beams=4)
print({name: round(value, 2) for name, value in result.items()})

# %% [markdown]
# ## Save, reload, translate
#
# The folder holds code, weights, tokenizer and search settings: it loads elsewhere with
# `trust_remote_code=True`, and with `Translator.from_pretrained` and `vaswani translate` here.

# %%
# The Trainer switched the cache off and would save it so.
model.config.use_cache = True
# Saved, the limit would cut every longer translation for good.
model.generation_config.max_length = None
trainer.save_model(OUTPUT)

model = AutoModelForSeq2SeqLM.from_pretrained(OUTPUT)
tokenizer = AutoTokenizer.from_pretrained(OUTPUT)
sentences = held_out["en"][:5]
batch = tokenizer(sentences, return_tensors="pt", padding=True)
translations = tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
for sentence, translation, reference in zip(
    sentences, translations, held_out["de"][:5], strict=True
):
    print(f"{sentence}\n    {translation}\n    {reference}")
