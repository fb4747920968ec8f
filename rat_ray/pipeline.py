"""`rat-ray evaluate`: all jobs of a sweep as one graph, checked, run level by level, and written to each `out`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from rat_ray.allocate.study import is_small
from rat_ray.datasets import DATASETS, Source, load, recall_source
from rat_ray.errors import InputError, StageError, masked
from rat_ray.evaluate import COMPONENTS, SETTINGS, Configuration, Plan, make_plan
from rat_ray.export import export
from rat_ray.fit_stages import SUMMARIES_HERE, Fitted, check_engine
from rat_ray.generate.prompts import FALLBACK_SHAPE
from rat_ray.graph import Graph, NotKnownError, Walk
from rat_ray.keys import digest_of, key_of
from rat_ray.outcome import Failed, Outcome, check_folders, grouped, print_refused
from rat_ray.output import OutFolder
from rat_ray.planning import print_plan, print_prompts
from rat_ray.progress import console, duration
from rat_ray.prompt_preview import Example, first_prompts
from rat_ray.retrieve.measures import recall_in_words
from rat_ray.stage import Stage, StageRecord
from rat_ray.stages_of import EvaluationNodes, declare, people_key
from rat_ray.store import Store, Table
from rat_ray.together import run_together

if TYPE_CHECKING:
    from rat_ray.commands import Context

__all__ = ["COMPONENTS", "SETTINGS", "Pipeline", "run_all"]
SMALL_ROWS = 20_000  # labelling and counting fewer rows than this takes less time here than a task on Ray
_BY_ROWS = ("fuse", "gather", "measure", "contexts", "label", "count")


class Imported(NamedTuple):
    """A dataset in the store."""

    source: Source
    passages: Table
    questions: Table


@dataclass
class Results:
    """The committed tables of a job, by configuration name where there is one per configuration.

    failed: the configurations without a fit, and why.
    """

    datasets: dict[str, Imported] = field(default_factory=dict)
    answers: dict[str, Table] = field(default_factory=dict)
    given: dict[str, Table] = field(default_factory=dict)
    verdicts: dict[str, dict[str, Table]] = field(default_factory=dict)
    annotations: dict[str, Table] = field(default_factory=dict)
    relevance: dict[str, Table] = field(default_factory=dict)
    fitted: dict[str, Fitted] = field(default_factory=dict)
    allocation: dict[str, Table] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


class Sources:
    """The datasets of all jobs by their settings, each opened once."""

    def __init__(self, open_source: Callable[[Any], Source | None]) -> None:
        self._open = open_source
        self._found: dict[str, Source | None] = {}

    def __call__(self, settings: Any) -> Source:
        """Raises: NotKnownError where it cannot be known without reading."""
        name = digest_of(key_of(settings))
        if name not in self._found:
            self._found[name] = self._open(settings)
        found = self._found[name]
        if found is None:
            raise NotKnownError(f"dataset {settings.name} has not been read yet")
        return found


class Pipeline:
    """One job: its graph, its checks, and its results once the graph was run."""

    def __init__(self, plan: Plan, sources: Sources) -> None:
        """Declares the graph. Raises InputError for settings that do not go together, or a bad prompt."""
        self.plan = plan
        self.job = plan.job
        self.graph = Graph()
        self.store = Store(self.job.store, self.job.storage)
        self.results = Results()
        self._sources = sources
        self._nodes: EvaluationNodes = declare(self.graph, plan, sources)
        first_prompts(plan.generators, plan.judges, ())  # a bad template is known before any work

    @property
    def place(self) -> tuple[Any, ...]:
        """Jobs of one place run together."""
        return self.store.root, self.job.storage, self.job.cluster

    @property
    def name(self) -> str:
        """What the job is called in messages."""
        return self.plan.name

    @property
    def size(self) -> int:
        """How many configurations it has."""
        return len(self.plan.configurations)

    @property
    def missing(self) -> list[str]:
        """What must be there before the job can run, and is not: datasets and models, a sentence each."""
        found = []
        for settings in self.plan.datasets.values():
            try:
                DATASETS[settings.kind].files(settings)
            except InputError as error:
                found.append(f"dataset {settings.name}: {error}" if len(self.plan.datasets) > 1 else str(error))
        return [*found, *self.plan.missing]

    def check(self) -> None:
        """Raise InputError for whatever keeps the job from running. Writes nothing; reads the datasets."""
        missing = self.missing
        if missing:
            raise InputError(missing[0] if len(missing) == 1 else "not there yet:\n  " + "\n  ".join(missing))
        check_engine(self.job.engine)
        self.out.check()

    @cached_property
    def out(self) -> OutFolder:
        """Where the results go. Reads the datasets, whose content says whether a folder is this job's own."""
        storage = self.job.storage
        return OutFolder(self.plan.out, self._own_settings(), "evaluate", in_sweep=self.plan.sweep, storage=storage)

    def _own_settings(self) -> dict[str, Any]:
        """What makes two jobs the same job: all settings but where and how fast they run."""
        job = self.job
        sources = {name: self._sources(settings) for name, settings in self.plan.datasets.items()}
        return {
            "configurations": [dataclasses.asdict(c) for c in self.plan.configurations],
            "datasets": key_of(self.plan.datasets),
            "sources": {name: source.digest for name, source in sources.items()},
            "retrievers": key_of(self.plan.retrievers),
            "generators": key_of(self.plan.generators),
            "judges": {source: key_of(judge) for judge in self.plan.judges for source in judge.sources},
            "people": None if self.plan.people is None else people_key(self.plan.people),
            "labels": key_of(job.labels),
            "prior": key_of(job.prior),
            "engine": key_of(job.engine),
            "diagnostics": key_of(job.diagnostics),
            "judge_model": job.judge_model,
            "share_judges": job.share_judges,
            "policy": key_of(job.policy),
            "allocation": key_of(job.allocation),
            "seed": job.seed,
        }

    def prompts(self, walk: Walk) -> list[tuple[str, str]]:
        """The first prompts that the job would ask, each with what it is; of a real question if the store has one."""
        shapes = sorted({str(getattr(one, "shape", "") or FALLBACK_SHAPE) for one in self.plan.datasets.values()})
        example = self._example(walk)
        return first_prompts(self.plan.generators, self.plan.judges, [] if example else shapes, example)

    def _example(self, walk: Walk) -> Example | None:
        first = self.plan.configurations[0]
        questions = walk.tables.get(self._nodes.datasets[first.dataset].questions)
        if questions is None or not questions.num_rows:
            return None
        [asked] = questions.read_range(0, 1).to_pylist()
        answers, given = (walk.tables.get(nodes[first.name]) for nodes in (self._nodes.answers, self._nodes.given))
        passages = None
        if answers is not None and given is not None:
            ids = answers.read_range(0, 1).column("context_ids")[0].as_py() or []
            rows = given.read()
            known = {row["passage_id"]: (row["title"], row["text"]) for row in rows.to_pylist()}
            passages = [known[name] for name in ids]
        return Example(asked["question"], asked["shape"], passages, asked["answers"] or ())

    # --- results ------------------------------------------------------------------------------------------------

    def finish(self, walk: Walk, records: Sequence[StageRecord]) -> Outcome:
        """Write what there is to `out`: every configuration that is whole; the others are named with their reasons."""
        failed = self._collect(walk)
        if not self.results.fitted:
            self.out.finish({"status": "failed", "failed": self.results.failed})
            return Outcome("", tuple(failed), self.size)
        export(self, records)
        return Outcome(self.out.url, tuple(failed), self.size)

    def _collect(self, walk: Walk) -> list[Failed]:
        results, found = self.results, walk.tables
        for name, dataset in self._nodes.datasets.items():
            if all(node in found for node in dataset):
                source = self._sources(self.plan.datasets[name])
                results.datasets[name] = Imported(source, *(found[node] for node in dataset))
        failed = []
        for configuration in self.plan.configurations:
            name = configuration.name
            if self._nodes.annotations[name] in found:
                results.annotations[name] = found[self._nodes.annotations[name]]
                results.answers[name] = found[self._nodes.answers[name]]
                results.given[name] = found[self._nodes.given[name]]
                verdicts = self._nodes.verdicts[name]
                results.verdicts[name] = {judge: found[node] for judge, node in verdicts.items()}
                self._measured(walk, configuration)
            failure = walk.why(*self._nodes.fits[name])
            if failure is None:
                results.fitted[name] = self._nodes.fits[name].tables(walk)
                continue
            message = masked(failure.message)
            failed.append(Failed(name, message, failure.bad_input))
            results.failed[name] = message
            results.notes.append(f"WARNING: {name} is not in the results: {_first_line(message)}")
        self._recalled(walk)
        return [*failed, *self._allocation(walk)]

    def _measured(self, walk: Walk, configuration: Configuration) -> None:
        if configuration.answered:
            return
        node = self._nodes.relevance[configuration.dataset, configuration.retriever]
        failure = walk.why(node)
        if failure is None:
            self.results.relevance[configuration.name] = walk.tables[node]
            return
        text = f"WARNING: no measures of {configuration.name}'s retrieval: {_first_line(failure.message)}"
        self.results.notes.append(text)

    def _recalled(self, walk: Walk) -> None:
        """What approximate indexes find of the exact lists, in words."""
        for (dataset, retriever), node in self._nodes.recalls.items():
            name, failure = f"{self.plan.datasets[dataset].name} {retriever}", walk.why(node)
            if failure is None:
                self.results.notes.append(f"{name}: {recall_in_words(walk.tables[node].read())}")
            else:
                self.results.notes.append(f"WARNING: {name}: recall not known: {_first_line(failure.message)}")

    def _allocation(self, walk: Walk) -> list[Failed]:
        failed = []
        for config, node in self._nodes.allocation.items():
            failure = walk.why(node)
            if failure is None:
                self.results.allocation[config] = walk.tables[node]
                continue
            # Bad input, such as a system that answered nothing: the fits are still worth having.
            self.results.notes.append(f"WARNING: no allocation study of {config}: {_first_line(failure.message)}")
            if failure.bad_input or config in self.results.failed:
                continue
            self.results.failed[f"allocation of {config}"] = failure.message
            failed.append(Failed(f"allocation of {config}", failure.message, False))
        return failed


