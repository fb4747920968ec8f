"""The command line: Hydra in, dataclasses out. Only this and our launcher know Hydra.

Settings are Hydra overrides (`key=value`); `-m` sweeps over comma-separated lists.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, cast

import hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

import rat_ray
from rat_ray import commands
from rat_ray.errors import InputError, StageError, did_you_mean, did_you_mean_inside, masked
from rat_ray.naming import swept_suffix
from rat_ray.outcome import Failed, Outcome, complaint, exit_code, failures, print_failures
from rat_ray.settings import build, conf_dir
from rat_ray.store import StorageSettings
from rat_ray.sweep import merge_summaries

# Values of these keys are often paths, which Hydra's grammar would trip over (spaces, brackets, equal signs).
_PATH_KEYS = ("data", "data_dir", "out", "store", "run", "people", "dataset.path", "generator.model_path")
# Lists of names that people write without brackets: by=model,dataset.
_LIST_KEYS = (
    *("by", "configs", "judges", "files", "filled", "strategies", "variables"),
    *("allocation.configurations", "allocation.quantities", "allocation.strategies"),
)
_USAGE = f"""rat-ray {rat_ray.__version__}: evaluate retrieval-augmented generation

  rat-ray evaluate experiment=quickstart          the whole job on the embedded demo
  rat-ray evaluate dataset=files dataset.path=DIR retriever=bm25 generator=gemma3_270m_policy
  rat-ray evaluate -m retriever=bm25,dense,hybrid generator=gemma3_270m_policy,gemma3_270m_eager
  rat-ray fit data=labels.csv out=DIR             labels in; posterior table and report out
  rat-ray compare run=OUT                         every two configurations on the same questions; ranks
  rat-ray allocate data=labels.csv                which labels tell most? (run=OUT, simulation=paper)
  rat-ray plan data=labels.csv goal=width quantity=p_g width=0.06   which items to label next? may I stop?
  rat-ray annotate export run=OUT out=DIR         the items to label next, for spreadsheets and Label Studio
  rat-ray annotate import run=OUT files=LABELLED people=FILE   labels back: checked, joined, kept in FILE
  rat-ray report run=OUT                          write the report of a finished run again
  rat-ray store show store=STORE                  the tables of a store, and where each came from
  rat-ray store gc store=STORE                    what no table needs: listed; delete=true removes it

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
    # `ray job stop` and a scheduler's end: leases are released and workers ended on the way out.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with contextlib.redirect_stderr(cast(IO[str], _Masked(sys.stderr))):
            return _attempt(command, rest)
    finally:
        signal.signal(signal.SIGTERM, before)


def _attempt(command: str, arguments: list[str]) -> int:
    try:
        if command not in commands.COMMANDS:
            raise InputError(f"no command {command!r}{did_you_mean(command, commands.COMMANDS)}")
        return _run_hydra(command, _word_as_setting(command, arguments))
    except InputError as error:
        return _complain(error, 2)
    except StageError as error:
        return _complain(error, 1)
    except KeyboardInterrupt:
        return _complain("interrupted; what is complete is kept, run the same command again", 130)


class _Masked:
    """stderr without credentials in addresses: what refuses a setting repeats it, Hydra all of them."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return int(self._stream.write(masked(text)))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _word_as_setting(command: str, arguments: list[str]) -> list[str]:
    """`rat-ray store gc …` as `rat-ray store action=gc …`. Raises InputError for a word that the command has not."""
    for alias, name in commands.ALIASES.get(command, {}).items():
        arguments = [f"{name}{one.removeprefix(alias)}" if one.startswith(f"{alias}=") else one for one in arguments]
    if command not in commands.WORDS or not arguments or not arguments[0].isidentifier():
        return arguments
    setting, words = commands.WORDS[command]
    if arguments[0] not in words:
        raise InputError(f"rat-ray {command} {arguments[0]}: no such word{did_you_mean(arguments[0], words)}")
    return [f"{setting}={arguments[0]}", *arguments[1:]]


def _complain(error: Exception | str, code: int) -> int:
    print(f"error: {error}", file=sys.stderr)
    return code


def _run_hydra(command: str, arguments: list[str]) -> int:
    known = commands.known_settings(command)
    multirun = bool({"-m", "--multirun", "hydra.mode=MULTIRUN"} & set(arguments))
    checked = [_checked(argument, known, multirun) for argument in arguments]
    launch = Launch(command, _swept(checked))
    decorated = hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name=command)(launch)
    before = sys.argv
    try:
        with tempfile.TemporaryDirectory() as scratch, _errors_raised():
            # A multirun always saves a multirun.yaml: not in the user's folder, over a file of that name.
            own = [f"hydra.sweep.dir={_quoted(scratch)}"] if multirun else []
            own = [] if any(argument.startswith("hydra.sweep.dir=") for argument in checked) else own
            # argparse wants the settings together: `data=x -m seed=1,2` would be refused.
            sys.argv = ["rat-ray", *sorted([*own, *checked], key=_is_setting)]
            decorated()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except (InputError, StageError):
        if not launch.outcomes:
            raise
    except (HydraException, OmegaConfBaseException) as error:
        raise InputError(_plainly(error)) from error
    except ValueError as error:
        if launch.contexts:
            raise
        raise InputError(str(error)) from error  # Hydra's, of options that do not go together
    finally:
        sys.argv = before
    return launch.conclude(multirun)


@contextlib.contextmanager
def _errors_raised() -> Iterator[None]:
    """Let Hydra raise what is wrong; by itself it would print it in its own way and end the process."""
    name = "HYDRA_FULL_ERROR"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _plainly(error: Exception) -> str:
    """Hydra's and OmegaConf's errors in one line, with a suggestion where a choice is misspelt."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        group, _, name = error.missing_cfg_file.rpartition("/")
        return f"{group}={name}: no such choice{did_you_mean(name, error.options)}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, OmegaConfBaseException):
        return f"cannot fill in a ${{…}} of the settings: {lines[0]}"
    return "; ".join(line for line in lines if not line.startswith("See https://"))


