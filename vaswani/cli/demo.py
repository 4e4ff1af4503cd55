"""Shows the whole way on a generated corpus: train, save, reload, translate, evaluate, draw."""

import sys
from typing import TYPE_CHECKING

from vaswani.demo_arguments import DemoArguments
from vaswani.wording import lasting

if TYPE_CHECKING:
    from vaswani.demo import DemoResult

ARGUMENTS = (DemoArguments,)
EXAMPLES = """
vaswani demo
vaswani demo --updates 200 --held-out 100 --output-dir runs/quick-demo
"""


def run(arguments: DemoArguments) -> int:
    """Runs the demo and prints what it found."""
    from vaswani.demo import run_demo

    try:
        print(_report(run_demo(arguments)))
    except KeyboardInterrupt:
        print(
            f"The demo was interrupted. What it wrote is in {arguments.output_dir}; the same "
            "command starts it again from the beginning and replaces it.",
            file=sys.stderr,
        )
        return 130
    return 0


def _report(result: "DemoResult") -> str:
    lines = ["", "Held-out sentences: a word and a construction that training never joined", ""]
    for pair, text in result.examples:
        verdict = "exact" if text == pair.target else f"expected: {pair.target}"
        lines += [f"  {pair.source}", f"    {text}   ({verdict})"]
    lines += ["", "Exact by construction"]
    width = max(map(len, result.exact_by_construction))
    for name, share in sorted(result.exact_by_construction.items(), key=lambda item: item[1]):
        lines.append(f"  {name:<{width}}  {share:>6.1%}  {'█' * round(20 * share)}")
    lines += [
        "",
        f"Exact in all: {result.exact:.1%} (word by word: {result.baseline:.1%})",
        f"BLEU {result.scores['bleu']:.1f}, chrF {result.scores['chrf']:.1f}",
        f"Time: {lasting(60 * result.minutes)}",
        "",
        "Written:",
    ]
    lines += [f"  {name:<13}{path}" for name, path in result.files.items()]
    return "\n".join(lines)
