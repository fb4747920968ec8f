"""A node killed in the stages of real evaluations: index, retrieve, answer, annotate, fit, summarise; same results."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rat_ray import tables
from rat_ray.cluster import Cluster, ClusterSettings
from rat_ray.retrieve.kinds import Bm25Settings, DenseSettings
from rat_ray.store import MANIFEST, RANGES, Store
from tests import ray_nodes
from tests.commandline import command, succeed
from tests.faulty import meanwhile, wait_for
from tests.helpers import read_partitions
from tests.ray_nodes import Running
from tests.retrieval_runs import Sizes, make_lists

pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Running]:
    """A head that takes no work, and two nodes of one worker each."""
    own = {**ray_nodes.HASTY, **ray_nodes.token_of_this_process()}
    with ray_nodes.cluster(nodes=3, cpus=1, head_cpus=0, dashboard=False, **own) as running:
        yield running


@pytest.fixture
def connected(nodes: Running) -> Iterator[Cluster]:
    """This process as a driver on it."""
    import ray

    with Cluster(ClusterSettings(use="always", address=nodes.address)) as cluster:
        cluster.connect()
        yield cluster
    ray.shutdown()


def under_way(store: Path, table: str) -> bool:
    """Whether a table of this kind was begun and is not there yet."""
    begun = {path.parent for path in store.glob(f"{table}/*/{RANGES}")}
    return bool(begun - {path.parent for path in store.glob(f"{table}/*/{MANIFEST}")})


class Killer:
    """Kills a node that is at work in each of these stages in turn, and puts a new one in its place."""

    def __init__(self, nodes: Running, store: Path, kinds: Sequence[str]) -> None:
        self._nodes, self._store, self._kinds = nodes, store, kinds
        self.hit: list[str] = []
        self.over = False  # the stages have ended: there is nothing left to kill

    def __call__(self) -> None:
        for table in self._kinds:
            wait_for(lambda table=table: self.over or self._killed(table), f"work on {table}", 400)  # type: ignore[misc]
            if not self.over:
                self._nodes.add_node()

    def _killed(self, table: str) -> bool:
        at_work = self._nodes.busy() if under_way(self._store, table) else []
        if not at_work:
            return False
        self._nodes.kill_node(at_work[-1])
        self.hit.append(table)
        return True


# --- index and retrieve -------------------------------------------------------------------------------------------

WORDS = ["rain", "river", "stone", "lamp", "harbour", "violin", "glacier", "lemon", "engine", "meadow", "copper"]


def corpus(count: int) -> tuple[pa.Table, pa.Table]:
    """Passages of a few words each, and a question about every hundredth of them."""
    text = [" ".join(WORDS[(index // step) % len(WORDS)] for step in (1, 11, 121)) for index in range(count)]
    passages = pa.table(
        {"passage_id": [f"p{index}" for index in range(count)], "title": [None] * count, "text": text},
        schema=tables.PASSAGES,
    )
    asked = [{"question_id": f"q{index}", "question": text[index]} for index in range(0, count, 100)]
    return passages, pa.Table.from_pylist(asked, schema=tables.QUESTIONS)


@pytest.mark.parametrize(("settings", "step"), [(Bm25Settings(), "tokens"), (DenseSettings(), "vectors")])
def test_a_node_killed_while_indexing_and_while_searching(
    nodes: Running, connected: Cluster, tmp_path: Path, settings: Bm25Settings | DenseSettings, step: str
) -> None:
    count = 20_000
    store, plain = Store(tmp_path / "store"), Store(tmp_path / "undisturbed")
    store.prepare()
    plain.prepare()
    sizes, rows = Sizes(shard=count // 4, range_rows=10), corpus(count)
    killer = Killer(nodes, Path(store.root), [step, "retrievals"])
    with meanwhile(killer):
        try:
            [found] = make_lists(store, connected, sizes, {"one": settings}, ["one"], *rows).values()
        finally:
            killer.over = True
    assert killer.hit == [step, "retrievals"]
    assert found.num_rows == count // 100
    here = Cluster(ClusterSettings(use="never"))
    [undisturbed] = make_lists(plain, here, sizes, {"one": settings}, ["one"], *rows).values()
    assert found.read().equals(undisturbed.read())


# --- fits ---------------------------------------------------------------------------------------------------------

FIT = ["fit", "data=labels.csv", "by=[model]", "out=out", "engine.chains=2", "engine.samples=20000"]


# Seconds, and sums whose last bit depends on how many threads numpy has: Ray gives its workers one per CPU they hold.
LOOSE = ["seconds", "prior_sensitivity", "likelihood_sensitivity"]


def write_labels(folder: Path) -> None:
    folder.mkdir()
    rows = [
        f"q{item},m{model},{item % 2},{item % 3 % 2},{(item + model) % 2 if item % 3 != 1 else ''}"
        for model in range(4)
        for item in range(60)
    ]
    (folder / "labels.csv").write_text("\n".join(["question_id,model,r,a,t", *rows]) + "\n")


def run_on(nodes: Running, arguments: Sequence[str], folder: Path, store: Path, kinds: Sequence[str]) -> list[str]:
    """Run the command on the cluster, killing a node in each of these stages. Gives the stages that were hit."""
    environment = {**nodes.environment, "RAY_ADDRESS": nodes.address}
    job = subprocess.Popen(
        command(*arguments, "cluster.use=always"),
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    killer = Killer(nodes, store, kinds)
    with meanwhile(killer):
        out, _ = job.communicate(timeout=900)
        killer.over = True
    assert job.returncode == 0, out[-4000:]
    return killer.hit


def test_a_node_killed_in_a_fit(nodes: Running, tmp_path: Path) -> None:
    for name in ("killed", "undisturbed"):
        write_labels(tmp_path / name)
    folder = tmp_path / "killed"
    assert run_on(nodes, FIT, folder, folder / "out" / ".store", ["posterior"]) == ["posterior"]
    succeed(*FIT, cwd=tmp_path / "undisturbed")
    killed, whole = (
        pq.read_table(tmp_path / name / "out" / "summary.parquet").drop_columns(LOOSE)
        for name in ("killed", "undisturbed")
    )
    assert killed.equals(whole)


# --- an evaluation with the language model ------------------------------------------------------------------------

EVALUATE = [
    "evaluate",
    "dataset=demo",
    "dataset.limit=12",
    "retriever=bm25",
    "generator=gemma3_270m_eager",
    "judge=none",
    "resources.generate.range_rows=2",
    "resources.generate.num_cpus=1",
    "engine.chains=2",
    "engine.samples=20000",
    "out=out",
    "store=store",
]


@pytest.mark.model
def test_a_node_killed_in_each_stage_of_an_evaluation(nodes: Running, tmp_path: Path) -> None:
    for name in ("killed", "undisturbed"):
        (tmp_path / name).mkdir()
    kinds = ["tokens", "retrievals", "answers", "posterior"]
    folder = tmp_path / "killed"
    assert run_on(nodes, EVALUATE, folder, folder / "store", kinds) == kinds
    succeed(*EVALUATE, cwd=tmp_path / "undisturbed")
    [killed], [whole] = (
        list(read_partitions(tmp_path / name / "out" / "annotations").values()) for name in ("killed", "undisturbed")
    )
    assert killed.num_rows == whole.num_rows == 12
    for column in ("question_id", "r", "error"):
        assert killed.column(column).to_pylist() == whole.column(column).to_pylist()
