"""What every model of this package does as a model of transformers.

VaswaniPreTrainedModel           initial weights, attention backends, saving
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init

from .attention_scores_vaswani import VaswaniAdditiveScore
from .configuration_vaswani import VaswaniConfig
from .positions_vaswani import VaswaniLearnedPositions
from .versions_vaswani import TRANSLATION_PIPELINE


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
        wanted = "eager" if config.needs_eager_attention else attn_implementation
        return super()._check_and_adjust_attn_implementation(wanted, *args, **kwargs)

    @property
    def dummy_inputs(self) -> dict[str, Tensor]:
        """A padded batch for tracing."""
        ids = torch.tensor([[4, 5, 2], [4, 2, 0]], device=self.device)
        return {"input_ids": ids, "decoder_input_ids": ids}

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
