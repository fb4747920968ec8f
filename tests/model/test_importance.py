"""Importance sampling: its density and derivatives, its weights, its draws, and when NUTS takes over."""

from __future__ import annotations

import importlib
import math
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom, genpareto

from rat_ray.model import EngineSettings, Prior, fit
from rat_ray.model.design import Design, Options, design_of
from rat_ray.model.diagnostics import convergence
from rat_ray.model.engines import program_path, sample
from rat_ray.model.engines.stanli import compiled
from rat_ray.model.estimate import Estimates, Estimator
from rat_ray.model.forward import Point, pattern_probabilities
from rat_ray.model.importance import sampling
from rat_ray.model.importance.density import derivatives, evaluate, log_density
from rat_ray.model.importance.joint import joint_of
from rat_ray.model.importance.laplace import laplace
from rat_ray.model.importance.proposal import proposal_at, propose
from rat_ray.model.importance.shared_out import successes
from rat_ray.model.importance.structure import Builder, counts_of
from rat_ray.model.importance.trees import tree_by, tree_for
from rat_ray.model.importance.weights import smooth, summarise_weighted, systematic, weighted_quantiles
from rat_ray.model.patterns import CALIBRATION, MISSING, Code
from rat_ray.model.states import STATES
from tests.model.study_tables import R_AND_T, code_of, study_table
from tests.model.tables import row_of, table

ENGINE = EngineSettings(kind="importance")
NUTS = EngineSettings(kind="stanli", chains=2, warmup=500, samples=2000)
QUANTITIES = ("p_g", "p_t", "rho", "alpha[0]", "tau[1]", "info[r]")
PRIOR = Prior(rho=(2, 1.5), alpha0=(0.7, 3), tau1=(2, 2), tpr=(2, 1), fpr=(1, 3))
ORDERS = [None, (1, 0, 2), (1, 2, 0), (0, 1, 2)]


def _design(judges: tuple[str, ...] = (), model: str = "independent", prior: Prior = PRIOR) -> Design:
    """With patterns of every kind, calibration items among them."""
    code = study_table(2, judges)
    use = code.use.copy()
    use[::5] = CALIBRATION
    return design_of({"all": code._replace(use=use)}, judges, prior, Options(model, replicate=False))


# --- the density ------------------------------------------------------------------------------------------------


def _by_forward(design: Design, u: np.ndarray) -> complex:
    """The log density at logits in the prior's tree, real or complex, another way: by `forward`, pattern by pattern."""
    p = 1 / (1 + np.exp(-u))
    splits, many = len(design.splits), design.layout.independent
    rates = p[splits:].copy()
    fpr, above = rates[:many].copy(), rates[many : 2 * many].copy()
    rates[many : 2 * many] = fpr + (1 - fpr) * above
    lp = np.log(p * (1 - p)).sum() + np.log(1 - fpr).sum()
    for (a, b), rate in zip([*design.splits, *design.layout.prior], [*p[:splits], *rates], strict=True):
        lp += (a - 1) * np.log(rate) + (b - 1) * np.log(1 - rate)
    point = Point(p[:splits, None], rates)
    return complex(lp + design.items.n @ np.log(pattern_probabilities(design, point)))


@pytest.mark.parametrize(("judges", "model"), [((), "panel"), (R_AND_T, "independent"), (R_AND_T, "panel")])
def test_the_density_and_its_gradient_by_complex_step(judges: tuple[str, ...], model: str) -> None:
    design = _design(judges, model)
    structure = Builder(design.data()).structure()
    counts = counts_of(design.data(), structure)
    rng = np.random.default_rng(1)
    u = rng.normal(size=(structure.parameters, 3))
    lp = log_density(u, structure, counts)
    exact = np.array([_by_forward(design, column).real for column in u.T])
    np.testing.assert_allclose(lp - lp[0], exact - exact[0], rtol=1e-10)
    found = derivatives(u[:, 0], structure, counts)
    assert found.lp == pytest.approx(lp[0], rel=1e-12)
    step = 1e-30
    unit = np.eye(len(u)) * 1j * step
    gradient = [_by_forward(design, u[:, 0] + one).imag / step for one in unit]
    np.testing.assert_allclose(found.gradient, gradient, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("judges", "model"), [((), "panel"), (R_AND_T, "independent"), (R_AND_T, "panel")])
