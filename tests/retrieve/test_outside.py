"""Evidence recall on 500 real questions beside another implementation's (skipped where the shared data are absent)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.retrieve import outside
from tests.retrieve.outside import Case, Outside, figures, relevance


@pytest.fixture(scope="module")
def real(shared_data: Path) -> Outside:
    found = outside.read_outside(shared_data)
    assert (found.questions.num_rows, found.pool.num_rows, found.everything.num_rows) == (500, 4937, 6783)
    return found


@pytest.mark.parametrize("retriever", ["bm25", "dense", "rerank"])
def test_our_measures_of_its_lists_are_its_own(real: Outside, retriever: str) -> None:
    """Question by question: somebody else's any, full and reciprocal rank, computed from the same lists."""
    rows = relevance(real, outside.theirs(real, retriever)).to_pylist()
    for row, other in zip(rows, real.outcomes[retriever], strict=True):
        assert row["question_id"] == other["qid"]
        for k in (2, 5, 10):
            assert (row["rank_any"] is not None and row["rank_any"] <= k) == other[f"any@{k}"]
            assert (row["rank_full"] is not None and row["rank_full"] <= k) == other[f"full@{k}"]
        assert row["rr"] == pytest.approx(other["rr@10"], abs=1e-6)


def test_the_other_finds_what_it_says(real: Outside) -> None:
    found = figures(real, outside.theirs(real, "bm25"))
    assert found["any@2"] == pytest.approx(0.748)
    assert found["full@10"] == pytest.approx(0.500)


def test_with_stemming_and_titles_more_is_found_than_by_the_other(real: Outside, tmp_path: Path) -> None:
    """Measured .890 and .786 among its passages, .894 and .774 among all."""
    for name, passages in (("pool", real.pool), ("all", real.everything)):
        found = figures(real, outside.ours(real, passages, tmp_path / name))
        assert 0.87 <= found["any@2"] <= 0.91, name
        assert 0.76 <= found["full@10"] <= 0.80, name


def test_plain_words_without_titles_come_near_the_other(real: Outside) -> None:
    """Measured .770 and .572."""
    found = figures(real, outside.bm25s_words(real, real.pool))
    assert 0.76 <= found["any@2"] <= 0.78
    assert 0.56 <= found["full@10"] <= 0.58


def test_the_other_can_be_made_again(real: Outside) -> None:
    """With the older idf too, the passages of its lists are ours, but for ties at the end of a list."""
    case, other = outside.okapi_words(real, real.pool), outside.theirs(real, "bm25")
    pairs = list(zip(_sets(case), _sets(other), strict=True))
    assert sum(mine == its for mine, its in pairs) >= 0.99 * len(pairs)
    assert figures(real, case)["full@10"] == pytest.approx(0.500, abs=0.005)


def _sets(case: Case) -> list[set[str]]:
    return [set(one) for one in case.lists["passage_ids"].to_pylist()]
