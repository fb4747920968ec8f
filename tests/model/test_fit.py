"""The fit against what is known exactly: complete data are conjugate."""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml
from scipy.stats import beta

from rat_ray.errors import InputError
from rat_ray.model import EngineSettings, Fit, Prior, fit, fit_together, merge, patterns
from rat_ray.model.posterior import quantities_of
from rat_ray.model.states import PARAMETERS
from rat_ray.tables import CHECKS, SUMMARY, check_table, patterns_schema, posterior_schema
from tests.model.tables import Row, fever, hide, row_of, table

# Items per state of the 321 claims: (R=0 abstained, wrong, right), (R=1 abstained, wrong, right).
FEVER = (38, 19, 48, 24, 23, 169)
FEVER_ROWS: list[Row] = [
    row
    for row, n in zip([(0, 1, None), (0, 0, 0), (0, 0, 1), (1, 1, None), (1, 0, 0), (1, 0, 1)], FEVER, strict=True)
    for _ in range(n)
]
SMALL = EngineSettings(chains=2, warmup=200, samples=200)
REPO = Path(__file__).resolve().parents[2]
PRIORS = sorted((REPO / "conf" / "prior").glob("*.yaml"))
OWN = Prior((8, 2), (3, 1), (2, 5), (1, 4), (6, 2))
MANY = EngineSettings(samples=2000)


def _exact_betas(prior: Prior) -> dict[str, tuple[float, float]]:
    """Quantities whose posterior is a Beta on complete data, with its (a, b)."""
    added = [*prior.splits, prior.alpha0, prior.alpha0[::-1]]
    a, w, s, a1, w1, s1 = FEVER
    counts = {
        "rho": (a1 + w1 + s1, a + w + s),
        "alpha[0]": (a, w + s),
        "alpha[1]": (a1, w1 + s1),
        "tau[0]": (s, w),
        "tau[1]": (s1, w1),
        "p_g[r=0]": (a, w + s),
        "guess": (w + s, a),
    }
    return {name: (x + p, y + q) for (name, (x, y)), (p, q) in zip(counts.items(), added, strict=True)}


def _check_beta(result: Fit, name: str, a: float, b: float) -> None:
    """Mean, sd and three quantiles within four Monte Carlo errors."""
    exact, row = beta(a, b), row_of(result, name)
    assert abs(row["mean"] - exact.mean()) < 4 * row["mcse"], name
    # The relative error of a standard deviation is 1 / sqrt(2 n) for normal draws.
    assert row["sd"] == pytest.approx(exact.std(), rel=4 / math.sqrt(row["ess_tail"])), name
    for column, share in (("q2.5", 0.025), ("q50", 0.5), ("q97.5", 0.975)):
        ess = row["ess_bulk"] if share == 0.5 else row["ess_tail"]
        at = exact.ppf(share)
        error = math.sqrt(share * (1 - share) / ess) / exact.pdf(at)
        assert abs(row[column] - at) < 4 * error, f"{name} {column}: {row[column]} is not {at}"


@pytest.mark.parametrize("name", [*(path.stem for path in PRIORS), "own"])
def test_complete_data_give_the_conjugate_posterior(name: str) -> None:
    prior = OWN if name == "own" else Prior(**yaml.safe_load((REPO / "conf" / "prior" / f"{name}.yaml").read_text()))
    result = fit(table(FEVER_ROWS), prior=prior, engine=MANY)
    assert result.status.status == "ok", result.status.reason
    assert result.identification.rank == 5
    for quantity, (a, b) in _exact_betas(prior).items():
        _check_beta(result, quantity, a, b)
        assert row_of(result, quantity)["identified"] == "identified"
    for quantity, beta_of in zip(PARAMETERS, prior.splits, strict=True):
        assert row_of(result, quantity)["prior_sd"] == pytest.approx(float(beta(*beta_of).std()))
    mean = {quantity: a / (a + b) for quantity, (a, b) in _exact_betas(prior).items()}
    p_g = (1 - mean["rho"]) * mean["alpha[0]"] + mean["rho"] * (1 - mean["alpha[1]"]) * mean["tau[1]"]
    row = row_of(result, "p_g")
    assert abs(row["mean"] - p_g) < 4 * row["mcse"]
    assert row["items"] == 321
    share = row_of(result, "finite[p_g]")  # all is labelled: nothing is left to learn
    assert share["mean"] == pytest.approx((38 + 169) / 321)
    assert share["sd"] == pytest.approx(0.0, abs=1e-12)


