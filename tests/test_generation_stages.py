"""Generation and judging as stages: a server that misbehaves, on real Ray and from the command line."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rat_ray import tables
from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.generate.worker import GenerateWorker, GeneratorSettings
from rat_ray.settings import conf_dir
from rat_ray.stage import Runs, Stage, import_table
from rat_ray.store import Store, Table
from tests.commandline import rat_ray, refuse_here, succeed
from tests.faulty import kill_now, meanwhile, wait_for
from tests.generate.llm_server import Do, LlmServer, answer, llm_server, text_of

ROWS = 48
TOGETHER, RANGE_ROWS = 4, 4
PROMPTS = {"open": "{% for p in passages %}{{ p.text }}\n{% endfor %}{{ question }}"}


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with llm_server() as running:
        yield running


class Told(GenerateWorker):
    """Writes down the process that it is in."""

    def __init__(self, settings: GeneratorSettings, inputs: Mapping[str, Any]) -> None:
        (Path(settings.abstention_phrase) / str(os.getpid())).touch()
        super().__init__(settings, inputs)


def generate(store: Store, server: LlmServer, pids: Path) -> Stage:
    names = [f"q{i}" for i in range(ROWS)]
    questions = pa.Table.from_pylist(
        [{"question_id": name, "question": f"what is {name}", "shape": "open"} for name in names], tables.QUESTIONS
    )
    passages = pa.Table.from_pylist([{"passage_id": "p", "title": "t", "text": "some words"}], tables.PASSAGES)
    found = [{"question_id": name, "passage_ids": ["p"], "scores": [1.0]} for name in names]
    pids.mkdir()
    return Stage(
        table="answers",
        label="answer",
        settings=GeneratorSettings(
            kind="openai", model="tiny", n_ctx=0, server=server.settings().server, prompts=PROMPTS,
            abstention_phrase=str(pids),
        ),
        worker=Told,
        over={
            "questions": stored(store, "questions", questions),
            "retrievals": stored(store, "retrievals", pa.Table.from_pylist(found, tables.RETRIEVALS)),
        },
        schema=tables.ANSWERS,
        inputs={"passages": stored(store, "passages", passages)},
        resources=Resources(range_rows=RANGE_ROWS, workers=1),
        together=TOGETHER,
    )  # fmt: skip


def stored(store: Store, name: str, table: pa.Table) -> Table:
    return import_table(store, name, "k", name, table.schema, lambda: iter([table]))


@pytest.mark.ray
def test_a_worker_killed_with_several_ranges_at_work(store: Store, server: LlmServer, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    server.delay = lambda text: 0.2 + 0.05 * (len(server.bodies) % 5)  # answers come out of order
    stage = generate(store, server, pids)

    def kill_one() -> None:
        wait_for(lambda: len(server.bodies) >= 20, "some requests")
        [pid] = pids.iterdir()
        kill_now(int(pid.name))

    with Cluster(ClusterSettings(use="always", cpus=2)) as cluster:
        runs = Runs(store, cluster, quiet=True)
        with meanwhile(kill_one):
            [table] = runs.run([stage], "answer")
    assert [(record.new_rows, record.row_errors) for record in runs.records] == [(ROWS, 0)]
    rows = table.read().to_pylist()
    assert [(row["question_id"], row["answer"]) for row in rows] == [(f"q{i}", f"q{i}") for i in range(ROWS)]
    asked = Counter(text_of(body) for body in server.bodies)
    assert len(asked) == ROWS
    assert sum(asked.values()) - ROWS <= TOGETHER * RANGE_ROWS, "only what was at work is asked again"
    assert server.most > RANGE_ROWS, "several ranges were at work at once"

    # The same in a plain loop: the same key, and the same content.
    here = Store(tmp_path / "here")
    here.prepare()
    shutil.rmtree(pids)
    server.delay = lambda text: 0.0
    [again] = Runs(here, Cluster(ClusterSettings(use="never")), quiet=True).run([generate(here, server, pids)], "here")
    assert (again.key, again.digest) == (table.key, table.digest)
    assert again.read().equals(table.read())


def usual(body: Mapping[str, Any]) -> Do | None:
    return Do(content=answer(body, '{"verdict": "yes"}')) if "response_format" in body else None


def test_only_what_changed_is_asked_again(server: LlmServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-nobody-may-see-this")
    server.key = "sk-nobody-may-see-this"
    server.rule = usual

    def evaluate(out: str, *more: str) -> Counter[str]:
        """What kinds of prompts were asked."""
        server.bodies.clear()
        given = [
            f"{part}.server.{name}"
            for part in ("generator", "judge")
            for name in (f"url={server.url}", "key_variable=MY_KEY")
        ]
        settings = ["dataset=demo", "dataset.limit=9", "generator=server", "judge=gpt_4o_mini", "judge.model=tiny"]
        print(succeed("evaluate", *settings, *given, "cluster.use=never", f"out={out}", *more, cwd=tmp_path))
        judged = [body for body in server.bodies if "response_format" in body]
        asked = Counter("t" if "Given answer" in text_of(body) else "r" for body in judged)
        return asked + Counter(answers=len(server.bodies) - len(judged))

    asked = evaluate("one")
    assert (asked["answers"], asked["r"]) == (9, 9)
    assert 0 < asked["t"] <= 9
    shutil.copytree(conf_dir() / "prompt" / "judge_chat", tmp_path / "mine")
    with (tmp_path / "mine" / "t.jinja").open("a") as template:
        template.write("\nThink of spelling.")
    assert evaluate("two", "judge.prompt=./mine") == Counter(t=asked["t"])
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"nobody-may-see" not in path.read_bytes(), path


def test_a_bad_prompt_or_server_is_known_before_any_work(server: LlmServer, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "open.jinja").write_text("{{ question }} {{ nothing }}")
    job = ["evaluate", "dataset=demo", "generator=server", f"generator.server.url={server.url}", "judge=none"]
    for dry in ("true", "false"):
        said = refuse_here(*job, "generator.prompt=./mine", f"dry_run={dry}", cwd=tmp_path)
        assert said.strip() == "error: prompt ./mine/open: 'nothing' is undefined"
    server.models_do = Do(500, {"error": {"message": "oops"}})
    done = rat_ray(*job, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        1,
        f"error: server.url={server.url}: no answer after 3 tries (HTTP 500: oops)\n",
    )
    assert not server.bodies
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
