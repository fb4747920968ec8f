"""The worker with real Stan fits: every task has its rows, and they depend on names only."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rat_ray.allocate import (
    STRATEGIES,
    STUDY_SUMMARY,
    TASKS,
    AllocationSettings,
    StudyWorker,
    print_study,
    study_stage,
    summarise,
    tasks,
)
from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.model import posterior
from rat_ray.model.engines import Draws
from rat_ray.stage import Runs, import_table
from rat_ray.store import Store
from rat_ray.tables import ALLOCATION, check_table
from tests.allocate.planted import CONFIG, planted, settings_of, worker_on

TABLE = planted(200)
ALLOCATED = AllocationSettings(budgets=[0, 10], replicates=2, samples=300, warmup=200)
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
        assert (row["base"], row["resampling"], row["target"]) == (20, "none", "full_table")
        assert row["cost"] == row["labels_r"] + row["labels_t"] <= row["budget"]


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


def test_a_fit_that_fails_stays_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    sample, calls = posterior.sample_program, 0

    def second_fails(*args: object, **more: object) -> Draws:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RuntimeError("chain 1 cannot start")
        return sample(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("rat_ray.model.posterior.sample_program", second_fails)
    made = worker_on(TABLE, SETTINGS)({"tasks": TASK_LIST.slice(0, 3)})
    check_table(made, ALLOCATION, "allocation")
    assert made.num_rows == 9
    failed = made.slice(3, 3).to_pylist()
    for row in failed:
        assert row["status"] == "fail"
        assert row["target_value"] is not None
        assert row["labels_r"] is not None
        assert [row[name] for name in ("mean", "sd", "q2.5", "q97.5", "error", "covered")] == [None] * 6
    assert "fail" not in made.slice(0, 3).column("status").to_pylist()
    first = summarise(made).filter(pa.compute.field("quantity") == "p_g").to_pylist()
    assert [(row["replicates"], row["failed"], row["rmse"] is None) for row in first] == [
        (1, 0, False),
        (0, 1, True),
        (1, 0, False),
    ]


def test_a_chain_that_does_not_converge_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = posterior.sample

    def stuck(*args: object, **more: object) -> posterior.Sampled:
        made = sample(*args, **more)  # type: ignore[arg-type]
        apart = made.draws.column("chain").to_numpy() * 0.5 + made.draws.column("p_g").to_numpy() * 0.1
        index = made.draws.schema.get_field_index("p_g")
        return made._replace(draws=made.draws.set_column(index, "p_g", pa.array(apart)))

    monkeypatch.setattr("rat_ray.allocate.study.sample", stuck)
    made = worker_on(TABLE, SETTINGS)({"tasks": TASK_LIST.slice(0, 1)})
    assert made.column("status").to_pylist() == ["fail"] * 3
    assert made.column("mean").null_count == 3


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


def test_print_study_shows_every_cell(allocation: pa.Table) -> None:
    from rich.console import Console

    screen = Console(width=160, record=True)
    print_study(allocation, screen)
    text = screen.export_text()
    assert all(text.count(f" {strategy} ") == 6 for strategy in STRATEGIES)


def test_summarise_by_hand() -> None:
    def row(replicate: int, error: float | None, low: float | None, high: float | None) -> dict[str, object]:
        covered = None if error is None else int(abs(error) < 0.1)
        status = "fail" if error is None else "ok"
        head = {"config": "c", "strategy": "joint", "budget": 5, "replicate": replicate, "quantity": "p_g"}
        return {
            **head,
            "cost": 4.0 + replicate,
            "error": error,
            "q2.5": low,
            "q97.5": high,
            "covered": covered,
            "status": status,
        }

    rows = [row(0, 0.03, 0.2, 0.4), row(1, -0.05, 0.3, 0.6), row(2, 0.11, 0.1, 0.5), row(3, None, None, None)]
    found = summarise(pa.Table.from_pylist(rows, schema=ALLOCATION))
    assert found.schema == STUDY_SUMMARY
    squares = np.array([0.03, 0.05, 0.11]) ** 2
    rmse = np.sqrt(squares.mean())
    assert found.to_pylist() == [
        {
            "config": "c",
            "strategy": "joint",
            "budget": 5,
            "quantity": "p_g",
            "replicates": 3,
            "failed": 1,
            "cost": pytest.approx(5.5),
            "rmse": pytest.approx(rmse),
            "rmse_se": pytest.approx(squares.std(ddof=1) / np.sqrt(3) / (2 * rmse)),
            "width": pytest.approx(0.3),
            "width_se": pytest.approx(0.1 / np.sqrt(3)),
            "coverage": pytest.approx(2 / 3),
            "coverage_se": pytest.approx(np.std([1, 1, 0], ddof=1) / np.sqrt(3)),
        }
    ]
    alone = summarise(pa.Table.from_pylist(rows[:1], schema=ALLOCATION)).to_pylist()[0]
    assert (alone["rmse_se"], alone["width_se"], alone["coverage_se"]) == (None, None, None)
    assert summarise(ALLOCATION.empty_table()).equals(STUDY_SUMMARY.empty_table())


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