def test_the_hessian_is_that_of_the_gradient(
    judges: tuple[str, ...], model: str, order: tuple[int, ...] | None
) -> None:
    data = _design(judges, model).data()
    joint = joint_of(data)
    assert (joint is None) == (model == "independent" or not judges)
    whole, values = (data, STATES.T.astype(int)) if joint is None else (joint.data, joint.values)
    order = order and (order if joint is None else (1, 3, 4, *order[1:]))
    structure = Builder(whole, order and tree_by(values, order)).structure()
    counts = counts_of(whole, structure)
    u, step = np.random.default_rng(2).normal(size=structure.parameters), 1e-5
    here = derivatives(u, structure, counts)
    assert here.lp == pytest.approx(log_density(u[:, None], structure, counts)[0], rel=1e-12)
    for k, unit in enumerate(np.eye(len(u)) * step):
        up, down = (derivatives(u + sign * unit, structure, counts) for sign in (1, -1))
        assert here.gradient[k] == pytest.approx((up.lp - down.lp) / (2 * step), rel=1e-5, abs=1e-4)
        np.testing.assert_allclose(here.hessian[k], (up.gradient - down.gradient) / (2 * step), rtol=1e-5, atol=1e-4)


def test_the_gradient_is_that_of_the_program() -> None:
    import stanli

    design = _design(R_AND_T)
    data = design.data()
    model = stanli.Model(mir=compiled(program_path().read_text(encoding="utf-8")), data=dict(data))
    structure = Builder(data).structure()
    counts = counts_of(data, structure)
    scale, centre = _units(data)
    x = np.random.default_rng(3).normal(size=(2, structure.parameters))
    theirs = [model.log_prob_grad(one.tolist()) for one in x]
    mine = [derivatives(centre + scale * one, structure, counts) for one in x]
    assert mine[1].lp - mine[0].lp == pytest.approx(theirs[1][0] - theirs[0][0], rel=1e-9)
    for one, (_, gradient) in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(one.gradient * scale, gradient, rtol=1e-8, atol=1e-8)


def _units(data: Any) -> tuple[np.ndarray, np.ndarray]:
    """As in the program: splits and fpr in units of what counts say of them, `above` as it is."""
    many = int(data["I"])
    yes = np.concatenate([data["prior_yes"] + data["known_yes"][:, 0], (data["prior_one"] + data["known_one"])[:many]])
    no = np.concatenate([data["prior_no"] + data["known_no"][:, 0], (data["prior_zero"] + data["known_zero"])[:many]])
    above = np.ones(many)
    scale, centre = np.sqrt(1 / yes + 1 / no), np.log(yes / no)
    return np.concatenate([scale, above]), np.concatenate([centre, 0 * above])


@pytest.mark.parametrize("judges", [(), R_AND_T])
def test_the_tree_does_not_change_the_posterior(judges: tuple[str, ...]) -> None:
    data = _design(judges).data()
    means = []
    for order in ORDERS:
        structure = Builder(data, order and tree_by(STATES.T.astype(int), order)).structure()
        counts = counts_of(data, structure)
        at = laplace(structure, counts)
        assert at is not None
        found = propose(proposal_at(at, structure, counts), 20_000, np.random.default_rng(4))
        made = evaluate(found.u, structure, counts)
        means.append(made.products[:6] @ smooth(made.lp - found.log_q).weights)
    for mean in means[1:]:
        np.testing.assert_allclose(mean, means[0], atol=0.0025)


# --- weights ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [-0.2, 0.1, 0.6, 0.9])
def test_the_smoothed_weights_are_those_of_arviz(shape: float) -> None:
    # 3,600 draws have a tail of 180; where 3 sqrt(draws) is not whole, arviz rounds down and we up, as the paper does.
    log_ratios = np.log(genpareto(shape).rvs(3600, random_state=np.random.default_rng(5)) + 1)
    found = smooth(log_ratios)
    arviz = importlib.import_module("arviz_stats.base").array_stats
    log_weights, k = arviz.psislw(-log_ratios)
    assert found.pareto_k == pytest.approx(float(k), abs=1e-6)
    theirs = np.exp(log_weights - np.logaddexp.reduce(log_weights))
    np.testing.assert_allclose(found.weights, theirs, rtol=1e-6)


def test_weights_that_are_all_alike_or_impossible() -> None:
    assert smooth(np.zeros(1000)).kish == pytest.approx(1000)
    assert smooth(np.full(1000, -np.inf)).pareto_k == math.inf
    mixed = np.random.default_rng(6).normal(0, 0.1, 1000)
    mixed[:10], mixed[10:20] = np.nan, -np.inf
    assert smooth(mixed).weights[:20].max() == 0
    assert smooth(mixed).weights.sum() == pytest.approx(1)