def run_all(contexts: Sequence[Context]) -> list[Outcome]:
    """All jobs of a sweep, or the one of a plain run: check them all, then do the work of those that can be done.

    Raises: InputError where two jobs would write to one folder. StageError where the cluster or the store is lost.
    """
    began = time.monotonic()
    dry = any(context.config.get("dry_run") for context in contexts)
    sources = Sources(recall_source if dry else load)
    outcomes: list[Outcome] = [Outcome("")] * len(contexts)
    pipelines: dict[int, Pipeline] = {}
    for index, context in enumerate(contexts):
        try:
            pipelines[index] = Pipeline(make_plan(context), sources)
        except (InputError, StageError) as error:  # a server that fails when asked for its models
            outcomes[index] = Outcome("", (Failed.by(context.label, error, early=True),))
    check_folders([pipeline.plan.out for pipeline in pipelines.values()])
    places = {index: pipeline.place for index, pipeline in pipelines.items()}
    if dry:
        for indices in grouped(places):
            _print_plan([pipelines[index] for index in indices])
        return outcomes
    for index, pipeline in list(pipelines.items()):
        try:
            pipeline.check()
        except InputError as error:
            outcomes[index] = _refused(pipelines.pop(index), error)
    print_refused(outcomes, len(pipelines))
    records: list[StageRecord] = []
    for indices in grouped({index: places[index] for index in pipelines}):
        for index, outcome in _run({index: pipelines[index] for index in indices}, records).items():
            outcomes[index] = outcome
    _say_what_was_done(records, time.monotonic() - began)
    return outcomes


