"""The command line: Hydra in, dataclasses out. Nothing else knows Hydra.

Settings are Hydra overrides (`key=value`); `-m` sweeps over comma-separated lists.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

import rat_ray
from rat_ray import commands
from rat_ray.errors import InputError, StageError, did_you_mean
from rat_ray.naming import swept_suffix
from rat_ray.settings import conf_dir
from rat_ray.sweep import merge_summaries

# Values of these keys are often paths, which Hydra's grammar would trip over (spaces, brackets, equal signs).
_PATH_KEYS = ("data", "out", "store", "run", "dataset.path", "generator.model_path")
# Lists of names that people write without brackets: by=model,dataset.
_LIST_KEYS = ("by", "configs", "judges")
_USAGE = f"""rat-ray {rat_ray.__version__}: evaluate retrieval-augmented generation

  rat-ray evaluate experiment=quickstart          the whole job on the embedded demo
  rat-ray evaluate dataset=files dataset.path=DIR retriever=bm25 generator=gemma3_270m_policy
  rat-ray evaluate -m retriever=bm25,dense,hybrid generator=gemma3_270m_policy,gemma3_270m_eager
  rat-ray fit data=labels.csv out=DIR             labels in; posterior table and report out
  rat-ray compare run=OUT                         every two configurations on the same questions; ranks
  rat-ray allocate run=OUT                        which labels tell most? a study on a finished run
  rat-ray report run=OUT                          write the report of a finished run again

`rat-ray COMMAND --help` shows the settings of a command, `--cfg job` what it would run with."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code: 0 done, 1 failed, 2 bad input."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_USAGE)
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        print(f"rat-ray {rat_ray.__version__}")
        return 0
    command, *rest = arguments
    try:
        if command not in commands.COMMANDS:
            raise InputError(f"no command {command!r}{did_you_mean(command, commands.COMMANDS)}")
        return _run_hydra(command, rest)
    except InputError as error:
        return _complain(error, 2)
    except StageError as error:
        return _complain(error, 1)


def _complain(error: Exception, code: int) -> int:
    print(f"error: {error}", file=sys.stderr)
    return code


def _run_hydra(command: str, arguments: list[str]) -> int:
    known = commands.known_settings(command)
    multirun = bool({"-m", "--multirun"} & set(arguments))
    checked = [_checked(argument, known, multirun) for argument in arguments]
    swept = _swept(checked)
    failure: list[tuple[Exception, int]] = []
    written: list[str] = []

    def task(config: DictConfig) -> str:
        try:
            written.append(_task(command, config, swept))
            return written[-1]
        except InputError as error:
            failure.append((error, 2))
        except StageError as error:
            failure.append((error, 1))
        except OmegaConfBaseException as error:
            why = str(error).splitlines()[0]
            failure.append((InputError(f"cannot fill in a ${{…}} of the settings: {why}"), 2))
        # Not an Exception: Hydra would print a traceback; the message was kept for main().
        raise SystemExit(failure[-1][1])

    decorated = hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name=command)(task)
    before = sys.argv
    try:
        with tempfile.TemporaryDirectory() as scratch:
            # A multirun always saves a multirun.yaml: not in the user's folder, over a file of that name.
            own = [f"hydra.sweep.dir={_quoted(scratch)}"] if multirun else []
            # argparse wants the settings together: `data=x -m seed=1,2` would be refused.
            sys.argv = ["rat-ray", *sorted([*own, *checked], key=_is_setting)]
            decorated()
    except SystemExit as stop:
        if failure:
            return _complain(*failure[-1])
        return stop.code if isinstance(stop.code, int) else 1
    finally:
        sys.argv = before
    if multirun and written and command in commands.SWEEPABLE:
        merge_summaries(Path(written[-1]).parent)
    return 0


def _is_setting(argument: str) -> bool:
    return argument.startswith("~") or ("=" in argument and not argument.startswith("-"))


