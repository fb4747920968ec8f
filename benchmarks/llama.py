"""llama.cpp through the generation stage against the bare `xllamacpp` server, on the same prompts.

    PYTHONPATH=. python benchmarks/llama.py [--questions 40] [--rounds 2]

The prompts are the demo's questions with their BM25 passages. The stage is the whole one, from the store to the store,
in this process: it writes the prompts, counts their tokens, asks, cleans the answers and writes them. The bare server
gets the finished prompts in the order in which the stage asks them (those that begin alike after each other), one at a
time; --more adds as many at once as it has slots, and one at a time in the order of the questions. All start with a
model just loaded: no completion and no beginning of a prompt is remembered; loading is not counted. Orders alternate.
The bar: at least 0.9 of the best bare rate. On a machine that others use too, --threads 1 and the ratio by CPU seconds
say more: threads that wait for each other spin.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from benchmarks.demo_rows import Rows, demo_rows, opened, prompts_of, with_prompts
from rat_ray import tables
from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.generate import Prompt, close_engines, llama, open_engine
from rat_ray.generate.models import model_file
from rat_ray.generate.worker import GenerateWorker, GeneratorSettings
from rat_ray.stage import Runs, Stage, import_table
from rat_ray.store import Store

BAR = 0.9


class Spent(NamedTuple):
    wall: float
    cpu: float  # of this process, all its threads


class Clock:
    def __init__(self) -> None:
        self._began = (time.perf_counter(), time.process_time())

    def spent(self) -> Spent:
        return Spent(time.perf_counter() - self._began[0], time.process_time() - self._began[1])


def by_the_stage(settings: GeneratorSettings, rows: Rows) -> Spent:
    """From the store to the store."""
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
        clock = Clock()
        [answers] = Runs(store, cluster, quiet=True).run([stage], "answers")
        seconds = clock.spent()
        assert answers.read(["error"])["error"].null_count == rows.questions.num_rows
    close_engines()
    return seconds


def bare(settings: GeneratorSettings, prompts: list[Prompt], at_once: int) -> Spent:
    """The same prompts by nothing but the server."""
    close_engines()
    server = llama._start_server(str(model_file(settings.model, settings.model_path)), settings)
    time.sleep(1)  # until it has started
    request = llama._sampling(settings.sampling) | {"cache_prompt": True}
    clock = Clock()
    with ThreadPoolExecutor(at_once) as pool:
        answers = list(pool.map(lambda prompt: server.handle_completions(request | {"prompt": prompt.whole}), prompts))
    seconds = clock.spent()
    assert all("choices" in answer for answer in answers)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--more", action="store_true")
    given = parser.parse_args()
    logging.disable(logging.INFO)
    settings = with_prompts(GeneratorSettings(max_tokens=16, threads=given.threads))
    rows = demo_rows(given.questions)
    prompts = prompts_of(rows, opened(settings, rows))
    starts = range(0, len(prompts), llama.RANGE_ROWS)
    as_asked = [one for start in starts for one in sorted(prompts[start : start + llama.RANGE_ROWS], key=llama._order)]
    ways = {
        "stage": lambda: by_the_stage(settings, rows),
        "bare": lambda: bare(settings, as_asked, 1),
    }
    if given.more:
        ways[f"bare, {settings.slots} at once"] = lambda: bare(settings, as_asked, settings.slots)
        ways["bare, in the questions' order"] = lambda: bare(settings, prompts, 1)
    spent: dict[str, list[Spent]] = {name: [] for name in ways}
    for number in range(given.rounds):
        for name in list(ways) if number % 2 == 0 else reversed(list(ways)):
            spent[name].append(ways[name]())
            one = spent[name][-1]
            print(f"round {number + 1}, {name}: {len(prompts) / one.wall:.2f} rows/s, {one.cpu:.1f} CPU s", flush=True)
    wall = {name: statistics.median(one.wall for one in rounds) for name, rounds in spent.items()}
    cpu = {name: statistics.median(one.cpu for one in rounds) for name, rounds in spent.items()}
    best, least = (min(value for name, value in times.items() if name != "stage") for times in (wall, cpu))
    print(f"{len(prompts)} prompts: " + ", ".join(f"{name} {len(prompts) / wall[name]:.2f} rows/s" for name in ways))
    print(
        f"the stage's rate to the best bare one: {best / wall['stage']:.2f}, by CPU seconds {least / cpu['stage']:.2f}"
    )
    print(f"(bar {BAR})")


if __name__ == "__main__":
    main()