def _refused(pipeline: Pipeline, error: InputError) -> Outcome:
    names = [configuration.name for configuration in pipeline.plan.configurations]
    return Outcome("", tuple(Failed.by(name, error, early=True) for name in names), len(names))


def _run(pipelines: dict[int, Pipeline], records: list[StageRecord]) -> dict[int, Outcome]:
    """Run jobs that share a store and a cluster as one graph."""
    outcomes: dict[int, Outcome] = {}
    first = next(iter(pipelines.values()))
    try:
        first.store.prepare()
    except InputError as error:
        return {index: _refused(pipeline, error) for index, pipeline in pipelines.items()}
    for index, pipeline in list(pipelines.items()):
        try:
            pipeline.out.claim()
        except InputError as error:
            outcomes[index] = _refused(pipelines.pop(index), error)
    finished, done = run_together(pipelines, first.job.cluster, first.store, first.job.seed, _small)
    records += done
    return outcomes | finished


def _small(level: str, stages: Sequence[Stage]) -> bool:
    """Whether these stages are cheap enough for this process."""
    if level in _BY_ROWS:
        return sum(stage.num_rows for stage in stages) <= SMALL_ROWS
    if level == "allocate":
        return is_small(stages)
    return level == "summarise" and len(stages) <= 2 * SUMMARIES_HERE


def _say_what_was_done(records: Sequence[StageRecord], seconds: float) -> None:
    if not records:
        return
    made = sum(1 for record in records if record.new_rows)
    text = f"{len(records)} stages: {made} computed, {len(records) - made} reused, in {duration(seconds)}"
    console().print(text, highlight=False, soft_wrap=True)


def _print_plan(pipelines: Sequence[Pipeline]) -> None:
    """What these jobs would do, as far as it can be known without opening anything."""
    graph = Graph()
    for pipeline in pipelines:
        graph.include(pipeline.graph)
    walk = Walk(graph)
    store, unreachable = pipelines[0].store, ""
    try:
        store.objects.look()
    except InputError as error:
        unreachable = masked(str(error))
    else:
        walk.find(store)
    missing = dict.fromkeys(text for pipeline in pipelines for text in pipeline.missing)
    configurations = sum(len(pipeline.plan.configurations) for pipeline in pipelines)
    print_plan(graph, walk, configurations, store.root, [masked(text) for text in missing], unreachable)
    print_prompts(dict(prompt for pipeline in pipelines for prompt in pipeline.prompts(walk)))


def _first_line(message: str) -> str:
    return message.strip().splitlines()[0]
