"""Keys stay where they are, names stay inside the store, and nothing that users give is run as code."""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from rat_ray.errors import masked
from tests.commandline import command, everything_under, rat_ray, refuse_here
from tests.servers import REGION, Access, free_port, moto

PACKAGE = Path(__file__).resolve().parents[1] / "rat_ray"
PLANTED = "PLANTEDsecretKEYthatMUSTnotAPPEAR0123456"
ROWS = ["q1,A,1,0,1", "q2,A,0,1,", "q3,A,1,0,0", "q1,B,1,0,1", "q2,B,,0,1", "q3,B,0,0,0"]
FIT = ["data=labels.csv", "by=model", "engine.chains=2", "engine.samples=200"]


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    (tmp_path / "labels.csv").write_text("\n".join(["question_id,model,r,a,t", *ROWS]) + "\n")
    return tmp_path


def calls(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)
        elif isinstance(node, ast.Import):
            yield from (f"import {name.name}" for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield f"import {node.module}"
        elif isinstance(node, ast.keyword) and node.arg == "shell":
            yield "shell="


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_nothing_is_evaluated_unpickled_or_given_to_a_shell(path: Path) -> None:
    forbidden = {"eval", "exec", "__import__", "os.system", "os.popen", "shell=", "yaml.load", "yaml.unsafe_load"}
    forbidden |= {"import pickle", "import marshal", "import shelve", "import dill", "import cloudpickle"}
    forbidden |= {"jinja2.Environment", "Environment", "np.load", "numpy.load"}
    assert not forbidden & set(calls(ast.parse(path.read_text())))


def test_the_search_for_forbidden_calls_finds_them() -> None:
    source = "import pickle\nfrom marshal import loads\neval('1')\nsubprocess.run('x', shell=True)"
    assert {"import pickle", "import marshal", "eval", "shell="} <= set(calls(ast.parse(source)))


@pytest.mark.parametrize("name", ["../../escaped", "/escaped"])
def test_a_configuration_named_like_a_path_stays_inside(labels: Path, name: str) -> None:
    inner = labels / "deep" / "inner"
    inner.mkdir(parents=True)
    text = (labels / "labels.csv").read_text().replace(",A,", f",{name},")
    (inner / "labels.csv").write_text(text)
    rat_ray("fit", *FIT, "cluster.use=never", "out=out", cwd=inner)
    outside = {one for one in everything_under(labels) if not one.startswith("deep/inner/")}
    assert outside == {"labels.csv"}
    assert not [one for one in everything_under(inner) if "escaped" in one and not one.startswith("out/")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    with moto(tmp_path_factory.mktemp("moto")) as access:
        access.client().create_bucket(Bucket="results")
        yield access


class CommandLines(threading.Thread):
    """Looks at the command line of every process until it is stopped."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: set[str] = set()
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.wait(0.05):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.seen.add(path.read_text(errors="replace"))
                except OSError:
                    continue


@pytest.mark.ray
def test_a_planted_key_appears_nowhere(server: Access, labels: Path) -> None:
    ray_folder = Path("/tmp") / f"rat-{uuid.uuid4().hex[:8]}"
    environment = {**os.environ, **server.environment(), "AWS_SECRET_ACCESS_KEY": PLANTED}
    environment["RAY_TMPDIR"] = str(ray_folder)
    environment.pop("RAY_ADDRESS", None)
    watched = CommandLines()
    watched.start()
    arguments = [*FIT, "cluster.use=always", "out=s3://results/planted", "storage=s3", *server.overrides()]
    try:
        done = subprocess.run(
            command("fit", *arguments), cwd=labels, env=environment, capture_output=True, text=True, timeout=300
        )
        watched.stopped.set()
        assert done.returncode == 0, done.stdout + done.stderr
        assert PLANTED not in done.stdout + done.stderr
        assert len(watched.seen) > 3
        assert not [line for line in watched.seen if PLANTED in line]
        logs = [path for path in ray_folder.rglob("*") if path.is_file()]
        assert logs
        assert not [path for path in logs if PLANTED.encode() in path.read_bytes()]
        client = server.client()
        names = [one["Key"] for one in client.list_objects_v2(Bucket="results", Prefix="planted/")["Contents"]]
        assert any(name.endswith("manifest.json") for name in names)
        for name in names:
            assert PLANTED.encode() not in client.get_object(Bucket="results", Key=name)["Body"].read(), name
    finally:
        watched.stopped.set()
        shutil.rmtree(ray_folder, ignore_errors=True)


@pytest.mark.parametrize("store", ["s3://key:PLANTED@results/x", "s3://results/../x", "gs://results/x"])
def test_an_address_that_is_none_is_refused_and_holds_no_key(labels: Path, store: str) -> None:
    done = rat_ray("fit", *FIT, f"out={store}", cwd=labels)
    assert done.returncode == 2, done.stdout + done.stderr
    assert re.search(r"^error: ", done.stderr)
    assert "PLANTED" not in done.stderr.replace(store, "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://AK:PLANTED@b/x.csv", "s3://***@b/x.csv"),
        (r"s3\://AK\:PLANTED@b/x.csv", r"s3\://***@b/x.csv"),
        ("['data=s3://AK:PLAN/TED@b/x', 'ray://PLANTED@h:1']", "['data=s3://***@b/x', 'ray://***@h:1']"),
        ("s3://b/user@x: http://127.0.0.1:9000/a@b", "s3://b/user@x: http://127.0.0.1:9000/a@b"),
    ],
)
def test_what_stands_before_the_host_is_masked(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "data=s3://AK:PLANTED@b/x.csv", "out=o"],
        ["fit", "data=s3://AK:PLAN/TEDPLANTED@b/x.csv", "out=o"],
        ["fit", "-m", "data=s3://AK:PLANTED@b/x.csv,s3://AK:PLANTED@b/y.csv", "hydra/launcher=basic", "out=o"],
        ["fit", "-m", r"data=s3\://AK\:PLANTED@b/x.csv,none.csv", "out=o"],
        ["fit", *FIT, "cluster.use=always", "cluster.address=ray://u:PLANTED@127.0.0.1:1", "out=o"],
        ["evaluate", "dataset=files", "dataset.path=s3://AK:PLANTED@b/x", "out=o"],
        ["report", "run=s3://AK:PLANTED@b/x"],
    ],
)
def test_refusals_repeat_no_credentials(
    labels: Path, arguments: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    assert "PLANTED" not in refuse_here(*arguments, cwd=labels)
    printed = capfd.readouterr()
    assert "PLANTED" not in printed.out + printed.err
    for path in labels.rglob("*"):
        assert "PLANTED" not in str(path)
        assert not path.is_file() or b"PLANTED" not in path.read_bytes(), path


def test_a_sweep_with_a_refused_job_writes_no_credentials(labels: Path) -> None:
    swept = "data=labels.csv,s3://AK:PLANTED@b/x.csv"
    done = rat_ray("fit", "-m", *FIT[1:], swept, "cluster.use=never", "out=o", cwd=labels)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "://***@b/x.csv" in done.stdout + done.stderr
    assert "://***@b/x.csv" in (labels / "o" / "run.json").read_text()
    assert "PLANTED" not in done.stdout + done.stderr
    assert not [path for path in labels.rglob("*") if path.is_file() and b"PLANTED" in path.read_bytes()]


def test_an_endpoint_of_the_environment_holds_no_credentials(labels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://u:PLANTED@127.0.0.1:{free_port()}")
    said = refuse_here("fit", *FIT, "out=s3://results/x", "storage=s3", f"storage.region={REGION}", cwd=labels)
    assert "AWS_ENDPOINT_URL_S3" in said
    assert "PLANTED" not in said


@pytest.mark.parametrize("arguments", [["report", "run="], ["compare", "out=o", "run="], ["fit", "out=o", "data="]])
def test_a_place_to_read_that_cannot_be_reached_is_bad_input(
    server: Access, labels: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    *before, last = arguments
    nothing = [f"storage.endpoint=http://127.0.0.1:{free_port()}", f"storage.region={REGION}", "storage.patience=0.5"]
    assert "no connection" in refuse_here(*before, f"{last}s3://results/x/y.csv", *nothing, cwd=labels)
    assert "there is no bucket" in refuse_here(*before, f"{last}s3://nowhere/x/y.csv", *server.overrides(), cwd=labels)
    for name in server.environment():
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(labels / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(labels / "none"))
    assert "no credentials" in refuse_here(*before, f"{last}s3://results/z/y.csv", *server.overrides(), cwd=labels)


CONNECTED = """
import sys
from rat_ray import cli, cluster
connect = cluster.Cluster.connect
def told(self):
    connect(self)
    print("connected", flush=True)
cluster.Cluster.connect = told
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.ray
def test_sigterm_while_ray_runs_ends_the_job_in_order(labels: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    long = ["fit", *FIT[:2], "engine.samples=200000", "cluster.use=always", "cluster.cpus=1", "out=out"]
    with subprocess.Popen(
        [sys.executable, "-c", CONNECTED, *long],
        cwd=labels, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as job:  # fmt: skip
        assert job.stdout is not None
        try:
            assert any(line == "connected\n" for line in job.stdout), job.stderr and job.stderr.read()
            job.send_signal(signal.SIGTERM)
            _, shouted = job.communicate(timeout=120)
        finally:
            job.kill()
    assert job.returncode == 128 + signal.SIGTERM, shouted
    assert "SIGTERM" not in shouted
    assert "Traceback" not in shouted
