"""The pool of actors: what belongs together follows each other, and every unit is answered once."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.pool import Pool
from rat_ray.stage.runner import StageRunner
from rat_ray.stage.units import whole
from rat_ray.store import Store
from tests.faulty import KINDS, Trouble, questions, stage_of

Unit = tuple[str, int]


class Answering:
    """Made in the worker; answers with the unit."""

    def __call__(self, unit: Unit, again: bool) -> Unit:
        return unit


class NoDeaths:
    def died(self, unit: Unit, deaths: int, reason: str) -> list[Unit] | None:
        raise AssertionError(f"{unit} died: {reason}")

    def finished(self, unit: Unit, receipt: Unit) -> list[Unit]:
        return []

    def unwanted(self, unit: Unit) -> bool:
        return False


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(ClusterSettings(use="always", cpus=2)) as made:
        yield made


def answers(cluster: Cluster, units: list[Unit], workers: int) -> list[Unit]:
    sizes = cluster.workers(Resources(workers=workers))
    pool: Pool[Unit, Unit] = Pool("test", units, lambda unit: unit[0], Answering, NoDeaths(), sizes)
    return list(pool.receipts())


@pytest.mark.ray
def test_units_of_one_group_follow_each_other_on_a_worker(cluster: Cluster) -> None:
    units = [(group, number) for number in range(4) for group in "abc"]
    got = answers(cluster, units, workers=1)
    assert sorted(got) == sorted(units)
    changes = sum(one[0] != other[0] for one, other in itertools.pairwise(got))
    assert changes == 2, got


@pytest.mark.ray
def test_every_unit_is_answered_once_whatever_the_number_of_workers(cluster: Cluster) -> None:
    units = [("a", number) for number in range(50)]
    assert sorted(answers(cluster, units, workers=2)) == units


class Counted:
    """Counts how often a worker is made."""

    made = 0

    def __init__(self, settings: Any, inputs: Mapping[str, Any]) -> None:
        Counted.made += 1
        self._worker = KINDS["same"].worker(settings, inputs)

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        return self._worker(rows)


def test_a_worker_serves_every_stage_that_wants_its_like(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "made", 0)
    first = dataclasses.replace(stage_of("same", questions(store, 4)), worker=Counted)
    alike = dataclasses.replace(first, over={"questions": questions(store, 8)})
    other = dataclasses.replace(first, settings=Trouble(size=9))
    runner = StageRunner([first, alike, other], ["a" * 32, "b" * 32, "c" * 32], store)
    for index in (0, 1, 1, 2, 2, 0):
        assert not runner(whole(index, 0, 4)).failure
    assert Counted.made == 3, "for the first two, for the other, and for the first again"
