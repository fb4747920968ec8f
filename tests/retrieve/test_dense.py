"""Exact dense retrieval against a plain dot product, sharded against not, and at the edges."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from rat_ray import datasets, settings
from rat_ray.datasets import FilesSettings
from rat_ray.errors import InputError, StageError
from rat_ray.keys import key_of
from rat_ray.retrieve.dense import DenseRetrieve, DenseSettings, IvfPqSettings
from rat_ray.retrieve.encoders import EncoderSettings, Vectors, open_encoder
from rat_ray.retrieve.hits import passage_texts
from tests.retrieve.corpora import made_up, made_up_questions, passages_table, questions_table, search
from tests.retrieve.stepping import FolderInput, build, run_steps

CONF = Path(__file__).resolve().parents[2] / "conf"


def check_against_dot_product(found: pa.Table, passages: pa.Table, questions: pa.Table, dtype: str = "float32") -> None:
    encoder = open_encoder(EncoderSettings())
    left = encoder.encode_questions(questions["question"].to_pylist()).astype(np.float64)
    right = encoder.encode_passages(passage_texts(passages, title=True)).astype(dtype).astype(np.float64)
    ids = passages["passage_id"].to_pylist()
    for row, scores in zip(found.to_pylist(), left @ right.T, strict=True):
        near = np.argsort(-scores)[: 3 * len(row["scores"])]
        order = sorted(near, key=lambda n: (-round(scores[n], 12), ids[n]))[: len(row["scores"])]
        assert row["passage_ids"] == [ids[n] for n in order]
        np.testing.assert_allclose(row["scores"], scores[order], atol=1e-12)


class Fixed:
    """An encoder with these vectors, in the order of the passages' ids."""

    def __init__(self, stored: Vectors, asked: Vectors) -> None:
        self.stored, self.asked, self.dim = stored, asked, stored.shape[1]

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        return self.stored[[int(text[1:]) for text in texts]]

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        return self.asked[: len(texts)]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_flat_index_equals_a_dot_product(tmp_path: Path, dtype: str) -> None:
    passages, questions = made_up(400), made_up_questions(50)
    worker = build(DenseSettings(depth=10, dtype=dtype), DenseRetrieve, tmp_path, passages)
    check_against_dot_product(search(worker, questions), passages, questions, dtype)


