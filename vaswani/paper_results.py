"""The numbers that the paper prints, for tables and plans that show them beside ours.

Table2Row, TABLE_2    BLEU on newstest2014 and training cost
Table3Row, TABLE_3    perplexity and BLEU on newstest2013, parameters
PaperCost             hours, GPUs and rate: what the paper's FLOPs are made of

They are never computed here, and nothing else holds a copy of them.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PaperCost:
    """How the paper counts its training: time times hardware, not operations.

    Source: Section 5.2 (hours, GPUs), section 6.1 with its footnote (rate of a P100).

    Args:
        hours: of training.
        gpus: GPUs of type P100.
        rate: sustained single-precision operations a second of one GPU.
    """

    hours: float
    gpus: int = 8
    rate: float = 9.5e12

    @property
    def operations(self) -> float:
        """Hours times GPUs times rate."""
        return self.hours * 3600 * self.gpus * self.rate


@dataclass(frozen=True)
class Table2Row:
    """A row of Table 2 for one pair of languages.

    Args:
        bleu: on newstest2014, tokenized.
        operations: "FLOPs" as printed.
        cost: what they come from.
    """

    bleu: float
    operations: float
    cost: PaperCost


_BASE_COST = PaperCost(hours=12)
_BIG_COST = PaperCost(hours=3.5 * 24)

TABLE_2: dict[tuple[str, str], Table2Row] = {
    ("base", "en-de"): Table2Row(27.3, 3.3e18, _BASE_COST),
    ("base", "en-fr"): Table2Row(38.1, 3.3e18, _BASE_COST),
    ("big-en-de", "en-de"): Table2Row(28.4, 2.3e19, _BIG_COST),
    ("big-en-fr", "en-fr"): Table2Row(41.8, 2.3e19, _BIG_COST),
}
"""By preset and languages."""


@dataclass(frozen=True)
class Table3Row:
    """A row of Table 3.

    Args:
        group: "base", "A" to "E" or "big".
        change: what differs from the base model.
        perplexity: per word piece, on newstest2013.
        bleu: on newstest2013.
        millions: parameters in millions; `None` where the paper prints none.
    """

    group: str
    change: str
    perplexity: float
    bleu: float
    millions: int | None = None


TABLE_3: dict[str, Table3Row] = {
    "base": Table3Row("base", "", 4.92, 25.8, 65),
    "table3-a-h1": Table3Row("A", "h 1, d_k = d_v = 512", 5.29, 24.9),
    "table3-a-h4": Table3Row("A", "h 4, d_k = d_v = 128", 5.00, 25.5),
    "table3-a-h16": Table3Row("A", "h 16, d_k = d_v = 32", 4.91, 25.8),
    "table3-a-h32": Table3Row("A", "h 32, d_k = d_v = 16", 5.01, 25.4),
    "table3-b-dk16": Table3Row("B", "d_k 16", 5.16, 25.1, 58),
    "table3-b-dk32": Table3Row("B", "d_k 32", 5.01, 25.4, 60),
    "table3-c-n2": Table3Row("C", "N 2", 6.11, 23.7, 36),
    "table3-c-n4": Table3Row("C", "N 4", 5.19, 25.3, 50),
    "table3-c-n8": Table3Row("C", "N 8", 4.88, 25.5, 80),
    "table3-c-d256": Table3Row("C", "d_model 256, d_k = d_v = 32", 5.75, 24.5, 28),
    "table3-c-d1024": Table3Row("C", "d_model 1024, d_k = d_v = 128", 4.66, 26.0, 168),
    "table3-c-ff1024": Table3Row("C", "d_ff 1024", 5.12, 25.4, 53),
    "table3-c-ff4096": Table3Row("C", "d_ff 4096", 4.75, 26.2, 90),
    "table3-d-drop0": Table3Row("D", "dropout 0.0", 5.77, 24.6),
    "table3-d-drop0.2": Table3Row("D", "dropout 0.2", 4.95, 25.5),
    "table3-d-ls0": Table3Row("D", "label smoothing 0.0", 4.67, 25.3),
    "table3-d-ls0.2": Table3Row("D", "label smoothing 0.2", 5.47, 25.7),
    "table3-e-learned": Table3Row("E", "learned positions", 4.92, 25.7),
    "big-en-de": Table3Row(
        "big", "d_model 1024, d_ff 4096, h 16, dropout 0.3, 300,000 updates", 4.33, 26.4, 213
    ),
}
"""By preset, in the order of the paper."""
