"""What to train: the arguments of a training run beside those of its data and the trainer's."""

import dataclasses
import difflib
import math
from dataclasses import dataclass, field
from typing import Any

import yaml

from vaswani.configuration_vaswani import VaswaniConfig, presets
from vaswani.errors import InputError
from vaswani.vocabulary import NORMALIZATIONS, VOCABULARY_MODELS, check_vocab_size

# What may change when training goes on from a model: it leaves the weights as they are.
_FREE_WITH_WEIGHTS = (
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "label_smoothing",
    "smoothing_formula",
)
_VOCABULARY_FIELDS = (
    "vocabulary_size",
    "vocabulary_model",
    "normalization",
    "separate_vocabularies",
    "target_vocabulary_size",
    "min_frequency",
)
_SHARED_TABLE = "share_encoder_decoder_embeddings"


@dataclass
class ModelArguments:
    """What the model is, or which one training goes on from.

    Raises:
        InputError: if options exclude each other or name nothing known.
    """

    _argument_group_name = "model"

    preset: str | None = field(
        default=None,
        metadata={"help": "size by name (default: base, the paper's)", "choices": presets()},
    )
    model: str | None = field(
        default=None,
        metadata={
            "help": "folder of a model to go on from, or user/name on the Hub; its tokenizer and "
            "config are kept"
        },
    )
    tokenizer: str | None = field(
        default=None, metadata={"help": "folder of a tokenizer to use instead of a new one"}
    )
    vocabulary_size: int | None = field(
        default=None,
        metadata={
            "help": "entries of a new vocabulary (default: 4000 up to 50,000 pairs, 8000 up to "
            "300,000, 16000 up to a million, 37000 beyond and for words)"
        },
    )
    vocabulary_model: str = field(
        default="bpe",
        metadata={
            "help": "what entries of a new vocabulary are: parts of words by byte-pair encoding or "
            "by a unigram model, or whole words in lower case, of which rare ones become <unk>",
            "choices": list(VOCABULARY_MODELS),
        },
    )
    normalization: str = field(
        default="nfc",
        metadata={
            "help": "normal form of texts, saved with a new vocabulary: nfc composes accents; nfkc "
            "also makes ligatures, full-width characters and no-break spaces plain ones",
            "choices": list(NORMALIZATIONS),
        },
    )
    bpe_dropout: float = field(
        default=0.0,
        metadata={
            "help": "probability that a merge of byte-pair encoding is left out, anew each time a "
            "training pair is read; such a run is not repeatable (the paper has none; 0.1 is usual)"
        },
    )
    separate_vocabularies: bool = field(
        default=False,
        metadata={"help": "a vocabulary and a table for each side; --vocabulary-size is of each"},
    )
    target_vocabulary_size: int | None = field(
        default=None,
        metadata={"help": "entries of the target's own vocabulary (default: as the source's)"},
    )
    min_frequency: int | None = field(
        default=None,
        metadata={
            "help": "how often an entry of a new vocabulary must be seen (default: 10; 2 for words)"
        },
    )
    dropout: float | None = field(
        default=None, metadata={"help": "dropout of the model (default: the preset's)"}
    )
    label_smoothing: float | None = field(
        default=None, metadata={"help": "label smoothing (default: the preset's)"}
    )
    config_overrides: dict | str | None = field(
        default=None,
        metadata={"help": "other fields of the config, as name=value,name=value"},
    )
    num_beams: int | None = field(
        default=None, metadata={"help": "beam size, saved with the model (default: 4)"}
    )
    length_penalty: float | None = field(
        default=None,
        metadata={
            "help": "alpha of the length penalty of beams, saved with the model (default: 0.6)"
        },
    )

    license: str | None = field(
        default=None,
        metadata={"help": "license of the weights, for the model card, such as cc-by-4.0"},
    )

    def __post_init__(self) -> None:
        if self.model is not None:
            self._refuse("model", "preset", *_VOCABULARY_FIELDS)
        if self.tokenizer is not None:
            self._refuse("tokenizer", *_VOCABULARY_FIELDS)
        for name, allowed in (
            ("vocabulary_model", VOCABULARY_MODELS),
            ("normalization", NORMALIZATIONS),
        ):
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"`{name}` must be one of {', '.join(allowed)}, got {getattr(self, name)!r}."
                )
        if not 0 <= self.bpe_dropout < 1:
            raise InputError(
                f"`bpe_dropout` must be at least 0 and below 1, got {self.bpe_dropout}."
            )
        if self.bpe_dropout and self.model is self.tokenizer is None:
            check_bpe(self.vocabulary_model)
        if self.min_frequency is not None and self.min_frequency < 1:
            raise InputError(f"`min_frequency` must be at least 1, got {self.min_frequency}.")
        if self.target_vocabulary_size is not None and not self.separate_vocabularies:
            raise InputError(
                "`target_vocabulary_size` must be left out without `separate_vocabularies`, "
                f"got {self.target_vocabulary_size}."
            )
        if self.preset is not None and self.preset not in presets():
            nearest = difflib.get_close_matches(self.preset, presets(), n=1)
            remedy = f" Did you mean {nearest[0]}?" if nearest else ""
            raise InputError(
                f"`preset` must be one of {', '.join(presets())}, got {self.preset!r}.{remedy}"
            )
        overrides = config_overrides(self)
        if self.model is None:
            # What no vocabulary could put right shows before a corpus is read.
            sizes = {"vocab_size", "encoder_vocab_size"} & overrides.keys()
            if not sizes:
                VaswaniConfig.from_preset(self.preset or "base", **overrides)
        elif overrides:
            VaswaniConfig(**overrides)
        for name in ("vocabulary_size", "target_vocabulary_size"):
            if getattr(self, name) is not None:
                check_vocab_size(getattr(self, name), model=self.vocabulary_model, name=name)

        if self.num_beams is not None and self.num_beams < 1:
            raise InputError(f"`num_beams` must be at least 1, got {self.num_beams}.")
        if self.length_penalty is not None and not 0 <= self.length_penalty < math.inf:
            raise InputError(f"`length_penalty` must be 0 or more, got {self.length_penalty}.")

    @property
    def search(self) -> dict[str, float]:
        """The search settings that were given, by their names in a `GenerationConfig`."""
        if self.num_beams == 1:
            # transformers refuses to save what belongs to beams where there are none.
            return {"num_beams": 1, "length_penalty": 1.0, "early_stopping": False}
        given = {"num_beams": self.num_beams, "length_penalty": self.length_penalty}
        return {name: value for name, value in given.items() if value is not None}

    def _refuse(self, given: str, *names: str) -> None:
        """Raises if one of the settings is set beside the folder `given`, which settles it."""
        defaults = {item.name: item.default for item in dataclasses.fields(self)}
        for name in names:
            if getattr(self, name) != defaults[name]:
                raise InputError(
                    f"`{name}` must be left out with `{given}`, got {getattr(self, name)}: "
                    f"the one of {getattr(self, given)} is kept."
                )


