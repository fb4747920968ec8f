"""What labels are worth depends on the system: simulated truths, a base of 50 and a budget of 600 of 2,000 items."""

from __future__ import annotations

import pytest
import yaml

from rat_ray.allocate import AllocationSettings, SimulationSettings, StudySettings, StudyWorker, summarise, tasks
from rat_ray.model import Prior
from rat_ray.settings import build, conf_dir

REPLICATES = 60
BUDGETS = [0.0, 200.0, 400.0, 600.0]
Cells = dict[tuple[str, float], dict[str, float]]


def study(system: str, strategies: list[str]) -> Cells:
    data = yaml.safe_load((conf_dir() / "simulation" / "directions.yaml").read_text())
    simulation = build(SimulationSettings, data, "simulation")
    allocation = AllocationSettings(
        budgets=BUDGETS, strategies=strategies, replicates=REPLICATES, quantities=["p_g"], check_share=0.0
    )
    settings = StudySettings.of(system, {}, allocation, Prior(), 3, simulation.systems[system], simulation.items)
    rows = summarise(StudyWorker(settings, {})({"tasks": tasks(allocation, system)})).to_pylist()
    rows = [row for row in rows if row["config"] == system]
    assert [row["replicates"] for row in rows] == [REPLICATES] * (len(strategies) * len(BUDGETS))
    return {(row["strategy"], row["budget"]): row for row in rows}


@pytest.fixture(scope="module")
def abstainer() -> Cells:
    return study("abstainer", ["all_r", "all_t", "joint", "t_first"])


@pytest.fixture(scope="module")
def strong_retriever() -> Cells:
    return study("strong_retriever", ["all_r", "all_t", "joint"])


def test_labels_of_both_kinds_tell_most(abstainer: Cells, strong_retriever: Cells) -> None:
    """RMSE of R, T and joint labels: .039, .045 and .020 for the abstainer, .063, .032 and .024 for the other."""
    for cells in (abstainer, strong_retriever):
        best = cells["joint", 600]
        for strategy in ("all_r", "all_t"):
            assert best["rmse"] < cells[strategy, 600]["rmse"]
            assert best["width"] < 0.9 * cells[strategy, 600]["width"]
        assert best["width"] < 0.5 * cells["joint", 0]["width"]


def test_r_is_worth_more_where_the_system_abstains_and_t_where_retrieval_is_good(
    abstainer: Cells, strong_retriever: Cells
) -> None:
    assert abstainer["all_r", 600]["width"] < 0.93 * abstainer["all_t", 600]["width"]
    assert strong_retriever["all_t", 600]["width"] < 0.6 * strong_retriever["all_r", 600]["width"]
    assert strong_retriever["all_t", 600]["rmse"] < 0.75 * strong_retriever["all_r", 600]["rmse"]


def test_t_first_saves_labels(abstainer: Cells) -> None:
    """With the same money it comes out narrower than joint, where a wrong answer is not worth an R label."""
    for budget in (200, 400, 600):
        assert abstainer["t_first", budget]["width"] < abstainer["joint", budget]["width"]


def test_intervals_cover(abstainer: Cells, strong_retriever: Cells) -> None:
    for cell in [*abstainer.values(), *strong_retriever.values()]:
        assert cell["coverage"] >= 0.85