def test_weighted_estimates_of_equal_weights_are_the_plain_ones() -> None:
    values = np.random.default_rng(7).normal(size=(2, 4001))
    weights = np.full(4001, 1 / 4001)
    found = summarise_weighted(values, weights, (0.025, 0.975))
    np.testing.assert_allclose(found.mean, values.mean(axis=1))
    np.testing.assert_allclose(found.sd, values.std(axis=1))
    np.testing.assert_allclose(found.ess, 4001)
    np.testing.assert_allclose(
        weighted_quantiles(values, weights, (0.3,))[0], np.quantile(values, 0.3, axis=1), atol=2e-3
    )


def test_systematic_resampling_keeps_the_order_and_the_shares() -> None:
    weights = np.random.default_rng(8).dirichlet(np.full(50, 0.3))
    rows = systematic(weights, 1000, np.random.default_rng(9))
    assert (np.diff(rows) >= 0).all()
    assert (np.abs(np.bincount(rows, minlength=50) - 1000 * weights) < 1).all()


def test_sums_of_binomials_have_their_distribution() -> None:
    """Few items exactly, many by a normal one with the skewness."""
    rng = np.random.default_rng(10)
    draws = 200_000
    for n, p in ((12, 0.1), (400, 0.08)):
        drawn = successes(np.array([n]), np.full((1, draws), p), rng)
        exact = binom(n, p)
        assert drawn.mean() == pytest.approx(exact.mean(), abs=5 * exact.std() / math.sqrt(draws))
        steps = np.arange(n + 1)
        shares = np.bincount(drawn.astype(int), minlength=n + 1).cumsum() / draws
        assert np.abs(shares - exact.cdf(steps)).max() < 0.004


# --- estimates --------------------------------------------------------------------------------------------------


def _same(one: Estimates, two: Estimates) -> bool:
    return pickle.dumps(one) == pickle.dumps(two)


@pytest.mark.parametrize("shape", ["few", "half", "strong", "huge", "all zero", "one pattern"])
def test_complete_labels_give_betas(shape: str) -> None:
    """Also on the boundary, with few labels, with priors far from uniform, and with 1e9 items."""
    prior = {"half": Prior(*[(0.5, 0.5)] * 5), "strong": Prior(rho=(1e6, 2e6), tau0=(1e6, 1e6))}.get(shape, Prior())
    labels = np.array([[0, 1, MISSING], [0, 0, 0], [0, 0, 1], [1, 1, MISSING], [1, 0, 0], [1, 0, 1]], dtype=np.int8)
    n = {
        "few": [3, 2, 0, 0, 1, 4],
        "half": [0, 5, 0, 0, 0, 4],
        "huge": [10**8, 3 * 10**8, 10**7, 10**6, 2 * 10**8, 389 * 10**6],
        "all zero": [0] * 6,
        "one pattern": [0, 0, 0, 0, 0, 60],
    }.get(shape, [30, 40, 12, 8, 30, 50])
    names = ("rho", "alpha[0]", "alpha[1]", "tau[0]", "tau[1]")
    found = Estimator(names, prior=prior).estimate(code_of(labels, np.array(n)), 11)
    assert found.sampler == "importance"
    assert found.status == "ok"
    a0, w0, r0, a1, w1, r1 = n
    counts = [(a1 + w1 + r1, a0 + w0 + r0), (a0, w0 + r0), (a1, w1 + r1), (r0, w0), (r1, w1)]
    for index, ((a, b), (yes, no)) in enumerate(zip(prior.splits, counts, strict=True)):
        exact = beta(a + yes, b + no)
        error = exact.std() / math.sqrt(found.ess)
        assert abs(found.mean[index] - exact.mean()) < 4.5 * error, names[index]
        assert found.sd[index] == pytest.approx(exact.std(), rel=0.1)
        low, high = exact.cdf([found.low[index], found.high[index]])  # tails: levels, in Monte Carlo errors
        assert (low, high) == pytest.approx((0.025, 0.975), abs=4.5 * math.sqrt(0.025 * 0.975 / found.ess))


