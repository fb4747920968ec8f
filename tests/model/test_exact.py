"""Missing labels, with and without a judge, against the exact posterior."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy.stats import beta

from rat_ray.model import EngineSettings, Prior, fit
from tests.model.oracle import completions, exact_draws, exact_moments, exact_posterior
from tests.model.tables import Row, row_of, simulate, table

HALF = (0.5, 0.5)
JEFFREYS = Prior(HALF, HALF, HALF, HALF, HALF, HALF, HALF, HALF)
SYMMETRIC = Prior(rho=(3.0, 3.0), alpha0=(1.0, 2.0), alpha1=(1.0, 2.0))  # a Dirichlet(1, ..., 1) of the six states
PRIORS = {"uniform": Prior(), "jeffreys": JEFFREYS, "states": SYMMETRIC}
ITEMS = 9
EXACT_DRAWS = 200_000
# (judge, model, prior, seed): the seeds are such that the tables cover every missing pattern
CASES = [
    *((None, "panel", prior, seed) for prior in PRIORS for seed in (1, 2)),
    *(
        (judge, model, prior, seed)
        for seed, (judge, model, prior) in enumerate(
            ((j, m, p) for j in ("r@x", "a@x", "t@x") for m in ("panel", "independent") for p in PRIORS), start=48
        )
    ),
]


def _random_rows(seed: int, judge: str | None) -> list[Row]:
    """Items of which every label is missing with probability 0.4."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for r, a, t in simulate(ITEMS, seed, 0.6, (0.5, 0.2), (0.3, 0.8)).tolist():
        labels: list[int | None] = [r, a, t if t >= 0 else None]
        labels = [None if rng.random() < 0.4 else label for label in labels]
        if labels[2] is not None:
            labels[1] = 0  # a known t says that there was an answer
        if judge is None:
            rows.append(tuple(labels))
            continue
        truth = {"r": r, "a": a, "t": t}[judge[0]]
        verdict: int | None = int(rng.random() < (0.8 if truth == 1 else 0.3))
        if rng.random() < 0.3 or (judge[0] == "t" and labels[1] == 1):
            verdict = None
        rows.append((*labels, verdict))
    return rows


def test_the_oracle_counts_every_completion() -> None:
    found = completions([(None, None, None), (1, None, None), (1, 0, None)])
    assert sum(found.values()) == 6 * 3 * 2


def test_the_oracle_is_conjugate_on_complete_data() -> None:
    moments = exact_moments(exact_posterior([(1, 0, 1), (1, 0, 0), (0, 1, None)], Prior()))
    assert moments["rho"] == pytest.approx((3 / 5, math.sqrt(3 * 2 / (25 * 6))))
    assert moments["tau[1]"][0] == pytest.approx(1 / 2)
    assert moments["tau[0]"] == pytest.approx((1 / 2, math.sqrt(1 / 12)))
    assert moments["finite[p_g]"] == pytest.approx((2 / 3, 0.0), abs=1e-7)


def test_the_oracle_is_conjugate_in_p_g_under_a_symmetric_prior_of_the_states() -> None:
    """A Dirichlet's sums are Betas, also when it is written as a tree of splits."""
    posterior = exact_posterior([(1, 0, 1), (1, 0, 0), (0, 1, None), (0, 0, 0)], SYMMETRIC)
    exact = beta(2 + 2, 4 + 2)
    assert exact_moments(posterior)["p_g"] == pytest.approx((exact.mean(), exact.std()))
    drawn = exact_draws(posterior, EXACT_DRAWS, 1)["p_g"]
    np.testing.assert_allclose(np.quantile(drawn, [0.025, 0.5, 0.975]), exact.ppf([0.025, 0.5, 0.975]), atol=0.003)


def test_the_tables_cover_every_missing_pattern() -> None:
    """r known or not; a unknown, abstained, or answered with t known or not; each with and without a verdict."""
    labels = {(r, at) for r in (True, False) for at in ("?", "abstained", "answered", "judged")}
    plain, judged = set(), set()
    for judge, _, _, seed in CASES:
        for r, a, t, *verdicts in _random_rows(seed, judge):
            at = "?" if a is None else "abstained" if a == 1 else "answered" if t is None else "judged"
            plain.add((r is not None, at))
            judged |= {(judge, r is not None, at, verdict is not None) for verdict in verdicts}
    assert plain == labels
    possible = {
        (judge, *label, said)
        for judge in ("r@x", "a@x", "t@x")
        for label in labels
        for said in (True, False)
        if not (judge == "t@x" and label[1] == "abstained" and said)  # set aside
    }
    assert judged == possible
    assert len(CASES) >= 20


@pytest.mark.parametrize("engine", ["stanli", "importance"])
@pytest.mark.parametrize(("judge", "model", "prior", "seed"), CASES)
def test_missing_labels_give_the_exact_posterior(
    judge: str | None, model: str, prior: str, seed: int, engine: str
) -> None:
    rows = _random_rows(seed, judge)
    judges = (judge,) if judge else ()
    settings = EngineSettings(kind=engine)
    result = fit(table(rows, judges), seed=seed, judge_model=model, prior=PRIORS[prior], engine=settings)
    assert result.status.status != "fail", result.status.reason
    for name, (mean, sd, error) in _expected(judge, model, prior, seed).items():
        row = row_of(result, name)
        if sd < 1e-7:  # the labels tell
            assert (row["mean"], row["sd"]) == pytest.approx((mean, 0.0), abs=1e-12), name
            continue
        assert abs(row["mean"] - mean) < 4 * math.hypot(row["mcse"], error), f"{name}: {row['mean']} is not {mean}"
        if math.isfinite(sd):
            assert row["sd"] == pytest.approx(sd, rel=0.07), name


@cache
def _expected(judge: str | None, model: str, prior: str, seed: int) -> dict[str, tuple[float, float, float]]:
    """Mean, sd, and the mean's own Monte Carlo error where it is made from draws."""
    posterior = exact_posterior(_random_rows(seed, judge), PRIORS[prior], judge, model)
    drawn = exact_draws(posterior, EXACT_DRAWS, 1)
    by_draws = {
        name: (float(x.mean()), float(x.std()), float(x.std()) / math.sqrt(EXACT_DRAWS)) for name, x in drawn.items()
    }
    return by_draws | {name: (*moments, 0.0) for name, moments in exact_moments(posterior).items()}
