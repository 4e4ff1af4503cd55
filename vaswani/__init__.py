"""A Hugging Face-compatible implementation of "Attention Is All You Need"."""

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer

from vaswani.configuration_vaswani import VaswaniConfig, presets
from vaswani.modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel
from vaswani.pipeline_vaswani import VaswaniTranslationPipeline
from vaswani.tokenization_vaswani import VaswaniTokenizer
from vaswani.versions_vaswani import __version__

AutoConfig.register(VaswaniConfig.model_type, VaswaniConfig, exist_ok=True)
AutoModel.register(VaswaniConfig, VaswaniModel, exist_ok=True)
AutoModelForSeq2SeqLM.register(VaswaniConfig, VaswaniForConditionalGeneration, exist_ok=True)
AutoTokenizer.register(VaswaniConfig, tokenizer_class=VaswaniTokenizer, exist_ok=True)
# save_pretrained ships the code of classes marked so.
VaswaniConfig.register_for_auto_class()
VaswaniModel.register_for_auto_class("AutoModel")
VaswaniForConditionalGeneration.register_for_auto_class("AutoModelForSeq2SeqLM")
VaswaniTokenizer.register_for_auto_class("AutoTokenizer")

__all__ = [
    "VaswaniConfig",
    "VaswaniForConditionalGeneration",
    "VaswaniModel",
    "VaswaniTokenizer",
    "VaswaniTranslationPipeline",
    "__version__",
    "presets",
]
