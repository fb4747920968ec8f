"""Retrievers' lists over passages and questions in a store, made by the stages that make them in a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rat_ray.cluster import Cluster, Resources
from rat_ray.graph import Graph, Walk
from rat_ray.retrieval_stages import RetrievalStages
from rat_ray.stage import Runs, import_rows
from rat_ray.store import Store, Table


@dataclass(frozen=True)
class Sizes:
    """Shards of `shard` passages, in so many groups; questions in ranges."""

    shard: int = 1_000_000
    search_groups: int = 1
    range_rows: int = 256

    @property
    def encode(self) -> Resources:
        return Resources(range_rows=self.shard)

    index = encode
    gather = encode

    @property
    def retrieve(self) -> Resources:
        return Resources(range_rows=self.range_rows)

    rerank = retrieve
    label = retrieve


def make_lists(
    store: Store,
    cluster: Cluster,
    sizes: Sizes,
    retrievers: Mapping[str, Any],
    names: Sequence[str],
    passages: pa.Table,
    questions: pa.Table,
) -> dict[str, Table]:
    """The lists of the named retrievers."""
    graph = Graph()
    over = graph.give(import_rows(store, "passages", "passages", passages))
    asked = graph.give(import_rows(store, "questions", "questions", questions))
    stages = RetrievalStages(graph, retrievers, sizes, lambda _: over, lambda _: asked)
    wanted = {name: stages.lists("these", name) for name in names}
    walk = Walk(graph)
    walk.run(Runs(store, cluster, quiet=True), lambda level, _: cluster.settings.use == "never")
    failure = walk.why(*wanted.values())
    assert failure is None, failure
    return {name: walk.tables[node] for name, node in wanted.items()}
