"""Two jobs want the same table at the same time: it is paid for once, and both get it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rat_ray.store import Store
from tests.faulty import calls, wait_for
from tests.servers import Access, moto

REPOSITORY = Path(__file__).resolve().parents[2]
ROWS, RANGES = 40, 10


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    with moto(tmp_path_factory.mktemp("moto")) as access:
        access.client().create_bucket(Bucket="two-jobs")
        yield access


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, server: Access, tmp_path: Path) -> tuple[str, dict[str, str]]:
    """A store's address, and the environment in which it is found."""
    if request.param == "local":
        return str(tmp_path / "store"), {}
    found = {**server.environment(), "AWS_ENDPOINT_URL": server.endpoint, "AWS_DEFAULT_REGION": "us-east-1"}
    return f"s3://two-jobs/{tmp_path.name}", found


def start(place: tuple[str, dict[str, str]], log: Path, wait: float) -> subprocess.Popen[str]:
    arguments = ["random", place[0], "--rows", str(ROWS), "--log", str(log), "--wait", str(wait), "--use", "never"]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.driver", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **place[1]},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(job: subprocess.Popen[str]) -> str:
    out, err = job.communicate(timeout=120)
    assert job.returncode == 0, out + err
    return out.strip().splitlines()[-1]


def committed(place: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    for name, value in place[1].items():
        monkeypatch.setenv(name, value)
    store = Store(place[0])
    [key] = [key for key in store.objects.children("random") if store.find("random", key)]
    table = store.find("random", key)
    assert table is not None
    return [str(one) for one in table.read(["question_id"]).column("question_id").to_pylist()]


def test_what_two_jobs_want_at_once_is_made_once(
    place: tuple[str, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "calls"
    jobs = [start(place, log, wait=0.4) for _ in range(2)]
    said = sorted(finish(job) for job in jobs)
    assert said == ["0 reused, 40 new", "40 reused, 0 new"]
    assert len(calls(log)) == RANGES
    assert len({call.pid for call in calls(log)}) == 1
    assert len(committed(place, monkeypatch)) == ROWS


def test_a_job_that_waits_goes_on_where_a_killed_one_was(
    place: tuple[str, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "calls"
    first = start(place, log, wait=1.0)
    wait_for(lambda: len(calls(log)) >= 3, "three ranges")
    second = start(place, log, wait=0.0)
    wait_for(lambda: len(calls(log)) >= 6, "six ranges")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    before = {call.first for call in calls(log)}
    assert finish(second).endswith("new")
    assert len(committed(place, monkeypatch)) == ROWS
    again = [call.first for call in calls(log) if call.pid != first.pid]
    assert len(again) <= RANGES - len(before) + 1, "the range that was in work, and what was not begun"
