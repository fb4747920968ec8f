"""The graph of one evaluation: each arrow of the design as a node, for each of its configurations."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from rat_ray import tables
from rat_ray.allocate import StudySettings, check, study_stage, tasks
from rat_ray.annotate.contexts import ContextsWorker
from rat_ray.annotate.judge import WORKERS, JudgeSettings
from rat_ray.annotate.label_settings import LabelSettings, judge_columns
from rat_ray.annotate.labels import AnnotateWorker
from rat_ray.cluster import Resources
from rat_ray.datasets import Source
from rat_ray.evaluate import Configuration, Plan
from rat_ray.fit_stages import FitNodes, FitResources, add_fits
from rat_ray.generate import range_rows, ranges, workers
from rat_ray.generate.engine import EngineSettings
from rat_ray.generate.logs import as_answers
from rat_ray.generate.worker import GenerateWorker
from rat_ray.graph import Graph, Import, Tables
from rat_ray.keys import digest_of, key_of
from rat_ray.retrieval_stages import RetrievalStages
from rat_ray.retrieve.gather import EvidenceWorker
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
    answers: dict[str, str] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)  # tables with the passages of the answers' contexts
    verdicts: dict[str, dict[str, str]] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    fits: dict[str, FitNodes] = field(default_factory=dict)
    allocation: dict[str, str] = field(default_factory=dict)


def declare(graph: Graph, plan: Plan, source_of: SourceOf) -> EvaluationNodes:
    """Declare all tables of a job. source_of: opens the dataset of some settings, or knows it from before.

    Raises: InputError for settings that do not go together.
    """
    return _Declaration(graph, plan, source_of).all()


def affinity(settings: EngineSettings) -> str:
    """Stages of equal affinity go to the same worker one after the other: what is loaded for one serves the next."""
    return digest_of(dataclasses.asdict(settings.engine))


def people_key(labels: pa.Table) -> str:
    """What identifies people's labels (tables.PEOPLE) by their content."""
    return digest_of({"people": encode_part(labels, {})[1]})


def sized(resources: Resources, settings: EngineSettings) -> Resources:
    """The resources of a stage that asks a model: ranges and workers as its engine likes them unless the user chose."""
    return dataclasses.replace(
        resources,
        range_rows=resources.range_rows or range_rows(settings),
        workers=resources.workers or workers(settings),
    )


