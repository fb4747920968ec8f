"""Answers from a server that takes 50 ms for each: a stage on Ray against bare aiohttp, 32 requests at a time.

    python benchmarks/server.py [ROWS] [ROUNDS]

The server is a process of its own. Both send the same bodies and read the same replies; the stage also writes the
prompts, counts their tokens (estimated: the server counts none) and writes the answers' parts. Prints rows per second
of both and their ratio (the bar is 0.9), and that of the worker alone, called by four threads.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aiohttp
import pyarrow as pa
from aiohttp import web

from rat_ray import tables
from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.generate import close_engines, server
from rat_ray.generate.engine import Prompt
from rat_ray.generate.server_api import Model, request
from rat_ray.generate.server_settings import ServerSettings
from rat_ray.generate.worker import GenerateWorker, GeneratorSettings
from rat_ray.stage import Runs, Stage, import_table
from rat_ray.store import Store, Table

SECONDS = 0.05
AT_ONCE = 32
PASSAGES = 2_000
TEMPLATE = """Answer from the passages.
{% for p in passages %}
[{{ p.number }}] {{ p.title }}: {{ p.text }}
{% endfor %}
Question: {{ question }}
Answer:"""


def serve(pipe: Any) -> None:
    """The server's process: every completion takes SECONDS, however many there are."""
    content = {"choices": [{"text": " Paris", "finish_reason": "stop"}], "usage": {"prompt_tokens": 400}}
    reply = json.dumps(content).encode()

    times: list[float] = []

    async def complete(asked: web.Request) -> web.Response:
        times.append(time.perf_counter())
        await asked.read()
        await asyncio.sleep(SECONDS)
        return web.Response(body=reply, content_type="application/json")

    async def models(asked: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "bench"}]})

    async def busy(asked: web.Request) -> web.Response:
        """From the first request to the last since it was asked before."""
        seconds = times[-1] - times[0] if times else 0.0
        times.clear()
        return web.json_response(seconds)

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/busy", busy)
        app.router.add_post("/v1/completions", complete)
        app.router.add_get("/v1/models", models)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        pipe.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


def passages() -> pa.Table:
    text = (
        "The castle on the hill above the river was built by the counts in the twelfth century and burned twice. " * 4
    )
    rows = [{"passage_id": f"p{i}", "title": f"Castle {i}", "text": f"{i} {text}"} for i in range(PASSAGES)]
    return pa.Table.from_pylist(rows, schema=tables.PASSAGES)


def questions(rows: int) -> pa.Table:
    made = [{"question_id": f"q{i}", "question": f"who built the castle number {i}?"} for i in range(rows)]
    return pa.Table.from_pylist(made, schema=tables.QUESTIONS)


def retrievals(rows: int) -> pa.Table:
    made = [
        {
            "question_id": f"q{i}",
            "passage_ids": [f"p{(i * 7 + k) % PASSAGES}" for k in range(3)],
            "scores": [3.0, 2.0, 1.0],
        }
        for i in range(rows)
    ]
    return pa.Table.from_pylist(made, schema=tables.RETRIEVALS)


def bare(url: str, bodies: list[bytes]) -> float:
    """Seconds for all of them, AT_ONCE at a time, by nothing but aiohttp."""

    async def run() -> float:
        waiting = iter(bodies)
        connector = aiohttp.TCPConnector(limit=AT_ONCE)
        headers = {"Content-Type": "application/json"}
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

            async def work() -> None:
                for body in waiting:
                    async with session.post(f"{url}/completions", data=body) as response:
                        assert json.loads(await response.read())["choices"][0]["text"]

            began = time.perf_counter()
            await asyncio.gather(*(work() for _ in range(AT_ONCE)))
            return time.perf_counter() - began

    return asyncio.run(run())


def on_ray(runs: Runs, settings: GeneratorSettings, over: Mapping[str, Table], corpus: Table, number: int) -> float:
    """Seconds of a stage, until its table is committed. number: makes it another stage each time."""
    stage = Stage(
        table="answers",
        label="answers",
        settings=dataclasses.replace(settings, model_revision=str(number)),
        worker=GenerateWorker,
        over=over,
        schema=tables.ANSWERS,
        inputs={"passages": corpus},
        resources=Resources(num_cpus=1, workers=1, range_rows=server.RANGE_ROWS),  # one, so AT_ONCE in all
        together=server.RANGES,
        affinity="answers",
    )
    began = time.perf_counter()
    [made] = runs.run([stage], "answers")
    seconds = time.perf_counter() - began
    assert made.read(["error"])["error"].null_count == made.num_rows
    return seconds


