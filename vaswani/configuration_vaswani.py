"""The architecture choices of "Attention Is All You Need" and the paper's named settings.

Holds `VaswaniConfig` and the rules that its fields must obey. How a model is trained or searched is
not decided here, with one exception: label smoothing belongs to the loss that the model computes
itself.

    VaswaniConfig                    sections 3.1-3.5, 5.4
    presets                          Table 3: names of what `presets_vaswani` holds
"""

import copy
import difflib
import math
import warnings
from dataclasses import fields
from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

from .presets_vaswani import PRESETS
from .versions_vaswani import stamped, upgraded

CHOICES: dict[str, tuple[str, ...]] = {
    "smoothing_formula": ("uniform", "others", "others_not_pad"),
    "position_encoding": ("sinusoidal", "learned"),
    "position_layout": ("interleaved", "halves"),
    "attention_score": ("scaled_dot_product", "dot", "additive"),
    # Those with weights of their own are left out: they are no functions, as section 3.3 has it.
    "activation_function": tuple(name for name in ACT2FN if name not in ("prelu", "xielu")),
}
"""The values of each field that takes one of several words; see `VaswaniConfig`."""

_ATTENTIONS = (
    "encoder.layers.*.self_attn",
    "decoder.layers.*.self_attn",
    "decoder.layers.*.encoder_attn",
)


def presets() -> list[str]:
    """Returns the names that `VaswaniConfig.from_preset` knows."""
    return list(PRESETS)


