"""The tables of one or many jobs as a declared graph: what is to be made, from what, at which level.

Nodes are declared from settings alone, before any dataset, index or model is opened: a node is known by its table, its
settings and the nodes that it needs. So what two configurations, or two jobs of a sweep, have in common is one node. A
stage's key needs the content of its inputs and follows as they appear. Levels are run one after the other, all nodes of
a level together, so that a cluster is as full as it can be and every model is loaded once per worker and level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa

from rat_ray.errors import InputError, StageError
from rat_ray.keys import digest_of, key_of
from rat_ray.stage import Runs, Stage, StageFailure, import_table
from rat_ray.store import Store, Table

LEVELS = (
    "import",
    "index",
    "retrieve",
    "fuse",
    "gather",
    "rerank",
    "measure",
    "recall",
    "answer",
    "contexts",
    "judge",
    "label",
    "count",
    "fit",
    "summarise",
    "allocate",
)

Small = Callable[[str, Sequence[Stage]], bool]
Tables = Mapping[str, Table]


class NotKnownError(Exception):
    """What a node needs cannot be known without opening something."""


class Import(NamedTuple):
    """A table of rows from outside the store, keyed by their content."""

    table: str
    key: str
    label: str
    schema: pa.Schema
    batches: Callable[[], Iterator[pa.Table]]
    expected_rows: int | None = None
    origin: Mapping[str, Any] | None = None

    def commit(self, store: Store) -> Table:
        """The table, written where it is not there."""
        return import_table(
            store, self.table, self.key, self.label, self.schema, self.batches, self.expected_rows, self.origin
        )


@dataclass(frozen=True)
class Node:
    """One table to be. needs, wants: the nodes whose tables it is made from, by the names that `make` knows them by;
    it is made without a wanted table that could not be made, and not made without a needed one."""

    id: str
    level: str
    table: str
    label: str
    make: Callable[[Tables], Stage | Import] = field(repr=False)
    needs: Mapping[str, str] = field(default_factory=dict)
    wants: Mapping[str, str] = field(default_factory=dict)


class Graph:
    """Nodes by id. `declared` counts by level how often one was asked for: more often than there are nodes."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.declared: Counter[str] = Counter()
        self.given: dict[str, Table] = {}

    def add(
        self,
        level: str,
        table: str,
        label: str,
        settings: Any,
        make: Callable[[Tables], Stage | Import],
        needs: Mapping[str, str] | None = None,
        wants: Mapping[str, str] | None = None,
    ) -> str:
        """Declare a table; the id of its node, which may have been there. settings: all that decides the result."""
        if level not in LEVELS:
            raise ValueError(f"level {level!r} is none of {LEVELS}")
        content = [level, table, key_of(settings), dict(needs or {}), dict(wants or {})]
        node = Node(digest_of(content), level, table, label, make, dict(needs or {}), dict(wants or {}))
        self.declared[level] += 1
        self.nodes.setdefault(node.id, node)
        return node.id

    def add_stage(
        self, level: str, stage: Stage, over: Mapping[str, str], inputs: Mapping[str, str] | None = None
    ) -> str:
        """Declare the table of a stage that is whole but for its inputs.

        over, inputs: their nodes, by the names that its worker knows them by.
        """
        whole = inputs or {}

        def make(found: Tables) -> Stage:
            return replace(
                stage, over={name: found[name] for name in over}, inputs={name: found[name] for name in whole}
            )

        what = [stage.settings_for_key, stage.version]
        return self.add(level, stage.table, stage.label, what, make, needs={**over, **whole})

    def include(self, other: Graph) -> None:
        """Add all that another graph declares."""
        for name, node in other.nodes.items():
            self.nodes.setdefault(name, node)
        self.declared += other.declared
        self.given |= other.given

    def give(self, table: Table) -> str:
        """The id of a table that is there already."""
        name = digest_of(["given", table.table, table.key])
        self.given[name] = table
        return name

    def at(self, level: str) -> list[Node]:
        """The nodes of one level, in the order in which they were declared."""
        return [node for node in self.nodes.values() if node.level == level]


