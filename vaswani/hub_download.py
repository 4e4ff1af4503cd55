"""A model's name to its folder: one on this machine, or what the Hub has under that name.

    local_folder      the folder, fetched if need be

Only settings, vocabularies and weights are fetched, never code: the classes of this package load
them.
"""

import re
from pathlib import Path

from huggingface_hub import snapshot_download

from vaswani.errors import InputError
from vaswani.hub_errors import in_one_line

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def local_folder(name: str | Path, *, revision: str | None = None, setting: str = "model") -> Path:
    """The folder of a model, which need not be complete.

    Args:
        name: a path, or `user/name` on the Hub where there is no such path.
        revision: branch, tag or commit on the Hub; `None` is main.
        setting: what messages call the name.

    Raises:
        InputError: if a revision is given for a folder, the Hub has no such repository or revision
            that may be read, or cannot be reached and there is no copy from before.
    """
    path = Path(name)
    if path.exists() or not _REPOSITORY.fullmatch(str(name)):
        if revision is not None:
            raise InputError(
                f"`revision` must be left out for a folder, got {revision!r} with {name}. It is "
                "for models on the Hub, named user/name."
            )
        return path
    with in_one_line(setting, str(name)):
        fetched = snapshot_download(
            str(name),
            revision=revision,
            allow_patterns=["*.json", "*.safetensors"],
            ignore_patterns=["*/*"],
        )
    return Path(fetched)
