"""A running cluster of two Ray nodes: connect to it by RAY_ADDRESS or as a submitted job, and leave it running."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest

from tests.commandline import command

pytestmark = pytest.mark.ray
REPOSITORY = Path(__file__).resolve().parents[1]
RAY = str(Path(sys.executable).parent / "ray")
PORT, DASHBOARD = 6401, 8301
ROWS = ["q1,A,1,0,1", "q2,A,0,1,", "q3,A,1,0,0", "q1,B,1,0,1", "q2,B,,0,1", "q3,B,0,0,0"]


class Running(NamedTuple):
    address: str
    environment: dict[str, str]

    def nodes(self) -> int:
        done = self.run(RAY, "status", "--address", self.address)
        return done.stdout.count(" node_") if done.returncode == 0 else 0

    def run(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            arguments, env=self.environment, cwd=cwd, capture_output=True, text=True, timeout=300, check=False
        )


def kill_all_that_name(folder: str) -> None:
    """Kill every process with the folder in its command line: `ray stop` would also stop other tests' clusters."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if folder in path.read_text(errors="replace") and int(path.parent.name) != os.getpid():
                os.kill(int(path.parent.name), signal.SIGKILL)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    temporary = Path("/tmp") / f"rat-{uuid.uuid4().hex[:8]}"  # short: Ray's sockets have a limit of 107 characters
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": str(temporary)}
    environment.pop("RAY_ADDRESS", None)
    running = Running(f"127.0.0.2:{PORT}", environment)
    common = ["--num-cpus=2", "--object-store-memory=100000000", "--disable-usage-stats"]
    head = ["--head", "--node-ip-address=127.0.0.2", f"--port={PORT}", f"--temp-dir={temporary}"]
    board = ["--dashboard-host=127.0.0.1", f"--dashboard-port={DASHBOARD}", "--include-dashboard=true"]
    try:
        started = running.run(RAY, "start", *head, *board, *common)
        assert started.returncode == 0, started.stderr
        joined = running.run(RAY, "start", f"--address={running.address}", "--node-ip-address=127.0.0.3", *common)
        assert joined.returncode == 0, joined.stderr
        yield running
    finally:
        kill_all_that_name(str(temporary))
        shutil.rmtree(temporary, ignore_errors=True)


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    (tmp_path / "labels.csv").write_text("\n".join(["question_id,model,r,a,t", *ROWS]) + "\n")
    return tmp_path


FIT = ["data=labels.csv", "by=[model]", "out=out", "cluster.use=always", "engine.chains=2", "engine.samples=200"]


def test_a_running_cluster_is_used_and_left_running(cluster: Running, labels: Path) -> None:
    with_address = Running(cluster.address, {**cluster.environment, "RAY_ADDRESS": cluster.address})
    done = with_address.run(*command("fit", *FIT), cwd=labels)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = pq.read_table(labels / "out" / "summary.parquet")
    assert set(summary.column("config").to_pylist()) == {"A", "B"}
    assert cluster.nodes() == 2


def test_an_address_where_nothing_answers_is_refused_in_words(labels: Path) -> None:
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled"}
    nothing = Running("127.0.0.1:1", environment)
    done = nothing.run(*command("fit", *FIT, "cluster.address=127.0.0.1:1"), cwd=labels)
    assert done.returncode == 2
    assert "no Ray cluster answers there" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_submitted_job_does_the_same(cluster: Running, labels: Path) -> None:
    data, out = labels / "labels.csv", labels / "out"
    submit = [RAY, "job", "submit", "--address", f"http://127.0.0.1:{DASHBOARD}", "--working-dir", str(REPOSITORY)]
    entry = [sys.executable, "jobs/fit.py", FIT[1], *FIT[3:], f"data={data}", f"out={out}"]
    done = cluster.run(*submit, "--", *entry)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "P(G=1)" in done.stdout
    assert pq.read_table(out / "summary.parquet").num_rows > 0
    wrong = cluster.run(*submit, "--", sys.executable, "jobs/fit.py", f"dta={data}")
    assert wrong.returncode != 0
    assert "did you mean 'data'" in wrong.stdout + wrong.stderr
