"""What must not get out with a model: secrets, and paths that tell of the machine.

    secret_files      names of files that hold secrets
    leaks             secrets and paths in the text of a file

Only forms that are hard to mistake count; a password in plain words is not found.
"""

import getpass
import os
import re
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

# Files of secrets by their names.
_SECRET_NAMES = re.compile(
    r"\.env(\..*)?|\.netrc|_netrc|\.pypirc|\.git-credentials|token|stored_tokens|credentials(\.json)?"
    r"|id_(rsa|dsa|ecdsa|ed25519)|.*\.(pem|p12|pfx|keystore)|\.?htpasswd|kaggle\.json"
)
_SECRETS = {
    "a Hugging Face token": re.compile(r"\b(hf|api_org)_[A-Za-z0-9]{30,}\b"),
    "an AWS access key": re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{16}\b"),
    "an AWS secret key": re.compile(
        r"(?i)aws_?secret_?access_?key\W{1,6}[A-Za-z0-9/+=]{40}(?![A-Za-z0-9/+=])"
    ),
    "a private key": re.compile(r"-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----"),
    "a GitHub token": re.compile(r"\b(gh[opsur]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})\b"),
    "a GitLab token": re.compile(r"\bglpat-[A-Za-z0-9_-]{20,}"),
    "a Google key": re.compile(r"\bAIza[A-Za-z0-9_-]{35}\b"),
    "a Slack token": re.compile(r"\bxox[abeprs]-[A-Za-z0-9-]{10,}"),
    "an OpenAI key": re.compile(r"\bsk-(proj-|ant-)?[A-Za-z0-9_-]{32,}"),
    "a Weights & Biases key": re.compile(r"(?i)wandb_?api_?key\W{1,6}[0-9a-f]{40}\b"),
    "a password in an address": re.compile(r"\bhttps?://[^\s/:@]+:[^\s/@]+@"),
}
# Where paths of people and of rented machines begin, whatever machine this is.
_PLACES = (
    "/home /Users /root /tmp /mnt /media /scratch /workspace /content /kaggle /data /gpfs "
    "/lustre /private /var /opt /srv"
)
_WINDOWS = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]:\\{1,2}[\w .-]+\\{1,2}[\w .-]+")


def secret_files(names: list[str]) -> list[str]:
    """Those of the names that are files of secrets."""
    return [name for name in names if _SECRET_NAMES.fullmatch(name.lower())]


def leaks(text: str, *, is_record: bool, folder: Path) -> Iterator[str]:
    """What in the text should not be published, in words; at most one of each kind.

    Args:
        text: the text of a file.
        is_record: whether the file tells of the model and how it was made, so that no absolute
            path belongs in it. Elsewhere (sentences, vocabularies) only places of this machine
            count, such as the home folder and the folder that is sent.
        folder: the folder that is sent.
    """
    for kind, pattern in _SECRETS.items():
        found = pattern.search(text)
        if found:
            yield f"line {_line(text, found)} holds {kind}"
    patterns = [re.compile("|".join(rf"{re.escape(p)}(?![\w-])" for p in own_places(folder)))]
    if is_record:
        patterns += [_any_path(), _WINDOWS]
    for pattern in patterns:
        found = pattern.search(text) if pattern.pattern else None
        if found:
            yield f"line {_line(text, found)} holds the path {found[0]}"
            return


def own_places(folder: Path) -> list[str]:
    """Folders whose names tell of this machine or its user, the longest first."""
    places = {Path.home(), Path.cwd(), folder.absolute().parent, folder.resolve().parent}
    places |= {place.resolve() for place in places} | {Path(tempfile.gettempdir())}
    places |= {Path("/home") / _user(), Path("/Users") / _user()}
    named = {str(place) for place in places if len(place.parts) > 2 or place == Path.home()}
    return sorted(named - {"/"}, key=len, reverse=True)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no name for the number of this user
        return "user"


@lru_cache(maxsize=1)
def _any_path() -> re.Pattern[str]:
    """An absolute path of at least two parts that begins as those of people or of this machine."""
    here = [f"/{entry.name}" for entry in os.scandir("/") if entry.is_dir()]
    starts = "|".join(re.escape(place) for place in sorted({*_PLACES.split(), *here}))
    # Not within a word, an address or a relative path.
    return re.compile(rf"(?<![\w.~/-])(?:file://)?(?:{starts})/[^\s\"'`,;:)\]}}]+")


def _line(text: str, found: re.Match[str]) -> int:
    return text.count("\n", 0, found.start()) + 1
