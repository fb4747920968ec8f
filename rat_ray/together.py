"""Several jobs that share a store and a cluster, run as one graph; each then writes its own results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from rat_ray.cluster import Cluster, ClusterSettings
from rat_ray.errors import InputError, StageError
from rat_ray.graph import Graph, Small, Walk
from rat_ray.outcome import Failed, Outcome
from rat_ray.stage import Runs, StageRecord
from rat_ray.store import Store


class GraphJob(Protocol):
    """One job of a sweep: what it declares, and how its results are written once the graph was run."""

    store: Store
    graph: Graph

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int:
        """How many configurations it has."""
        ...

    def finish(self, walk: Walk, records: Sequence[StageRecord]) -> Outcome: ...


def run_together(
    jobs: Mapping[int, GraphJob], cluster_settings: ClusterSettings, store: Store, seed: int, small: Small
) -> tuple[dict[int, Outcome], list[StageRecord]]:
    """Run all their graphs as one, then finish each job; the outcomes by their numbers, and what was done.

    Raises: StageError where the cluster or the store is lost.
    """
    graph = Graph()
    for job in jobs.values():
        graph.include(job.graph)
    with Cluster(cluster_settings) as cluster:
        runs = Runs(store, cluster, seed=seed)
        walk = Walk(graph)
        walk.run(runs, small)
    outcomes: dict[int, Outcome] = {}
    for index, job in jobs.items():
        try:
            outcomes[index] = job.finish(walk, own_records(job.graph, walk, runs.records))
        except (InputError, StageError) as error:  # its folder cannot be written, say: the others' may
            outcomes[index] = Outcome("", (Failed.by(job.name, error),), job.size)
    return outcomes, runs.records


def own_records(graph: Graph, walk: Walk, records: Sequence[StageRecord]) -> list[StageRecord]:
    """The records of the tables that this graph declares."""
    keys = {(table.table, table.key) for node, table in walk.tables.items() if node in graph.nodes}
    return [record for record in records if (record.table, record.key) in keys]
