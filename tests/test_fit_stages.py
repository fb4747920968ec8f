"""Fits as a graph: of several jobs at once, and of configurations that share judges of which one fails."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from rat_ray import tables
from rat_ray.cluster import Cluster, ClusterSettings
from rat_ray.errors import InputError, StageError
from rat_ray.fit_stages import FitResources, add_fits, fit_tables, small_fits
from rat_ray.graph import Graph, Walk
from rat_ray.model import DiagnosticsSettings, EngineSettings, Policy, Prior
from rat_ray.stage import Runs, import_rows
from rat_ray.store import Store, Table

JUDGE = "t@x"
JUDGES = [JUDGE]


@dataclass(frozen=True)
class Job:
    prior: Prior = Prior()
    engine: EngineSettings = EngineSettings(chains=2, warmup=200, samples=200)
    diagnostics: DiagnosticsSettings = DiagnosticsSettings()
    judge_model: str = "panel"
    share_judges: bool = False
    policy: Policy = Policy()
    seed: int = 1


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    store = Store(tmp_path / "store")
    store.prepare()
    return Runs(store, Cluster(ClusterSettings(use="never")), quiet=True)


def annotations(runs: Runs, config: str, failed: bool = False) -> Table:
    rows = []
    for i in range(40):
        row = {"config": config, "dataset": "d", "retriever": "r", "generator": "g", "question_id": f"q{i}"}
        labels = {"r": i % 2, "a": int(i % 5 == 0), "t": None if i % 5 == 0 else int(i % 3 > 0), JUDGE: int(i % 3 > 1)}
        rows.append(row | ({"error": "no answer"} if failed else labels))
    return import_rows(
        runs.store, "annotations", config, pa.Table.from_pylist(rows, tables.annotations_schema([JUDGE]))
    )


def test_jobs_that_differ_in_prior_are_fitted_together_and_counted_once(runs: Runs) -> None:
    table = annotations(runs, "one")
    jobs = {"uniform": Job(), "informed": Job(prior=Prior(rho=(8.0, 2.0)))}
    graph = Graph()
    given = {"one": graph.give(table)}
    nodes = {name: add_fits(graph, given, {"one": [JUDGE]}, job, FitResources()) for name, job in jobs.items()}
    assert nodes["uniform"]["one"].patterns == nodes["informed"]["one"].patterns
    walk = Walk(graph)
    walk.run(runs, small_fits)
    assert [record.table for record in runs.records].count("patterns") == 1
    means = {}
    for name, one in nodes.items():
        summary = one["one"].tables(walk).summary.read().to_pylist()
        means[name] = next(row["mean"] for row in summary if row["quantity"] == "rho")
    assert means["informed"] > means["uniform"] + 0.02
    alone = fit_tables(runs, {"one": table}, {"one": [JUDGE]}, jobs["informed"], FitResources(), True, True)
    assert alone["one"].posterior.key == nodes["informed"]["one"].tables(walk).posterior.key, "wherever it is fitted"


def test_a_configuration_that_failed_shares_nothing_with_the_others(runs: Runs) -> None:
    job = Job(share_judges=True)
    whole = {name: annotations(runs, name) for name in ("a", "b")}
    graph = Graph()
    given = {name: graph.give(table) for name, table in whole.items()}
    given["c"] = graph.give(annotations(runs, "c", failed=True))
    nodes = add_fits(graph, given, dict.fromkeys(given, JUDGES), job, FitResources())
    walk = Walk(graph)
    walk.run(runs, small_fits)
    failure = walk.why(*nodes["c"])
    assert failure is not None
    assert failure.message == "c: every row failed; first: question q0: no answer"
    assert walk.why(*nodes["a"], *nodes["b"]) is None
    without = fit_tables(runs, whole, dict.fromkeys(whole, JUDGES), job, FitResources(), True, True)
    for name in whole:
        assert nodes[name].tables(walk).posterior.key == without[name].posterior.key


def test_the_first_failure_is_raised_when_tables_are_fitted_alone(runs: Runs) -> None:
    tables_of = {"good": annotations(runs, "good"), "bad": annotations(runs, "bad", failed=True)}
    with pytest.raises(StageError, match="bad: every row failed"):
        fit_tables(runs, tables_of, dict.fromkeys(tables_of, JUDGES), Job(), FitResources(), True, True)
    assert [record.label for record in runs.records if record.table == "summary"] == ["summarise good"]


def test_settings_that_cannot_be_fitted_are_refused_when_declared(runs: Runs) -> None:
    graph = Graph()
    given = {"a": graph.give(annotations(runs, "a")), "b": graph.give(annotations(runs, "b"))}
    with pytest.raises(InputError, match="the same judges in every configuration"):
        add_fits(graph, given, {"a": [JUDGE], "b": []}, Job(share_judges=True), FitResources())
    job = replace(Job(), engine=EngineSettings(chains=0))
    with pytest.raises(InputError, match="chains"):
        add_fits(graph, given, dict.fromkeys(given, JUDGES), job, FitResources())
