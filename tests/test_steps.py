"""Stages over files, groups of shards, and rows that are chosen: what indexes and their use are made of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rat_ray import tables
from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.errors import StageError
from rat_ray.graph import Graph, Walk
from rat_ray.keys import digest_of
from rat_ray.retrieve.gather import GatherSettings, GatherWorker
from rat_ray.retrieve.groups import GroupsSettings, MergeGroups
from rat_ray.stage import Runs, Stage, import_rows
from rat_ray.store import Store, Table
from tests.workers import EchoSettings, WriteIds


class Join:
    """A step over folders: one file with the first and the last id of each folder of its range."""

    def __init__(self, settings: EchoSettings, inputs: Mapping[str, Any]) -> None:
        self.all = inputs["ids"].folders() if "ids" in inputs else []

    def __call__(self, rows: Mapping[str, list[Path]], folder: Path) -> int:
        texts = [(path / "ids.txt").read_text() for path in rows["ids"]]
        (folder / "joined.txt").write_text("|".join(texts) + "/" + str(len(self.all)))
        return sum(len(text.split()) for text in texts)


def passages(count: int) -> pa.Table:
    ids = [f"p{index}" for index in range(count)]
    return pa.table(
        {"passage_id": ids, "title": [None] * count, "text": [f"text {name}" for name in ids]}, schema=tables.PASSAGES
    )


def files(over: Mapping[str, Table], worker: type[Any], *, whole: bool = False, **inputs: Table) -> Stage:
    return Stage(
        table="ids" if worker is WriteIds else "joined",
        label="step",
        settings=EchoSettings(),
        worker=worker,
        over=over,
        inputs=inputs,
        schema=None,
        rows="files",
        ids=("passage_id",),
        resources=Resources(range_rows=4),
        one_range=whole,
    )


@pytest.fixture
def runs(store: Store) -> Runs:
    return Runs(store, Cluster(ClusterSettings(use="never")), quiet=True)


@pytest.fixture
def ids(store: Store, runs: Runs) -> Table:
    [table] = runs.run([files({"passages": import_rows(store, "passages", "ten", passages(10))}, WriteIds)], "step")
    return table


def test_a_step_over_files_is_cut_as_they_are(runs: Runs, ids: Table) -> None:
    [made] = runs.run([files({"ids": ids}, Join, ids=ids)], "step")
    texts = [(folder / "joined.txt").read_text() for folder in made.folders()]
    assert texts == ["p0\np1\np2\np3/3", "p4\np5\np6\np7/3", "p8\np9/3"]
    assert [(part.start, part.stop) for part in made.parts] == [(0, 4), (4, 8), (8, 10)]
    assert made.num_rows == 10


def test_a_step_of_one_range_gets_all_folders(runs: Runs, ids: Table) -> None:
    [made] = runs.run([files({"ids": ids}, Join, whole=True)], "step")
    [folder] = made.folders()
    assert (folder / "joined.txt").read_text() == "p0\np1\np2\np3|p4\np5\np6\np7|p8\np9/0"


def test_groups_hold_every_shard_once_and_have_keys_of_their_own(ids: Table) -> None:
    for groups in (1, 2, 3, 5):
        found = [ids.group(index, groups) for index in range(groups)]
        assert [part for group in found for part in group.parts] == list(ids.parts)
        assert sum(group.num_rows for group in found) == 10
        filled = [group.digest for group in found if group.parts]
        assert len(set(filled)) == len(filled)
    assert [folder.name for folder in ids.group(1, 2).folders()] == [folder.name for folder in ids.folders()[1:]]
    with pytest.raises(ValueError, match="group 2 of 2"):
        ids.group(2, 2)


def lists(*named: list[str] | None) -> pa.Table:
    count = len(named)
    return pa.table(
        {
            "question_id": [f"q{index}" for index in range(count)],
            "passage_ids": list(named),
            "scores": [None if one is None else [1.0 / (place + 1) for place in range(len(one))] for one in named],
            "error": ["it failed" if one is None else None for one in named],
        },
        schema=tables.RETRIEVALS,
    )


def gather(over: Table, named: Table, first: int) -> Stage:
    return Stage(
        table="cited",
        label="gather",
        settings=GatherSettings(first),
        worker=GatherWorker,
        over={"passages": over},
        inputs={"retrievals": named},
        schema=tables.PASSAGES,
        rows="subset",
        ids=("passage_id",),
        resources=Resources(range_rows=4),
    )


def test_only_passages_that_are_named_among_the_first_are_gathered(store: Store, runs: Runs) -> None:
    over = import_rows(store, "passages", "ten", passages(10))
    named = import_rows(store, "retrievals", "lists", lists(["p9", "p0", "p5"], None, [], ["p0", "p1"]))
    [cited] = runs.run([gather(over, named, 2)], "gather")
    assert cited.read().column("passage_id").to_pylist() == ["p0", "p1", "p9"]
    assert cited.read().column("text").to_pylist() == ["text p0", "text p1", "text p9"]
    [none] = runs.run([gather(over, named, 0)], "gather")
    assert none.num_rows == 0
    assert none.read().schema.equals(tables.PASSAGES)


class Adds(GatherWorker):
    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        return passages(11).slice(10)


class Shuffles(GatherWorker):
    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        return rows["passages"].take([1, 0])


@pytest.mark.parametrize("worker", [Adds, Shuffles])
def test_rows_that_did_not_come_in_or_in_another_order_are_refused(
    store: Store, runs: Runs, worker: type[GatherWorker]
) -> None:
    over = import_rows(store, "passages", "ten", passages(10))
    named = import_rows(store, "retrievals", "lists", lists(["p9"]))
    stage = gather(over, named, 2)
    with pytest.raises(StageError, match="which did not come in, or in another order"):
        runs.run([Stage(**{**vars(stage), "worker": worker})], "gather")


def test_lists_of_groups_become_the_list_of_the_whole() -> None:
    worker = MergeGroups(GroupsSettings(depth=3), {})
    made = worker({"group 0": lists(["b", "a"], [], None), "group 1": lists(["c", "d"], ["e"], ["f"])})
    assert made.column("passage_ids").to_pylist() == [["b", "c", "a"], ["e"], None]
    assert made.column("scores").to_pylist() == [[1.0, 1.0, 0.5], [1.0], None]
    assert made.column("error").to_pylist() == [None, None, "it failed"]
    assert made.schema.equals(tables.RETRIEVALS)


def test_a_level_may_need_a_later_one(store: Store, runs: Runs) -> None:
    """As a fusion of lists that were ranked again does."""
    from rat_ray.graph import Import

    def rows(count: int) -> Import:
        made = passages(count)
        return Import("passages", digest_of(count), "rows", tables.PASSAGES, lambda: iter([made]))

    for breaks in (False, True):
        graph = Graph()
        first = graph.add("rerank", "passages", "late", {}, lambda _: rows(2))
        worker = Adds if breaks else GatherWorker
        over = import_rows(store, "passages", "ten", passages(10))
        named = import_rows(store, "retrievals", "lists", lists(["p1"]))
        stage = Stage(**{**vars(gather(over, named, 1 + breaks)), "worker": worker})
        second = graph.add("measure", "cited", "later", {}, lambda _, stage=stage: stage, {"a": first})
        third = graph.add("fuse", "passages", "early", {}, lambda _: rows(3), {"a": second})
        fourth = graph.add("index", "passages", "earlier", {}, lambda _: rows(4), {"a": third})
        walk = Walk(graph)
        walk.run(runs, lambda level, stages: True)
        assert set(walk.tables) == ({first} if breaks else {first, second, third, fourth})
        assert set(walk.failures) == ({second, third, fourth} if breaks else set())
