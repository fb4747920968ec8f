"""What the command line refuses, in words and before anything is written; and what it takes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.commandline import everything_under, refuse, refuse_here, succeed

GOOD = "question_id,r,a,t\nq1,1,0,1\nq2,1,0,0\nq3,0,1,\nq4,0,0,0\nq5,1,1,\nq6,,0,1\nq7,1,0,\nq8,0,0,1\n"


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    (tmp_path / "labels.csv").write_text(GOOD)
    (tmp_path / "judged.csv").write_text("r,a,t,t@x\n1,0,1,1\n0,0,0,1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "labels.csv"),
        ("", "empty"),
        ("question_id,r,a,t\n", "no rows"),
        ("question_id,r,a,task\nq1,1,0,1\n", "'t'"),
        ("question_id,R_,a,t\nq1,1,0,1\n", "'r'"),
        ("question_id,r,a,t\n1,1,0,1\n1,1,0,0\n", "1"),
        ("question_id,r,a,t\nq1,1,0,1\nq7,maybe,0,0\n", "maybe"),
        ("question_id,r,a,t\nq1,1,1,1\n", "q1"),
        ("question_id,r,a,t\nq1,1,,0\n", "t_zero=wrong"),
        ("question_id,r,a,t\nq1,2,0,0\n", "'2'"),
    ],
)
def test_bad_label_files_are_refused_and_nothing_is_written(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "labels.csv").write_text(text)
    before = everything_under(tmp_path)
    assert message in refuse_here("fit", "data=labels.csv", "out=result", cwd=tmp_path)
    assert everything_under(tmp_path) == before
    assert not (tmp_path / "result").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "dta=labels.csv"], "did you mean 'data'"),
        (["fit", "+dta=labels.csv"], "did you mean 'data'"),
        (["fit", "data=labels.csv", "++engine.chain=2"], "did you mean 'chains'"),
        (["fit", "data=labels.csv", "columns.rr=x"], "rr"),
        (["fit", "data=labels.csv", "engine.chains=two"], "whole number"),
        (["fit", "data=labels.csv", "prior.rho=[1]"], "prior.rho"),
        (["fit"], "data: must be given"),
        (["fit", "data="], "data: must be given"),
        (["fit", "data=labels.csv", "out="], "out: must be given"),
        (["fit", "data=labels.csv", "out=labels.csv/x"], "cannot write there"),
        (["fit", "data=labels.csv", f"out=deep/{'é' * 128}/x"], "a name of 256 bytes"),
        (["fit", "data=labels.csv", f"out={'deep/' * 700}"], "a path of 35"),
        (["fit", f"data={'x' * 256}"], "a name of 256 bytes"),
        (["report", f"run={'x' * 256}"], "a name of 256 bytes"),
        (["evaluate", f"out={'x' * 256}"], "a name of 256 bytes"),
        (["fit", "data=labels.csv", "by=modl"], "modl"),
        (["fit", "data=labels.csv", "prior=null"], "name a choice"),
        (["fit", "data=labels.csv", "prior.rho=[1e300,1]"], "prior.rho"),
        (["fit", "data=labels.csv", "seed=${nothing}"], "Interpolation key 'nothing' not found"),
        (
            ["fit", "data=judged.csv", "judge_model=independent", "prior.tpr=[1,50]", "prior.fpr=[50,1]"],
            "better than chance",
        ),
        (["fit", "data=judged.csv", "judge_model=panl"], "did you mean 'panel'"),
        (["fit", "data=judged.csv", "prior.panel_floor=0.1"], "panel_floor"),
        (["fit", "data=judged.csv", "judges=[t@nobody]"], "t@nobody"),
        (["fit", "data=labels.csv", "policy.r0_wrong=.nan"], "policy.r0_wrong"),
        (["compare", "out=x"], "give either data=FILE"),
        (["compare", "data=labels.csv"], "two configurations or more"),
        (["compare", "data=labels.csv", "quantity=pg"], "did you mean 'p_g'"),
        (["fitt"], "did you mean 'fit'"),
        (["evaluate", "retriever.dept=3"], "did you mean 'depth'"),
        (["evaluate", "retrievers=bm25"], "did you mean 'retriever'"),
        (["evaluate", "dataset=files"], "dataset.path: must be given"),
        (["evaluate", "dataset=files", "dataset.path=nowhere"], "nowhere"),
        (["evaluate", "labels.trusted.r=[evidnce]"], "evidnce"),
        (["evaluate", "store=ftp://host/x"], "ftp://host/x"),
        (["evaluate", "store="], "store: must be given"),
        (["evaluate", "configurations=[{retriever: bm52}]"], "did you mean 'bm25'"),
        (["evaluate", "resources.fit.num_cpus=-1"], "num_cpus=-1"),
        (["evaluate", "retriever.k1=inf"], "retriever.k1=inf"),
        (["evaluate", "generator.temperature=nan"], "temperature is nan"),
        (["evaluate", "labels.budget=0"], "labels.budget=0"),
        (["evaluate", "labels.config=mine"], "no setting 'config'"),
        (["evaluate", "retriever=dense", "retriever.dim=64"], "did you mean 'encoder.dim'"),
        (["evaluate", "judge.name=evidence"], "r@evidence is no judge"),
        (["evaluate", "allocation=small", "allocation.configurations=[bm25-gemma3_270m_eager]"], "did you mean"),
        (["allocate", "run=nowhere"], "nowhere"),
        (["report", "run=nowhere"], "nowhere"),
    ],
)
def test_bad_settings_are_refused_and_nothing_is_written(labels: Path, arguments: list[str], message: str) -> None:
    before = everything_under(labels)
    assert message in refuse_here(*arguments, cwd=labels)
    assert everything_under(labels) == before


def test_a_misspelt_choice_is_refused_with_a_suggestion(labels: Path) -> None:
    said = refuse("fit", "data=labels.csv", "prior=unifrm", cwd=labels)
    assert said == "error: prior=unifrm: no such choice (did you mean 'uniform'?)\n"
    assert "no such choice (known: " in refuse("evaluate", "experiment=zzz", cwd=labels)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-m", "--cfg", "job"], "Only one of --run, --multirun, --cfg"),
        (["--config-dir", "nowhere"], "nowhere"),
        (["~prior.nothing"], "nothing"),
        (["engine.samples=[1"], "cannot read the settings"),
    ],
)
def test_what_hydra_refuses_is_said_in_our_way(labels: Path, arguments: list[str], message: str) -> None:
    said = refuse("fit", "data=labels.csv", *arguments, cwd=labels)
    assert message in said
    assert said.startswith("error: ")
    assert "HYDRA_FULL_ERROR" not in said


def test_an_out_folder_that_is_not_ours_is_left_alone(labels: Path) -> None:
    (labels / "mine").mkdir()
    (labels / "mine" / "thesis.txt").write_text("years of work")
    assert "not made by rat-ray" in refuse("fit", "data=labels.csv", "out=mine", cwd=labels)
    assert [path.name for path in (labels / "mine").iterdir()] == ["thesis.txt"]
    (labels / "file").write_text("x")
    assert "is a file" in refuse("fit", "data=labels.csv", "out=file", cwd=labels)


def test_an_out_folder_of_other_settings_or_labels_is_left_alone(labels: Path) -> None:
    succeed("fit", "data=labels.csv", "out=result", cwd=labels)
    before = everything_under(labels / "result")
    assert "seed" in refuse("fit", "data=labels.csv", "out=result", "seed=2", cwd=labels)
    (labels / "labels.csv").write_text(GOOD.replace("q8,0,0,1", "q8,0,0,0"))
    assert "labels" in refuse("fit", "data=labels.csv", "out=result", cwd=labels)
    assert everything_under(labels / "result") == before


def test_fit_writes_summary_and_report_and_computes_nothing_twice(labels: Path) -> None:
    printed = succeed("fit", "data=labels.csv", "out=result", cwd=labels)
    assert "P(G=1)" in printed
    summary = pq.read_table(labels / "result" / "summary.parquet")
    assert "p_g" in summary.column("quantity").to_pylist()
    assert "<svg" in (labels / "result" / "report.html").read_text()
    store = everything_under(labels / "result" / ".store")
    succeed("fit", "data=labels.csv", "out=result", cwd=labels)
    assert everything_under(labels / "result" / ".store") == store
    stages = json.loads((labels / "result" / "run.json").read_text())["stages"]
    assert sum(stage["new_rows"] for stage in stages) == 0


def test_fit_by_group_with_renamed_columns_and_judges(tmp_path: Path) -> None:
    rows = [
        f"{model},q{i},{i % 2},{int(i % 3 == 0)},{'' if i % 3 == 0 else i % 2},{i % 2}"
        for model in "AB"
        for i in range(30)
    ]
    (tmp_path / "my labels (1).csv").write_text("\n".join(["model,id,retrieved,a,t,t@gpt4", *rows]) + "\n")
    settings = ["columns.r=retrieved", "columns.question_id=id", "by=model", "out=result"]
    succeed("fit", "data=my labels (1).csv", *settings, cwd=tmp_path)
    summary = pq.read_table(tmp_path / "result" / "summary.parquet").to_pylist()
    assert {row["config"] for row in summary} == {"A", "B"}
    assert "tpr[t@gpt4]" in {row["quantity"] for row in summary}


def test_the_same_seed_gives_the_same_summary_elsewhere(labels: Path) -> None:
    for name in ("one", "two"):
        succeed("fit", "data=labels.csv", f"out={name}", "seed=7", cwd=labels)
    one, two = (pq.read_table(labels / name / "summary.parquet").drop_columns(["seconds"]) for name in ("one", "two"))
    assert one.equals(two)


def test_file_names_may_hold_what_hydra_finds_special(labels: Path) -> None:
    for name in ("back\\slash.csv", "[draft] it's=1.csv"):
        (labels / name).write_text(GOOD)
        assert "no such file" not in refuse("fit", f"data={name}", "by=[nothing]", cwd=labels)


def test_a_damaged_summary_is_named(labels: Path) -> None:
    succeed("fit", "data=labels.csv", "out=result", cwd=labels)
    (labels / "result" / "summary.parquet").write_bytes(b"")
    assert "summary.parquet: cannot be read" in refuse("report", "run=result", cwd=labels)


def test_options_may_stand_between_settings(labels: Path) -> None:
    assert "chains: 4" in succeed("fit", "data=labels.csv", "--cfg", "job", "out=result", cwd=labels)


def test_a_sweep_that_is_refused_writes_nothing(labels: Path) -> None:
    before = everything_under(labels)
    assert "nothing.csv" in refuse("fit", "data=nothing.csv", "-m", "seed=1,2", "out=result", cwd=labels)
    assert everything_under(labels) == before


def test_help_shows_groups_and_settings(tmp_path: Path) -> None:
    printed = succeed("fit", "--help", cwd=tmp_path)
    assert "prior: jeffreys, states, uniform" in printed
    assert "rat-ray evaluate" in succeed("--help", cwd=tmp_path)
