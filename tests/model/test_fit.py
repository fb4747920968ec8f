"""The fit against what is known exactly: complete data are conjugate."""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rat_ray.errors import InputError
from rat_ray.model import EngineSettings, Prior, fit, merge, patterns
from rat_ray.tables import SUMMARY, check_table, patterns_schema, posterior_schema
from tests.model.tables import fever, hide, row_of, table

# (a, b) of the posterior Betas for the 321 claims under Beta(1, 1).
FEVER_BETAS = {
    "rho": (217, 106),
    "alpha[0]": (39, 68),
    "alpha[1]": (25, 193),
    "tau[0]": (49, 20),
    "tau[1]": (170, 24),
}
SMALL = EngineSettings(chains=2, warmup=200, samples=200)
REPO = Path(__file__).resolve().parents[2]


def test_complete_data_give_the_conjugate_posterior(shared_data: Path) -> None:
    result = fit(fever(shared_data))
    for name, (a, b) in FEVER_BETAS.items():
        row = row_of(result, name)
        sd = math.sqrt(a * b / ((a + b) ** 2 * (a + b + 1)))
        assert abs(row["mean"] - a / (a + b)) < 4 * row["mcse"], name
        assert row["sd"] == pytest.approx(sd, rel=0.06), name
        assert row["identified"] == "identified"
        assert row["prior_sd"] == pytest.approx(math.sqrt(1 / 12))
    mean = {name: a / (a + b) for name, (a, b) in FEVER_BETAS.items()}
    p_g = (1 - mean["rho"]) * mean["alpha[0]"] + mean["rho"] * (1 - mean["alpha[1]"]) * mean["tau[1]"]
    assert p_g == pytest.approx(0.6408, abs=5e-5)
    row = row_of(result, "p_g")
    assert abs(row["mean"] - p_g) < 4 * row["mcse"]
    assert row["prior_sd"] == pytest.approx(0.2213, abs=0.005)
    assert row["items"] == 321
    assert result.status.status == "ok"
    assert result.identification.rank == 5


@pytest.mark.parametrize("name", ["jeffreys", "own"])
def test_other_priors_are_conjugate_too(shared_data: Path, name: str) -> None:
    prior = Prior(*[(0.5, 0.5)] * 8) if name == "jeffreys" else Prior((8, 2), (3, 1), (2, 5), (1, 4), (6, 2))
    result = fit(fever(shared_data), prior=prior)
    added = (prior.rho, prior.alpha0, prior.alpha1, prior.tau0, prior.tau1)
    for (quantity, (a, b)), (more_a, more_b) in zip(FEVER_BETAS.items(), added, strict=True):
        row = row_of(result, quantity)
        exact = (a - 1 + more_a) / (a + b - 2 + more_a + more_b)
        assert abs(row["mean"] - exact) < 4 * row["mcse"], quantity


def test_hidden_labels_widen_the_intervals_which_still_cover(shared_data: Path) -> None:
    full = fever(shared_data)
    complete, partial = fit(full), fit(hide(full, 0.5, seed=3, columns=("r", "t")))
    assert partial.status.status == "ok"
    for name in ("rho", "alpha[0]", "alpha[1]", "tau[0]", "tau[1]", "p_g"):
        whole, part = row_of(complete, name), row_of(partial, name)
        assert part["sd"] > 1.1 * whole["sd"], name
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


def test_tables_match_their_schemas() -> None:
    rows = [(1, 0, 1, 1, None), (0, 1, None, None, 0), (1, 0, 0, 0, 1), (0, None, None, 1, 1)]
    judges = ("t@x", "r@y")
    result = fit(table(rows, judges), engine=SMALL)
    names = result.summary["quantity"].to_pylist()
    assert names == [
        *["rho", "alpha[0]", "alpha[1]", "tau[0]", "tau[1]", "p_g", "p_t", "p_a", "accuracy", "p_g[r=0]", "p_g[r=1]"],
        *["guess", "lucky", "tpr[t@x]", "fpr[t@x]", "tpr[r@y]", "fpr[r@y]", "yes[t@x,a=1]"],
    ]
    check_table(result.draws, posterior_schema(names), "posterior")
    check_table(result.summary, SUMMARY, "summary")
    check_table(result.patterns, patterns_schema(list(judges)), "patterns")
    assert result.draws.num_rows == 400
    assert result.value("p_g", "items") == 4