class Walk:
    """One way through a graph: which tables are there, and why the others are not."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tables: dict[str, Table] = dict(graph.given)
        self.unknown: set[str] = set()  # nodes whose key cannot be known without opening something
        self.failures: dict[str, StageFailure] = {}  # also of nodes that were dropped: of the one that failed first

    def run(self, runs: Runs, small: Small) -> None:
        """Make every table, or find it. What fails drops what needs it; everything else goes on.

        small: whether these stages of a level are cheap enough for this process.
        Raises: StageError where the cluster or the store is lost.
        """
        while self._rounds(lambda level, ready: self._run(ready, level, runs, small)):
            pass

    def find(self, store: Store) -> None:
        """Find the tables that are in the store, as far as their keys can be known. Makes and writes nothing."""
        while self._rounds(lambda _, ready: self._find(ready, store)):
            pass

    def why(self, *nodes: str) -> StageFailure | None:
        """The failure that keeps any of these from being there."""
        return next((self.failures[node] for node in nodes if node in self.failures), None)

    def _rounds(self, do: Callable[[str, list[Node]], None]) -> bool:
        """Go through the levels once; whether anything came of it. Most graphs are done in one round; a fusion of lists
        that were ranked again needs a second one."""
        before = len(self.tables) + len(self.failures)
        for level in LEVELS:
            while ready := self._ready(level):
                do(level, ready)
        return len(self.tables) + len(self.failures) > before

    def _ready(self, level: str) -> list[Node]:
        """The nodes of the level that can be made now. Those that need what failed are dropped on the way."""
        ready = []
        for node in self.graph.at(level):
            if node.id in self.tables or node.id in self.failures:
                continue
            failure = self.why(*node.needs.values())
            if failure is not None:
                self.failures[node.id] = failure
                if self.unknown & set(node.needs.values()):
                    self.unknown.add(node.id)
            elif all(name in self.tables for name in node.needs.values()) and all(
                name in self.tables or name in self.failures for name in node.wants.values()
            ):
                ready.append(node)
        return ready

    def _made(self, node: Node) -> Stage | Import:
        wanted = {**node.needs, **node.wants}
        return node.make({name: self.tables[other] for name, other in wanted.items() if other in self.tables})

    def _run(self, ready: Sequence[Node], level: str, runs: Runs, small: Small) -> None:
        stages: dict[str, Stage] = {}
        for node in ready:
            try:
                made = self._made(node)
                if isinstance(made, Stage):
                    stages[node.id] = made
                else:
                    self.tables[node.id] = made.commit(runs.store)
            except (InputError, StageError) as error:
                self.failures[node.id] = StageFailure(node.label, str(error), isinstance(error, InputError))
        if not stages:
            return
        listed = list(stages.values())
        for name, result in zip(stages, runs.attempt(listed, level, small(level, listed)), strict=True):
            if isinstance(result, StageFailure):
                self.failures[name] = result
            else:
                self.tables[name] = result

    def _find(self, ready: Sequence[Node], store: Store) -> None:
        for node in ready:
            try:
                made = self._made(node)
                found = store.find(made.table, made.key)
            except (NotKnownError, InputError, StageError) as error:
                if isinstance(error, NotKnownError):
                    self.unknown.add(node.id)
                self.failures[node.id] = StageFailure(node.label, str(error), False)
                continue
            if found is None:
                self.failures[node.id] = StageFailure(node.label, "not in the store", False)
            else:
                self.tables[node.id] = found


class LevelPlan(NamedTuple):
    """One level in numbers: how often its stages are asked for, how many differ, how many are in the store, and of
    how many that cannot be known."""

    level: str
    stages: int
    distinct: int
    stored: int
    unknown: int = 0


def plan_of(graph: Graph, walk: Walk) -> list[LevelPlan]:
    """The graph in numbers, by level; walk: what was found."""
    rows = []
    for level in LEVELS:
        nodes = graph.at(level)
        if nodes:
            stored = sum(node.id in walk.tables for node in nodes)
            unknown = sum(node.id in walk.unknown for node in nodes)
            rows.append(LevelPlan(level, graph.declared[level], len(nodes), stored, unknown))
    return rows
