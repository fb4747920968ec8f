"""vLLM through the generation stage's worker against a bare `LLM.generate` and `ray.data.llm`, on the same prompts.

    PYTHONPATH=. python benchmarks/vllm_rate.py MODEL [--questions 60] [--rounds 3] [--range-rows 16] [--memory 0.2]

MODEL: a folder or a hub name of a base model. The prompts are the demo's questions with their BM25 passages. Each way
is a process of its own with the same engine arguments, loaded once, with a share --memory of the GPU (or machine) each;
they take turns, and forget cached prompts before every round. Ours writes the prompts, counts their tokens and cleans
the answers, with several ranges in work; the other gets the finished prompts, all at once. With --ray the third is run
afterwards, alone, and measured by the seconds that it says its engine took for all prompts as one batch.
The bar: at least 0.95 of the better. Vary --range-rows with the engine: 256 on a GPU.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from benchmarks.demo_rows import demo_rows, opened, prompts_of, with_prompts
from rat_ray.generate import close_engines
from rat_ray.generate import vllm as backend
from rat_ray.generate.vllm_settings import VllmSettings
from rat_ray.generate.worker import GeneratorSettings

BAR = 0.95
READY = "ready"


def settings_of(given: argparse.Namespace) -> GeneratorSettings:
    vllm = VllmSettings(
        dtype="bfloat16", gpu_memory_utilization=given.memory, engine_args={"enforce_eager": given.eager}
    )
    return with_prompts(GeneratorSettings(kind="vllm", model=given.model, max_tokens=16, vllm=vllm))


def ours(given: argparse.Namespace) -> Callable[[], float]:
    """Rounds of our worker, with as many ranges in work as the stage has."""
    settings, rows = settings_of(given), demo_rows(given.questions)
    worker = opened(settings, rows)
    Path(given.prompts).write_text(json.dumps([prompt.whole for prompt in prompts_of(rows, worker)]))
    engine: Any = worker._engine

    def once() -> float:
        asyncio.run_coroutine_threadsafe(engine._engine.reset_prefix_cache(), engine._loop).result()
        began = time.perf_counter()
        with ThreadPoolExecutor(backend.RANGES) as pool:
            tables = list(pool.map(worker, rows.cut(given.range_rows)))
        seconds = time.perf_counter() - began
        assert sum(table["error"].null_count for table in tables) == rows.questions.num_rows
        return seconds

    return once


def bare(given: argparse.Namespace) -> Callable[[], float]:
    """Rounds of `LLM.generate`."""
    from vllm import LLM

    prompts = json.loads(Path(given.prompts).read_text())
    llm = LLM(**engine_arguments(given))
    params = backend._sampling_params(settings_of(given).sampling)

    def once() -> float:
        llm.reset_prefix_cache()
        began = time.perf_counter()
        outputs = llm.generate(prompts, params, use_tqdm=False)
        seconds = time.perf_counter() - began
        assert all(output.outputs[0].finish_reason in ("stop", "length") for output in outputs)
        return seconds

    return once


def by_ray_data(given: argparse.Namespace) -> float:
    """Seconds that the engine of `ray.data.llm` took for all prompts as one batch; one before it is not counted."""
    import ray
    import torch
    from ray.data.llm import build_processor, vLLMEngineProcessorConfig

    prompts = json.loads(Path(given.prompts).read_text())
    arguments = engine_arguments(given)
    sampling = settings_of(given).sampling
    params = {"max_tokens": sampling.max_tokens, "temperature": 0.0, "stop": list(sampling.stop)}
    ray.init(num_cpus=4, include_dashboard=False, logging_level="error")
    config = vLLMEngineProcessorConfig(
        model_source=arguments.pop("model"),
        engine_kwargs=arguments,
        batch_size=len(prompts),
        concurrency=1,
        chat_template_stage=False,
        max_concurrent_batches=1,
        log_engine_metrics=False,
        placement_group_config=None if torch.cuda.is_available() else {"bundles": [{"CPU": 1}]},
    )
    processor = build_processor(config, preprocess=lambda row: {"prompt": row["prompt"], "sampling_params": params})
    # The first batch begins otherwise, so that none of its beginnings is in the cache for the second.
    asked = [{"prompt": mark + prompt} for mark in ("# ", "") for prompt in prompts]
    rows = processor(ray.data.from_items(asked)).take_all()
    assert len(rows) == len(asked)
    ray.shutdown()
    return float(max(row["time_taken_llm"] for row in rows if not row["prompt"].startswith("# ")))


def engine_arguments(given: argparse.Namespace) -> dict[str, Any]:
    """The very arguments of our engine."""
    args = backend._engine_args(settings_of(given), given.model, None)
    names = ("model", "dtype", "max_model_len", "gpu_memory_utilization", "enable_prefix_caching", "enforce_eager")
    return {name: getattr(args, name) for name in names}


class Spent(NamedTuple):
    wall: float
    cpu: float


class Way:
    """One way in a process of its own, loaded once, that runs a round when it is told to."""

    def __init__(self, name: str) -> None:
        command = [sys.executable, *sys.argv, "--way", name]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self._answer() == READY

    def once(self) -> Spent:
        assert self._process.stdin is not None
        before = self._cpu()
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        wall = float(self._answer())
        return Spent(wall, self._cpu() - before)

    def _cpu(self) -> float:
        """CPU seconds so far, of its engine's processes too."""
        top = psutil.Process(self._process.pid)
        times = [process.cpu_times() for process in (top, *top.children(recursive=True))]
        return float(sum(one.user + one.system for one in times))

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(120)

    def _answer(self) -> str:
        """The next line that is meant for us; libraries print lines of their own."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("# "):
                return line[2:].strip()
        raise RuntimeError("the process ended; its reason stands above")


def run_way(given: argparse.Namespace) -> None:
    if given.way == "ray":
        print(f"# {READY}\n# {by_ray_data(given)}", flush=True)
        return
    once = {"ours": ours, "bare": bare}[given.way](given)
    once()  # not counted
    print(f"# {READY}", flush=True)
    for _ in sys.stdin:
        print(f"# {once()}", flush=True)
    close_engines()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--range-rows", type=int, default=16)
    parser.add_argument("--memory", type=float, default=0.2)
    parser.add_argument("--eager", action="store_true", help="no compilation: starts sooner, for trials")
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--prompts", default=f"/tmp/rat_ray_vllm_prompts_{os.getpid()}.json", help=argparse.SUPPRESS)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        return run_way(given)
    sys.argv += ["--prompts", given.prompts]
    ways = {"ours": Way("ours")}  # first: it writes the prompts
    ways["bare"] = Way("bare")
    count = len(json.loads(Path(given.prompts).read_text()))
    spent: dict[str, list[Spent]] = {name: [] for name in ways}
    for number in range(given.rounds):
        for name in list(ways) if number % 2 == 0 else list(ways)[::-1]:
            spent[name].append(ways[name].once())
            one = spent[name][-1]
            print(f"round {number + 1}, {name}: {count / one.wall:.2f} rows/s, {one.cpu:.1f} CPU s", flush=True)
    for way in ways.values():
        way.end()
    wall = {name: statistics.median(one.wall for one in rounds) for name, rounds in spent.items()}
    cpu = {name: statistics.median(one.cpu for one in rounds) for name, rounds in spent.items()}
    third = ray_seconds(given)
    if third is not None:
        wall["ray.data.llm"] = third
    Path(given.prompts).unlink()
    best = min(seconds for name, seconds in wall.items() if name != "ours")
    print(f"{count} prompts: " + ", ".join(f"{name} {count / seconds:.2f} rows/s" for name, seconds in wall.items()))
    print(f"ours to the better of the others: {best / wall['ours']:.3f} (bar {BAR})")
    print(f"ours to the bare engine, by CPU seconds of all processes: {cpu['bare'] / cpu['ours']:.3f}")
    return None


def ray_seconds(given: argparse.Namespace) -> float | None:
    if not given.ray:
        print("ray.data.llm: left out, as --ray was not given")
        return None
    if importlib.util.find_spec("ray.llm") is None:
        print("ray.data.llm: left out, ray[llm] is not installed")
        return None
    try:
        way = Way("ray")
        seconds = float(way._answer())
        way.end()
    except RuntimeError as error:
        print(f"ray.data.llm: left out, {error}")
        return None
    return seconds


if __name__ == "__main__":
    main()
