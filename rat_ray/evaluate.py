"""`rat-ray evaluate`: settings and configurations of one job, checked, then handed to the pipeline."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rat_ray.allocate import AllocationSettings
from rat_ray.annotate.judge import JudgeSettings
from rat_ray.annotate.label_settings import LabelSettings
from rat_ray.annotate.people import read_people
from rat_ray.cluster import ClusterSettings, Resources
from rat_ray.datasets import DATASETS
from rat_ray.errors import InputError, did_you_mean
from rat_ray.fit_stages import COUNTING
from rat_ray.generate import revision
from rat_ray.generate.engine import PromptedSettings
from rat_ray.generate.prompts import load_prompts
from rat_ray.generate.worker import GeneratorSettings
from rat_ray.labelling.keep import read_back
from rat_ray.model import DiagnosticsSettings, EngineSettings, Policy, Prior
from rat_ray.model.priors import judge_draws
from rat_ray.model.verdicts import PANEL, check_judge_model
from rat_ray.naming import safe_name
from rat_ray.output import below
from rat_ray.retrieve.kinds import RETRIEVERS
from rat_ray.settings import build, check_given, conf_dir, fields_of
from rat_ray.store import StorageSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from rat_ray.commands import Context

_Prompted = TypeVar("_Prompted", bound=PromptedSettings)


@dataclass(frozen=True)
class Choice:
    """A configuration of an experiment: names of `conf/` options; empty means the job's own choice.

    A list of names stands for several configurations: every combination.
    """

    dataset: str | list[str] = ""
    retriever: str | list[str] = ""
    generator: str | list[str] = ""


@dataclass(frozen=True)
class StageResources:
    """What one worker of each stage takes; see `conf/resources/`.

    search_groups: 1: every worker that retrieves searches the whole index; n: the index's shards in n groups, each
    searched by workers of its own, for an index that does not fit one node. The lists are the same.
    """

    encode: Resources = Resources()
    index: Resources = Resources()
    retrieve: Resources = Resources()
    gather: Resources = Resources()
    rerank: Resources = Resources()
    search_groups: int = 1
    generate: Resources = Resources()
    judge: Resources = Resources()
    label: Resources = Resources()
    count: Resources = COUNTING
    fit: Resources = Resources()
    allocate: Resources = Resources()

    def validate(self) -> None:
        """Raise InputError for no group."""
        if self.search_groups < 1:
            raise InputError(f"resources.search_groups={self.search_groups}: give 1, or in how many groups")


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
    judges: list[str] = field(default_factory=list)
    data_dir: str = "data"
    dry_run: bool = False

    def validate(self) -> None:
        check_given(out=self.out, store=self.store, data_dir=self.data_dir)
        check_judge_model(self.judge_model)
        judge_draws(self.prior)  # refuses a prior under which no judge is better than chance


@dataclass(frozen=True)
class Configuration:
    """One RAG system under evaluation, by the names of its parts.

    retriever, generator: empty where the dataset brings the answers of a system that ran elsewhere.
    """

    name: str
    dataset: str
    retriever: str
    generator: str

    @property
    def answered(self) -> bool:
        """Whether the dataset brings its answers."""
        return not self.generator


class Plan(NamedTuple):
    """A checked job: its configurations and the settings of every part they name.

    judges: those that judge anything, with their prompts and models known. people: their labels, if any.
    name: what tells it from the other jobs of a sweep. missing: what must be there before it can run, and is not.
    """

    job: EvaluateSettings
    configurations: list[Configuration]
    datasets: dict[str, Any]
    retrievers: dict[str, Any]
    generators: dict[str, Any]
    judges: list[JudgeSettings]
    people: pa.Table | None
    out: str
    sweep: bool
    name: str
    missing: list[str]


SETTINGS = EvaluateSettings
COMPONENTS = {
    "dataset": tuple(kind.settings for kind in DATASETS.values()),
    "retriever": tuple(kind.settings for kind in RETRIEVERS.values()),
    "generator": (GeneratorSettings,),
}
PROMPTS = conf_dir() / "prompt"


def make_plan(context: Context) -> Plan:
    """The job's plan. Raises InputError for whatever is wrong with the settings, before any work.

    What is right and not there (a model's file, say) is listed in `missing`: the graph can be planned without it.
    Nothing is read for a dry run.
    """
    job = build(EvaluateSettings, context.config)
    identify = _Identify(read=not job.dry_run)
    judges = _judges(job, context, identify)
    people = _people(job)
    job = dataclasses.replace(job, labels=_labels(job.labels, judges, people))
    first = _Names(*(context.choices[group] for group in _Names._fields))
    choices = _combinations(job.configurations, first) or [first]
    listed = len(choices) > 1
    _compose_ahead(context, first, choices)
    components = _Components(context, first, listed or context.multirun, identify)
    datasets = {name: components.build("dataset", name) for name in dict.fromkeys(c.dataset for c in choices)}
    choices = _without_unused(choices, datasets)
    used = dict.fromkeys(c.generator for c in choices if c.generator)
    generators = {name: components.build("generator", name) for name in used}
    retrievers: dict[str, Any] = {}
    for choice in choices:
        if choice.retriever:
            _add_retriever(choice.retriever, components, retrievers)
    configurations = [_configuration(choice, datasets, context, len(datasets) > 1) for choice in choices]
    names = [configuration.name for configuration in configurations]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InputError(f"configurations: {', '.join(doubled)} is listed twice")
    if job.allocation.enabled:
        job.allocation.check_configurations(names)
    # A job of a sweep has a folder by the name of its configuration, which tells already what was varied.
    single = not listed and context.multirun
    out = below(job.out, names[0]) if single else context.folder(job.out)
    name = names[0] if single else safe_name(f"run{context.suffix}")
    return Plan(
        job=job,
        configurations=configurations,
        datasets=datasets,
        retrievers=retrievers,
        generators=generators,
        judges=judges,
        people=people,
        out=out,
        sweep=context.multirun,
        name=name,
        missing=sorted(identify.missing),
    )


def _people(job: EvaluateSettings) -> pa.Table | None:
    """The labels of the files of `labels.people`, here or on S3."""
    if not job.labels.people:
        return None
    return read_people(job.labels.people, lambda path: read_back(path, job.storage, "labels.people"))


def _judges(job: EvaluateSettings, context: Context, identify: _Identify) -> list[JudgeSettings]:
    """The job's judge and those of `judges`, but those that judge nothing. Raises InputError for two of one name."""
    more = [build(JudgeSettings, context.component("judge", name), f"judge {name}") for name in job.judges]
    judges = [judge for judge in (job.judge, *more) if judge.variables]
    sources = [source for judge in judges for source in judge.sources]
    doubled = sorted({source for source in sources if sources.count(source) > 1})
    if doubled:
        raise InputError(f"judges: {', '.join(doubled)} would be the column of two judges; give one another name=")
    return [identify(f"judge {judge.name}", judge) for judge in judges]


def _labels(labels: LabelSettings, judges: Sequence[JudgeSettings], people: pa.Table | None) -> LabelSettings:
    """With the judges' and people's columns known, and every trusted source checked."""
    sources = [source for judge in judges for source in judge.sources]
    labels = dataclasses.replace(labels.resolved(), judges=sources)
    if people is None:
        labels = labels.with_people([], [])
    else:
        labels = labels.with_people(
            *(sorted(set(people.column(name).to_pylist())) for name in ("variable", "annotator"))
        )
    taken = sorted(set(sources) & {*labels.rules, *labels.people_columns})
    if taken:
        raise InputError(f"judge.name: {', '.join(taken)} is no judge's column; give the judge another name")
    labels.check_trusted()
    return labels


def _without_unused(choices: Sequence[_Names], datasets: Mapping[str, Any]) -> list[_Names]:
    """No retriever and no generator where the dataset brings its answers."""
    answered = {name for name, settings in datasets.items() if DATASETS[settings.kind].answered}
    return list(dict.fromkeys(_Names(c.dataset, "", "") if c.dataset in answered else c for c in choices))


class _Names(NamedTuple):
    """The options that one configuration is made of."""

    dataset: str
    retriever: str
    generator: str


def _combinations(choices: Sequence[Choice], first: _Names) -> list[_Names]:
    """The configurations that are listed, what they leave open as the job chose it."""
    found = []
    for choice in choices:
        given = [getattr(choice, group) or [getattr(first, group)] for group in _Names._fields]
        found += [_Names(*names) for names in itertools.product(*([g] if isinstance(g, str) else g for g in given))]
    return found


def _compose_ahead(context: Context, first: _Names, choices: Sequence[_Names]) -> None:
    """Compose the options of all groups together: the first other one of each, then the second of each, …"""
    others = [
        [(group, name) for name in dict.fromkeys(getattr(c, group) for c in choices) if name != getattr(first, group)]
        for group in _Names._fields
    ]
    for together in itertools.zip_longest(*others):
        context.component.ahead(dict(pair for pair in together if pair is not None))


def _configuration(choice: _Names, datasets: Mapping[str, Any], context: Context, several: bool) -> Configuration:
    dataset = str(datasets[choice.dataset].name)
    words = [dataset] if several or not choice.generator else []
    name = "-".join(word for word in (*words, choice.retriever, choice.generator) if word) + context.suffix
    return Configuration(safe_name(name), choice.dataset, choice.retriever, choice.generator)


class _Identify:
    """Fills in what identifies a generator or judge: its prompts' texts and its model's revision, parts of the key."""

    def __init__(self, read: bool) -> None:
        """read: whether a model's file may be read to know it."""
        self._read = read
        self.missing: set[str] = set()

    def __call__(self, what: str, settings: _Prompted) -> _Prompted:
        """Raises InputError for a prompt set that is not there. A model that is not is kept in `missing`."""
        prompts = settings.prompts or load_prompts(settings.prompt, PROMPTS)
        return dataclasses.replace(settings, prompts=prompts, model_revision=self._revision(what, settings))

    def _revision(self, what: str, settings: PromptedSettings) -> str:
        try:
            known = revision(settings, self._read)
            if known is not None:
                return known
        except InputError as error:
            self.missing.add(f"{what}: {error}")
        return f"not read: {settings.model_path or settings.model}"


def _add_retriever(name: str, components: _Components, found: dict[str, Any], above: tuple[str, ...] = ()) -> None:
    """Build a retriever and, first, those whose lists it is made from. above: those that are made from it."""
    if name in above:
        raise InputError(f"retriever {name}: cannot be one of its own parts ({' of '.join([name, *reversed(above)])})")
    if name in found:
        return
    settings = components.build("retriever", name)
    for part in settings.parts():
        _add_retriever(part, components, found, (*above, name))
    # A model's weights are looked up once, here, and pinned: workers elsewhere must find the same.
    pin = getattr(settings, "resolved", None)
    found[name] = settings if pin is None else pin()


class _Components:
    """Builds the dataclasses of dataset, retriever and generator by the names of their options."""

    def __init__(self, context: Context, chosen: _Names, listed: bool, identify: _Identify) -> None:
        self._context = context
        self._chosen = chosen
        self._listed = listed
        self._identify = identify

    def build(self, group: str, name: str) -> Any:
        """The settings of one option; a generator's with its prompts and its model's identity, which enter the key."""
        is_main = name == getattr(self._chosen, group)
        data = dict(self._context.config[group] if is_main else self._context.component(group, name))
        strict = is_main and not self._listed
        if group == "generator":
            return self._identify(f"{group} {name}", build(GeneratorSettings, data, group))
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
