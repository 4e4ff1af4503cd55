"""What can be set about the demo."""

from dataclasses import dataclass, field


@dataclass
class DemoArguments:
    """How much to do; the defaults suit two CPU cores and four minutes."""

    output_dir: str = field(
        default="runs/demo",
        metadata={"help": "folder for corpus, model and picture", "aliases": ["--output"]},
    )
    pairs: int = field(default=100_000, metadata={"help": "sentence pairs to train on"})
    updates: int = field(default=1200, metadata={"help": "updates of the model"})
    held_out: int = field(default=1000, metadata={"help": "sentence pairs to measure on"})
    seed: int = field(default=1, metadata={"help": "same seed, same corpus and model"})
    threads: int | None = field(default=None, metadata={"help": "CPU threads"})
