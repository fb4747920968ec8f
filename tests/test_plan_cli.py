"""`rat-ray plan` and `rat-ray annotate export how=planner`, round by round through the command line."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from rat_ray.annotate.people_cells import restore
from rat_ray.model import read_labels
from tests.allocate.planned import states, table
from tests.commandline import refuse_here
from tests.labelling_runs import r_item, t_item, usual, write_run

FULL = states("abstainer", 200, 1)
FAST = ("futures=10", "strategies=joint,t_first")
GOAL = ("goal=width", "width=0.22")


def do(*arguments: str, cwd: Path) -> str:
    """In this process."""
    from rat_ray.cli import main

    said, shouted = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(said), contextlib.redirect_stderr(shouted):
        code = main(list(arguments))
    assert code == 0, f"{arguments} ended with {code}:\n{said.getvalue()}\n{shouted.getvalue()}"
    return said.getvalue()


def refused(*arguments: str, cwd: Path) -> str:
    return refuse_here("plan", *arguments, cwd=cwd)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    pyarrow.csv.write_csv(table(FULL, 50), tmp_path / "labels.csv")
    pyarrow.csv.write_csv(table(FULL, 0), tmp_path / "none.csv")
    return tmp_path


def sheet(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return [{name: restore(cell) for name, cell in row.items()} for row in csv.DictReader(file)]


def fill(path: Path, label: Callable[[Mapping[str, str]], str]) -> list[dict[str, str]]:
    """Fill the labels in, in place, as a spreadsheet would."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["label"] = label({name: restore(cell) for name, cell in row.items()})
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return rows


def truth(row: Mapping[str, str]) -> str:
    return ("no", "yes")[FULL[int(row["question_id"][1:]), "rat".index(row["variable"])]]


def test_round_by_round_until_it_says_stop(place: Path) -> None:
    asked: set[tuple[str, str]] = set()
    filled: list[str] = []
    for number in range(1, 9):
        given = [f"filled=[{','.join(filled)}]"] if filled else []
        said = do("plan", "data=labels.csv", *GOAL, *FAST, f"out=round{number}", *given, cwd=place)
        facts = json.loads((place / f"round{number}/run.json").read_text())
        if facts["stop"]:
            break
        rows = fill(place / f"round{number}/next.csv", truth)
        assert rows == sorted(rows, key=lambda row: int(row["order"]))
        mine = {(row["variable"], row["question_id"]) for row in rows}
        assert len(mine) == len(rows) == facts["asks"]
        assert not mine & asked
        asked |= mine
        chosen = pq.read_table(place / f"round{number}/selection.parquet").to_pylist()
        assert [(one["variable"], one["question_id"]) for one in chosen] == [
            (row["variable"], row["question_id"]) for row in rows
        ]
        assert {(one["round"], one["strategy"]) for one in chosen} == {(number, facts["strategy"])}
        filled.append(f"round{number}/next.csv")
    assert "STOP: the goal is reached" in said
    assert number > 1
    assert not (place / f"round{number}/next.csv").exists()
    labels = read_labels(place / f"round{number}/labels.parquet", by=["config"]).table
    known = {
        (v, q)
        for v in "rt"
        for q, label in zip(labels["question_id"].to_pylist(), labels[v].to_pylist(), strict=True)
        if label is not None
    }
    assert known == asked | {("r", f"q{i}") for i in range(50)} | {("t", f"q{i}") for i in range(50) if FULL[i, 1] == 0}
    assert all(
        label is None or label == FULL[i, "rat".index(v)] for v in "rt" for i, label in enumerate(labels[v].to_pylist())
    )


def test_a_plan_is_not_written_over_and_is_the_same_again(place: Path) -> None:
    do("plan", "data=labels.csv", *GOAL, *FAST, "out=one", cwd=place)
    written = (place / "one/next.csv").read_bytes()
    fill(place / "one/next.csv", truth)
    assert "nothing was written" in do("plan", "data=labels.csv", *GOAL, *FAST, "out=one", cwd=place)
    do("plan", "data=labels.csv", *GOAL, *FAST, "out=two", cwd=place)
    assert (place / "two/next.csv").read_bytes() == written
    assert "give another out=" in refused("data=labels.csv", *GOAL, *FAST, "seed=2", "out=one", cwd=place)


