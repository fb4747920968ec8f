"""What each command takes and does. The command line (cli.py) composes settings; this file turns them into work."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from rat_ray import evaluate, fitting, reporting, study
from rat_ray.annotate import JudgeSettings
from rat_ray.datasets import DATASETS
from rat_ray.generate import GENERATORS
from rat_ray.model import EngineSettings
from rat_ray.retrieve import RETRIEVERS
from rat_ray.settings import conf_dir, fields_of

# The groups whose dataclass depends on `kind`; the others have one dataclass.
COMPONENTS: Mapping[str, tuple[type[Any], ...]] = {
    "dataset": tuple(kind.settings for kind in DATASETS.values()),
    "retriever": tuple(kind.settings for kind in RETRIEVERS.values()),
    "generator": tuple(kind.settings for kind in GENERATORS.values()),
    "judge": (JudgeSettings,),
    "engine": (EngineSettings,),
}


@dataclass(frozen=True)
class Context:
    """One job as the command line sees it: the composed settings, and how to get another choice of a group."""

    config: Mapping[str, Any]
    choices: Mapping[str, str]
    component: Callable[[str, str], dict[str, Any]]
    multirun: bool
    suffix: str
    safe_name: Callable[[str], str]


class Command(NamedTuple):
    settings: type[Any]
    run: Callable[[Context], str | None]


COMMANDS: Mapping[str, Command] = {
    "evaluate": Command(evaluate.EvaluateSettings, evaluate.run),
    "fit": Command(fitting.FitJobSettings, fitting.run),
    "allocate": Command(study.AllocateSettings, study.run),
    "report": Command(reporting.ReportSettings, reporting.run),
}


@cache
def groups() -> tuple[str, ...]:
    """The Hydra groups: the folders of conf/."""
    return tuple(sorted(path.name for path in conf_dir().iterdir() if path.is_dir()))


def known_settings(command: str) -> dict[str, Any]:
    """The tree of settings that a command knows: name -> subtree, or None where the value is free-form."""
    tree = _tree(COMMANDS[command].settings)
    for group, kinds in COMPONENTS.items():
        if group in tree:
            tree[group] = {name: value for kind in kinds for name, value in _tree(kind).items()}
    return tree


def _tree(kind: type[Any]) -> dict[str, Any]:
    return {
        name: _tree(hint) if dataclasses.is_dataclass(hint) and isinstance(hint, type) else None
        for name, hint in fields_of(kind).items()
    }
