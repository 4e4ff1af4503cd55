"""`vaswani push`: checks a model folder and sends it to the Hub.

    push              the whole way
    Plan              what will be sent, checked

Nothing is sent before everything has been checked. Files go by `upload_folder`, which takes up an
interrupted upload where it stopped: over Xet in several commits, else in one commit whose large
files are kept by the server as they arrive.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi, get_token
from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError
from huggingface_hub.utils import validate_repo_id

from vaswani.errors import InputError
from vaswani.hub import missing_parts
from vaswani.hub_errors import LOGIN, REPOSITORY, in_one_line
from vaswani.hub_files import Selection, files_to_send, staged
from vaswani.hub_isolation import loading_problems
from vaswani.hub_leaks import leaks, secret_files
from vaswani.model_card import CARD, stated_license
from vaswani.published_card import (
    card_for_hub,
    card_gaps,
    card_problems,
    is_sealed,
    unsealed,
)
from vaswani.wording import counted

_MAIN = "main"
PATIENCE = 300.0
"""How long the Hub may be silent, in seconds; the client itself would wait forever."""


@dataclass
class Plan:
    """What is sent where.

    Args:
        repo_id: `user/name`.
        revision: branch of the model.
        model: the files of the model.
        card: its card as it is sent.
        checkpoints: the files of each checkpoint by the branch that it goes to.
    """

    repo_id: str
    revision: str
    model: Selection
    card: str
    checkpoints: dict[str, Selection]

    def lines(self) -> Iterator[str]:
        """The plan for a person to read."""
        for branch, files in {self.revision: self.model, **self.checkpoints}.items():
            names = names_sent(files)
            yield (
                f"{self.repo_id}, branch {branch}: {counted(len(names), 'file')}, "
                f"{files.size / 1e6:,.1f} MB"
            )
            for name in names:
                yield f"  {name}"
        for name, reason in self.model.left_out.items():
            if name not in self.checkpoints:
                yield f"stays here: {name} ({reason})"
        for branch, files in self.checkpoints.items():
            for name, reason in files.left_out.items():
                yield f"stays here: {branch}/{name} ({reason})"


def names_sent(files: Selection) -> list[str]:
    """The files of a branch; each has a card, that of a checkpoint is made for it."""
    return sorted({*files.files, CARD})


def push(
    folder: str | Path,
    repo_id: str,
    *,
    private: bool = False,
    checkpoints: bool = False,
    revision: str | None = None,
    message: str | None = None,
    license: str | None = None,
    leave_out: Sequence[str] = (),
    replace_card: bool = False,
    dry_run: bool = False,
    say: Callable[[str], object] = lambda line: None,
) -> str:
    """Sends a model folder to the Hub and returns its address there.

    Args:
        folder: a model folder, a run or a checkpoint, with its card.
        repo_id: `user/name`; made if it does not exist.
        private: make it visible to its owner alone.
        checkpoints: send the checkpoints of a run too, each to a branch of its name, for
            `revision=` when loading.
        revision: branch to send the model to; made if it does not exist. `None` is main.
        message: what the commit says.
        license: license of the weights, for a card that states none.
        leave_out: names of files that stay here.
        replace_card: send the card also where the one on the Hub was edited there.
        dry_run: check everything, send nothing, tell the files.
        say: told in lines what happens.

    Raises:
        FileNotFoundError: if there is no such folder.
        InputError: if a check fails (all that is wrong in one message), or the Hub refuses or
            cannot be reached.
    """
    _check_name(repo_id)
    if not dry_run and get_token() is None:
        raise InputError(f"a token of the Hub must be there to push, got none. {LOGIN}")
    plan = checked_plan(
        folder,
        repo_id,
        checkpoints=checkpoints,
        revision=revision,
        license=license,
        leave_out=leave_out,
        say=say,
    )
    api = HfApi()
    address = f"{api.endpoint}/{repo_id}"
    if plan.revision != _MAIN:
        address += f"/tree/{plan.revision}"
    if dry_run:
        for line in plan.lines():
            say(line)
        return address
    with in_one_line(REPOSITORY, repo_id):
        _ensure_repository(api, repo_id, private, say)
        branches = [plan.revision, *plan.checkpoints]
        for branch in branches:
            if branch != _MAIN:
                api.create_branch(repo_id, branch=branch, exist_ok=True)
        cards: list[str | None] = [plan.card]
        if not replace_card and _edited_there(api, plan):
            say(f"{CARD} was edited on the Hub and stays as it is there; --replace-card sends it.")
            cards = [None]
    cards += [_card_of_checkpoint(plan, branch) for branch in plan.checkpoints]
    for branch, files, card in zip(
        branches, [plan.model, *plan.checkpoints.values()], cards, strict=True
    ):
        with in_one_line(REPOSITORY, repo_id, writing=True):
            _send(api, repo_id, branch, files, card, message or f"Push {branch} by vaswani push")
        say(f"{repo_id}, branch {branch}: {counted(len(names_sent(files)), 'file')} there.")
    return address


def checked_plan(
    folder: str | Path,
    repo_id: str,
    *,
    checkpoints: bool = False,
    revision: str | None = None,
    license: str | None = None,
    leave_out: Sequence[str] = (),
    say: Callable[[str], object] = lambda line: None,
) -> Plan:
    """What `push` will send, after all of its checks; arguments as there.

    Raises:
        FileNotFoundError: if there is no such folder.
        InputError: with everything that is wrong.
    """
    folder = Path(folder)
    _check_name(repo_id)
    _check_revision(revision)
    adapter = _adapter_problems(folder)
    problems = adapter or missing_parts(folder)
    model = files_to_send(folder, leave_out)
    card = ""
    if CARD in model.files:
        text = (folder / CARD).read_text(encoding="utf-8-sig", errors="replace")
        card = card_for_hub(text, repo_id, license=_license_to_add(text, license))
        problems += [f"{CARD}: {problem}" for problem in card_problems(card)]
        for gap in card_gaps(card):
            say(f"{CARD}: {gap} That may stay.")
    elif not adapter:
        problems.append(f"{CARD} is missing, which vaswani.model_card.write_model_card writes")
    problems += _leaks_of(model, card)
    found = {}
    if checkpoints:
        for path in _checkpoints_of(folder):
            selection = files_to_send(path, as_checkpoint=True)
            found[path.name] = selection
            problems += [f"{path.name}: {x}" for x in missing_parts(path)]
            problems += [f"{path.name}: {x}" for x in _leaks_of(selection, "")]
    # Last, and only of what is right so far: it runs the folder's code.
    if not problems:
        say(f"Loading {folder} in an interpreter without the package.")
        with staged(model, card) as stage:
            problems += loading_problems(stage)
    if problems:
        raise InputError(
            f"`folder` must be ready to be published, got {folder}: {'; '.join(problems)}. Nothing "
            "was sent. Mend these, or leave out files that loading does not need by `--leave-out`."
        )
    return Plan(repo_id, revision or _MAIN, model, card, found)


def _adapter_problems(folder: Path) -> list[str]:
    """An adapter is loaded with a model that lies beside it, but would not be sent with it."""
    if not (folder / "adapter_config.json").is_file():
        return []
    return [
        "adapter_config.json makes it a model with an adapter; call `merge_and_unload` and save "
        "what comes out in a folder of its own"
    ]


def _check_name(repo_id: str) -> None:
    if repo_id.count("/") != 1:
        raise InputError(f"`repo_id` must be user/name, got {repo_id!r}.")
    with in_one_line(REPOSITORY, repo_id):
        validate_repo_id(repo_id)


def _check_revision(revision: str | None) -> None:
    if revision is not None and not re.fullmatch(r"(?!.*(\.\.|//))[\w][\w./-]*(?<![./])", revision):
        raise InputError(f"`revision` must be the name of a branch, got {revision!r}.")


def _license_to_add(text: str, license: str | None) -> str | None:
    """The license to state in the card: the one given, unless the card states it already."""
    if license is None:
        return None
    stated = stated_license(text)
    if stated is None:
        return license
    if stated != license:
        raise InputError(
            f"`license` must be the one that {CARD} states, got {license!r} and {stated!r}. "
            "Leave it out, or change the card."
        )
    return None


def _leaks_of(selection: Selection, card: str) -> list[str]:
    """Secrets and paths in what is sent, and files of secrets in its folder."""
    problems = [
        f"{name} is a file of secrets, which does not belong there"
        for name in secret_files([*selection.files, *selection.left_out])
    ]
    for name in filter(selection.is_text, selection.files):
        path = selection.folder / name
        text = card if name == CARD and card else path.read_text("utf-8", errors="replace")
        found = leaks(text, is_record=selection.is_record(name), folder=selection.folder)
        problems += [f"{name}, {leak}" for leak in found]
    return problems


def _checkpoints_of(folder: Path) -> list[Path]:
    found = [path for path in folder.glob("checkpoint-*") if path.is_dir()]
    found = [path for path in found if re.fullmatch(r"checkpoint-\d+", path.name)]
    if not found:
        raise InputError(
            f"`checkpoints` must be left out for a folder without checkpoints, got {folder}."
        )
    return sorted(found, key=lambda path: int(path.name.rpartition("-")[2]))


def _ensure_repository(
    api: HfApi, repo_id: str, private: bool, say: Callable[[str], object]
) -> None:
    """Makes the repository unless it exists, and refuses one that more people see than wanted."""
    try:
        info = api.model_info(repo_id, timeout=PATIENCE)
    except RepositoryNotFoundError:
        # Another push may be making it just now.
        api.create_repo(repo_id, private=private or None, exist_ok=True)
        say(f"Made the {'private ' if private else ''}repository {repo_id}.")
        info = api.model_info(repo_id, timeout=PATIENCE)
    if private and not info.private:
        raise InputError(
            f"`private` must be left out for a public repository, got {repo_id}. Make it private "
            "in its settings on the Hub first."
        )
    if info.private and not private:
        say(f"{repo_id} is private and stays so.")


def _edited_there(api: HfApi, plan: Plan) -> bool:
    """Whether the card on the Hub is another person's words: neither ours nor as ours was sent."""
    try:
        path = api.hf_hub_download(plan.repo_id, CARD, revision=plan.revision)
    except EntryNotFoundError:
        return False
    there = Path(path).read_text(encoding="utf-8", errors="replace")
    return not is_sealed(there) and there.strip() != unsealed(plan.card).strip()


def _card_of_checkpoint(plan: Plan, branch: str) -> str:
    updates = int(branch.rpartition("-")[2])
    note = (
        f"**These are the weights after {counted(updates, 'update')}, kept on a branch of "
        f"their own.** What follows tells of the finished model, on the branch `{plan.revision}`; "
        f'to load these, add `revision="{branch}"`.'
    )
    return card_for_hub(plan.card, plan.repo_id, note=note)


def _send(
    api: HfApi, repo_id: str, branch: str, files: Selection, card: str | None, message: str
) -> None:
    """One branch, with what an earlier push left there and this one does not have taken away."""
    there = api.list_repo_files(repo_id, revision=branch)
    old = [name for name in there if name not in files.files and files.is_replaceable(name)]
    with staged(files, card) as stage:
        api.upload_folder(
            repo_id=repo_id,
            folder_path=stage,
            revision=branch,
            commit_message=message,
            delete_patterns=old or None,
        )