class Launch:
    """What Hydra is given to call: with one composed job in a plain run, or by our launcher with all of a sweep."""

    def __init__(self, command: str, swept: Sequence[str]) -> None:
        self._command = command
        self._swept = swept
        self.contexts: list[commands.Context] = []
        self.outcomes: list[Outcome] = []

    def __call__(self, config: DictConfig) -> str:
        """Run one job. In a sweep by another launcher its failure is raised, so that the launcher knows."""
        from hydra.core.hydra_config import HydraConfig
        from hydra.types import RunMode

        [outcome] = self._run([self._context(config, HydraConfig.get())])
        if outcome.failed and HydraConfig.get().mode == RunMode.MULTIRUN:
            raise outcome.error
        return outcome.out

    def together(self, configs: Sequence[DictConfig]) -> list[Outcome]:
        """Run the jobs of a sweep; each configuration with its `hydra` node."""
        from hydra.core.hydra_config import HydraConfig

        singleton = HydraConfig.instance()
        before = singleton.cfg
        try:
            contexts = []
            for config in configs:
                singleton.set_config(config)
                own = OmegaConf.masked_copy(config, [str(name) for name in config if name != "hydra"])
                contexts.append(self._context(own, config.hydra))
            return self._run(contexts)
        finally:
            singleton.cfg = before

    def conclude(self, multirun: bool) -> int:
        """Merge the summaries of a sweep, say what failed, and give the exit code."""
        failed = failures(self.outcomes)
        worked = any(outcome.out for outcome in self.outcomes) or not all(one.early for one in failed)
        if multirun and self._command in commands.SWEEPABLE and worked:
            places = {context.config["out"]: context.config.get("storage") for context in self.contexts}
            for place, storage in places.items():
                merge_summaries(place, build(StorageSettings, storage, "storage"), failed)
        print_failures(self.outcomes)
        if failed:
            sys.stdout.flush()
            print(f"error: {complaint(self.outcomes)}", file=sys.stderr)
        return exit_code(self.outcomes)

    def _run(self, contexts: Sequence[commands.Context | Outcome]) -> list[Outcome]:
        good = [context for context in contexts if isinstance(context, commands.Context)]
        self.contexts += good
        made = iter(commands.run_all(self._command, good))
        found = [next(made) if isinstance(context, commands.Context) else context for context in contexts]
        self.outcomes += found
        return found

    def _context(self, config: DictConfig, facts: Any) -> commands.Context | Outcome:
        """The job as the commands see it, or why it cannot be filled in. facts: the `hydra` node."""
        from hydra.types import RunMode

        written = OmegaConf.to_container(facts.overrides.task, resolve=False)  # as typed: a ${…} is not ours to fill in
        assert isinstance(written, list)
        overrides = [str(override) for override in written]
        multirun = facts.mode == RunMode.MULTIRUN
        varied = [o for o in overrides if o.lstrip("+~").partition("=")[0] in self._swept]
        label = masked(", ".join(override.lstrip("+") for override in varied)) or self._command
        try:
            plain = to_plain(config)
        except OmegaConfBaseException as error:
            return Outcome("", (Failed(label, _plainly(error), bad_input=True, early=True),))
        return commands.Context(
            config=plain,
            choices={str(group): str(choice) for group, choice in facts.runtime.choices.items()},
            component=_Composer(self._command, overrides),
            multirun=multirun,
            suffix=swept_suffix(overrides, self._swept) if multirun else "",
            label=label,
        )


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
            groups = {group: inner for group, inner in level.items() if isinstance(inner, Mapping)}
            raise InputError(f"{name}: {where}no setting {word!r}{did_you_mean_inside(word, choices, groups)}")
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


def to_plain(config: DictConfig) -> dict[str, Any]:
    """The composed configuration as plain dicts and lists, interpolations resolved."""
    plain = OmegaConf.to_container(config, resolve=True)
    assert isinstance(plain, dict)
    return {str(name): value for name, value in plain.items()}


class _Composer:
    """How a job that runs several configurations gets each of its components: compose again with that choice."""

    def __init__(self, command: str, overrides: Sequence[str]) -> None:
        self._command = command
        self._overrides = overrides
        self._found: dict[tuple[str, str], dict[str, Any]] = {}

    def __call__(self, group: str, name: str) -> dict[str, Any]:
        if (group, name) not in self._found:
            self._compose({group: name})
        return self._found[(group, name)]

    def ahead(self, choices: Mapping[str, str]) -> None:
        """Compose these choices of several groups at once; what is wrong with one is told when it is asked for."""
        with contextlib.suppress(InputError, HydraException, OmegaConfBaseException):
            self._compose(choices)

    def _compose(self, choices: Mapping[str, str]) -> None:
        kept = [o for o in self._overrides if o.lstrip("+").partition("=")[0] not in choices]
        try:
            chosen = [f"{group}={name}" for group, name in choices.items()]
            composed = to_plain(hydra.compose(self._command, overrides=[*kept, *chosen]))
        except MissingConfigException as error:
            raise InputError(_plainly(error)) from error
        self._found.update({(group, name): composed[group] for group, name in choices.items()})
