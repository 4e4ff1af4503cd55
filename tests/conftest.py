"""Fixtures that several test files share: a tiny configuration, tokenizer, model and folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani.tokenization_vaswani import VaswaniTokenizer
from vaswani.vocabulary import train_tokenizer


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Encoded corpora and the code of folders stay out of the caches of whoever runs the tests."""
    folder = str(tmp_path_factory.mktemp("cache"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_DATASETS_CACHE", folder)
        patch.setattr("datasets.config.HF_DATASETS_CACHE", folder)
        modules = str(tmp_path_factory.mktemp("modules"))
        patch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", modules)
        yield


def tiny_sentences() -> list[str]:
    """A corpus of one sentence form with the words of two languages."""
    people = ["baker", "sailor", "teacher", "child", "Bäcker", "Matrose", "Lehrer", "Kind"]
    verbs = ["sees", "greets", "finds", "sieht", "grüßt", "findet"]
    return [f"The {a} {v} the {b}." for a in people for v in verbs for b in people]


@pytest.fixture(scope="session")
def tiny_tokenizer() -> VaswaniTokenizer:
    """A tokenizer of a few hundred entries."""
    return train_tokenizer(tiny_sentences(), vocab_size=320)


@pytest.fixture(scope="session")
def copying_weights(tiny_tokenizer: VaswaniTokenizer) -> dict[str, torch.Tensor]:
    """Weights for `tiny_config` after seconds of learning to copy: it ends its sentences."""
    torch.manual_seed(0)
    model = VaswaniForConditionalGeneration(_config(tiny_tokenizer)).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    sentences = tiny_sentences()
    sentences += [sentence.split(" ", 1)[1] for sentence in sentences]
    for _ in range(150):
        chosen = [sentences[k] for k in torch.randint(len(sentences), (16,)).tolist()]
        batch = tiny_tokenizer(chosen, padding=True, return_tensors="pt")
        model(**batch, labels=batch["input_ids"], return_logits=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.state_dict()


@pytest.fixture
def copying_model(
    tiny_config: VaswaniConfig, copying_weights: dict[str, torch.Tensor]
) -> VaswaniForConditionalGeneration:
    """The trained copying model, in evaluation mode; a new one at every call."""
    model = VaswaniForConditionalGeneration(tiny_config)
    model.load_state_dict(copying_weights)
    return model.eval()


@pytest.fixture
def folder(
    tmp_path: Path, copying_model: VaswaniForConditionalGeneration, tiny_tokenizer: VaswaniTokenizer
) -> Path:
    """The copying model and its tokenizer, saved."""
    path = tmp_path / "copying"
    copying_model.save_pretrained(path)
    tiny_tokenizer.save_pretrained(path)
    return path


@pytest.fixture
def tiny_config(tiny_tokenizer: VaswaniTokenizer) -> VaswaniConfig:
    """The smallest model that has several layers and heads; its vocabulary is the tokenizer's."""
    return _config(tiny_tokenizer)


def _config(tokenizer: VaswaniTokenizer) -> VaswaniConfig:
    return VaswaniConfig(
        vocab_size=len(tokenizer),
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        dropout=0.0,
    )


@pytest.fixture
def tiny_model(tiny_config: VaswaniConfig) -> VaswaniForConditionalGeneration:
    """An untrained model in evaluation mode, the same at every call."""
    torch.manual_seed(0)
    return VaswaniForConditionalGeneration(tiny_config).eval()


@pytest.fixture
def tiny_folder(
    tmp_path: Path, tiny_model: VaswaniForConditionalGeneration, tiny_tokenizer: VaswaniTokenizer
) -> Path:
    """A model folder with the weights, settings and tokenizer of the fixtures above."""
    folder = tmp_path / "model"
    tiny_model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder
