"""The one mechanism: keys, ranges, resume, and rows in = rows out, in a plain loop and on real Ray."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from rat_ray import tables
from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.errors import StageError
from rat_ray.stage import Runs, Stage, cut, import_table
from rat_ray.store import Store, Table
from tests.workers import Echo, EchoSettings, WriteIds


def questions(count: int, prefix: str = "q") -> pa.Table:
    rows = {
        "question_id": [f"{prefix}{index}" for index in range(count)],
        "question": ["why?"] * count,
        "answers": [["because"]] * count,
        "evidence": [None] * count,
        "shape": [None] * count,
    }
    return pa.table(rows, schema=tables.QUESTIONS)


def stored(store: Store, table: pa.Table, key: str = "k") -> Table:
    return import_table(store, "questions", key, "questions", tables.QUESTIONS, lambda: iter([table]))


def echo(source: Table, settings: EchoSettings | None = None, range_rows: int = 8) -> Stage:
    return Stage(
        table="verdicts",
        label="echo",
        settings=settings or EchoSettings(),
        worker=Echo,
        over={"questions": source},
        schema=tables.VERDICTS,
        resources=Resources(range_rows=range_rows),
    )


@pytest.fixture
def runs(store: Store) -> Runs:
    return Runs(store, Cluster(ClusterSettings(use="never")), quiet=True)


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[Cluster]:
    with Cluster(ClusterSettings(use="always", cpus=2)) as cluster:
        yield cluster


def test_cut_covers_every_row_once() -> None:
    assert cut(10, 4) == [(0, 4), (4, 8), (8, 10)]
    assert cut(0, 4) == [(0, 0)]


def test_ids_survive_in_order(store: Store, runs: Runs) -> None:
    source = stored(store, questions(50))
    [table] = runs.run([echo(source)], "echo")
    assert table.read().column("question_id").to_pylist() == [f"q{index}" for index in range(50)]
    assert len(table.parts) == 7


def test_an_empty_input_makes_an_empty_table(store: Store, runs: Runs) -> None:
    [table] = runs.run([echo(stored(store, questions(0)))], "echo")
    assert table.num_rows == 0
    assert table.read().schema.names == tables.VERDICTS.names


def test_a_second_run_calls_no_worker(store: Store, runs: Runs, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    source = stored(store, questions(20))
    stage = echo(source, EchoSettings(log=str(log)))
    first = runs.run([stage], "echo")
    calls = log.read_text()
    assert runs.run([stage], "echo") == first
    assert log.read_text() == calls
    assert [(record.new_rows, record.reused_rows) for record in runs.records] == [(20, 0), (0, 20)]


def test_only_missing_parts_are_made(store: Store, runs: Runs, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    source = stored(store, questions(40))
    failing = echo(source, EchoSettings(fail_at="q20", log=str(log)))
    with pytest.raises(StageError, match=r"rows \[16, 24\) failed: ValueError: cannot handle q20"):
        runs.run([failing], "echo")
    assert store.find("verdicts", failing.key) is None, "a partial result must not be a table"
    before = {part.name for part in store.parts("verdicts", failing.key)}
    assert len(before) == 2
    log.unlink()
    fine = dataclasses.replace(failing, settings=EchoSettings(log=str(log)), key_settings=failing.settings)
    [table] = runs.run([fine], "echo")
    assert before < {part.name for part in table.parts}
    assert [line.split()[0] for line in log.read_text().splitlines()] == ["q16", "q24", "q32"]
    assert table.num_rows == 40


@pytest.mark.parametrize(
    ("settings", "message"),
    [(EchoSettings(lose=True), "8 ids in, 7 out"), (EchoSettings(reverse=True), "another order")],
)
def test_lost_or_shuffled_rows_are_refused(store: Store, runs: Runs, settings: EchoSettings, message: str) -> None:
    with pytest.raises(StageError, match=message):
        runs.run([echo(stored(store, questions(20)), settings)], "echo")


def test_inputs_that_are_not_aligned_are_refused(store: Store, runs: Runs) -> None:
    one, other = stored(store, questions(8)), stored(store, questions(8, "x"), "other")
    stage = dataclasses.replace(echo(one), over={"questions": one, "others": other})
    with pytest.raises(StageError, match="differ in question_id"):
        runs.run([stage], "echo")
    longer = stored(store, questions(9), "longer")
    with pytest.raises(StageError, match="row-aligned"):
        runs.run([dataclasses.replace(echo(one), over={"questions": one, "others": longer})], "echo")


def test_key_depends_on_content_and_settings_only(store: Store, tmp_path: Path) -> None:
    source = stored(store, questions(8))
    stage = echo(source)
    elsewhere = Store(tmp_path / "elsewhere")
    assert echo(stored(elsewhere, questions(8), "another key")).key == stage.key
    assert echo(source, range_rows=3).key == stage.key
    assert echo(source, EchoSettings(wait=1.0)).key == stage.key, "speed is no part of the result"
    assert echo(source, EchoSettings(value="y")).key != stage.key
    assert echo(stored(store, questions(9), "nine")).key != stage.key
    assert dataclasses.replace(stage, version=2).key != stage.key
    wider = tables.VERDICTS.append(pa.field("more", pa.string()))
    assert dataclasses.replace(stage, schema=wider).key != stage.key


def test_equal_rows_have_equal_digests_whoever_made_them(store: Store, runs: Runs) -> None:
    source = stored(store, questions(20))
    first, second = runs.run([echo(source), echo(source, EchoSettings(fail_at="none"))], "echo")
    assert first.key != second.key
    assert first.digest == second.digest


def test_range_bounds_are_those_of_the_first_writer(store: Store, runs: Runs) -> None:
    source = stored(store, questions(40))
    with pytest.raises(StageError):
        runs.run([echo(source, EchoSettings(fail_at="q39"), range_rows=8)], "echo")
    again = echo(source, EchoSettings(), range_rows=5)
    again = dataclasses.replace(again, key_settings=EchoSettings(fail_at="q39"))
    [table] = runs.run([again], "echo")
    assert [part.stop - part.start for part in table.parts] == [8] * 5


def test_stages_with_one_key_run_once(store: Store, runs: Runs, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    source = stored(store, questions(8))
    stage = echo(source, EchoSettings(log=str(log)))
    first, second = runs.run([stage, dataclasses.replace(stage, label="the same again")], "echo")
    assert first == second
    assert len(log.read_text().splitlines()) == 1


@pytest.mark.ray
def test_ray_and_the_plain_loop_make_the_same_table(
    store: Store, runs: Runs, ray_cluster: Cluster, tmp_path: Path
) -> None:
    here = runs.run([echo(stored(store, questions(50)))], "echo")[0]
    other = Store(tmp_path / "other")
    log = tmp_path / "calls"
    on_ray = Runs(other, ray_cluster, quiet=True)
    source = stored(other, questions(50))
    there = on_ray.run([echo(source, EchoSettings(log=str(log), wait=0.1))], "echo")[0]
    assert there.digest == here.digest
    assert there.read().equals(here.read())
    processes = {line.split()[1] for line in log.read_text().splitlines()}
    assert len(processes) == 2, "two workers on two CPUs"


@pytest.mark.ray
def test_a_worker_that_raises_on_ray_ends_the_stage_with_its_message(store: Store, ray_cluster: Cluster) -> None:
    runs = Runs(store, ray_cluster, quiet=True)
    with pytest.raises(StageError, match="cannot handle q3"):
        runs.run([echo(stored(store, questions(8)), EchoSettings(fail_at="q3"))], "echo")


def test_an_import_that_loses_rows_is_refused(store: Store) -> None:
    def batches() -> Iterator[pa.Table]:
        return iter([questions(8)])

    with pytest.raises(StageError, match="9 questions were read, 8 are in the store"):
        import_table(store, "questions", "k", "demo", tables.QUESTIONS, batches, expected_rows=9)
    assert store.find("questions", "k") is None


def ids_stage(store: Store, settings: EchoSettings) -> Stage:
    rows = pa.table({"passage_id": ["a", "b", "c"], "title": ["t"] * 3, "text": ["x"] * 3}, schema=tables.PASSAGES)
    passages = import_table(store, "passages", "p", "p", tables.PASSAGES, lambda: iter([rows]))
    return Stage(
        table="index",
        label="ids",
        settings=settings,
        worker=WriteIds,
        over={"passages": passages},
        schema=None,
        rows="files",
        ids=("passage_id",),
        resources=Resources(range_rows=2),
    )


def test_a_folder_that_lacks_rows_is_refused(store: Store, runs: Runs) -> None:
    with pytest.raises(StageError, match="2 rows in, 1 accounted for"):
        runs.run([ids_stage(store, EchoSettings(lose=True))], "index")


@pytest.mark.ray
def test_a_file_stage_on_ray_gives_a_folder_per_range(store: Store, ray_cluster: Cluster) -> None:
    [table] = Runs(store, ray_cluster, quiet=True).run([ids_stage(store, EchoSettings())], "index")
    assert [(folder / "ids.txt").read_text().split() for folder in table.folders()] == [["a", "b"], ["c"]]
    assert table.num_rows == 3


@pytest.mark.parametrize("cuts", [[30_000], [0, 12_000, 0, 9_000, 9_000], [0]])
def test_a_range_is_the_same_rows_however_the_table_is_cut(store: Store, cuts: list[int]) -> None:
    whole = questions(sum(cuts))
    starts = [sum(cuts[:index]) for index in range(len(cuts))]
    batches = [whole.slice(start, count) for start, count in zip(starts, cuts, strict=True)]
    table = import_table(store, "questions", str(cuts), "q", tables.QUESTIONS, lambda: iter(batches))
    rows = whole.num_rows
    bounds = [(0, rows), (0, 0), (rows, rows), (8191, 8193), (8192, 16384), (11_999, 21_001), (29_999, 30_000)]
    for start, stop in [pair for pair in bounds if pair[1] <= rows]:
        assert table.read_range(start, stop).equals(whole.slice(start, stop - start))
        assert table.read_range(start, stop, ["shape"]).num_rows == stop - start
