"""Judges under the independent model."""

from __future__ import annotations

import numpy as np

from rat_ray.model import EngineSettings, Fit, fit
from tests.model.tables import Row, row_of, simulate, table

TRUE = {"rho": 0.6, "alpha[0]": 0.5, "alpha[1]": 0.15, "tau[0]": 0.2, "tau[1]": 0.75}
P_G = 0.4 * 0.5 + 0.6 * 0.85 * 0.75
RATES = {"tpr": 0.9, "fpr": 0.2}


def _judged(items: int, trusted: int, seed: int, judges: tuple[str, ...], drop_a: float = 0.0) -> list[Row]:
    """a is known unless dropped; r and t of the first `trusted` items; verdicts of tpr .9 and fpr .2 on every item."""
    rng = np.random.default_rng(seed)
    states = simulate(items, seed, TRUE["rho"], (TRUE["alpha[0]"], TRUE["alpha[1]"]), (TRUE["tau[0]"], TRUE["tau[1]"]))
    rows: list[Row] = []
    for index, (r, a, t) in enumerate(states.tolist()):
        truth = {"r": r, "a": a, "t": t}
        verdicts = [int(rng.random() < (RATES["tpr"] if truth[judge[0]] == 1 else RATES["fpr"])) for judge in judges]
        known = index < trusted
        hide_a = not known and rng.random() < drop_a
        rows.append((r if known else None, None if hide_a else a, t if known and t >= 0 else None, *verdicts))
    return rows


def _check(result: Fit, names: dict[str, float]) -> None:
    for name, truth in names.items():
        row = row_of(result, name)
        assert abs(row["mean"] - truth) < 3 * row["sd"], f"{name}: {row['mean']} with sd {row['sd']} for {truth}"
        assert row["identified"] == "identified", name


def test_a_judge_of_each_variable_is_recovered() -> None:
    judges = ("r@x", "t@x")
    rows = _judged(2000, 100, 4, judges)
    result = fit(table(rows, judges))
    assert result.status.status == "ok", result.status.reason
    rates = {f"{rate}[{judge}]": value for judge in judges for rate, value in RATES.items()}
    _check(result, {**TRUE, "p_g": P_G, **rates})
    alone = fit(table([row[:3] for row in rows]))
    assert row_of(result, "p_g")["sd"] < 0.75 * row_of(alone, "p_g")["sd"]  # the verdicts helped
    draws = result.draws
    for judge in judges:
        assert (draws[f"tpr[{judge}]"].to_numpy() > draws[f"fpr[{judge}]"].to_numpy()).all()


def test_a_judge_of_a_and_verdicts_on_t_where_a_is_unknown() -> None:
    judges = ("a@x", "t@x")
    result = fit(table(_judged(2000, 200, 5, judges, drop_a=0.5), judges))
    rates = {f"{rate}[{judge}]": value for judge in judges for rate, value in RATES.items()}
    assert result.status.status == "ok", result.status.reason
    # On abstentions the simulated judge of t says 1 at the rate of its fpr.
    _check(result, {"rho": 0.6, "p_a": 0.4 * 0.5 + 0.6 * 0.15, **rates, "yes[t@x,a=1]": RATES["fpr"]})


def test_tpr_stays_above_fpr_even_for_a_judge_that_is_always_wrong() -> None:
    rows = [(r, 0, 1, 1 - r) for r in (0, 1)] * 30
    draws = fit(table(rows, ("r@liar",))).draws
    tpr, fpr = draws["tpr[r@liar]"].to_numpy(), draws["fpr[r@liar]"].to_numpy()
    assert (tpr > fpr).all()
    assert np.isfinite(tpr).all()


def test_a_judge_without_verdicts_changes_nothing_and_keeps_its_prior() -> None:
    rows = [(1, 0, 1), (0, 1, None), (1, 0, 0), (0, 0, 1)] * 20
    result = fit(table([(*row, None) for row in rows], ("r@x",)))
    plain = fit(table(rows))
    for name in ("rho", "p_g"):
        row = row_of(result, name)
        assert abs(row["mean"] - row_of(plain, name)["mean"]) < 4 * np.hypot(row["mcse"], row_of(plain, name)["mcse"])
    tpr = row_of(result, "tpr[r@x]")
    assert tpr["identified"] == "prior only"
    assert abs(tpr["mean"] - 2 / 3) < 4 * tpr["mcse"]  # the larger of two uniform numbers
    assert abs(tpr["prior_sd"] - np.sqrt(1 / 18)) < 0.003


def test_a_judge_that_always_says_yes_is_finite() -> None:
    rows = [(1, 0, 1, 1), (0, 1, None, 1), (1, 0, 0, 1), (0, 0, 1, 1), (None, 0, None, 1)] * 20
    result = fit(table(rows, ("r@yes",)), engine=EngineSettings(samples=500))
    assert np.isfinite(result.summary["mean"].to_numpy()).all()
    assert row_of(result, "tpr[r@yes]")["mean"] > 0.9
    assert row_of(result, "fpr[r@yes]")["identified"] == "identified"
