"""What every model of this package does as a model of transformers.

VaswaniPreTrainedModel           initial weights, attention backends, loading, saving
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.utils.generic import is_flash_attention_requested

from .attention_scores_vaswani import VaswaniAdditiveScore
from .configuration_vaswani import VaswaniConfig
from .positions_vaswani import VaswaniLearnedPositions
from .versions_vaswani import TRANSLATION_PIPELINE
from .weight_files_vaswani import refuse_pickled_files, safetensors_settings


class VaswaniPreTrainedModel(PreTrainedModel):
    """What encoder, decoder and the models have in common: initial weights and saving."""

    config: VaswaniConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["VaswaniEncoderLayer", "VaswaniDecoderLayer"]  # noqa: RUF012
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _can_compile_fullgraph = True

    def _init_weights(self, module: nn.Module) -> None:
        """Fills a module that no checkpoint fills.

        Linear layers are Xavier-uniform. Embedding tables are N(0, 1/D), so that an embedding
        times sqrt(D) is as strong as a position vector.
        Departs from the paper: it gives no initial weights; these are the authors' code's.
        """
        if isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, VaswaniLearnedPositions | VaswaniAdditiveScore):
            init.normal_(module.weight, mean=0.0, std=module.initial_std)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, mean=0.0, std=self.config.d_model**-0.5)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)

    def _check_and_adjust_attn_implementation(
        self, attn_implementation: str | None, *args: Any, **kwargs: Any
    ) -> str:
        """Chooses the attention backend: the plain one where no other computes the scores."""
        config = self.config
        if config.needs_eager_attention and attn_implementation not in (None, "eager"):
            raise ValueError(
                "`attn_implementation` must be eager with `attention_score` "
                f"{config.attention_score!r} and `hard_attention` {config.hard_attention}, "
                f"got {attn_implementation!r}. Leave it out."
            )
        if attn_implementation == "paged|eager":
            # It gets no masks, and so would attend to padding.
            raise ValueError(
                "`attn_implementation` must not be paged, got 'paged|eager'. It is for "
                "transformers' continuous batching, which serves no encoder-decoder."
            )
        d_k, d_v = config.head_sizes(config.decoder_attention_heads)
        flash = is_flash_attention_requested(requested_attention_implementation=attn_implementation)
        if flash and d_v > d_k:
            raise ValueError(
                f"`attn_implementation` must not be flash attention with `d_v` above `d_k`, "
                f"got {attn_implementation!r} with {d_v} and {d_k}. sdpa takes any sizes."
            )
        wanted = "eager" if config.needs_eager_attention else attn_implementation
        return super()._check_and_adjust_attn_implementation(wanted, *args, **kwargs)

    @property
    def dummy_inputs(self) -> dict[str, Tensor]:
        """A padded batch for tracing."""
        ids = torch.tensor([[4, 5, 2], [4, 2, 0]], device=self.device)
        return {"input_ids": ids, "decoder_input_ids": ids}

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: Any, *model_args: Any, **kwargs: Any
    ) -> Any:
        """Loads as every model of transformers, but only from safetensors files.

        Raises:
            ValueError: if the arguments ask for pickles.
            OSError: if there are no weights, or only in a pickle.
        """
        kwargs = safetensors_settings(pretrained_model_name_or_path, kwargs)
        return super().from_pretrained(pretrained_model_name_or_path, *model_args, **kwargs)

    @staticmethod
    def _load_pretrained_model(
        model: Any, state_dict: Any, checkpoint_files: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Refuses pickles that an index or a config of the Hub names, or an adapter's."""
        if state_dict is None:
            refuse_pickled_files(checkpoint_files or ())
        return PreTrainedModel._load_pretrained_model(
            model, state_dict, checkpoint_files, *args, **kwargs
        )

    def save_pretrained(self, save_directory: Any, *args: Any, **kwargs: Any) -> None:
        """Saves as every model of transformers; each Auto class and `pipeline()` find their code.

        transformers enters only the class that is being saved; without the other entries
        `AutoModel.from_pretrained(folder, trust_remote_code=True)` would fail, and without
        `custom_pipelines` so would `pipeline("translation", folder, trust_remote_code=True)`.
        """
        if self._auto_class is not None:
            # transformers copies what is imported here beside the model, whoever saves it.
            from .pipeline_vaswani import VaswaniTranslationPipeline  # noqa: F401

            own = getattr(self.config, "custom_pipelines", None) or {}
            self.config.custom_pipelines = {**copy.deepcopy(TRANSLATION_PIPELINE), **own}
            self.config.auto_map = {
                "AutoConfig": "configuration_vaswani.VaswaniConfig",
                "AutoModel": "modeling_vaswani.VaswaniModel",
                "AutoModelForSeq2SeqLM": "modeling_vaswani.VaswaniForConditionalGeneration",
            }
        super().save_pretrained(save_directory, *args, **kwargs)


__all__ = ["VaswaniPreTrainedModel"]
