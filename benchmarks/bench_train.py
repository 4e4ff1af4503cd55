"""Speed and memory of a training step, beside MarianMTModel, nn.Transformer and bare products.

    python benchmarks/bench_train.py
    python benchmarks/bench_train.py --threads 1 2 --rounds 9

Every contender has the base size, gets the same batches of made-up ids whose lengths are drawn
from a lognormal distribution with a mean of 27 tokens, and runs forward and backward with label
smoothing 0.1 in training mode with dropout 0.1. The sorted batch holds at most 2,048 tokens a
side, as a token budget makes it; the unsorted one holds 64 random sentences. The bare products
are those that the model cannot do without (projections, attention, feed-forward, vocabulary; two
for each in the backward pass), with nothing between them and on tokens as padded: once as torch
computes them, once by the package's operator where it has one. Memory is what autograd keeps from
the forward to the backward pass, each storage counted once, without weights and inputs; with
4,096 tokens a side.
"""

import argparse
import gc
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from measuring import machine, table, take_turns
from torch import Tensor, nn
from torch.nn import functional
from transformers import MarianConfig, MarianMTModel
from transformers.trainer_pt_utils import LabelSmoother

from vaswani import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani.batching import TokenBudgetBatchSampler
from vaswani.products_vaswani import onednn_works, product, suits_onednn

PAD, START, IGNORED = 0, 1, -100
VOCABULARY, D_MODEL, HEADS, INNER, LAYERS = 37_000, 512, 8, 2048, 6
SMOOTHING, DROPOUT = 0.1, 0.1
MEMORY_TOKENS = 4096
Batch = dict[str, Tensor]


def lengths(count: int, random: np.random.Generator) -> np.ndarray:
    """Source and target lengths, `(count, 2)`: lognormal, mean 27, the sides alike."""
    sigma = 0.6
    source = random.lognormal(np.log(27) - sigma**2 / 2, sigma, count)
    target = source * random.lognormal(-0.02, 0.2, count)
    return np.clip(np.stack([source, target], 1).round().astype(int), 2, 200)


def padded(sizes: np.ndarray, random: np.random.Generator) -> Batch:
    """A batch of made-up ids in which each row has its sizes."""
    width = sizes.max(0)
    sides = []
    for side in (0, 1):
        ids = random.integers(4, VOCABULARY, (len(sizes), width[side]))
        ids[np.arange(width[side]) >= sizes[:, side, None]] = PAD
        sides.append(torch.from_numpy(ids))
    source, target = sides
    return {
        "input_ids": source,
        "attention_mask": (source != PAD).long(),
        "labels": target.masked_fill(target == PAD, IGNORED),
    }


