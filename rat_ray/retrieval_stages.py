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
        settings = GroupsSettings(self._retrievers[retriever].depth)
        label = f"merge {dataset} {retriever}"

        def stage(lists: Tables) -> Stage:
            return Stage(
                table="retrievals",
                label=label,
                settings=settings,
                worker=MergeGroups,
                over=lists,
                schema=tables.RETRIEVALS,
                resources=self._resources.retrieve,
            )

        return self._graph.add(FUSE, "retrievals", label, settings, stage, needs=found)

    def _steps(self, dataset: str, retriever: str) -> dict[str, str]:
        """The steps of a retriever's index, by name."""
        nodes = {"passages": self._passages(dataset)}
        for step in self._retrievers[retriever].steps():
            nodes[step.name] = self._step(dataset, retriever, step, nodes)
        return nodes

    def _step(self, dataset: str, retriever: str, step: Step, nodes: dict[str, str]) -> str:
        label = f"{step.name} {dataset} {retriever}"
        resources = self._resources.encode if step.encode else self._resources.index

        def stage(found: Tables) -> Stage:
            return Stage(
                table=step.name,
                version=step.version,
                label=label,
                settings=self._retrievers[retriever],
                key_settings=dict(step.key),
                worker=step.worker,
                over={step.over: found[step.over]},
                inputs={name: found[name] for name in step.inputs},
                schema=None,
                rows="files",
                ids=("passage_id",),
                resources=resources,
                one_range=step.whole,
                only=step.only,
            )

        needs = {name: nodes[name] for name in (step.over, *step.inputs)}
        return self._graph.add("index", step.name, label, [dict(step.key), step.version], stage, needs=needs)

    def cited(self, dataset: str, retriever: str, lists: str, first: int) -> str:
        """The passages that are among the first ones of any of a retriever's lists."""
        settings = GatherSettings(first)
        label = f"gather {dataset} {retriever}"

        def stage(found: Tables) -> Stage:
            return Stage(
                table="cited",
                label=label,
                settings=settings,
                worker=GatherWorker,
                over={"passages": found["passages"]},
                inputs={"retrievals": found["retrievals"]},
                schema=tables.PASSAGES,
                rows="subset",
                ids=("passage_id",),
                resources=self._resources.gather,
            )

        needs = {"passages": self._passages(dataset), "retrievals": lists}
        return self._graph.add("gather", "cited", label, settings, stage, needs=needs)

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
        steps = self._steps(dataset, retriever)
        over = {"questions": self._questions(dataset), "retrievals": self.lists(dataset, retriever)}
        inputs = {name: node for name, node in steps.items() if name in ("vectors", "trained")}
        label = f"recall {dataset} {retriever}"

        def stage(found: Tables) -> Stage:
            return Stage(
                table="recall",
                label=label,
                settings=settings,
                key_settings={"sample": settings.recall_sample, "depth": settings.depth},
                worker=RecallWorker,
                over={name: found[name] for name in over},
                inputs={name: found[name] for name in inputs},
                schema=tables.RECALL,
                rows="whole",
                expected_rows=len(DEPTHS),
                resources=self._resources.retrieve,
            )

        what = {"sample": settings.recall_sample, "depth": settings.depth}
        return self._graph.add("recall", "recall", label, what, stage, needs={**over, **inputs})

    def relevance(self, dataset: str, retriever: str, lists: str) -> str:
        """Where each question's evidence stands in a retriever's lists."""
        label = f"measure {dataset} {retriever}"

        def stage(found: Tables) -> Stage:
            return Stage(
                table="relevance",
                label=label,
                settings={},
                worker=MeasureWorker,
                over={"questions": found["questions"], "retrievals": found["retrievals"]},
                schema=tables.RELEVANCE,
                resources=self._resources.label,
            )

        needs = {"questions": self._questions(dataset), "retrievals": lists}
        return self._graph.add("measure", "relevance", label, {}, stage, needs=needs)
