"""The pool, the order, what a strategy buys of it, and what it costs."""

from __future__ import annotations

import numpy as np
import pytest

from rat_ray.allocate.costs import Costs
from rat_ray.allocate.plan_next import base_asks, missing_words, next_asks
from rat_ray.allocate.plan_pool import A, R, T, pool_of
from rat_ray.allocate.plan_walk import Book, strategies_for, walk, wanted
from rat_ray.errors import InputError
from rat_ray.model.design import Options
from rat_ray.model.patterns import MISSING
from tests.allocate.planned import states, table

ITEMS = 40
FULL = states("abstainer", ITEMS, 1)
POOL = pool_of({"all": table(FULL, 10)}, {"all": []}, 1)


def test_the_order_depends_on_seed_and_ids_alone() -> None:
    other = pool_of({"all": table(states("guesser", ITEMS, 2), 30)}, {"all": []}, 1)
    assert np.array_equal(POOL.sides[0].place, other.sides[0].place)
    again = pool_of({"all": table(FULL, 10)}, {"all": []}, 2)
    assert not np.array_equal(POOL.sides[0].place, again.sides[0].place)


def test_joint_buys_r_everywhere_and_t_of_answers() -> None:
    [mine] = wanted(POOL, "joint", [FULL])
    left = np.arange(ITEMS) >= 10
    assert np.array_equal(mine.r, left)
    assert np.array_equal(mine.t, left & (FULL[:, 1] == 0))
    path = walk(POOL, (mine,), Costs(2.0, 3.0))
    assert path.spent[-1] == 2 * mine.r.sum() + 3 * mine.t.sum()
    assert path.reached(path.spent[-1]) == ITEMS
    assert path.cost(path.reached(20.0)) <= 20.0


def test_t_first_buys_r_only_where_t_is_right() -> None:
    [mine] = wanted(POOL, "t_first", [FULL])
    left = np.arange(ITEMS) >= 10
    assert np.array_equal(mine.r, left & ((FULL[:, 1] == 1) | (FULL[:, 2] == 1)))


def test_counts_are_those_of_the_table_with_the_labels_bought() -> None:
    book = Book(POOL.sides[0])
    [mine] = wanted(POOL, "t_first", [FULL])
    found = book.counts(mine, FULL, [0, 15, ITEMS])
    assert np.array_equal(found[0], book.now)
    for n, reached in zip(found, (0, 15, ITEMS), strict=True):
        near = POOL.sides[0].place < reached
        first = np.arange(ITEMS) < 10
        by_hand = Book(
            pool_of({"all": table(FULL, first | (mine.r & near), first | (mine.t & near))}, {"all": []}, 1).sides[0]
        )
        got = {tuple(row): int(count) for row, count in zip(book.labels.tolist(), n, strict=True) if count}
        assert got == {
            tuple(row): int(count) for row, count in zip(by_hand.labels.tolist(), by_hand.now, strict=True) if count
        }


def test_rounds_go_on_in_the_same_order() -> None:
    first = next_asks(POOL, "t_first", 20, 200)
    assert {one.variable for one in first if FULL[int(one.question_id[1:]), A] == 0} == {"t"}
    r, t = (np.arange(ITEMS) < 10 for _ in range(2))
    for one in first:
        (r if one.variable == "r" else t)[int(one.question_id[1:])] = True
    after = pool_of({"all": table(FULL, r, t)}, {"all": []}, 1)
    second = next_asks(after, "t_first", 30, 200)
    right = {one.question_id for one in first if one.variable == "t" and FULL[int(one.question_id[1:]), T] == 1}
    assert {one.question_id for one in second if one.place < 20} == right  # R of those found right, and nothing else
    assert all(one.variable == "r" and "now R" in one.why for one in second if one.place < 20)
    assert not {(o.variable, o.question_id) for o in first} & {(o.variable, o.question_id) for o in second}
    assert [one.place for one in second] == sorted(one.place for one in second)