def check_bpe(kind: str) -> None:
    """Refuses dropout of merges for a vocabulary that has none.

    Raises:
        InputError: if `kind` isn't BPE.
    """
    if kind.lower() != "bpe":
        raise InputError(
            f"`bpe_dropout` must be left out where a vocabulary has no merges, got one of {kind}."
        )


def config_overrides(arguments: ModelArguments) -> dict[str, Any]:
    """Fields of the config that the user set, by name.

    Raises:
        InputError: for an unknown field, a malformed setting, or one that trained weights rule out.
    """
    given = arguments.config_overrides or {}
    settings = _parsed(given) if isinstance(given, str) else dict(given)
    for name in ("dropout", "label_smoothing"):
        value = getattr(arguments, name)
        if value is not None:
            settings[name] = value
    if arguments.separate_vocabularies and settings.setdefault(_SHARED_TABLE, False):
        raise InputError(
            f"`{_SHARED_TABLE}` must be left out or false with `separate_vocabularies`, got "
            f"{settings[_SHARED_TABLE]!r}."
        )
    known = [field.name for field in dataclasses.fields(VaswaniConfig)]
    for name, value in settings.items():
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=1)
            remedy = f" Did you mean {nearest[0]}?" if nearest else ""
            raise InputError(
                f"`config_overrides` must name fields of VaswaniConfig, got {name!r}.{remedy}"
            )
        if arguments.model is None and name.endswith("_token_id"):
            raise InputError(f"`{name}` must be left out, got {value!r}: the tokenizer settles it.")
        if arguments.model is not None and name not in _FREE_WITH_WEIGHTS:
            raise InputError(
                f"`{name}` must be left as it is with `model`, got {value!r}. Free to change: "
                f"{', '.join(_FREE_WITH_WEIGHTS)}."
            )
    check_trainable(settings.get("hard_attention", False))
    return settings


def check_trainable(hard_attention: Any) -> None:
    """Refuses what the model itself would refuse at its first update.

    Raises:
        InputError: if attention is hard.
    """
    if hard_attention:
        raise InputError(
            f"`hard_attention` must be False in training, got {hard_attention}: it has no "
            "gradient. Set it when you load the trained model."
        )


def _parsed(text: str) -> dict[str, Any]:
    if text.lstrip().startswith("{"):
        parsed = _yaml_value(text)
        if not isinstance(parsed, dict) or not all(isinstance(name, str) for name in parsed):
            raise InputError(f"`config_overrides` must map names to values, got {text!r}.")
        return parsed
    settings = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"`config_overrides` must be name=value,name=value, got {part!r}.")
        settings[name.strip()] = _yaml_value(value)
    return settings


def _yaml_value(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(
            f"`config_overrides` must have values in YAML or JSON, got {text!r}."
        ) from error
