"""A Hugging Face-compatible implementation of "Attention Is All You Need".

Importing it makes its classes known to the Auto classes of transformers. The command `vaswani` does
that when it begins to work, not before: a help page or the line about a mistyped option needs
neither torch nor transformers' models, and should not wait seconds for them.
"""

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vaswani.configuration_vaswani import VaswaniConfig, presets
    from vaswani.modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel
    from vaswani.pipeline_vaswani import VaswaniTranslationPipeline
    from vaswani.tokenization_vaswani import VaswaniTokenizer
    from vaswani.versions_vaswani import __version__
else:
    # Where each public name lives. It is imported when somebody asks for it.
    _HOMES = {
        "VaswaniConfig": "configuration_vaswani",
        "VaswaniForConditionalGeneration": "modeling_vaswani",
        "VaswaniModel": "modeling_vaswani",
        "VaswaniTokenizer": "tokenization_vaswani",
        "VaswaniTranslationPipeline": "pipeline_vaswani",
        "__version__": "versions_vaswani",
        "presets": "configuration_vaswani",
    }

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOMES})


def register() -> None:
    """Makes the classes known to the Auto classes of transformers; again changes nothing."""
    from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer

    from vaswani.configuration_vaswani import VaswaniConfig
    from vaswani.modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel
    from vaswani.tokenization_vaswani import VaswaniTokenizer

    AutoConfig.register(VaswaniConfig.model_type, VaswaniConfig, exist_ok=True)
    AutoModel.register(VaswaniConfig, VaswaniModel, exist_ok=True)
    AutoModelForSeq2SeqLM.register(VaswaniConfig, VaswaniForConditionalGeneration, exist_ok=True)
    AutoTokenizer.register(VaswaniConfig, tokenizer_class=VaswaniTokenizer, exist_ok=True)
    # save_pretrained ships the code of classes marked so.
    VaswaniConfig.register_for_auto_class()
    VaswaniModel.register_for_auto_class("AutoModel")
    VaswaniForConditionalGeneration.register_for_auto_class("AutoModelForSeq2SeqLM")
    VaswaniTokenizer.register_for_auto_class("AutoTokenizer")


def _is_command() -> bool:
    """Whether this process is `vaswani ...` or `python -m vaswani ...`."""
    program = sys.argv[0] if sys.argv else ""
    if program == "-m":  # as it is while Python looks for the module
        program = sys.orig_argv[-len(sys.argv)]
    return Path(program).stem == __name__


if not _is_command():
    register()

__all__ = [
    "VaswaniConfig",
    "VaswaniForConditionalGeneration",
    "VaswaniModel",
    "VaswaniTokenizer",
    "VaswaniTranslationPipeline",
    "__version__",
    "presets",
    "register",
]
