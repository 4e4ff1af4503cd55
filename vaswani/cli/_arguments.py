"""Dataclasses to flags: the parser behind every `vaswani` command.

`HfArgumentParser` turns fields into options; added here are --kebab-case in the help, `--config`,
`--recipe` for a command with `TAKES_RECIPE = True`, one-line errors that name the nearest option,
and a help page that shows a command's own options and keeps what a dataclass inherits from
transformers for `--help-all`.

A dataclass may have three class attributes without annotation:

    _argument_group_name   title of its options in the help
    _shown_options         tuple of inherited field names that `--help` shows too
    _hidden_options        tuple of its own field names that only `--help-all` shows
"""

import argparse
import dataclasses
import difflib
import inspect
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import yaml
from transformers import HfArgumentParser
from transformers.hf_argparser import string_to_bool

from vaswani.errors import InputError
from vaswani.recipe_files import recipe_file, recipe_names

_KINDS = {
    int: "an integer",
    float: "a number",
    str: "a text",
    dict: "a mapping (as a flag: JSON)",
    string_to_bool: "true or false",
}
_METAVARS = {int: "N", float: "X", str: "TEXT", dict: "JSON"}


def parse_arguments(name: str, command: ModuleType, words: list[str]) -> tuple[Any, ...] | None:
    """Objects of the command's dataclasses, or `None` when help was asked for and printed.

    Raises:
        InputError: if an option, a recipe or a key of the `--config` file is unknown or wrong.
    """
    # The parser must know first whether to hide the inherited options.
    parser = CommandParser(name, command, show_all="--help-all" in words)
    try:
        namespace, rest = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        option = _kebab((error.argument_name or "").split("/"))[-1]
        message = error.message
        if message.startswith("expected"):
            message = "must have a value, got none."
        raise InputError(f"`{option}` {message}") from error
    if namespace.help or namespace.help_all:
        parser.print_help()
        return None
    by_place = parser.values_by_place(namespace, rest)
    values: dict[str, Any] = {}
    if getattr(namespace, "recipe", None) is not None:
        values |= parser.values_of_file(str(recipe_file(namespace.recipe)))
    if namespace.config:
        values |= parser.values_of_file(namespace.config)
    typed = {key: value for key, value in vars(namespace).items() if value is not _NOT_GIVEN}
    return parser.build(values | by_place | typed)


_NOT_GIVEN = object()


