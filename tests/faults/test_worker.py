"""A worker process killed, rows that kill their process, and stages that stand still, on a real local Ray."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rat_ray import pool
from rat_ray.cluster import Cluster, ClusterSettings
from rat_ray.errors import StageError
from rat_ray.stage import Runs
from rat_ray.store import Store, Table
from tests.faulty import KINDS, Trouble, calls, content, kill_now, meanwhile, questions, stage_of, undisturbed, wait_for
from tests.ray_nodes import plain_environment

pytestmark = pytest.mark.ray
ROWS = 24


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(ClusterSettings(use="always", cpus=2)) as made:
        made.connect()
        yield made


# A threshold 3 GiB above what is used now, so that the row that takes 5 GiB is killed by Ray's monitor.
GREEDY = """
import os, sys
facts = {line.split(":")[0]: int(line.split()[1]) for line in open("/proc/meminfo")}
used = 1 - facts["MemAvailable"] / facts["MemTotal"]
os.environ["RAY_memory_usage_threshold"] = str(round(used + 3 * 2**20 / facts["MemTotal"], 3))
os.environ["RAY_memory_monitor_refresh_ms"] = "100"
from rat_ray.cluster import Cluster, ClusterSettings
from rat_ray.stage import Runs
from rat_ray.store import Store
from tests.faulty import Trouble, questions, stage_of
store = Store(sys.argv[1])
store.prepare()
stage = stage_of("same", questions(store, 12), Trouble(greedy="q5"))
with Cluster(ClusterSettings(use="always", cpus=2)) as cluster:
    [table] = Runs(store, cluster, quiet=True).run([stage], "greedy")
print([row["question_id"] for row in table.read().to_pylist() if row["error"]])
"""
NO_START = """
import sys
import ray
from rat_ray.cluster import Cluster, ClusterSettings
from rat_ray.stage import Runs
from rat_ray.store import Store
from tests.faulty import questions, stage_of
ray.init(address="local", num_cpus=2, include_dashboard=False, runtime_env={"conda": "there-is-no-such"})
store = Store(sys.argv[1])
store.prepare()
with Cluster(ClusterSettings(use="always", stall_timeout=120)) as cluster:
    print(Runs(store, cluster, quiet=True).attempt([stage_of("same", questions(store, 4))], "start"))
