"""What `rat-ray fit` takes beside labels: judges and how they err, policy, strata, calibration; and its notes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from rat_ray.model import EngineSettings, fit, read_labels
from rat_ray.tables import CHECKS, SUMMARY, check_table
from tests.commandline import everything_under, refuse, refuse_here, succeed

ENGINE = ["engine.chains=2", "engine.warmup=200", "engine.samples=200"]
SAME = EngineSettings(chains=2, warmup=200, samples=200)
HEAD = "system,question_id,r,a,t,t@x,t@y,stratum,inclusion,use"
Line = dict[str, Any]


def simulated(items: int, seed: int, system: str = "one") -> list[Line]:
    """Complete labels of one system, and two judges of T; no stratum, inclusion or use."""
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(items):
        r = rng.random() < 0.7
        a = rng.random() < (0.15 if r else 0.6)
        t = rng.random() < (0.8 if r else 0.2)
        verdicts = {f"t@{name}": "" if a else int(rng.random() < (0.85 if t else 0.15)) for name in "xy"}
        labels = {"r": int(r), "a": int(a), "t": "" if a else int(t)}
        lines.append({"system": system, "question_id": f"q{i}", **labels, **verdicts})
    return lines


def write(folder: Path, lines: list[Line], head: str = HEAD) -> None:
    names = head.split(",")
    rows = [",".join(str(line.get(name, "")) for name in names) for line in lines]
    (folder / "labels.csv").write_text("\n".join([head, *rows]) + "\n")


def summary(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """By configuration and quantity."""
    found = pq.read_table(folder / "summary.parquet")
    check_table(found, SUMMARY, "summary")
    return {(row["config"], row["quantity"]): row for row in found.to_pylist()}


def facts(folder: Path) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return made


def test_judges_their_model_a_policy_and_the_checks(tmp_path: Path) -> None:
    write(tmp_path, simulated(80, 1))
    given = ["data=labels.csv", "judges=[t@y]", "judge_model=independent", "policy=graded", "policy.r1_wrong=-2.0"]
    printed = succeed("fit", *given, *ENGINE, "out=one", cwd=tmp_path)
    found = summary(tmp_path / "one")
    assert ("all", "tpr[t@y]") in found
    assert ("all", "tpr[t@x]") not in found
    assert not [name for _, name in found if name.startswith("cor")]
    assert ("all", "finite[utility]") in found
    utility = {"r0_abstained": 1.0, "r0_wrong": -1.0, "r0_right": 0.5, "r1_abstained": 0.2, "r1_wrong": -2.0}
    made = facts(tmp_path / "one")
    assert made["judge_model"] == "independent"
    assert {name: made["policy"][name] for name in utility} == utility
    # All is labelled, so the share among these items is known.
    rows = read_labels(tmp_path / "labels.csv").table.to_pylist()
    worth = [_worth(row, {**utility, "r1_right": 1.0}) for row in rows]
    assert found["all", "finite[utility]"]["mean"] == pytest.approx(np.mean(worth))
    checks = pq.read_table(tmp_path / "one" / "checks.parquet")
    check_table(checks, CHECKS, "checks")
    assert {"labels", "verdicts"} <= set(checks["part"].to_pylist())
    assert set(checks["config"].to_pylist()) == {"all"}
    assert "out: one" in printed
    other = refuse(
        "fit", "data=labels.csv", "judges=[t@y]", "judge_model=independent", *ENGINE, "out=one", cwd=tmp_path
    )
    assert "policy" in other


def _worth(row: Line, utility: dict[str, float]) -> float:
    if row["a"]:
        return utility[f"r{row['r']}_abstained"]
    return utility[f"r{row['r']}_{'right' if row['t'] else 'wrong'}"]


def test_shared_judges_have_the_same_rates_in_every_configuration(tmp_path: Path) -> None:
    """One system has labels of T, the other the judge's verdicts only."""
    blind = [{**line, "t": ""} for line in simulated(80, 3, "two")]
    write(tmp_path, [*simulated(80, 2), *blind])
    given = ["data=labels.csv", "by=system", "judges=[t@x]", "judge_model=independent", *ENGINE]
    succeed("fit", *given, "share_judges=true", "out=shared", cwd=tmp_path)
    succeed("fit", *given, "out=apart", cwd=tmp_path)
    shared, apart = summary(tmp_path / "shared"), summary(tmp_path / "apart")
    for name in ("tpr[t@x]", "fpr[t@x]"):
        assert shared["one", name]["mean"] == shared["two", name]["mean"]
        assert shared["two", name]["sd"] < 0.8 * apart["two", name]["sd"]
    assert shared["two", "p_t"]["sd"] < 0.95 * apart["two", "p_t"]["sd"]
    assert shared["two", "p_t"]["identified"] == "identified"
    write(tmp_path, [{**line, "t@x": "", "t@y": ""} for line in blind])
    said = refuse("fit", "data=labels.csv", "by=system", "judges=[]", "share_judges=true", "out=x", cwd=tmp_path)
    assert "share_judges=true needs the same judges" in said


def _chosen_by_difficulty(use_inclusion: bool) -> list[Line]:
    """Easy questions are always labelled, hard ones, on which the system fails, one time in five."""
    lines = []
    for i in range(200):
        hard = i % 2 == 1
        labelled = not hard or i % 10 == 1
        known = {"r": int(not hard), "t": int(not hard)} if labelled else {"r": "", "t": ""}
        how = {"inclusion": 0.2 if hard else 1.0} if use_inclusion else {"stratum": "hard" if hard else "easy"}
        lines.append({"question_id": i, "a": 0, **known, **how})
    return lines