def in_threads(worker: GenerateWorker, asked: pa.Table, found: pa.Table) -> float:
    """Seconds of the worker alone, with as many ranges in work as on Ray."""
    starts = range(0, asked.num_rows, server.RANGE_ROWS)
    ranges = [
        {"questions": asked.slice(i, server.RANGE_ROWS), "retrievals": found.slice(i, server.RANGE_ROWS)}
        for i in starts
    ]
    began = time.perf_counter()
    with ThreadPoolExecutor(server.RANGES) as pool:
        made = pa.concat_tables(pool.map(worker, ranges))
    seconds = time.perf_counter() - began
    assert made["error"].null_count == asked.num_rows
    return seconds


class _Whole:
    """A table in memory, as a worker's input."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def read(self, columns: list[str] | None = None) -> pa.Table:
        return self._table.select(columns) if columns else self._table


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    context = multiprocessing.get_context("spawn")
    pipe, other = context.Pipe()
    process = context.Process(target=serve, args=(other,), daemon=True)
    process.start()
    url = f"http://127.0.0.1:{pipe.recv()}/v1"
    settings = GeneratorSettings(
        kind="openai",
        model="bench",
        prompts={"open": TEMPLATE},
        concurrency=AT_ONCE,
        server=ServerSettings(url=url),
    )
    asked, found, corpus = questions(rows), retrievals(rows), passages()
    bodies = _bodies(settings, asked, found, corpus)
    with tempfile.TemporaryDirectory() as scratch, Cluster(ClusterSettings(use="always")) as cluster:
        store = Store(Path(scratch) / "store")
        store.prepare()
        over = {
            "questions": import_table(store, "questions", "k", "questions", tables.QUESTIONS, lambda: [asked]),
            "retrievals": import_table(store, "retrievals", "k", "retrievals", tables.RETRIEVALS, lambda: [found]),
        }
        stored = import_table(store, "passages", "k", "passages", tables.PASSAGES, lambda: [corpus])
        runs = Runs(store, cluster, quiet=True)
        worker = GenerateWorker(settings, {"passages": _Whole(corpus)})
        ways: dict[str, Callable[[int], float]] = {
            "aiohttp": lambda number: bare(url, bodies),
            "stage": lambda number: on_ray(runs, settings, over, stored, number),
            "worker": lambda number: in_threads(worker, asked, found),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        busy: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(rounds + 1):
            for name, way in ways.items():
                took = way(number)
                with urllib.request.urlopen(url.replace("/v1", "/busy")) as response:
                    served = json.load(response)
                if number:  # the first round is not counted: modules are imported
                    seconds[name].append(took)
                    busy[name].append(served)
        close_engines()
    process.terminate()
    print(f"rows: {rows:,}, {SECONDS * 1000:.0f} ms each, {AT_ONCE} at a time, {rounds} rounds, medians")
    for what, times in (("from the first request to the last", busy), ("with everything", seconds)):
        base = statistics.median(times["aiohttp"])
        print(f"{what}:")
        for name, each in times.items():
            middle = statistics.median(each)
            print(f"  {name + ':':9} {rows / middle:6,.0f} rows/s, {base / middle:.2f} of aiohttp's")


def _bodies(settings: GeneratorSettings, asked: pa.Table, found: pa.Table, corpus: pa.Table) -> list[bytes]:
    """What the stage sends, as the stage writes it."""
    sent: list[Prompt] = []
    worker = GenerateWorker(settings, {"passages": _Whole(corpus)})
    prepared = worker._prepare(asked.to_pylist(), found.to_pylist())
    sent.extend(row.prompt for row in prepared if row.prompt is not None)
    model = Model(settings.model, settings.mode, settings.chat_options)
    return [json.dumps(request(model, prompt, settings.sampling, ())).encode() for prompt in sent]


if __name__ == "__main__":
    main()
