"""Futures, the look ahead, and the plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rat_ray.allocate.costs import Costs
from rat_ray.allocate.plan_ahead import AheadSettings, Looker, width_of
from rat_ray.allocate.plan_choice import choose, score
from rat_ray.allocate.plan_fill import fill, state_probabilities, verdict_likelihood
from rat_ray.allocate.plan_goal import GoalSettings, parse_goal
from rat_ray.allocate.plan_make import AHEAD, PairNow, ahead_table, plan
from rat_ray.allocate.plan_pool import A, R, T, pool_of
from rat_ray.allocate.plan_walk import Book, walk, wanted
from rat_ray.model.patterns import MISSING
from rat_ray.model.priors import Prior
from tests.allocate.planned import column, states, table
from tests.statistical.truths import TRUTHS

WIDTH = parse_goal(GoalSettings(goal="width", width=0.15))
SETTINGS = AheadSettings(WIDTH, futures=10, budgets=4)
ABSTAINER = np.array([0.5, 0.85, 0.55, 0.3, 0.75])


def test_a_future_keeps_what_is_known_and_fills_in_the_rest_as_the_parameters_say() -> None:
    full = states("abstainer", 4000, 1)
    pool = pool_of({"all": table(full, 500)}, {"all": []}, 1)
    book = Book(pool.sides[0])
    likelihood = verdict_likelihood(book, [], "panel", Prior(), ABSTAINER, np.random.default_rng(1))
    [filled] = fill(pool, [book], state_probabilities(ABSTAINER)[None], [likelihood], np.random.default_rng(2))
    assert np.array_equal(filled[:500], full[:500])
    assert np.array_equal(filled[:, A], full[:, A])
    rest = filled[500:]
    abstained = rest[:, A] == 1
    assert (rest[abstained, T] == MISSING).all()
    assert (rest[~abstained, T] != MISSING).all()
    expected = 0.5 * 0.55 / (0.5 * 0.55 + 0.5 * 0.85)  # P(R=1 | A=1)
    share = rest[abstained, R].mean()
    assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / abstained.sum())
    right = rest[(rest[:, R] == 1) & ~abstained, T].mean()
    assert abs(right - 0.75) < 0.06


@pytest.mark.parametrize("model", ["panel", "independent"])
def test_verdicts_inform_what_is_filled_in(model: str) -> None:
    full = states("guesser", 3000, 2)
    said = np.where(np.random.default_rng(3).random(3000) < 0.9, full[:, 2], 1 - full[:, 2])
    rows = table(full, 1500).append_column("t@x", column(said % 2, full[:, 2] != MISSING))
    pool = pool_of({"all": rows}, {"all": ["t@x"]}, 1)
    book = Book(pool.sides[0])
    truth = TRUTHS["guesser"]
    drawn = np.array([truth.rho, *truth.alpha, *truth.tau, *([0.9, 0.1] if model == "independent" else [])])
    rng = np.random.default_rng(4)
    likelihood = verdict_likelihood(book, ["t@x"], model, Prior(), drawn, rng)
    [filled] = fill(pool, [book], state_probabilities(drawn)[None], [likelihood], rng)
    rest = np.arange(3000) >= 1500
    answered = rest & (full[:, A] == 0)
    assert (filled[answered, T] == said[answered]).mean() == pytest.approx(0.9, abs=0.03)


def test_one_context_has_one_r() -> None:
    one, two = states("abstainer", 300, 5), states("guesser", 300, 6)
    contexts = [f"c{i}" for i in range(300)]
    tables = {"one": table(one, 20, contexts=contexts), "two": table(two, 0, contexts=contexts)}
    pool = pool_of(tables, {"one": [], "two": []}, 1)
    books = [Book(side) for side in pool.sides]
    thetas = np.stack([TRUTHS[name].theta for name in ("abstainer", "guesser")])
    ones = [np.ones((len(book.now), 6)) for book in books]
    first, second = fill(pool, books, thetas, ones, np.random.default_rng(7))
    assert np.array_equal(first[:, R], second[:, R])
    assert np.array_equal(first[:20, R], one[:20, R])


def test_the_planned_width_is_the_width_that_is_obtained() -> None:
    gaps = []
    for number in range(8):
        full = states("abstainer", 400, 100 + number)
        pool = pool_of({"all": table(full, 60)}, {"all": []}, 1)
        looker = Looker(pool, replace(SETTINGS, strategies=("joint",), at=150.0, budgets=2))
        ahead = looker.look(looker.now())
        b = int(np.abs(ahead.budgets - 150).argmin())
        path = walk(pool, wanted(pool, "joint", [full]), Costs())
        book = looker.books[0]
        [n] = book.counts(path.bought[0], full, [path.reached(150.0)])
        obtained = width_of(looker._ahead["all"].estimate(book.code(n), 1), WIDTH)
        gaps.append(np.log(ahead.widths[0, b, :, 0].mean() / obtained))
    error = np.std(gaps, ddof=1) / np.sqrt(len(gaps))
    assert abs(np.mean(gaps)) < 3 * error + 0.02


def test_stop_now_and_go_on() -> None:
    pool = pool_of({"all": table(states("abstainer", 400, 8), 60)}, {"all": []}, 1)
    done = plan(pool, replace(SETTINGS, goal=WIDTH._replace(width=0.6)))
    assert done.reached
    assert not done.asks
    assert done.ahead is None
    made = plan(pool, SETTINGS)
    assert not made.reached
    assert made.can_reach
    assert made.choice is not None
    assert made.ahead is not None
    assert made.choice.reaches["joint"].cost is not None
    assert made.choice.reaches["all_t"].cost is None
    assert 0 < len(made.asks) <= 200
    again = plan(pool, SETTINGS)
    assert again.asks == made.asks
    assert np.array_equal(again.ahead.widths, made.ahead.widths, equal_nan=True)
    shown = ahead_table(made.ahead, WIDTH, ("all",))
    assert shown.schema == AHEAD
    assert shown.num_rows == len(made.ahead.strategies) * len(made.ahead.budgets)
    widths = score(made.ahead, WIDTH).mean(axis=2)[made.ahead.strategies.index("joint")]
    assert (np.diff(widths) > 0).all()  # the more is spent, the more precise
    assert len(plan(pool, SETTINGS, most=7).asks) == 7


def test_a_goal_that_cannot_be_reached() -> None:
    pool = pool_of({"all": table(states("abstainer", 120, 9), 60)}, {"all": []}, 1)
    made = plan(pool, replace(SETTINGS, goal=WIDTH._replace(width=0.01)))
    assert made.can_reach is False
    assert made.asks
    assert made.choice is not None
    assert made.choice.best.at_all > 0.05
    full = pool_of({"all": table(states("abstainer", 120, 9), 120)}, {"all": []}, 1)
    nothing = plan(full, replace(SETTINGS, goal=WIDTH._replace(width=0.01)))
    assert not nothing.asks
    assert not nothing.reached
    assert nothing.choice is None


def test_a_decision_stops_by_the_joint_fit_and_looks_ahead() -> None:
    one, two = states("abstainer", 200, 10), states("guesser", 200, 11)
    tables = {"x": table(one, 40), "y": table(two, 40)}
    goal = parse_goal(GoalSettings(goal="decide", a="x", b="y", level=0.95))
    pool = pool_of(tables, {"x": [], "y": []}, 1)
    settings = replace(SETTINGS, goal=goal, futures=3, budgets=2)
    assert plan(pool, settings, pair=lambda: PairNow(0.96, 0.1)).reached
    assert plan(pool, settings, pair=lambda: PairNow(0.04, 0.1)).reached
    made = plan(pool, settings, pair=lambda: PairNow(0.6, 0.1))
    assert not made.reached
    assert made.ahead is not None
    assert np.isfinite(made.ahead.greater).all()
    assert choose(made.ahead, goal, 0.0).reaches["joint"].at_all >= 0.0