@pytest.mark.parametrize(("column", "name"), [("stratum", "stratum"), ("inclusion", "chance")])
def test_labels_chosen_by_a_stratum_or_with_a_known_probability(tmp_path: Path, column: str, name: str) -> None:
    lines = _chosen_by_difficulty(column == "inclusion")
    write(tmp_path, [{**line, name: line[column]} for line in lines], HEAD.replace(column, name))
    succeed("fit", "data=labels.csv", f"columns.{column}={name}", *ENGINE, "out=with", cwd=tmp_path)
    found = summary(tmp_path / "with")
    assert found["all", "rho"]["mean"] == pytest.approx(0.5, abs=0.05)
    assert found["all", "p_g"]["mean"] == pytest.approx(0.5, abs=0.06)
    strata = pq.read_table(tmp_path / "with" / "patterns")["stratum"].to_pylist()
    assert len(set(strata)) == 2
    assert None not in strata
    write(tmp_path, lines, HEAD.replace(column, "unknown"))
    succeed("fit", "data=labels.csv", *ENGINE, "out=without", cwd=tmp_path)
    assert summary(tmp_path / "without")["all", "rho"]["mean"] > 0.7  # the mistake that the column prevents


def test_calibration_rows_inform_the_judges_only(tmp_path: Path) -> None:
    """The calibration rows are all R = 1 and right: rho must not learn from that."""
    lines = [{**line, "t": "", "t@y": ""} for line in simulated(80, 4)]
    extra = [
        {
            "question_id": f"c{i}",
            "r": 1,
            "a": 0,
            "t": i % 2,
            "t@x": i % 2 if i % 10 else 1 - i % 2,
            "use": "calibration",
        }
        for i in range(100)
    ]
    write(tmp_path, [*lines, *extra])
    given = ["data=labels.csv", "judges=[t@x]", "judge_model=independent", *ENGINE]
    printed = succeed("fit", *given, "out=one", cwd=tmp_path)
    found = summary(tmp_path / "one")
    assert found["all", "rho"]["items"] == 80
    share = float(np.mean([line["r"] for line in lines]))
    assert found["all", "rho"]["mean"] == pytest.approx(share, abs=0.03)
    assert found["all", "tpr[t@x]"]["sd"] < 0.06
    assert found["all", "p_t"]["identified"] == "identified"
    assert "100 rows inform the judges' rates only" in printed


def test_what_the_labels_leave_open_and_how_they_were_chosen_is_said(tmp_path: Path) -> None:
    lines = simulated(150, 5)
    for line in lines:  # only answers that a judge liked were labelled, and the judge is not used
        if line["a"] or line["t@x"] == 0:
            line["r"] = line["t"] = ""
    write(tmp_path, lines)
    printed = succeed("fit", "data=labels.csv", "judges=[]", *ENGINE, "out=one", cwd=tmp_path)
    assert "labels on answered items only: P(G=1) lies between" in printed
    assert "WARNING: r is labelled on 0% of the answered items where t@x is 0 and on 100% where it is 1" in printed
    notes = facts(tmp_path / "one")["notes"]
    assert all(note in printed for note in notes)
    assert any("t@x is not in the fit" in note for note in notes)
    assert "t@x is not in the fit" in (tmp_path / "one" / "report.html").read_text()
    used = succeed("fit", "data=labels.csv", "judges=[t@x]", *ENGINE, "out=two", cwd=tmp_path)
    assert "t@x is not in the fit" not in used


def test_the_command_gives_what_the_function_gives(tmp_path: Path) -> None:
    lines = simulated(60, 6)
    for i, line in enumerate(lines):
        line["stratum"] = "even" if i % 2 == 0 else "odd"
    write(tmp_path, lines)
    succeed("fit", "data=labels.csv", *ENGINE, "seed=3", "out=one", cwd=tmp_path)
    made = fit(read_labels(tmp_path / "labels.csv").table, engine=SAME, seed=3)
    found = pq.read_table(tmp_path / "one" / "summary.parquet").drop_columns(["seconds"])
    assert found.equals(made.summary.drop_columns(["seconds"]))
    checks = pq.read_table(tmp_path / "one" / "checks.parquet")
    assert checks.equals(made.checks)


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({"stratum": ["x", ""]}, [], "row 2 is blank"),
        ({"inclusion": [0.5, 1.5]}, [], "row 2 is 1.5"),
        ({"inclusion": [0.5, "often"]}, [], "often"),
        ({"inclusion": [0.5, 0.5], "stratum": ["x", "y"]}, [], "both 'stratum' and 'inclusion'"),
        ({"use": ["", "calibratoin"]}, [], "did you mean 'calibration'"),
        ({"use": ["calibration", "calibration"]}, [], "calibration rows"),
        ({}, ["columns.use=purpose"], "'purpose' (columns.use) is missing"),
        ({}, ["columns.stratum=use"], "columns: 'use' cannot be 2 of"),
        ({}, ["judges=[t@x,t@x]"], "t@x"),
        ({}, ["share_judges=perhaps"], "share_judges='perhaps': expected true or false"),
        ({}, ["policy.r2_wrong=1"], "r2_wrong"),
    ],
)
def test_bad_columns_and_settings_are_refused_and_nothing_is_written(
    tmp_path: Path, changes: dict[str, list[Any]], arguments: list[str], message: str
) -> None:
    lines = simulated(2, 1)
    for name, values in changes.items():
        for line, value in zip(lines, values, strict=True):
            line[name] = value
    write(tmp_path, lines)
    before = everything_under(tmp_path)
    assert message in refuse_here("fit", "data=labels.csv", *arguments, cwd=tmp_path)
    assert everything_under(tmp_path) == before
