"""`rat-ray allocate` on label files and simulated truths, in this process. Of a finished run: see also tests/e2e."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from rat_ray.allocate import STUDY_SUMMARY, summarise
from rat_ray.allocate.information import INFORMATION, PREDICTION
from rat_ray.allocate.judge_summary import JUDGE_SUMMARY
from rat_ray.allocate.reach import REACH
from rat_ray.allocate.summary import PAIRED
from rat_ray.cli import main
from rat_ray.hive import write_dataset
from rat_ray.output import OutFolder
from rat_ray.tables import ALLOCATION, JUDGE_STUDY, check_table
from tests.allocate.planted import TRUSTED, planted
from tests.commandline import everything_under, refuse_here

REPOSITORY = Path(__file__).parent.parent
ITEMS = 120
SYSTEMS = {"eager": (0.1, 0.6), "careful": (0.6, 0.8)}  # P(A=1 | R=0), P(T=1 | R=1)
HERE = ["cluster.use=never"]
SMALL = [
    *("allocation.base=20", "allocation.budgets=[0,20,60]", "allocation.replicates=6", "allocation.check_share=0.1"),
    "allocation.strategies=all_r,joint,t_first",
]
FILES = {
    "allocation": ALLOCATION,
    "allocation_summary": STUDY_SUMMARY,
    "allocation_paired": PAIRED,
    "allocation_reach": REACH,
    "information": INFORMATION,
    "information_prediction": PREDICTION,
}


def write_labels(path: Path, labelled: int = ITEMS) -> None:
    rng = np.random.default_rng(2)
    lines = ["system,question_id,r,a,t"]
    for name, (alpha, tau) in SYSTEMS.items():
        for i in range(ITEMS):
            r = int(rng.random() < 0.5)
            a = int(rng.random() < (0.05 if r else alpha))
            t = "" if a else int(rng.random() < (tau if r else 0.2))
            lines.append(f"{name},q{i},{r if i < labelled else ''},{a},{t if i < labelled else ''}")
    path.write_text("\n".join(lines) + "\n")


def run_here(*arguments: str, cwd: Path) -> str:
    """Run in this process, insist on success, and give what was printed."""
    said, shouted = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(said), contextlib.redirect_stderr(shouted):
        code = main([*arguments, *HERE])
    assert code == 0, f"{arguments} ended with {code}:\n{said.getvalue()[-4000:]}\n{shouted.getvalue()[-4000:]}"
    return said.getvalue()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with labels of two systems and a study of both, and what was printed."""
    folder = tmp_path_factory.mktemp("allocate")
    write_labels(folder / "labels.csv")
    write_labels(folder / "some.csv", labelled=60)
    return folder, run_here("allocate", "data=labels.csv", "by=system", "out=study", *SMALL, cwd=folder)


def test_every_file_has_its_schema_and_every_cell(finished: tuple[Path, str]) -> None:
    out = finished[0] / "study"
    for name, schema in FILES.items():
        check_table(pq.read_table(out / f"{name}.parquet"), schema, name)
    allocation = pq.read_table(out / "allocation.parquet")
    cells = {
        tuple(row.values()) for row in allocation.select(["config", "strategy", "budget", "replicate"]).to_pylist()
    }
    assert len(cells) == 2 * 3 * 3 * 6
    assert pq.read_table(out / "allocation_summary.parquet").equals(summarise(allocation))
    assert set(allocation.column("target").to_pylist()) == {"full_table"}
    pictures = ["allocation.svg", "figures/allocation-careful.svg", "figures/allocation-eager.svg", "information.svg"]
    assert all((out / name).read_text().startswith("<svg") for name in pictures)


def test_run_json_says_what_was_done(finished: tuple[Path, str]) -> None:
    facts = json.loads((finished[0] / "study" / "run.json").read_text())
    assert (facts["kind"], facts["status"], facts["configurations"]) == ("allocate", "complete", ["eager", "careful"])
    check = facts["nuts_check"]
    assert check["fits"] == 2 * 3 * 3 * 6
    assert check["refitted"] > 0
    assert 0 < check["mean_in_sd"] < 0.3
    assert {(one["formula"], one["measure"]) for one in facts["agreement"]} == {
        (formula, measure)
        for formula in ("bits_per_item", "bits_per_cost", "expected_sd")
        for measure in ("rmse", "width")
    }
    assert facts["agreement"][0]["configurations"] == 2
    assert set(facts["files"]) >= {f"{name}.parquet" for name in FILES}


def test_what_is_printed_fits_80_columns(finished: tuple[Path, str]) -> None:
    lines = finished[1].splitlines()
    found = [line for line in lines if line.startswith(("all_r ", "joint ", "t_first "))]
    assert len(found) == 9
    tables = [line for line in lines if not re.match(r"out: |allocation study|\S+ fits|WARNING", line)]
    assert max(map(len, tables)) <= 80, max(tables, key=len)
    assert any("refitted by NUTS" in line for line in lines)
    assert any(re.match(r"allocation study: 108/108 fits, [\d.,]+ fits/s", line) for line in lines)
    assert "mean over 2 configurations" in finished[1]


