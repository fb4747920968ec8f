"""`ray job submit`: what Ray packs of a checkout, and jobs on a real head node that asks for a token."""

from __future__ import annotations

import json
import logging
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from ray._private.ray_constants import get_runtime_env_default_excludes
from ray._private.runtime_env.packaging import create_package

from rat_ray import commands
from rat_ray.cli import main
from tests import ray_nodes
from tests.commandline import everything_under
from tests.ray_nodes import RAY, Running

REPOSITORY = Path(__file__).resolve().parents[1]
LIMIT = 10 * 2**20
DOCUMENTS = ("README.md", "docs/cluster.md")


def packed(folder: Path, target: Path, excludes: list[str]) -> set[str]:
    """Write the package that Ray would upload for this working directory, and give the files in it."""
    create_package(
        str(folder), target, include_gitignore=True, excludes=excludes, logger=logging.getLogger("packaging")
    )
    with zipfile.ZipFile(target) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


# Older versions of Ray leave nothing out on their own.
@pytest.mark.parametrize("excludes", [get_runtime_env_default_excludes(), []], ids=["this-ray", "no-defaults"])
def test_this_checkout_is_small(excludes: list[str], tmp_path: Path) -> None:
    names = packed(REPOSITORY, tmp_path / "package.zip", excludes)
    assert (tmp_path / "package.zip").stat().st_size < LIMIT
    for needed in ("rat_ray/cli.py", "conf/evaluate.yaml", "stan/rat.stan", "jobs/evaluate.py"):
        assert needed in names
    assert not any(re.match(r"\.git/|\.venv/|tests/|docs/|rat-out/|rat-store/", name) for name in names)


