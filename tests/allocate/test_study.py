"""The worker with real fits: every task has its rows, and they depend on names only."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rat_ray.allocate import (
    TASKS,
    AllocationSettings,
    SimulationSettings,
    StudyWorker,
    System,
    study_stage,
    summarise,
    tasks,
)
from rat_ray.allocate.population import read_population, targets
from rat_ray.allocate.simulated import simulation_stage
from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.model import Prior
from rat_ray.model.estimate import Estimates, Estimator
from rat_ray.model.patterns import Code
from rat_ray.stage import Runs, import_table
from rat_ray.store import Store
from rat_ray.tables import ALLOCATION, check_table
from tests.allocate.planted import CONFIG, TRUSTED, planted, settings_of, with_column, worker_on

TABLE = planted(200)
ALLOCATED = AllocationSettings(base=20, budgets=[0, 10], replicates=2, check_share=0.2)
SETTINGS = settings_of(ALLOCATED)
TASK_LIST = tasks(ALLOCATED, CONFIG)


@pytest.fixture(scope="module")
def allocation() -> pa.Table:
    return worker_on(TABLE, SETTINGS)({"tasks": TASK_LIST})


def test_every_task_has_a_row_per_quantity(allocation: pa.Table) -> None:
    check_table(allocation, ALLOCATION, "allocation")
    rows = [(*task.values(), q) for task in TASK_LIST.to_pylist() for q in ALLOCATED.quantities]
    assert [tuple(row.values()) for row in allocation.select([*TASKS.names, "quantity"]).to_pylist()] == rows
    assert set(allocation.column("status").to_pylist()) <= {"ok", "warn"}


def test_the_numbers_hang_together(allocation: pa.Table) -> None:
    for row in allocation.to_pylist():
        assert row["q2.5"] < row["mean"] < row["q97.5"]
        assert row["error"] == pytest.approx(row["mean"] - row["target_value"])
        assert row["covered"] == (row["q2.5"] <= row["target_value"] <= row["q97.5"])
        assert (row["base"], row["items"], row["resampling"], row["target"]) == (20, 200, "none", "full_table")
        assert row["cost"] == row["labels_r"] + row["labels_t"] <= row["budget"]
        assert row["finite_covered"] == (row["finite_q2.5"] <= row["target_value"] <= row["finite_q97.5"])
        assert row["width"] == pytest.approx(row["finite_q97.5"] - row["finite_q2.5"])
        assert row["width"] < row["q97.5"] - row["q2.5"]
        assert (row["sampler"], row["pareto_k"] < 0.7, row["ess"] > 400) == ("importance", True, True)


@pytest.mark.parametrize("items", [61, 200, 300])
def test_a_table_that_is_labelled_whole_is_known(items: int) -> None:
    """The interval is a point, and the target is it, however both are rounded."""
    settings = settings_of(AllocationSettings(base=items, quantities=["p_g", "p_t", "rho"]))
    task = tasks(AllocationSettings(strategies=["joint"], budgets=[0], replicates=1), CONFIG)
    for row in worker_on(planted(items), settings)({"tasks": task}).to_pylist():
        assert row["width"] == pytest.approx(0, abs=1e-12)
        assert row["finite_covered"] == 1


def test_a_share_of_the_fits_is_made_again_by_nuts(allocation: pa.Table) -> None:
    checked = [row for row in allocation.to_pylist() if row["nuts_mean"] is not None]
    assert 0 < len(checked) < allocation.num_rows
    for row in checked:
        assert abs(row["mean"] - row["nuts_mean"]) < 0.25 * row["nuts_sd"]
        assert row["sd"] == pytest.approx(row["nuts_sd"], rel=0.15)
    names = {(row["strategy"], row["budget"], row["replicate"]) for row in checked}
    assert len(checked) == 3 * len(names)  # all quantities of a fit
    alone = worker_on(TABLE, dataclasses.replace(SETTINGS, check_share=0.0))({"tasks": TASK_LIST.slice(0, 4)})
    assert alone.column("nuts_mean").null_count == 12


def test_the_check_makes_draws_of_its_own() -> None:
    """A fit by NUTS that is made again by NUTS agrees, but is not the same draws."""
    settings = dataclasses.replace(SETTINGS, engine="stanli", check_share=1.0)
    for row in worker_on(TABLE, settings)({"tasks": TASK_LIST.slice(0, 1)}).to_pylist():
        assert row["sampler"] == "nuts"
        assert row["mean"] != row["nuts_mean"]
        assert abs(row["mean"] - row["nuts_mean"]) < 0.25 * row["nuts_sd"]


def test_each_task_alone_gives_the_same_rows(allocation: pa.Table) -> None:
    backwards = range(TASK_LIST.num_rows - 1, -1, -1)
    one_worker = worker_on(TABLE, SETTINGS)
    alone = [one_worker({"tasks": TASK_LIST.slice(index, 1)}) for index in backwards]
    assert pa.concat_tables(alone[::-1]).equals(allocation)


def test_the_rows_of_the_table_may_come_in_another_order(allocation: pa.Table) -> None:
    shuffled = TABLE.take(np.random.default_rng(2).permutation(TABLE.num_rows))
    assert worker_on(shuffled, SETTINGS)({"tasks": TASK_LIST.slice(0, 6)}).equals(allocation.slice(0, 18))


def test_another_seed_gives_another_result(allocation: pa.Table) -> None:
    other = worker_on(TABLE, dataclasses.replace(SETTINGS, seed=SETTINGS.seed + 1))({"tasks": TASK_LIST.slice(0, 1)})
    assert other.column("mean").to_pylist() != allocation.slice(0, 3).column("mean").to_pylist()


def test_without_a_budget_the_strategies_are_one_fit(allocation: pa.Table) -> None:
    means: dict[tuple[int, str], set[float]] = {}
    for row in allocation.to_pylist():
        if row["budget"] == 0:
            means.setdefault((row["replicate"], row["quantity"]), set()).add(row["mean"])
    assert [len(found) for found in means.values()] == [1] * 6


def test_an_empty_batch_is_an_empty_table() -> None:
    assert worker_on(TABLE, SETTINGS)({"tasks": TASKS.empty_table()}).equals(ALLOCATION.empty_table())


def test_any_replicate_can_be_made_alone(allocation: pa.Table) -> None:
    alone = worker_on(TABLE, SETTINGS)({"tasks": tasks(ALLOCATED, CONFIG, [1])})
    assert alone.equals(allocation.filter(pc.equal(allocation.column("replicate"), 1)))


def test_a_bootstrap_is_held_against_the_full_table() -> None:
    settings = dataclasses.replace(SETTINGS, resampling="bootstrap", check_share=0.0)
    for row in worker_on(TABLE, settings)({"tasks": TASK_LIST.slice(0, 2)}).to_pylist():
        assert (row["resampling"], row["target"], row["items"]) == ("bootstrap", "full_table", 200)
        # The share among the drawn items is not what the target is.
        assert row["finite_covered"] is None
        assert row["width"] == pytest.approx(row["q97.5"] - row["q2.5"])
        assert row["covered"] in (0, 1)


def test_missing_labels_are_held_against_the_fit_of_all_labels() -> None:
    labels = TABLE.column("r@evidence").to_pylist()
    some = with_column(TABLE, "r@evidence", [None if i % 4 == 0 else label for i, label in enumerate(labels)])
    worker = worker_on(some, dataclasses.replace(SETTINGS, check_share=0.0))
    rows = worker({"tasks": TASK_LIST.slice(0, 2)}).to_pylist()
    assert {(row["target"], row["items"], row["finite_covered"]) for row in rows} == {("full_table_fit", 200, None)}
    found = {row["quantity"]: row["target_value"] for row in rows}
    whole = targets(read_population(TABLE, TRUSTED).population, list(found))
    assert found == pytest.approx(whole, abs=0.06)
    assert found != pytest.approx(whole, abs=1e-6)


def test_a_simulated_truth_is_the_target(tmp_path: Path) -> None:
    truth = System(0.4, 0.6, 0.1, 0.2, 0.8)
    simulation = SimulationSettings(items=300, systems={"planted": truth})
    store, allocated = Store(tmp_path), AllocationSettings(base=20, budgets=[20], replicates=30, check_share=0.0)
    planned = tasks(allocated, "planted")
    listed = import_table(store, "tasks", "t1", "planted", TASKS, lambda: iter([planned]))
    stage = simulation_stage(listed, "planted", simulation, allocated, Prior(), 3, Resources(range_rows=50))
    with Cluster(ClusterSettings(use="never")) as cluster:
        made = Runs(store, cluster, quiet=True).run([stage], "allocation")[0].read()
    rows = [row for row in made.to_pylist() if row["quantity"] == "p_g"]
    assert {(row["target"], row["resampling"], row["items"]) for row in rows} == {("truth", "simulated", 300)}
    assert rows[0]["target_value"] == pytest.approx(0.6 * 0.6 + 0.4 * 0.9 * 0.8)
    assert np.mean([row["covered"] for row in rows]) > 0.85
    assert {row["finite_covered"] for row in rows} == {None}


def test_a_fit_that_fails_stays_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    estimate, calls = Estimator.estimate, 0

    def second_fails(self: Estimator, code: Code, seed: int) -> Estimates:
        nonlocal calls
        calls += 1
        made = estimate(self, code, seed)
        nothing = np.full_like(made.mean, np.nan)
        parts = dict.fromkeys(("mean", "sd", "low", "high", "finite_low", "finite_high"), nothing)
        return made if calls != 2 else made._replace(**parts, status="fail", reason="stuck", ess=float("nan"))

    monkeypatch.setattr(Estimator, "estimate", second_fails)
    made = worker_on(TABLE, dataclasses.replace(SETTINGS, check_share=0.0))({"tasks": TASK_LIST.slice(0, 3)})
    check_table(made, ALLOCATION, "allocation")
    assert made.num_rows == 9
    for row in made.slice(3, 3).to_pylist():
        assert row["status"] == "fail"
        assert row["target_value"] is not None
        assert row["labels_r"] is not None
        names = ("mean", "sd", "q2.5", "q97.5", "finite_q2.5", "width", "error", "covered", "finite_covered", "ess")
        assert [row[name] for name in names] == [None] * 10
    assert "fail" not in made.slice(0, 3).column("status").to_pylist()
    first = summarise(made).filter(pc.field("quantity") == "p_g").to_pylist()
    assert [(row["replicates"], row["failed"], row["rmse"] is None) for row in first if row["config"] == CONFIG] == [
        (1, 0, False),
        (0, 1, True),
        (1, 0, False),
    ]


def test_a_task_that_killed_its_process_has_failed_rows() -> None:
    lost = StudyWorker.lost(SETTINGS, {"tasks": TASK_LIST.slice(0, 2)}, "it died", ALLOCATION)
    check_table(lost, ALLOCATION, "allocation")
    assert lost.num_rows == 6
    assert set(lost.column("status").to_pylist()) == {"fail"}
    assert lost.column("mean").null_count == 6


def test_the_stage_runs_on_the_one_mechanism(tmp_path: Path, allocation: pa.Table) -> None:
    store = Store(tmp_path)
    planned = import_table(store, "tasks", "t1", CONFIG, TASKS, lambda: iter([TASK_LIST]))
    annotations = import_table(store, "annotations", "a1", CONFIG, TABLE.schema, lambda: iter([TABLE]))
    stage = study_stage(planned, annotations, SETTINGS, Resources(range_rows=5))
    assert stage.worker is StudyWorker
    with Cluster(ClusterSettings(use="never")) as cluster:
        runs = Runs(store, cluster, quiet=True)
        made = runs.run([stage], "allocation")[0]
        assert made.read().equals(allocation)
        assert len(made.parts) == 3
        again = Runs(store, cluster, quiet=True)
        again.run([stage], "allocation")
    assert [record.new_rows for record in runs.records + again.records] == [12, 0]


def test_a_quantity_without_a_target_has_a_width_and_no_error() -> None:
    """Retrieval never failed, so alpha[0] has no value in the full table; its posterior is there all the same."""
    annotations = planted(60, rho=1.0)
    settings = dataclasses.replace(SETTINGS, quantities=["alpha[0]"])
    made = worker_on(annotations, settings)({"tasks": TASK_LIST.slice(0, 1)})
    row = made.to_pylist()[0]
    assert [row[name] for name in ("target_value", "error", "covered")] == [None] * 3
    assert row["q2.5"] < row["mean"] < row["q97.5"]
    cell = summarise(made).to_pylist()[0]
    assert (cell["replicates"], cell["failed"], cell["rmse"], cell["coverage"]) == (1, 0, None, None)
    assert cell["width"] == pytest.approx(row["q97.5"] - row["q2.5"])
