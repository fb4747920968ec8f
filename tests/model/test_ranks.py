"""Ranks over many systems against brute force on draws whose joint distribution is known."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import norm, rankdata

from rat_ray.comparing import _groups, _ranked
from rat_ray.model.ranks import correlation, normal_scores, ranks
from rat_ray.tables import COMPARISON, RANKS, check_table

DRAWS = 8000


def rows_of(made: pa.Table) -> dict[str, dict[str, Any]]:
    check_table(made, RANKS, "ranks")
    return {row["config"]: row for row in made.to_pylist()}


def check(made: pa.Table, joint: Mapping[str, np.ndarray], within: float = 0.015) -> None:
    """joint: draws from the true joint distribution."""
    found, values = rows_of(made), np.stack(list(joint.values()), axis=1)
    place = rankdata(-values, axis=1)
    for i, name in enumerate(joint):
        row = found[name]
        assert row["p_best"] == pytest.approx((place[:, i] == 1).mean(), abs=within), name
        assert row["rank_mean"] == pytest.approx(place[:, i].mean(), abs=2 * within), name
        for column, share in (("rank_q5", 0.05), ("rank_q95", 0.95)):
            near = np.quantile(place[:, i], [share - 0.02, share + 0.02])
            assert near[0] <= row[column] <= near[1], (name, column)
        assert row["configurations"] == len(joint)
    assert sum(row["p_best"] for row in found.values()) == pytest.approx(1)
    assert sum(row["rank_mean"] for row in found.values()) == pytest.approx(sum(range(1, len(joint) + 1)))


def test_independent_posteriors_give_what_brute_force_gives() -> None:
    rng = np.random.default_rng(1)
    shapes = {"a": (60, 40), "b": (62, 38), "c": (50, 50), "d": (5.0, 3.0)}
    draws = {name: rng.beta(*shape, DRAWS) for name, shape in shapes.items()}
    made = ranks(draws, {}, "p_g")
    check(made, {name: rng.beta(*shape, 200_000) for name, shape in shapes.items()})
    means = made["mean"].to_pylist()
    assert means == sorted(means, reverse=True)
    assert rows_of(made)["a"]["sd"] == pytest.approx(draws["a"].std(ddof=1))


def test_correlated_posteriors_give_what_their_joint_distribution_gives() -> None:
    """Betas under a Gaussian copula; independent ones would say something else."""
    rng = np.random.default_rng(2)
    matrix = np.array([[1, 0.9, 0.8, 0.0], [0.9, 1, 0.85, 0.1], [0.8, 0.85, 1, 0.0], [0.0, 0.1, 0.0, 1]])
    names = list("abcd")
    joint = _beta_copula(matrix, [(60, 40), (63, 37), (61, 39), (60, 40)], 200_000, rng)
    marginal = {name: rng.permutation(values[:DRAWS]) for name, values in zip(names, joint, strict=True)}
    pairs = {
        (names[i], names[j]): correlation(joint[i][:DRAWS], joint[j][:DRAWS])
        for i, j in itertools.combinations(range(4), 2)
    }
    assert pairs["a", "b"] == pytest.approx(0.9, abs=0.01)
    check(ranks(marginal, pairs, "p_g"), dict(zip(names, joint, strict=True)))
    apart = rows_of(ranks(marginal, {}, "p_g"))
    together = rows_of(ranks(marginal, pairs, "p_g"))
    assert abs(apart["d"]["p_best"] - together["d"]["p_best"]) > 0.03


def _beta_copula(
    matrix: np.ndarray, shapes: list[tuple[int, int]], draws: int, rng: np.random.Generator
) -> list[np.ndarray]:
    from scipy.stats import beta

    normal = rng.multivariate_normal(np.zeros(len(matrix)), matrix, draws)
    return [beta(*shape).ppf(norm.cdf(normal[:, i])) for i, shape in enumerate(shapes)]


def test_the_order_of_the_systems_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    draws = {name: rng.normal(mean, 1, DRAWS) for name, mean in (("a", 0.0), ("b", 0.3), ("c", 0.1))}
    pairs = {("a", "b"): 0.6, ("b", "c"): 0.2}
    one = rows_of(ranks(draws, pairs, "x"))
    other = rows_of(ranks(dict(reversed(draws.items())), {(j, i): v for (i, j), v in pairs.items()}, "x"))
    for name in draws:
        assert one[name]["p_best"] == pytest.approx(other[name]["p_best"], abs=0.015)


def test_correlations_that_no_joint_distribution_has_do_no_harm() -> None:
    """Pairs are estimated one by one: a with b and b with c go together, a with c against each other."""
    rng = np.random.default_rng(4)
    draws = {name: rng.normal(0, 1, DRAWS) for name in "abc"}
    pairs = {("a", "b"): 0.95, ("b", "c"): 0.95, ("a", "c"): -0.9}
    assert np.linalg.eigvalsh([[1, 0.95, -0.9], [0.95, 1, 0.95], [-0.9, 0.95, 1]]).min() < 0
    found = rows_of(ranks(draws, pairs, "x"))
    assert sum(row["p_best"] for row in found.values()) == pytest.approx(1)
    assert all(np.isfinite([row["p_best"], row["rank_mean"]]).all() for row in found.values())
    # Each margin stays what it was.
    assert found["a"]["p_best"] == pytest.approx(found["c"]["p_best"], abs=0.05)
    sure = {("a", "b"): 1.0, ("b", "c"): 1.0, ("a", "c"): 1.0}
    assert sum(row["p_best"] for row in rows_of(ranks(draws, sure, "x")).values()) == pytest.approx(1)


def test_ties_share_their_rank_and_being_best() -> None:
    rng = np.random.default_rng(5)
    flat = {"a": np.full(DRAWS, 0.7), "b": np.full(DRAWS, 0.7), "c": rng.uniform(0, 0.6, DRAWS)}
    found = rows_of(ranks(flat, {("a", "b"): correlation(flat["a"], flat["b"]), ("a", "c"): 0.0}, "rho"))
    for name in "ab":
        assert found[name]["p_best"] == pytest.approx(0.5)
        assert found[name]["rank_mean"] == found[name]["rank_q5"] == found[name]["rank_q95"] == pytest.approx(1.5)
    assert (found["c"]["p_best"], found["c"]["rank_mean"]) == (0.0, 3.0)


def test_a_system_and_its_twin_are_best_half_of_the_time_each() -> None:
    rng = np.random.default_rng(6)
    values = rng.beta(60, 40, DRAWS)
    found = rows_of(ranks({"a": values, "b": values[::-1], "c": values - 0.5}, {("a", "b"): 0.99}, "p_g"))
    assert found["a"]["p_best"] == pytest.approx(0.5, abs=0.02)
    assert found["c"]["rank_q5"] == 3


def test_normal_scores_keep_the_order_and_constants_have_no_correlation() -> None:
    rng = np.random.default_rng(7)
    values = rng.exponential(size=999) ** 3
    scores = normal_scores(values)
    assert np.array_equal(np.argsort(scores), np.argsort(values))
    assert (scores.mean(), scores.std()) == pytest.approx((0, 1), abs=0.01)
    assert correlation(values, np.log(values)) == pytest.approx(1)
    assert correlation(values, -(values**2)) == pytest.approx(-1)
    assert correlation(values, np.full(999, 0.3)) == 0.0


class _Draws:
    """Stands for a committed posterior table."""

    def __init__(self, values: list[float | None]) -> None:
        self.values = values

    def read(self, columns: list[str]) -> pa.Table:
        return pa.table({name: pa.array(self.values, pa.float64()) for name in columns})


def _compared(*pairs: tuple[str, str]) -> pa.Table:
    rows = [
        {"first": one, "second": two, "quantity": quantity, "correlation": 0.3, "identified": 1, "status": "ok"}
        for one, two in pairs
        for quantity in ("p_g", "p_t")
    ]
    return pa.Table.from_pylist(rows, schema=COMPARISON)


def test_a_failed_fit_has_no_rank() -> None:
    rng = np.random.default_rng(8)
    posteriors: Any = {name: _Draws(rng.normal(size=500).tolist()) for name in "abc"} | {"d": _Draws([None] * 500)}
    made = _ranked(_compared(*itertools.combinations("abcd", 2)), posteriors, "p_g")
    assert sorted(made["config"].to_pylist()) == ["a", "b", "c"]
    assert set(made["configurations"].to_pylist()) == {3}
    alone = _ranked(_compared(("a", "d")), {name: posteriors[name] for name in "ad"}, "p_g")
    assert alone.num_rows == 0
    check_table(alone, RANKS, "ranks")


def test_systems_without_common_questions_are_ranked_apart() -> None:
    pairs = [("a", "b"), ("c", "d"), ("d", "e")]
    assert _groups(list("abcdef"), pairs) == [["a", "b"], ["c", "d", "e"]]
    assert _groups(list("ab"), []) == []
    rng = np.random.default_rng(9)
    posteriors: Any = {name: _Draws(rng.normal(size=500).tolist()) for name in "abcdef"}
    found = rows_of(_ranked(_compared(*pairs), posteriors, "p_g"))
    assert sorted(found) == list("abcde")  # f was compared with none
    assert sum(found[name]["p_best"] for name in "ab") == pytest.approx(1)
    assert sum(found[name]["p_best"] for name in "cde") == pytest.approx(1)
    assert {name: row["configurations"] for name, row in found.items()} == dict.fromkeys("ab", 2) | dict.fromkeys(
        "cde", 3
    )
