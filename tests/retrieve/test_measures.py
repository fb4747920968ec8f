"""Ranks, MRR and nDCG per question, and their means with intervals."""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import beta

from rat_ray import tables
from rat_ray.annotate.evidence import evidence_label
from rat_ray.errors import MissingExtraError, StageError
from rat_ray.retrieve.measures import (
    SUMMARY,
    MeasureWorker,
    Ranks,
    ranks_of,
    retrieval_rows,
    summarise,
)
from rat_ray.tables import RELEVANCE, RETRIEVAL

Evidence = list[list[str]] | None


def measured(evidence: Sequence[Evidence], lists: Sequence[list[str] | None], **columns: Any) -> pa.Table:
    """What the worker makes of these questions and lists; a list None stands for a retrieval that failed."""
    ids = [f"q{index}" for index in range(len(evidence))]
    questions = pa.Table.from_pylist(
        [{"question_id": one, "question": "?", "evidence": sets} for one, sets in zip(ids, evidence, strict=True)],
        schema=tables.QUESTIONS,
    )
    retrievals = pa.Table.from_pylist(
        [
            {
                "question_id": one,
                "passage_ids": ranked,
                "scores": None if ranked is None else [1.0] * len(ranked),  # all alike: the order alone must count
                "error": "lost" if ranked is None else None,
            }
            for one, ranked in zip(ids, lists, strict=True)
        ],
        schema=tables.RETRIEVALS,
    )
    found = MeasureWorker({}, {})({"questions": questions, "retrievals": retrievals})
    tables.check_table(found, RELEVANCE, "relevance")
    return found


def row_of(summary: pa.Table, measure: str, k: int | None) -> dict[str, Any]:
    [row] = [row for row in summary.to_pylist() if row["measure"] == measure and row["k"] == k]
    return row


def random_case(draw: random.Random) -> tuple[list[list[str]], list[str]]:
    names = [f"p{index}" for index in range(12)]
    sets = [draw.sample(names, draw.randint(1, 3)) for _ in range(draw.randint(1, 3))]
    return sets, draw.sample(names, draw.randint(0, 9))


def test_a_worked_example() -> None:
    """Two sets; the second is whole at rank 5, the first never. Relevant at ranks 2, 4 and 5, of four in all."""
    [row] = measured([[["a", "b"], ["c", "d"]]], [["x", "c", "y", "a", "d", "z"]]).to_pylist()
    gained = sum(1 / math.log2(rank + 1) for rank in (2, 4, 5))
    best = sum(1 / math.log2(rank + 1) for rank in (1, 2, 3, 4))
    assert row == {
        "question_id": "q0",
        "status": "measured",
        "rank_any": 2,
        "rank_full": 5,
        "passages": 6,
        "rr": 0.5,
        "ndcg@10": pytest.approx(gained / best, abs=1e-12),
    }


def test_what_stands_behind_the_tenth_place_counts_for_ranks_and_not_for_ndcg() -> None:
    [row] = measured([[["a"]]], [[*(f"x{index}" for index in range(10)), "a"]]).to_pylist()
    assert (row["rank_any"], row["rank_full"], row["rr"], row["ndcg@10"]) == (11, 11, pytest.approx(1 / 11), 0.0)


def test_nothing_found_is_a_zero_and_nothing_known_is_missing() -> None:
    evidence: list[Evidence] = [[["a"]], [["a"]], None, [], [[]], [["a"]]]
    lists = [["x"], [], ["a"], ["a"], ["a"], None]
    rows = measured(evidence, lists).to_pylist()
    assert [row["status"] for row in rows] == ["measured", "measured", "unknown", "absent", "absent", "failed"]
    assert [row["rr"] for row in rows] == [0.0, 0.0, None, None, None, None]
    assert [row["ndcg@10"] for row in rows] == [0.0, 0.0, None, None, None, None]
    assert [row["passages"] for row in rows] == [1, 0, 1, 1, 1, None]
    assert {row[name] for row in rows for name in ("rank_any", "rank_full")} == {None}


def test_full_any_and_the_fraction_of_recall_differ() -> None:
    """One of two passages found: any is 1, the whole set 0, and a fraction would say one half."""
    assert ranks_of([["a", "b"]], ["a", "x"]) == Ranks(1, None)
    assert ranks_of([["a", "b"], ["c"]], ["a", "x", "c", "b"]) == Ranks(1, 3)


def test_a_passage_that_is_listed_twice_has_its_better_rank() -> None:
    [row] = measured([[["a"]]], [["x", "a", "y", "a"]]).to_pylist()
    assert (row["rank_any"], row["rr"]) == (2, 0.5)


