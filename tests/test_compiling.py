"""`torch.compile` finds one graph, few times over, that computes the same (trial 42).

The backends here run what was traced as plain PyTorch, so no compiler is needed; slow tests
generate and compile code.
"""

import random
from typing import Any

import pytest
import torch
from compilers import needs_compiler
from tiny_model import decisive_model, padded, sentences, tiny_model
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from transformers import CompileConfig, DynamicCache, EncoderDecoderCache, StaticCache

SAME = {"atol": 1e-5, "rtol": 1e-5}
# "At most 3 compilations after the first two shapes."
MOST = 3


@pytest.fixture(autouse=True)
def forget() -> None:
    """Graphs of other tests count towards the limit of eight."""
    torch.compiler.reset()


def shapes(count: int) -> list[tuple[int, int, int]]:
    """Sentences, source tokens and target tokens of random batches."""
    dice = random.Random(0)
    return [(dice.randint(2, 9), dice.randint(2, 40), dice.randint(2, 40)) for _ in range(count)]


def batch(size: int, source: int, target: int) -> dict[str, Tensor]:
    input_ids, mask = padded(sentences(40, [source] + [(source + 1) // 2] * (size - 1)))
    labels, _ = padded(sentences(40, [target] + [(target + 1) // 2] * (size - 1)), pad=-100)
    return {"input_ids": input_ids, "attention_mask": mask, "labels": labels}


def without_labels(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    labels = inputs.pop("labels")
    return {**inputs, "decoder_input_ids": labels.clamp(min=0)}


def compared_logits(output: Any, inputs: dict[str, Tensor], train: bool) -> Tensor | None:
    """All of them, or in training those of labels: not compiled, it leaves out padding."""
    if train and output.logits is not None:
        return output.logits[inputs["labels"] > 0]
    return output.logits


MODES: dict[str, Any] = {
    "forward": without_labels,
    "no_mask": lambda inputs: without_labels(
        {name: inputs[name] for name in ("input_ids", "labels")}
    ),
    "lengths": lambda inputs: without_labels(
        {"source_lengths": inputs.pop("attention_mask").sum(-1), **inputs}
    ),
    "loss": lambda inputs: inputs,
    "loss_without_logits": lambda inputs: {**inputs, "return_logits": False},
    "items_as_number": lambda inputs: {
        **inputs,
        "num_items_in_batch": int((inputs["labels"] > 0).sum()),
    },
    "items_as_tensor": lambda inputs: {
        **inputs,
        "num_items_in_batch": (inputs["labels"] > 0).sum(),
    },
}


@pytest.mark.parametrize(
    ("mode", "train", "attention", "count"),
    [
        ("forward", False, "sdpa", 30),
        ("forward", False, "eager", 5),
        ("no_mask", False, "sdpa", 5),
        ("lengths", False, "sdpa", 5),
        ("loss", False, "sdpa", 5),
        ("loss", True, "sdpa", 5),
        ("loss_without_logits", True, "sdpa", 5),
        ("items_as_number", True, "sdpa", 12),
        ("items_as_tensor", True, "sdpa", 5),
    ],
)
def test_random_shapes_are_one_graph_compiled_a_few_times(
    mode: str, train: bool, attention: str, count: int
) -> None:
    """Values, and in training the gradients too, are those of the model that is not compiled."""
    model = tiny_model(attention=attention).train(train)
    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    early = 0
    for number, shape in enumerate(shapes(count)):
        inputs = {**MODES[mode](batch(*shape)), "use_cache": False}
        found = []
        for kind in (compiled, model):
            with torch.set_grad_enabled(train):
                output = kind(**inputs)
            results = [
                x for x in (output.loss, compared_logits(output, inputs, train)) if x is not None
            ]
            if train and output.loss is not None:
                model.zero_grad()
                output.loss.backward()
                results += [weight.grad for weight in model.parameters()]
            found.append(results)
        torch.testing.assert_close(*found, **SAME)
        if number == 1:
            early = counter.frame_count
    assert 1 <= counter.frame_count <= early + MOST


def a_cache(model: Any, kind: str) -> EncoderDecoderCache:
    config = model.config.get_text_config(decoder=True)
    if kind == "dynamic":
        return EncoderDecoderCache(DynamicCache(config=config), DynamicCache(config=config))
    return EncoderDecoderCache(
        StaticCache(config=config, max_cache_len=101), StaticCache(config=config, max_cache_len=5)
    )


@pytest.mark.parametrize(("kind", "most"), [("static", 1), ("dynamic", 2)])
def test_a_hundred_decode_steps_are_compiled_once(kind: str, most: int) -> None:
    """A static cache is one graph; in a growing one the second step shows that lengths vary."""
    model = tiny_model()
    input_ids, mask = padded(sentences(40, [5, 2, 4]))
    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    caches = [a_cache(model, kind), a_cache(model, kind)]
    tokens = torch.ones(3, 1).long()
    with torch.no_grad():
        encoded = model.get_encoder()(input_ids=input_ids, attention_mask=mask)
        for step in range(101):
            logits = [
                forward(
                    encoder_outputs=encoded,
                    attention_mask=mask,
                    decoder_input_ids=tokens,
                    cache=cache,
                    use_cache=True,
                ).logits
                # The first step fills the cross-attention's cache, as `generate` does, uncompiled.
                for forward, cache in zip((compiled if step else model, model), caches, strict=True)
            ]
            torch.testing.assert_close(*logits, **SAME)
            tokens = logits[1].argmax(-1)
    assert 1 <= counter.frame_count <= most


@pytest.mark.parametrize("num_beams", [1, 3])
def test_generate_with_a_compiled_forward_gives_the_same_tokens(num_beams: int) -> None:
    """Greedy search and sampling compile their steps; beam search never does, as elsewhere."""
    model = decisive_model()
    input_ids, mask = padded(sentences(9, [5, 2, 4]))
    options = {"attention_mask": mask, "num_beams": num_beams, "max_new_tokens": 12}
    expected = model.generate(input_ids, **options).tolist()
    graphs: list[Any] = []

    def counted(graph: Any, example_inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    settings = CompileConfig(fullgraph=True, backend=counted, mode=None)
    # Else transformers compiles on GPUs alone.
    settings._compile_all_devices = True
    for _ in range(2):
        got = model.generate(
            input_ids, **options, cache_implementation="static", compile_config=settings
        )
        assert got.tolist() == expected
    # A second call makes no new graph.
    assert len(graphs) == (1 if num_beams == 1 else 0)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
def test_generated_code_computes_the_same(train: bool) -> None:
    """torch's default backend, inductor, forward and backward."""
    model = tiny_model().train(train)
    compiled = torch.compile(model, fullgraph=True)
    for shape in shapes(4):
        inputs = {**batch(*shape), "use_cache": False}
        found = []
        for kind in (compiled, model):
            model.zero_grad()
            output = kind(**inputs)
            if train:
                output.loss.backward()
            gradients = [weight.grad for weight in model.parameters()] if train else []
            found.append([output.loss, compared_logits(output, inputs, train), *gradients])
        torch.testing.assert_close(*found, **SAME)
