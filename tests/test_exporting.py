"""Exported programs give the tokens of the model, for other batches and lengths than those seen.

The recipe for ONNX is the one of docs/exporting.md, run on a trained model with its tokenizer.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_model import decisive_model, padded, sentences, tiny_model
from torch import Tensor
from torch.export import Dim
from transformers import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

SAME = {"atol": 1e-5, "rtol": 1e-5}


def batch(size: int, source: int, target: int) -> dict[str, Tensor]:
    input_ids, mask = padded(sentences(40, [source] + [(source + 1) // 2] * (size - 1)))
    decoder_ids, _ = padded(sentences(40, [target] * size, seed=1))
    return {"input_ids": input_ids, "attention_mask": mask, "decoder_input_ids": decoder_ids}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("part", ["model", "encoder"])
def test_torch_export_leaves_batch_and_lengths_open(part: str, attention: str) -> None:
    """Trial 42. Named dimensions: torch refuses if anything in the model fixed one of them."""
    model = tiny_model(attention=attention)
    model.config.use_cache = False
    exported, names = model, ["input_ids", "attention_mask", "decoder_input_ids"]
    if part == "encoder":
        exported, names = model.get_encoder(), names[:2]
    size, source, target = (Dim(name, min=2, max=512) for name in ("size", "source", "target"))
    shapes = {name: {0: size, 1: source} for name in names[:2]}
    shapes |= {name: {0: size, 1: target} for name in names[2:]}
    seen = {name: batch(3, 7, 5)[name] for name in names}
    program = torch.export.export(exported, (), seen, dynamic_shapes=shapes)
    for others in (batch(2, 9, 4), batch(5, 30, 20), batch(2, 2, 2)):
        inputs = {name: others[name] for name in names}
        with torch.no_grad():
            torch.testing.assert_close(program.module()(**inputs)[0], exported(**inputs)[0], **SAME)


def exported_parts(exporter: Any, settings: Any, model: Any, folder: Path) -> tuple[Any, Any]:
    """Encoder and decoder, saved and loaded again where that can be done."""
    from transformers.exporters import ExportedModel

    input_ids, mask = padded(sentences(9, [5, 3, 4]))
    # Two tokens: an axis of length 1 would be taken for a fixed one.
    start = torch.tensor([[model.config.decoder_start_token_id, 5]] * 3)
    source = {"input_ids": input_ids, "attention_mask": mask}
    encoder = exporter.export(model.get_encoder(), dict(source), settings)
    decoder = exporter.export_for_generation(
        model, {**source, "decoder_input_ids": start}, settings
    )
    if exporter.requires_trust_remote_code:
        # torch pickles its programs and then refuses to read the outputs of an encoder in them.
        return encoder, decoder
    parts = []
    for name, part in (("encoder", encoder), ("decoder", decoder)):
        part.save_pretrained(folder / name)
        parts.append(ExportedModel.from_pretrained(folder / name))
    return parts[0], parts[1]


@torch.no_grad()
def greedy(
    encoder: Any, decoder: Any, config: Any, source: tuple[Tensor, Tensor], start: Tensor
) -> Tensor:
    input_ids, mask = source
    states = BaseModelOutput(encoder(input_ids=input_ids, attention_mask=mask).last_hidden_state)
    tokens = start.expand(len(input_ids), -1)
    ended = torch.zeros(len(input_ids), dtype=torch.bool)
    empty = EncoderDecoderCache(DynamicCache(config=config), DynamicCache(config=config))
    step, read, cache = decoder.runners["prefill"], tokens, empty
    while not ended.all() and tokens.size(1) < 16:
        given = {"attention_mask": mask, "decoder_input_ids": read, "cache": cache}
        output = step(encoder_outputs=states, **given)
        words = output.logits[:, -1].argmax(-1).masked_fill(ended, config.pad_token_id)
        tokens = torch.cat([tokens, words[:, None]], dim=1)
        ended = ended | (words == config.eos_token_id)
        step, read, cache = decoder.runners["decode"], words[:, None], output.cache
    return tokens


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["onnx", "dynamo"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_exporters_of_transformers_give_the_tokens_of_generate(
    backend: str, attention: str, tmp_path: Path
) -> None:
    """One to five sentences of 1 to 12 tokens, where the export saw three of 3 to 5."""
    if backend == "onnx":
        pytest.importorskip("onnxscript", reason="needs the extra `export`")
        pytest.importorskip("onnxruntime", reason="needs the extra `export`")
        from transformers.exporters.exporter_onnx import OnnxConfig as Config
        from transformers.exporters.exporter_onnx import OnnxExporter as Exporter
    else:
        from transformers.exporters.exporter_dynamo import DynamoConfig as Config
        from transformers.exporters.exporter_dynamo import DynamoExporter as Exporter
    model = decisive_model(attention=attention, decoder_layers=2).float()
    encoder, decoder = exported_parts(Exporter(), Config(dynamic=True), model, tmp_path)
    longest = 1
    sizes = [[5, 3, 4], [9, 2], [3, 12, 4, 7, 8]]
    start = torch.tensor([[model.config.decoder_start_token_id]])
    if backend == "onnx":
        sizes += [[1], [6]]
    else:
        # torch's own programs keep the rule that what was more than one is never one.
        start = torch.tensor([[model.config.decoder_start_token_id, 5]])
    for lengths in sizes:
        source = padded(sentences(9, lengths, seed=3), extra=len(lengths) % 2)
        expected = model.generate(
            source[0],
            attention_mask=source[1],
            decoder_input_ids=start.expand(len(lengths), -1),
            num_beams=1,
            max_length=16,
        )
        got = greedy(encoder, decoder, model.config, source, start)
        assert got.tolist() == expected.tolist()
        longest = max(longest, expected.size(1))
    assert longest > 5
