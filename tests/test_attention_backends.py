"""Every way to compute attention gives the same numbers, and each can be chosen at any time.

flex attention runs here as plain PyTorch, which computes what its kernel does and needs no C++
compiler; a slow test runs the kernel. Flash attention needs a GPU: here the code around it runs,
with its kernel replaced by a loop over sentences.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from compilers import needs_compiler
from test_modeling_invariants import LogRecorder
from tiny_model import decisive_model, padded, sentences, tiny_model
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, AutoModelForSeq2SeqLM
from transformers.masking_utils import eager_mask
from transformers.utils import is_flash_attn_2_available

from vaswani import VaswaniForConditionalGeneration

SOURCES = sentences(40, [7, 3, 5])
TARGETS = [[1, *row] for row in sentences(40, [4, 6, 2], seed=1, end=None)]
OTHERS = ["sdpa", "flex_attention", "own_function", "flash_attention_2"]
SHAPES: dict[str, dict[str, Any]] = {
    "paper": {},
    "narrow_values": {"d_k": 11, "d_v": 5},
    "narrow_keys": {"d_k": 3},
    "unequal_heads": {"encoder_attention_heads": 2, "decoder_attention_heads": 8},
}
# In float64 a different order of summation moves nothing above this.
EXACT = {"atol": 1e-12, "rtol": 0.0}
# "same" of the trials, in float32.
SAME = {"atol": 1e-5, "rtol": 0.0}


def own_function(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Attention as a user might write it, one head at a time."""
    heads = []
    for head in range(query.size(1)):
        scores = torch.einsum("btk,bsk->bts", query[:, head], key[:, head]) * options["scaling"]
        if mask is not None:
            scores = scores + mask[:, 0]
        seen = (scores > -1e30).any(-1, keepdim=True)
        heads.append(scores.softmax(-1) * seen @ value[:, head])
    return torch.stack(heads, dim=2), None


def flash_kernel(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    is_causal: bool,
    **kwargs: Any,
) -> Tensor:
    """What flash attention promises: each sentence by itself, `(B, T, H, D)`, no padding read.

    Queries without a key get zeros, those of padding what nobody reads.
    """
    output = torch.zeros_like(query[..., :1].expand(*query.shape[:-1], value.size(-1)))
    for row in range(len(query)):
        keys = torch.ones(key.size(1)).bool() if mask is None else mask[row].bool()
        queries = torch.ones(query.size(1)).bool()
        if is_causal and mask is not None:
            queries = keys[-query.size(1) :]
        q, k, v = query[row, queries], key[row, keys], value[row, keys]
        if not len(k):
            continue
        scores = torch.einsum("thd,shd->hts", q, k) * kwargs["softmax_scale"]
        if is_causal:
            later = torch.ones(len(q), len(k)).bool().triu(len(k) - len(q) + 1)
            scores = scores.masked_fill(later, -torch.inf)
        output = output.clone()
        output[row, queries] = torch.einsum("hts,shd->thd", scores.softmax(-1), v)
    return output


