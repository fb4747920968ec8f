"""Kill -9 in the middle of generation, run again: nothing lost, nothing done twice."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pyarrow as pa
import pytest

from tests.commandline import command, everything_under, succeed
from tests.helpers import read_partitions

pytestmark = [pytest.mark.model, pytest.mark.ray]
ARGUMENTS = [
    "evaluate",
    "dataset=demo",
    "dataset.limit=18",
    "retriever=bm25",
    "generator=gemma3_270m_eager",
    "judge=none",
    "resources.generate.range_rows=2",
    "engine.chains=2",
    "engine.samples=200",
    "out=out",
    "store=store",
]
PARTS = 9


def answer_parts(folder: Path) -> dict[str, tuple[int, int]]:
    store = folder / "store"
    found = everything_under(store) if store.exists() else {}
    return {name: facts for name, facts in found.items() if name.startswith("answers/") and "/part-" in name}


def annotations(folder: Path) -> pa.Table:
    [table] = read_partitions(folder / "out" / "annotations").values()
    return table


def kill_in_the_middle(folder: Path) -> dict[str, tuple[int, int]]:
    """Start the job, kill its driver when some parts are there, and give the parts that it left."""
    job = subprocess.Popen(command(*ARGUMENTS), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    limit = time.monotonic() + 300
    while len(answer_parts(folder)) < 2:
        assert job.poll() is None, "the job ended before it could be killed"
        assert time.monotonic() < limit
        time.sleep(0.05)
    os.kill(job.pid, signal.SIGKILL)
    job.wait()
    quiet_since, left = time.monotonic(), answer_parts(folder)
    while time.monotonic() - quiet_since < 5:  # a worker may finish its range before it notices
        time.sleep(0.2)
        if answer_parts(folder) != left:
            quiet_since, left = time.monotonic(), answer_parts(folder)
    return left


@pytest.mark.slow
def test_a_killed_job_goes_on_where_it_was(tmp_path: Path) -> None:
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    killed.mkdir()
    undisturbed.mkdir()
    left = kill_in_the_middle(killed)
    assert 2 <= len(left) < PARTS
    assert not list((killed / "store").glob("answers/*/manifest.json")), "no table before it is whole"
    printed = succeed(*ARGUMENTS, cwd=killed)
    after = answer_parts(killed)
    assert len(after) == PARTS
    assert {name: facts for name, facts in after.items() if name in left} == left, "completed parts are untouched"
    assert f"{2 * len(left)} reused" in printed
    succeed(*ARGUMENTS, cwd=undisturbed)
    again, whole = annotations(killed), annotations(undisturbed)
    assert again.column("question_id").to_pylist() == whole.column("question_id").to_pylist()
    assert again.num_rows == 18
    assert again.column("r").to_pylist() == whole.column("r").to_pylist()