def test_without_labels_a_base_is_written(place: Path) -> None:
    said = do("plan", "data=none.csv", *GOAL, "base=12", "out=base", cwd=place)
    assert "no label of R or T at all" in said
    assert "label a base of random items fully first" in said
    rows = sheet(place / "base/next.csv")
    assert len({row["question_id"] for row in rows}) == 12 == sum(row["variable"] == "r" for row in rows)
    fill(place / "base/next.csv", truth)
    said = do("plan", "data=none.csv", "filled=base/next.csv", "goal=width", "width=0.8", "out=more", cwd=place)
    assert "STOP" in said or "go on with" in said


def test_unsure_is_not_asked_again_and_blank_is(place: Path) -> None:
    do("plan", "data=labels.csv", *GOAL, *FAST, "n=8", "out=one", cwd=place)
    rows = sheet(place / "one/next.csv")
    assert len(rows) == 8
    fill(place / "one/next.csv", lambda row: {"1": "unsure", "2": ""}.get(row["order"], truth(row)))
    said = do("plan", "data=labels.csv", "filled=one/next.csv", *GOAL, *FAST, "out=two", cwd=place)
    assert "labels filled in: 6, undecided: 1" in said
    again = [(row["variable"], row["question_id"]) for row in sheet(place / "two/next.csv")]
    assert (rows[0]["variable"], rows[0]["question_id"]) not in again
    assert (rows[1]["variable"], rows[1]["question_id"]) == again[0]


def test_filled_files_are_checked(place: Path) -> None:
    do("plan", "data=labels.csv", *GOAL, *FAST, "out=one", cwd=place)
    file = place / "one/next.csv"
    whole = file.read_text(encoding="utf-8")
    first = sheet(file)[0]["question_id"]
    for old, new, said in (
        (f"all/{first},", "all/x,", "data= has no such question"),
        (f"all/{first},", f"al/{first},", "no such configuration (did you mean 'all'?)"),
        (f"all/{first},all,{first},", f"all/{first},all,q0,", "were some columns sorted without the others?"),
        (",r,1,", ",a,1,", "the planner asks for r and t"),
    ):
        assert old in whole
        file.write_text(whole.replace(old, new), encoding="utf-8")
        assert said in refused("data=labels.csv", "filled=one/next.csv", *GOAL, "out=two", cwd=place)
    file.write_text(whole, encoding="utf-8")
    fill(file, lambda row: "perhaps")
    assert "give 1 or yes, 0 or no, unsure" in refused(
        "data=labels.csv", "filled=one/next.csv", *GOAL, "out=two", cwd=place
    )
    assert "other.csv: cannot be read" in refused("data=labels.csv", "filled=other.csv", *GOAL, cwd=place)
    assert not (place / "two").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["goal=wdth", "data=labels.csv"], "a goal is one of"),
        (["goal=decide", "a=x", "b=all", "data=labels.csv"], "a=x: no such configuration"),
        ([*GOAL], "neither data= nor run="),
        ([*GOAL, "data=labels.csv", "run=x"], "both data= and run="),
        ([*GOAL, "data=labels.csv", "cost.t=0"], "cost.t=0"),
        ([*GOAL, "data=labels.csv", "strategies=t_frist"], "did you mean 't_first'"),
        ([*GOAL, "data=labels.csv", "judges=[t@x]"], "is no judge here"),
        ([*GOAL, "data=labels.csv", "people=p.csv"], "people= goes with run="),
        ([*GOAL, "data=labels.csv", "budget=0.5"], "budget=0.5"),
        ([*GOAL, "data=labels.csv", "chance=3"], "chance=3"),
    ],
)
def test_bad_input(place: Path, given: list[str], said: str) -> None:
    assert said in refused(*given, cwd=place)
    assert not (place / "rat-plan").exists()


def test_no_strategy_may_spoil_the_fits_of_a_configuration_that_the_plan_is_not_about(tmp_path: Path) -> None:
    contexts = [f"c{i}" for i in range(200)]
    whose = (("x", contexts), ("y", contexts), ("z", [f"d{i}" for i in range(200)]))
    rows = [table(FULL, 50, contexts=of).append_column("model", pa.array([name] * 200)) for name, of in whose]
    pyarrow.csv.write_csv(pa.concat_tables(rows), tmp_path / "three.csv")
    given = ("data=three.csv", "by=model", *GOAL, "strategies=t_first", "futures=10")
    assert "would serve others with the same context" in refused(*given, "configs=x", cwd=tmp_path)
    assert "go on with t_first" in do("plan", *given, "configs=z", "out=z", cwd=tmp_path)


