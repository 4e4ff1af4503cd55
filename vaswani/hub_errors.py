"""What went wrong between here and the Hub, in one line with the remedy.

in_one_line       turns errors of huggingface_hub into `InputError`
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError

from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from vaswani.errors import InputError

# What messages call a repository to write to; by any other name it could be a folder, too.
REPOSITORY = "repo_id"
LOGIN = "Log in with `hf auth login`, or set HF_TOKEN."


@contextmanager
def in_one_line(setting: str, repo_id: str, *, writing: bool = False) -> Iterator[None]:
    """Words what the block cannot do with a repository on the Hub.

    Args:
        setting: what the message calls the repository.
        repo_id: its name.
        writing: whether something was sent, so that the remedy is to send the rest.

    Raises:
        InputError: for anything that a user can mend; errors of other kinds pass.
    """
    try:
        yield
    except InputError:
        raise
    except (HTTPError, OSError, RuntimeError, ValueError) as error:
        message = _worded(error, setting, repo_id)
        if message is None:
            raise
        again = " Run the command again: what has arrived is not sent again." if writing else ""
        raise InputError(message + again) from error


def _worded(error: BaseException | None, setting: str, repo_id: str) -> str | None:
    """The message for an error of the Hub, or for the one it came from; `None` for any other."""
    if error is None:
        return None
    got = f"`{setting}` must be"
    if isinstance(error, HFValidationError):
        return f"{got} a name on the Hub such as user/name, got {repo_id!r}."
    if isinstance(error, GatedRepoError):
        return (
            f"{got} a repository that you may read, got {repo_id}, which is gated. Ask for access "
            f"on its page. {LOGIN}"
        )
    if isinstance(error, RepositoryNotFoundError):
        return (
            f"{got} a folder or a repository on the Hub, got {repo_id}: there is none that you may "
            f"read. For a private one: {LOGIN[0].lower()}{LOGIN[1:]}"
        )
    if isinstance(error, RevisionNotFoundError):
        return f"`revision` must be a branch, tag or commit of {repo_id}, got one it does not have."
    if isinstance(error, HfHubHTTPError):
        return _refused(error, repo_id)
    if isinstance(error, LocalEntryNotFoundError | OfflineModeIsEnabled):
        if isinstance(error.__cause__, HfHubHTTPError):
            return _worded(error.__cause__, setting, repo_id)
        return _unreachable(error.__cause__ or error, setting, repo_id)
    if isinstance(error, HTTPError):
        return _unreachable(error, setting, repo_id)
    if isinstance(error, ValueError) and "metadata in README.md" in str(error):
        return f"README.md must have metadata that the Hub takes, got: {_one_line(error)}."
    if isinstance(error, JSONDecodeError):
        return (
            f"the Hub must answer in JSON for {repo_id}, got something else from "
            f"{constants.ENDPOINT}. Is there a page to log in to the network?"
        )
    return _worded(error.__cause__, setting, repo_id)


def _refused(error: HfHubHTTPError, repo_id: str) -> str:
    status = error.response.status_code
    said = _one_line(error.server_message or "")
    because = f"{status} {said}".strip()
    if status == 401:
        return f"the token must be one that the Hub knows, got {because}. {LOGIN}"
    if status == 403:
        return (
            f"the token must have the right to do this with {repo_id}, got {because}. Use a token "
            "that may write, or a name of your own."
        )
    if status == 429:
        return f"the Hub must take more requests for {repo_id}, got {because}. Wait a while."
    return f"the Hub must answer for {repo_id}, got {because or error}."


def _unreachable(error: BaseException, setting: str, repo_id: str) -> str:
    reason = _one_line(error) or type(error).__name__
    if isinstance(error, OfflineModeIsEnabled) or constants.HF_HUB_OFFLINE:
        reason = "HF_HUB_OFFLINE is set"
    if setting != REPOSITORY:
        return (
            f"`{setting}` must be a folder or a model on the Hub, got {repo_id}: there is no such "
            f"folder and no copy here, and {constants.ENDPOINT} is out of reach ({reason}). Check "
            "the name or the network."
        )
    return (
        f"the Hub must be within reach for {repo_id}, got {reason!r} from {constants.ENDPOINT}. "
        "Check the network."
    )


def _one_line(error: object) -> str:
    text = " ".join(str(error).split())
    return re.sub(r"[.\s]+$", "", text)[:300]
