"""The graph from passages and questions to lists: the steps of an index, search, fusion, reranking, measures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from rat_ray import tables
from rat_ray.cluster import Resources
from rat_ray.graph import Graph, Tables
from rat_ray.keys import digest_of, key_of
from rat_ray.retrieve.gather import GatherSettings, GatherWorker
from rat_ray.retrieve.groups import GroupsSettings, MergeGroups
from rat_ray.retrieve.kinds import FUSE, RERANK, RETRIEVERS
from rat_ray.retrieve.measures import MeasureWorker
from rat_ray.retrieve.recall import DEPTHS, RecallWorker
from rat_ray.retrieve.steps import Step
from rat_ray.stage import Stage


class RetrievalResources(Protocol):
    """What the workers of these stages take."""

    @property
    def encode(self) -> Resources: ...
    @property
    def index(self) -> Resources: ...
    @property
    def retrieve(self) -> Resources: ...
    @property
    def gather(self) -> Resources: ...
    @property
    def rerank(self) -> Resources: ...
    @property
    def label(self) -> Resources: ...
    @property
    def search_groups(self) -> int: ...


class RetrievalStages:
    """Declares them. passages, questions: the nodes of a dataset, by its name. retrievers: their settings, by name."""

    def __init__(
        self,
        graph: Graph,
        retrievers: Mapping[str, Any],
        resources: RetrievalResources,
        passages: Callable[[str], str],
        questions: Callable[[str], str],
    ) -> None:
        self._graph = graph
        self._retrievers = retrievers
        self._resources = resources
        self._passages = passages
        self._questions = questions

    def lists(self, dataset: str, retriever: str) -> str:
        """The lists of one retriever."""
        settings = self._retrievers[retriever]
        level = RETRIEVERS[settings.kind].level
        if level == FUSE:
            return self._node(dataset, retriever, {part: self.lists(dataset, part) for part in settings.parts()})
        if level == RERANK:
            [base] = settings.parts()
            over = {"questions": self._questions(dataset), "retrievals": self.lists(dataset, base)}
            cited = self.cited(dataset, base, over["retrievals"], settings.top)
            return self._node(dataset, retriever, over, {"passages": cited})
        questions = {"questions": self._questions(dataset)}
        steps = self._steps(dataset, retriever)
        index = {"index": steps[settings.steps()[-1].name], **{name: steps[name] for name in settings.search_inputs()}}
        groups = self._resources.search_groups
        if groups == 1:
            return self._node(dataset, retriever, questions, index)
        found = {f"group {i}": self._node(dataset, retriever, questions, index, (i, groups)) for i in range(groups)}
        return self._merged(dataset, retriever, found)

    def _node(
        self,
        dataset: str,
        retriever: str,
        over: dict[str, str],
        inputs: dict[str, str] | None = None,
        group: tuple[int, int] | None = None,
    ) -> str:
        """A retriever's lists, or those of one group of its index's shards."""
        settings = self._retrievers[retriever]
        kind, wanted = RETRIEVERS[settings.kind], inputs or {}
        uncut = {step.name for step in settings.steps() if step.whole}  # one folder, which every group needs
        label = f"{kind.level} {dataset} {retriever}"
        if group:
            label += f", shards {group[0] + 1}/{group[1]}"

        def stage(found: Tables) -> Stage:
            whole = {name: found[name].group(*group) if group and name not in uncut else found[name] for name in wanted}
            return Stage(
                table="retrievals",
                label=label,
                settings=settings,
                worker=kind.worker,
                over={name: found[name] for name in over},
                inputs=whole,
                schema=tables.RETRIEVALS,
                resources=self._resources.rerank if kind.level == RERANK else self._resources.retrieve,
                affinity=digest_of([kind.level, key_of(settings), *(table.digest for table in whole.values())]),
            )

        what = [key_of(settings), list(group)] if group else settings
        return self._graph.add(kind.level, "retrievals", label, what, stage, needs={**over, **wanted})

    def _merged(self, dataset: str, retriever: str, found: dict[str, str]) -> str:
        """The lists of all groups of shards as one."""
        stage = Stage(
            table="retrievals",
            label=f"merge {dataset} {retriever}",
            settings=GroupsSettings(self._retrievers[retriever].depth),
            worker=MergeGroups,
            over={},
            schema=tables.RETRIEVALS,
            resources=self._resources.retrieve,
        )
        return self._graph.add_stage(FUSE, stage, found)

    def _steps(self, dataset: str, retriever: str) -> dict[str, str]:
        """The steps of a retriever's index, by name."""
        nodes = {"passages": self._passages(dataset)}
        for step in self._retrievers[retriever].steps():
            nodes[step.name] = self._step(dataset, retriever, step, nodes)
        return nodes

    def _step(self, dataset: str, retriever: str, step: Step, nodes: dict[str, str]) -> str:
        stage = Stage(
            table=step.name,
            version=step.version,
            label=f"{step.name} {dataset} {retriever}",
            settings=self._retrievers[retriever],
            key_settings=dict(step.key),
            worker=step.worker,
            over={},
            schema=None,
            rows="files",
            ids=("passage_id",),
            resources=self._resources.encode if step.encode else self._resources.index,
            one_range=step.whole,
            only=step.only,
        )
        inputs = {name: nodes[name] for name in step.inputs}
        return self._graph.add_stage("index", stage, {step.over: nodes[step.over]}, inputs)

    def cited(self, dataset: str, retriever: str, lists: str, first: int) -> str:
        """The passages that are among the first ones of any of a retriever's lists."""
        stage = Stage(
            table="cited",
            label=f"gather {dataset} {retriever}",
            settings=GatherSettings(first),
            worker=GatherWorker,
            over={},
            schema=tables.PASSAGES,
            rows="subset",
            ids=("passage_id",),
            resources=self._resources.gather,
        )
        return self._graph.add_stage("gather", stage, {"passages": self._passages(dataset)}, {"retrievals": lists})

    def recalls(self, dataset: str, retriever: str) -> dict[str, str]:
        """By the names of the approximate retrievers among this one and those that it is made from: what share of the
        exact lists they find."""
        settings = self._retrievers[retriever]
        found: dict[str, str] = {}
        for part in settings.parts():
            found |= self.recalls(dataset, part)
        if getattr(settings, "approximate", False):
            found[retriever] = self._recall(dataset, retriever)
        return found

    def _recall(self, dataset: str, retriever: str) -> str:
        settings = self._retrievers[retriever]
        stage = Stage(
            table="recall",
            label=f"recall {dataset} {retriever}",
            settings=settings,
            key_settings={"sample": settings.recall_sample, "depth": settings.depth},
            worker=RecallWorker,
            over={},
            schema=tables.RECALL,
            rows="whole",
            expected_rows=len(DEPTHS),
            resources=self._resources.retrieve,
        )
        over = {"questions": self._questions(dataset), "retrievals": self.lists(dataset, retriever)}
        steps = self._steps(dataset, retriever)
        inputs = {name: node for name, node in steps.items() if name in ("vectors", "trained")}
        return self._graph.add_stage("recall", stage, over, inputs)

    def relevance(self, dataset: str, retriever: str, lists: str) -> str:
        """Where each question's evidence stands in a retriever's lists."""
        stage = Stage(
            table="relevance",
            label=f"measure {dataset} {retriever}",
            settings={},
            worker=MeasureWorker,
            over={},
            schema=tables.RELEVANCE,
            resources=self._resources.label,
        )
        return self._graph.add_stage("measure", stage, {"questions": self._questions(dataset), "retrievals": lists})
