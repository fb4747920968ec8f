"""The graph of one evaluation: each arrow of the design as a node, for each of its configurations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from rat_ray import tables
from rat_ray.allocate import StudySettings, check, study_stage, tasks
from rat_ray.annotate.contexts import ContextsWorker
from rat_ray.annotate.judge import JudgeR, JudgeSettings, JudgeT
from rat_ray.annotate.labels import AnnotateWorker, LabelSettings, judge_columns
from rat_ray.datasets import Source
from rat_ray.evaluate import Configuration, Plan
from rat_ray.fit_stages import FitNodes, FitResources, add_fits
from rat_ray.generate.engine import EngineSettings
from rat_ray.generate.worker import GenerateWorker
from rat_ray.graph import Graph, Import, Tables
from rat_ray.keys import digest_of, key_of
from rat_ray.retrieval_stages import RetrievalStages
from rat_ray.stage import Stage
from rat_ray.store import encode_part

SourceOf = Callable[[Any], Source]


class DatasetNodes(NamedTuple):
    """The nodes of a dataset in the store."""

    passages: str
    questions: str


@dataclass
class EvaluationNodes:
    """The nodes of a job that its results are read from, by configuration where there is one per configuration."""

    datasets: dict[str, DatasetNodes] = field(default_factory=dict)
    relevance: dict[tuple[str, str], str] = field(default_factory=dict)  # by dataset and retriever
    recalls: dict[tuple[str, str], str] = field(default_factory=dict)  # of those that are approximate
    verdicts: dict[str, dict[str, str]] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    fits: dict[str, FitNodes] = field(default_factory=dict)
    allocation: str = ""
    studied: str = ""  # the configuration of the allocation study


def declare(graph: Graph, plan: Plan, source_of: SourceOf) -> EvaluationNodes:
    """Declare all tables of a job. source_of: opens the dataset of some settings, or knows it from before.

    Raises: InputError for settings that do not go together.
    """
    return _Declaration(graph, plan, source_of).all()


def affinity(settings: EngineSettings) -> str:
    """Stages of equal affinity go to the same worker one after the other: what is loaded for one serves the next."""
    return digest_of(dataclasses.asdict(settings.engine))


class _Declaration:
    def __init__(self, graph: Graph, plan: Plan, source_of: SourceOf) -> None:
        self._graph = graph
        self._plan = plan
        self._job = plan.job
        self._source_of = source_of
        self._nodes = EvaluationNodes()
        datasets = self._nodes.datasets
        self._retrieval = RetrievalStages(
            graph,
            plan.retrievers,
            plan.job.resources,
            lambda name: datasets[name].passages,
            lambda name: datasets[name].questions,
        )

    def all(self) -> EvaluationNodes:
        nodes = self._nodes
        for configuration in self._plan.configurations:
            nodes.datasets[configuration.dataset] = self._dataset(configuration.dataset)
            self._configuration(configuration)
        labels = self._job.labels
        judges = judge_columns(labels.trusted, dataclasses.replace(labels, judges=self._job.judge.sources).sources)
        every = dict.fromkeys(nodes.annotations, judges)
        sizes = FitResources(self._job.resources.count, self._job.resources.fit)
        nodes.fits = add_fits(self._graph, nodes.annotations, every, self._job, sizes)
        if self._job.allocation.enabled:
            nodes.studied = self._job.allocation.configuration or self._plan.configurations[0].name
            nodes.allocation = self._allocation(nodes.studied)
        return nodes

    def _configuration(self, configuration: Configuration) -> None:
        given = self._plan.generators[configuration.generator].passages
        dataset, retriever = configuration.dataset, configuration.retriever
        lists = self._retrieval.lists(dataset, retriever)
        cited = self._retrieval.cited(dataset, retriever, lists, given)
        self._nodes.relevance[dataset, retriever] = self._retrieval.relevance(dataset, retriever, lists)
        for name, node in self._retrieval.recalls(dataset, retriever).items():
            self._nodes.recalls[dataset, name] = node
        answers = self._answers(configuration, lists, cited)
        verdicts = {}
        for variable in self._job.judge.variables:
            add = self._verdict_r if variable == "r" else self._verdict_t
            verdicts[f"{variable}@{self._job.judge.name}"] = add(configuration, answers, cited)
        self._nodes.verdicts[configuration.name] = verdicts
        self._nodes.annotations[configuration.name] = self._annotations(configuration, answers, verdicts)

    # --- import -------------------------------------------------------------------------------------------------

    def _dataset(self, name: str) -> DatasetNodes:
        settings = self._plan.datasets[name]
        origin = dataclasses.asdict(settings)

        def passages(_: Tables) -> Import:
            source = self._source_of(settings)
            key = digest_of({"passages": source.passages_digest})
            return Import("passages", key, source.name, tables.PASSAGES, source.passages, source.num_passages, origin)

        def questions(_: Tables) -> Import:
            source = self._source_of(settings)
            key = digest_of({"questions": source.questions_digest})
            rows = source.num_questions
            return Import("questions", key, source.name, tables.QUESTIONS, _once(source.questions), rows, origin)

        return DatasetNodes(
            self._graph.add("import", "passages", f"passages {settings.name}", settings.corpus_settings, passages),
            self._graph.add("import", "questions", f"questions {settings.name}", key_of(settings), questions),
        )

    # --- answer, judge ------------------------------------------------------------------------------------------

    def _answers(self, configuration: Configuration, retrieval: str, cited: str) -> str:
        settings = self._plan.generators[configuration.generator]
        stage = Stage(
            table="answers",
            label=f"answer {configuration.name}",
            settings=settings,
            worker=GenerateWorker,
            over={},
            schema=tables.ANSWERS,
            resources=self._job.resources.generate,
            affinity=affinity(settings),
        )
        over = {"questions": self._nodes.datasets[configuration.dataset].questions, "retrievals": retrieval}
        return self._graph.add_stage("answer", stage, over, {"passages": cited})

    def _contexts(self, configuration: Configuration, answers: str) -> str:
        stage = Stage(
            table="contexts",
            label=f"contexts {configuration.name}",
            settings={},
            worker=ContextsWorker,
            over={},
            schema=tables.CONTEXTS,
            resources=self._job.resources.label,
        )
        return self._graph.add_stage("contexts", stage, {"answers": answers})

    def _verdict_r(self, configuration: Configuration, answers: str, cited: str) -> str:
        judged = {"contexts": self._contexts(configuration, answers)}
        return self._verdict(configuration, JudgeR, self._judge_of("r", ""), judged, {"passages": cited})

    def _verdict_t(self, configuration: Configuration, answers: str, cited: str) -> str:
        judge = self._judge_of("t", self._plan.generators[configuration.generator].abstention_phrase)
        return self._verdict(configuration, JudgeT, judge, {"answers": answers}, {})

    def _verdict(
        self,
        configuration: Configuration,
        worker: type[JudgeR] | type[JudgeT],
        judge: JudgeSettings,
        judged: dict[str, str],
        inputs: dict[str, str],
    ) -> str:
        """judged: what the questions are judged with, row by row. inputs: tables that are read whole."""
        stage = Stage(
            table="verdicts",
            label=f"judge {judge.sources[0]} {configuration.name}",
            settings=judge,
            worker=worker,
            over={},
            schema=tables.VERDICTS,
            resources=self._job.resources.judge,
            affinity=affinity(judge),
        )
        over = {"questions": self._nodes.datasets[configuration.dataset].questions, **judged}
        return self._graph.add_stage("judge", stage, over, inputs)

    def _judge_of(self, variable: str, phrase: str) -> JudgeSettings:
        """The judge of one variable: only its own prompts, so that a changed prompt for T does not redo R."""
        judge = self._job.judge
        prompts = {
            name: text for name, text in judge.prompts.items() if name == variable or name.startswith(f"{variable}_")
        }
        refusals = judge.refusals if variable == "t" else ""
        return dataclasses.replace(
            judge, variables=(variable,), prompts=prompts, abstention_phrase=phrase, refusals=refusals
        )

    # --- label, allocate ----------------------------------------------------------------------------------------

    def _annotations(self, configuration: Configuration, answers: str, verdicts: dict[str, str]) -> str:
        settings = self._label_settings(configuration, list(verdicts))
        stage = Stage(
            table="annotations",
            version=2,
            label=f"label {configuration.name}",
            settings=settings,
            worker=AnnotateWorker,
            over={},
            schema=tables.annotations_schema(settings.sources),
            resources=self._job.resources.label,
        )
        questions = self._nodes.datasets[configuration.dataset].questions
        over = {"questions": questions, "answers": answers, **verdicts}
        return self._graph.add_stage("label", stage, over, {"answers": answers})

    def _label_settings(self, configuration: Configuration, judges: list[str]) -> LabelSettings:
        return dataclasses.replace(
            self._job.labels,
            judges=judges,
            config=configuration.name,
            dataset=self._plan.datasets[configuration.dataset].name,
            retriever=configuration.retriever,
            generator=configuration.generator,
            abstention_phrase=self._plan.generators[configuration.generator].abstention_phrase,
        )

    def _allocation(self, config: str) -> str:
        job = self._job
        settings = StudySettings.of(config, job.labels.trusted, job.allocation, job.prior, job.seed)

        def listed(_: Tables) -> Import:
            planned = tasks(job.allocation, config)
            key = digest_of({"tasks": encode_part(planned, {})[1]})
            return Import("tasks", key, config, planned.schema, lambda: iter([planned]))

        def stage(found: Tables) -> Stage:
            check(found["annotations"].read(), job.allocation, job.labels.trusted)
            return study_stage(found["tasks"], found["annotations"], settings, job.resources.allocate)

        what = {"config": config, "allocation": key_of(job.allocation)}
        needs = {
            "tasks": self._graph.add("allocate", "tasks", f"tasks {config}", what, listed),
            "annotations": self._nodes.annotations[config],
        }
        return self._graph.add("allocate", "allocation", f"allocation {config}", settings, stage, needs=needs)


def _once(read: Callable[[], pa.Table]) -> Callable[[], Iterator[pa.Table]]:
    """A table that is read when it is asked for, as the batches of an import."""
    return lambda: iter([read()])