@pytest.mark.slow
def test_a_decision_between_two_configurations(place: Path) -> None:
    both = [
        table(states(system, 200, seed), 80).append_column("model", pa.array([name] * 200))
        for seed, (name, system) in enumerate((("x", "abstainer"), ("y", "guesser")), start=3)
    ]
    pyarrow.csv.write_csv(pa.concat_tables(both), place / "two.csv")
    goal = ("data=two.csv", "by=model", "goal=decide", "a=x", "b=y", "strategies=joint")
    said = do("plan", *goal, "level=0.51", "out=sure", cwd=place)
    assert "by a joint fit" in said
    assert "STOP" in said
    said = do("plan", *goal, "level=0.999", "futures=10", "out=unsure", cwd=place)
    assert "chance to decide" in said
    assert {row["config"] for row in sheet(place / "unsure/next.csv")} == {"x", "y"}


# --- a finished run ---------------------------------------------------------------------------------------------------


def test_the_planner_exports_sheets_and_goes_on_with_the_labels(tmp_path: Path) -> None:
    lines = usual(40)
    write_run(tmp_path / "run", lines)
    goal = ("goal=width", "width=0.3", "futures=10", "judges=[]", "how=planner", "run=run", "people=people.parquet")
    said = do("annotate", "export", *goal, "base=8", "out=s1", cwd=tmp_path)
    assert "label a base of random items fully first" in said
    known = {r_item(one): one["r@evidence"] for one in lines if not one["error"]}
    known |= {t_item(one): one["t@match"] for one in lines if not one["error"]}
    rows = fill(tmp_path / "s1/items.csv", lambda row: str(known[row["item"]]))
    assert sum(row["variable"] == "r" for row in rows) == 8  # one label of R for both configurations
    chosen = pq.read_table(tmp_path / "s1/selection.parquet")
    assert chosen["item"].to_pylist() == [row["item"] for row in rows]
    assert set(chosen["strategy"].to_pylist()) == {"joint"}
    assert chosen["why"].null_count == 0
    assert not {"why", "config", "strategy"} & set(rows[0])  # nothing that could sway whoever labels
    do("annotate", "import", "run=run", "files=[s1/items.csv]", "people=people.parquet", cwd=tmp_path)
    said = do("annotate", "export", *goal, "n=12", "out=s2", cwd=tmp_path)
    assert "a label of R serves all of them" in said
    second = sheet(tmp_path / "s2/items.csv")
    assert len(second) == 12
    assert not {row["item"] for row in second} & {row["item"] for row in rows}
    said = do(
        "plan",
        "run=run",
        "people=people.parquet",
        "goal=width",
        "width=0.3",
        "futures=10",
        "judges=[]",
        "out=p",
        cwd=tmp_path,
    )
    order = [(row["config"], row["question_id"], row["variable"]) for row in sheet(tmp_path / "p/next.csv")]
    pairs = zip(chosen_of(tmp_path / "s2"), order, strict=False)
    assert all(one == other for one, other in pairs)


def test_a_run_whose_rules_are_trusted_leaves_nothing_to_ask_for(tmp_path: Path) -> None:
    lines = [{**one, "r": one["r@evidence"], "t": one["t@match"] if one["a"] == 0 else None} for one in usual(30)]
    write_run(tmp_path / "run", lines)
    said = do("plan", "run=run", "goal=width", "width=0.01", "judges=[]", cwd=tmp_path)
    assert "no label of R or T is left to ask for" in said
    assert "to plan for people's labels give people=FILE" in said
    assert not (tmp_path / "rat-plan/next.csv").exists()


def chosen_of(folder: Path) -> list[tuple[str, str, str]]:
    rows = pq.read_table(folder / "selection.parquet").to_pylist()
    return [(row["config"], row["question_id"], row["variable"]) for row in rows]


def test_settings_of_the_planner_go_with_how_planner(tmp_path: Path) -> None:
    write_run(tmp_path / "run", usual(10))
    assert "goal= goes with how=planner" in refuse_here("annotate", "export", "run=run", "goal=width", cwd=tmp_path)
    said = refuse_here("annotate", "export", "run=run", "how=planner", cwd=tmp_path)
    assert "goal: must be given; a goal is one of" in said
    said = refuse_here(
        *(
            "annotate",
            "export",
            "run=run",
            "how=planner",
            "goal=width",
            "width=.3",
            "people=p.csv",
            "strategies=t_first",
        ),
        cwd=tmp_path,
    )
    assert "t_first" in said
    assert not (tmp_path / "rat-annotate").exists()
