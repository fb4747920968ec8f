"""What has gone wrong in batch work on Ray before, each as a test that would show it here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from rat_ray import tables
from rat_ray.allocate import AllocationSettings, study_stage, tasks
from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.errors import StageError
from rat_ray.stage import Runs, Stage, import_rows
from rat_ray.stage.runner import StageRunner
from rat_ray.stage.units import whole
from rat_ray.store import MANIFEST, Store
from tests.allocate.planted import CONFIG, planted, settings_of
from tests.faulty import (
    Bare,
    Lengths,
    Trouble,
    calls,
    kill_now,
    meanwhile,
    questions,
    stage_of,
    wait_for,
)

pytestmark = pytest.mark.ray
STORE_MB = 80  # the smallest object store that Ray allows


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(ClusterSettings(use="always", cpus=3, object_store_mb=STORE_MB)) as made:
        made.connect()
        yield made


# --- a column that has only nulls in some parts ------------------------------------------------------------------


def test_parts_with_only_nulls_in_a_column_are_one_table(cluster: Cluster, store: Store) -> None:
    [table] = Runs(store, cluster, quiet=True).run([stage_of("sparse", questions(store, 16))], "nulls")
    rows = table.read()
    assert rows.schema.equals(tables.VERDICTS)
    assert [value is None for value in rows.column("raw").to_pylist()] == ([True] * 4 + [False] * 4) * 2
    files = [f"{store.where('sparse', table.key)}/{part.name}" for part in table.parts]
    for listed in (files, files[::-1]):  # Arrow takes the schema of the first file for that of all
        assert ds.dataset(listed).to_table().sort_by("question_id").equals(rows.sort_by("question_id"))
    assert table.read_range(2, 6).equals(rows.slice(2, 4)), "rows of a part with nulls and of one without"


def test_a_type_that_was_guessed_from_nulls_is_refused(cluster: Cluster, store: Store) -> None:
    with pytest.raises(StageError, match=r"'(verdict|raw|error)' is (null|int64), the schema says (int8|string)"):
        Runs(store, cluster, quiet=True).run([stage_of("inferred", questions(store, 8))], "nulls")


# --- text that another call would write differently --------------------------------------------------------------


class FirstParts:
    """Sees each range's part when it first appears, and kills the process that has just written one, now and then."""

    def __init__(self, folder: Path, log: Path, ranges: int, kills: int) -> None:
        self._folder, self._log, self._ranges, self._kills = folder, log, ranges, kills
        self.first: dict[str, str] = {}

    def watch(self) -> None:
        wait_for(self._all_seen, "all parts")

    def _all_seen(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            for path in sorted(self._folder.glob("part-*")):
                bounds = path.name[:30]
                if bounds not in self.first:
                    self.first[bounds] = path.name
                    self._kill_somebody()
        return len(self.first) == self._ranges

    def _kill_somebody(self) -> None:
        if self._kills and len(self.first) % 2:
            self._kills -= 1
            kill_now(calls(self._log)[-1].pid)


def test_generated_text_that_was_written_is_the_text(cluster: Cluster, store: Store, tmp_path: Path) -> None:
    log, ranges = tmp_path / "calls", 12
    stage = stage_of("random", questions(store, 4 * ranges), Trouble(str(log), wait=0.2))
    watcher = FirstParts(Path(store.where("random", stage.key)), log, ranges, kills=3)
    with meanwhile(watcher.watch):
        [table] = Runs(store, cluster, quiet=True).run([stage], "text")
    assert sorted(part.name for part in table.parts) == sorted(watcher.first.values())
    assert len(list(Path(store.where("random", stage.key)).glob("part-*"))) == ranges, "no range has two texts"
    texts, made = table.read(), len(calls(log))
    assert made > ranges or len({call.pid for call in calls(log)}) > 3, "a process was killed"
    (Path(store.where("random", stage.key)) / MANIFEST).unlink()  # as if the driver had died before it
    [again] = Runs(store, cluster, quiet=True).run([stage], "text")
    assert again.read().equals(texts)
    assert len(calls(log)) == made


def test_a_part_whose_answer_was_lost_is_not_made_again(store: Store, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    stage = stage_of("random", questions(store, 4), Trouble(str(log)))
    unit = whole(0, 0, 4)
    lost = StageRunner([stage], [stage.key], store)(unit)  # by a process that died before it could answer
    again = StageRunner([stage], [stage.key], store)(unit, True)
    assert again.part is not None
    assert again.part == lost.part
    assert len(calls(log)) == 1


# --- seeds --------------------------------------------------------------------------------------------------------


def study(store: Store, workers: int, range_rows: int) -> Stage:
    """Fits in replicates; those of `joint` have all labels, so that nothing but their seeds differs."""
    allocated = AllocationSettings(base=20, budgets=[10_000], strategies=["joint", "all_r"], replicates=3)
    listed = import_rows(store, "tasks", "tasks", tasks(allocated, CONFIG))
    annotated = import_rows(store, "annotations", "annotations", planted(60))
    resources = Resources(workers=workers, range_rows=range_rows)
    return study_stage(listed, annotated, settings_of(allocated), resources)


def test_draws_depend_on_names_and_not_on_tasks_workers_or_ranges(cluster: Cluster, tmp_path: Path) -> None:
    found: list[pa.Table] = []
    for workers, range_rows in ((1, 6), (2, 2), (3, 1)):
        store = Store(tmp_path / f"{workers}")
        store.prepare()
        [table] = Runs(store, cluster, quiet=True).run([study(store, workers, range_rows)], "seeds")
        found.append(table.read())
    assert found[1].equals(found[0])
    assert found[2].equals(found[0])
    rows = [row for row in found[0].to_pylist() if row["quantity"] == "p_g" and row["strategy"] == "joint"]
    assert {row["base"] + row["labels_r"] for row in rows} == {60}, "all replicates have all labels"
    assert len({row["mean"] for row in rows}) == 3, "and yet each has draws of its own"


# --- actors of an earlier run -------------------------------------------------------------------------------------


def test_named_actors_of_earlier_runs_are_not_met(cluster: Cluster, store: Store) -> None:
    import ray

    cluster.connect()
    here = ray.get_runtime_context().namespace
    stale = [
        ray.remote(num_cpus=0)(Stale).options(name=name, namespace=namespace, lifetime="detached").remote()
        for name in ("_Worker", "same")
        for namespace in (here, "rat_ray")
    ]
    try:
        ray.get([actor.calls.remote() for actor in stale])
        before = names()
        [table] = Runs(store, cluster, quiet=True).run([stage_of("same", questions(store, 16))], "same")
        assert table.num_rows == 16
        assert names() == before, "a run leaves no named actor"
        assert ray.get([actor.calls.remote() for actor in stale]) == [1] * len(stale)
    finally:
        for actor in stale:
            ray.kill(actor)


class Stale:
    """Answers to what a worker of an earlier version may have been asked, and counts."""

    def __init__(self) -> None:
        self._count = -1

    def calls(self) -> int:
        self._count += 1
        return self._count

    def run(self, *_: object) -> None:
        self._count += 100

    def where(self) -> tuple[str, str]:
        self._count += 100
        return "", ""


def names() -> set[tuple[str, str]]:
    from ray.util import list_named_actors

    return {(actor["namespace"], actor["name"]) for actor in list_named_actors(all_namespaces=True)}


# --- objects ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_part_larger_than_the_object_store(cluster: Cluster, store: Store) -> None:
    size = 32 << 20
    runs = Runs(store, cluster, quiet=True)
    [big] = runs.run([stage_of("same", questions(store, 4), Trouble(size=size))], "large")
    [part] = big.parts
    assert Path(store.where("same", big.key), part.name).stat().st_size > 60 << 20, "random digits halve at best"
    assert sum(len(text) for text in big.read(["raw"]).column("raw").to_pylist()) == 4 * size > STORE_MB << 20
    stage = Stage(
        table="bare",
        label="lengths",
        settings=Trouble(),
        worker=Lengths,
        over={"verdicts": big},
        inputs={"all": big},
        schema=Bare.schema,
        resources=Resources(range_rows=4, workers=1),
    )
    [lengths] = runs.run([stage], "read")
    assert lengths.read().column("text").to_pylist() == [f"{size} of {4 * size}"] * 4
