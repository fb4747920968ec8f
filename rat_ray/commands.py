"""What each command takes and does: cli.py composes settings, this file finds the module that works with them."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from rat_ray.naming import safe_name
from rat_ray.settings import conf_dir, fields_of

# Command -> the module with its `SETTINGS` (a dataclass) and `run(context)`; imported when the command is used.
COMMANDS: Mapping[str, str] = {
    "evaluate": "rat_ray.pipeline",
    "fit": "rat_ray.fitting",
    "compare": "rat_ray.comparing",
    "allocate": "rat_ray.study",
    "report": "rat_ray.reporting",
}

SWEEPABLE = ("evaluate", "fit")  # each job leaves a summary in a folder of its own; a sweep merges them


@dataclass(frozen=True)
class Context:
    """One job as the command line sees it: the composed settings, and how to get another choice of a group."""

    config: Mapping[str, Any]
    choices: Mapping[str, str]
    component: Callable[[str, str], dict[str, Any]]
    multirun: bool
    suffix: str

    def folder(self, out: str, name: str = "run") -> str:
        """Where this job writes: `out`, or in a sweep a folder of its own below it, named by what was varied."""
        return f"{out}/{safe_name(name + self.suffix)}" if self.multirun else out


def run(command: str, context: Context) -> str:
    """Do the work of one job; the path of its `out`."""
    return str(importlib.import_module(COMMANDS[command]).run(context))


@cache
def groups() -> tuple[str, ...]:
    """The Hydra groups: the folders of conf/ with YAML files."""
    return tuple(sorted(path.name for path in conf_dir().iterdir() if path.is_dir() and any(path.glob("*.yaml"))))


def known_settings(command: str) -> dict[str, Any]:
    """The tree of settings that a command knows: name -> subtree, or None where the value is free-form."""
    module = importlib.import_module(COMMANDS[command])
    tree = _tree(module.SETTINGS)
    for group, kinds in getattr(module, "COMPONENTS", {}).items():
        tree[group] = {name: value for kind in kinds for name, value in _tree(kind).items()}
    return tree


def _tree(kind: type[Any]) -> dict[str, Any]:
    return {name: _subtree(hint) for name, hint in fields_of(kind).items()}


def _subtree(hint: Any) -> dict[str, Any] | None:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _tree(hint)
    inner = [kind for kind in getattr(hint, "__args__", ()) if dataclasses.is_dataclass(kind)]
    if type(None) in getattr(hint, "__args__", ()) and len(inner) == 1 and isinstance(inner[0], type):
        return _tree(inner[0])
    return None