def test_what_nobody_could_tell_is_not_asked_again() -> None:
    first = next_asks(POOL, "joint", 20, 3)
    closed = {(one.variable, "all", one.question_id) for one in first}
    again = pool_of({"all": table(FULL, 10)}, {"all": []}, 1, closed)
    assert not closed & {(one.variable, "all", one.question_id) for one in next_asks(again, "joint", ITEMS, 200)}


# --- shared contexts --------------------------------------------------------------------------------------------------


def _shared(r: int = 10) -> dict[str, object]:
    other = states("guesser", ITEMS, 3)
    other[:, R] = FULL[:, R]
    contexts = [f"c{i}" for i in range(ITEMS)]
    return {"one": table(FULL, r, contexts=contexts), "two": table(other, 0, r, contexts=contexts)}


def test_r_of_a_shared_context_is_known_for_all_and_paid_once() -> None:
    pool = pool_of(_shared(), {"one": [], "two": []}, 1)  # type: ignore[arg-type]
    assert pool.shared
    assert np.array_equal(pool.sides[0].labels[:, R], pool.sides[1].labels[:, R])
    bought = wanted(pool, "all_r", [side.labels for side in pool.sides])
    assert bought[0].r.sum() == bought[1].r.sum() == ITEMS - 10
    assert walk(pool, bought, Costs(2.0, 1.0)).spent[-1] == 2 * (ITEMS - 10)
    asks = next_asks(pool, "joint", ITEMS, 500)
    assert sum(one.variable == "r" for one in asks) == ITEMS - 10
    assert {one.serves for one in asks if one.variable == "r"} == {("one", "two")}


def test_adaptive_strategies_are_refused_with_shared_contexts() -> None:
    pool = pool_of(_shared(), {"one": [], "two": []}, 1)  # type: ignore[arg-type]
    assert strategies_for(pool, []) == ("joint", "all_r", "all_t")
    with pytest.raises(InputError, match="t_first chooses R by the answer of one configuration"):
        strategies_for(pool, ["joint", "t_first"])


def test_configurations_with_contexts_of_their_own_may_be_adaptive() -> None:
    tables = {name: table(FULL, 10, contexts=[f"{name}{i}" for i in range(ITEMS)]) for name in ("one", "two")}
    pool = pool_of(tables, {"one": [], "two": []}, 1)
    assert not pool.shared
    assert "t_first" in strategies_for(pool, [])
    bought = wanted(pool, "all_r", [side.labels for side in pool.sides])
    assert walk(pool, bought, Costs()).spent[-1] == 2 * (ITEMS - 10)


def test_r_that_differs_on_one_context_is_refused() -> None:
    rows = _shared()
    wrong = FULL.copy()
    wrong[:, R] = 1 - wrong[:, R]
    rows["two"] = table(wrong, 10, contexts=[f"c{i}" for i in range(ITEMS)])
    with pytest.raises(InputError, match="whether the evidence is there has one answer"):
        pool_of(rows, {"one": [], "two": []}, 1)  # type: ignore[arg-type]


# --- pilots that say too little ---------------------------------------------------------------------------------------


def test_without_labels_a_base_is_asked_for() -> None:
    pool = pool_of({"all": table(FULL, 0)}, {"all": []}, 1)
    assert missing_words(pool, "p_g", Options()) == "no label of R or T at all"
    asks = base_asks(pool, 12)
    assert len({one.question_id for one in asks if one.variable == "r"}) == 12
    assert max(one.place for one in asks) == 11


@pytest.mark.parametrize(("r", "t", "said"), [(0, 20, "R is not labelled"), (20, 0, "T is not labelled")])
def test_an_unidentified_pilot_says_what_is_missing(r: int, t: int, said: str) -> None:
    pool = pool_of({"all": table(FULL, r, t)}, {"all": []}, 1)
    words = missing_words(pool, "p_g", Options())
    assert words is not None
    assert said in words
    assert base_asks(pool, 10)


def test_a_full_base_is_enough() -> None:
    assert missing_words(POOL, "p_g", Options()) is None
    assert not (POOL.sides[0].labels[:10, R] == MISSING).any()
