"""From passages and questions to lists in a real store: shards, groups of shards, fusions of fusions; and Ray nodes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rat_ray import tables
from rat_ray.cluster import Cluster, ClusterSettings
from rat_ray.datasets import DemoSettings, load
from rat_ray.graph import Graph, Walk
from rat_ray.retrieval_stages import RetrievalStages
from rat_ray.retrieve.dense_settings import IvfPqSettings
from rat_ray.retrieve.kinds import Bm25Settings, DenseSettings, HybridSettings
from rat_ray.retrieve.measures import recall_in_words
from rat_ray.stage import Runs, import_rows
from rat_ray.store import Store, Table
from tests import ray_nodes
from tests.faulty import meanwhile
from tests.retrieval_runs import Sizes, make_lists

RETRIEVERS: dict[str, Any] = {
    "bm25": Bm25Settings(depth=20),
    "dense": DenseSettings(depth=20),
    "hybrid": HybridSettings(of=["bm25", "dense"], depth=20),
    "again": HybridSettings(of=["hybrid", "bm25"], depth=10),
}


def lists(store: Store, cluster: Cluster, sizes: Sizes, names: list[str]) -> dict[str, Table]:
    """The lists of these retrievers over the demo."""
    demo = load(DemoSettings())
    passages = pa.concat_tables(list(demo.passages()))
    return make_lists(store, cluster, sizes, RETRIEVERS, names, passages, demo.questions())


@pytest.fixture
def here() -> Cluster:
    return Cluster(ClusterSettings(use="never"))


@pytest.mark.parametrize(
    "sizes", [Sizes(shard=64), Sizes(shard=37, search_groups=3), Sizes(shard=128, search_groups=7, range_rows=33)]
)
def test_sharded_is_unsharded(tmp_path: Path, here: Cluster, sizes: Sizes) -> None:
    """In shards, and in more groups than there are shards: the same ids in the same order, scores within 1e-5."""
    names = list(RETRIEVERS)
    found = []
    for place, one in enumerate((Sizes(), sizes)):
        store = Store(tmp_path / str(place))
        store.prepare()
        found.append({name: table.read() for name, table in lists(store, here, one, names).items()})
    whole, sharded = found
    for name in names:
        assert sharded[name].column("question_id").equals(whole[name].column("question_id"))
        assert sharded[name].column("passage_ids").to_pylist() == whole[name].column("passage_ids").to_pylist(), name
        pairs = zip(sharded[name]["scores"].to_pylist(), whole[name]["scores"].to_pylist(), strict=True)
        assert all(one == pytest.approx(other, abs=1e-5) for one, other in pairs), name
    assert whole["bm25"].column("error").null_count == whole["bm25"].num_rows > 100


def test_what_was_made_in_other_groups_serves_again(store: Store, here: Cluster) -> None:
    """Lists are keyed by what they hold: what follows them is not made again for another number of groups."""
    one = lists(store, here, Sizes(shard=64), ["bm25"])["bm25"]
    other = lists(store, here, Sizes(shard=64, search_groups=2), ["bm25"])["bm25"]
    assert one.digest == other.digest
    assert len({table.key for table in (one, other)}) == 2
    steps = [path for name in ("tokens", "index") for path in Path(store.root, name).iterdir()]
    assert len(steps) == 2, "the index does not depend on the groups"


def test_an_index_of_another_corpus_is_another_index(store: Store, here: Cluster) -> None:
    graph = Graph()
    rows = pa.table({"passage_id": ["a"], "title": ["t"], "text": ["river"]}, schema=tables.PASSAGES)
    asked = load(DemoSettings()).questions().slice(0, 2)
    found = []
    for text in ("river", "bridge"):
        changed = rows.set_column(2, tables.PASSAGES.field("text"), pa.array([text]))
        passages = graph.give(import_rows(store, "passages", text, changed))
        questions = graph.give(import_rows(store, "questions", "two", asked))
        stages = RetrievalStages(graph, RETRIEVERS, Sizes(), lambda _, p=passages: p, lambda _, q=questions: q)
        found.append(stages.lists(text, "bm25"))
    walk = Walk(graph)
    walk.run(Runs(store, here, quiet=True), lambda level, stages: True)
    tables_found = [walk.tables[node] for node in found]
    assert tables_found[0].key != tables_found[1].key
    assert tables_found[0].manifest["inputs"]["index"]["key"] != tables_found[1].manifest["inputs"]["index"]["key"]


@pytest.mark.ray
@pytest.mark.slow
def test_two_nodes_give_the_table_of_one(tmp_path: Path, here: Cluster) -> None:
    """Two Ray nodes on this machine, shards in two groups, against a plain loop in this process."""
    import ray

    names = list(RETRIEVERS)
    one = Store(tmp_path / "one")
    two = Store(tmp_path / "two")
    for store in (one, two):
        store.prepare()
    expected = {name: table.read() for name, table in lists(one, here, Sizes(), names).items()}
    sizes = Sizes(shard=64, search_groups=2, range_rows=16)
    own = ray_nodes.token_of_this_process()
    with (
        ray_nodes.cluster(nodes=3, cpus=1, head_cpus=0, dashboard=False, **own) as nodes,
        Cluster(ClusterSettings(use="always", address=nodes.address)) as cluster,
    ):
        cluster.connect()
        at_work: set[str] = set()
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.05):
                at_work.update(nodes.busy())

        with meanwhile(watch):
            try:
                found = lists(two, cluster, sizes, names)
            finally:
                done.set()
        ray.shutdown()
    assert len(at_work) == 2, "both nodes worked"
    for name in names:
        got, want = found[name].read(), expected[name]
        assert got.column("passage_ids").equals(want.column("passage_ids")), name
        pairs = zip(got["scores"].to_pylist(), want["scores"].to_pylist(), strict=True)
        assert all(a == pytest.approx(b, abs=1e-5) for a, b in pairs), name


def test_an_approximate_index_is_held_against_the_exact_lists(store: Store, here: Cluster) -> None:
    demo = load(DemoSettings())
    retrievers = {
        "pq": DenseSettings(index="ivfpq", depth=20, ivfpq=IvfPqSettings(nprobe=1)),
        "bm25": Bm25Settings(depth=20),
        "hybrid": HybridSettings(of=["bm25", "pq"]),
    }
    graph = Graph()
    passages = import_rows(store, "passages", "passages", pa.concat_tables(list(demo.passages())))
    over, asked = graph.give(passages), graph.give(import_rows(store, "questions", "questions", demo.questions()))
    stages = RetrievalStages(graph, retrievers, Sizes(shard=100), lambda _: over, lambda _: asked)
    assert stages.recalls("demo", "bm25") == {}
    [(name, node)] = stages.recalls("demo", "hybrid").items()
    assert name == "pq"
    walk = Walk(graph)
    walk.run(Runs(store, here, quiet=True), lambda level, found: True)
    assert not walk.failures, walk.failures
    first, second = walk.tables[node].read().to_pylist()
    assert 0 < first["recall"] < 1, "one of its lists is looked into"
    assert second["recall"] is None, "it lists 20"
    assert first["vectors"] == passages.num_rows
    sentence = recall_in_words(walk.tables[node].read())
    share = f"{first['recall']:.3f} of the exact first 10 (over {first['questions']} questions; trained on"
    assert sentence.startswith(f"the index finds {share}")