def test_long_vectors_are_ranked_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`normalise: false`: FAISS's rounding grows with the vectors' lengths, however small their products are."""
    draw = np.random.default_rng(1)
    axis = draw.standard_normal(64)
    axis /= np.linalg.norm(axis)
    stored = 1000 * (axis + 1e-7 * draw.standard_normal((5_000, 64)))
    asked = draw.standard_normal((100, 64))
    asked -= np.outer(asked @ axis, axis)  # nearly orthogonal to all
    asked *= 1000 / np.linalg.norm(asked, axis=1, keepdims=True)
    vectors = Fixed(stored.astype(np.float32), asked.astype(np.float32))
    for module in ("dense", "dense_steps"):
        monkeypatch.setattr(f"rat_ray.retrieve.{module}.open_encoder", lambda _: vectors)
    ids = [f"p{row:05d}" for row in range(len(stored))]
    passages = passages_table([(name, None, name) for name in ids])
    wanted = DenseSettings(encoder=EncoderSettings(normalise=False), depth=10)
    worker = build(wanted, DenseRetrieve, tmp_path / "flat", passages)
    found = search(worker, questions_table(["?"] * len(asked)))
    scores = vectors.asked.astype(np.float64) @ vectors.stored.astype(np.float64).T
    for names, row in zip(found["passage_ids"].to_pylist(), scores, strict=True):
        assert names == [ids[place] for place in np.argsort(-row, kind="stable")[:10]]
    for kind in ("ivfpq", "hnsw"):
        wanted = replace(wanted, index=kind, ivfpq=IvfPqSettings(m=8))
        assert build(wanted, DenseRetrieve, tmp_path / kind, passages.slice(0, 50))._search._longest > 999


@pytest.mark.parametrize("name", ["hotpotqa", "nq_open", "fever"])
@pytest.mark.slow
def test_the_same_on_real_questions(shared_data: Path, tmp_path: Path, name: str) -> None:
    more = {"questions": "claims.jsonl"} if name == "fever" else {}
    source = datasets.load(FilesSettings(path=str(shared_data / name), qrels="any", **more))  # type: ignore[arg-type]
    passages, questions = pa.concat_tables(source.passages()), source.questions()
    assert questions.num_rows >= 200
    worker = build(DenseSettings(depth=20), DenseRetrieve, tmp_path, passages)
    check_against_dot_product(search(worker, questions), passages, questions)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("cuts", [[200], [1, 37, 37, 390], [40, 80, 81, 160, 300, 399]])
def test_shards_equal_one_index(tmp_path: Path, cuts: list[int], dtype: str) -> None:
    passages, questions, wanted = made_up(400), made_up_questions(50), DenseSettings(depth=30, dtype=dtype)
    whole = search(build(wanted, DenseRetrieve, tmp_path / "whole", passages), questions)
    shards = [passages.slice(start, stop - start) for start, stop in pairwise([0, *cuts, 400])]
    shards.append(passages_table([("empty", None, ""), ("blank", "", " ")]))
    assert search(build(wanted, DenseRetrieve, tmp_path / "cut", *shards), questions).to_pylist() == whole.to_pylist()


def test_a_worker_of_some_shards_gives_scores_that_compare(tmp_path: Path) -> None:
    passages, questions, wanted = made_up(300), made_up_questions(20), DenseSettings(depth=300)
    made = run_steps(wanted, tmp_path, *(passages.slice(start, 100) for start in (0, 100, 200)))
    whole = search(DenseRetrieve(wanted, {"index": made["vectors"]}), questions).to_pylist()
    folders = made["vectors"].folders()
    parts = [DenseRetrieve(wanted, {"index": FolderInput(some, 0)}) for some in (folders[:1], folders[1:], [])]
    lists = [search(part, questions).to_pylist() for part in parts]
    for row, *found in zip(whole, *lists, strict=True):
        pairs = [pair for one in found for pair in zip(one["scores"], one["passage_ids"], strict=True)]
        assert sorted(pairs, key=lambda pair: (-pair[0], pair[1])) == list(
            zip(row["scores"], row["passage_ids"], strict=True)
        )


def test_ranges_of_questions_change_nothing(tmp_path: Path) -> None:
    worker = build(DenseSettings(depth=20), DenseRetrieve, tmp_path, made_up(300))
    questions = made_up_questions(60)
    cut = [search(worker, questions.slice(start, 7)) for start in range(0, 60, 7)]
    assert pa.concat_tables(cut).to_pylist() == search(worker, questions).to_pylist()


def test_the_same_corpus_gives_the_same_files(tmp_path: Path) -> None:
    passages = made_up(100)
    for name, batch in (("1", 64), ("2", 7)):
        run_steps(DenseSettings(encoder=EncoderSettings(batch=batch)), tmp_path / name, passages)
    folder = tmp_path / "1" / "vectors" / "part-000"
    assert sorted(path.name for path in folder.iterdir()) == ["ids.arrow", "meta.json", "vectors.faiss"]
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / "2" / "vectors" / "part-000" / path.name).read_bytes(), path.name


def test_half_as_many_bytes(tmp_path: Path) -> None:
    sizes = {}
    for dtype in ("float32", "float16"):
        run_steps(DenseSettings(dtype=dtype), tmp_path / dtype, made_up(100))
        sizes[dtype] = (tmp_path / dtype / "vectors" / "part-000" / "vectors.faiss").stat().st_size
    assert abs(sizes["float32"] - 100 * 1024) < 200
    assert abs(sizes["float16"] - 100 * 512) < 200


@pytest.mark.parametrize("shards", [1, 3])
def test_more_copies_than_the_margin_come_in_the_order_of_their_ids(tmp_path: Path, shards: int) -> None:
    rows: list[tuple[str, str | None, str]] = [(f"c{n * 37 % 100:02d}", None, "a red lantern") for n in range(100)]
    cut = [rows[number::shards] for number in range(shards)]
    cut[-1].append(("z", None, "a comet in the winter sky"))
    worker = build(DenseSettings(depth=3), DenseRetrieve, tmp_path, *(passages_table(some) for some in cut))
    found = search(worker, questions_table(["lantern", "comet", "", "lantern"]))["passage_ids"].to_pylist()
    assert found == [["c00", "c01", "c02"], ["z", "c00", "c01"], [], ["c00", "c01", "c02"]]


def test_texts_that_are_empty_are_not_found_and_find_nothing(tmp_path: Path) -> None:
    passages = passages_table([("a", None, ""), ("b", "", ""), ("c", None, "A castle."), ("d", "Bridge", "")])
    found = search(build(DenseSettings(), DenseRetrieve, tmp_path, passages), questions_table(["castle", ""]))
    assert found["passage_ids"].to_pylist() == [["c", "d"], []]
    assert found["error"].null_count == 2


def test_a_corpus_without_text(tmp_path: Path) -> None:
    for name, rows in (("1", [("a", None, "")]), ("2", [])):
        worker = build(DenseSettings(), DenseRetrieve, tmp_path / name, passages_table(rows))
        assert search(worker, questions_table(["castle"]))["passage_ids"].to_pylist() == [[]]


def test_no_questions(tmp_path: Path) -> None:
    assert search(build(DenseSettings(), DenseRetrieve, tmp_path, made_up(5)), questions_table([])).num_rows == 0


def test_other_scripts_and_a_depth_beyond_the_corpus(tmp_path: Path) -> None:
    passages = passages_table([("ru", None, "Москва является столицей России."), ("en", None, "A recipe for bread.")])
    worker = build(DenseSettings(depth=50), DenseRetrieve, tmp_path, passages)
    found = search(worker, questions_table(["столица России", "baking bread"]))
    assert found["passage_ids"].to_pylist() == [["ru", "en"], ["en", "ru"]]


@pytest.mark.parametrize("dim", [64, 128])
def test_shorter_vectors(tmp_path: Path, dim: int) -> None:
    worker = build(DenseSettings(encoder=EncoderSettings(dim=dim)), DenseRetrieve, tmp_path, made_up(30))
    found = search(worker, made_up_questions(3))
    assert all(abs(score) <= 1 + 1e-6 for scores in found["scores"].to_pylist() for score in scores)


def test_importing_the_settings_imports_no_library() -> None:
    code = (
        "import sys; from rat_ray.retrieve.dense import DenseSettings; DenseSettings().validate();"
        "print(sorted({'faiss', 'torch', 'wordllama', 'ray'} & set(sys.modules)))"
    )
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    made = subprocess.run([sys.executable, "-c", code], check=True, env=environment, capture_output=True, text=True)
    assert made.stdout.strip() == "[]"


def test_steps_and_their_keys() -> None:
    flat = DenseSettings()
    assert [step.name for step in flat.steps()] == ["vectors"]
    assert flat.search_inputs() == ()
    assert flat.parts() == []
    pq, graph = replace(flat, index="ivfpq"), replace(flat, index="hnsw")
    assert [(s.name, s.over, s.inputs, s.whole, s.encode) for s in pq.steps()] == [
        ("vectors", "passages", (), False, True),
        ("trained", "vectors", (), True, True),
        ("index", "vectors", ("trained",), False, False),
    ]
    assert [(s.name, s.over) for s in graph.steps()] == [("vectors", "passages"), ("index", "vectors")]
    assert pq.search_inputs() == graph.search_inputs() == ("vectors",)
    assert replace(pq, rescore=False).search_inputs() == ()
    assert flat.steps()[0].key == pq.steps()[0].key == graph.steps()[0].key, "the vectors are shared"


def test_the_index_does_not_depend_on_how_it_is_searched() -> None:
    base = DenseSettings(index="ivfpq")
    for speed in ({"threads": 2}, {"encoder": EncoderSettings(batch=1)}):
        assert key_of(replace(base, **speed)) == key_of(base), "speed is no part of the result"
    asked = replace(base, encoder=EncoderSettings(query_prefix="query: "))
    assert asked.step_keys() == base.step_keys(), "it is put before questions"
    assert key_of(asked) != key_of(base)
    search_only = replace(
        base, depth=3, rescore_factor=9, recall_sample=1, threads=2, ivfpq=replace(base.ivfpq, nprobe=1)
    )
    assert search_only.step_keys() == base.step_keys()
    for step, change in (
        ("vectors", replace(base, title=False)),
        ("vectors", replace(base, encoder=EncoderSettings(dim=64))),
        ("vectors", replace(base, dtype="float16")),
        ("trained", replace(base, ivfpq=IvfPqSettings(nlist=7))),
    ):
        assert change.step_keys()[step] != base.step_keys()[step]
        assert change.step_keys()["index"] != base.step_keys()["index"]


def test_an_index_of_other_settings_is_refused(tmp_path: Path) -> None:
    made = run_steps(DenseSettings(encoder=EncoderSettings(dim=64)), tmp_path, made_up(5))
    with pytest.raises(StageError, match="encoder differ"):
        DenseRetrieve(DenseSettings(), {"index": made["vectors"]})
    (made["vectors"].folders()[0] / "meta.json").unlink()
    with pytest.raises(StageError, match=r"no meta\.json"):
        DenseRetrieve(DenseSettings(), {"index": made["vectors"]})


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    made = run_steps(DenseSettings(), tmp_path, made_up(5))
    path = made["vectors"].folders()[0] / "vectors.faiss"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(StageError, match=r"vectors\.faiss: FAISS cannot read it"):
        DenseRetrieve(DenseSettings(), {"index": made["vectors"]})


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"depth": 0}, "retriever.depth=0"),
        ({"threads": 0}, "retriever.threads=0"),
        ({"index": "ivfqp"}, "retriever.index='ivfqp': unknown (did you mean 'ivfpq'?)"),
        ({"index": "IVF4096,PQ64"}, "retriever.index='IVF4096,PQ64': unknown"),
        ({"dtype": "float61"}, "did you mean 'float16'?"),
        ({"encoder": {"kind": "wordlama"}}, "did you mean 'wordllama'?"),
        ({"encoder": {"kind": "sentence-transformers", "model": "/no/such/folder"}}, "/no/such/folder"),
        ({"encoder": "wordllama"}, "expected a group of settings; set retriever.encoder.kind="),
        ({"dim": 64}, "retriever.dim: no such setting (did you mean 'encoder.dim'?)"),
        ({"ivfpq": {"nlists": 64}}, "retriever.ivfpq.nlists: no such setting (did you mean 'nlist'?)"),
        ({"ivfpq": {"nprobe": 0}}, "retriever.ivfpq.nprobe=0"),
        ({"ivfpq": {"bits": 16}}, "retriever.ivfpq.bits=16: must be at most 12"),
        ({"hnsw": {"ef_search": 0}}, "retriever.hnsw.ef_search=0"),
        ({"rescore": False}, "retriever.rescore=false: only for index: ivfpq"),
        (
            {"index": "ivfpq", "ivfpq": {"m": 60}, "encoder": {"dim": 256}},
            "retriever.ivfpq.m=60: must divide the vectors' dim, 256, for example 64",
        ),
        ({"index": "ivfpq", "ivfpq": {"m": 60}}, "retriever.ivfpq.m=60: must divide the vectors' dim, 256"),
        ({"ivfpq": {"seed": 2**31}}, "retriever.ivfpq.seed=2147483648: must be at most 2147483647"),
        ({"hnsw": {"ef_search": 2**40}}, "retriever.hnsw.ef_search=1099511627776: must be at most 2147483647"),
    ],
)
def test_bad_settings(given: dict[str, object], part: str) -> None:
    with pytest.raises(InputError) as caught:
        settings.build(DenseSettings, given, "retriever")
    assert part in str(caught.value)


@pytest.mark.parametrize("name", ["dense", "dense_ivfpq", "dense_hnsw", "dense_e5"])
def test_conf(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    changes = [f"retriever.encoder.model={tmp_path}"] if name == "dense_e5" else []
    with initialize_config_dir(str(CONF), version_base=None):
        composed = compose("evaluate", overrides=["dataset=demo", f"retriever={name}", *changes])
    written = OmegaConf.to_container(composed.retriever)
    assert isinstance(written, dict)
    made = settings.build(DenseSettings, written, "retriever")  # type: ignore[arg-type]
    if name != "dense":
        assert made.index == name.removeprefix("dense_") or made.encoder.query_prefix == "query: "
        return
    expected = asdict(DenseSettings())
    del expected["encoder"]["identity"]  # not for users
    assert written == expected


def test_a_search_keeps_up_with_random_vectors(tmp_path: Path) -> None:
    """Vectors with many equal scores, of different lengths, in shards of odd sizes."""
    from rat_ray.retrieve.dense_search import Search, Shard
    from rat_ray.retrieve.faiss_index import FlatWriter, find_flat, open_flat

    draw, generator = random.Random(3), np.random.default_rng(3)
    vectors = generator.integers(-2, 3, (500, 4)).astype(np.float32)
    names = [f"{draw.randrange(10**6)}-{row}" for row in range(500)]
    shards = []
    for start, stop in ((0, 3), (3, 3), (3, 250), (250, 500)):
        folder = tmp_path / str(start + stop)
        folder.mkdir()
        writer = FlatWriter(4, "float32", 500)
        writer.add(vectors[start:stop])
        writer.save(folder)
        flat = open_flat(folder)
        shards.append(Shard(pa.array(names[start:stop], pa.string()), find_flat(flat), flat.rows))
    questions = generator.integers(-2, 3, (40, 4)).astype(np.float32)
    for hits, question in zip(Search(shards, 7)(questions, 7), questions, strict=True):
        scores = vectors @ question
        order = sorted(range(500), key=lambda n: (-scores[n], names[n]))[:7] if question.any() else []
        assert hits.passage_ids == [names[n] for n in order]
