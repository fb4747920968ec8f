"""A system that abstains a lot, with weak retrieval: labels narrow P(G=1), and R tells more than T at equal cost."""

from __future__ import annotations

import pytest

from rat_ray.allocate import AllocationSettings, summarise, tasks
from tests.allocate.planted import CONFIG, planted, settings_of, worker_on

REPLICATES = 12


@pytest.fixture(scope="module")
def cells() -> dict[tuple[str, int], dict[str, float]]:
    allocation = AllocationSettings(
        base=50, budgets=[0, 200], replicates=REPLICATES, quantities=["p_g"], warmup=200, samples=300
    )
    worker = worker_on(planted(600), settings_of(allocation))
    rows = summarise(worker({"tasks": tasks(allocation, CONFIG)})).to_pylist()
    assert [row["replicates"] for row in rows] == [REPLICATES] * 6
    return {(row["strategy"], row["budget"]): row for row in rows}


def test_joint_labels_narrow_p_g(cells: dict[tuple[str, int], dict[str, float]]) -> None:
    # A base of 50 leaves a width of about .24, 250 labels leave about .15.
    assert cells["joint", 200]["width"] < 0.8 * cells["joint", 0]["width"]
    assert cells["joint", 200]["rmse"] < cells["joint", 0]["rmse"]


def test_r_narrows_p_g_more_than_t(cells: dict[tuple[str, int], dict[str, float]]) -> None:
    assert cells["all_r", 200]["width"] < cells["all_t", 200]["width"]


def test_intervals_cover(cells: dict[tuple[str, int], dict[str, float]]) -> None:
    for cell in cells.values():
        assert cell["coverage"] >= 9 / REPLICATES
