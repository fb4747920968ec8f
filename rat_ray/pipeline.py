"""The graph of an evaluation: each arrow of the design is a stage, run level by level over all configurations.

Stages with equal content (an index, a retrieval, a judge's verdicts on equal contexts) have equal keys and run once.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from rat_ray import tables
from rat_ray.annotate.contexts import ContextsWorker
from rat_ray.annotate.judge import JudgeR, JudgeSettings, JudgeT
from rat_ray.annotate.labels import AnnotateWorker, judge_columns
from rat_ray.cluster import Cluster
from rat_ray.datasets import Source, load
from rat_ray.errors import InputError, StageError
from rat_ray.evaluate import COMPONENTS, SETTINGS, Configuration, Plan, make_plan
from rat_ray.export import export
from rat_ray.fitting import Fitted, fit_tables
from rat_ray.generate.worker import GenerateWorker
from rat_ray.keys import digest_of, key_of
from rat_ray.output import OutFolder
from rat_ray.progress import console, duration
from rat_ray.retrieve import RETRIEVERS
from rat_ray.stage import Runs, Stage, import_table
from rat_ray.store import Store, Table
from rat_ray.study import run_study

if TYPE_CHECKING:
    from rat_ray.commands import Context

__all__ = ["COMPONENTS", "SETTINGS", "Pipeline", "run"]
SMALL_ROWS = 20_000  # labelling and counting fewer rows than this takes less time here than a task on Ray


def _batches_of(source: Source) -> Callable[[], Iterator[pa.Table]]:
    return lambda: iter([source.questions()])


def _some_succeeded(annotations: Table) -> bool:
    return bool(annotations.read(["error"]).column("error").null_count)


def _first_error(annotations: Mapping[str, Table]) -> str:
    first = next(iter(annotations.values())).read(["question_id", "error"]).to_pylist()[0]
    return f"question {first['question_id']}: {first['error']}"


class Imported(NamedTuple):
    """A dataset in the store."""

    source: Source
    passages: Table
    questions: Table


@dataclass
class Results:
    """The committed tables of a job, by configuration name where there is one per configuration."""

    datasets: dict[str, Imported] = field(default_factory=dict)
    retrievals: dict[tuple[str, str], Table] = field(default_factory=dict)
    answers: dict[str, Table] = field(default_factory=dict)
    verdicts: dict[str, dict[str, Table]] = field(default_factory=dict)
    annotations: dict[str, Table] = field(default_factory=dict)
    fitted: dict[str, Fitted] = field(default_factory=dict)
    allocation: Table | None = None
    notes: list[str] = field(default_factory=list)


class Pipeline:
    """Runs a plan: every level of the graph, then the files of `out`."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.job = plan.job
        self.sources = {name: load(settings) for name, settings in plan.datasets.items()}
        self.out = OutFolder(plan.out, self._own_settings(), kind="evaluate", in_sweep=plan.sweep)
        self.store = Store(self.job.store, self.job.storage)
        self.results = Results()
        self.began = time.monotonic()

    def run(self) -> Path:
        """Do the whole job and print its table. Bad input raises InputError before anything is written."""
        self.out.check()
        self.store.prepare()
        self.out.claim()
        with Cluster(self.job.cluster, keep=self.plan.sweep) as cluster:
            runs = Runs(self.store, cluster, seed=self.job.seed)
            self._import()
            self._retrieve(runs)
            self._answer(runs)
            self._judge(runs)
            self._annotate(runs)
            self._fit(runs)
            self._allocate(runs)
        export(self, runs.records)
        self._say_what_was_done(runs)
        return self.out.path

    def _own_settings(self) -> dict[str, Any]:
        """What makes two jobs the same job: all settings but where and how fast they run."""
        job = self.job
        return {
            "configurations": [dataclasses.asdict(c) for c in self.plan.configurations],
            "datasets": key_of(self.plan.datasets),
            "sources": {name: source.digest for name, source in self.sources.items()},
            "retrievers": key_of(self.plan.retrievers),
            "generators": key_of(self.plan.generators),
            "judge": key_of(job.judge),
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

    # --- levels -------------------------------------------------------------------------------------------------

    def _import(self) -> None:
        for name, source in self.sources.items():
            passages = import_table(
                self.store,
                "passages",
                digest_of({"passages": source.passages_digest}),
                source.name,
                tables.PASSAGES,
                source.passages,
                source.num_passages,
            )
            questions = import_table(
                self.store,
                "questions",
                digest_of({"questions": source.questions_digest}),
                source.name,
                tables.QUESTIONS,
                _batches_of(source),
                source.questions().num_rows,
            )
            self.results.datasets[name] = Imported(source, passages, questions)

    def _retrieve(self, runs: Runs) -> None:
        wanted = self._wanted_retrievals()
        fused = [pair for pair in wanted if RETRIEVERS[self.plan.retrievers[pair[1]].kind].index is None]
        direct = [pair for pair in wanted if pair not in fused]
        indexes = runs.run([self._index_stage(*pair) for pair in direct], "index")
        stages = [self._search_stage(*pair, index) for pair, index in zip(direct, indexes, strict=True)]
        self.results.retrievals.update(zip(direct, runs.run(stages, "retrieve"), strict=True))
        stages = [self._fusion_stage(*pair) for pair in fused]
        self.results.retrievals.update(zip(fused, runs.run(stages, "fuse", self._small()), strict=True))

    def _wanted_retrievals(self) -> list[tuple[str, str]]:
        """(dataset, retriever) pairs, the parts of a hybrid before the hybrid."""
        wanted: dict[tuple[str, str], None] = {}
        for configuration in self.plan.configurations:
            for part in getattr(self.plan.retrievers[configuration.retriever], "of", ()):
                wanted[(configuration.dataset, part)] = None
            wanted[(configuration.dataset, configuration.retriever)] = None
        return list(wanted)

    def _index_stage(self, dataset: str, retriever: str) -> Stage:
        settings = self.plan.retrievers[retriever]
        kind = RETRIEVERS[settings.kind]
        passages = self.results.datasets[dataset].passages
        resources = self.job.resources.index
        if not kind.sharded:
            resources = dataclasses.replace(resources, range_rows=max(1, passages.num_rows))
        assert kind.index is not None
        return Stage(
            table="index",
            version=2,
            label=f"index {dataset} {retriever}",
            settings=settings,
            key_settings=settings.index_settings(),
            worker=kind.index,
            over={"passages": passages},
            schema=None,
            rows="files",
            ids=("passage_id",),
            resources=resources,
        )

    def _search_stage(self, dataset: str, retriever: str, index: Table) -> Stage:
        settings = self.plan.retrievers[retriever]
        return Stage(
            table="retrievals",
            label=f"retrieve {dataset} {retriever}",
            settings=settings,
            worker=RETRIEVERS[settings.kind].retrieve,
            over={"questions": self.results.datasets[dataset].questions},
            inputs={"index": index},
            schema=tables.RETRIEVALS,
            resources=self.job.resources.retrieve,
        )

    def _fusion_stage(self, dataset: str, retriever: str) -> Stage:
        settings = self.plan.retrievers[retriever]
        return Stage(
            table="retrievals",
            label=f"fuse {dataset} {retriever}",
            settings=settings,
            worker=RETRIEVERS[settings.kind].retrieve,
            over={part: self.results.retrievals[(dataset, part)] for part in settings.of},
            schema=tables.RETRIEVALS,
            resources=self.job.resources.retrieve,
        )

    def _answer(self, runs: Runs) -> None:
        self._per_configuration(runs, "answer", self._answer_stage, self.results.answers)

    def _answer_stage(self, configuration: Configuration) -> Stage:
        settings = self.plan.generators[configuration.generator]
        dataset = self.results.datasets[configuration.dataset]
        return Stage(
            table="answers",
            label=f"answer {configuration.name}",
            settings=settings,
            worker=GenerateWorker,
            over={
                "questions": dataset.questions,
                "retrievals": self.results.retrievals[(configuration.dataset, configuration.retriever)],
            },
            inputs={"passages": dataset.passages},
            schema=tables.ANSWERS,
            resources=self.job.resources.generate,
        )

    def _judge(self, runs: Runs) -> None:
        self.results.verdicts = {configuration.name: {} for configuration in self.plan.configurations}
        judge = self.job.judge
        stages: dict[str, Callable[[Configuration], Stage]] = {"t": self._verdict_t_stage}
        if "r" in judge.variables:
            contexts: dict[str, Table] = {}
            self._per_configuration(runs, "contexts", self._contexts_stage, contexts, small=self._small())
            stages["r"] = lambda configuration: self._verdict_r_stage(configuration, contexts)
        for variable in judge.variables:
            found: dict[str, Table] = {}
            self._per_configuration(runs, f"judge {variable}", stages[variable], found)
            for name, table in found.items():
                self.results.verdicts[name][f"{variable}@{judge.name}"] = table

    def _contexts_stage(self, configuration: Configuration) -> Stage:
        return Stage(
            table="contexts",
            label=f"contexts {configuration.name}",
            settings={},
            worker=ContextsWorker,
            over={"answers": self.results.answers[configuration.name]},
            schema=tables.CONTEXTS,
            resources=self.job.resources.label,
        )

    def _verdict_r_stage(self, configuration: Configuration, contexts: Mapping[str, Table]) -> Stage:
        dataset = self.results.datasets[configuration.dataset]
        judge = self._judge_of("r", "")
        return Stage(
            table="verdicts",
            label=f"judge r@{judge.name} {configuration.name}",
            settings=judge,
            worker=JudgeR,
            over={"questions": dataset.questions, "contexts": contexts[configuration.name]},
            inputs={"passages": dataset.passages},
            schema=tables.VERDICTS,
            resources=self.job.resources.judge,
        )

    def _verdict_t_stage(self, configuration: Configuration) -> Stage:
        judge = self._judge_of("t", self.plan.generators[configuration.generator].abstention_phrase)
        return Stage(
            table="verdicts",
            label=f"judge t@{judge.name} {configuration.name}",
            settings=judge,
            worker=JudgeT,
            over={
                "questions": self.results.datasets[configuration.dataset].questions,
                "answers": self.results.answers[configuration.name],
            },
            schema=tables.VERDICTS,
            resources=self.job.resources.judge,
        )

    def _judge_of(self, variable: str, phrase: str) -> JudgeSettings:
        """The judge of one variable: only its own prompts, so that a changed prompt for T does not redo R."""
        judge = self.job.judge
        prompts = {
            name: text for name, text in judge.prompts.items() if name == variable or name.startswith(f"{variable}_")
        }
        refusals = judge.refusals if variable == "t" else ""
        return dataclasses.replace(
            judge, variables=(variable,), prompts=prompts, abstention_phrase=phrase, refusals=refusals
        )

    def _annotate(self, runs: Runs) -> None:
        self._per_configuration(runs, "label", self._annotate_stage, self.results.annotations, small=self._small())

    def _annotate_stage(self, configuration: Configuration) -> Stage:
        verdicts = self.results.verdicts[configuration.name]
        answers = self.results.answers[configuration.name]
        settings = dataclasses.replace(
            self.job.labels,
            judges=list(verdicts),
            config=configuration.name,
            dataset=self.plan.datasets[configuration.dataset].name,
            retriever=configuration.retriever,
            generator=configuration.generator,
            abstention_phrase=self.plan.generators[configuration.generator].abstention_phrase,
        )
        return Stage(
            table="annotations",
            label=f"label {configuration.name}",
            settings=settings,
            worker=AnnotateWorker,
            over={"questions": self.results.datasets[configuration.dataset].questions, "answers": answers, **verdicts},
            inputs={"answers": answers},
            schema=tables.annotations_schema(settings.sources),
            resources=self.job.resources.label,
        )

    def _fit(self, runs: Runs) -> None:
        annotations = {name: table for name, table in self.results.annotations.items() if _some_succeeded(table)}
        for name in self.results.annotations:
            if name not in annotations:
                self.results.notes.append(f"WARNING: {name} is not in the results: every row failed")
        if not annotations:
            raise StageError(
                f"every row of every configuration failed; first: {_first_error(self.results.annotations)}"
            )
        judges = {
            name: judge_columns(self.job.labels.trusted, table.manifest["schema"])
            for name, table in annotations.items()
        }
        self.results.fitted = fit_tables(
            runs,
            annotations,
            judges,
            self.job,
            self.job.resources.fit,
            count_here=self._small(),
            fit_here=False,
        )

    def _allocate(self, runs: Runs) -> None:
        if not self.job.allocation.enabled:
            return
        name = self.job.allocation.configuration or self.plan.configurations[0].name
        annotations = self.results.annotations[name]
        try:
            self.results.allocation = run_study(runs, name, annotations, self.job.labels.trusted, self.job)
        except InputError as error:  # such as a system that answered nothing: the fits are still worth having
            self.results.notes.append(f"WARNING: no allocation study of {name}: {error}")

    # --- helpers ------------------------------------------------------------------------------------------------

    def _small(self) -> bool:
        rows = sum(
            self.results.datasets[configuration.dataset].questions.num_rows
            for configuration in self.plan.configurations
        )
        return rows <= SMALL_ROWS

    def _per_configuration(
        self,
        runs: Runs,
        title: str,
        stage_of: Callable[[Configuration], Stage],
        found: dict[str, Table],
        small: bool = False,
    ) -> None:
        stages = [stage_of(configuration) for configuration in self.plan.configurations]
        names = [configuration.name for configuration in self.plan.configurations]
        found.update(zip(names, runs.run(stages, title, small), strict=True))

    def _say_what_was_done(self, runs: Runs) -> None:
        made = sum(1 for record in runs.records if record.new_rows)
        console().print(
            f"{len(runs.records)} stages: {made} computed, {len(runs.records) - made} reused, "
            f"in {duration(time.monotonic() - self.began)}",
            highlight=False,
            soft_wrap=True,
        )


def run(context: Context) -> str:
    """`rat-ray evaluate`: check everything, run the job, print the table; the path of `out`."""
    return str(Pipeline(make_plan(context)).run())