class CommandParser(HfArgumentParser):
    """The parser of one command; options that were not given stay out of the result."""

    def __init__(self, name: str, command: ModuleType, *, show_all: bool) -> None:
        self.program = getattr(command, "PROGRAM", f"vaswani {name}")
        self.show_all = show_all
        self.hidden_counts: dict[str, int] = {}
        self.defaults: dict[str, Any] = {}
        self.required: list[str] = []
        self.positional: tuple[str, ...] = getattr(command, "POSITIONAL", ())
        super().__init__(
            prog=self.program,
            description=(command.__doc__ or "").split("\n\n")[0],
            formatter_class=_HelpFormatter,
            add_help=False,
            allow_abbrev=False,
            exit_on_error=False,
        )
        inherited = [self._add_own(dtype) for dtype in command.ARGUMENTS]
        for dtype, fields in zip(command.ARGUMENTS, inherited, strict=True):
            self._add_inherited(dtype, fields)
        self.dataclass_types = list(command.ARGUMENTS)
        general = self.add_argument_group("general")
        if getattr(command, "TAKES_RECIPE", False):
            general.add_argument(
                "--recipe",
                metavar="NAME",
                help=f"settings that come with the package: {', '.join(recipe_names())}; "
                "--config and flags win over them",
            )
        general.add_argument(
            "--config", metavar="FILE.yaml", help="settings from a YAML file; flags win over it"
        )
        general.add_argument("-h", "--help", action="store_true", help="show this page")
        help_all = f"show every option, with the {sum(self.hidden_counts.values())} left out here"
        general.add_argument(
            "--help-all",
            action="store_true",
            help=help_all if self.hidden_counts else argparse.SUPPRESS,
        )
        self.usage = " ".join(
            [self.program, *(self._usage_of(dest) for dest in self.required), "[options]"]
        )
        self.epilog = "examples:\n" + "\n".join(
            f"  {line}" for line in command.EXAMPLES.strip().splitlines()
        )

    def _add_own(self, dtype: type) -> list[dataclasses.Field]:
        """Adds the fields that are ours, or shown on request, and returns the others."""
        own = {
            field
            for base in dtype.__mro__
            if base.__module__.split(".")[0] not in ("transformers", "builtins")
            for field in inspect.get_annotations(base)
        }
        own |= set(getattr(dtype, "_shown_options", ()))
        own -= set(getattr(dtype, "_hidden_options", ()))
        group = self.add_argument_group(getattr(dtype, "_argument_group_name", "options"))
        others = []
        hints = get_type_hints(dtype)
        for field in dataclasses.fields(dtype):
            if not field.init:
                continue
            field.type = hints[field.name]
            if field.name in own:
                self._add_field(group, field, hide=False)
            else:
                others.append(field)
        return others

    def _add_inherited(self, dtype: type, fields: list[dataclasses.Field]) -> None:
        if not fields:
            return
        bases = [b for b in dtype.__mro__ if b.__module__.split(".")[0] == "transformers"]
        name, title = dtype.__name__, f"more {getattr(dtype, '_argument_group_name', '')} options"
        if bases:
            name = bases[0].__name__
            title = f"options of {name} (transformers)"
        group = self.add_argument_group(title)
        self.hidden_counts[name] = len(fields)
        for field in fields:
            self._add_field(group, field, hide=not self.show_all)

    def _add_field(
        self, group: argparse._ArgumentGroup, field: dataclasses.Field, *, hide: bool
    ) -> None:
        known = len(self._actions)
        self._parse_dataclass_field(group, field)  # type: ignore[arg-type]
        for action in self._actions[known:]:
            if action.nargs == 0:
                flag = _kebab(action.option_strings)[0].replace("--no-", "--", 1)
                action.help = f"turn {flag} off"
            else:
                if action.required:
                    self.required.append(action.dest)
                else:
                    self.defaults[action.dest] = action.default
                kind: Any = action.type
                action.type = _checked(kind, action.choices)
                if action.metavar is None and action.choices is None:
                    action.metavar = _METAVARS.get(kind)
                action.help = (action.help or "") + self._default_text(action)
            # Absence must stay visible: a value of --config takes the place of a default only.
            action.required = False
            action.default = _NOT_GIVEN
            if hide:
                action.help = argparse.SUPPRESS

    def values_by_place(self, namespace: argparse.Namespace, words: list[str]) -> dict[str, Any]:
        """Words that follow no option, as values of the command's `POSITIONAL` fields.

        Raises:
            InputError: for a word too many, or an option that the command does not have.
        """
        open_names = [n for n in self.positional if getattr(namespace, n) is _NOT_GIVEN]
        values = {}
        for word in words:
            if word.startswith("-") or not open_names:
                raise InputError(self.unknown_option(word))
            values[open_names.pop(0)] = word
        return values

    def _usage_of(self, dest: str) -> str:
        action = self._action(dest)
        if dest in self.positional:
            return str(action.metavar)
        return f"{_kebab(action.option_strings)[0]} {action.metavar or dest.upper()}"

    def _action(self, dest: str) -> argparse.Action:
        return next(action for action in self._actions if action.dest == dest)

    def _default_text(self, action: argparse.Action) -> str:
        if action.dest in self.required:
            return " (required)"
        default = self.defaults[action.dest]
        if default in (None, "", "-", False, []) or "(default:" in (action.help or ""):
            return ""
        default = "on" if default is True else getattr(default, "value", default)
        text = json.dumps(default) if isinstance(default, list | dict) else str(default)
        return f" (default: {text.replace('%', '%%')})"

    def error(self, message: str) -> Any:
        raise InputError(message)

    def unknown_option(self, word: str) -> str:
        """The message for a word on the command line that no option takes."""
        if not word.startswith("-"):
            rest = "the rest of its" if self.positional else "its"
            return (
                f"`{self.program}` must get {rest} input by options, got {word!r}. "
                f"See `{self.program} --help`."
            )
        flag = word.split("=")[0]
        return (
            f"`{flag}` must be an option of `{self.program}`. "
            f"{self._nearest(flag, [o for a in self._actions for o in _kebab(a.option_strings)])}"
        )

    def _nearest(self, word: str, options: list[str]) -> str:
        nearest = difflib.get_close_matches(word.replace("_", "-"), options, n=1)
        nearest = nearest or difflib.get_close_matches(word, options, n=1)
        if nearest:
            return f"Did you mean {nearest[0]}?"
        return f"See `{self.program} --help`."

    def values_of_file(self, path: str) -> dict[str, Any]:
        """Checked values of a `--config` file, by field name."""
        values = {}
        for key, value in read_settings(path).items():
            name = key.replace("-", "_")
            known = [*self.defaults, *self.required]
            if name not in known:
                raise InputError(
                    f"{path}: `{key}` must be a setting of `{self.program}`. "
                    f"{self._nearest(name, known)}"
                )
            try:
                values[name] = self._value_of_file(name, value)
            except argparse.ArgumentTypeError as error:
                raise InputError(f"{path}: `{key}` {error}") from error
        return values

    def _value_of_file(self, name: str, value: Any) -> Any:
        action = self._action(name)
        convert: Callable[[Any], Any] = action.type  # type: ignore[assignment]
        if value is None:
            if self.defaults.get(name, _NOT_GIVEN) is not None:
                raise argparse.ArgumentTypeError("must have a value, got nothing.")
            return None
        if action.nargs != "+":
            return convert(value)
        return [convert(item) for item in (value if isinstance(value, list) else [value])]

    def build(self, values: dict[str, Any]) -> tuple[Any, ...]:
        """One object per dataclass from the values that were given."""
        missing = [f"`{self._usage_of(d)}`" for d in self.required if d not in values]
        if missing:
            raise InputError(f"{', '.join(missing)} must be given. See `{self.program} --help`.")
        built = []
        for dtype in self.dataclass_types:
            names = {field.name for field in dataclasses.fields(dtype) if field.init}
            try:
                built.append(dtype(**{k: v for k, v in values.items() if k in names}))
            except (ValueError, ImportError) as error:
                # A dataclass of transformers checks what was typed in the same way as ours do.
                raise InputError(" ".join(str(error).split())) from error
        return tuple(built)