class _Declaration:
    def __init__(self, graph: Graph, plan: Plan, source_of: SourceOf) -> None:
        self._graph = graph
        self._plan = plan
        self._job = plan.job
        self._source_of = source_of
        self._nodes = EvaluationNodes()
        self._labels_of_people = "" if plan.people is None else self._people(plan.people)
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
        judges = judge_columns(self._job.labels.trusted, self._job.labels.sources)
        every = dict.fromkeys(nodes.annotations, judges)
        sizes = FitResources(self._job.resources.count, self._job.resources.fit)
        nodes.fits = add_fits(self._graph, nodes.annotations, every, self._job, sizes)
        if self._job.allocation.enabled:
            studied = self._job.allocation.configurations or [one.name for one in self._plan.configurations]
            nodes.allocation = {config: self._allocation(config) for config in studied}
        return nodes

    def _configuration(self, configuration: Configuration) -> None:
        nodes, name = self._nodes, configuration.name
        if configuration.answered:
            nodes.given[name] = nodes.datasets[configuration.dataset].passages
            nodes.answers[name] = self._logged(configuration)
        else:
            self._generated(configuration)
        nodes.verdicts[name] = self._verdicts(configuration)
        nodes.annotations[name] = self._annotations(configuration)

    def _generated(self, configuration: Configuration) -> None:
        given = self._plan.generators[configuration.generator].passages
        dataset, retriever = configuration.dataset, configuration.retriever
        lists = self._retrieval.lists(dataset, retriever)
        self._nodes.given[configuration.name] = self._retrieval.cited(dataset, retriever, lists, given)
        self._nodes.relevance[dataset, retriever] = self._retrieval.relevance(dataset, retriever, lists)
        for name, node in self._retrieval.recalls(dataset, retriever).items():
            self._nodes.recalls[dataset, name] = node
        self._nodes.answers[configuration.name] = self._answers(configuration, lists)

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

    def _logged(self, configuration: Configuration) -> str:
        """The answers that the dataset brings."""
        settings = self._plan.datasets[configuration.dataset]

        def answers(_: Tables) -> Import:
            source = self._source_of(settings)
            assert source.answers is not None
            rows, read = source.num_questions, source.answers
            key = digest_of({"answers": source.answers_digest})
            origin = dataclasses.asdict(settings)
            return Import("answers", key, source.name, tables.ANSWERS, lambda: as_answers(read()), rows, origin)

        return self._graph.add("import", "answers", f"answers {settings.name}", key_of(settings), answers)

    # --- answer, judge ------------------------------------------------------------------------------------------

    def _answers(self, configuration: Configuration, retrieval: str) -> str:
        settings = self._plan.generators[configuration.generator]
        stage = Stage(
            table="answers",
            version=2,
            label=f"answer {configuration.name}",
            settings=settings,
            worker=GenerateWorker,
            over={},
            schema=tables.ANSWERS,
            resources=sized(self._job.resources.generate, settings),
            together=ranges(settings),
            affinity=affinity(settings),
        )
        over = {"questions": self._nodes.datasets[configuration.dataset].questions, "retrievals": retrieval}
        return self._graph.add_stage("answer", stage, over, {"passages": self._nodes.given[configuration.name]})

    def _contexts(self, configuration: Configuration) -> str:
        stage = Stage(
            table="contexts",
            label=f"contexts {configuration.name}",
            settings={},
            worker=ContextsWorker,
            over={},
            schema=tables.CONTEXTS,
            resources=self._job.resources.label,
        )
        return self._graph.add_stage("contexts", stage, {"answers": self._nodes.answers[configuration.name]})

    def _verdicts(self, configuration: Configuration) -> dict[str, str]:
        """The verdict tables of all judges, by their columns: one for each judge, variable and sample."""
        found = {}
        for judge in self._plan.judges:
            for variable, sample in itertools.product(judge.variables, range(1, judge.samples + 1)):
                one = judge.one(variable, sample)
                if variable == "t":  # of R, one verdict serves every generator with the same context
                    one = self._knowing_abstentions(one, configuration)
                found[one.sources[0]] = self._verdict(configuration, variable, one)
        return found

    def _knowing_abstentions(self, judge: JudgeSettings, configuration: Configuration) -> JudgeSettings:
        labels = self._label_settings(configuration)
        return dataclasses.replace(
            judge,
            abstention_phrase=labels.abstention_phrase,
            refusals=labels.refusals_digest,
            refusal_text=labels.refusal_text,
        )

    def _verdict(self, configuration: Configuration, variable: str, judge: JudgeSettings) -> str:
        stage = Stage(
            table="verdicts",
            version=2,
            label=f"judge {judge.sources[0]} {configuration.name}",
            settings=judge,
            worker=WORKERS[variable],
            over={},
            schema=tables.VERDICTS,
            resources=sized(self._job.resources.judge, judge),
            together=ranges(judge),
            affinity=affinity(judge),
        )
        questions = self._nodes.datasets[configuration.dataset].questions
        if variable == "r":
            over = {"questions": questions, "contexts": self._contexts(configuration)}
            return self._graph.add_stage("judge", stage, over, {"passages": self._nodes.given[configuration.name]})
        over = {"questions": questions, "answers": self._nodes.answers[configuration.name]}
        return self._graph.add_stage("judge", stage, over, {})

    # --- label, allocate ----------------------------------------------------------------------------------------

    def _annotations(self, configuration: Configuration) -> str:
        settings = self._label_settings(configuration)
        verdicts = self._nodes.verdicts[configuration.name]
        stage = Stage(
            table="annotations",
            version=3,
            label=f"label {configuration.name}",
            settings=settings,
            worker=AnnotateWorker,
            over={},
            schema=tables.annotations_schema(settings.sources, settings.rules, settings.scored),
            resources=self._job.resources.label,
        )
        questions, answers = (
            self._nodes.datasets[configuration.dataset].questions,
            self._nodes.answers[configuration.name],
        )
        over = {"questions": questions, "answers": answers, **verdicts}
        inputs = {"answers": answers, "passages": self._nodes.given[configuration.name]}
        if self._labels_of_people:
            inputs["people"] = self._labels_of_people
        if any(rule.rule is not None and rule.rule.titles for rule in settings.rule_list):
            inputs["evidence"] = self._evidence(configuration.dataset)
        return self._graph.add_stage("label", stage, over, inputs)

    def _label_settings(self, configuration: Configuration) -> LabelSettings:
        part = self._plan.datasets if configuration.answered else self._plan.generators
        phrase = part[configuration.dataset if configuration.answered else configuration.generator].abstention_phrase
        return dataclasses.replace(
            self._job.labels,
            config=configuration.name,
            dataset=self._plan.datasets[configuration.dataset].name,
            retriever=configuration.retriever,
            generator=configuration.generator,
            abstention_phrase=phrase,
        )

    def _people(self, labels: pa.Table) -> str:
        key = people_key(labels)
        table = Import("people", key, "people", tables.PEOPLE, lambda: iter([labels]))
        return self._graph.add("import", "people", "people's labels", key, lambda _: table)

    def _evidence(self, dataset: str) -> str:
        """The passages that the evidence of the questions names."""
        stage = Stage(
            table="evidence",
            label=f"gather evidence {dataset}",
            settings={},
            worker=EvidenceWorker,
            over={},
            schema=tables.PASSAGES,
            rows="subset",
            ids=("passage_id",),
            resources=self._job.resources.gather,
        )
        nodes = self._nodes.datasets[dataset]
        return self._graph.add_stage("gather", stage, {"passages": nodes.passages}, {"questions": nodes.questions})

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
