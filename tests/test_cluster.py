"""A running cluster of two Ray nodes: connect to it by RAY_ADDRESS, and leave it running."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests import ray_nodes
from tests.commandline import command
from tests.ray_nodes import Running

pytestmark = pytest.mark.ray
ROWS = ["q1,A,1,0,1", "q2,A,0,1,", "q3,A,1,0,0", "q1,B,1,0,1", "q2,B,,0,1", "q3,B,0,0,0"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Running]:
    with ray_nodes.cluster(nodes=2) as running:
        yield running


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    (tmp_path / "labels.csv").write_text("\n".join(["question_id,model,r,a,t", *ROWS]) + "\n")
    return tmp_path


FIT = ["data=labels.csv", "by=[model]", "out=out", "cluster.use=always", "engine.chains=2", "engine.samples=200"]


def test_a_running_cluster_is_used_and_left_running(cluster: Running, labels: Path) -> None:
    with_address = cluster._replace(environment={**cluster.environment, "RAY_ADDRESS": cluster.address})
    done = with_address.run(*command("fit", *FIT), cwd=labels)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = pq.read_table(labels / "out" / "summary.parquet")
    assert set(summary.column("config").to_pylist()) == {"A", "B"}
    assert cluster.nodes() == 2


def test_an_address_where_nothing_answers_is_refused_in_words(labels: Path) -> None:
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled"}
    nothing = Running("127.0.0.1:1", "", environment)
    done = nothing.run(*command("fit", *FIT, "cluster.address=127.0.0.1:1"), cwd=labels)
    assert done.returncode == 2
    assert "no Ray cluster answers there" in done.stderr
    assert "Traceback" not in done.stderr
