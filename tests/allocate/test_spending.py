"""Which labels a replicate sees: budgets, bases, hiding."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rat_ray.allocate import STRATEGIES, AllocationSettings, Costs, System
from rat_ray.allocate.population import PATTERNS, read_population
from rat_ray.allocate.spending import Bought, Replicate, buy, replicate_of, spending_of
from rat_ray.allocate.strategies import Items, strategy_of
from rat_ray.errors import InputError
from rat_ray.model.patterns import MISSING
from tests.allocate.planted import TRUSTED, planted, settings_of

POPULATION = read_population(planted(200), TRUSTED).population
SETTINGS = settings_of(AllocationSettings(base=20))
ONE = Costs()


def bought(strategy: str, budget: float, number: int = 0, costs: Costs = ONE) -> Bought:
    replicate = replicate_of(POPULATION, SETTINGS, number)
    return buy(replicate, spending_of(replicate, strategy, costs), budget)


def labels_in(n: np.ndarray) -> tuple[int, int]:
    """How many items have a label of R, and of T."""
    return int(n[PATTERNS[:, 0] != MISSING].sum()), int(n[PATTERNS[:, 2] != MISSING].sum())


@pytest.mark.parametrize("strategy", [*STRATEGIES, "mixed-0.2"])
@pytest.mark.parametrize("costs", [ONE, Costs(0.3, 2.5), Costs(0.1, 0.1)])
@pytest.mark.parametrize("budget", [0, 1, 7, 40, 100])
def test_the_cost_is_that_of_the_labels_and_within_the_budget(strategy: str, costs: Costs, budget: int) -> None:
    for number in range(5):
        found = bought(strategy, budget, number, costs)
        assert found.cost == pytest.approx(found.labels_r * costs.r + found.labels_t * costs.t)
        assert found.cost <= budget + 1e-6
        everything = bought(strategy, 1e9, number, costs)
        assert found.cost in (pytest.approx(everything.cost),) or found.cost > budget - costs.r - costs.t - 1e-6


def test_a_budget_that_costs_exactly_its_labels_is_spent_whole() -> None:
    assert bought("all_r", 1, costs=Costs(r=0.1)).labels_r == 10
    assert bought("all_r", 40).labels_r == 40
    assert bought("all_t", 40).labels_t == 40


@pytest.mark.parametrize("number", range(3))
def test_the_base_is_shared_and_complete(number: int) -> None:
    replicate = replicate_of(POPULATION, SETTINGS, number)
    assert replicate.base == 20
    base_t = int((replicate.a[:20] == 0).sum())
    for strategy in STRATEGIES:
        found = bought(strategy, 0, number)
        assert labels_in(found.n) == (20, base_t)
        assert (found.labels_r, found.labels_t, found.cost) == (0, 0, 0.0)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_larger_budget_extends_a_smaller_one(strategy: str) -> None:
    for small, large in [(0, 10), (10, 12), (12, 40), (40, 400)]:
        first, second = bought(strategy, small), bought(strategy, large)
        assert first.labels_r <= second.labels_r
        assert first.labels_t <= second.labels_t
        assert second.cost > first.cost


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_fit_sees_bought_labels_and_every_a_and_nothing_else(strategy: str) -> None:
    found = bought(strategy, 40)
    replicate = replicate_of(POPULATION, SETTINGS, 0)
    assert found.n.sum() == 200
    assert found.n[PATTERNS[:, 1] == 1].sum() == (POPULATION.a == 1).sum()
    base_t = int((replicate.a[:20] == 0).sum())
    assert labels_in(found.n) == (20 + found.labels_r, base_t + found.labels_t)


def test_strategies_buy_what_they_say() -> None:
    r = np.array([0, 0, 0, 1, 1, 1, 0, 1], dtype=np.int8)
    a = np.array([1, 0, 0, 1, 0, 0, 0, 0], dtype=np.int8)
    t = np.array([2, 0, 1, 2, 0, 1, 1, 1], dtype=np.int8)
    chance = np.array([0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.6, 0.4])
    expected = {
        "all_r": ("11111111", "00000000"),
        "all_t": ("00000000", "01101111"),
        "joint": ("11111111", "01101111"),
        "mixed": ("10101001", "01000110"),
        "mixed-0.25": ("10100000", "01001111"),
        "t_first": ("10110111", "01101111"),
        "r_first": ("11111111", "00001101"),
    }
    assert set(STRATEGIES) <= set(expected)
    for name, (wants_r, wants_t) in expected.items():
        wanted = strategy_of(name)(Items(r, a, t, chance))
        assert "".join(str(int(one)) for one in wanted.r) == wants_r, name
        assert "".join(str(int(one)) for one in wanted.t) == wants_t, name


@pytest.mark.parametrize("name", ["mixed-0", "mixed-1", "mixed-x", "mixed-", "mixed-nan"])
def test_a_share_that_makes_no_sense_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        strategy_of(name)
    with pytest.raises(InputError, match="did you mean 't_first'"):
        strategy_of("t_frist")


def test_adaptive_strategies_leave_out_only_what_settles_g() -> None:
    """Where an adaptive strategy leaves a label out, G is known from the labels that it buys."""
    for name in ("t_first", "r_first"):
        replicate = replicate_of(POPULATION, SETTINGS, 1)
        spending = spending_of(replicate, name, ONE)
        r, a, t = replicate.r[20:], replicate.a[20:], replicate.t[20:]
        open_r, open_t = ~spending.r, ~spending.t & (a == 0)
        assert (t[open_r] == 0).all()
        assert (r[open_t] == 0).all()
        assert open_r.any() or open_t.any()


@pytest.mark.parametrize("strategy", ["joint", "t_first", "r_first"])
def test_where_the_budget_ends_does_not_depend_on_labels_that_nobody_sees(strategy: str) -> None:
    """Labels seen minus their chances have mean 0: ending with an item because T = 0 made it cheap would show."""
    rng, items, draws = np.random.default_rng(8), 5, 2000
    labels = rng.integers(0, 2, (draws, 2, items)).astype(np.int8)
    a, chance = np.zeros(items, dtype=np.int8), rng.random(items)
    off = []
    for r, t in labels:
        replicate = Replicate(r, a, t, chance, 0)
        n = buy(replicate, spending_of(replicate, strategy, ONE), 3).n
        off.append([((label == 1) * n).sum() - ((label != MISSING) * n).sum() / 2 for label in PATTERNS[:, [0, 2]].T])
    error = np.std(off, axis=0) / np.sqrt(draws)
    assert (np.abs(np.mean(off, axis=0)) <= 4 * error).all()


def test_labels_that_do_not_exist_cost_nothing() -> None:
    r = np.array([1, MISSING, MISSING, 1], dtype=np.int8)
    a = np.array([0, 0, 0, 0], dtype=np.int8)
    t = np.array([1, 1, MISSING, MISSING], dtype=np.int8)
    items = Replicate(r, a, t, np.zeros(4), 0)
    assert spending_of(items, "joint", ONE).spent.tolist() == [2, 3, 3, 4]
    assert spending_of(items, "t_first", ONE).spent.tolist() == [2, 3, 3, 3]  # what it waits for is not there
    assert spending_of(items, "r_first", ONE).spent.tolist() == [2, 2, 2, 3]
    found = buy(items, spending_of(items, "joint", ONE), 3)
    assert (found.labels_r, found.labels_t, found.cost) == (1, 2, 3.0)


def test_the_base_is_taken_from_complete_items() -> None:
    missing = np.arange(200) % 3 == 0
    some = POPULATION._replace(r=np.where(missing, MISSING, POPULATION.r).astype(np.int8))
    replicate = replicate_of(some, SETTINGS, 0)
    assert (replicate.r[:20] != MISSING).all()
    assert (replicate.r == MISSING).sum() == missing.sum()


def test_the_order_depends_on_names_only() -> None:
    shuffled = np.random.default_rng(1).permutation(200)
    table = planted(200)
    other = read_population(table.take(shuffled), TRUSTED).population
    for first, second in zip(replicate_of(POPULATION, SETTINGS, 4), replicate_of(other, SETTINGS, 4), strict=True):
        assert np.array_equal(first, second)
    first = replicate_of(POPULATION, SETTINGS, 4).chance
    assert not np.array_equal(first, replicate_of(POPULATION, SETTINGS, 5).chance)
    reseeded = dataclasses.replace(SETTINGS, seed=SETTINGS.seed + 1)
    assert not np.array_equal(first, replicate_of(POPULATION, reseeded, 4).chance)


def test_a_bootstrap_draws_the_items_anew() -> None:
    settings = dataclasses.replace(SETTINGS, resampling="bootstrap")
    each = [replicate_of(POPULATION, settings, number) for number in range(200)]
    shares = np.array([one.r.mean() for one in each])
    assert {len(one.r) for one in each} == {200}
    assert shares.std() == pytest.approx(np.sqrt(POPULATION.r.mean() * (1 - POPULATION.r.mean()) / 200), rel=0.25)
    assert replicate_of(POPULATION, SETTINGS, 0).r.mean() == POPULATION.r.mean()


def test_a_simulation_draws_from_its_truth() -> None:
    truth = System(rho=0.3, alpha0=0.6, alpha1=0.1, tau0=0.2, tau1=0.8)
    settings = dataclasses.replace(SETTINGS, resampling="simulated", truth=truth, items=20_000)
    found = replicate_of(None, settings, 0)
    r, a, t = found.r, found.a, found.t
    assert r.mean() == pytest.approx(0.3, abs=0.02)
    assert a[r == 0].mean() == pytest.approx(0.6, abs=0.02)
    assert a[r == 1].mean() == pytest.approx(0.1, abs=0.02)
    assert t[(r == 0) & (a == 0)].mean() == pytest.approx(0.2, abs=0.03)
    assert t[(r == 1) & (a == 0)].mean() == pytest.approx(0.8, abs=0.03)
    assert (t[a == 1] == MISSING).all()
