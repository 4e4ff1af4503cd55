"""Does a folder load where this package is not installed?

loading_problems      tries it, in an interpreter of its own that refuses the package
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

_TRIAL = """
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "vaswani":
            raise ModuleNotFoundError("it needs the package vaswani", name=name)

sys.meta_path.insert(0, Refuse())
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.dynamic_module_utils import get_class_from_dynamic_module

folder, trust = sys.argv[1], {"trust_remote_code": True}
config = AutoConfig.from_pretrained(folder, **trust)
tokenizer = AutoTokenizer.from_pretrained(folder, **trust)
AutoModel.from_pretrained(folder, **trust)
model, report = AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True, **trust)
if report["missing_keys"]:
    raise ValueError("weights are missing: " + ", ".join(sorted(report["missing_keys"])[:3]))
batch = tokenizer(["a"], return_tensors="pt")
found = model.eval().generate(**batch, num_beams=1, length_penalty=1.0, early_stopping=False,
                              max_new_tokens=4)
if found.shape[0] != 1 or found.shape[1] < 2:
    raise ValueError("nothing was generated")
tokenizer.batch_decode(found)
for entry in (getattr(config, "custom_pipelines", None) or {}).values():
    kind = get_class_from_dynamic_module(entry["impl"], folder)
    kind(model=model, tokenizer=tokenizer)("a", max_new_tokens=4)
"""
_SECONDS = 1800


def loading_problems(folder: Path) -> list[str]:
    """Why the folder does not load alone, in a line; empty if it does.

    All four Auto classes load it with its own code, offline, it generates a few tokens, and its
    pipeline translates. That code runs: check folders only that you trust.
    """
    with tempfile.TemporaryDirectory(prefix="vaswani-trial-") as work:
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "PYTHONPATH")
        }
        environment |= {"HF_MODULES_CACHE": work, "HF_HUB_OFFLINE": "1"}
        try:
            result = subprocess.run(
                # -I: neither the working directory nor PYTHONPATH can bring the package in.
                [sys.executable, "-I", "-c", _TRIAL, str(folder.resolve())],
                cwd=work,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return [f"loading and generating takes more than {_SECONDS} seconds"]
    if result.returncode == 0:
        return []
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    reason = lines[-1][:300] if lines else f"exit code {result.returncode}"
    return [f"it does not load without the package ({reason})"]
