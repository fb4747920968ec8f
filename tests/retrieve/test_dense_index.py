"""Approximate dense indexes: sharded against not, what they find, and corpora too small for them."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rat_ray import datasets, tables
from rat_ray.datasets import FilesSettings
from rat_ray.errors import InputError, StageError
from rat_ray.retrieve.dense import DenseRetrieve, DenseSettings, HnswSettings, IvfPqSettings
from rat_ray.retrieve.dense_search import Search, Shard
from rat_ray.retrieve.dense_steps import EncodePassages, plan_lists, sampled
from rat_ray.retrieve.faiss_index import (
    FlatWriter,
    build_hnsw,
    find_flat,
    find_hnsw,
    find_ivfpq,
    open_flat,
    read_hnsw,
    save_index,
    train_ivfpq,
)
from rat_ray.retrieve.hits import Hits
from rat_ray.retrieve.recall import RecallWorker, recall_at, sampled_rows
from tests.retrieve.corpora import made_up, made_up_questions, passages_table, questions_table, search
from tests.retrieve.stepping import FolderInput, build, run_steps

IVFPQ = DenseSettings(index="ivfpq", depth=20, ivfpq=IvfPqSettings(nlist=16, m=32, bits=6, nprobe=4, train_size=1000))
CUTS: list[list[int]] = [[], [700], [1, 37, 37, 390, 800, 1100]]  # 1, 2 and 7 shards, one of them empty


def cut(passages: pa.Table, cuts: list[int]) -> list[pa.Table]:
    return [passages.slice(start, stop - start) for start, stop in pairwise([0, *cuts, passages.num_rows])]


def meta(folder: Path) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((folder / "meta.json").read_text())
    return made


# --- ivfpq --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rescore", [True, False])
def test_shards_equal_one_index(tmp_path: Path, rescore: bool) -> None:
    passages, questions, wanted = made_up(1500), made_up_questions(60), replace(IVFPQ, rescore=rescore)
    whole, *others = (
        search(build(wanted, DenseRetrieve, tmp_path / str(n), *cut(passages, cuts)), questions).to_pylist()
        for n, cuts in enumerate(CUTS)
    )
    for found in others:
        for one, other in zip(found, whole, strict=True):
            assert one["passage_ids"] == other["passage_ids"]
            np.testing.assert_allclose(one["scores"], other["scores"], atol=1e-5)


def test_what_is_trained_does_not_depend_on_the_cut(tmp_path: Path) -> None:
    passages, files = made_up(1500), []
    for n, cuts in enumerate(CUTS):
        made = run_steps(IVFPQ, tmp_path / str(n), *cut(passages, cuts))
        [folder] = made["trained"].folders()
        files.append({path.name: path.read_bytes() for path in folder.iterdir()})
        sample = sampled(made["vectors"].folders(), 100)
        np.testing.assert_array_equal(sample, sampled(made["vectors"].folders(), 1000)[:100])
        assert sample.shape == (100, 256)
    assert files[0] == files[1] == files[2]
    assert set(files[0]) == {"trained.faiss", "meta.json"}


def test_a_corpus_in_another_order_gives_the_same_sample(tmp_path: Path) -> None:
    passages = made_up(300)
    order = list(range(300))
    random.Random(1).shuffle(order)
    samples = [
        sampled(run_steps(DenseSettings(), tmp_path / name, table)["vectors"].folders(), 50)
        for name, table in (("a", passages), ("b", passages.take(order)))
    ]
    np.testing.assert_array_equal(samples[0], samples[1])


def test_scores_are_exact_after_rescoring_and_not_without(tmp_path: Path) -> None:
    passages, questions = made_up(600), made_up_questions(20)
    exact = search(build(DenseSettings(depth=600), DenseRetrieve, tmp_path / "flat", passages), questions).to_pylist()
    for rescore in (True, False):
        worker = build(replace(IVFPQ, rescore=rescore), DenseRetrieve, tmp_path / str(rescore), passages)
        errors = [
            abs(dict(zip(row["passage_ids"], row["scores"], strict=True))[name] - score)
            for row, found in zip(exact, search(worker, questions).to_pylist(), strict=True)
            for name, score in zip(found["passage_ids"], found["scores"], strict=True)
        ]
        assert (max(errors) < 1e-12) == rescore
        assert max(errors) < 0.3


def test_workers_of_some_shards_find_no_worse_passages(tmp_path: Path) -> None:
    passages, questions = made_up(1500), made_up_questions(40)
    wanted = replace(IVFPQ, rescore_factor=1)
    made = run_steps(wanted, tmp_path, *cut(passages, CUTS[2]))

    def lists(some: slice) -> list[dict[str, Any]]:
        inputs = {name: FolderInput(made[name].folders()[some], 0) for name in ("index", "vectors")}
        return search(DenseRetrieve(wanted, inputs), questions).to_pylist()  # type: ignore[no-any-return]

    for whole, *parts in zip(lists(slice(None)), lists(slice(3)), lists(slice(3, None)), strict=True):
        scores = sorted((score for part in parts for score in part["scores"]), reverse=True)
        assert all(one >= other - 1e-12 for one, other in zip(scores, whole["scores"], strict=False))


def test_more_copies_than_candidates(tmp_path: Path) -> None:
    rows: list[tuple[str, str | None, str]] = [(f"c{n * 37 % 300:03d}", None, "a red lantern") for n in range(300)]
    rows += [(f"z{n}", None, f"a comet in the winter sky {n}") for n in range(300)]
    wanted = replace(IVFPQ, depth=3, ivfpq=IvfPqSettings(nlist=2, m=16, bits=4, nprobe=2))
    for shards in (1, 3):
        tables = [passages_table(rows[number::shards]) for number in range(shards)]
        found = search(
            build(wanted, DenseRetrieve, tmp_path / str(shards), *tables), questions_table(["a red lantern"])
        )
        assert found["passage_ids"].to_pylist() == [["c000", "c001", "c002"]]


@pytest.mark.parametrize("size", [0, 1, 3, 50, 300])
def test_a_corpus_smaller_than_the_index_wants(tmp_path: Path, size: int) -> None:
    wanted = replace(IVFPQ, depth=500, ivfpq=IvfPqSettings(nlist=1000, m=16, nprobe=1000))
    passages, questions = made_up(max(size, 1)).slice(0, size), made_up_questions(10)
    made = run_steps(wanted, tmp_path / "pq", passages)
    trained = meta(made["trained"].folders()[0])
    assert trained["nlist"] == max(1, size // 39)
    assert 2 ** trained["bits"] <= max(2, size)
    assert trained["note"].startswith(f"too few vectors to learn from ({size}): nlist 1000 -> {trained['nlist']}")
    found = search(DenseRetrieve(wanted, made), questions)
    exact = search(build(DenseSettings(depth=500), DenseRetrieve, tmp_path / "flat", passages), questions)
    assert found.to_pylist() == exact.to_pylist(), "all lists were looked into, and all is scored again"


def test_the_size_of_an_index_by_its_corpus() -> None:
    assert plan_lists(0, 8, 0, 21_015_324)[:3] == (18337, 8, 18337 * 64)
    assert plan_lists(0, 8, 0, 100_000)[:3] == (1265, 8, 1265 * 64)
    assert plan_lists(0, 8, 10_000, 1_000_000)[:3] == (256, 8, 10_000), "39 vectors per list"
    assert plan_lists(0, 8, 0, 100_000).note == plan_lists(500, 8, 0, 100_000).note == ""
    assert plan_lists(64, 8, 0, 100) == (2, 6, 100, "too few vectors to learn from (100): nlist 64 -> 2, bits 8 -> 6")


def test_an_m_that_does_not_divide_the_dim(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"m=48: must divide the vectors' dim, 256, for example 64"):
        run_steps(replace(IVFPQ, ivfpq=IvfPqSettings(m=48)), tmp_path, made_up(30))


def test_an_m_that_does_not_divide_the_dim_is_told_before_anything_is_encoded() -> None:
    """Of encoders whose dim is known when they are open only: the workers that encode refuse it."""
    with pytest.raises(InputError, match=r"m=48: must divide the vectors' dim, 256"):
        EncodePassages(replace(IVFPQ, ivfpq=IvfPqSettings(m=48)), {})


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    made = run_steps(IVFPQ, tmp_path / "1", *cut(made_up(100), [50]))
    other = run_steps(IVFPQ, tmp_path / "2", *cut(made_up(100), [30]))
    with pytest.raises(StageError, match="not the vectors that the index was made from"):
        DenseRetrieve(IVFPQ, {"index": made["index"], "vectors": other["vectors"]})
    with pytest.raises(StageError, match="2 shards of the index, but 1 of vectors"):
        DenseRetrieve(IVFPQ, {"index": made["index"], "vectors": FolderInput(made["vectors"].folders()[:1], 50)})
    with pytest.raises(StageError, match="ivfpq differ"):
        DenseRetrieve(replace(IVFPQ, ivfpq=IvfPqSettings(seed=1)), made)


# --- hnsw ---------------------------------------------------------------------------------------------------------

HNSW = DenseSettings(index="hnsw", depth=20, hnsw=HnswSettings(m=16, ef_construction=100, ef_search=64))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_graph_gives_exact_scores_and_holds_no_vectors(tmp_path: Path, dtype: str) -> None:
    passages, questions = made_up(600), made_up_questions(40)
    graph, flat = replace(HNSW, dtype=dtype), DenseSettings(depth=20, dtype=dtype)
    made = run_steps(graph, tmp_path / "hnsw", *cut(passages, [200, 200]))
    found = search(DenseRetrieve(graph, made), questions).to_pylist()
    exact = search(build(flat, DenseRetrieve, tmp_path / "flat", passages), questions).to_pylist()
    shared = [len(set(a["passage_ids"]) & set(b["passage_ids"])) / 20 for a, b in zip(found, exact, strict=True)]
    assert np.mean(shared) > 0.95
    for one, other in zip(found, exact, strict=True):
        known = dict(zip(other["passage_ids"], other["scores"], strict=True))
        both = [(score, known[name]) for name, score in zip(one["passage_ids"], one["scores"], strict=True)
                if name in known]  # fmt: skip
        assert all(a == b for a, b in both)
    sizes = [(folder / "index.faiss").stat().st_size for folder in made["index"].folders()]
    assert sizes[2] < 400 * 16 * 2 * 4 * 1.5, "links, and nothing else of that size"


def test_a_graph_is_the_same_every_time(tmp_path: Path) -> None:
    graphs = [
        run_steps(replace(HNSW, threads=n), tmp_path / str(n), made_up(300))["index"].folders()[0] for n in (1, 2)
    ]
    for name in ("index.faiss", "meta.json", "ids.arrow"):
        assert (graphs[0] / name).read_bytes() == (graphs[1] / name).read_bytes()


def test_small_graphs(tmp_path: Path) -> None:
    for size in (0, 1, 5):
        passages = made_up(max(size, 1)).slice(0, size)
        worker = build(HNSW, DenseRetrieve, tmp_path / str(size), passages)
        found = search(worker, made_up_questions(3))["passage_ids"].to_pylist()
        assert [len(names) for names in found] == [size] * 3


# --- recall -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clustered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, pa.Array, np.ndarray[Any, Any]]:
    """8,000 vectors around 80 centres, as embeddings are; their ids; 200 questions of the same kind."""
    generator = np.random.default_rng(5)
    centres = generator.standard_normal((80, 64))
    made = centres[generator.integers(0, 80, 8_200)] + 1.2 * generator.standard_normal((8_200, 64))
    vectors = (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)
    folder = tmp_path_factory.mktemp("clustered")
    writer = FlatWriter(64, "float32", 8_000)
    writer.add(vectors[:8_000])
    writer.save(folder)
    return open_flat(folder), pa.array([f"p{n}" for n in range(8_000)]), vectors[8_000:]


def test_recall_on_clusters(clustered: tuple[Any, pa.Array, np.ndarray[Any, Any]], tmp_path: Path) -> None:
    flat, ids, questions = clustered
    exact = Search([Shard(ids, find_flat(flat), flat.rows)], 100)(questions, 100)
    lists = train_ivfpq(np.asarray(flat.rows), 80, 32, 8, 0, 1)
    lists.add(np.asarray(flat.rows))
    save_index(build_hnsw(flat, 16, 100), tmp_path / "graph", storage=False)
    graph = read_hnsw(tmp_path / "graph", flat)
    for find, keep, floors in (
        (find_ivfpq(lists, 20), 400, (0.95, 0.9)),
        (find_hnsw(graph, 128), 100, (0.95, 0.9)),
    ):
        found = Search([Shard(ids, find, flat.rows)], keep)(questions, 100)
        print(recall_at(found, exact, 10), recall_at(found, exact, 100))
        assert recall_at(found, exact, 10) > floors[0]  # type: ignore[operator]
        assert recall_at(found, exact, 100) > floors[1]  # type: ignore[operator]
    few = Search([Shard(ids, find_ivfpq(lists, 1), flat.rows)], 400)(questions, 100)
    assert recall_at(few, exact, 100) < 0.8, "one list of 80 cannot hold them all"  # type: ignore[operator]


def test_recall_by_hand() -> None:
    exact = [Hits(["a", "b", "c"], [3, 2, 2]), Hits(["a"], [1.0]), Hits([], [])]
    found = [Hits(["a", "c", "x"], [3, 2, 1]), Hits([], []), Hits(["x"], [1.0])]
    assert recall_at(found, exact, 1) == 0.5
    assert recall_at(found, exact, 2) == 0.5, "c is as good as b"
    assert recall_at(found, exact, 3) == pytest.approx(1 / 3)
    assert recall_at([], [], 3) is None


def recalled(wanted: DenseSettings, made: Any, questions: pa.Table) -> list[dict[str, Any]]:
    """The rows of the recall of a sample of these questions."""
    index = made[wanted.steps()[-1].name]
    lists = DenseRetrieve(wanted, {**made, "index": index})({"questions": questions})
    worker = RecallWorker(wanted, {name: made[name] for name in ("vectors", "trained") if name in made})
    found = worker({"questions": questions, "retrievals": lists})
    tables.check_table(found, tables.RECALL, "recall")
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def test_recall_of_a_sample_of_the_questions(tmp_path: Path) -> None:
    few = DenseSettings(index="ivfpq", recall_sample=30, ivfpq=IvfPqSettings(nlist=16, nprobe=1, train_size=500))
    questions = made_up_questions(50)
    made = run_steps(few, tmp_path / "ivfpq", *cut(made_up(900), [400]))
    low = recalled(few, made, questions)
    assert [(row["k"], row["questions"], row["vectors"], row["trained_on"]) for row in low] == [
        (10, 30, 900, 500),
        (100, 30, 900, 500),
    ]
    every = replace(few, rescore_factor=9, ivfpq=replace(few.ivfpq, nprobe=16))
    assert [row["recall"] for row in recalled(every, made, questions)] == [1.0, 1.0], "all lists, all scored exactly"
    assert 0 < low[1]["recall"] < 0.9, "one list of 16"
    assert [row["recall"] is None for row in recalled(replace(every, depth=10), made, questions)] == [False, True]
    graph = DenseSettings(index="hnsw", recall_sample=30)
    made = run_steps(graph, tmp_path / "hnsw", *cut(made_up(900), [400]))
    for row in recalled(graph, made, questions):
        assert row["trained_on"] is None
        assert 0.9 < row["recall"] <= 1


def test_the_sample_is_the_same_wherever_the_questions_stand() -> None:
    questions = made_up_questions(40)
    errors = [None if row % 7 else "it failed" for row in range(40)]
    retrievals = pa.table({"error": pa.array(errors, pa.string())})
    chosen = sampled_rows(questions, retrievals, 9).to_pylist()
    assert len(chosen) == 9
    assert all(errors[row] is None for row in chosen)
    turned = pa.array(range(39, -1, -1))
    again = sampled_rows(questions.take(turned), retrievals.take(turned), 9).to_pylist()
    assert sorted(39 - row for row in again) == chosen


@pytest.mark.slow
def test_recall_on_real_questions(shared_data: Path, tmp_path: Path) -> None:
    source = datasets.load(FilesSettings(path=str(shared_data / "hotpotqa"), qrels="all"))
    passages, questions = pa.concat_tables(source.passages()), source.questions().slice(0, 200)
    for wanted, least in (
        (DenseSettings(index="ivfpq", depth=100, ivfpq=IvfPqSettings(nprobe=64)), 0.9),
        (DenseSettings(index="hnsw", depth=100), 0.95),
    ):
        made = run_steps(wanted, tmp_path / wanted.index, passages)
        rows = recalled(wanted, made, questions)
        print(wanted.index, passages.num_rows, rows)
        assert min(row["recall"] for row in rows) > least
