"""`rat-ray compare` on a label file. Of a run of `rat-ray evaluate`: see tests/e2e."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rat_ray.model import EngineSettings, fit, read_labels
from rat_ray.model.compare import compare
from rat_ray.tables import COMPARISON, RANKS, SUMMARY, check_table
from tests.commandline import everything_under, refuse, refuse_here, succeed

SYSTEMS = {"alpha": (0.2, 0.9), "beta": (0.1, 0.6), "gamma": (0.05, 0.2)}  # P(A=1 | R=1), P(T=1 | R=1)
ENGINE = ["engine.chains=2", "engine.warmup=200", "engine.samples=200"]
SAME = EngineSettings(chains=2, warmup=200, samples=200)
ITEMS, LABELLED = 60, 40


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with labels and a comparison of all three, and what was printed."""
    folder = tmp_path_factory.mktemp("compare")
    write_labels(folder / "three.csv")
    return folder, succeed("compare", "data=three.csv", "by=system", "judges=[t@x]", *ENGINE, cwd=folder)


@pytest.fixture
def labels(finished: tuple[Path, str], tmp_path: Path) -> Path:
    shutil.copy(finished[0] / "three.csv", tmp_path)
    return tmp_path


def write_labels(path: Path) -> None:
    """Three systems that had the same passages: R is theirs together; two judges of T."""
    rng = np.random.default_rng(1)
    r = rng.random(ITEMS) < 0.7
    lines = ["system,question_id,r,a,t,t@x,t@y,context,remark"]
    for name, (alpha, tau) in SYSTEMS.items():
        for i in range(ITEMS):
            a = rng.random() < (alpha if r[i] else 0.6)
            t = rng.random() < (tau if r[i] else 0.2)
            shown = i < LABELLED
            verdicts = [int(rng.random() < (0.85 if t else 0.15)) for _ in "xy"]
            cells = [int(r[i]) if shown else "", int(a), int(t) if shown and not a else "", *verdicts]
            lines.append(",".join(map(str, [name, f"q{i}", *cells, f"p{i}", "-"])))
    path.write_text("\n".join(lines) + "\n")


def rows_of(path: Path, quantity: str) -> list[dict[str, Any]]:
    found = pq.read_table(path)
    return list(found.filter(pc.equal(found["quantity"], quantity)).to_pylist())


def test_every_two_systems_are_compared_and_all_are_ranked(finished: tuple[Path, str]) -> None:
    folder, printed = finished
    out = folder / "rat-comparison"
    for name, schema in (("comparison", COMPARISON), ("ranks", RANKS), ("summary", SUMMARY)):
        check_table(pq.read_table(out / f"{name}.parquet"), schema, name)
    pairs = rows_of(out / "comparison.parquet", "p_g")
    assert [(row["first"], row["second"]) for row in pairs] == [
        ("alpha", "beta"),
        ("alpha", "gamma"),
        ("beta", "gamma"),
    ]
    assert {(row["items"], row["same_context"], row["identified"]) for row in pairs} == {(ITEMS, ITEMS, 1)}
    assert pairs[1]["p_greater"] > 0.97
    ranked = pq.read_table(out / "ranks.parquet").to_pylist()
    assert ranked[-1]["config"] == "gamma"
    assert sum(row["p_best"] for row in ranked) == pytest.approx(1)
    assert {row["config"] for row in rows_of(out / "summary.parquet", "tpr[t@x]")} == set(SYSTEMS)
    assert not rows_of(out / "summary.parquet", "tpr[t@y]")
    assert "Ranks by P(G=1)" in printed
    for row in pairs:
        assert f"{row['first']} - {row['second']}:  {row['mean']:+.3f} [{row['q2.5']:+.3f}, " in printed
    assert "columns ignored: remark" in printed
    assert printed.count("nan") == 0


def test_the_command_gives_what_the_function_gives(finished: tuple[Path, str]) -> None:
    folder, _ = finished
    table = read_labels(folder / "three.csv", by=["system"]).table
    sides = [table.filter(pc.equal(table["config"], name)) for name in ("alpha", "beta")]
    made = compare(*sides, ["t@x"], engine=SAME, names=("alpha", "beta"))
    (row, *_) = rows_of(folder / "rat-comparison" / "comparison.parquet", "p_g")
    for name in ("mean", "sd", "q2.5", "p_greater", "correlation", "mcse"):
        assert row[name] == made.value("p_g", name), name
    alone = fit(sides[0], ["t@x"], engine=SAME, config="alpha")
    (summary, *_) = rows_of(folder / "rat-comparison" / "summary.parquet", "p_g")
    assert summary["mean"] == alone.value("p_g")


def test_a_rerun_computes_nothing_and_says_the_same(finished: tuple[Path, str]) -> None:
    folder, printed = finished
    out = folder / "rat-comparison"
    store = everything_under(out / ".store")
    again = succeed("compare", "data=three.csv", "by=system", "judges=[t@x]", *ENGINE, cwd=folder)
    assert everything_under(out / ".store") == store
    assert again[again.index("Ranks by") :] == printed[printed.index("Ranks by") :]
    stages = json.loads((out / "run.json").read_text())["stages"]
    assert len(stages) == 4 * 3 + 3
    assert sum(stage["new_rows"] for stage in stages) == 0
    changed = ["data=three.csv", "by=system", "judges=[t@x]", *ENGINE]
    assert "seed" in refuse("compare", *changed, "seed=2", cwd=folder)
    assert "quantity" in refuse("compare", *changed, "quantity=rho", cwd=folder)