def test_the_prior_of_the_states_is_conjugate_in_every_sum_of_states() -> None:
    """Sums of a Dirichlet's parts are Betas."""
    prior = Prior(**yaml.safe_load((REPO / "conf" / "prior" / "states.yaml").read_text()))
    result = fit(table(FEVER_ROWS), prior=prior, engine=MANY)
    a, w, s, a1, w1, s1 = FEVER
    for name, n, states in (("p_g", a + s1, 2), ("p_t", s + s1, 2), ("p_a", a + a1, 2), ("lucky", s, 1)):
        _check_beta(result, name, n + states, 321 - n + 6 - states)
    _check_beta(result, "accuracy", s + s1 + 2, w + w1 + 2)
    _check_beta(result, "p_g[r=1]", s1 + 1, a1 + w1 + 2)
    _check_beta(result, "resolved[t]", w + w1 + 2, a + s + a1 + s1 + 4)
    prior_p_g = row_of(result, "p_g")["prior_sd"]
    assert prior_p_g == pytest.approx(float(beta(2, 4).std()), rel=0.03)


def test_the_default_prior_of_p_g(shared_data: Path) -> None:
    assert sorted(map(str, fever(shared_data).to_pylist())) == sorted(map(str, table(FEVER_ROWS).to_pylist()))
    row = row_of(fit(table(FEVER_ROWS)), "p_g")
    assert row["mean"] == pytest.approx(0.6408, abs=0.005)
    assert row["prior_sd"] == pytest.approx(0.2213, abs=0.005)


def test_hidden_labels_widen_the_intervals_which_still_cover(shared_data: Path) -> None:
    full = fever(shared_data)
    complete, partial = fit(full), fit(hide(full, 0.5, seed=3, columns=("r", "t")))
    assert partial.status.status == "ok"
    for name in ("rho", "alpha[0]", "alpha[1]", "tau[0]", "tau[1]", "p_g"):
        whole, part = row_of(complete, name), row_of(partial, name)
        assert part["sd"] > 1.05 * whole["sd"], name
        assert part["q2.5"] < whole["mean"] < part["q97.5"], name
    assert row_of(partial, "p_a")["sd"] == pytest.approx(row_of(complete, "p_a")["sd"], rel=0.1)  # a was never hidden


def test_without_any_t_tau_returns_to_its_prior(shared_data: Path) -> None:
    result = fit(hide(fever(shared_data), 1.0, seed=1, columns=("t",)))
    for name in ("tau[0]", "tau[1]"):
        row = row_of(result, name)
        assert abs(row["mean"] - 0.5) < 4 * row["mcse"]
        assert row["sd"] == pytest.approx(math.sqrt(1 / 12), rel=0.06)
        assert row["identified"] == "prior only"
    p_g = row_of(result, "p_g")
    assert p_g["identified"] == "bounded"
    assert p_g["low"] == pytest.approx(38 / 321, abs=1e-4)  # R=0 and abstained
    assert p_g["high"] == pytest.approx((38 + 192) / 321, abs=1e-4)  # and every answer at R=1 right
    assert row_of(result, "rho")["identified"] == "identified"


PLAIN = (
    *("rho", "alpha[0]", "alpha[1]", "tau[0]", "tau[1]", "p_g", "p_t", "p_a", "accuracy", "p_g[r=0]", "p_g[r=1]"),
    *("guess", "lucky", "resolved[r]", "resolved[t]", "info[r]", "info[t]", "info[r,t]"),
    *("finite[rho]", "finite[p_t]", "finite[p_a]", "finite[p_g]", "finite[lucky]"),
)
RATES = ("tpr[t@x]", "fpr[t@x]", "tpr[r@y]", "fpr[r@y]", "yes[t@x,a=1]")


@pytest.mark.parametrize("judge_model", ["panel", "independent"])
def test_tables_match_their_schemas(judge_model: str) -> None:
    rows = [(1, 0, 1, 1, None), (0, 1, None, None, 0), (1, 0, 0, 0, 1), (0, None, None, 1, 1)]
    judges = ("t@x", "r@y")
    result = fit(table(rows, judges), engine=SMALL, judge_model=judge_model)
    names = result.summary["quantity"].to_pylist()
    assert names == [*PLAIN, *RATES, *(["cor[t@x,r@y]"] if judge_model == "panel" else [])]
    assert names == quantities_of(result.draws)
    replicated = [name for name in result.draws.schema.names if name.startswith("n_rep[")]
    check_table(result.draws, posterior_schema([*names, *replicated]), "posterior")
    check_table(result.summary, SUMMARY, "summary")
    check_table(result.checks, CHECKS, "checks")
    check_table(result.patterns, patterns_schema(list(judges)), "patterns")
    assert result.draws.num_rows == 400
    assert result.checks.filter(pc.not_equal(result.checks["pattern"], "all")).num_rows == len(replicated)
    assert result.value("p_g", "items") == 4


