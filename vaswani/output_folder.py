"""Folders that appear whole or not at all.

check_can_write    refuses before the work a folder that could not be made after it
check_apart        refuses an output that would take the place of what is read
check_free         refuses a folder that holds what is not to be replaced
file_aside         names a file to fill, and moves it into place
written_aside      fills a folder under another name and moves it into place
"""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vaswani.errors import InputError


def check_can_write(output: Path, setting: str) -> None:
    """Refuses before the work what would fail at the end: a folder that cannot be made.

    Args:
        output: the folder.
        setting: what the message calls it.

    Raises:
        InputError: if it is a file, is below one, or is where nothing may be written.
    """
    if output.exists() and not output.is_dir():
        raise InputError(f"`{setting}` must be a folder, got the file {output}.")
    nearest = next(path for path in (output, *output.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise InputError(f"`{setting}` must be in a folder, got {output}: {nearest} is a file.")
    # Kernel folders such as /proc refuse even those who may write, and tell so only when tried.
    try:
        with tempfile.TemporaryDirectory(dir=nearest, prefix=".writable-"):
            pass
    except OSError as error:
        raise InputError(
            f"`{setting}` must be where you may write, got {output} ({error.strerror}). "
            "Choose another."
        ) from error


def check_apart(setting: str, output: str | Path, inputs: Iterable[str | Path]) -> None:
    """Refuses an output that would take the place of what is read.

    Args:
        setting: what the message calls the output.
        output: a file, or a folder that is replaced with all that it holds.
        inputs: files and folders; names of other things are passed over.

    Raises:
        InputError: if an input is the output, by whatever name, or is in it.
    """
    output = Path(output)
    for path in map(Path, inputs):
        if not path.exists():
            continue
        same = output.is_file() and path.samefile(output)
        if same or (output.is_dir() and output.resolve() in path.resolve().parents):
            raise InputError(
                f"`{setting}` must be apart from what is read, got {output}, which would take the "
                f"place of {path}. Choose another name."
            )


def check_free(output: Path, setting: str, *, kind: str, mark: str, overwrite: bool) -> bool:
    """Refuses a folder that holds anything but an earlier result given up by `overwrite`.

    Args:
        output: the folder.
        setting: what the message calls it.
        kind: what such a result is, in a word.
        mark: the file that each result has.
        overwrite: whether an earlier result may be replaced.

    Returns:
        Whether there is one to be replaced.

    Raises:
        InputError: if it holds something else, or may not be written.
    """
    check_can_write(output, setting)
    if not output.is_dir() or not any(output.iterdir()):
        return False
    is_result = (output / mark).is_file()
    if not overwrite:
        holds = f"another {kind}" if is_result else "other files"
        remedy = f", or replace that {kind} with `--overwrite`" if is_result else ""
        raise InputError(
            f"`{setting}` must be new or empty, got {output}, which holds {holds}. "
            f"Choose another{remedy}."
        )
    if not is_result:
        raise InputError(
            f"`{setting}` must hold an earlier {kind} to be overwritten, got {output}, which has "
            f"no {mark}. Choose another."
        )
    return True


@contextmanager
def file_aside(path: Path) -> Iterator[Path]:
    """Gives the name of a file to write; it takes the place of `path` only if the block ends well.

    A device or a pipe is given itself.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        yield path
        return
    aside = path.with_name(f".{path.name}.partial")
    try:
        yield aside
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def written_aside(output: Path) -> Iterator[Path]:
    """Gives a new folder to fill; it takes the place of `output` only if the block ends well.

    What `output` held before is deleted then, and is still there if the block fails.
    """
    output = output.absolute()
    output.parent.mkdir(parents=True, exist_ok=True)
    aside = output.with_name(f".{output.name}.saving-{os.getpid()}")
    earlier = output.with_name(f".{output.name}.replaced-{os.getpid()}")
    # Left by a killed process of the same number: in a container each run may be number 1.
    shutil.rmtree(aside, ignore_errors=True)
    # Not a temporary directory of the standard library, which no other user may read.
    aside.mkdir()
    try:
        yield aside
        if output.is_dir():
            shutil.rmtree(earlier, ignore_errors=True)
            os.replace(output, earlier)
        os.replace(aside, output)
        shutil.rmtree(earlier, ignore_errors=True)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        if earlier.is_dir() and not output.exists():
            os.replace(earlier, output)
        raise
