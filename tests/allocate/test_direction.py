"""What labels are worth depends on the system: two planted ones, 600 items, a base of 50 and a budget of 200."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rat_ray.allocate import AllocationSettings, summarise, tasks
from tests.allocate.planted import CONFIG, planted, settings_of, worker_on

REPLICATES = 12
Cells = dict[tuple[str, int], dict[str, float]]


def study(annotations: pa.Table, strategies: list[str], budgets: list[int]) -> Cells:
    allocation = AllocationSettings(
        base=50,
        budgets=budgets,
        strategies=strategies,
        replicates=REPLICATES,
        quantities=["p_g"],
        warmup=200,
        samples=300,
    )
    worker = worker_on(annotations, settings_of(allocation))
    rows = summarise(worker({"tasks": tasks(allocation, CONFIG)})).to_pylist()
    assert [row["replicates"] for row in rows] == [REPLICATES] * (len(strategies) * len(budgets))
    return {(row["strategy"], row["budget"]): row for row in rows}


@pytest.fixture(scope="module")
def weak_retrieval() -> Cells:
    annotations = planted(600, rho=0.4, alpha=(0.6, 0.1), tau=(0.2, 0.8))
    return study(annotations, ["all_r", "all_t", "joint"], [0, 200])


@pytest.fixture(scope="module")
def strong_retrieval() -> Cells:
    return study(planted(600, rho=0.9, alpha=(0.6, 0.05), tau=(0.2, 0.6)), ["all_r", "all_t"], [200])


def test_joint_labels_narrow_p_g(weak_retrieval: Cells) -> None:
    """A base of 50 leaves a 95 % interval of about .23; with 200 more labels it is about .13."""
    assert weak_retrieval["joint", 200]["width"] < 0.75 * weak_retrieval["joint", 0]["width"]
    assert weak_retrieval["joint", 200]["rmse"] < weak_retrieval["joint", 0]["rmse"]


def test_labels_of_both_kinds_narrow_p_g_more_than_one_kind(weak_retrieval: Cells) -> None:
    for strategy in ("all_r", "all_t"):
        assert weak_retrieval["joint", 200]["width"] < weak_retrieval[strategy, 200]["width"]
        assert weak_retrieval[strategy, 200]["width"] < weak_retrieval["joint", 0]["width"]


def test_good_retrieval_makes_t_the_better_label(weak_retrieval: Cells, strong_retrieval: Cells) -> None:
    """R labels leave 1.75 times the width that T labels leave where retrieval is good, and no more where it is weak."""
    weak, strong = (
        cells["all_r", 200]["width"] / cells["all_t", 200]["width"] for cells in (weak_retrieval, strong_retrieval)
    )
    assert weak < 1.15 < 1.4 < strong


def test_intervals_cover(weak_retrieval: Cells, strong_retrieval: Cells) -> None:
    for cell in [*weak_retrieval.values(), *strong_retrieval.values()]:
        assert cell["coverage"] >= 9 / REPLICATES