def read_settings(path: str | Path) -> dict[str, Any]:
    """The mapping in a YAML file of settings.

    Raises:
        InputError: if the file is not UTF-8, not YAML or not one mapping of settings.
        FileNotFoundError: if there is no such file.
    """
    try:
        settings = yaml.safe_load(Path(path).read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: `--config` must be UTF-8 text, got byte {error.start}."
        ) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not readable"
        raise InputError(f"{path}{line}: `--config` must be YAML, got: {problem}.") from error
    if settings is None:
        return {}
    if not isinstance(settings, dict) or not all(isinstance(key, str) for key in settings):
        raise InputError(
            f"{path}: `--config` must be one `name: value` a line, got {type(settings).__name__}."
        )
    return settings


def _checked(kind: Any, choices: Any) -> Callable[[Any], Any]:
    """A converter for texts of the command line and for values of a YAML file."""

    def convert(value: Any) -> Any:
        wanted = "one of " + ", ".join(map(str, choices)) if choices else _KINDS.get(kind, "valid")
        try:
            result = _convert(kind, value)
        except (AttributeError, TypeError, ValueError, argparse.ArgumentTypeError) as error:
            remedy = "" if isinstance(value, str) or kind is not str else " Put it in quotes."
            raise argparse.ArgumentTypeError(f"must be {wanted}, got {value!r}.{remedy}") from error
        if choices and result not in choices:
            nearest = difflib.get_close_matches(str(value), list(map(str, choices)), n=1)
            remedy = f" Did you mean {nearest[0]}?" if nearest else ""
            raise argparse.ArgumentTypeError(f"must be {wanted}, got {value!r}.{remedy}")
        return result

    return convert


def _convert(kind: Any, value: Any) -> Any:
    if kind is dict:
        result = json.loads(value) if isinstance(value, str) else value
        if not isinstance(result, Mapping):
            raise TypeError
        return result
    # YAML reads `no` as false and 007 as 7: a text must be written as one.
    if kind is str and not isinstance(value, str):
        raise TypeError
    if isinstance(value, bool) and kind is not string_to_bool:
        raise TypeError
    if isinstance(value, float) and kind is int and not value.is_integer():
        raise ValueError
    if isinstance(value, list | dict):
        raise TypeError
    return kind(value)


def _kebab(options: list[str] | Any) -> list[str]:
    """The spellings that the help shows: no --snake_case where there is --kebab-case."""
    return [option for option in options if "_" not in option] or list(options)


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """--kebab-case only, one metavar an option, a default where there is one to tell."""

    def __init__(self, prog: str) -> None:
        width = min(shutil.get_terminal_size().columns, 100)
        super().__init__(prog, max_help_position=32, width=width)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        options = ", ".join(_kebab(action.option_strings))
        if action.nargs in (0, "?"):
            return options
        metavar = action.metavar or action.dest.upper()
        if action.choices:
            listed = "{" + ",".join(map(str, action.choices)) + "}"
            metavar = listed if len(listed) <= 60 else "NAME"
        return f"{options} {metavar}" + (" ..." if action.nargs == "+" else "")