def test_the_same_command_again_computes_nothing(finished: tuple[Path, str]) -> None:
    folder = finished[0]
    before = everything_under(folder / "study")
    store = everything_under(folder / "rat-store")
    again = run_here("allocate", "data=labels.csv", "by=system", "out=study", *SMALL, cwd=folder)
    assert everything_under(folder / "rat-store") == store
    after = everything_under(folder / "study")
    assert {name for name in after if after[name] != before[name]} == {"run.json"}
    assert set(finished[1].splitlines()) - set(again.splitlines()) == {
        line for line in finished[1].splitlines() if line.startswith("allocation study: ")
    }


def test_one_configuration_alone_has_the_same_rows(finished: tuple[Path, str], tmp_path: Path) -> None:
    shutil.copy(finished[0] / "labels.csv", tmp_path)
    few = [*SMALL, "allocation.configurations=careful", "allocation.strategies=joint", "allocation.budgets=[20]"]
    printed = run_here("allocate", "data=labels.csv", "by=system", "out=one", *few, cwd=tmp_path)
    alone = pq.read_table(tmp_path / "one" / "allocation.parquet")
    key = ("config", "strategy", "budget", "replicate", "quantity")
    both = {tuple(row[n] for n in key): row for row in
            pq.read_table(finished[0] / "study" / "allocation.parquet").to_pylist()}  # fmt: skip
    # Which fits are refitted is drawn by name, too.
    assert all(row == both[tuple(row[n] for n in key)] for row in alone.to_pylist())
    assert not (tmp_path / "one" / "figures").exists()
    assert "P(G=1) (careful)" in printed


def test_where_labels_are_missing_or_the_base_is_small_that_is_said(finished: tuple[Path, str]) -> None:
    few = ["allocation.base=5", "allocation.budgets=[10]", "allocation.replicates=2", "allocation.strategies=joint"]
    printed = run_here("allocate", "data=some.csv", "by=system", "out=some", *few, cwd=finished[0])
    allocation = pq.read_table(finished[0] / "some" / "allocation.parquet")
    assert set(allocation.column("target").to_pylist()) == {"full_table_fit"}
    information = pq.read_table(finished[0] / "some" / "information.parquet").to_pylist()
    assert {(row["items"], row["labels_r"]) for row in information} == {(ITEMS, 60)}
    warnings = [line for line in printed.splitlines() if line.startswith("WARNING: ")]
    assert any("allocation.base=5" in line for line in warnings)
    assert any("60 of 120 items lack labels" in line for line in warnings)
    assert len(warnings) == len(set(warnings)) == 2  # both systems have them: said once


def test_a_simulated_truth_needs_no_labels(tmp_path: Path) -> None:
    few = ["allocation.base=20", "allocation.budgets=[20]", "allocation.replicates=3", "simulation.items=200"]
    few += ["allocation.strategies=all_r,joint", "allocation.configurations=gemma3_12b"]
    run_here("allocate", "simulation=paper", *few, cwd=tmp_path)
    out = tmp_path / "rat-allocation"
    allocation = pq.read_table(out / "allocation.parquet")
    assert set(allocation.column("target").to_pylist()) == {"truth"}
    bits = pq.read_table(out / "information.parquet").to_pylist()
    assert len(bits) == 5
    assert {row["config"] for row in bits} == set(allocation.column("config").to_pylist()) == {"gemma3_12b"}
    assert all(row["mean"] is not None and row["sd"] is None for row in bits)


def test_what_a_finished_run_trusted_is_the_truth(tmp_path: Path) -> None:
    """Its columns r and t keep the labels of a budget only; the trusted sources have them all."""
    out = OutFolder(tmp_path / "run", {}, "evaluate")
    out.claim()
    annotations = planted(150)
    write_dataset(out, "annotations", {name: lambda: iter([annotations]) for name in ("one", "two")})
    out.finish({"trusted": TRUSTED})
    few = ["allocation.base=20", "allocation.budgets=[20]", "allocation.replicates=2", "allocation.strategies=joint"]
    run_here("allocate", "run=run", "out=study", "allocation.configurations=two", *few, cwd=tmp_path)
    allocation = pq.read_table(tmp_path / "study" / "allocation.parquet").to_pylist()
    assert {row["config"] for row in allocation} == {"two"}
    assert {row["target"] for row in allocation} == {"full_table"}
    truth = np.mean(annotations.column("r@evidence").to_numpy())
    targets = {row["target_value"] for row in allocation if row["quantity"] == "rho"}
    assert list(targets) == [pytest.approx(truth)]
    answered = 150 - int(np.sum(annotations.column("a@phrase").to_numpy()))
    information = pq.read_table(tmp_path / "study" / "information.parquet").to_pylist()
    assert {(row["labels_r"], row["labels_t"]) for row in information} == {(150, answered)}
    facts = json.loads((tmp_path / "study" / "run.json").read_text())
    assert facts["trusted"] == TRUSTED
    assert facts["run"] == str(tmp_path / "run")
    (tmp_path / "run" / "annotations").rename(tmp_path / "elsewhere")
    assert "no annotations/ in it" in refuse_here("allocate", "run=run", *HERE, cwd=tmp_path)


