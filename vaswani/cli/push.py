"""Checks a model folder and sends it to the Hugging Face Hub; prints its address there.

Nothing is sent unless the folder is complete, loads without this package, has a full model card,
and holds no secret and no path of this machine. An interrupted push goes on when it is run again.
"""

import sys
from dataclasses import dataclass, field

from vaswani.cli._model import is_terminal


@dataclass
class PushArguments:
    """What to send, and where."""

    _argument_group_name = "model and repository"

    folder: str = field(
        metadata={
            "metavar": "FOLDER",
            "help": "model folder, as `vaswani train` or `vaswani average` writes it",
            "aliases": ["--model"],
        }
    )
    repo_id: str = field(
        metadata={
            "metavar": "USER/NAME",
            "help": "where it goes on the Hub; made if it does not exist",
            "aliases": ["--to"],
        }
    )
    private: bool = field(default=False, metadata={"help": "make it visible to you alone"})
    checkpoints: bool = field(
        default=False,
        metadata={"help": "send the checkpoints of a run too, each to a branch of its name"},
    )
    revision: str | None = field(
        default=None,
        metadata={
            "metavar": "BRANCH",
            "help": "branch to send to; made if it does not exist (default: main)",
            "aliases": ["--branch"],
        },
    )
    message: str | None = field(default=None, metadata={"help": "what the commit says"})
    license: str | None = field(
        default=None,
        metadata={"help": "license of the weights, such as cc-by-4.0, for a card without one"},
    )
    leave_out: list[str] = field(
        default_factory=list, metadata={"metavar": "FILE", "help": "files that stay here"}
    )
    replace_card: bool = field(
        default=False, metadata={"help": "send the card also where it was edited on the Hub"}
    )
    dry_run: bool = field(
        default=False, metadata={"help": "check everything, list the files, send nothing"}
    )


ARGUMENTS: tuple[type, ...] = (PushArguments,)
POSITIONAL = ("folder", "repo_id")
EXAMPLES = """
vaswani push runs/en-de your-name/en-de --dry-run
vaswani push runs/en-de your-name/en-de --private --license cc-by-4.0
vaswani push runs/en-de your-name/en-de --checkpoints
vaswani push runs/en-de-letters your-name/en-de --branch letters --message "Letters too"
"""


def run(arguments: PushArguments) -> int:
    """Sends the folder; its address goes to stdout, what happens to stderr."""
    from huggingface_hub import get_session
    from huggingface_hub.utils import disable_progress_bars

    from vaswani.hub_push import PATIENCE, push

    if not is_terminal():
        disable_progress_bars()
    get_session().timeout = PATIENCE
    options = dict(vars(arguments))
    address = push(**options, say=lambda line: print(line, file=sys.stderr, flush=True))
    if not arguments.dry_run:
        print(address)
    return 0