def sorted_batch(random: np.random.Generator, budget: int) -> Batch:
    """An update as the package forms it of 5,000 pairs: that of median padding."""
    drawn = lengths(5_000, random)
    updates = list(TokenBudgetBatchSampler(drawn[:, 0], drawn[:, 1], tokens_per_update=budget))
    full = [drawn[rows] for rows in updates]
    full.sort(key=lambda sizes: sizes.sum() / (sizes.max(0).sum() * len(sizes)))
    return padded(full[len(full) // 2], random)


def decoder_inputs(labels: Tensor) -> Tensor:
    """The labels one place to the right."""
    shifted = labels.masked_fill(labels == IGNORED, PAD).roll(1, dims=1)
    shifted[:, 0] = START
    return shifted


class TorchTransformer(nn.Module):
    """`torch.nn.Transformer` with one table for embeddings and output, as people build it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, D_MODEL)
        nn.init.normal_(self.table.weight, std=D_MODEL**-0.5)
        positions = torch.arange(256)[:, None]
        angles = positions * 10_000.0 ** (-torch.arange(0, D_MODEL, 2) / D_MODEL)
        waves = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        self.register_buffer("positions", waves)
        self.dropout = nn.Dropout(DROPOUT)
        self.transformer = nn.Transformer(
            D_MODEL, HEADS, LAYERS, LAYERS, INNER, DROPOUT, batch_first=True
        )

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.table(ids) * D_MODEL**0.5 + self.positions[: ids.size(1)])

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> Tensor:
        target = decoder_inputs(labels)
        hidden = self.transformer(
            self.embed(input_ids),
            self.embed(target),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(target.size(1)),
            src_key_padding_mask=attention_mask == 0,
            memory_key_padding_mask=attention_mask == 0,
            tgt_is_causal=True,
        )
        logits = functional.linear(hidden, self.table.weight)
        return functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), label_smoothing=SMOOTHING
        )


def vaswani_model() -> VaswaniForConditionalGeneration:
    """Ours at base size, with the dropout of the peers."""
    config = VaswaniConfig.from_preset("base", vocab_size=VOCABULARY, dropout=DROPOUT)
    return VaswaniForConditionalGeneration(config).train()


def marian_model() -> MarianMTModel:
    """MarianMTModel of the same size."""
    config = MarianConfig(
        vocab_size=VOCABULARY,
        d_model=D_MODEL,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=INNER,
        decoder_ffn_dim=INNER,
        activation_function="relu",
        dropout=DROPOUT,
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=2,
        decoder_start_token_id=START,
    )
    return MarianMTModel(config).train()


def vaswani_loss(model: VaswaniForConditionalGeneration, batch: Batch) -> Tensor:
    """As `VaswaniTrainer` calls it."""
    return model(**batch, return_logits=False, use_cache=False).loss


def marian_loss(model: MarianMTModel, batch: Batch) -> Tensor:
    """As `Seq2SeqTrainer` with `label_smoothing_factor` calls it."""
    labels = batch["labels"]
    inputs = {key: value for key, value in batch.items() if key != "labels"}
    outputs = model(**inputs, decoder_input_ids=decoder_inputs(labels), use_cache=False)
    return LabelSmoother(epsilon=SMOOTHING)(outputs, labels)


def torch_loss(model: TorchTransformer, batch: Batch) -> Tensor:
    return model(**batch)


LOSSES: dict[str, tuple[Callable[[], nn.Module], Callable[..., Tensor]]] = {
    "vaswani": (vaswani_model, vaswani_loss),
    "MarianMTModel": (marian_model, marian_loss),
    "nn.Transformer": (lambda: TorchTransformer().train(), torch_loss),
}


def step(model: nn.Module, loss: Callable[..., Tensor], batch: Batch) -> None:
    """Forward and backward; as between updates, the gradients stay where they are."""
    loss(model, batch).backward()
    model.zero_grad(set_to_none=False)


def kept_bytes(model: nn.Module, loss: Callable[..., Tensor], batch: Batch) -> int:
    """What a forward pass leaves for the backward pass, beside weights and inputs."""
    known = [*model.parameters(), *model.buffers(), *batch.values()]
    not_counted = {tensor.untyped_storage().data_ptr() for tensor in known}
    kept: dict[int, int] = {}

    def count(saved: Tensor) -> Tensor:
        storage = saved.untyped_storage()
        if storage.data_ptr() not in not_counted:
            kept[storage.data_ptr()] = storage.nbytes()
        return saved

    with torch.autograd.graph.saved_tensors_hooks(count, lambda saved: saved):
        # Its graph holds what was kept, so that no address is seen twice.
        result = loss(model, batch)
    del result
    return sum(kept.values())


def memory(batch: Batch) -> str:
    """A table of `kept_bytes`."""
    kept = {name: kept_bytes(make(), loss, batch) for name, (make, loss) in LOSSES.items()}
    rows = [
        [name, f"{size / 1e6:,.0f} MB", *(f"{size / kept[peer]:.2f}" for peer in kept)]
        for name, size in kept.items()
    ]
    return table(["kept for backward", "size", *(f"part of {name}'s" for name in kept)], rows)


def by_onednn(left: Tensor, right: Tensor, out: Tensor) -> None:
    """`torch.matmul`, or the package's operator where that is made for these tensors."""
    if left.dim() == 2 and suits_onednn(left, right.t()):
        product(left, right.t())
    else:
        torch.matmul(left, right, out=out)


def by_torch(left: Tensor, right: Tensor, out: Tensor) -> None:
    torch.matmul(left, right, out=out)


def bare_products(
    batch: Batch, multiply: Callable[[Tensor, Tensor, Tensor], None]
) -> Callable[[], None]:
    """The matrix products of a step, forward and backward."""
    sentences, source = batch["input_ids"].shape
    target = batch["labels"].size(1)
    head = D_MODEL // HEADS
    real = int((batch["labels"] != IGNORED).sum())
    linear = []
    for tokens, count in ((source, LAYERS), (target, LAYERS)):
        linear.append((sentences * tokens, D_MODEL, D_MODEL, 4 * count))
        linear.append((sentences * tokens, D_MODEL, INNER, count))
        linear.append((sentences * tokens, INNER, D_MODEL, count))
    linear.append((sentences * target, D_MODEL, D_MODEL, 2 * LAYERS))
    linear.append((sentences * source, D_MODEL, D_MODEL, 2 * LAYERS))
    linear.append((real, D_MODEL, VOCABULARY, 1))
    pairs = [(source, source), (target, target), (target, source)]
    jobs: list[tuple[Tensor, Tensor, Tensor]] = []

    def add(rows: int, inner: int, columns: int, heads: int = 0) -> None:
        lead = (heads,) if heads else ()
        jobs.append(
            (
                torch.randn(*lead, rows, inner),
                torch.randn(*lead, inner, columns),
                torch.empty(*lead, rows, columns),
            )
        )

    repeats = []
    for rows, inner, columns, count in linear:
        for shape in ((rows, inner, columns), (rows, columns, inner), (inner, rows, columns)):
            add(*shape)
            repeats.append(count)
    for queries, keys in pairs:
        # Scores and context, then their gradients: four more products.
        for shape in (
            (queries, head, keys),
            (queries, keys, head),
            (queries, head, keys),
            (keys, queries, head),
            (queries, keys, head),
            (keys, queries, head),
        ):
            add(*shape, heads=sentences * HEADS)
            repeats.append(LAYERS)

    @torch.no_grad()
    def run() -> None:
        for (left, right, out), count in zip(jobs, repeats, strict=True):
            for _ in range(count):
                multiply(left, right, out)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[torch.get_num_threads()])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", type=int, default=2048)
    parser.add_argument("--sentences", type=int, default=64)
    arguments = parser.parse_args()
    random = np.random.default_rng(1)
    batches = {
        f"sorted, {arguments.budget:,} tokens a side": sorted_batch(random, arguments.budget),
        f"unsorted, {arguments.sentences} sentences": padded(
            lengths(arguments.sentences, random), random
        ),
    }
    models = {name: make() for name, (make, _) in LOSSES.items()}
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        print(machine())
        for name, batch in batches.items():
            print(f"\n{name} ({padding(batch):.1%} padding). ", end="")
            print(speed(models, batch, arguments.rounds))
    del models
    gc.collect()
    batch = sorted_batch(random, MEMORY_TOKENS)
    print(f"\nsorted, {MEMORY_TOKENS:,} tokens a side ({padding(batch):.1%} padding)\n")
    print(memory(batch))


def padding(batch: Batch) -> float:
    """The part of the places of both sides that no token has."""
    real = int((batch["input_ids"] != PAD).sum() + (batch["labels"] != IGNORED).sum())
    return 1 - real / (batch["input_ids"].numel() + batch["labels"].numel())


def speed(models: dict[str, nn.Module], batch: Batch, rounds: int) -> str:
    """A line on the machine and a table of times."""
    contenders: dict[str, Callable[[], object]] = {
        name: partial(step, model, LOSSES[name][1], batch) for name, model in models.items()
    }
    contenders["products of torch"] = bare_products(batch, by_torch)
    if onednn_works():
        contenders["products of oneDNN"] = bare_products(batch, by_onednn)
    timings = take_turns(contenders, rounds=rounds)
    peers = [name for name in contenders if name != "vaswani"]
    headings = ["forward and backward", "median", *(f"speed beside {peer}" for peer in peers)]
    rows = [timings.row(contender, peers) for contender in contenders]
    return f"{timings.quietness()}\n\n{table(headings, rows)}"


if __name__ == "__main__":
    main()
