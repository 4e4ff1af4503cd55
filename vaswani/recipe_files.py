"""Recipes: settings files that come with the package, for `vaswani train --recipe NAME`.

recipe_names    which there are
recipe_file     the file of one

A recipe `<preset>-<corpus>` is a complete training run, with the keys of `vaswani train --config`.
"""

import difflib
from pathlib import Path

from vaswani.errors import InputError

_FOLDER = Path(__file__).parent / "recipes"


def recipe_names() -> list[str]:
    """Names of the recipes, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def recipe_file(name: str) -> Path:
    """The YAML file of a recipe.

    Raises:
        InputError: if there is none of that name.
    """
    names = recipe_names()
    if name not in names:
        nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
        remedy = f"Did you mean {nearest[0]}?" if nearest else "A file is read with `--config`."
        raise InputError(f"`recipe` must be one of {', '.join(names)}, got {name!r}. {remedy}")
    return _FOLDER / f"{name}.yaml"