def test_results_environments_and_history_stay_behind(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    for name in ("rat_ray", "conf", "stan", "jobs"):
        shutil.copytree(REPOSITORY / name, checkout / name)
    for name in (".gitignore", ".rayignore"):
        shutil.copy(REPOSITORY / name, checkout / name)
    heavy = [
        ".git/objects/pack/pack-1.pack",
        ".venv/lib/libray.so",
        "rat-out/quickstart/report.html",
        "rat-store/answers/part.parquet",
        "build/validation/sbc.jsonl",
        "multirun/one/x.parquet",
        "outputs/x.parquet",
        "results/x.parquet",
        "tests/reference/x.parquet",
        "rat_ray/__pycache__/cli.pyc",
        "model.gguf",
    ]
    own = ["labels.csv", "my_conf/generator/mine.yaml", "my_folder/docs/corpus.jsonl"]
    for name in [*heavy, *own]:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_bytes(secrets.token_bytes(2**20 if name in heavy else 100))
    names = packed(checkout, tmp_path / "package.zip", [])
    assert names.isdisjoint(heavy)
    assert set(own) <= names
    assert (tmp_path / "package.zip").stat().st_size < LIMIT // 4


def test_a_package_runs_by_itself(tmp_path: Path) -> None:
    """As on a node: its own rat_ray before an installed one, its own conf/."""
    packed(REPOSITORY, tmp_path / "package.zip", [])
    with zipfile.ZipFile(tmp_path / "package.zip") as archive:
        archive.extractall(tmp_path / "job")
    done = subprocess.run(
        [sys.executable, "jobs/evaluate.py", "experiment=quickstart", "--cfg", "job"],
        cwd=tmp_path / "job",
        env={"PYTHONPATH": str(tmp_path / "job"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "out: rat-out/quickstart" in done.stdout


def test_every_command_that_takes_long_has_an_entry_point() -> None:
    names = {path.stem for path in (REPOSITORY / "jobs").glob("*.py")}
    assert names == {"allocate", "compare", "evaluate", "fit", "report"}
    assert names <= set(commands.COMMANDS)
    for path in (REPOSITORY / "jobs").glob("*.py"):
        assert f'["{path.stem}", *sys.argv[1:]]' in path.read_text()


def submitted(text: str) -> Iterator[list[str]]:
    """The entry points of the `ray job submit` commands in a document's shell blocks."""
    for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:3] == ["ray", "job", "submit"]:
                yield words[words.index("--") + 1 :]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documented_jobs_are_valid_commands(document: str, capsys: pytest.CaptureFixture[str]) -> None:
    entries = list(submitted((REPOSITORY / document).read_text()))
    assert entries
    for program, *arguments in entries:
        if program == "python":
            script, *arguments = arguments
            assert (REPOSITORY / script).is_file()
            arguments = [Path(script).stem, *arguments]
        else:
            assert program == "rat-ray"
        assert main([*arguments, "--cfg", "job"]) == 0, capsys.readouterr().err
        assert arguments[1:]


# On a head node


class Jobs:
    """Jobs from this checkout on a running cluster."""

    def __init__(self, running: Running) -> None:
        self.running = running

    def ray_job(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.running.run(RAY, "job", verb, "--address", self.running.dashboard, *arguments, cwd=REPOSITORY)

    def submit(self, *entry: str, wait: bool = True) -> tuple[str, subprocess.CompletedProcess[str]]:
        """(its id, what `ray job submit` printed). wait: until it has ended, its log printed along."""
        name = f"rat-{uuid.uuid4().hex[:8]}"
        options = ["--submission-id", name, "--working-dir", ".", *([] if wait else ["--no-wait"])]
        return name, self.ray_job("submit", *options, "--", *entry)

    def facts(self, name: str) -> dict[str, Any]:
        """What the dashboard knows of a job: status, driver_exit_code, …"""
        token = self.running.environment["RAY_AUTH_TOKEN"]
        headers = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"{self.running.dashboard}/api/jobs/{name}", headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            facts: dict[str, Any] = json.load(answer)
            return facts

    def wait_for(self, name: str, *statuses: str) -> None:
        limit = time.monotonic() + 120
        while (status := self.facts(name)["status"]) not in statuses:
            assert time.monotonic() < limit, f"{name} is {status}"
            time.sleep(0.5)


def _plain(done: subprocess.CompletedProcess[str]) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)


@pytest.fixture(scope="module")
def jobs() -> Iterator[Jobs]:
    token = secrets.token_hex(32)
    with ray_nodes.cluster(nodes=1, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token) as running:
        yield Jobs(running)


def write_labels(folder: Path, groups: int) -> Path:
    rows = [f"q{item},g{group},{item % 2},{item % 3 % 2},1" for group in range(groups) for item in range(60)]
    path = folder / "labels.csv"
    path.write_text("\n".join(["question_id,model,r,a,t", *(row.replace(",1,1", ",1,") for row in rows)]) + "\n")
    return path


@pytest.mark.ray
@pytest.mark.slow
def test_a_job_writes_its_log_and_its_exit_code_counts(jobs: Jobs, tmp_path: Path) -> None:
    data = write_labels(tmp_path, groups=2)
    entry = [sys.executable, "jobs/fit.py", "by=model", "engine.chains=2", "engine.samples=200", "cluster.use=always"]
    name, done = jobs.submit(*entry, f"data={data}", f"out={tmp_path / 'out'}")
    assert done.returncode == 0, _plain(done)
    assert jobs.facts(name)["status"] == "SUCCEEDED"
    assert "P(G=1)" in jobs.ray_job("logs", name).stdout
    assert set(pq.read_table(tmp_path / "out" / "summary.parquet").column("config").to_pylist()) == {"g0", "g1"}

    name, done = jobs.submit(*entry, f"dta={data}")
    assert done.returncode != 0
    assert (jobs.facts(name)["status"], jobs.facts(name)["driver_exit_code"]) == ("FAILED", 2)
    assert "did you mean 'data'" in jobs.ray_job("logs", name).stdout


@pytest.mark.ray
def test_a_job_without_the_token_is_refused(jobs: Jobs, tmp_path: Path) -> None:
    environment = {**jobs.running.environment, "HOME": str(tmp_path), "RAY_AUTH_MODE": "disabled"}
    del environment["RAY_AUTH_TOKEN"]
    stranger = Jobs(jobs.running._replace(environment=environment))
    name, done = stranger.submit(sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert done.returncode != 0
    with pytest.raises(urllib.error.HTTPError, match="404"):
        jobs.facts(name)
    assert not (tmp_path / "ran").exists()


@pytest.mark.ray
@pytest.mark.slow
def test_a_stopped_job_goes_on_where_it_was(jobs: Jobs, tmp_path: Path) -> None:
    groups = 24
    data, out = write_labels(tmp_path, groups), tmp_path / "out"
    entry = [sys.executable, "jobs/fit.py", "by=model", "engine.samples=2000", "cluster.use=always"]
    entry += [f"data={data}", f"out={out}"]

    def parts() -> dict[str, tuple[int, int]]:
        return {
            name: facts
            for name, facts in (everything_under(out) if out.exists() else {}).items()
            if name.startswith(".store/posterior/") and name.endswith(".parquet")
        }

    stopped, _ = jobs.submit(*entry, wait=False)
    limit = time.monotonic() + 120
    while len(parts()) < 2:
        assert time.monotonic() < limit, jobs.ray_job("logs", stopped).stdout
        time.sleep(0.1)
    assert jobs.ray_job("stop", stopped).returncode == 0
    jobs.wait_for(stopped, "STOPPED")
    left = parts()
    assert 2 <= len(left) < groups
    assert not (out / "summary.parquet").exists()

    again, done = jobs.submit(*entry)
    assert done.returncode == 0, _plain(done)
    assert jobs.facts(again)["status"] == "SUCCEEDED"
    now = parts()
    assert {name: now[name] for name in left} == left  # reused as they were
    assert len(set(pq.read_table(out / "summary.parquet").column("config").to_pylist())) == groups
