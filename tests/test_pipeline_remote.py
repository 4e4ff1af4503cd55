"""Pipelines, training and trust in an interpreter that does not have the package.

Two interpreters are shared by the tests: `elsewhere` trusts the folders and does all that can be
done with them, `untrusting` does not.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import training_material
import two_sided
from elsewhere import run_elsewhere
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

from vaswani import VaswaniForConditionalGeneration, VaswaniTranslationPipeline
from vaswani.checkpoints import average_checkpoints
from vaswani.hub import check_self_contained
from vaswani.vocabulary import train_tokenizer

# An untrained model would say little but control tokens, whose ids these are.
SEARCH = {"max_new_tokens": 7, "suppress_tokens": [0, 1, 2, 3, two_sided.TARGET_PAD]}

TRUSTING = """
from pathlib import Path
import torch
from transformers import (AutoModelForSeq2SeqLM, AutoTokenizer, DataCollatorForSeq2Seq,
                          Seq2SeqTrainer, Seq2SeqTrainingArguments, pipeline)

given = json.loads(sys.stdin.read())
report = {"found": {}, "classes": set()}
for name, folder in given["folders"].items():
    by_task = pipeline("translation", model=folder, trust_remote_code=True)
    by_model = pipeline(model=folder, trust_remote_code=True)
    report["classes"] |= {type(one).__module__.partition(".")[0] + "." + type(one).__name__
                          for one in (by_task, by_task.model, by_task.tokenizer, by_model)}
    report["found"][name] = [one(given["texts"][name], batch_size=2, **given["search"])
                             for one in (by_task, by_model)]
report["classes"] = sorted(report["classes"])

# Fine-tuning with nothing but transformers.
folder = given["folders"]["shared"]
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
torch.manual_seed(0)
rows = [dict(tokenizer(source, text_target=target)) for source, target in given["pairs"]]
trainer = Seq2SeqTrainer(
    model,
    Seq2SeqTrainingArguments("tuned", max_steps=3, save_steps=3, per_device_train_batch_size=4,
                             learning_rate=1e-2, report_to=[], use_cpu=True, disable_tqdm=True),
    train_dataset=rows,
    data_collator=DataCollatorForSeq2Seq(tokenizer, model),
    processing_class=tokenizer,
)
trainer.train()
pipe = pipeline("translation", model="tuned/checkpoint-3", trust_remote_code=True)
report["tuned"] = pipe(given["texts"]["shared"], **given["search"])
pipe.save_pretrained("resaved")
pipe = pipeline(model="resaved", trust_remote_code=True)
report["resaved"] = pipe(given["texts"]["shared"], **given["search"])
print(json.dumps(report))
"""

UNTRUSTING = """
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

folder = sys.argv[1]
# Nobody is there to answer a question.
sys.stdin.close()
report = {}
for trust in (None, False):
    for name, load in {
        "AutoConfig": AutoConfig.from_pretrained,
        "AutoModel": AutoModel.from_pretrained,
        "AutoModelForSeq2SeqLM": AutoModelForSeq2SeqLM.from_pretrained,
        "AutoTokenizer": AutoTokenizer.from_pretrained,
        "pipeline": lambda folder, **trusted: pipeline("translation", model=folder, **trusted),
    }.items():
        try:
            load(folder, trust_remote_code=trust)
        except Exception as error:
            report[f"{name} {trust}"] = f"{type(error).__name__}: {error}"
# The questions end in no line break.
print()
print(json.dumps(report))
"""


def plain_checkpoint(work: Path) -> Path:
    """What the Trainer of transformers saves in training, with nothing of this package's own."""
    tokenizer = training_material.tokenizer()
    model = training_material.tiny_model()
    pairs = training_material.reversal_pairs(8)
    trainer = Seq2SeqTrainer(
        model,
        Seq2SeqTrainingArguments(
            str(work), max_steps=1, save_steps=1, report_to=[], use_cpu=True, disable_tqdm=True
        ),
        train_dataset=[dict(tokenizer(s, text_target=t)) for s, t in pairs],
        data_collator=DataCollatorForSeq2Seq(tokenizer, model),
        processing_class=tokenizer,
    )
    trainer.train()
    return work / "checkpoint-1"


def own_checkpoint(work: Path) -> Path:
    """What VaswaniTrainer saves in training."""
    training_material.trainer(work, max_steps=1, save_strategy="steps", save_steps=1).train()
    return work / "checkpoint-1"


def separate_vocabularies(work: Path) -> Path:
    tokenizer = two_sided.paired()
    two_sided.model_for(tokenizer).save_pretrained(work)
    tokenizer.save_pretrained(work)
    return work


def words_alone(work: Path) -> Path:
    texts = [text for pair in two_sided.PAIRS for text in pair]
    tokenizer = train_tokenizer(texts, model="word", min_frequency=1)
    training_material.tiny_model(vocab_size=len(tokenizer)).save_pretrained(work)
    tokenizer.save_pretrained(work)
    return work