def test_ids_of_any_characters(capfd: pytest.CaptureFixture[str]) -> None:
    """trec_eval takes an id to end at a NUL, and would see one passage twice."""
    [row] = measured([[["b\0b"], ["é\0", "é"]]], [["b\0a", "b\0b", "b", "é"]]).to_pylist()
    gained, best = (sum(1 / math.log2(rank + 1) for rank in ranks) for ranks in ((2, 4), (1, 2, 3)))
    assert (row["rank_any"], row["rank_full"], row["rr"]) == (2, 2, 0.5)
    assert row["ndcg@10"] == pytest.approx(gained / best, abs=1e-12)
    assert "duplicate" not in "".join(capfd.readouterr())


def test_ranks_agree_with_brute_force_and_with_the_label_of_r() -> None:
    draw = random.Random(5)
    for _ in range(500):
        sets, ranked = random_case(draw)
        ks = range(1, len(ranked) + 1)
        whole = [k for k in ks if any(set(each) <= set(ranked[:k]) for each in sets)]
        some = [k for k in ks if any(set(each) & set(ranked[:k]) for each in sets)]
        assert ranks_of(sets, ranked) == Ranks(min(some, default=None), min(whole, default=None))
        for k in ks:
            full = ranks_of(sets, ranked).full
            assert evidence_label(sets, ranked[:k]) == int(full is not None and full <= k)


def test_any_is_the_success_of_ir_measures_and_the_rest_is_hand_computed() -> None:
    import ir_measures
    from ir_measures import Success

    draw = random.Random(6)
    cases = [random_case(draw) for _ in range(200)]
    found = measured([sets for sets, _ in cases], [ranked for _, ranked in cases]).to_pylist()
    relevant = {f"q{row}": {one: 1 for each in sets for one in each} for row, (sets, _) in enumerate(cases)}
    run = {f"q{row}": {one: 100.0 - rank for rank, one in enumerate(ranked)} for row, (_, ranked) in enumerate(cases)}
    success = {
        (one.query_id, one.measure): one.value
        for one in ir_measures.iter_calc([Success @ k for k in (1, 2, 5)], relevant, run)
    }
    for row, (sets, ranked) in zip(found, cases, strict=True):
        for k in (1, 2, 5):
            within = row["rank_any"] is not None and row["rank_any"] <= k
            assert within == (success[row["question_id"], Success @ k] == 1)
        assert row["rr"] == pytest.approx(0 if row["rank_any"] is None else 1 / row["rank_any"], abs=1e-12)
        wanted = set(itertools.chain(*sets))
        gained = sum(1 / math.log2(rank + 1) for rank, one in enumerate(ranked[:10], 1) if one in wanted)
        best = sum(1 / math.log2(rank + 1) for rank in range(1, min(10, len(wanted)) + 1))
        assert row["ndcg@10"] == pytest.approx(gained / best, abs=1e-9)


def test_tables_of_different_questions_are_refused() -> None:
    questions = pa.Table.from_pylist([{"question_id": "a", "question": "?"}], schema=tables.QUESTIONS)
    retrievals = pa.Table.from_pylist([{"question_id": "b", "passage_ids": []}], schema=tables.RETRIEVALS)
    with pytest.raises(StageError, match="same questions"):
        MeasureWorker({}, {})({"questions": questions, "retrievals": retrievals})


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(MissingExtraError, match=r"rat_ray\[local\]"):
        MeasureWorker({}, {})


def test_shares_are_beta_posteriors_over_the_measured_questions() -> None:
    evidence: list[Evidence] = [[["a", "b"]]] * 8 + [None, [], [["a"]]]
    lists = [["a", "b"]] * 3 + [["a", "x", "b"]] * 2 + [["x"]] * 3 + [["a"], ["a"], None]
    summary = summarise(measured(evidence, lists), depth=20)
    tables.check_table(summary, SUMMARY, "summary")
    row = row_of(summary, "recall_full", 2)
    assert (row["observed"], row["mean"]) == (3 / 8, pytest.approx(4 / 10))
    assert (row["q2.5"], row["q97.5"]) == pytest.approx(tuple(beta.ppf([0.025, 0.975], 4, 6)))
    assert (row["questions"], row["absent"], row["unknown"], row["failed"]) == (8, 1, 1, 1)
    assert row_of(summary, "recall_full", 5)["observed"] == 5 / 8
    assert row_of(summary, "recall_any", 1)["observed"] == 5 / 8
    assert row_of(summary, "mrr", None)["observed"] == pytest.approx(5 / 8)
    assert row_of(summary, "mrr", None)["mean"] == pytest.approx(6 / 10)