def test_judges_are_studied_where_that_is_asked_for(finished: tuple[Path, str], tmp_path: Path) -> None:
    head, *rows = (finished[0] / "labels.csv").read_text().splitlines()
    # A judge who is right about T, and says yes to every tenth wrong answer too.
    judged = [
        f"{row},{'' if row.endswith(',') else int(row.endswith('1') or i % 10 == 0)}" for i, row in enumerate(rows)
    ]
    (tmp_path / "labels.csv").write_text("\n".join([f"{head},t@x", *judged]) + "\n")
    few = ["allocation.budgets=[20]", "allocation.replicates=2", "allocation.strategies=joint"]
    few += ["allocation.configurations=eager", "judge_study=small", "judge_study.replicates=2"]
    few += [
        "judge_study.judge_models=[independent]",
        "judge_study.trusted_labels=[20]",
        "judge_study.alone_labels=[40]",
    ]
    printed = run_here("allocate", "data=labels.csv", "by=system", *few, cwd=tmp_path)
    out = tmp_path / "rat-allocation"
    check_table(pq.read_table(out / "judge_study.parquet"), JUDGE_STUDY, "judge study")
    check_table(pq.read_table(out / "judge_summary.parquet"), JUDGE_SUMMARY, "judge summary")
    assert (out / "figures" / "judges-eager.svg").exists()
    assert "t@x" in printed


BY = ["data=labels.csv", "by=system"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give exactly one of data=FILE"),
        (["data=labels.csv", "run=out"], "given: data and run"),
        (["data=labels.csv", "simulation=paper"], "given: data and simulation"),
        (["simulation=papr"], "did you mean 'paper'"),
        ([*BY, "allocation.strategies=all_r,jont"], "did you mean 'joint'"),
        ([*BY, "allocation.strategies=mixed-1.5"], "mixed-1.5"),
        ([*BY, "allocation.strategies=mixed,mixed-0.5"], "one share of mixed occurs twice"),
        ([*BY, "allocation.quantities=pg"], "did you mean 'p_g'"),
        ([*BY, "allocation.configurations=carful"], "did you mean 'careful'"),
        ([*BY, "allocation.configurations=careful,careful"], "occurs twice"),
        ([*BY, "allocation.budgets=[20,1000]"], "1000"),
        ([*BY, "allocation.budgets=[-1]"], "budgets"),
        ([*BY, "allocation.base=121"], "base=121"),
        ([*BY, "allocation.base=0"], "allocation.force=true"),
        ([*BY, "allocation.cost.r=0"], "positive"),
        ([*BY, "allocation.cost.rr=1"], "no setting 'rr'"),
        ([*BY, "allocation.engine=importnace"], "did you mean 'importance'"),
        (["data=labels.csv"], "by="),
        (["data=nothing.csv"], "nothing.csv"),
        (["data=mute.csv"], "answered none"),
        (["data=blank.csv"], "no trusted label"),
        ([*BY, "t_zero=right"], "t_zero"),
        ([*BY, "out="], "out: must be given"),
        ([*BY, "judge_study.enabled=true"], "judge"),
        (["simulation=paper", "judge_study.enabled=true"], "no judges"),
        (["run=nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    finished: tuple[Path, str], tmp_path: Path, arguments: list[str], message: str
) -> None:
    shutil.copy(finished[0] / "labels.csv", tmp_path)
    (tmp_path / "mute.csv").write_text("r,a,t\n" + "1,1,\n0,1,\n" * 30)
    (tmp_path / "blank.csv").write_text("r,a,t\n" + ",1,\n,0,\n" * 30)
    before = everything_under(tmp_path)
    assert message in refuse_here("allocate", *arguments, *HERE, cwd=tmp_path)
    assert everything_under(tmp_path) == before


def test_the_commands_of_the_docs_are_understood(tmp_path: Path) -> None:
    """Each is composed with all its settings; nothing is run."""
    text = (REPOSITORY / "docs" / "allocation.md").read_text()
    found = [shlex.split(line, comments=True) for line in re.findall(r"^rat-ray allocate .*$", text, re.MULTILINE)]
    assert len(found) >= 5
    for _, *words in found:
        run = [*words, "--cfg", "job"]
        with contextlib.chdir(tmp_path), contextlib.redirect_stdout(io.StringIO()):
            assert main(run) == 0, words
