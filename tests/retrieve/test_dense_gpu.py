"""What is done with GPUs, without one: FAISS's own functions for them are stood in for by CPU indexes that hold each
GPU's share, so that the sharing out and the results are checked, and nothing of CUDA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rat_ray.errors import StageError
from rat_ray.retrieve import faiss_index
from rat_ray.retrieve.dense import DenseRetrieve, DenseSettings, IvfPqSettings
from tests.retrieve.corpora import made_up, made_up_questions, search
from tests.retrieve.stepping import run_steps

faiss: Any = pytest.importorskip("faiss")


class Gpus:
    """faiss-gpu's interface over CPU indexes; remembers what went where."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.parts: list[tuple[int, Any, Any]] = []
        self.whole: list[tuple[Any, Any]] = []

    def get_num_gpus(self) -> int:
        return self.count

    def index_cpu_to_gpu(self, resources: Any, gpu: int, index: Any, options: Any) -> Any:
        copy = faiss.clone_index(index)
        self.parts.append((gpu, copy, options))
        return copy

    def index_cpu_to_all_gpus(self, index: Any, co: Any = None) -> Any:
        assert not isinstance(index, faiss.IndexScalarQuantizer), "FAISS cannot share these out"
        self.whole.append((index, co))
        return faiss.clone_index(index)


class Options:
    shard = False
    useFloat16 = False


@pytest.fixture(params=[1, 3])
def gpus(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Gpus:
    made = Gpus(request.param)
    for name in ("get_num_gpus", "index_cpu_to_gpu", "index_cpu_to_all_gpus"):
        monkeypatch.setattr(faiss, name, getattr(made, name), raising=False)
    for name in ("GpuClonerOptions", "GpuMultipleClonerOptions", "StandardGpuResources"):
        monkeypatch.setattr(faiss, name, Options, raising=False)
    return made


@pytest.mark.parametrize("index", ["flat", "ivfpq"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_same_result_as_without(
    gpus: Gpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str, dtype: str
) -> None:
    wanted = DenseSettings(index=index, dtype=dtype, depth=20, ivfpq=IvfPqSettings(nlist=4, m=16, nprobe=4))
    passages, questions = made_up(500), made_up_questions(30)
    made = run_steps(wanted, tmp_path, passages.slice(0, 300), passages.slice(300))
    inputs = {**made, "index": made[wanted.steps()[-1].name]}
    gpus.parts.clear()
    gpus.whole.clear()
    found = search(DenseRetrieve(wanted, inputs), questions)
    if index == "flat" and dtype == "float16":
        assert [gpu for gpu, _, _ in gpus.parts] == 2 * list(range(gpus.count)), "each shard on every GPU"
        assert [part.ntotal for _, part, _ in gpus.parts[: gpus.count]] == [300 // gpus.count] * gpus.count
        assert all(options.useFloat16 for _, _, options in gpus.parts)
        assert not gpus.whole
    else:
        assert [(moved.ntotal, options.shard) for moved, options in gpus.whole] == [(300, True), (200, True)]
        assert all(options.useFloat16 == (index == "ivfpq") for _, options in gpus.whole)
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 0)
    assert found.to_pylist() == search(DenseRetrieve(wanted, inputs), questions).to_pylist()


def test_a_graph_stays_on_the_cpu(gpus: Gpus, tmp_path: Path) -> None:
    wanted = DenseSettings(index="hnsw", depth=5)
    made = run_steps(wanted, tmp_path, made_up(100))
    search(DenseRetrieve(wanted, made), made_up_questions(3))
    assert not gpus.parts
    assert not gpus.whole


def test_centres_are_learned_on_gpus(gpus: Gpus) -> None:
    sample = np.random.default_rng(1).standard_normal((400, 8)).astype(np.float32)
    index = faiss_index.train_ivfpq(sample, 4, 4, 8, 0, 1)
    assert [moved.d for moved, _ in gpus.whole] == [8]
    assert index.is_trained
    assert index.clustering_index is None


def test_codes_that_gpus_do_not_have_stay_on_the_cpu(gpus: Gpus) -> None:
    sample = np.random.default_rng(1).standard_normal((400, 10)).astype(np.float32)
    for m, bits in ((10, 8), (2, 6)):
        index = faiss_index.train_ivfpq(sample, 4, m, bits, 0, 1)
        index.add(sample)
        gpus.whole.clear()
        scores, positions = faiss_index.find_ivfpq(index, 2)(sample[:3], 5)
        assert scores.shape == positions.shape == (3, 5)
        assert not gpus.whole


def test_more_results_than_a_gpu_gives_come_from_the_cpu(gpus: Gpus, tmp_path: Path) -> None:
    writer = faiss_index.FlatWriter(4, "float32", 3000)
    writer.add(np.random.default_rng(1).standard_normal((3000, 4)).astype(np.float32))
    writer.save(tmp_path)
    flat = faiss_index.open_flat(tmp_path)
    find = faiss_index.find_flat(flat)
    question = np.ones((1, 4), np.float32)
    many, few = find(question, 2500)[1][0], find(question, 2000)[1][0]
    assert len(many) == 2500
    assert many[:2000].tolist() == few.tolist()


def test_too_little_memory_is_said(gpus: Gpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(index: Any, co: Any) -> Any:
        raise RuntimeError("Error in StandardGpuResourcesImpl::allocMemory: out of memory")

    made = run_steps(DenseSettings(), tmp_path, made_up(10))
    monkeypatch.setattr(faiss, "index_cpu_to_all_gpus", full)
    with pytest.raises(StageError, match=r"10 vectors do not go onto \d GPU.*try dtype: float16"):
        DenseRetrieve(DenseSettings(), {"index": made["vectors"]})
