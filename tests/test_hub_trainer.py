"""`Seq2SeqTrainer(push_to_hub=True)`: what a checkpoint sends to the Hub loads there.

In an interpreter of its own, whose client knows the server on loopback by HF_ENDPOINT.
"""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hub_material import environment_of
from hub_server import hub
from safetensors.torch import load_file

TRAIN = """
import sys
import torch
from transformers import (AutoModelForSeq2SeqLM, AutoTokenizer, DataCollatorForSeq2Seq,
                          Seq2SeqTrainer, Seq2SeqTrainingArguments)
import vaswani

folder, output = sys.argv[1:]
model = AutoModelForSeq2SeqLM.from_pretrained(folder)
tokenizer = AutoTokenizer.from_pretrained(folder)
rows = [dict(tokenizer(text, text_target=text)) for text in ("The baker", "The child", "Das Kind")]
trainer = Seq2SeqTrainer(
    model,
    Seq2SeqTrainingArguments(
        output, max_steps=2, save_steps=1, save_total_limit=1, push_to_hub=True, report_to="none",
        hub_model_id="ada/trained", hub_private_repo=True, use_cpu=True, disable_tqdm=True,
    ),
    train_dataset=rows,
    processing_class=tokenizer,
    data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
)
trainer.train()
trainer.push_to_hub()
found = AutoModelForSeq2SeqLM.from_pretrained("ada/trained")
assert all(torch.equal(a, b) for a, b in zip(model.parameters(), found.parameters(), strict=True))
assert AutoTokenizer.from_pretrained("ada/trained")("The baker") == tokenizer("The baker")
"""


@pytest.mark.slow
def test_trainer_pushes_a_model_that_loads(folder: Path, tmp_path: Path) -> None:
    with hub() as server:
        result = subprocess.run(
            [sys.executable, "-c", TRAIN, str(folder), str(tmp_path / "out")],
            cwd=tmp_path,
            env=environment_of(server, tmp_path / "home"),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert result.returncode == 0, result.stderr
        assert server.repositories["ada/trained"].private
        there = server.files("ada/trained")
    assert {"modeling_vaswani.py", "tokenization_vaswani.py", "tokenizer.json"} <= set(there)
    (tmp_path / "there").write_bytes(there["model.safetensors"])
    trained, before = load_file(tmp_path / "there"), load_file(folder / "model.safetensors")
    assert trained.keys() == before.keys()
    assert any(not torch.equal(trained[name], before[name]) for name in before)