"""


def run_script(source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run it in a process of its own, which must end well."""
    done = subprocess.run(
        [sys.executable, "-c", source, str(folder)],
        env=plain_environment(),
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def impatient(seconds: float) -> Cluster:
    """The module's cluster under a short stall timeout."""
    return Cluster(ClusterSettings(use="always", stall_timeout=seconds))


def test_a_killed_worker_costs_its_range_only(cluster: Cluster, store: Store, tmp_path: Path) -> None:
    log = tmp_path / "calls"

    def kill_one() -> None:
        wait_for(lambda: len(calls(log)) >= 3, "three calls")
        kill_now(calls(log)[-1].pid)

    stage = stage_of("same", questions(store, ROWS), Trouble(str(log), wait=0.4))
    runs = Runs(store, cluster, quiet=True)
    with meanwhile(kill_one):
        [table] = runs.run([stage], "kill")
    assert content(table).equals(content(undisturbed("same", tmp_path, ROWS)))
    assert [(record.new_rows, record.row_errors) for record in runs.records] == [(ROWS, 0)]
    made = [call.first for call in calls(log)]
    assert len(made) == ROWS // 4 + 1, "the range that was killed, and no other, was done twice"


def test_a_poison_row_gets_an_error_and_the_rest_goes_on(cluster: Cluster, store: Store, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    stage = stage_of("same", questions(store, 12), Trouble(str(log), poison=("q6",)))
    runs = Runs(store, cluster, quiet=True)
    [table] = runs.run([stage], "poison")
    expected = content(undisturbed("same", tmp_path, 12))
    found = content(table)
    assert found.column("question_id").equals(expected.column("question_id"))
    sound = [index for index in range(12) if index != 6]
    assert found.take(sound).equals(expected.take(sound))
    row = found.slice(6, 1).to_pylist()[0]
    assert row["status"] == "error"
    assert row["verdict"] is None
    assert row["raw"] is None
    assert "killed its worker 3 times" in row["error"]
    assert [record.row_errors for record in runs.records] == [1]
    assert sum(call == ("q4", 4, call.pid) for call in calls(log)) == 3, "a range is tried 3 times"
    assert sum(call == ("q6", 1, call.pid) for call in calls(log)) == 3, "and so is the row at last"
    before = log.read_text()
    assert content(runs.run([stage], "again")[0]).equals(found)
    assert log.read_text() == before


def test_several_ranges_are_in_one_worker_at_once(cluster: Cluster, store: Store, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    stage = stage_of("same", questions(store, 36), Trouble(str(log), meet=3), together=3, workers=1)
    [table] = Runs(store, cluster, quiet=True).run([stage], "together")
    assert content(table).equals(content(undisturbed("same", tmp_path, 36)))
    assert len({call.pid for call in calls(log)}) == 1
    assert sorted(call.first for call in calls(log)) == sorted(f"q{index}" for index in range(0, 36, 4))


def test_a_poison_row_among_several_ranges_at_once_is_found_and_no_other_is_blamed(
    cluster: Cluster, store: Store, tmp_path: Path
) -> None:
    log = tmp_path / "calls"
    stage = stage_of("same", questions(store, 24), Trouble(str(log), poison=("q14",)), together=3)
    runs = Runs(store, cluster, quiet=True)
    [table] = runs.run([stage], "poison")
    rows = content(table).to_pylist()
    assert [row["question_id"] for row in rows] == [f"q{index}" for index in range(24)]
    assert [row["question_id"] for row in rows if row["error"]] == ["q14"]
    assert sum(call == ("q14", 1, call.pid) for call in calls(log)) == 3, "tried alone as often as others are"
    assert [record.row_errors for record in runs.records] == [1]


@pytest.mark.slow
def test_two_poison_rows_in_one_range(cluster: Cluster, store: Store, tmp_path: Path) -> None:
    trouble = Trouble(poison=("q4", "q6"), signal=signal.SIGSEGV)
    runs = Runs(store, cluster, quiet=True)
    [table] = runs.run([stage_of("same", questions(store, 12), trouble)], "poison")
    rows = content(table).to_pylist()
    assert [row["question_id"] for row in rows] == [f"q{index}" for index in range(12)]
    assert [row["question_id"] for row in rows if row["error"]] == ["q4", "q6"]
    assert [record.row_errors for record in runs.records] == [2]


@pytest.mark.parametrize("kind", ["bare", *(pytest.param(k, marks=pytest.mark.slow) for k in ("groups", "counts"))])
def test_a_poison_row_that_cannot_carry_an_error_ends_the_stage_in_words(
    cluster: Cluster, store: Store, kind: str
) -> None:
    stage = stage_of(kind, questions(store, 12), Trouble(poison=("q6",)))
    with pytest.raises(StageError, match=rf"{kind}: rows \[[4-6], [78]\) killed their worker 3 times") as failed:
        Runs(store, cluster, quiet=True).run([stage], "poison")
    assert "cannot carry an error" in str(failed.value)
    assert "Traceback" not in str(failed.value)
    assert store.find(kind, stage.key) is None
    assert {(part.start, part.stop) for part in store.parts(kind, stage.key)} <= {(0, 4), (8, 12)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["files", "whole"])
def test_poison_in_files_and_whole_tables_ends_the_stage(cluster: Cluster, store: Store, kind: str) -> None:
    stage = stage_of(kind, questions(store, 8), Trouble(poison=("q6",)))
    with pytest.raises(StageError, match="killed their worker 3 times"):
        Runs(store, cluster, quiet=True).run([stage], "poison")
    assert store.find(kind, stage.key) is None


@pytest.mark.slow
def test_one_poisoned_stage_does_not_stop_the_others(cluster: Cluster, store: Store) -> None:
    source = questions(store, 12)
    bad = stage_of("bare", source, Trouble(poison=("q6",)))
    made = Runs(store, cluster, quiet=True).attempt([bad, stage_of("counts", source)], "both")
    assert "killed their worker" in getattr(made[0], "message", "")
    assert isinstance(made[1], Table)


@pytest.mark.parametrize("rows", [4, 2000])
def test_a_worker_that_cannot_be_made_ends_the_stage_soon(
    cluster: Cluster, store: Store, rows: int, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = stage_of("same", questions(store, rows), Trouble(dies_at_start=True))
    with pytest.raises(StageError, match="not these rows but the worker"):
        Runs(store, cluster, quiet=True).run([stage], "start")
    assert store.find("same", stage.key) is None
    assert capsys.readouterr().err.count("a worker died") < 30


def test_a_first_row_that_is_poison_is_not_taken_for_a_worker_that_cannot_be_made(
    cluster: Cluster, store: Store
) -> None:
    stage = stage_of("same", questions(store, 4), Trouble(poison=("q0",)))
    [table] = Runs(store, cluster, quiet=True).run([stage], "first")
    assert [row["question_id"] for row in table.read().to_pylist() if row["error"]] == ["q0"]


@pytest.mark.slow
def test_a_row_that_takes_all_memory_gets_an_error(tmp_path: Path) -> None:
    done = run_script(GREEDY, tmp_path)
    assert done.stdout.splitlines()[-1] == "['q5']"
    assert "low on memory" in done.stderr


@pytest.mark.slow
def test_workers_that_cannot_start_end_the_stage_with_the_reason(tmp_path: Path) -> None:
    done = run_script(NO_START, tmp_path)
    assert "3 workers in a row could not start" in done.stdout


def test_a_worker_that_hangs_is_reported_and_given_up(
    cluster: Cluster, store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pool, "REPORT_SECONDS", 2.0)
    stage = stage_of("same", questions(store, 12), Trouble(hang_at="q5"))
    with pytest.raises(StageError, match=r"nothing was finished for \d+ s; rows \[4, 8\) runs on ") as failed:
        Runs(store, impatient(6), quiet=True).run([stage], "hang")
    assert "cluster.stall_timeout=6 s" in str(failed.value)
    assert "run the same command again" in str(failed.value)
    assert "nothing was finished" in capsys.readouterr().err
    kept = [(part.start, part.stop) for part in store.parts("same", stage.key)]
    assert kept == [(0, 4), (8, 12)]
    [table] = Runs(store, cluster, quiet=True).run([stage_of("same", questions(store, 12))], "again")
    assert table.num_rows == 12


@pytest.mark.parametrize(("resources", "words"), [({"num_cpus": 64}, "64 CPU"), ({"num_gpus": 1}, "1 CPU and 1 GPU")])
def test_resources_that_no_node_has_are_named(
    cluster: Cluster, store: Store, resources: dict[str, float], words: str
) -> None:
    stage = stage_of("same", questions(store, 4), **resources)
    with pytest.raises(StageError, match=f"wait for a node with {words}"):
        Runs(store, impatient(3), quiet=True).run([stage], "large")


def test_every_kind_of_stage_is_the_same_here_and_on_ray(cluster: Cluster, store: Store, tmp_path: Path) -> None:
    source = questions(store, ROWS)
    kinds = [kind for kind in KINDS if kind not in ("random", "inferred")]
    for table in Runs(store, cluster, quiet=True).run([stage_of(kind, source) for kind in kinds], "all"):
        assert table.digest == undisturbed(table.table, tmp_path, ROWS).digest
