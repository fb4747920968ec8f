"""A node killed in each kind of stage: its raylet, its workers and its agents, with kill -9, on a cluster of three."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rat_ray.cluster import Cluster, ClusterSettings
from rat_ray.errors import InputError
from rat_ray.stage import Runs
from rat_ray.store import StorageSettings, Store
from tests import ray_nodes
from tests.faulty import Trouble, calls, content, meanwhile, questions, stage_of, undisturbed, wait_for
from tests.ray_nodes import Running

pytestmark = pytest.mark.ray
ROWS, RANGE = 32, 4
QUICK = {"same"}
KINDS = [
    kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow)
    for kind in ("same", "files", "groups", "counts", "whole")
]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Running]:
    """A head that takes no work, and two nodes of one worker each; this process is connected to it."""
    import ray

    own = {**ray_nodes.HASTY, **ray_nodes.token_of_this_process()}
    with ray_nodes.cluster(nodes=3, cpus=1, head_cpus=0, dashboard=False, **own) as running:
        with Cluster(ClusterSettings(use="always", address=running.address)) as cluster:
            cluster.connect()
            yield running
        ray.shutdown()


@pytest.fixture
def cluster(nodes: Running) -> Cluster:
    """The cluster with two nodes for work: one is added where a test has killed one."""
    while len(nodes.ips()) < 3:
        nodes.add_node()
    return Cluster(ClusterSettings(use="always", address=nodes.address))


def node_of(nodes: Running, pid: int) -> str:
    """The node on which a worker runs."""
    return next(ip for ip in nodes.ips() if pid in nodes.workers(ip))


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_node_costs_what_it_was_doing(
    nodes: Running, cluster: Cluster, store: Store, tmp_path: Path, kind: str
) -> None:
    log = tmp_path / "calls"
    before = 1 if kind == "whole" else 3

    def kill_the_last_caller() -> None:
        wait_for(lambda: len(calls(log)) >= before, "calls")
        nodes.kill_node(node_of(nodes, calls(log)[-1].pid))

    trouble = Trouble(str(log), wait=3.0 if kind == "whole" else 0.7)
    stage = stage_of(kind, questions(store, ROWS), trouble, range_rows=RANGE)
    runs = Runs(store, cluster, quiet=True)
    with meanwhile(kill_the_last_caller):
        [table] = runs.run([stage], "kill")
    expected = undisturbed(kind, tmp_path, ROWS, range_rows=RANGE)
    assert table.digest == expected.digest
    assert content(table) == content(expected)
    assert [(record.new_rows, record.row_errors) for record in runs.records] == [(ROWS, 0)]
    ranges = 1 if kind == "whole" else ROWS // RANGE
    assert len(calls(log)) == ranges + 1, "what the node was doing, and nothing else, was done twice"


@pytest.mark.slow
def test_a_node_that_joins_is_put_to_work(nodes: Running, cluster: Cluster, store: Store, tmp_path: Path) -> None:
    log = tmp_path / "calls"

    def replace_a_node() -> None:
        wait_for(lambda: len(calls(log)) >= 2, "calls")
        nodes.kill_node(node_of(nodes, calls(log)[-1].pid))
        nodes.add_node()

    stage = stage_of("same", questions(store, 100), Trouble(str(log), wait=0.8))
    with meanwhile(replace_a_node):
        [table] = Runs(store, cluster, quiet=True).run([stage], "join")
    assert table.num_rows == 100
    assert len({call.pid for call in calls(log)}) == 3, "the two workers of the beginning, and one on the new node"


def test_a_folder_is_refused_on_more_than_one_host(
    nodes: Running, cluster: Cluster, store: Store, tmp_path: Path
) -> None:
    stage = stage_of("same", questions(store, 8))
    ip = nodes.add_node(hostname="elsewhere")
    try:
        with pytest.raises(InputError, match=r"2 hosts \(elsewhere, ") as refused:
            Runs(store, cluster, quiet=True).run([stage], "hosts")
        assert str(store.root) in str(refused.value)
        assert "storage.shared=true" in str(refused.value)
        assert not store.parts("same", stage.key)
        shared = Store(store.root, StorageSettings(shared=True))
        log = tmp_path / "calls"
        stage = stage_of("same", questions(shared, ROWS), Trouble(str(log), wait=0.5))
        [table] = Runs(shared, cluster, quiet=True).run([stage], "hosts")
        assert table.num_rows == ROWS
        assert "elsewhere" in table.manifest["hosts"]
        assert os.uname().nodename in table.manifest["hosts"]
    finally:
        nodes.kill_node(ip)