def test_a_list_that_was_cut_has_no_recall_beyond_its_end_and_a_short_one_has() -> None:
    """Depth decides, not the length: a list of two whose retriever was asked for twenty is whole."""
    relevance = measured([[["a"]], [["b"]]], [["a", "x"], ["x", "y"]])
    cut = summarise(relevance, depth=5)
    for k in (1, 2, 5):
        assert row_of(cut, "recall_any", k)["deep_enough"] == 1
    for measure, k in (("recall_any", 10), ("recall_full", 100), ("ndcg", 10)):
        row = row_of(cut, measure, k)
        assert [row[name] for name in ("deep_enough", "mean", "q2.5", "q97.5", "observed")] == [0] + [None] * 4
    assert row_of(cut, "mrr", None)["observed"] == 0.5
    assert row_of(summarise(relevance, depth=100), "recall_any", 100)["observed"] == 0.5


@pytest.mark.parametrize("size", [1, 40])
def test_all_found_at_once_is_no_certainty(size: int) -> None:
    summary = summarise(measured([[["a"]]] * size, [["a", "x"]] * size), depth=20)
    for row in summary.to_pylist():
        if row["mean"] is not None:
            assert row["observed"] == 1.0
            assert 0 < row["q2.5"] < row["mean"] < row["q97.5"] < 1


@pytest.mark.parametrize("evidence", [[], [None, []]])
def test_without_a_measured_question_every_mean_is_missing(evidence: list[Evidence]) -> None:
    summary = summarise(measured(evidence, [["a"]] * len(evidence)), depth=20)
    tables.check_table(summary, SUMMARY, "summary")
    assert set(summary["mean"].to_pylist()) == {None}
    assert set(summary["questions"].to_pylist()) == {0}


def test_the_bootstrap_is_the_beta_posterior_where_all_values_are_0_or_1() -> None:
    summary = summarise(measured([[["a"]]] * 50, [["a"]] * 35 + [["x"]] * 15), depth=1, ks=(1,))
    share, mean = row_of(summary, "recall_any", 1), row_of(summary, "mrr", None)
    assert mean["mean"] == pytest.approx(share["mean"])
    assert [mean["q2.5"], mean["q97.5"]] == pytest.approx([share["q2.5"], share["q97.5"]], abs=0.01)


def test_the_bootstrap_holds_the_true_mean_about_as_often_as_it_says() -> None:
    """Reciprocal ranks of 60 questions, drawn 300 times from a known law: 95 % within three standard errors."""
    law, values = [0.4, 0.2, 0.1, 0.3], np.array([1.0, 0.5, 0.2, 0.0])
    draw = np.random.default_rng(11)
    held = 0
    for _ in range(300):
        rr = draw.choice(values, size=60, p=law)
        relevance = pa.table(
            {
                "question_id": [str(index) for index in range(60)],
                "status": ["measured"] * 60,
                "rank_any": [None] * 60,
                "rank_full": [None] * 60,
                "passages": [5] * 60,
                "rr": rr,
                "ndcg@10": rr,
            },
            schema=RELEVANCE,
        )
        row = row_of(summarise(relevance, depth=5, ks=()), "mrr", None)
        held += row["q2.5"] <= float(values @ law) <= row["q97.5"]
    assert 0.95 - 3 * math.sqrt(0.95 * 0.05 / 300) <= held / 300


def test_the_same_questions_give_the_same_table_in_any_order() -> None:
    draw = random.Random(7)
    cases = [random_case(draw) for _ in range(80)]
    found = measured([sets for sets, _ in cases], [ranked for _, ranked in cases])
    shuffled = found.take(pa.array(draw.sample(range(80), 80)))
    assert summarise(found, depth=20).equals(summarise(shuffled, depth=20))
    for measure, k in (("mrr", None), ("ndcg", 10)):
        lows = [row_of(summarise(found, depth=20, seed=seed), measure, k)["q2.5"] for seed in (1, 2)]
        assert lows[0] != lows[1]
        assert lows[0] == pytest.approx(lows[1], abs=0.02)


def test_rows_name_their_configuration() -> None:
    summary = summarise(measured([[["a"]]], [["a"]]), depth=20, ks=(3, 1, 3))
    table = retrieval_rows("nq-bm25-plain", "nq", "bm25", 3, summary)
    tables.check_table(table, RETRIEVAL, "retrieval")
    assert table.num_rows == summary.num_rows == 6
    assert set(table["config"].to_pylist()) == {"nq-bm25-plain"}
    assert set(table["used"].to_pylist()) == {3}
