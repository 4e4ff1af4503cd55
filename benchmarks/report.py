"""Runs the benchmarks one after the other and writes one Markdown file of their tables.

    python benchmarks/report.py
    python benchmarks/report.py --only train startup --output speed.md

Each runs in a process of its own, with its own defaults, and tells its machine and how quiet it
was. Whoever wants other settings runs the script itself.
"""

import argparse
import datetime
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

PARTS = {
    "train": ("Training step", "bench_train.py"),
    "generate": ("Translation", "bench_generate.py"),
    "startup": ("Start", "bench_startup.py"),
    "corpus": ("Parallel text", "bench_corpus.py"),
}


def printed(script: str) -> str:
    """What a script prints, shown as it comes.

    Raises:
        SystemExit: with the script's status if it fails.
    """
    lines = []
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", str(HERE / script)],
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode:
        raise SystemExit(process.returncode)
    return "".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(PARTS), help="leave out the others")
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks.md"))
    arguments = parser.parse_args()
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    sections = [f"# Benchmarks of {datetime.date.today():%Y-%m-%d}"]
    for part in arguments.only or PARTS:
        title, script = PARTS[part]
        sections.append(f"## {title}\n\n`python benchmarks/{script}`: {printed(script).strip()}")
        # After each, so that what took long is not lost with what fails next.
        arguments.output.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
    print(f"\nWritten to {arguments.output}.")


if __name__ == "__main__":
    main()
