"""Adapters of PEFT on a model of this package."""

import copy
import warnings
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from elsewhere import run_elsewhere
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from test_plain_trainer import rows
from training_material import reversal_pairs, tiny_model, tokenizer, trainer
from transformers import (
    AutoModelForSeq2SeqLM,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

from vaswani import VaswaniForConditionalGeneration
from vaswani.translation import Translator

LAYERS = ["q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"]
SOURCES = [source for source, _ in reversal_pairs(6, seed=3)]


def batch() -> dict[str, torch.Tensor]:
    """A padded batch with labels."""
    return dict(DataCollatorForSeq2Seq(tokenizer())([rows(6, seed=3)[k] for k in range(6)]))


def adapted(model: Any = None, **settings: Any) -> Any:
    """A model with adapters that already say something, as after training."""
    settings = {"target_modules": LAYERS, "init_lora_weights": False, "r": 4, **settings}
    model = model or tiny_model()
    torch.manual_seed(1)
    return get_peft_model(model, LoraConfig(task_type="SEQ_2_SEQ_LM", **settings)).eval()


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(**batch()).logits


def searched(model: Any) -> list[list[int]]:
    found = tokenizer()(SOURCES, return_tensors="pt", padding=True)
    return model.generate(**found, num_beams=3, max_new_tokens=12).tolist()


def test_all_linear_are_the_layers_of_attention_and_feed_forward() -> None:
    """So nobody has to know their names; the output projection is left alone, as it is tied."""
    model = adapted(target_modules="all-linear")
    found = {name for name, module in model.named_modules() if hasattr(module, "lora_A")}
    by_name = adapted()
    assert found == {name for name, module in by_name.named_modules() if hasattr(module, "lora_A")}
    # Per layer of the encoder 4 + 2, of the decoder 8 + 2.
    assert len(found) == 6 + 10
    base = model.get_base_model()
    assert type(base.lm_head) is torch.nn.Linear
    assert base.lm_head.weight is base.model.encoder.embed_tokens.weight


def test_training_moves_the_adapters_alone_and_learns() -> None:
    model = adapted(init_lora_weights=True)
    base = tiny_model()
    torch.testing.assert_close(logits(model), logits(base))  # a new adapter changes nothing
    before = copy.deepcopy(dict(model.named_parameters()))
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    model.train()
    losses = []
    for _ in range(30):
        loss = model(**batch()).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) != ("lora_" in name)


def test_a_merged_model_is_the_model_with_its_adapters() -> None:
    model = adapted()
    wanted, tokens = logits(model), searched(model)
    assert not torch.allclose(wanted, logits(tiny_model()), atol=0.1)
    merged = model.merge_and_unload()
    assert type(merged) is VaswaniForConditionalGeneration
    torch.testing.assert_close(logits(merged), wanted, atol=1e-4, rtol=1e-4)
    assert searched(merged) == tokens
    assert merged.lm_head.weight is merged.model.encoder.embed_tokens.weight


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> tuple[Path, Path]:
    """A saved model, and an adapter saved for it."""
    root = tmp_path_factory.mktemp("peft")
    tiny_model().save_pretrained(root / "base")
    tokenizer().save_pretrained(root / "base")
    adapted(AutoModelForSeq2SeqLM.from_pretrained(root / "base")).save_pretrained(root / "adapter")
    return root / "base", root / "adapter"


def test_a_saved_adapter_gives_the_same_model(folders: tuple[Path, Path]) -> None:
    base, adapter = folders
    assert (adapter / "adapter_model.safetensors").is_file()
    assert not list(adapter.glob("*.bin"))
    wanted = logits(adapted())
    loaded = PeftModel.from_pretrained(AutoModelForSeq2SeqLM.from_pretrained(base), adapter)
    assert torch.equal(logits(loaded), wanted)
    assert torch.equal(logits(peft.AutoPeftModelForSeq2SeqLM.from_pretrained(adapter)), wanted)


def test_an_adapter_beside_the_model_is_loaded_with_it(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    """As transformers does for its own models: one folder, one name."""
    model = adapted(AutoModelForSeq2SeqLM.from_pretrained(folders[0]))
    tiny_model().save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    assert torch.equal(logits(AutoModelForSeq2SeqLM.from_pretrained(tmp_path)), logits(model))


def test_a_translator_reads_the_merged_folder(folders: tuple[Path, Path], tmp_path: Path) -> None:
    model = PeftModel.from_pretrained(AutoModelForSeq2SeqLM.from_pretrained(folders[0]), folders[1])
    merged = model.merge_and_unload()
    merged.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    said = [t.text for t in Translator.from_pretrained(tmp_path).translate(SOURCES)]
    assert said == [t.text for t in Translator(merged, tokenizer()).translate(SOURCES)]
    assert said != [t.text for t in Translator(tiny_model(), tokenizer()).translate(SOURCES)]


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing_gives_the_same_gradients(reentrant: bool) -> None:
    plain, saving = adapted(), adapted()
    saving.get_base_model().activation_checkpointing_enable({"use_reentrant": reentrant})
    saving.enable_input_require_grads()
    for model in (plain, saving):
        model.train()
        model(**batch()).loss.backward()
    compared = 0
    for (name, one), other in zip(plain.named_parameters(), saving.parameters(), strict=True):
        if one.requires_grad:
            assert one.grad.abs().max() > 0, name
            torch.testing.assert_close(other.grad, one.grad)
            compared += 1
    assert compared == 2 * 16


def test_vaswani_trainer_trains_adapters_and_goes_on(tmp_path: Path) -> None:
    """Updates, evaluation with translations, checkpoints of the adapter alone, resuming."""
    settings = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2, "eval_steps": 2}
    torch.manual_seed(0)
    whole = trainer(tmp_path / "whole", model=adapted(init_lora_weights=True), **settings)
    whole.train()
    checkpoint = tmp_path / "whole" / "checkpoint-2"
    assert (checkpoint / "adapter_model.safetensors").is_file()
    assert not (checkpoint / "model.safetensors").exists()
    again = trainer(tmp_path / "again", model=adapted(init_lora_weights=True), **settings)
    again.train(resume_from_checkpoint=str(checkpoint))
    for one, other in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert "eval_bleu" in whole.evaluate(max_sentences=4)


