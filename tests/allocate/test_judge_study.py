"""The worker with real fits: every task has its rows, which depend on names only; planted judges act as planted."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rat_ray.allocate.judge_settings import TASK_IDS, JudgeStudySettings, PlantedJudge
from rat_ray.allocate.judge_study import JudgeStudyWorker, Plan, judge_stage, plan, plans, run_judges
from rat_ray.allocate.judge_summary import summarise
from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.errors import InputError
from rat_ray.evaluate import StageResources
from rat_ray.model import Prior
from rat_ray.model.estimate import Estimates, Estimator
from rat_ray.model.patterns import Code
from rat_ray.stage import Runs, import_rows, import_table
from rat_ray.store import Store
from rat_ray.tables import JUDGE_STUDY, LABEL, check_table
from tests.allocate.planted import CONFIG, TRUSTED, planted
from tests.helpers import MemoryInput

TABLE = planted(400)
STUDY = JudgeStudySettings(
    planted={"lenient": PlantedJudge("t", 0.95, 0.35), "perfect": PlantedJudge("t", 1.0, 0.0)},
    judge_labels=["all"],
    trusted_labels=[60],
    alone_labels=[30, 120, "all"],
    replicates=4,
    draws=1000,
)


def plan_on(table: pa.Table, study: JudgeStudySettings, seed: int = 3) -> Plan:
    return plan(table, study, TRUSTED, CONFIG, Prior(), seed)


def worker_on(table: pa.Table, planned: Plan) -> JudgeStudyWorker:
    return JudgeStudyWorker(planned.settings, {"annotations": MemoryInput(table)})


PLANNED = plan_on(TABLE, STUDY)


@pytest.fixture(scope="module")
def made() -> pa.Table:
    return worker_on(TABLE, PLANNED)({"tasks": PLANNED.tasks})


def test_every_task_has_a_row_per_quantity(made: pa.Table) -> None:
    check_table(made, JUDGE_STUDY, "judge_study")
    wanted = [
        (*task.values(), quantity)
        for task in PLANNED.tasks.to_pylist()
        for quantity in ["p_g", "p_t", "rho", *(["tpr", "fpr"] if task["judge_labels"] else [])]
    ]
    assert [tuple(row.values()) for row in made.select([*TASK_IDS, "quantity"]).to_pylist()] == wanted
    assert set(pc.unique(made.column("status")).to_pylist()) <= {"ok", "warn"}


def test_the_numbers_hang_together(made: pa.Table) -> None:
    for row in made.to_pylist():
        low, high = row["finite_q2.5"], row["finite_q97.5"]
        if row["quantity"] in ("tpr", "fpr"):
            assert low is None
            low, high = row["q2.5"], row["q97.5"]
        assert row["q2.5"] < row["mean"] < row["q97.5"]
        assert row["width"] == pytest.approx(high - low)
        assert row["error"] == pytest.approx(row["mean"] - row["target_value"])
        at_an_end = row["target_value"] in (0, 1)
        assert row["covered"] == (None if at_an_end else low <= row["target_value"] <= high)
        assert (row["items"], row["resampling"], row["target"]) == (400, "none", "full_table")


def test_the_targets_are_the_plain_shares_and_rates(made: pa.Table) -> None:
    r, a, t = (TABLE.column(name).to_pylist() for name in ("r@evidence", "a@phrase", "t@match"))
    right = [int(x == 1) for x in t]
    follows = [int((y and not x) or (x and z)) for x, y, z in zip(r, a, right, strict=True)]
    found = {(row["judge"], row["quantity"]): row["target_value"] for row in made.to_pylist()}
    assert found["t@lenient", "p_t"] == pytest.approx(np.mean(right))
    assert found["t@lenient", "p_g"] == pytest.approx(np.mean(follows))
    assert found["t@lenient", "rho"] == pytest.approx(np.mean(r))
    assert found["t@lenient", "tpr"] == pytest.approx(0.95, abs=0.07)
    assert found["t@lenient", "fpr"] == pytest.approx(0.35, abs=0.13)
    assert (found["t@perfect", "tpr"], found["t@perfect", "fpr"]) == (1, 0)


def test_a_cell_alone_in_any_order_gives_the_same_rows(made: pa.Table) -> None:
    chosen = [0, 3, PLANNED.tasks.num_rows - 1]
    worker = worker_on(TABLE.take(np.random.default_rng(2).permutation(TABLE.num_rows)), PLANNED)
    for index in reversed(chosen):
        task = PLANNED.tasks.slice(index, 1)
        mine = made
        for name in TASK_IDS:
            mine = mine.filter(pc.equal(mine.column(name), task.column(name)[0]))
        assert worker({"tasks": task}).equals(mine.combine_chunks())


def test_without_its_labels_every_judge_is_one_fit(made: pa.Table) -> None:
    means: dict[tuple[Any, ...], set[float]] = {}
    for row in made.to_pylist():
        if row["judge_labels"] == 0:
            means.setdefault((row["trusted_labels"], row["replicate"], row["quantity"]), set()).add(row["mean"])
    assert [len(found) for found in means.values()] == [1] * (4 * 4 * 3)


def test_all_trusted_labels_leave_nothing_open(made: pa.Table) -> None:
    for row in made.to_pylist():
        if row["trusted_labels"] == 400 and row["quantity"] in ("p_g", "p_t", "rho"):
            assert row["width"] == pytest.approx(0, abs=1e-9)
            assert row["covered"] == 1


def judged_cells(made: pa.Table, quantity: str = "p_t") -> dict[tuple[str, str], dict[str, Any]]:
    rows = [row for row in summarise(made).to_pylist() if row["judge_labels"] and row["quantity"] == quantity]
    return {(row["judge"], row["judge_model"]): row for row in rows}


def test_a_lenient_judge_adds_little_and_a_perfect_one_much(made: pa.Table) -> None:
    """P(T=1) with 60 trusted labels of 400 and 232 verdicts: .80 and .48 of the width without a judge."""
    cells = judged_cells(made)
    assert len(cells) == 4
    for model in ("panel", "independent"):
        lenient, perfect = cells["t@lenient", model], cells["t@perfect", model]
        assert perfect["width"] < 0.6 * perfect["width_alone"]
        assert 0.7 * lenient["width_alone"] < lenient["width"] < lenient["width_alone"]
        assert perfect["worth"] > 80 > 40 > lenient["worth"] > 0


def test_a_judge_that_is_known_to_be_perfect_is_worth_its_volume() -> None:
    """With A and a perfect T everywhere the shares are known: as much as the labels of all 400 items tell of T."""
    study = dataclasses.replace(
        STUDY,
        planted={"perfect": PlantedJudge("t", 1.0, 0.0)},
        judge_models=["independent"],
        trusted_labels=[30],
        alone_labels=[100, 200, 300, 350, "all"],
        replicates=2,
    )
    knowing = dataclasses.replace(Prior(), tpr=(5000.0, 1.0), fpr=(1.0, 5000.0))
    planned = plan(TABLE, study, TRUSTED, CONFIG, knowing, 3)
    found = judged_cells(worker_on(TABLE, planned)({"tasks": planned.tasks}))["t@perfect", "independent"]
    assert found["failed"] == 0
    assert found["worth"] > 0.95 * (400 - 30)
    assert found["rmse"] < 0.005


def test_the_stage_runs_on_the_one_mechanism(tmp_path: Path, made: pa.Table) -> None:
    few = PLANNED.tasks.slice(0, 6)
    store = Store(tmp_path)
    planned = import_table(store, "judge_tasks", "t1", CONFIG, few.schema, lambda: iter([few]))
    annotations = import_table(store, "annotations", "a1", CONFIG, TABLE.schema, lambda: iter([TABLE]))
    stage = judge_stage(planned, annotations, PLANNED.settings, Resources(range_rows=4))
    with Cluster(ClusterSettings(use="never")) as cluster:
        runs = Runs(store, cluster, quiet=True)
        found = runs.run([stage], "judge study")[0]
        assert len(found.parts) == 2
        rows = found.read()
        assert rows.equals(made.slice(0, rows.num_rows))
        again = Runs(store, cluster, quiet=True)
        again.run([stage], "judge study")
    assert [record.new_rows for record in runs.records + again.records] == [6, 0]


def test_run_judges_takes_all_configurations_or_those_named(tmp_path: Path) -> None:
    few = dataclasses.replace(STUDY, judge_models=["panel"], replicates=1, alone_labels=[])
    job = SimpleNamespace(judge_study=few, prior=Prior(), seed=3, resources=StageResources())
    store = Store(tmp_path)
    tables = {
        name: import_rows(store, "annotations", name, TABLE.slice(0, rows)) for name, rows in (("x", 300), ("y", 200))
    }
    with Cluster(ClusterSettings(use="never")) as cluster:
        runs = Runs(store, cluster, quiet=True)
        both = run_judges(runs, tables, TRUSTED, job)
        job.judge_study = dataclasses.replace(few, configurations=["y"])
        one = run_judges(runs, tables, TRUSTED, job)
    assert set(both.column("config").to_pylist()) == {"x", "y"}
    assert one.equals(both.filter(pc.equal(both.column("config"), "y")).combine_chunks())
    job.judge_study = dataclasses.replace(few, configurations=["z"])
    with pytest.raises(InputError, match=r"judge_study.configurations: no 'z' \(known: x, y\)"):
        plans({"x": TABLE, "y": TABLE}, TRUSTED, job)


def test_lost_tasks_are_failed_rows(made: pa.Table) -> None:
    lost = JudgeStudyWorker.lost(PLANNED.settings, {"tasks": PLANNED.tasks}, "the process died", JUDGE_STUDY)
    check_table(lost, JUDGE_STUDY, "judge_study")
    names = [*TASK_IDS, "quantity"]
    assert lost.select(names).equals(made.select(names))
    assert set(lost.column("status").to_pylist()) == {"fail"}
    assert lost.column("mean").null_count == lost.num_rows


def test_a_fit_that_fails_stays_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = worker_on(TABLE, PLANNED)

    def failing(self: Estimator, code: Code, seed: int) -> Estimates:
        nothing = np.full(len(self.quantities), np.nan)
        return Estimates(*[nothing] * 6, "fail", "no chain can start", "nuts", None, float("nan"))

    monkeypatch.setattr("rat_ray.model.estimate.Estimator.estimate", failing)
    rows = worker({"tasks": PLANNED.tasks.slice(0, 2)})
    check_table(rows, JUDGE_STUDY, "judge_study")
    for row in rows.to_pylist():
        assert row["status"] == "fail"
        assert row["target_value"] is not None
        assert [row[name] for name in ("mean", "sd", "width", "error", "covered", "ess")] == [None] * 6


def test_t_alone_where_r_was_never_labelled() -> None:
    """A label file: the columns r, a and t themselves are trusted. There is no P(G=1) to speak of."""
    t = np.random.default_rng(1).random(150) < 0.6
    table = pa.table({"r": pa.nulls(150, LABEL), "a": pa.array(np.zeros(150), LABEL), "t": pa.array(t, LABEL)})
    study = dataclasses.replace(STUDY, planted={"x": PlantedJudge("t", 0.9, 0.2)}, judge_models=["panel"], replicates=1)
    planned = plan(table, study, {}, "file", Prior(), 1)
    assert planned.settings.quantities == ["p_t"]
    made = JudgeStudyWorker(planned.settings, {"annotations": MemoryInput(table)})({"tasks": planned.tasks.slice(0, 2)})
    assert made.column("quantity").to_pylist() == ["p_t", "p_t", "p_t", "tpr", "fpr"][: made.num_rows]
    with pytest.raises(InputError, match="r@x cannot be checked, for there is no trusted label in r"):
        plan(table, dataclasses.replace(STUDY, planted={"x": PlantedJudge("r", 0.9, 0.2)}), {}, "file", Prior(), 1)


def test_incomplete_labels_are_held_against_their_own_fit() -> None:
    labels = [None if index % 3 else value for index, value in enumerate(TABLE.column("r@evidence").to_pylist())]
    index = TABLE.schema.get_field_index("r@evidence")
    table = TABLE.set_column(index, TABLE.schema.field(index), pa.array(labels, LABEL))
    study = dataclasses.replace(STUDY, judge_models=["panel"], replicates=1)
    planned = plan_on(table, study)
    rows = worker_on(table, planned)({"tasks": planned.tasks.slice(0, 1)}).to_pylist()
    assert {row["target"] for row in rows} == {"full_table_fit"}
    full = [row["target_value"] for row in worker_on(TABLE, PLANNED)({"tasks": planned.tasks.slice(0, 1)}).to_pylist()]
    assert [row["target_value"] for row in rows] == pytest.approx(full, abs=0.1)
    with pytest.raises(InputError, match=r"trusted_labels=200, but only 134 items have complete labels"):
        plan_on(table, dataclasses.replace(study, trusted_labels=[200]))
