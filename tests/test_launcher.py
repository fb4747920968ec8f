"""`-m` through our launcher: all jobs in one driver, a failing one stops no other, and folders never collide."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.commandline import command, rat_ray, refuse, succeed

GOOD = "question_id,r,a,t\nq1,1,0,1\nq2,1,0,0\nq3,0,1,\nq4,0,0,0\nq5,1,1,\nq6,,0,1\nq7,1,0,\nq8,0,0,1\n"
QUICK = ["engine.chains=2", "engine.warmup=200", "engine.samples=200"]


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    (tmp_path / "labels.csv").write_text(GOOD)
    return tmp_path


def run_of(folder: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads((folder / "run.json").read_text())
    return content


def configs(folder: Path) -> set[str]:
    return set(pc.unique(pq.read_table(folder / "summary.parquet").column("config")).to_pylist())


def finished(folder: Path) -> set[str]:
    return {path.parent.name for path in folder.glob("*/summary.parquet")}


def test_a_job_that_is_refused_stops_no_other(labels: Path) -> None:
    done = rat_ray("fit", "-m", "data=labels.csv,none.csv", "prior=uniform,jeffreys", *QUICK, "out=out", cwd=labels)
    assert done.returncode == 2, "all that failed was bad input, found before any work"
    names = {f"run-data_labels.csv-prior_{prior}" for prior in ("uniform", "jeffreys")}
    assert finished(labels / "out") == configs(labels / "out") == names
    assert "2 of 4 configurations failed:" in done.stdout
    assert "  data=none.csv, prior=jeffreys: none.csv: there is no such file" in done.stdout
    said = done.stderr.splitlines()
    assert said[0].startswith("refused, the other jobs go on: data=none.csv, prior=uniform: none.csv: there is no such")
    assert said[-1].startswith("error: 2 of 4 configurations failed, the first is data=none.csv, prior=uniform: ")
    assert "Traceback" not in done.stderr
    assert set(run_of(labels / "out")["failed"]) == {f"data=none.csv, prior={p}" for p in ("uniform", "jeffreys")}  # type: ignore[call-overload]
    # What the jobs share is made once: the count does not depend on the prior.
    counts = list((labels / "out" / ".store" / "patterns").glob("*/manifest.json"))
    assert len(counts) == 1
    assert len(list((labels / "out" / ".store" / "posterior").glob("*/manifest.json"))) == 2
    # Nothing of Hydra's own in the user's folder.
    assert {path.name for path in labels.iterdir()} == {"labels.csv", "out"}
    assert not [path for path in labels.rglob("*") if path.name in (".hydra", "multirun.yaml", "multirun", "outputs")]


def test_folders_never_collide_whatever_is_swept(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 150) / ("y" * 150)
    names = ["with space.csv", "a,b.csv", "a-b.csv", f"{long.relative_to(tmp_path)}/one.csv"]
    names.append(names[-1].replace("one.csv", "two.csv"))
    long.mkdir(parents=True)
    (tmp_path / "sub").mkdir()
    names.append("sub/a-b.csv")
    for name in names:
        (tmp_path / name).write_text(GOOD)
    swept = ",".join(f"'{name}'" for name in names)
    succeed("fit", "-m", f"data={swept}", *QUICK, "out=out", cwd=tmp_path)
    found = finished(tmp_path / "out")
    assert len(found) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,140}", name) for name in found)
    assert {run_of(tmp_path / "out" / name)["settings"]["data"] for name in found} == set(names)  # type: ignore[index]


def test_two_launches_at_the_same_time_do_not_meet(labels: Path) -> None:
    swept = ("seed=1,2", "seed=3,4")
    running = [
        subprocess.Popen(
            command("fit", "-m", "data=labels.csv", seeds, *QUICK, "out=out"),
            cwd=labels,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for seeds in swept
    ]
    printed = [process.communicate(timeout=300)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0], "\n".join(printed)
    assert finished(labels / "out") == {f"run-seed_{seed}" for seed in range(1, 5)}
    for seed in range(1, 5):
        facts = run_of(labels / "out" / f"run-seed_{seed}")
        assert facts["status"] == "complete"
        assert facts["seed"] == seed


def test_what_cannot_be_told_apart_is_refused_before_any_work(labels: Path) -> None:
    said = refuse("fit", "-m", "data=labels.csv", "seed=1,1", "out=out", cwd=labels)
    assert "2 jobs of this sweep would write to" in said
    assert {path.name for path in labels.iterdir()} == {"labels.csv"}


def test_a_misspelt_choice_in_a_sweep_is_refused_before_any_work(labels: Path) -> None:
    said = refuse("fit", "-m", "data=labels.csv", "prior=unifrm,jeffreys", "out=out", cwd=labels)
    assert said == "error: prior=unifrm: no such choice (did you mean 'uniform'?)\n"
    assert {path.name for path in labels.iterdir()} == {"labels.csv"}


def test_another_launcher_works_too(labels: Path) -> None:
    sweep = ["-m", "data=labels.csv,none.csv", "hydra/launcher=basic", *QUICK, "out=out"]
    done = rat_ray("fit", *sweep, cwd=labels)
    assert done.returncode == 2
    assert finished(labels / "out") == {"run-data_labels.csv"}
    assert "  data=none.csv: none.csv: there is no such file" in done.stdout


def test_a_dry_run_of_a_sweep_is_one_graph(tmp_path: Path) -> None:
    swept = ["retriever=bm25,hybrid", "generator=gemma3_270m_policy,gemma3_270m_eager", "seed=1,2"]
    printed = succeed("evaluate", "-m", *swept, "dry_run=true", cwd=tmp_path)
    rows = {line.split()[0]: line.split()[1:] for line in printed.splitlines() if line}
    assert rows["import"][:2] == ["16", "2"]
    assert rows["index"][:2] == ["28", "4"], "BM25 in three steps, dense in one"
    assert rows["fuse"][:2] == ["4", "1"]
    assert rows["answer"][:2] == ["8", "4"], "the seed is that of the fits"
    assert rows["fit"][:2] == ["8", "8"]
    assert not list(tmp_path.iterdir())


NO_RAY = """
import sys
from rat_ray.cli import main
code = main(sys.argv[1:])
print("ray" in sys.modules)
sys.exit(code)
"""


@pytest.mark.slow
@pytest.mark.ray
def test_a_finished_sweep_run_again_starts_no_ray(labels: Path) -> None:
    arguments = ["fit", "-m", "data=labels.csv", "seed=1,2", "out=out", "cluster.use=always", *QUICK]
    succeed(*arguments, cwd=labels)
    done = subprocess.run(
        [sys.executable, "-c", NO_RAY, *arguments], cwd=labels, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "False", "Ray was not even imported"
    manifests = [json.loads(path.read_text()) for path in (labels / "out").glob(".store/posterior/*/manifest.json")]
    assert sorted(manifest["seed"] for manifest in manifests) == [1, 2]
    assert {manifest["settings"]["seed"] == manifest["seed"] for manifest in manifests} == {True}
