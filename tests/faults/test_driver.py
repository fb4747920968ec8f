"""The driver killed with kill -9 and run again, on a Ray of its own and on one that outlives it; the head killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rat_ray.cluster import Cluster, ClusterSettings
from rat_ray.stage import Runs
from rat_ray.store import Store
from tests import ray_nodes
from tests.commandline import everything_under
from tests.faulty import calls, content, kill_now, questions, stage_of, undisturbed, wait_for

pytestmark = pytest.mark.ray
REPOSITORY = Path(__file__).resolve().parents[2]
ROWS, RANGES = 40, 10


def driver(kind: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    given = [kind, str(folder / "store"), f"--rows={ROWS}", f"--log={folder / 'calls'}", *arguments]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.driver", *given],
        cwd=REPOSITORY,
        env=ray_nodes.plain_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def parts(folder: Path, kind: str) -> dict[str, tuple[int, int]]:
    """The complete parts of the one table of this kind."""
    store = folder / "store"
    found = everything_under(store) if store.exists() else {}
    return {name: facts for name, facts in found.items() if name.startswith(f"{kind}/") and "/part-" in name}


def kill_in_the_middle(job: subprocess.Popen[str], folder: Path, kind: str) -> None:
    """kill -9 of the driver when some ranges are done, and not before its workers are gone as well."""
    wait_for(lambda: len(parts(folder, kind)) >= 3 or job.poll() is not None, "three parts")
    assert job.poll() is None, job.communicate()
    job.kill()
    job.wait()
    workers = {call.pid for call in calls(folder / "calls")}
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), "the end of the workers")


def check_it_goes_on(folder: Path, kind: str, *arguments: str) -> None:
    """Run the same again: what was complete is untouched, and the table is the undisturbed one."""
    left, made = parts(folder, kind), len(calls(folder / "calls"))
    assert 3 <= len(left) < RANGES
    assert not list((folder / "store" / kind).glob("*/manifest.json")), "no table before it is whole"
    out, err = driver(kind, folder, *arguments).communicate(timeout=240)
    assert out.strip() == f"{4 * len(left)} reused, {ROWS - 4 * len(left)} new", err
    assert {name: facts for name, facts in parts(folder, kind).items() if name in left} == left
    assert len(calls(folder / "calls")) == made + RANGES - len(left)


def compare(folder: Path, kind: str) -> None:
    """Equal to what one process makes that nobody disturbs."""
    expected = undisturbed(kind, folder, ROWS)
    table = Store(folder / "store").find(kind, expected.key)
    assert table is not None
    assert content(table).equals(content(expected))


def test_a_killed_driver_goes_on_where_it_was(tmp_path: Path) -> None:
    kill_in_the_middle(driver("same", tmp_path, "--wait=0.5"), tmp_path, "same")
    check_it_goes_on(tmp_path, "same")
    compare(tmp_path, "same")


@pytest.mark.slow
def test_texts_that_were_written_outlive_their_driver(tmp_path: Path) -> None:
    kill_in_the_middle(driver("random", tmp_path, "--wait=0.5"), tmp_path, "random")
    check_it_goes_on(tmp_path, "random")


@pytest.mark.slow
def test_a_killed_driver_leaves_a_running_cluster_free(tmp_path: Path) -> None:
    with ray_nodes.cluster(nodes=2, cpus=1, dashboard=False) as running:
        here = f"--address={running.address}"
        kill_in_the_middle(driver("same", tmp_path, "--wait=0.5", here), tmp_path, "same")
        check_it_goes_on(tmp_path, "same", here)
        assert running.nodes() == 2
    compare(tmp_path, "same")


@pytest.mark.slow
def test_a_lost_head_ends_the_job_with_an_error(tmp_path: Path) -> None:
    with ray_nodes.cluster(nodes=2, cpus=1, dashboard=False, RAY_gcs_rpc_server_reconnect_timeout_s="10") as running:
        # Workers and driver speak to each other without the head for a while, so there must be much left to do.
        job = driver("same", tmp_path, "--wait=8", f"--address={running.address}")
        wait_for(lambda: len(parts(tmp_path, "same")) >= 3 or job.poll() is not None, "three parts")
        ray_nodes.kill_all_that_name(running.environment["RAY_TMPDIR"])
        out, err = job.communicate(timeout=240)
        assert job.returncode != 0, out + err
    check_it_goes_on(tmp_path, "same")
    compare(tmp_path, "same")


@pytest.mark.slow
def test_killed_three_times_over(tmp_path: Path) -> None:
    """Each run gets a little further than the one before, whenever it is killed."""
    done = 0
    for _ in range(3):
        job = driver("files", tmp_path, "--wait=0.5")
        wait_for(lambda job=job, done=done: len(parts(tmp_path, "files")) > done or job.poll() is not None, "a part")  # type: ignore[misc]
        kill_now(job.pid)
        job.wait()
        assert len(parts(tmp_path, "files")) > done
        done = len(parts(tmp_path, "files"))
    out, err = driver("files", tmp_path).communicate(timeout=240)
    assert out.strip().endswith("new"), err
    plain = Store(tmp_path / "undisturbed")
    plain.prepare()
    expected = stage_of("files", questions(plain, ROWS))
    [undisturbed] = Runs(plain, Cluster(ClusterSettings(use="never")), quiet=True).run([expected], "plain")
    table = Store(tmp_path / "store").find("files", expected.key)
    assert table is not None
    assert content(table) == content(undisturbed)
