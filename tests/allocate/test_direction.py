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


def study(
    system: str,
    strategies: list[str],
    simulation: str = "directions",
    budgets: list[float] = BUDGETS,
    replicates: int = REPLICATES,
) -> Cells:
    data = yaml.safe_load((conf_dir() / "simulation" / f"{simulation}.yaml").read_text())
    simulated = build(SimulationSettings, data, "simulation")
    allocation = AllocationSettings(
        budgets=budgets, strategies=strategies, replicates=replicates, quantities=["p_g"], check_share=0.0
    )
    settings = StudySettings.of(system, {}, allocation, Prior(), 3, simulated.systems[system], simulated.items)
    rows = summarise(StudyWorker(settings, {})({"tasks": tasks(allocation, system)})).to_pylist()
    rows = [row for row in rows if row["config"] == system]
    assert [row["replicates"] for row in rows] == [replicates] * (len(strategies) * len(budgets))
    return {(row["strategy"], row["budget"]): row for row in rows}


@pytest.fixture(scope="module")
def abstainer() -> Cells:
    return study("abstainer", ["all_r", "all_t", "joint", "t_first"])


@pytest.fixture(scope="module")
def strong_retriever() -> Cells:
    return study("strong_retriever", ["all_r", "all_t", "joint"])


def test_labels_of_both_kinds_tell_most(abstainer: Cells, strong_retriever: Cells) -> None:
    """RMSE of R, T and joint labels: .036, .046 and .021 for the abstainer, .062, .030 and .026 for the other."""
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


def test_t_first_saves_most_where_most_answers_are_wrong() -> None:
    """A system that answers everything, a quarter of it rightly: with 35 % less it is as narrow as joint."""
    cells = study("apertus_8b", ["joint", "t_first"], "paper", [195.0, 300.0], 20)
    assert cells["t_first", 195]["width"] < cells["joint", 300]["width"]
    assert cells["t_first", 195]["cost"] < 0.66 * cells["joint", 300]["cost"]


def test_intervals_cover(abstainer: Cells, strong_retriever: Cells) -> None:
    for cell in [*abstainer.values(), *strong_retriever.values()]:
        assert cell["coverage"] >= 0.85