def test_derived_quantities_follow_from_the_parameters_in_every_draw() -> None:
    draws = fit(table([(1, 0, 1), (0, 1, None), (1, 0, 0)]), engine=SMALL).draws
    q = {name: draws[name].to_numpy() for name in draws.schema.names[7:]}
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
    }
    for name, values in expected.items():
        np.testing.assert_allclose(q[name], values, rtol=1e-9, err_msg=name)


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


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([(1, 0, 1)], id="one item"),
        pytest.param([(1, 0, 1), (1, 0, 0), (1, 1, None)] * 20, id="all R=1"),
        pytest.param([(0, 1, None), (1, 1, None)] * 20, id="all abstained"),
        pytest.param([(0, 0, 1), (1, 0, 0)] * 20, id="no abstention"),
        pytest.param([(None, None, None)] * 5, id="nothing labelled"),
    ],
)
def test_boundaries_are_finite(rows: list[tuple[int | None, ...]]) -> None:
    result = fit(table(rows))
    assert result.status.status != "fail", result.status.reason
    for name in ("mean", "sd", "q2.5", "q97.5", "r_hat", "ess_bulk", "prior_sd"):
        assert result.summary[name].null_count == 0
        assert np.isfinite(result.summary[name].to_numpy()).all(), name


def test_counts_of_a_thousand_million_fit_as_well() -> None:
    counts = patterns(table([(1, 0, 1), (0, 1, None), (1, 0, 0), (0, 0, 1), (0, 0, 0), (1, 1, None)]), [])
    n = pa.array([10**9, 2 * 10**9, 10**7, 10, 1, 3 * 10**9])
    counts = counts.set_column(counts.schema.get_field_index("n"), counts.schema.field("n"), n)
    result = fit(counts)
    assert result.status.status == "ok", result.status.reason
    assert result.items == int(np.sum(n.to_numpy()))
    assert np.isfinite(result.summary["mean"].to_numpy()).all()


def test_count_tables_made_by_others_are_checked() -> None:
    counts = patterns(table([(1, 0, 1), (1, 0, 0), (0, 1, None)]), [])
    assert fit(counts.select(["n", "use", "t", "r", "a"]), engine=SMALL).items == 3
    n, use = counts.schema.names.index("n"), counts.schema.names.index("use")
    bad = {
        "column 'r' holds 2": counts.set_column(0, "r", pa.array([2, 1, 0], pa.int8())),
        "an abstention cannot be a correct answer": counts.set_column(2, "t", pa.array([1, 1, 1], pa.int8())),
        "column 'n' of a count table": counts.set_column(n, "n", pa.array([-1, 1, 1])),
        "column 'n' of a": counts.set_column(n, "n", pa.array([0.5, 1, 1])),
        "column 'use' of a count table.*'fitt'": counts.set_column(use, "use", pa.array(["fitt", "fit", "fit"])),
        "column 't' is missing": counts.drop_columns(["t"]),
        "judge 'config'": counts.append_column("config", pa.array(["x"] * 3)),
    }
    for message, wrong in bad.items():
        with pytest.raises(InputError, match=message):
            fit(wrong, engine=SMALL)


def test_what_is_no_table_of_labels_is_refused() -> None:
    with pytest.raises(InputError, match=r"not a dict; see pyarrow.Table.from_pandas"):
        fit({"r": [1], "a": [0], "t": [1]})  # type: ignore[arg-type]
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
