"""What each command takes and does: cli.py composes settings, this file finds the module that works with them."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from rat_ray.errors import InputError, StageError
from rat_ray.naming import safe_name
from rat_ray.outcome import Failed, Outcome
from rat_ray.settings import conf_dir, fields_of

# Command -> the module with its `SETTINGS` (a dataclass) and `run(context)` or, for all jobs of a sweep at once,
# `run_all(contexts)`; imported when the command is used.
COMMANDS: Mapping[str, str] = {
    "evaluate": "rat_ray.pipeline",
    "fit": "rat_ray.fitting",
    "compare": "rat_ray.comparing",
    "allocate": "rat_ray.study",
    "plan": "rat_ray.planner",
    "annotate": "rat_ray.annotating",
    "report": "rat_ray.reporting",
    "store": "rat_ray.storing",
}

# Command -> the setting that a bare word after it stands for, and the words: `rat-ray store gc` is `action=gc`.
WORDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "store": ("action", ("show", "gc")),
    "annotate": ("action", ("export", "import")),
}

# Command -> another name of a setting: `labels` names a group, which Hydra would look for.
ALIASES: Mapping[str, Mapping[str, str]] = {"annotate": {"labels": "people"}}

# Each job of these leaves a summary in a folder of its own; a sweep merges them.
SWEEPABLE = ("evaluate", "fit")


class Components(Protocol):
    """Gives the settings of another choice of a group, composed with the job's own overrides."""

    def __call__(self, group: str, name: str) -> dict[str, Any]: ...

    def ahead(self, choices: Mapping[str, str]) -> None:
        """Compose these choices of several groups at once, which is faster than one by one."""


@dataclass(frozen=True)
class Context:
    """One job as the command line sees it: the composed settings, and how to get another choice of a group.

    suffix: what tells its folder from those of the other jobs of a sweep. label: the same for people.
    """

    config: Mapping[str, Any]
    choices: Mapping[str, str]
    component: Components
    multirun: bool
    suffix: str
    label: str = ""

    def folder(self, out: str, name: str = "run") -> str:
        """Where this job writes: `out`, or in a sweep a folder of its own below it, named by what was varied."""
        return f"{out}/{safe_name(name + self.suffix)}" if self.multirun else out


def run_all(command: str, contexts: Sequence[Context]) -> list[Outcome]:
    """Do the work of all jobs, together where the command can, and say what became of each.

    Raises: InputError where they cannot be told apart.
    """
    module = importlib.import_module(COMMANDS[command])
    together: Callable[[Sequence[Context]], list[Outcome]] | None = getattr(module, "run_all", None)
    return together(contexts) if together is not None else [_run(module, context) for context in contexts]


def _run(module: Any, context: Context) -> Outcome:
    try:
        return Outcome(str(module.run(context)))
    except (InputError, StageError) as error:
        return Outcome("", (Failed.by(context.label, error),))


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