def test_the_plain_trainer_trains_adapters(tmp_path: Path) -> None:
    model = adapted(init_lora_weights=True, target_modules="all-linear")
    plain = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            output_dir=str(tmp_path),
            max_steps=20,
            learning_rate=1e-2,
            logging_steps=5,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            label_smoothing_factor=0.1,
            predict_with_generate=True,
        ),
        train_dataset=rows(64),
        eval_dataset=rows(10, seed=1),
        data_collator=DataCollatorForSeq2Seq(tokenizer(), model=model),
        processing_class=tokenizer(),
        compute_metrics=lambda prediction: {"rows": len(prediction.predictions)},
    )
    plain.train()
    losses = [entry["loss"] for entry in plain.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0]
    assert plain.evaluate()["eval_rows"] == 10


METHODS = {
    "ia3": lambda: peft.IA3Config(
        target_modules=["k_proj", "v_proj", "fc2"], feedforward_modules=["fc2"]
    ),
    "prefix": lambda: peft.PrefixTuningConfig(num_virtual_tokens=4),
    "prompt": lambda: peft.PromptTuningConfig(num_virtual_tokens=4),
    "p-tuning": lambda: peft.PromptEncoderConfig(num_virtual_tokens=4),
}


@pytest.mark.filterwarnings("ignore:.*past_key_values:FutureWarning")
@pytest.mark.parametrize("method", METHODS)
def test_other_methods_train_save_and_generate(method: str, tmp_path: Path) -> None:
    config = METHODS[method]()
    config.task_type = "SEQ_2_SEQ_LM"
    model = get_peft_model(tiny_model(), config).train()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-2)
    losses = []
    for _ in range(30):
        loss = model(**batch()).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.2
    wanted = logits(model)
    assert len(searched(model)) == len(SOURCES)
    model.save_pretrained(tmp_path)
    loaded = PeftModel.from_pretrained(tiny_model(), tmp_path)
    torch.testing.assert_close(logits(loaded), wanted)


def test_tables_trained_beside_the_adapters_are_saved_with_them(tmp_path: Path) -> None:
    """PEFT unties what `modules_to_save` names: merging needs a configuration that says so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PEFT's, that the tables are tied
        model = adapted(modules_to_save=["embed_tokens"])
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "modules_to_save" in name:
                    parameter.add_(torch.randn_like(parameter))
        wanted = logits(model)
        model.save_pretrained(tmp_path / "adapter")
        loaded = PeftModel.from_pretrained(tiny_model(), tmp_path / "adapter")
        assert torch.equal(logits(loaded), wanted)
        merged = model.merge_and_unload()
    with pytest.raises(Exception, match="Set both to False for three tables of their own"):
        merged.save_pretrained(tmp_path / "merged")
    merged.config.share_encoder_decoder_embeddings = False
    merged.config.tie_word_embeddings = False
    merged.save_pretrained(tmp_path / "merged")
    again = VaswaniForConditionalGeneration.from_pretrained(tmp_path / "merged")
    torch.testing.assert_close(logits(again), wanted, atol=1e-4, rtol=1e-4)


ADAPT = """
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM

base, adapter, inputs, outputs, merged = sys.argv[1:]
model = AutoModelForSeq2SeqLM.from_pretrained(base, trust_remote_code=True)
model = PeftModel.from_pretrained(model, adapter).eval()
with torch.no_grad():
    save_file({"logits": model(**load_file(inputs)).logits.contiguous()}, outputs)
model.merge_and_unload().save_pretrained(merged)
print(json.dumps(type(model).__name__))
"""


def test_an_adapter_loads_where_the_package_is_not(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    save_file({k: v.contiguous() for k, v in batch().items()}, tmp_path / "inputs")
    names = [tmp_path / name for name in ("inputs", "outputs", "merged")]
    assert run_elsewhere(ADAPT, *folders, *names, work=tmp_path) == "PeftModelForSeq2SeqLM"
    wanted = logits(adapted())
    assert torch.equal(load_file(tmp_path / "outputs")["logits"], wanted)
    merged = VaswaniForConditionalGeneration.from_pretrained(tmp_path / "merged")
    torch.testing.assert_close(logits(merged), wanted, atol=1e-4, rtol=1e-4)
