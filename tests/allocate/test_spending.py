"""Which labels a replicate sees: budgets, bases, hiding."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rat_ray.allocate import STRATEGIES, AllocationSettings
from rat_ray.allocate.population import Population, order_of, read_population
from rat_ray.allocate.spending import Bought, buy, visible
from rat_ray.model import patterns
from tests.allocate.planted import TRUSTED, planted, settings_of

POPULATION = read_population(planted(200), TRUSTED)
SETTINGS = settings_of(AllocationSettings(base=20))


def bought(strategy: str, budget: float, replicate: int = 0, **costs: float) -> Bought:
    settings = dataclasses.replace(SETTINGS, **costs)
    return buy(POPULATION, order_of(POPULATION, settings, replicate), strategy, budget, settings)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("costs", [{}, {"cost_r": 0.3, "cost_t": 2.5}, {"cost_r": 0.1, "cost_t": 0.1}])
@pytest.mark.parametrize("budget", [0, 1, 7, 40, 100])
def test_the_cost_is_that_of_the_labels_and_within_the_budget(
    strategy: str, costs: dict[str, float], budget: int
) -> None:
    settings = dataclasses.replace(SETTINGS, **costs)
    for replicate in range(5):
        found = bought(strategy, budget, replicate, **costs)
        assert found.cost == pytest.approx(found.labels_r * settings.cost_r + found.labels_t * settings.cost_t)
        assert found.cost <= budget + 1e-6
        dearest = settings.cost_r + settings.cost_t
        ran_out = found.r.all() if strategy != "all_t" else found.t.sum() == (POPULATION.a == 0).sum()
        assert ran_out or found.cost > budget - dearest - 1e-6


def test_a_budget_that_costs_exactly_its_labels_is_spent_whole() -> None:
    assert bought("all_r", 1, cost_r=0.1).labels_r == 10
    assert bought("all_r", 40).labels_r == 40
    assert bought("all_t", 40).labels_t == 40


@pytest.mark.parametrize("replicate", range(3))
def test_the_base_is_shared_and_complete(replicate: int) -> None:
    order = order_of(POPULATION, SETTINGS, replicate)
    base = np.zeros(200, dtype=bool)
    base[order[:20]] = True
    nothing = [bought(strategy, 0, replicate) for strategy in STRATEGIES]
    for found in nothing:
        assert (found.r == base).all()
        assert (found.t == (base & (POPULATION.a == 0))).all()
        assert (found.labels_r, found.labels_t, found.cost) == (0, 0, 0.0)
    for strategy in STRATEGIES:
        assert bought(strategy, 40, replicate).r[base].all()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_larger_budget_extends_a_smaller_one(strategy: str) -> None:
    for small, large in [(0, 10), (10, 12), (12, 40), (40, 400)]:
        first, second = bought(strategy, small), bought(strategy, large)
        assert not (first.r & ~second.r).any()
        assert not (first.t & ~second.t).any()
        assert second.cost > first.cost


def test_strategies_buy_what_they_say() -> None:
    base = bought("joint", 0)
    all_r, all_t, joint = (bought(strategy, 40) for strategy in ("all_r", "all_t", "joint"))
    assert (all_r.r & ~base.r).sum() == 40
    assert (all_r.t == base.t).all()
    assert (all_t.t & ~base.t).sum() == 40
    assert (all_t.r == base.r).all()
    new = joint.r & ~base.r
    assert (joint.t & ~base.t).sum() == (new & (POPULATION.a == 0)).sum()
    assert joint.labels_r > joint.labels_t > 0


def test_items_that_run_out_end_the_spending() -> None:
    answered = int((POPULATION.a == 0).sum())
    base_t = int(bought("all_t", 0).t.sum())
    assert bought("all_r", 10_000).labels_r == 180
    assert bought("all_t", 10_000).labels_t == answered - base_t
    everything = bought("joint", 10_000)
    assert everything.r.all()
    assert everything.cost == 180 + answered - base_t


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_fit_sees_bought_labels_and_every_a_and_nothing_else(strategy: str) -> None:
    found = bought(strategy, 40)
    table = visible(POPULATION, found)
    counts = patterns(table, [])
    assert pc.sum(counts.column("n")).as_py() == 200
    assert _items_with(counts, "a") == 200
    assert _items_with(counts, "r") == 20 + found.labels_r
    answered_base = int((POPULATION.a[order_of(POPULATION, SETTINGS, 0)[:20]] == 0).sum())
    assert _items_with(counts, "t") == answered_base + found.labels_t
    for name, values in (("r", POPULATION.r), ("a", POPULATION.a), ("t", POPULATION.t)):
        shown = table.column(name).to_pylist()
        assert all(label is None or label == value for label, value in zip(shown, values.tolist(), strict=True))


def test_the_order_depends_on_names_only() -> None:
    shuffled = np.random.default_rng(1).permutation(200)
    ids = [POPULATION.question_ids[i] for i in shuffled]
    other = Population(ids, POPULATION.r[shuffled], POPULATION.a[shuffled], POPULATION.t[shuffled])
    first = [POPULATION.question_ids[i] for i in order_of(POPULATION, SETTINGS, 4)]
    assert first == [ids[i] for i in order_of(other, SETTINGS, 4)]
    assert first != [POPULATION.question_ids[i] for i in order_of(POPULATION, SETTINGS, 5)]
    reseeded = dataclasses.replace(SETTINGS, seed=SETTINGS.seed + 1)
    assert first != [POPULATION.question_ids[i] for i in order_of(POPULATION, reseeded, 4)]


def _items_with(counts: pa.Table, name: str) -> int:
    return int(pc.sum(counts.filter(pc.is_valid(counts.column(name))).column("n")).as_py())
