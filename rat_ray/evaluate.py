"""`rat-ray evaluate`: settings and configurations of one job, checked, then handed to the pipeline."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rat_ray.allocate import AllocationSettings
from rat_ray.annotate.judge import JudgeSettings
from rat_ray.annotate.labels import LabelSettings
from rat_ray.cluster import ClusterSettings, Resources
from rat_ray.datasets import DATASETS
from rat_ray.errors import InputError, did_you_mean
from rat_ray.generate import resolve
from rat_ray.generate.worker import GeneratorSettings
from rat_ray.model import DiagnosticsSettings, EngineSettings, Policy, Prior
from rat_ray.model.priors import judge_draws
from rat_ray.model.verdicts import PANEL, check_judge_model
from rat_ray.naming import safe_name
from rat_ray.retrieve import RETRIEVERS
from rat_ray.settings import build, check_given, conf_dir, fields_of
from rat_ray.store import StorageSettings

if TYPE_CHECKING:
    from rat_ray.commands import Context


@dataclass(frozen=True)
class Choice:
    """One configuration of an experiment: names of `conf/` options; empty means the job's own choice."""

    dataset: str = ""
    retriever: str = ""
    generator: str = ""


@dataclass(frozen=True)
class StageResources:
    """What one worker of each stage takes; see `conf/resources/`."""

    index: Resources = Resources()
    retrieve: Resources = Resources()
    generate: Resources = Resources()
    judge: Resources = Resources()
    label: Resources = Resources()
    fit: Resources = Resources()
    allocate: Resources = Resources()


@dataclass(frozen=True)
class EvaluateSettings:
    """Everything behind `conf/evaluate.yaml`. The dataclasses of dataset, retriever and generator depend on `kind`."""

    dataset: Any
    retriever: Any
    generator: Any
    judge: JudgeSettings
    labels: LabelSettings
    prior: Prior
    engine: EngineSettings
    diagnostics: DiagnosticsSettings
    policy: Policy
    allocation: AllocationSettings
    cluster: ClusterSettings
    storage: StorageSettings
    resources: StageResources
    out: str
    store: str
    seed: int
    judge_model: str = PANEL
    share_judges: bool = False
    configurations: list[Choice] = field(default_factory=list)

    def validate(self) -> None:
        check_given(out=self.out, store=self.store)
        check_judge_model(self.judge_model)
        judge_draws(self.prior)  # refuses a prior under which no judge is better than chance


@dataclass(frozen=True)
class Configuration:
    """One RAG system under evaluation, by the names of its parts."""

    name: str
    dataset: str
    retriever: str
    generator: str


class Plan(NamedTuple):
    """A checked job: its configurations and the settings of every part they name."""

    job: EvaluateSettings
    configurations: list[Configuration]
    datasets: dict[str, Any]
    retrievers: dict[str, Any]
    generators: dict[str, Any]
    out: Path
    sweep: bool = False


SETTINGS = EvaluateSettings
COMPONENTS = {
    "dataset": tuple(kind.settings for kind in DATASETS.values()),
    "retriever": tuple(kind.settings for kind in RETRIEVERS.values()),
    "generator": (GeneratorSettings,),
}
PROMPTS = conf_dir() / "prompt"


def make_plan(context: Context) -> Plan:
    """The job's plan. Raises InputError for whatever is wrong with the settings, before any work."""
    job = build(EvaluateSettings, context.config)
    if job.judge.variables:
        job = dataclasses.replace(job, judge=resolve(job.judge, PROMPTS))
    taken = sorted(set(job.judge.sources) & set(job.labels.rules))
    if taken:
        raise InputError(f"judge.name={job.judge.name}: {', '.join(taken)} is a rule; give the judge another name")
    dataclasses.replace(job.labels, judges=job.judge.sources).check_trusted()
    first = Choice(*(context.choices[group] for group in ("dataset", "retriever", "generator")))
    choices = [
        Choice(c.dataset or first.dataset, c.retriever or first.retriever, c.generator or first.generator)
        for c in job.configurations
    ] or [first]
    listed = len(choices) > 1
    components = _Components(context, first, listed or context.multirun)
    datasets = {name: components.build("dataset", name) for name in dict.fromkeys(c.dataset for c in choices)}
    generators = {name: components.build("generator", name) for name in dict.fromkeys(c.generator for c in choices)}
    retrievers: dict[str, Any] = {}
    for choice in choices:
        _add_retriever(choice.retriever, components, retrievers)
    configurations = [_configuration(choice, datasets, context, len(datasets) > 1) for choice in choices]
    names = [configuration.name for configuration in configurations]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InputError(f"configurations: {', '.join(doubled)} is listed twice")
    studied = job.allocation.configuration
    if job.allocation.enabled and studied and studied not in names:
        raise InputError(f"allocation.configuration={studied}: no such configuration{did_you_mean(studied, names)}")
    # A job of a sweep has a folder by the name of its configuration, which tells already what was varied.
    single = not listed and context.multirun
    out = Path(job.out) / names[0] if single else Path(context.folder(job.out))
    return Plan(job, configurations, datasets, retrievers, generators, out, context.multirun)


def _configuration(choice: Choice, datasets: Mapping[str, Any], context: Context, several: bool) -> Configuration:
    dataset = str(datasets[choice.dataset].name)
    words = [dataset] if several else []
    name = "-".join([*words, choice.retriever, choice.generator]) + context.suffix
    return Configuration(safe_name(name), choice.dataset, choice.retriever, choice.generator)


def _add_retriever(name: str, components: _Components, found: dict[str, Any]) -> None:
    """Build a retriever and, first, those that it fuses."""
    if name in found:
        return
    settings = components.build("retriever", name)
    for part in getattr(settings, "of", ()):
        if part == name:
            raise InputError(f"retriever {name}: cannot be one of its own parts")
        _add_retriever(part, components, found)
    found[name] = settings


class _Components:
    """Builds the dataclasses of dataset, retriever and generator by the names of their options."""

    def __init__(self, context: Context, chosen: Choice, listed: bool) -> None:
        self._context = context
        self._chosen = chosen
        self._listed = listed

    def build(self, group: str, name: str) -> Any:
        """The settings of one option; a generator's with its prompts and its model's identity, which enter the key."""
        is_main = name == getattr(self._chosen, group)
        data = dict(self._context.config[group] if is_main else self._context.component(group, name))
        strict = is_main and not self._listed
        if group == "generator":
            return resolve(build(GeneratorSettings, data, group), PROMPTS)
        kinds = {name: kind.settings for name, kind in (DATASETS if group == "dataset" else RETRIEVERS).items()}
        return _build_kind(group, kinds, data, strict)


def _build_kind(group: str, kinds: Mapping[str, type[Any]], data: dict[str, Any], strict: bool) -> Any:
    kind = str(data.get("kind", ""))
    if kind not in kinds:
        raise InputError(f"{group}.kind={kind!r}: unknown{did_you_mean(kind, kinds)}")
    if not strict:
        # An override such as retriever.k1=1.2 is meant for those of several retrievers that have a k1.
        elsewhere = {name for other in kinds.values() for name in fields_of(other)}
        known = fields_of(kinds[kind])
        data = {key: value for key, value in data.items() if key in known or key not in elsewhere}
    return build(kinds[kind], data, group)