@pytest.fixture(autouse=True)
def backends(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The user's function is registered, flex attention is plain, flash attention is the loop."""
    AttentionInterface.register("own_function", own_function)
    AttentionMaskInterface.register("own_function", eager_mask)
    monkeypatch.setattr(
        "transformers.integrations.flash_attention._flash_attention_forward", flash_kernel
    )
    with torch.compiler.set_stance("force_eager"):
        yield
    AttentionInterface._global_mapping.pop("own_function")
    AttentionMaskInterface._global_mapping.pop("own_function")


def switch(model: Any, attention: str) -> None:
    if attention.startswith("flash"):
        # What choosing it sets after it has looked for the package.
        model.config._attn_implementation_internal = attention
    else:
        model.set_attn_implementation(attention)


def batch(left: bool = False, empty: bool = False) -> dict[str, Tensor]:
    input_ids, mask = padded(SOURCES, extra=2, left=left)
    decoder_ids, decoder_mask = padded(TARGETS, extra=1, left=left)
    if empty:
        mask[1], decoder_mask[2] = 0, 0
    names = ("input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask")
    return dict(zip(names, (input_ids, mask, decoder_ids, decoder_mask), strict=True))


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("attention", OTHERS)
def test_backends_agree_on_padded_batches(attention: str, shape: str, left: bool) -> None:
    if attention.startswith("flash") and shape == "narrow_keys":
        pytest.skip("flash attention takes no values wider than keys, which has its own test")
    model, inputs = tiny_model(**SHAPES[shape]).double(), batch(left)
    real = inputs["decoder_attention_mask"].bool()
    with torch.no_grad():
        switch(model, "eager")
        expected = model(**inputs).logits[real]
        switch(model, attention)
        got = model(**inputs).logits[real]
    torch.testing.assert_close(got, expected, **EXACT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("attention", ["eager", *OTHERS])
def test_rows_without_a_real_token_are_finite(attention: str, dtype: torch.dtype) -> None:
    """A source of nothing but padding, and a target of it, change nothing for the others."""
    model = tiny_model().to(dtype)
    switch(model, attention)
    with torch.no_grad():
        got, expected = model(**batch(empty=True)).logits, model(**batch()).logits
    assert torch.isfinite(got).all()
    torch.testing.assert_close(got[0], expected[0], atol=0.0, rtol=0.0)


@pytest.mark.parametrize(
    "attention", ["eager", *(name for name in OTHERS if name != "flex_attention")]
)
def test_gradients_are_those_of_eager_attention_and_finite(attention: str) -> None:
    """torch has no backward pass of flex attention on a CPU, so that one is left out."""
    found = []
    for name in ("eager", attention):
        model, inputs = tiny_model().double().train(), batch(empty=True)
        switch(model, name)
        labels = inputs["decoder_input_ids"].masked_fill(
            inputs["decoder_attention_mask"] == 0, -100
        )
        loss = model(**inputs, labels=labels).loss
        loss.backward()
        found.append([loss.detach(), *(weight.grad for weight in model.parameters())])
    assert all(torch.isfinite(tensor).all() for tensor in found[1])
    torch.testing.assert_close(found[1], found[0], **EXACT)


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize("attention", OTHERS)
def test_backends_translate_alike(attention: str, num_beams: int) -> None:
    model = decisive_model()
    input_ids, mask = padded(sentences(9, [5, 2, 4]), extra=1)
    options = {"attention_mask": mask, "num_beams": num_beams, "max_new_tokens": 8}
    switch(model, "eager")
    expected = model.generate(input_ids, **options).tolist()
    switch(model, attention)
    assert model.generate(input_ids, **options).tolist() == expected


@pytest.mark.parametrize("attention", OTHERS)
def test_weights_come_from_eager_attention_with_one_notice(attention: str) -> None:
    model, inputs = tiny_model().double(), batch()
    with torch.no_grad():
        switch(model, "eager")
        expected = model(**inputs, output_attentions=True)
        switch(model, attention)
        transformers.utils.logging.warning_once.cache_clear()
        with LogRecorder() as recorder:
            got = [model(**inputs, output_attentions=True) for _ in range(2)]
    assert [text for text in recorder.messages if "attention" in text] == [
        f"The {attention} attention returns no weights; the eager one is used for calls with "
        "`output_attentions=True` or `hard_attention`."
    ]
    for name in ("encoder_attentions", "decoder_attentions", "cross_attentions", "logits"):
        torch.testing.assert_close(got[1][name], expected[name], atol=0.0, rtol=0.0)
    assert model.config._attn_implementation == attention


def test_backend_is_chosen_at_load_and_later(tmp_path: Path) -> None:
    """By name, or as a dict whose empty key is the model itself; every part follows."""
    tiny_model().save_pretrained(tmp_path)
    loaders = (VaswaniForConditionalGeneration, AutoModelForSeq2SeqLM)
    for choice in ("eager", "sdpa", "flex_attention", "own_function", {"": "eager"}):
        name = choice[""] if isinstance(choice, dict) else choice
        for loader in loaders:
            model = loader.from_pretrained(tmp_path, attn_implementation=choice)
            parts = (model, model.model, model.get_encoder(), model.get_decoder())
            assert {part.config._attn_implementation for part in parts} == {name}
        model = VaswaniForConditionalGeneration.from_pretrained(tmp_path)
        assert model.config._attn_implementation == "sdpa"
        model.set_attn_implementation(choice)
        assert model.get_decoder().config._attn_implementation == name


def test_own_function_is_really_called() -> None:
    calls: list[bool] = []

    def counted(module: Any, *tensors: Any, **options: Any) -> tuple[Tensor, None]:
        calls.append(module.is_causal)
        return own_function(module, *tensors, **options)

    AttentionInterface.register("own_function", counted)
    model = tiny_model(attention="own_function")
    with torch.no_grad():
        model(**batch())
    # Two layers a side: the encoder's two, then self-attention and cross-attention in turn.
    assert calls == [False, False, True, False, True, False]


def test_flash_attention_that_is_not_installed_is_refused(tmp_path: Path) -> None:
    if is_flash_attn_2_available():
        pytest.skip("flash-attn is installed here")
    tiny_model().save_pretrained(tmp_path)
    with pytest.raises(ImportError, match=r"[Ff]lash.*(not|n't).*(installed|available)"):
        VaswaniForConditionalGeneration.from_pretrained(
            tmp_path, attn_implementation="flash_attention_2"
        )
    model = tiny_model()
    with pytest.raises(ImportError, match=r"[Ff]lash.*(not|n't).*(installed|available)"):
        model.set_attn_implementation("flash_attention_2")
    assert model.config._attn_implementation == "sdpa"


def test_flash_attention_is_refused_where_values_are_wider_than_keys() -> None:
    rule = (
        r"`attn_implementation` must not be flash attention with `d_v` above `d_k`, got .* 8 and 3"
    )
    with pytest.raises(ValueError, match=rule):
        tiny_model(d_k=3, attention="flash_attention_2")


def test_paged_attention_is_refused(tmp_path: Path) -> None:
    """It gets no mask from transformers, and padding would be attended to."""
    tiny_model().save_pretrained(tmp_path)
    rule = r"`attn_implementation` must not be paged, got 'paged\|eager'"
    with pytest.raises(ValueError, match=rule):
        VaswaniForConditionalGeneration.from_pretrained(tmp_path, attn_implementation="paged|eager")
    model = tiny_model()
    with pytest.raises(ValueError, match=rule):
        model.set_attn_implementation("paged|eager")
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("shape", SHAPES)
def test_compiled_flex_attention_agrees(shape: str) -> None:
    model = tiny_model(**SHAPES[shape])
    with torch.compiler.set_stance("default"), torch.no_grad():
        for left in (False, True):
            inputs = batch(left, empty=True)
            real = inputs["decoder_attention_mask"].bool()
            switch(model, "eager")
            expected = model(**inputs).logits[real]
            switch(model, "flex_attention")
            got = model(**inputs).logits
            assert torch.isfinite(got).all()
            torch.testing.assert_close(got[real], expected, **SAME)
