"""llama.cpp through the generation stage against the bare `xllamacpp` server, on the same prompts.

    PYTHONPATH=. python benchmarks/llama.py [--questions 40] [--rounds 2]

The prompts are the demo's questions with their BM25 passages. The stage is the whole one, from the store to the store,
in this process: it writes the prompts, counts their tokens, asks, cleans the answers and writes them. The bare server
gets the finished prompts in the order in which the stage asks them (those that begin alike after each other), one at a
time and, for comparison, as many at once as it has slots; --given adds it in the order of the questions. All start with a model
just loaded: no completion and no beginning of a prompt is remembered; loading is not counted. Orders alternate. The
bar: at least 0.9 of the better bare rate.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.demo_rows import Rows, demo_rows, opened, prompts_of, with_prompts
from rat_ray import tables
from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.generate import Prompt, close_engines, llama, open_engine
from rat_ray.generate.models import model_file
from rat_ray.generate.worker import GenerateWorker, GeneratorSettings
from rat_ray.stage import Runs, Stage, import_table
from rat_ray.store import Store

BAR = 0.9


def by_the_stage(settings: GeneratorSettings, rows: Rows) -> float:
    """Seconds from the store to the store."""
    close_engines()
    open_engine(settings)  # loading is not counted, here as below
    with tempfile.TemporaryDirectory() as scratch, Cluster(ClusterSettings(use="never")) as cluster:
        store = Store(Path(scratch) / "store")
        store.prepare()
        contents = {"questions": rows.questions, "retrievals": rows.retrievals, "passages": rows.passages}
        made = {
            name: import_table(store, name, "k", name, getattr(tables, name.upper()), lambda table=table: iter([table]))
            for name, table in contents.items()
        }
        stage = Stage(
            table="answers",
            label="answers",
            settings=settings,
            worker=GenerateWorker,
            over={name: made[name] for name in ("questions", "retrievals")},
            inputs={"passages": made["passages"]},
            schema=tables.ANSWERS,
            resources=Resources(range_rows=llama.RANGE_ROWS),
        )
        began = time.perf_counter()
        [answers] = Runs(store, cluster, quiet=True).run([stage], "answers")
        seconds = time.perf_counter() - began
        assert answers.read(["error"])["error"].null_count == rows.questions.num_rows
    close_engines()
    return seconds


def bare(settings: GeneratorSettings, prompts: list[Prompt], at_once: int) -> float:
    """Seconds for the same prompts by nothing but the server."""
    close_engines()
    server = llama._start_server(str(model_file(settings.model, settings.model_path)), settings)
    time.sleep(1)  # until it has started
    request = llama._sampling(settings.sampling) | {"cache_prompt": True}
    began = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        answers = list(pool.map(lambda prompt: server.handle_completions(request | {"prompt": prompt.whole}), prompts))
    seconds = time.perf_counter() - began
    assert all("choices" in answer for answer in answers)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--given", action="store_true")
    given = parser.parse_args()
    logging.disable(logging.INFO)
    settings = with_prompts(GeneratorSettings(max_tokens=16))
    rows = demo_rows(given.questions)
    prompts = prompts_of(rows, opened(settings, rows))
    starts = range(0, len(prompts), llama.RANGE_ROWS)
    as_asked = [one for start in starts for one in sorted(prompts[start : start + llama.RANGE_ROWS], key=llama._order)]
    ways = {
        "stage": lambda: by_the_stage(settings, rows),
        "bare, 1 at a time": lambda: bare(settings, as_asked, 1),
        f"bare, {settings.slots} at once": lambda: bare(settings, as_asked, settings.slots),
    }
    if given.given:
        ways["bare, 1 at a time as given"] = lambda: bare(settings, prompts, 1)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(given.rounds):
        for name in list(ways) if number % 2 == 0 else reversed(list(ways)):
            seconds[name].append(ways[name]())
            print(f"round {number + 1}, {name}: {len(prompts) / seconds[name][-1]:.2f} rows/s", flush=True)
    rates = {name: len(prompts) / statistics.median(values) for name, values in seconds.items()}
    best = max(rate for name, rate in rates.items() if name != "stage")
    print(f"{len(prompts)} prompts: " + ", ".join(f"{name} {rate:.2f} rows/s" for name, rate in rates.items()))
    print(f"ratio of the stage to the better bare rate: {rates['stage'] / best:.2f} (bar {BAR})")


if __name__ == "__main__":
    main()