@strict
class VaswaniConfig(PreTrainedConfig):
    """Holds every architecture choice of the paper; the defaults are its base model.

    Source: Sections 3.1-3.5 and 5.4, Table 3.

    Args:
        vocab_size: entries of the target vocabulary, and of the source's where
            `encoder_vocab_size` is `None`. The paper: about 37,000 (English-German).
        encoder_vocab_size: entries of the source vocabulary where it is one of its own.
        d_model: width of the model, in features.
        encoder_layers: layers of the encoder, N in the paper.
        decoder_layers: layers of the decoder, N in the paper.
        encoder_attention_heads: heads of each encoder layer, h in the paper.
        decoder_attention_heads: heads of each decoder layer, h in the paper.
        encoder_ffn_dim: inner features of the encoder's feed-forward layers, d_ff in the paper.
        decoder_ffn_dim: inner features of the decoder's feed-forward layers, d_ff in the paper.
        d_k: features of a query and a key per head; `None` means `d_model` / heads.
        d_v: features of a value per head; `None` means `d_model` / heads.
        dropout: probability of dropping a feature of a sub-layer's output, and of the sum of
            embedding and position.
        attention_dropout: probability of dropping an attention weight. The paper has none.
        activation_dropout: probability of dropping an inner feature of the feed-forward layers.
            The paper has none.
        attention_score: how well a query q matches a key k: "scaled_dot_product", q k / sqrt(d_k);
            "dot", q k (Luong); "additive", v tanh(q + k) with a learned v per head (Bahdanau). The
            last two run in plain PyTorch only, and additive keeps d_k numbers for each score.
        hard_attention: whether the best key gets all the weight, to look at alignments. For
            inference only: it gives the scores no gradient, and training mode refuses it.
        attention_bias: whether the four projections of attention have a bias. The paper's don't.
        activation_function: what stands between the two layers of the feed-forward: "relu", the
            paper's, or another function of transformers (`ACT2FN`) that has no weights.
        normalize_before: whether layer normalization comes before each sub-layer, and once more
            at the end of each stack ("pre-norm"), not after each residual sum.
        output_bias: whether the projection to the vocabulary has a bias. The paper's doesn't.
        layer_norm_eps: what layer normalization adds to the variance. 1e-6 as in the authors'
            code; the paper gives none.
        label_smoothing: share of the target's probability mass that is spread over the
            vocabulary, in training mode only.
        smoothing_formula: over which entries it is spread evenly: "uniform", all of them, the
            right one and padding included (torch, transformers); "others", all but the right one
            (tensor2tensor, fairseq); "others_not_pad", all but the right one and padding
            (OpenNMT, JoeyNMT). The paper does not say.
        position_encoding: "sinusoidal", or "learned", a table for each side (Table 3, row E).
        position_layout: where a sinusoid's features lie: "interleaved", sine and cosine of one
            frequency side by side as in the paper; "halves", all sines first (Marian, Sockeye).
        max_position_embeddings: the longest sequence, in tokens, that the model is meant for. It
            is the length of learned tables; sinusoids go on beyond it.
        share_encoder_decoder_embeddings: whether source and target use one embedding table.
        tie_word_embeddings: whether the target's table is the projection to the vocabulary too.
            With both true, one table has three owners (the paper, section 3.4).
        pad_token_id: id of target padding, and of the source's unless `encoder_pad_token_id`.
        encoder_pad_token_id: id of source padding where it differs from the target's.
        bos_token_id: id of the start token.
        eos_token_id: id of the end token, which ends sources and targets.
        unk_token_id: id of the token for what a vocabulary does not hold.
        decoder_start_token_id: id that the decoder reads first.
        use_cache: whether the decoder returns its keys and values.

    Raises:
        huggingface_hub.errors.StrictDataclassFieldValidationError: if a field has the wrong type,
            on creation and on assignment.
        huggingface_hub.errors.StrictDataclassClassValidationError: if fields break a rule or
            contradict one another, on creation and on saving. Neither is a `ValueError`; their
            cause is one.

    A keyword that is no field is kept, as in every configuration of transformers; one that looks
    like a misspelt field gets a warning that names the field.
    """

    model_type = "vaswani"
    keys_to_ignore_at_inference = ["cache"]  # noqa: RUF012 (the Trainer adds a list to it)
    attribute_map = {  # noqa: RUF012
        "hidden_size": "d_model",
        "num_attention_heads": "encoder_attention_heads",
        "num_hidden_layers": "encoder_layers",
    }
    # Which modules `from_pretrained(distributed_config=...)` puts on several devices one by one.
    base_model_fsdp_plan = {  # noqa: RUF012
        "encoder.embed_tokens": "keep_full_weight",
        "encoder.layers.*": "free_full_weight",
        "decoder.layers.*": "free_full_weight",
    }

    vocab_size: int = 37_000
    encoder_vocab_size: int | None = None
    d_model: int = 512
    encoder_layers: int = 6
    decoder_layers: int = 6
    encoder_attention_heads: int = 8
    decoder_attention_heads: int = 8
    encoder_ffn_dim: int = 2048
    decoder_ffn_dim: int = 2048
    d_k: int | None = None
    d_v: int | None = None
    dropout: float | int = 0.1
    attention_dropout: float | int = 0.0
    activation_dropout: float | int = 0.0
    attention_score: str = "scaled_dot_product"
    hard_attention: bool = False
    attention_bias: bool = False
    activation_function: str = "relu"
    normalize_before: bool = False
    output_bias: bool = False
    layer_norm_eps: float | int = 1e-6
    label_smoothing: float | int = 0.1
    smoothing_formula: str = "uniform"
    position_encoding: str = "sinusoidal"
    position_layout: str = "interleaved"
    max_position_embeddings: int = 1024
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    is_encoder_decoder: bool = True
    use_cache: bool = True
    pad_token_id: int = 0
    encoder_pad_token_id: int | None = None
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    unk_token_id: int | None = 3
    decoder_start_token_id: int = 1

    @classmethod
    def from_preset(cls, name: str, **overrides: Any) -> "VaswaniConfig":
        """Returns the configuration that the paper (or this package) calls `name`.

        Args:
            name: one of `presets()`.
            overrides: fields that shall differ from the preset.

        Raises:
            ValueError: if there is no such preset.
        """
        if name not in PRESETS:
            nearest = difflib.get_close_matches(name, PRESETS, n=1)
            remedy = f" Did you mean {nearest[0]}?" if nearest else ""
            raise ValueError(f"`preset` must be one of {', '.join(PRESETS)}, got {name!r}.{remedy}")
        return cls(**{**PRESETS[name], **overrides})

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """Returns the configuration of a config.json, of this version or an earlier one.

        Raises:
            ValueError: if it has a later format than this version knows.
        """
        return super().from_dict(upgraded(config_dict), **kwargs)

    def to_dict(self) -> dict[str, Any]:
        """Returns all fields as a config.json has them, with the version that writes them."""
        return stamped(super().to_dict())

    def __post_init__(self, **kwargs: Any) -> None:
        own_fields = [field.name for field in fields(self)]
        for keyword in kwargs.keys() - self.attribute_map.keys():
            similar = difflib.get_close_matches(keyword, own_fields, n=1, cutoff=0.75)
            if similar:
                warnings.warn(
                    f"`{keyword}` is no field of VaswaniConfig and changes nothing. "
                    f"Did you mean `{similar[0]}`?",
                    stacklevel=4,
                )
        super().__post_init__(**kwargs)

    @property
    def source_vocab_size(self) -> int:
        """Entries of the source vocabulary."""
        return self.vocab_size if self.encoder_vocab_size is None else self.encoder_vocab_size

    @property
    def source_pad_token_id(self) -> int:
        """Id of padding in the source."""
        own = self.encoder_pad_token_id
        return self.pad_token_id if own is None else own

    @property
    def position_limit(self) -> int | None:
        """Most tokens of a source, and of what the decoder reads; `None` where nothing ends."""
        return self.max_position_embeddings if self.position_encoding == "learned" else None

    @property
    def needs_eager_attention(self) -> bool:
        """Whether only plain PyTorch computes this attention, and no fused kernel does."""
        return self.hard_attention or self.attention_score != "scaled_dot_product"

    @property
    def qk_head_dim(self) -> int | None:
        """Features of a key per decoder head where a value has another number, else `None`.

        Source: transformers' static cache reads this name and then takes the sizes of keys and
        values from the tensors instead of `d_model` / heads.
        """
        d_k, d_v = self.head_sizes(self.decoder_attention_heads)
        return None if d_k == d_v == self.d_model // self.decoder_attention_heads else d_k

    @property
    def base_model_tp_plan(self) -> dict[str, str]:  # type: ignore[override]
        """How tensor parallelism cuts each weight: by heads, inner features and entries.

        Source: transformers' `from_pretrained(distributed_config=...)`. One process has some of the
        heads whole, so their number must be a multiple of the number of processes.
        """
        plan: dict[str, str] = {}
        for attention in _ATTENTIONS:
            plan |= {f"{attention}.{name}_proj": "colwise" for name in ("q", "k", "v")}
            plan[f"{attention}.out_proj"] = "rowwise"
            if self.attention_score == "additive":
                plan[f"{attention}.score_proj.weight"] = "colwise"
                plan[f"{attention}.score_proj"] = "local_params"
        for stack in ("encoder", "decoder"):
            plan[f"{stack}.layers.*.feed_forward.fc1"] = "colwise"
            plan[f"{stack}.layers.*.feed_forward.fc2"] = "rowwise"
            plan[f"{stack}.embed_tokens"] = "embedding_rowwise"
        return plan

    def head_sizes(self, heads: int) -> tuple[int, int]:
        """Returns d_k and d_v, in features, for a stack with `heads` heads.

        Source: Section 3.2.2 (d_k = d_v = d_model / h) and Table 3 (B), which sets d_k alone.
        """
        d_k = self.d_model // heads if self.d_k is None else self.d_k
        d_v = self.d_model // heads if self.d_v is None else self.d_v
        return d_k, d_v

    def validate_architecture(self) -> None:
        """Rejects settings that no weights could satisfy; runs on creation and on saving."""
        self._check_sizes()
        self._check_rates()
        self._check_choices()
        self._check_heads()
        self._check_tables()
        self._check_token_ids()

    def validate_token_ids(self) -> None:
        """As the parent does, save for the source's padding, which is none of the target's ids.

        Source: transformers compares every `*_token_id` with `vocab_size`, here the target's, and
        warns. `_check_token_ids` compares this one with the source's vocabulary, and refuses.
        """
        without = copy.copy(self)
        without.encoder_pad_token_id = None
        PreTrainedConfig.validate_token_ids(without)

    def _check_sizes(self) -> None:
        names = (
            "vocab_size encoder_vocab_size d_model encoder_layers decoder_layers "
            "encoder_attention_heads decoder_attention_heads encoder_ffn_dim decoder_ffn_dim "
            "d_k d_v max_position_embeddings"
        )
        for name in names.split():
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"`{name}` must be at least 1, got {value}.")

    def _check_rates(self) -> None:
        for name in ("dropout", "attention_dropout", "activation_dropout", "label_smoothing"):
            value = getattr(self, name)
            if not 0.0 <= value < 1.0:
                raise ValueError(f"`{name}` must be a probability in [0, 1), got {value}.")
        if not 0.0 < self.layer_norm_eps < math.inf:
            raise ValueError(
                f"`layer_norm_eps` must be a positive number, got {self.layer_norm_eps}. "
                "The authors' code has 1e-6."
            )

    def _check_choices(self) -> None:
        for name, words in CHOICES.items():
            value = getattr(self, name)
            if value not in words:
                raise ValueError(f"`{name}` must be one of {', '.join(words)}, got {value!r}.")

    def _check_heads(self) -> None:
        for side in ("encoder", "decoder"):
            heads = getattr(self, f"{side}_attention_heads")
            unset = [name for name in ("d_k", "d_v") if getattr(self, name) is None]
            if not unset or self.d_model % heads == 0:
                continue
            if len(unset) == 1:
                other = "d_v" if unset == ["d_k"] else "d_k"
                raise ValueError(
                    f"`{unset[0]}` must be set beside `{other}` where it does not follow from "
                    f"`d_model` / `{side}_attention_heads`, got None with {self.d_model} / {heads}."
                )
            raise ValueError(
                f"`d_model` must be a multiple of `{side}_attention_heads`, "
                f"got {self.d_model} and {heads}. "
                "Set `d_k` and `d_v` to choose the width of a head freely."
            )

    def _check_tables(self) -> None:
        if self.share_encoder_decoder_embeddings and not self.tie_word_embeddings:
            raise ValueError(
                "`tie_word_embeddings` must be True when `share_encoder_decoder_embeddings` is, "
                "got False. Set both to False for three tables of their own."
            )
        if self.share_encoder_decoder_embeddings and self.source_vocab_size != self.vocab_size:
            raise ValueError(
                "`encoder_vocab_size` must equal `vocab_size` when both sides share a table, "
                f"got {self.encoder_vocab_size} and {self.vocab_size}. "
                "Set `share_encoder_decoder_embeddings=False` for separate vocabularies."
            )

    def _check_token_ids(self) -> None:
        eos = self.eos_token_id
        ids = [
            ("pad_token_id", self.pad_token_id, self.vocab_size),
            ("bos_token_id", self.bos_token_id, self.vocab_size),
            ("unk_token_id", self.unk_token_id, self.vocab_size),
            ("decoder_start_token_id", self.decoder_start_token_id, self.vocab_size),
            ("encoder_pad_token_id", self.source_pad_token_id, self.source_vocab_size),
            *(
                ("eos_token_id", i, self.vocab_size)
                for i in (eos if isinstance(eos, list) else [eos])
            ),
        ]
        for name, value, size in ids:
            if value is not None and not 0 <= value < size:
                raise ValueError(
                    f"`{name}` must be at least 0 and below the vocabulary's size {size}, "
                    f"got {value}."
                )


__all__ = ["VaswaniConfig", "presets"]
