"""The S3 server away for ten seconds in the middle of a stage, and a disk that is full."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rat_ray.cluster import Cluster, ClusterSettings
from rat_ray.errors import StageError
from rat_ray.stage import Runs, Stage
from rat_ray.store import Store, parse_part
from tests import servers
from tests.faulty import Trouble, calls, content, meanwhile, questions, stage_of, undisturbed, wait_for
from tests.servers import Swift

ROWS = 32
SIZE = 64 * 1024  # bytes per row, so that a range is a quarter of a MiB
AWAY = 10.0  # seconds


# --- a server that goes away --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def swift(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Swift]:
    with servers.swift(tmp_path_factory.mktemp("swift")) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.access.environment().items():
            patch.setenv(name, value)  # before Ray starts: its workers inherit them
        server.access.client().create_bucket(Bucket="rat-ray")
        yield server


@pytest.fixture(scope="module")
def cluster(swift: Swift) -> Iterator[Cluster]:
    with Cluster(ClusterSettings(use="always", cpus=2)) as made:
        made.connect()
        yield made


def go_away(server: Swift, log: Path) -> None:
    """kill -9 of the server when some ranges are under way, and its return."""
    wait_for(lambda: len(calls(log)) >= 3, "three calls")
    server.kill()
    time.sleep(AWAY)
    server.start()


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["same", "files"])
def test_a_server_that_was_away_for_ten_seconds_costs_nothing(
    swift: Swift, cluster: Cluster, tmp_path: Path, kind: str
) -> None:
    store = Store(f"s3://rat-ray/away-{kind}", swift.access.storage(cache=str(tmp_path / "cache")))
    store.prepare()
    log = tmp_path / "calls"
    stage = stage_of(kind, questions(store, ROWS), Trouble(str(log), wait=0.5))
    runs = Runs(store, cluster, quiet=True)
    with meanwhile(lambda: go_away(swift, log)):
        [table] = runs.run([stage], "away")
    assert table.digest == undisturbed(kind, tmp_path, ROWS).digest
    assert [(record.new_rows, record.row_errors) for record in runs.records] == [(ROWS, 0)]
    assert len(calls(log)) == ROWS // 4, "no range was made twice"


@pytest.mark.ray
@pytest.mark.slow
def test_a_server_that_stays_away_ends_the_stage_and_a_rerun_goes_on(
    swift: Swift, cluster: Cluster, tmp_path: Path
) -> None:
    storage = swift.access.storage(patience=3.0, lease_seconds=5.0)
    store = Store("s3://rat-ray/gone", storage)
    store.prepare()
    log = tmp_path / "calls"
    stage = stage_of("same", questions(store, ROWS), Trouble(str(log), wait=0.5))

    def kill_it() -> None:
        wait_for(lambda: len(calls(log)) >= 4, "four calls")
        swift.kill()

    try:
        with meanwhile(kill_it), pytest.raises(StageError, match=r"no connection; check storage\.endpoint") as failed:
            Runs(store, cluster, quiet=True).run([stage], "gone")
    finally:
        swift.start()
    assert "testing" not in str(failed.value), "no secret in a message"
    left = len(store.parts("same", stage.key))
    assert 0 < left < ROWS // 4
    runs = Runs(store, cluster, quiet=True)
    [table] = runs.run([stage], "again")
    assert table.digest == undisturbed("same", tmp_path, ROWS).digest
    assert [record.reused_rows for record in runs.records] == [4 * left]


# --- a disk that is full ------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mount is not permitted here: no disk that can be filled")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def make_space(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)


def check_parts_are_whole(store: Store, stage: Stage) -> int:
    """Whatever has a part's name holds what its name says; gives how many there are."""
    folder = Path(store.where(stage.table, stage.key))
    found = [part for part in map(parse_part, sorted(path.name for path in folder.iterdir())) if part is not None]
    for part in found:
        if stage.schema is not None:
            assert pq.read_table(folder / part.name, partitioning=None).num_rows == part.rows
    return len(found)


def fill(kind: str, disk: Path, cluster: Cluster, folder: Path) -> None:
    """Run into the full disk, make space, run again."""
    store = Store(disk / "store")
    store.prepare()
    trouble = Trouble(size=SIZE)
    stage = stage_of(kind, questions(store, ROWS), trouble)
    with pytest.raises(StageError, match=r"the disk is full; make space and run the same command again") as failed:
        Runs(store, cluster, quiet=True).run([stage], "fill")
    assert f"{store.root}/{kind}/" in str(failed.value), "the error names what could not be written"
    assert "Traceback" not in str(failed.value)
    assert store.find(kind, stage.key) is None
    complete = check_parts_are_whole(store, stage)
    assert 0 < complete < ROWS // 4
    make_space(disk)
    runs = Runs(store, cluster, quiet=True)
    [table] = runs.run([stage], "again")
    assert [record.reused_rows for record in runs.records] == [4 * complete]
    expected = undisturbed(kind, folder, ROWS, trouble)
    assert table.digest == expected.digest
    with contextlib.suppress(AttributeError):  # folders of files have no equals
        assert content(table).equals(content(expected))
    left = [path.name for path in Path(store.where(kind, stage.key)).iterdir() if path.name.startswith(".")]
    assert not [name for name in left if name.startswith(".tmp")], "no short file is left behind"


@pytest.mark.parametrize("kind", ["same", "groups", "files"])
def test_a_full_disk_ends_the_stage_and_a_rerun_finishes_it(small_disk: Path, tmp_path: Path, kind: str) -> None:
    fill(kind, small_disk, Cluster(ClusterSettings(use="never")), tmp_path)


@pytest.mark.ray
@pytest.mark.slow
def test_a_full_disk_below_workers_on_ray(small_disk: Path, cluster: Cluster, tmp_path: Path) -> None:
    fill("same", small_disk, cluster, tmp_path)
