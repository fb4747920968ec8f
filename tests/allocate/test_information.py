"""The formula against enumeration, and beside made-up studies whose winner is known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from rat_ray.allocate.agreement import agreement
from rat_ray.allocate.behaviour import behaviours
from rat_ray.allocate.costs import Costs
from rat_ray.allocate.expected import Plan, expected_sd, parameters_of, states_of
from rat_ray.allocate.information import (
    INFORMATION,
    PREDICTION,
    prediction,
    told,
    worth,
)
from rat_ray.allocate.show import print_information
from rat_ray.model.engines import EngineSettings
from rat_ray.model.estimate import Estimator
from rat_ray.model.patterns import MISSING, Code
from rat_ray.model.states import PARAMETERS, information
from rat_ray.tables import check_table
from tests.allocate.made_up import like_counts, study

WEAK = np.array([0.4, 0.6, 0.1, 0.2, 0.8])  # an abstaining system with weak retrieval
STRONG = np.array([0.9, 0.6, 0.05, 0.2, 0.6])
FORMULAS = ("bits_per_item", "bits_per_cost", "expected_sd")
COSTS = Costs(r=1.0, t=2.0)


def bits_per_cost(theta: np.ndarray, strategy: str, costs: Costs) -> np.ndarray:
    return worth(theta, strategy, costs).per_cost


def theta_of(parameters: np.ndarray) -> np.ndarray:
    return states_of(parameters)[:, None]


def by_enumeration(parameters: np.ndarray, strategy: str) -> tuple[float, float]:
    """Bits of G and cost per item, from a joint table of (A, what is seen, G) written out here anew."""
    rho, a0, a1, t0, t1 = parameters
    joint: dict[tuple[object, ...], float] = {}
    cost = 0.0
    for r, a, t in itertools.product((0, 1), repeat=3):
        p = (rho if r else 1 - rho) * ((a1 if r else a0) if a else 1 - (a1 if r else a0))
        p *= ((t1 if r else t0) if t else 1 - (t1 if r else t0)) if not a else (0.5)
        seen: tuple[object, ...] = {
            "all_r": (r,),
            "all_t": (t,) if not a else (),
            "joint": (r, t) if not a else (r,),
            "t_first": (r,) if a else ((t, r) if t else (t,)),
            "r_first": (r, t) if r and not a else (r,),
        }[strategy]
        paid = {
            "all_r": COSTS.r,
            "all_t": 0.0 if a else COSTS.t,
            "joint": COSTS.r + (0.0 if a else COSTS.t),
            "t_first": COSTS.r if a else COSTS.t + (COSTS.r if t else 0.0),
            "r_first": COSTS.r + (COSTS.t if r and not a else 0.0),
        }[strategy]
        g = int((r == 0 and a == 1) or (r == 1 and a == 0 and t == 1))
        joint[a, seen, g] = joint.get((a, seen, g), 0.0) + p
        cost += p * paid
    return _entropy(joint, 1) - _entropy(joint, 2), cost


def _entropy(joint: dict[tuple[object, ...], float], known: int) -> float:
    """H(G | the first `known` parts of the key) in bits."""
    given: dict[tuple[object, ...], float] = {}
    both: dict[tuple[object, ...], float] = {}
    for key, p in joint.items():
        given[key[:known]] = given.get(key[:known], 0.0) + p
        both[(*key[:known], key[2])] = both.get((*key[:known], key[2]), 0.0) + p
    return -sum(p * math.log2(p / given[key[:-1]]) for key, p in both.items() if p)


@pytest.mark.parametrize("strategy", ["all_r", "all_t", "joint", "t_first", "r_first"])
@pytest.mark.parametrize("parameters", [WEAK, STRONG])
def test_bits_per_cost_by_enumeration(strategy: str, parameters: np.ndarray) -> None:
    bits, cost = by_enumeration(parameters, strategy)
    found = worth(theta_of(parameters), strategy, COSTS)
    assert found.bits[0] == pytest.approx(bits)
    assert found.cost[0] == pytest.approx(cost)
    assert found.per_cost[0] == pytest.approx(bits / cost)


def test_t_is_paid_for_at_answers_only() -> None:
    """I(G; T | A) is over all items; a T label is bought of an answered one, where it tells 1 / P(A = 0) as much."""
    theta = theta_of(WEAK)
    answered = theta[[1, 2, 4, 5]].sum()
    _, t, _ = information(theta)[:, 0]
    assert bits_per_cost(theta, "all_t", Costs())[0] == pytest.approx(t / answered)


def test_joint_and_the_adaptive_ones_tell_all_there_is() -> None:
    theta = theta_of(STRONG)
    _, _, both = information(theta)[:, 0]
    found = {name: worth(theta, name, COSTS) for name in ("joint", "t_first", "r_first")}
    assert [one.bits[0] for one in found.values()] == pytest.approx([both] * 3)
    assert found["t_first"].cost[0] < found["joint"].cost[0]
    assert found["r_first"].cost[0] < found["joint"].cost[0]


def test_mixed_is_between_its_two_parts() -> None:
    shares = behaviours("mixed-0.25")
    assert sum(one.share for one in shares) == pytest.approx(1.0)
    assert sum(one.share for one in shares if one.r.all()) == pytest.approx(0.25, abs=0.01)
    theta = theta_of(WEAK)
    r, t, _ = information(theta)[:, 0]
    answered = theta[[1, 2, 4, 5]].sum()
    expected = (0.25 * r + 0.75 * t) / (0.25 * COSTS.r + 0.75 * answered * COSTS.t)
    assert bits_per_cost(theta, "mixed-0.25", COSTS)[0] == pytest.approx(expected, rel=0.01)


def test_the_expected_error_of_full_labels_is_that_of_a_share() -> None:
    """P(G=1) among n fully labelled items has variance p (1 - p) / n, less what A on the others tells."""
    theta = states_of(WEAK)
    p = theta[0] + theta[5]
    alone = expected_sd(theta, "joint", [0.0], Plan(100, 100, Costs(), finite=False))
    assert alone[0] ** 2 == pytest.approx(p * (1 - p) / 100)
    within = sum(theta[part].sum() * np.prod([theta[[s for s in part if g == (s in (0, 5))]].sum() / theta[part].sum()
                 for g in (True, False)]) for part in ([0, 3], [1, 2, 4, 5]))  # fmt: skip
    with_a = expected_sd(theta, "joint", [0.0], Plan(100, 10**9, Costs(), finite=False))
    assert with_a[0] ** 2 == pytest.approx(within / 100)


def test_the_expected_error_among_exactly_the_items_ends_at_nothing() -> None:
    theta = states_of(WEAK)
    per_item = 1 + theta[[1, 2, 4, 5]].sum()
    found = expected_sd(theta, "joint", [0.0, 100.0, 900 * per_item, 10_000.0], Plan(100, 1000, Costs(), finite=True))
    new = expected_sd(theta, "joint", [0.0, 100.0, 900 * per_item, 10_000.0], Plan(100, 1000, Costs(), finite=False))
    assert found[2:] == pytest.approx([0.0, 0.0], abs=1e-6)
    assert new[2] == new[3] > 0
    assert (found[:2] < new[:2]).all()
    assert found[:2] ** 2 == pytest.approx(new[:2] ** 2 - new[3] ** 2)


def test_the_expected_errors_turn_round_with_retrieval() -> None:
    """R beats T where the system abstains and retrieval is weak, T beats R where it is strong; joint beats both."""
    plan = Plan(50, 2000, Costs(), finite=False)
    weak, strong = (
        [expected_sd(states_of(one), name, [600.0], plan)[0] for name in ("all_r", "all_t", "joint")]
        for one in (WEAK, STRONG)
    )
    assert weak[2] < weak[0] < weak[1]
    assert strong[2] < strong[1] < strong[0]
    assert parameters_of(states_of(WEAK)) == pytest.approx(WEAK)


def test_without_a_base_one_kind_of_label_settles_nothing() -> None:
    plan = Plan(0, 2000, Costs(), finite=False)
    for name in ("all_t", "all_r"):
        assert np.isnan(expected_sd(states_of(WEAK), name, [600.0], plan)).all()
    assert expected_sd(states_of(WEAK), "joint", [600.0], plan)[0] < 0.03


def many(parameters: np.ndarray, items: int) -> Code:
    """Counts of a table in which every item has all labels, as if drawn without chance."""
    labels = np.array([[0, 1, MISSING], [0, 0, 0], [0, 0, 1], [1, 1, MISSING], [1, 0, 0], [1, 0, 1]], dtype=np.int8)
    n = np.round(states_of(parameters) * items).astype(np.int64)
    nothing = np.zeros(6, dtype=np.int32)
    return Code(labels, nothing, nothing, n, n.astype(float))


def test_the_posterior_of_the_bits_lies_about_their_value() -> None:
    engine = EngineSettings(kind="stanli", chains=2, warmup=200, samples=500)
    found = told("c", many(WEAK, 4000), Estimator(PARAMETERS, engine=engine), seed=1)
    check_table(found.table, INFORMATION, "information")
    truth = dict(zip(("info[r]", "info[t]", "info[r,t]"), information(theta_of(WEAK))[:, 0], strict=True))
    truth |= {"resolved[r]": 1 - 0.4 * 0.9, "resolved[t]": 0.6 * 0.4 * 0.8 + 0.4 * 0.9 * 0.2}
    for row in found.table.to_pylist():
        assert row["q2.5"] < truth[row["quantity"]] < row["q97.5"]
        assert row["mean"] == pytest.approx(truth[row["quantity"]], abs=3 * row["sd"])
        assert (row["items"], row["labels_r"], row["status"]) == (4000, 4000, "ok")
        assert row["labels_t"] == int(many(WEAK, 4000).n[[1, 2, 4, 5]].sum())
    assert found.theta is not None
    assert found.theta.shape == (6, 1000)
    assert found.theta.sum(axis=0) == pytest.approx(np.ones(1000))


def test_a_fit_that_fails_has_nulls(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> np.ndarray:
        raise RuntimeError("chain 1 cannot start")

    monkeypatch.setattr(Estimator, "draws", fails)
    found = told("c", many(WEAK, 100), Estimator(PARAMETERS), seed=1)
    assert found.theta is None
    assert found.table.column("mean").null_count == found.table.num_rows == 5
    assert set(found.table.column("status").to_pylist()) == {"fail"}


@pytest.fixture(scope="module")
def predicted() -> pa.Table:
    """Two systems: the formula prefers R in one and T in the other; the study finds R in both."""
    worth = {"all_r": 2.0, "all_t": 0.5, "joint": 1.0}
    made = pa.concat_tables(study(like_counts(worth, 3), list(worth), [0, 50, 200], 30, name) for name in ("w", "s"))
    rng = np.random.default_rng(1)
    thetas = {
        name: states_of(np.clip(values[:, None] + 0.002 * rng.normal(size=(5, 300)), 0.01, 0.99))
        for name, values in (("w", WEAK), ("s", STRONG))
    }
    return prediction(made, thetas)


def test_the_formula_stands_beside_the_study(predicted: pa.Table) -> None:
    assert predicted.schema == PREDICTION
    rows = {(row["config"], row["strategy"]): row for row in predicted.to_pylist()}
    assert len(rows) == 9
    for config, parameters in (("w", WEAK), ("s", STRONG)):
        mine = {name: rows[config, name] for name in ("all_r", "all_t", "joint")}
        assert sum(row["predicted_best"] for row in mine.values()) == pytest.approx(1.0)
        assert sum(row["best_rmse"] for row in mine.values()) == pytest.approx(1.0)
        for name, row in mine.items():
            exact = bits_per_cost(theta_of(parameters), name, Costs())[0]
            assert row["bits_per_cost_low"] < exact < row["bits_per_cost_high"]
        assert mine["all_r"]["best_width"] == 1.0
        assert mine["joint"]["rmse_ratio"] == mine["joint"]["width_ratio_high"] == 1.0
        expected = np.sqrt(np.prod([(50 + cost) / (50 + 2 * cost) for cost in (50, 200)]) ** 0.5)
        assert mine["all_r"]["width_ratio"] == pytest.approx(expected)
        assert mine["all_r"]["width_ratio_low"] == pytest.approx(expected, rel=0.01)
    pooled = rows["all", "all_r"]
    assert pooled["bits_per_cost"] is None
    assert pooled["width_ratio"] == pytest.approx(rows["w", "all_r"]["width_ratio"])


def test_agreement_is_counted(predicted: pa.Table) -> None:
    prefers_r = {
        formula: [
            row[formula] > other[formula]
            for config in ("w", "s")
            for row, other in [[one for one in predicted.to_pylist() if one["config"] == config][:2]]
        ]
        for formula in ("bits_per_item", "bits_per_cost")
    }
    # An abstaining system answers half of the items: per item R tells more than T, per label it does not.
    assert prefers_r == {"bits_per_item": [True, False], "bits_per_cost": [False, False]}
    assert agreement(predicted, "width").r_or_t == 0
    found = agreement(predicted, "width", "bits_per_item")
    assert (found.configurations, found.r_or_t, found.r_or_t_of, found.sure) == (2, 1, 2, 2)
    assert found.across is None  # of two configurations
    assert found.within is not None


def test_ranks_that_agree_and_that_do_not() -> None:
    def rows(config: str, bits: list[float], rmse: list[float]) -> list[dict[str, object]]:
        return [
            {"config": config, "strategy": name, "quantity": "p_g", "against": "joint", "bits_per_cost": b, "rmse": e,
             "best_rmse": float(e == min(rmse))}
            for name, b, e in zip(("all_r", "all_t", "joint"), bits, rmse, strict=True)
        ]  # fmt: skip

    agreeing = [rows(f"c{i}", [0.3 + i / 10, 0.3, 0.2], [0.03 - i / 1000, 0.031, 0.05]) for i in range(4)]
    found = agreement(pa.Table.from_pylist(list(itertools.chain(*agreeing[1:])), schema=PREDICTION))
    assert (found.best, found.configurations, found.sure, found.best_sure) == (3, 3, 3, 3)
    assert (found.r_or_t, found.across, found.within) == (3, pytest.approx(1.0), pytest.approx(1.0))
    opposite = [rows(f"c{i}", [0.3 + i / 10, 0.3, 0.2], [0.05 + i / 1000, 0.031, 0.02]) for i in range(1, 4)]
    found = agreement(pa.Table.from_pylist(list(itertools.chain(*opposite)), schema=PREDICTION))
    assert (found.best, found.r_or_t, found.across) == (0, 0, pytest.approx(-1.0))
    assert agreement(PREDICTION.empty_table()).configurations == 0


def test_it_is_printed_in_80_columns(predicted: pa.Table) -> None:
    long = "a-configuration-with-a-long-name-of-its-own"
    names = [{"w": long}.get(name, name) for name in predicted.column("config").to_pylist()]
    renamed = predicted.set_column(0, predicted.schema.field("config"), pa.array(names))
    rows = [
        {"config": config, "quantity": name, "mean": value, "status": "ok"}
        for config in (long, "s")
        for name, value in (("info[r]", 0.5), ("info[t]", 0.25), ("info[r,t]", 0.75))
    ]
    screen = Console(width=80, record=True)
    told_ = pa.Table.from_pylist(rows, schema=INFORMATION)
    print_information(told_, renamed, [agreement(renamed, formula=name) for name in FORMULAS], screen)
    lines = screen.export_text().splitlines()
    assert long in lines
    # The formulas that there are, and the study's best in every resampled study.
    assert ["s", ".500", ".250", ".750", "all_t", "all_t", "all_r", "100", "%"] in [line.split() for line in lines]
    assert max(map(len, lines)) <= 80