def _checked(argument: str, known: Mapping[str, Any], multirun: bool) -> str:
    """One argument as Hydra shall see it: its key checked against our settings, `++` added, paths quoted."""
    if argument.startswith("-") or "=" not in argument or argument.startswith("~"):
        return argument
    key, _, value = argument.partition("=")
    name = key.lstrip("+")
    if name.split(".")[0].split("/")[0].split("@")[0] == "hydra":
        return argument
    if name in commands.groups() and value in ("", "null"):
        raise InputError(f"{argument}: name a choice; `rat-ray COMMAND --help` lists them")
    if name in commands.groups() and (name not in known or not _is_group_value(known, name)):
        return argument
    _check_key(name, known)
    if name in commands.groups():
        return argument
    sweeps = multirun and "," in value
    if name in _PATH_KEYS and not sweeps and not value.startswith(("'", '"', "${")):
        value = _quoted(value)
    if name in _LIST_KEYS and value and not sweeps and not value.startswith(("[", "'", '"', "${")):
        value = f"[{','.join(_quoted(word.strip()) for word in value.split(','))}]"
    return f"++{name}={value}"


def _quoted(value: str) -> str:
    """In Hydra's single quotes, in which a backslash is special before a quote only."""
    escaped = re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), value)
    return f"'{escaped}'"


def _is_group_value(known: Mapping[str, Any], name: str) -> bool:
    return isinstance(known.get(name), Mapping)


def _check_key(name: str, known: Mapping[str, Any]) -> None:
    level: Any = known
    walked: list[str] = []
    for word in name.split("."):
        if not isinstance(level, Mapping):
            if level is None:
                return  # a free-form mapping or list: checked when the dataclass is built
            raise InputError(f"{name}: {'.'.join(walked)} is a single value, it has no {word!r}")
        if word not in level:
            where = f"{'.'.join(walked)}: " if walked else ""
            choices = [*level, *([] if walked else commands.groups())]
            raise InputError(f"{name}: {where}no setting {word!r}{did_you_mean(word, choices)}")
        level = level[word]
        walked.append(word)


def _swept(arguments: Sequence[str]) -> list[str]:
    """The keys that a multirun varies."""
    texts = [argument for argument in arguments if "=" in argument and not argument.startswith("-")]
    try:
        parsed: list[Override] = OverridesParser.create().parse_overrides(texts)
    except HydraException as error:
        raise InputError(f"cannot read the settings: {error}; put values with special characters in quotes") from error
    return [override.key_or_group for override in parsed if override.is_sweep_override()]


def _task(command: str, config: DictConfig, swept: Sequence[str]) -> str:
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    facts = HydraConfig.get()
    choices = {str(group): str(choice) for group, choice in facts.runtime.choices.items()}
    overrides = list(facts.overrides.task)
    multirun = facts.mode == RunMode.MULTIRUN
    context = commands.Context(
        config=to_plain(config),
        choices=choices,
        component=_composer(command, overrides),
        multirun=multirun,
        suffix=swept_suffix(overrides, swept) if multirun else "",
    )
    return commands.run(command, context)


def to_plain(config: DictConfig) -> dict[str, Any]:
    """The composed configuration as plain dicts and lists, interpolations resolved."""
    plain = OmegaConf.to_container(config, resolve=True)
    assert isinstance(plain, dict)
    return {str(name): value for name, value in plain.items()}


def _composer(command: str, overrides: Sequence[str]) -> Callable[[str, str], dict[str, Any]]:
    """How a job that runs several configurations gets each of its components: compose again with that choice."""

    def component(group: str, name: str) -> dict[str, Any]:
        kept = [o for o in overrides if o.lstrip("+").partition("=")[0] != group]
        try:
            composed = hydra.compose(command, overrides=[*kept, f"{group}={name}"])
        except MissingConfigException as error:
            raise InputError(f"{group}={name}: no such choice{did_you_mean(name, error.options or ())}") from error
        return to_plain(composed)[group]  # type: ignore[no-any-return]

    return component