def test_derived_quantities_follow_from_the_parameters_in_every_draw() -> None:
    draws = fit(table([(1, 0, 1), (0, 1, None), (1, 0, 0)]), engine=SMALL).draws
    q = {name: draws[name].to_numpy() for name in quantities_of(draws)}
    success = q["rho"] * (1 - q["alpha[1]"]) * q["tau[1]"]
    lucky = (1 - q["rho"]) * (1 - q["alpha[0]"]) * q["tau[0]"]
    p_a = (1 - q["rho"]) * q["alpha[0]"] + q["rho"] * q["alpha[1]"]
    expected = {
        "p_g": (1 - q["rho"]) * q["alpha[0]"] + success,
        "p_t": success + lucky,
        "p_a": p_a,
        "accuracy": (success + lucky) / (1 - p_a),
        "p_g[r=0]": q["alpha[0]"],
        "p_g[r=1]": (1 - q["alpha[1]"]) * q["tau[1]"],
        "guess": 1 - q["alpha[0]"],
        "lucky": lucky,
        "resolved[r]": 1 - q["rho"] * (1 - q["alpha[1]"]),
        "resolved[t]": 1 - p_a - success - lucky,
    }
    for name, values in expected.items():
        np.testing.assert_allclose(q[name], values, rtol=1e-9, err_msg=name)


def test_information_is_the_mutual_information_given_a() -> None:
    """I(G; X | A) = H(G | A) - H(G | A, X), by counting over the six states."""
    draws = fit(table([(1, 0, 1), (0, 1, None), (1, 0, 0), (0, 0, 1)]), engine=SMALL).draws
    for row in draws.slice(0, 20).to_pylist():
        rho, a, t = row["rho"], (row["alpha[0]"], row["alpha[1]"]), (row["tau[0]"], row["tau[1]"])
        mass: dict[tuple[int | None, ...], float] = {}
        for r in (0, 1):
            p_r = rho if r else 1 - rho
            mass[r, 1, None, int(r == 0)] = p_r * a[r]
            for right in (0, 1):
                mass[r, 0, right, r * right] = p_r * (1 - a[r]) * (t[r] if right else 1 - t[r])
        for name, given in (("info[r]", (1, 0)), ("info[t]", (1, 2)), ("info[r,t]", (1, 0, 2))):
            expected = _entropy_of_g(mass, (1,)) - _entropy_of_g(mass, given)
            assert row[name] == pytest.approx(expected, abs=1e-9), name


def _entropy_of_g(mass: dict[tuple[int | None, ...], float], given: tuple[int, ...]) -> float:
    """H(G | the variables at these places) in bits. mass: by (r, a, t, g)."""
    joint: dict[tuple[int | None, ...], float] = {}
    margin: dict[tuple[int | None, ...], float] = {}
    for state, p in mass.items():
        key = tuple(state[i] for i in given)
        margin[key] = margin.get(key, 0.0) + p
        joint[(*key, state[3])] = joint.get((*key, state[3]), 0.0) + p
    return -sum(p * math.log2(p / margin[key[:-1]]) for key, p in joint.items() if p > 0)


def test_an_unknown_quantity_is_a_key_error() -> None:
    result = fit(table([(1, 0, 1)]), engine=SMALL)
    assert result.value("p_g", "config") == "all"
    with pytest.raises(KeyError, match="p_q is none of rho"):
        result.value("p_q")


def test_what_makes_no_sense_about_judges_is_refused() -> None:
    five = tuple(f"t@{i}" for i in range(5))
    labels = table([(1, 0, 1, 1, 1, 0, 1, 0)], five)
    with pytest.raises(InputError, match=r"at most 4 judges, here are 5 \(t@0, t@1"):
        fit(labels)
    assert fit(labels, judge_model="independent", engine=SMALL).value("tpr[t@4]") is not None
    with pytest.raises(InputError, match=r"judge_model = 'panels' is unknown \(did you mean 'panel'"):
        fit(labels, judge_model="panels")
    with pytest.raises(InputError, match="no tables to fit"):
        fit_together({})


def _digest(draws: pa.Table) -> str:
    return hashlib.sha256(b"".join(draws[name].to_numpy().tobytes() for name in draws.schema.names[3:])).hexdigest()


def _small_table() -> pa.Table:
    return table([(1, 0, 1, 1), (0, 1, None, None), (1, 0, 0, 0), (None, 0, 1, 1), (0, 0, None, 1)], ("t@x",))