def test_patterns_without_items_are_as_if_they_were_not_there() -> None:
    """The same posterior; with the same list the very same numbers, whatever was fitted in between."""
    for judges, model in ((), "panel"), (R_AND_T, "independent"), (R_AND_T, "panel"):
        code = study_table(3, judges)
        more = np.unique(np.concatenate([code.labels, study_table(4, judges).labels]), axis=0)
        n = np.array([code.n[(code.labels == row).all(axis=1)].sum() for row in more])
        estimator = Estimator(QUANTITIES, judges, model)
        one, two = estimator.estimate(code, 5), estimator.estimate(code_of(more, n), 5)
        error = np.hypot(one.sd / math.sqrt(one.ess), two.sd / math.sqrt(two.ess))
        assert (np.abs(one.mean - two.mean) < 5 * error).all()
        for seed in range(3):
            estimator.estimate(study_table(seed, judges), seed)
        assert _same(estimator.estimate(code_of(more, n), 5), two)
        assert _same(Estimator(QUANTITIES, judges, model).estimate(code, 5), one)
        assert not np.array_equal(estimator.estimate(code, 6).mean, one.mean)


def test_the_numbers_do_not_depend_on_the_process_or_its_threads() -> None:
    script = (
        "import hashlib, pickle\n"
        "from rat_ray.model.estimate import Estimator\n"
        "from tests.model.study_tables import R_AND_T, study_table\n"
        "for judges, model in ((), 'panel'), (R_AND_T, 'independent'), (R_AND_T, 'panel'):\n"
        "    found = Estimator(('p_g', 'rho'), judges, model).estimate(study_table(3, judges), 5)\n"
        "    print(found.sampler, hashlib.sha256(pickle.dumps(found)).hexdigest())\n"
    )
    said = []
    for threads in ("1", "4"):
        variables = {**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        done = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True, check=True)
        said.append(done.stdout)
    assert said[0] == said[1]
    assert said[0].count("importance") == 3


def _compare(judges: tuple[str, ...], model: str, seeds: range) -> tuple[np.ndarray, int]:
    """Differences from NUTS in Monte Carlo errors, (tables, statistics, quantities), and how many fits NUTS made."""
    names = (*QUANTITIES, *(f"{rate}[{judge}]" for judge in judges for rate in ("tpr", "fpr")))
    fast = Estimator(names, judges, model)
    slow = fast.with_engine(NUTS)
    found, left = [], 0
    for seed in seeds:
        code = study_table(seed, judges)
        one, drawn = fast.estimate(code, seed), slow.draws(code, seed)
        left += one.sampler == "nuts"
        known = convergence(drawn.reshape(NUTS.chains, NUTS.samples, -1))
        bulk, tail = (np.array([getattr(q, name) for q in known]) for name in ("ess_bulk", "ess_tail"))
        z = [(one.mean - drawn.mean(axis=0)) / (drawn.std(axis=0) * np.sqrt(1 / one.ess + 1 / bulk))]
        # Ends by their levels, whatever the shape of the tail.
        for level, end in ((0.025, one.low), (0.975, one.high)):
            error = np.sqrt(level * (1 - level) * (1 / one.ess + 1 / tail))
            z.append(((drawn < end).mean(axis=0) - level) / error)
        found.append(np.array(z))
    return np.array(found), left


@pytest.mark.parametrize(
    ("judges", "model", "tables"), [((), "panel", 4), (R_AND_T, "independent", 2), (R_AND_T, "panel", 1)]
)
def test_means_and_interval_ends_are_those_of_nuts(judges: tuple[str, ...], model: str, tables: int) -> None:
    z, left = _compare(judges, model, range(3, 3 + tables))
    assert not left
    assert np.abs(z).max() < 4.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("judges", "model", "tables"), [((), "panel", 200), (R_AND_T, "independent", 40), (R_AND_T, "panel", 20)]
)
def test_means_and_interval_ends_are_those_of_nuts_on_many_tables(
    judges: tuple[str, ...], model: str, tables: int
) -> None:
    z, left = _compare(judges, model, range(tables))
    assert left <= tables / (5 if model == "independent" else 20)
    print(judges, model, left, np.abs(z).max(axis=(0, 2)), np.sqrt((z**2).mean(axis=(0, 2))))
    assert np.abs(z).max() < 5
    assert np.sqrt((z**2).mean(axis=(0, 2))).max() < 1.25


# --- the engine -------------------------------------------------------------------------------------------------


