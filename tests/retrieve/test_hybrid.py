"""Reciprocal rank fusion against numbers worked out by hand, and the merging of shards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from rat_ray import tables
from rat_ray.errors import InputError, StageError
from rat_ray.retrieve.hits import Hits
from rat_ray.retrieve.hybrid import HybridRetrieve, HybridSettings, fuse
from rat_ray.retrieve.kinds import RETRIEVE, RETRIEVERS, Bm25Settings, DenseSettings, RerankSettings, reach
from rat_ray.retrieve.merge import merge


def retrievals(lists: list[list[str] | None], errors: list[str | None] | None = None) -> pa.Table:
    return pa.table(
        {
            "question_id": [f"q{index}" for index in range(len(lists))],
            "passage_ids": lists,
            "scores": [None if names is None else [1.0 / n for n in range(1, len(names) + 1)] for names in lists],
            "error": errors or [None] * len(lists),
        },
        schema=tables.RETRIEVALS,
    )


def run(settings: HybridSettings, **rows: pa.Table) -> list[dict[str, Any]]:
    found = HybridRetrieve(settings, {})(rows)
    tables.check_table(found, tables.RETRIEVALS, "hybrid")
    result: list[dict[str, Any]] = found.to_pylist()
    return result


def test_a_worked_example() -> None:
    # a: rank 1 and 3, 1/61 + 1/63 = 0.0322665; c: rank 3 and 1, the same, so a comes before c by id
    # b: rank 2 in the first, 1/62 = 0.0161290; d: rank 2 in the second, the same, so b comes before d
    hits = fuse([["a", "b", "c"], ["c", "d", "a"]], k=60, depth=20)
    assert hits.passage_ids == ["a", "c", "b", "d"]
    assert hits.scores == pytest.approx([0.0322664585, 0.0322664585, 0.0161290323, 0.0161290323], abs=1e-9)
    assert fuse([["a", "b"], ["b", "a", "c"]], k=0, depth=2) == Hits(["a", "b"], [1.5, 1.5])


def test_the_order_of_the_lists_decides_no_tie() -> None:
    # a has the ranks 1, 7, 2 and b 2, 1, 7. Added up from left to right, floats give b more in the last bit.
    assert 1 / 61 + 1 / 67 + 1 / 62 < 1 / 62 + 1 / 61 + 1 / 67
    lists = [["a", "b"], ["b", *"uvwxy", "a"], ["c", "a", *"defg", "b"]]
    for turned in (lists, lists[1:] + lists[:1], lists[::-1]):
        hits = fuse(turned, k=60, depth=2)
        assert hits.passage_ids == ["a", "b"]
        assert hits.scores[0] == hits.scores[1]


def test_any_names_and_lists_that_are_short_or_empty() -> None:
    rows = run(HybridSettings(depth=2), one=retrievals([["a", "b", "c"], [], []]), two=retrievals([["b"], ["z"], []]))
    assert [row["passage_ids"] for row in rows] == [["b", "a"], ["z"], []]
    assert rows[1]["scores"] == [1 / 61]


def test_a_question_that_failed_in_one_fails_in_the_fusion() -> None:
    rows = run(
        HybridSettings(), bm25=retrievals([["a"], ["a"]]), dense=retrievals([None, ["b"]], ["out of memory", None])
    )
    assert rows[0] == {"question_id": "q0", "passage_ids": None, "scores": None, "error": "dense: out of memory"}
    assert rows[1]["passage_ids"] == ["a", "b"]


def test_other_questions_are_refused() -> None:
    one = retrievals([["a"], ["b"]])
    with pytest.raises(StageError, match="same questions"):
        run(HybridSettings(), bm25=one, dense=one.take([1, 0]))


def test_no_questions() -> None:
    assert run(HybridSettings(), bm25=retrievals([]), dense=retrievals([])) == []


def test_merging_shards_keeps_the_best_and_one_order() -> None:
    shards = [Hits(["b", "d"], [0.9, 0.5]), Hits([], []), Hits(["a", "c", "e"], [0.9, 0.7, 0.5])]
    expected = Hits(["a", "b", "c", "d"], [0.9, 0.9, 0.7, 0.5])
    assert merge(shards, 4) == expected
    assert merge(shards[::-1], 4) == expected
    assert merge([], 4) == Hits([], [])


def test_bad_settings() -> None:
    for change, part in (
        ({"of": ["bm25"]}, "at least two"),
        ({"of": ["a", "a"]}, "each once"),
        ({"depth": 0}, "depth=0"),
    ):
        with pytest.raises(InputError) as caught:
            replace(HybridSettings(), **change).validate()
        assert part in str(caught.value)


def test_the_registry_knows_each_kind_by_its_settings() -> None:
    for kind, entry in RETRIEVERS.items():
        settings = entry.settings()
        assert settings.kind == kind
        searches = entry.level == RETRIEVE
        assert searches == bool(settings.steps()) == (not settings.parts()), "an index or other retrievers' lists"
        assert {*settings.search_inputs()} <= {step.name for step in settings.steps()}


def test_a_hybrid_names_its_parts_in_the_order_given() -> None:
    assert HybridSettings(of=["rerank", "bm25", "hybrid_small"]).parts() == ["rerank", "bm25", "hybrid_small"]


def test_only_the_window_of_each_list_counts() -> None:
    names = [[["a", "b", "c"]], [["d", "c", "a"]]]
    rows = {name: retrievals([one]) for name, [one] in zip(("x", "y"), names, strict=True)}
    for window, expected in ((0, ["a", "c", "d", "b"]), (2, ["a", "d", "b", "c"]), (1, ["a", "d"])):
        made = HybridRetrieve(HybridSettings(window=window), {})(rows)
        assert made.column("passage_ids").to_pylist() == [expected], window


def test_a_list_reaches_as_far_as_the_lists_that_it_is_made_from() -> None:
    retrievers = {
        "bm25": Bm25Settings(depth=50),
        "dense": DenseSettings(depth=100),
        "fused": HybridSettings(of=["bm25", "dense"], window=0),
        "narrow": HybridSettings(of=["bm25", "dense"], window=20),
        "again": HybridSettings(of=["fused", "dense"], window=0, depth=70),
        "reranked": RerankSettings(of="fused", top=30, depth=10),
    }
    found = {name: reach(retrievers, name) for name in retrievers}
    assert found == {"bm25": 50, "dense": 100, "fused": 50, "narrow": 20, "again": 50, "reranked": 10}