def shared(work: Path) -> Path:
    training_material.tiny_model().save_pretrained(work)
    training_material.tokenizer().save_pretrained(work)
    return work


def average(work: Path) -> Path:
    return average_checkpoints([shared(work / "one"), shared(work / "other")], work / "average")


MAKERS: dict[str, Callable[[Path], Path]] = {
    "shared": shared,
    "separate": separate_vocabularies,
    "words": words_alone,
    "own checkpoint": own_checkpoint,
    "plain checkpoint": plain_checkpoint,
    "average": average,
}
TWO_SIDED = [source for source, _ in two_sided.PAIRS[:3]] + [""]
REVERSED = [source for source, _ in training_material.reversal_pairs(3)] + [""]
TEXTS = {name: TWO_SIDED if name in ("separate", "words") else REVERSED for name in MAKERS}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: make(tmp_path_factory.mktemp("saved")) for name, make in MAKERS.items()}


@pytest.fixture(scope="module")
def elsewhere(
    folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], Path]:
    """What the interpreter without the package found, and where it worked."""
    work = tmp_path_factory.mktemp("elsewhere")
    given = {
        "folders": {name: str(folder) for name, folder in folders.items()},
        "texts": TEXTS,
        "search": SEARCH,
        "pairs": training_material.reversal_pairs(12, seed=1),
    }
    return run_elsewhere(TRUSTING, work=work, given=given), work


def translated_here(folder: Path, texts: list[str]) -> list[dict[str, Any]]:
    """What the package makes of the folder, without trust and text by text."""
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    translate = VaswaniTranslationPipeline(model, AutoTokenizer.from_pretrained(folder))
    return [translate(text, **SEARCH)[0] for text in texts]


@pytest.mark.parametrize("name", MAKERS)
def test_folder_is_complete(folders: dict[str, Path], name: str) -> None:
    check_self_contained(folders[name])
    assert (folders[name] / "pipeline_vaswani.py").is_file()


@pytest.mark.parametrize("name", MAKERS)
def test_pipeline_without_the_package_translates_alike(
    folders: dict[str, Path], elsewhere: tuple[dict[str, Any], Path], name: str
) -> None:
    """Both with the task named and without."""
    by_task, by_model = elsewhere[0]["found"][name]
    assert by_task == by_model == translated_here(folders[name], TEXTS[name])
    assert by_task[0]["translation_text"] and by_task[-1]["translation_text"] == ""


def test_all_classes_are_the_folders_own(elsewhere: tuple[dict[str, Any], Path]) -> None:
    assert elsewhere[0]["classes"] == [
        "transformers_modules.VaswaniForConditionalGeneration",
        "transformers_modules.VaswaniTokenizer",
        "transformers_modules.VaswaniTranslationPipeline",
    ]


@pytest.mark.parametrize("name", ["tuned", "resaved"])
def test_model_tuned_without_the_package_is_the_same_with_it(
    elsewhere: tuple[dict[str, Any], Path], name: str
) -> None:
    """Trained by transformers alone, saved as a checkpoint and again from there."""
    report, work = elsewhere
    folder = work / {"tuned": "tuned/checkpoint-3", "resaved": "resaved"}[name]
    check_self_contained(folder)
    assert type(AutoModelForSeq2SeqLM.from_pretrained(folder)) is VaswaniForConditionalGeneration
    assert report[name] == translated_here(folder, TEXTS["shared"])
    assert report[name] != report["found"]["shared"][0]


@pytest.fixture(scope="module")
def untrusting(
    folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, str], Path]:
    """What each way of loading says without trust, and a file that is there if code was run."""
    work = tmp_path_factory.mktemp("untrusting")
    canary = work / "canary"
    folder = work / "folder"
    shutil.copytree(folders["shared"], folder)
    for path in folder.glob("*.py"):
        path.write_text(path.read_text("utf-8") + f"\nopen({str(canary)!r}, 'w')\n", "utf-8")
    return run_elsewhere(UNTRUSTING, folder, work=work), canary


@pytest.mark.parametrize("trust", [None, False])
@pytest.mark.parametrize(
    "name", ["AutoConfig", "AutoModel", "AutoModelForSeq2SeqLM", "AutoTokenizer", "pipeline"]
)
def test_without_trust_loading_is_refused_and_says_why(
    untrusting: tuple[dict[str, str], Path], name: str, trust: bool | None
) -> None:
    assert "trust_remote_code=True" in untrusting[0][f"{name} {trust}"]


def test_without_trust_no_code_of_the_folder_runs(untrusting: tuple[dict[str, str], Path]) -> None:
    report, canary = untrusting
    assert len(report) == 10
    assert not canary.exists()
    # The canary would sing: the same folder, trusted.
    AutoTokenizer.from_pretrained(canary.parent / "folder", trust_remote_code=True)
    assert canary.exists()
