"""From composed YAML to the dataclasses behind `conf/`: every key known, every value of its type, nothing missing."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, Union

from rat_ray.errors import InputError, did_you_mean_inside

T = TypeVar("T")
_MISSING = "???"


def conf_dir() -> Path:
    """The folder of the Hydra groups: beside the package in a checkout, inside it in an installed wheel."""
    package = Path(__file__).resolve().parent
    for folder in (package / "conf", package.parent / "conf"):
        if (folder / "evaluate.yaml").is_file():
            return folder
    raise FileNotFoundError(f"no conf/ beside or inside {package}: the installation is incomplete")


def build(kind: type[T], data: Mapping[str, Any] | None, path: str = "") -> T:
    """An instance of the dataclass from a mapping; `path` is where the mapping stands, for messages.

    Raises: InputError for an unknown key (with a "did you mean"), a value of the wrong type, or one left `???`.
    Calls the instance's `validate()` where it has one.
    """
    given = {} if data is None else data
    known = fields_of(kind)
    if not isinstance(given, Mapping):
        of_kinds = isinstance(given, str) and "kind" in known
        instead = f"; set {path}.kind=… and what goes with it" if of_kinds else ""
        raise InputError(f"{path or kind.__name__}={given!r}: expected a group of settings{instead}")
    for name in given:
        if name not in known:
            kinds = {group: inner for group, inner in known.items() if isinstance(inner, type)}
            groups = {group: fields_of(inner) for group, inner in kinds.items() if dataclasses.is_dataclass(inner)}
            hint = did_you_mean_inside(str(name), known, groups)
            raise InputError(f"{_join(path, str(name))}: no such setting{hint}")
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if not field.init:
            continue
        if field.name in given:
            values[field.name] = convert(known[field.name], given[field.name], _join(path, field.name))
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise InputError(f"{_join(path, field.name)}: must be given")
    made = kind(**values)
    validate = getattr(made, "validate", None)
    if validate is not None:
        try:
            validate()
        except InputError as error:
            raise InputError(f"{path}: {error}" if path and not str(error).startswith(path) else str(error)) from None
    return made


def check_given(**values: str) -> None:
    """Raise InputError for a path that is blank: it would mean the current folder."""
    for name, value in values.items():
        if not value.strip():
            raise InputError(f"{name}: must be given, for example {name}=…")


def fields_of(kind: type[Any]) -> dict[str, Any]:
    """The names and resolved types of the fields that a user may set; metadata `{"user": False}` marks the others."""
    hints = typing.get_type_hints(kind)
    settable = (f.name for f in dataclasses.fields(kind) if f.init and f.metadata.get("user", True))
    return {name: hints[name] for name in settable}


def convert(kind: Any, value: Any, path: str) -> Any:
    """The value as the type says, or an InputError that names the setting and the value."""
    if value == _MISSING and isinstance(value, str):
        raise InputError(f"{path}: must be given, for example {path}=…")
    if kind is Any:
        return value
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return _convert_union(arguments, value, path)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return build(kind, value, path)
    if origin in (list, tuple):
        return _convert_list(origin, arguments, value, path)
    if origin is dict:
        if not isinstance(value, Mapping):
            raise InputError(f"{path}={value!r}: expected a mapping")
        return {str(name): convert(arguments[1], item, _join(path, str(name))) for name, item in value.items()}
    return _convert_scalar(kind, value, path)


def _convert_union(arguments: tuple[Any, ...], value: Any, path: str) -> Any:
    if value is None and type(None) in arguments:
        return None
    choices = [argument for argument in arguments if argument is not type(None)]
    for index, choice in enumerate(choices):
        try:
            return convert(choice, value, path)
        except InputError:
            if index == len(choices) - 1:
                raise
    raise InputError(f"{path}={value!r}: not a valid value")


def _convert_list(origin: type, arguments: tuple[Any, ...], value: Any, path: str) -> Any:
    if isinstance(value, str) or not hasattr(value, "__iter__") or isinstance(value, Mapping):
        example = value if isinstance(value, str | int | float) else "…"
        raise InputError(f"{path}={value!r}: expected a list, for example {path}=[{example}]")
    element = arguments[0] if arguments else Any
    items = [convert(element, item, f"{path}[{index}]") for index, item in enumerate(value)]
    return tuple(items) if origin is tuple else items


def _convert_scalar(kind: Any, value: Any, path: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)  # YAML reads `name: 5` as a number
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    raise InputError(f"{path}={value!r}: expected {names.get(kind, str(kind))}")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