def test_same_seed_same_draws_whatever_the_process_and_the_order_of_rows() -> None:
    labels = _small_table()
    here = _digest(fit(labels, engine=SMALL, seed=5, config="c").draws)
    turned = labels.take(list(range(labels.num_rows))[::-1])
    assert _digest(fit(turned, engine=SMALL, seed=5, config="c").draws) == here
    threads = EngineSettings(chains=2, warmup=200, samples=200, parallel_chains=2)
    assert _digest(fit(labels, engine=threads, seed=5, config="c").draws) == here
    assert _digest(fit(labels, engine=SMALL, seed=6, config="c").draws) != here
    assert _digest(fit(labels, engine=SMALL, seed=5, config="d").draws) != here
    code = (
        "from tests.model.test_fit import *\n"
        "from tests.model.test_fit import _digest, _small_table\n"
        "print(_digest(fit(_small_table(), engine=SMALL, seed=5, config='c').draws))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == here


def test_a_table_that_goes_through_parquet_fits_the_same(tmp_path: Path) -> None:
    labels = _small_table()
    pq.write_table(labels, tmp_path / "labels.parquet")
    again = pq.read_table(tmp_path / "labels.parquet")
    assert _digest(fit(again, engine=SMALL).draws) == _digest(fit(labels, engine=SMALL).draws)
    pq.write_table(patterns(labels, ["t@x"]), tmp_path / "patterns.parquet")
    counts = pq.read_table(tmp_path / "patterns.parquet")
    assert _digest(fit(counts, engine=SMALL).draws) == _digest(fit(labels, engine=SMALL).draws)
    halves = merge([patterns(labels.slice(0, 2), ["t@x"]), patterns(labels.slice(2), ["t@x"])])
    assert _digest(fit(halves, engine=SMALL).draws) == _digest(fit(labels, engine=SMALL).draws)


def test_zero_items_are_an_error_in_words() -> None:
    with pytest.raises(InputError, match="no items to fit: the table has no rows"):
        fit(table([]))
    failed = table([(None, None, None)] * 3).append_column("error", pa.array(["out of memory"] * 3))
    with pytest.raises(InputError, match="no items to fit: all 3 rows failed"):
        fit(failed)


def test_count_tables_made_by_others_are_checked() -> None:
    counts = patterns(table([(1, 0, 1), (1, 0, 0), (0, 1, None)]), [])
    assert fit(counts.select(["n", "use", "t", "r", "a"]), engine=SMALL).items == 3
    n, use = counts.schema.names.index("n"), counts.schema.names.index("use")
    bad = {
        "column 'r' holds 2": counts.set_column(0, "r", pa.array([2, 1, 0], pa.int8())),
        "an abstention cannot be a correct answer": counts.set_column(2, "t", pa.array([1, 1, 1], pa.int8())),
        "column 'n' of a count table": counts.set_column(n, "n", pa.array([-1, 1, 1])),
        "column 'n' of a": counts.set_column(n, "n", pa.array([0.5, 1, 1])),
        "column 'use' of a count table holds fitt": counts.set_column(use, "use", pa.array(["fitt", "fit", "fit"])),
        "column 't' is missing": counts.drop_columns(["t"]),
        "judge 'config'": counts.append_column("config", pa.array(["x"] * 3)),
    }
    for message, wrong in bad.items():
        with pytest.raises(InputError, match=message):
            fit(wrong, engine=SMALL)


def test_what_is_no_table_of_labels_is_refused() -> None:
    with pytest.raises(InputError, match=r"not a dict; see pyarrow.Table.from_pandas"):
        fit({"r": [1], "a": [0], "t": [1]})
    with pytest.raises(InputError, match="column 'r' occurs 2 times"):
        fit(pa.Table.from_arrays([pa.array([1])] * 4, names=["r", "r", "a", "t"]))


def test_settings_that_make_no_sense_are_refused() -> None:
    labels = table([(1, 0, 1)])
    with pytest.raises(InputError, match=r"engine.kind = 'stanly' is unknown \(did you mean 'stanli'"):
        fit(labels, engine=EngineSettings(kind="stanly"))
    with pytest.raises(InputError, match=r"engine.chains = 0"):
        fit(labels, engine=EngineSettings(chains=0))
    with pytest.raises(InputError, match=r"engine.adapt_delta = 1"):
        fit(labels, engine=EngineSettings(adapt_delta=1.0))
    with pytest.raises(InputError, match=r"prior.tau0 = "):
        fit(labels, prior=Prior(tau0=(0.0, 1.0)))
