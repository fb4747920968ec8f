"""The graph: what is equal is one node, planning needs nothing to be there, and a failure drops only what needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from rat_ray import tables
from rat_ray.cli import main
from rat_ray.cluster import Cluster, ClusterSettings
from rat_ray.graph import LEVELS, Graph, Import, NotKnownError, Tables, Walk, plan_of
from rat_ray.keys import digest_of
from rat_ray.stage import Runs, Stage
from rat_ray.store import Store
from tests.servers import free_port
from tests.workers import Echo, EchoSettings

ROWS = pa.table(
    {name: pa.array(["q1", "q2"] if name == "question_id" else [None, None], tables.QUESTIONS.field(name).type)
     for name in tables.QUESTIONS.names}
).set_column(1, tables.QUESTIONS.field("question"), pa.array(["who", "where"]))  # fmt: skip


def questions(_: Tables) -> Import:
    rows = ROWS.cast(tables.QUESTIONS)
    return Import("questions", digest_of("questions"), "demo", tables.QUESTIONS, lambda: iter([rows]), 2)


def echo(settings: EchoSettings, label: str, found: Tables) -> Stage:
    # A verdict row is no question, but has its id: enough for a chain of stages.
    over = {"questions": next(iter(found.values()))}
    return Stage("verdicts", label, settings, Echo, over, tables.VERDICTS, inputs={})


def add(graph: Graph, level: str, value: str, needs: Mapping[str, str], **more: str) -> str:
    settings = EchoSettings(value=value, **more)
    return graph.add(level, "verdicts", f"{level} {value}", settings, partial(echo, settings, value), needs=needs)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    store = Store(tmp_path / "store")
    store.prepare()
    return Runs(store, Cluster(ClusterSettings(use="never")), quiet=True)


def always(level: str, stages: Sequence[Stage]) -> bool:
    return True


def test_equal_settings_and_needs_are_one_node() -> None:
    graph = Graph()
    imported = graph.add("import", "questions", "demo", {"limit": 1}, questions)
    assert graph.add("import", "questions", "another label", {"limit": 1}, questions) == imported
    assert graph.add("import", "questions", "demo", {"limit": 2}, questions) != imported
    first = add(graph, "answer", "a", {"questions": imported})
    assert add(graph, "answer", "a", {"questions": imported}) == first
    assert add(graph, "answer", "a", {"questions": first}) != first, "the same settings on another table"
    assert graph.declared == {"import": 3, "answer": 3}
    assert len(graph.nodes) == 4


def test_settings_outside_the_key_make_no_other_node() -> None:
    graph = Graph()
    assert add(graph, "answer", "a", {}, log="one.log") == add(graph, "answer", "a", {}, log="two.log")


def test_graphs_of_several_jobs_are_joined() -> None:
    one, two = Graph(), Graph()
    for graph, value in ((one, "a"), (two, "b")):
        imported = graph.add("import", "questions", "demo", {}, questions)
        add(graph, "answer", value, {"questions": imported})
    union = Graph()
    union.include(one)
    union.include(two)
    assert [len(union.at(level)) for level in ("import", "answer")] == [1, 2]
    assert union.declared == {"import": 2, "answer": 2}


def test_a_failure_drops_what_needs_it_and_nothing_else(runs: Runs) -> None:
    graph = Graph()
    imported = graph.add("import", "questions", "demo", {}, questions)
    good = add(graph, "answer", "good", {"questions": imported})
    bad = add(graph, "answer", "bad", {"questions": imported}, fail_at="q2")
    judged = {name: add(graph, "judge", name, {"answers": node}) for name, node in {"g": good, "b": bad}.items()}
    wanting = graph.add("count", "verdicts", "both", {}, partial(echo, EchoSettings("w"), "w"), {"a": good}, {"b": bad})
    walk = Walk(graph)
    walk.run(runs, always)
    assert set(walk.tables) == {imported, good, judged["g"], wanting}
    for node in (bad, judged["b"]):
        failure = walk.why(node)
        assert failure is not None
        assert failure.label == "bad", "the stage that failed, not the one that was dropped"
        assert "cannot handle q2" in failure.message
    assert walk.why(good, judged["g"], wanting) is None
    assert walk.why(good, judged["b"]) == walk.why(bad)


def test_levels_follow_each_other_whatever_the_order_of_declaration(runs: Runs) -> None:
    graph = Graph()
    imported = graph.add("import", "questions", "demo", {}, questions)
    for name in ("a", "b"):
        answers = add(graph, "answer", name, {"questions": imported})
        add(graph, "judge", f"judge-{name}", {"answers": answers})
    Walk(graph).run(runs, always)
    assert [record.label for record in runs.records] == ["a", "b", "judge-a", "judge-b"]
    assert LEVELS.index("judge") > LEVELS.index("answer")


def test_finding_makes_nothing_and_knows_what_is_there(runs: Runs, tmp_path: Path) -> None:
    def declared(value: str) -> Graph:
        graph = Graph()
        imported = graph.add("import", "questions", "demo", {}, questions)
        add(graph, "judge", "verdict", {"answers": add(graph, "answer", value, {"questions": imported})})
        return graph

    Walk(declared("a")).run(runs, always)
    before = sorted(tmp_path.rglob("*"))
    plans = {}
    for value in ("a", "b"):
        graph = declared(value)
        walk = Walk(graph)
        walk.find(runs.store)
        plans[value] = [(row.level, row.distinct, row.stored) for row in plan_of(graph, walk)]
    # The verdicts do not depend on what the answer says, but that cannot be known before it was given.
    assert plans["a"] == [("import", 1, 1), ("answer", 1, 1), ("judge", 1, 1)]
    assert plans["b"] == [("import", 1, 1), ("answer", 1, 0), ("judge", 1, 0)]
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_not_known_is_not_found(runs: Runs) -> None:
    def unread(_: Tables) -> Import:
        raise NotKnownError("not read yet")

    graph = Graph()
    imported = graph.add("import", "questions", "demo", {}, unread)
    answers = add(graph, "answer", "a", {"questions": imported})
    walk = Walk(graph)
    walk.find(runs.store)
    assert not walk.tables
    assert set(walk.failures) == {imported, answers}


GENERATORS = {
    "paper": ("apertus_8b", "gemma3_12b", "qwen3_5_9b"),
    "paper_small": ("gemma3_270m_policy", "gemma3_270m_eager", "gemma3_270m_careful"),
}
SMALL = {
    "import": (54, 6),  # passages and questions of three datasets
    "index": (72, 12),  # BM25 in three steps and dense in one, for themselves and for the hybrid
    "retrieve": (36, 6),
    "fuse": (9, 3),
    "gather": (27, 9),
    "measure": (27, 9),
    "answer": (27, 27),
    "contexts": (27, 27),
    "judge": (54, 54),
    "label": (27, 27),
    "count": (27, 27),
    "fit": (27, 27),
    "summarise": (54, 54),
    "allocate": (54, 54),
}
PAPER = {**SMALL, "import": (54, 4), "index": (72, 4)}  # one snapshot of Wikipedia for all three


@pytest.mark.parametrize("experiment", ["paper", "paper_small"])
def test_the_27_configurations_are_planned_with_nothing_there(
    experiment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAT_CACHE", str(tmp_path / "cache"))
    assert main(["evaluate", f"experiment={experiment}", "dry_run=true"]) == 0
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines()]
    levels = {row[0]: (int(row[1]), int(row[2])) for row in rows if row and row[0] in LEVELS}
    assert levels == (PAPER if experiment == "paper" else SMALL)
    assert {int(row[3]) for row in rows if row and row[0] in LEVELS} == {0}, "nothing is in the store"
    assert "27 configurations" in printed
    assert "dataset hotpotqa: dataset.path=data/hotpotqa: there is no such folder" in printed
    for name in GENERATORS[experiment]:
        assert f"--- generator {name}, " in printed, "the first prompt of each"
    assert not list(tmp_path.iterdir()), "a dry run writes nothing"


@pytest.mark.parametrize("store", ["file", "file/below", "s3://nowhere/x"])
def test_a_dry_run_says_that_the_store_cannot_be_reached(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    (tmp_path / "file").write_text("mine")
    storage = [f"storage.endpoint=http://127.0.0.1:{free_port()}", "storage.region=us-east-1", "storage.patience=0.5"]
    assert main(["evaluate", "dry_run=true", f"store={store}", *storage]) == 0
    printed = capsys.readouterr().out
    [said] = [line for line in printed.splitlines() if "the store cannot be reached" in line]
    assert ("no connection" if "://" in store else "Not a directory") in said
    assert "in the store" not in printed.splitlines()[0]
    assert ["fit", "1", "1"] in [line.split() for line in printed.splitlines()]
    assert (tmp_path / "file").read_text() == "mine"


def test_what_is_missing_is_told_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", "experiment=paper"]) == 2
    said = capsys.readouterr().err
    for what in ("dataset fever", "dataset natural_questions", "generator qwen3_5_9b", "judge gemma3_27b"):
        assert what in said
    assert not list(tmp_path.iterdir())
