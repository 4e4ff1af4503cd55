"""The version of this code, the format of the folders that it saves, and the way from older ones.

    __version__, FORMAT   what a saved config.json says of itself
    TRANSLATION_PIPELINE  what it says of its own pipeline
    stamped, upgraded     into a config.json, and out of one

The format counts what older code would misread: fields with another meaning, other names of
weights. A field that older code may ignore leaves it as it is.
"""

import copy
from collections.abc import Callable
from typing import Any

__version__ = "0.1.0"
FORMAT = 1

TRANSLATION_PIPELINE: dict[str, Any] = {
    "translation": {
        "impl": "pipeline_vaswani.VaswaniTranslationPipeline",
        "pt": ["AutoModelForSeq2SeqLM"],
    }
}
"""What `pipeline()` of transformers looks for in a configuration, as `custom_pipelines`."""


def _name_the_pipeline(settings: dict[str, Any]) -> None:
    settings.setdefault("custom_pipelines", copy.deepcopy(TRANSLATION_PIPELINE))


UPGRADES: dict[int, Callable[[dict[str, Any]], None]] = {0: _name_the_pipeline}
"""For each format, what makes the settings of the next one of its settings, in place. 0 stands for
folders from before formats were counted: their fields and weights are still today's."""


def stamped(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns settings for a config.json with the version and the format of this code."""
    return {**settings, "vaswani_version": __version__, "vaswani_format": FORMAT}


def upgraded(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of a config.json in today's format, without version and format.

    A folder of another version than this code's is told in a warning, once for each version.

    Raises:
        ValueError: if the format is no whole number, or later than this code knows.
    """
    settings = copy.deepcopy(settings)
    writer = settings.pop("vaswani_version", None)
    found = settings.pop("vaswani_format", 0)
    if type(found) is not int or found < 0:  # True and 1.0 are equal to 1
        raise ValueError(
            f"`vaswani_format` must be a whole number of at least 0, got {found!r}. Restore the "
            "config.json that was saved."
        )
    if found > FORMAT:
        raise ValueError(
            f"`vaswani_format` must be at most {FORMAT} to be read by vaswani {__version__}, got "
            f"{found!r}, written by vaswani {writer}. Upgrade the package, or load the folder with "
            "trust_remote_code=True where the package is not imported: its own code can read it."
        )
    for older in range(found, FORMAT):
        UPGRADES[older](settings)
    if writer != __version__:
        # Only here: who asks for the version alone need not wait for transformers.
        from transformers.utils import logging

        logging.get_logger(__name__).warning_once(
            f"The model was saved by vaswani {writer or '(version not recorded)'} in format "
            f"{found}; the code that reads it is vaswani {__version__}, format {FORMAT}, and so is "
            "what `save_pretrained` will write."
        )
    return settings


__all__ = ["FORMAT", "TRANSLATION_PIPELINE", "UPGRADES", "__version__", "stamped", "upgraded"]