def test_some_systems_another_quantity_and_a_policy(labels: Path) -> None:
    chosen = ["data=three.csv", "by=system", "configs=[gamma,alpha]", "judges=[]", *ENGINE]
    printed = succeed("compare", *chosen, "policy=graded", "quantity=utility", "out=graded", cwd=labels)
    assert "Ranks by utility" in printed
    (row,) = rows_of(labels / "graded" / "comparison.parquet", "utility")
    assert (row["first"], row["second"]) == ("gamma", "alpha")
    assert row["q97.5"] < 0
    assert f"gamma - alpha:  {row['mean']:+.3f}" in printed
    ranked = pq.read_table(labels / "graded" / "ranks.parquet").to_pylist()
    assert [(one["config"], one["quantity"]) for one in ranked] == [("alpha", "utility"), ("gamma", "utility")]
    rho = rows_of(labels / "graded" / "comparison.parquet", "rho")[0]
    assert (rho["mean"], rho["p_greater"]) == (0.0, 0.5)


def test_a_difference_that_the_labels_leave_open_says_so(labels: Path) -> None:
    lines = (labels / "three.csv").read_text().splitlines()
    hidden = [",".join([*line.split(",")[:2], "", *line.split(",")[3:]]) for line in lines[1:]]  # no R at all
    (labels / "three.csv").write_text("\n".join([lines[0], *hidden]) + "\n")
    printed = succeed(
        "compare", "data=three.csv", "by=system", "configs=[alpha,gamma]", "judges=[]", *ENGINE, cwd=labels
    )
    assert "the labels leave it open" in printed
    assert rows_of(labels / "rat-comparison" / "comparison.parquet", "p_g")[0]["identified"] == 0


def test_systems_without_common_questions_are_named(labels: Path) -> None:
    lines = (labels / "three.csv").read_text().splitlines()
    lines = [line.replace(",q", ",other") if line.startswith("gamma") else line for line in lines]
    (labels / "three.csv").write_text("\n".join(lines) + "\n")
    given = ["data=three.csv", "by=system", "judges=[]", *ENGINE]
    assert "no two configurations have a question in common" in refuse(
        "compare", *given, "configs=[alpha,gamma]", cwd=labels
    )
    printed = succeed("compare", *given, cwd=labels)
    assert "alpha and gamma have no question in common: not compared" in printed
    ranked = pq.read_table(labels / "rat-comparison" / "ranks.parquet").to_pylist()
    assert {row["config"] for row in ranked} == {"alpha", "beta"}
    summary = pq.read_table(labels / "rat-comparison" / "summary.parquet")
    assert set(summary["config"].to_pylist()) == set(SYSTEMS)


def test_a_sweep_has_a_folder_for_each_seed(labels: Path) -> None:
    given = ["data=three.csv", "by=system", "configs=[alpha,beta]", "judges=[]", *ENGINE, "out=sweep"]
    succeed("compare", "-m", "seed=1,2", *given, cwd=labels)
    found = [
        rows_of(folder / "comparison.parquet", "p_g")[0]["mean"] for folder in sorted((labels / "sweep").glob("*/"))
    ]
    assert len(found) == 2
    assert found[0] != found[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["configs=[alpha,gama]"], "configs: 'gama' is not there (did you mean 'gamma'?)"),
        (["configs=[alpha]"], "two configurations or more are compared, here is alpha"),
        (["run=somewhere"], "give either data=FILE by=COLUMN, or run=OUT"),
        (["judges=[t@z]"], "judges: 't@z' is no judge here"),
        (["quantity=utility"], "quantity=utility: unknown"),
        (["policy=graded", "policy.r1_wrong=.inf"], "policy.r1_wrong"),
        (["judge_model=independent", "prior.tpr=[1,50]", "prior.fpr=[50,1]"], "better than chance"),
        (["columns.context=passage"], "columns.context"),
        (["share_judges=true"], "share_judges"),
    ],
)
def test_bad_settings_are_refused_and_nothing_is_written(labels: Path, arguments: list[str], message: str) -> None:
    before = everything_under(labels)
    assert message in refuse_here("compare", "data=three.csv", "by=system", *arguments, cwd=labels)
    assert everything_under(labels) == before


def test_labels_that_contradict_each_other_name_the_question(labels: Path) -> None:
    text = (labels / "three.csv").read_text()
    lines = text.splitlines()
    number = next(i for i, line in enumerate(lines) if line.startswith("beta,q7,"))
    cells = lines[number].split(",")
    lines[number] = ",".join([*cells[:2], str(1 - int(cells[2])), *cells[3:]])
    (labels / "three.csv").write_text("\n".join(lines) + "\n")
    said = refuse("compare", "data=three.csv", "by=system", cwd=labels)
    assert "question 'q7': alpha and beta had the same context, but r is" in said
    (labels / "three.csv").write_text(text + text.splitlines()[1] + "\n")
    assert "'q0' occurs more than once in config 'alpha'" in refuse(
        "compare", "data=three.csv", "by=system", cwd=labels
    )
    assert not (labels / "rat-comparison").exists()
