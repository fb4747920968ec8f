"""Keys stay where they are, names stay inside the store, and nothing that users give is run as code."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commandline import command, everything_under, rat_ray
from tests.servers import Access, moto

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