def test_the_diagnostics_of_resampled_draws_are_honest() -> None:
    """Effective draws, counted by the chains' own autocorrelation, foretell how far means of other seeds lie apart."""
    data = _design(R_AND_T, "panel").data()
    settings = replace(ENGINE, chains=2, samples=500)
    drawn = [sample(program_path(), data, seed, settings) for seed in range(1, 31)]
    assert {one.sampler for one in drawn} == {"importance"}
    assert len({one.values.tobytes() for one in drawn}) == 30
    columns = [drawn[0].names.index(name) for name in ("ratio[6,1]", "ratio[1,1]", "rate[1,1]")]
    means = np.array([one.values[:, :, columns].mean(axis=(0, 1)) for one in drawn])
    found = [convergence(one.values[:, :, columns]) for one in drawn]
    errors = np.array([[quantity.mcse for quantity in one] for one in found], dtype=float)
    ratio = means.std(axis=0, ddof=1) / np.sqrt((errors**2).mean(axis=0))
    assert (ratio > 0.6).all()
    assert (ratio < 1.4).all()
    assert max(quantity.r_hat or 0 for one in found for quantity in one) < 1.02


def test_the_engine_has_the_columns_of_the_program() -> None:
    rows = [
        (r, a, None if a else t, verdict, None if a else t)
        for r in (0, 1)
        for a in (0, 1)
        for t in (0, 1)
        for verdict in (0, 1, r, r)
    ] * 4 + [(None, 0, None, 1, 1), (None, 1, None, 0, None), (None, 0, 0, 0, 1)] * 9
    made = fit(table(rows, R_AND_T), engine=ENGINE, seed=3)
    theirs = fit(table(rows, R_AND_T), engine=replace(NUTS, chains=4, samples=1000), seed=3)
    assert made.draws.schema.names == theirs.draws.schema.names
    assert made.draws.column("log_likelihood").to_numpy().mean() == pytest.approx(
        theirs.draws.column("log_likelihood").to_numpy().mean(), abs=0.5
    )
    row = row_of(made, "p_g")
    assert (row["sampler"], row["divergences"], row["e_bfmi"], row["at_max_treedepth"]) == ("importance", 0, None, 0)
    assert row["pareto_k"] < 0.7
    assert row_of(theirs, "p_g")["sampler"] == "nuts"
    assert row_of(theirs, "p_g")["pareto_k"] is None


def test_nuts_takes_over_where_the_weights_will_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(1, 0, 1), (0, 1, None), (None, 0, None)] * 20
    estimator = Estimator(("p_g",))
    code = study_table(1)
    expected = estimator.estimate(code, 5)
    monkeypatch.setattr(sampling, "MOST_K", -math.inf)
    found = estimator.estimate(code, 5)
    assert (expected.sampler, found.sampler) == ("importance", "nuts")
    assert found.pareto_k is not None
    assert found.mean[0] == pytest.approx(expected.mean[0], abs=expected.sd[0] / 5)
    made = fit(table(rows), engine=ENGINE)
    assert row_of(made, "p_g")["sampler"] == "nuts"
    assert row_of(made, "p_g")["pareto_k"] is not None
    assert any(note.startswith("sampled by NUTS, since importance weights would not do here") for note in made.notes)


def test_strata_go_through_the_engine() -> None:
    """What the fast way does not know is fitted all the same."""
    code = study_table(1)
    twice = Code(
        np.concatenate([code.labels] * 2),
        np.concatenate([code.use] * 2),
        np.repeat([0, 1], len(code.n)).astype(np.int32),
        np.concatenate([code.n] * 2),
        np.concatenate([code.stands_for] * 2),
        ("a", "b"),
    )
    one, two = Estimator(("p_g",)).estimate(code, 1), Estimator(("p_g",)).estimate(twice, 1)
    assert two.sampler == "importance"
    assert two.mean[0] == pytest.approx(one.mean[0], abs=one.sd[0] / 4)
    assert two.sd[0] == pytest.approx(one.sd[0] / math.sqrt(2), rel=0.15)


def test_the_tree_follows_what_is_observed() -> None:
    joint = tree_for(_design().data())
    assert joint is not None
    assert joint.on_yes[:, 0].tolist() == [True, False, False, True, False, False]  # A first
    rows = code_of(
        np.array([[1, MISSING, MISSING], [0, MISSING, MISSING], [1, 0, 1]], dtype=np.int8), np.array([9, 8, 1])
    )
    assert tree_for(design_of({"all": rows}, (), PRIOR, Options()).data()) is None
