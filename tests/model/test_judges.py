"""Judges under the two models of their errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rat_ray.errors import InputError
from rat_ray.model import EngineSettings, Fit, Prior, fit, fit_together, patterns
from rat_ray.model.posterior import design_for
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


MODELS = pytest.mark.parametrize("model", ["panel", "independent"])


@MODELS
def test_a_judge_of_each_variable_is_recovered(model: str) -> None:
    judges = ("r@x", "t@x")
    rows = _judged(2000, 150, 4, judges)
    result = fit(table(rows, judges), judge_model=model)
    assert result.status.status == "ok", result.status.reason
    rates = {f"{rate}[{judge}]": value for judge in judges for rate, value in RATES.items()}
    _check(result, {**TRUE, "p_g": P_G, **rates})
    alone = fit(table([row[:3] for row in rows]))
    # The verdicts helped, more where the judges are said to be independent.
    assert row_of(result, "p_g")["sd"] < (0.9 if model == "panel" else 0.75) * row_of(alone, "p_g")["sd"]
    if model == "independent":
        for judge in judges:
            draws = result.draws
            assert (draws[f"tpr[{judge}]"].to_numpy() > draws[f"fpr[{judge}]"].to_numpy()).all()


@MODELS
def test_a_judge_of_a_and_verdicts_on_t_where_a_is_unknown(model: str) -> None:
    judges = ("a@x", "t@x")
    result = fit(table(_judged(2000, 200, 5, judges, drop_a=0.5), judges), judge_model=model)
    rates = {f"{rate}[{judge}]": value for judge in judges for rate, value in RATES.items()}
    assert result.status.status == "ok", result.status.reason
    # On abstentions the simulated judge of t says 1 at the rate of its fpr.
    _check(result, {"rho": 0.6, "p_a": 0.4 * 0.5 + 0.6 * 0.15, **rates, "yes[t@x,a=1]": RATES["fpr"]})


def _shared_errors(items: int, labelled: int, seed: int) -> list[Row]:
    """Two judges of t that make the same mistakes: on three items in ten both are wrong, else both are right."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for index, (r, a, t) in enumerate(simulate(items, seed, 0.6, (0.5, 0.15), (0.2, 0.75)).tolist()):
        hard = rng.random() < 0.3
        said = None if a == 1 else int(t != hard)
        known = index < labelled
        rows.append((r if known else None, a, t if known and a == 0 else None, said, said))
    return rows


def test_a_panel_learns_that_judges_share_errors() -> None:
    judges = ("t@x", "t@y")
    rows = _shared_errors(3000, 150, 7)
    panel = fit(table(rows, judges))
    naive = fit(table(rows, judges), judge_model="independent")
    p_t = (1 - 0.6) * 0.5 * 0.2 + 0.6 * 0.85 * 0.75
    assert panel.status.status == "ok", panel.status.reason
    _check(panel, {"p_t": p_t, "p_g": P_G, "tpr[t@x]": 0.7, "fpr[t@y]": 0.3})
    assert row_of(panel, "cor[t@x,t@y]")["q2.5"] > 0.8
    row = row_of(naive, "p_t")
    assert not row["q2.5"] < p_t < row["q97.5"]  # it takes two equal verdicts for two witnesses


def test_a_panel_of_independent_judges_finds_no_correlation() -> None:
    judges = ("t@x", "r@y")
    row = row_of(fit(table(_judged(2000, 300, 8, judges), judges)), "cor[t@x,r@y]")
    assert abs(row["mean"]) < 3 * row["sd"]
    assert row["sd"] < 0.2


def test_states_that_differ_in_a_variable_never_observed_share_their_panel() -> None:
    """Without any R, wrong answers at R = 0 and at R = 1 cannot be told apart: one fpr, whatever rho is."""
    rng = np.random.default_rng(3)
    rows: list[Row] = []
    for index in range(400):
        t = int(rng.random() < 0.6)
        rows.append((None, 0, t if index < 100 else None, *(int(rng.random() < (0.9 if t else 0.2)) for _ in "xy")))
    judges = ("t@x", "t@y")
    design = design_for({"c": patterns(table(rows, judges), list(judges))}, Prior())
    groups = {states for states, _ in design.sides[0].splits}
    assert groups == {(1, 4), (2, 5)}  # and none for an abstention
    result = fit(table(rows, judges))
    assert result.status.status == "ok", result.status.reason
    _check(result, {"p_t": 0.6, "tpr[t@x]": 0.9, "fpr[t@y]": 0.2})
    assert row_of(result, "rho")["identified"] == "prior only"


def test_tpr_stays_above_fpr_even_for_a_judge_that_is_always_wrong() -> None:
    rows: Sequence[Row] = [(r, 0, 1, 1 - r) for r in (0, 1)] * 30
    draws = fit(table(rows, ("r@liar",)), judge_model="independent").draws
    tpr, fpr = draws["tpr[r@liar]"].to_numpy(), draws["fpr[r@liar]"].to_numpy()
    assert (tpr > fpr).all()
    assert np.isfinite(tpr).all()
    assert row_of(fit(table(rows, ("r@liar",))), "tpr[r@liar]")["q97.5"] < 0.2  # a panel believes the labels


@MODELS
def test_a_judge_without_verdicts_changes_nothing_and_keeps_its_prior(model: str) -> None:
    rows: Sequence[Row] = [(1, 0, 1), (0, 1, None), (1, 0, 0), (0, 0, 1)] * 20
    result = fit(table([(*row, None) for row in rows], ("r@x",)), judge_model=model)
    plain = fit(table(rows))
    for name in ("rho", "p_g"):
        row = row_of(result, name)
        assert abs(row["mean"] - row_of(plain, name)["mean"]) < 4 * np.hypot(row["mcse"], row_of(plain, name)["mcse"])
    tpr = row_of(result, "tpr[r@x]")
    assert tpr["identified"] == "prior only"
    if model == "independent":
        assert abs(tpr["mean"] - 2 / 3) < 4 * tpr["mcse"]  # the larger of two uniform numbers
        assert abs(tpr["prior_sd"] - np.sqrt(1 / 18)) < 0.003
    else:
        assert abs(tpr["mean"] - 1.3 / 2) < 4 * tpr["mcse"]  # Beta(.5 + .8, .5 + .2) in every state


def test_the_verdict_on_t_of_a_known_abstention_is_set_aside() -> None:
    rows: Sequence[Row] = [(1, 0, 1, 1), (0, 1, None, 1), (1, 0, 0, 0), (0, 1, None, 0)] * 5
    counts = patterns(table(rows, ("t@x",)), ["t@x"])
    assert counts.filter(pc.equal(counts["a"], 1))["t@x"].null_count == 1
    small = EngineSettings(chains=2, warmup=200, samples=200)
    without = [row if row[1] == 0 else (*row[:3], None) for row in rows]
    assert fit(table(rows, ("t@x",)), engine=small).draws.equals(fit(table(without, ("t@x",)), engine=small).draws)


def _two_systems(seed: int) -> dict[str, pa.Table]:
    """One judge of R on both; r labelled on the first only."""
    found = {}
    for name, labelled in (("first", 300), ("second", 0)):
        found[name] = table(_judged(600, labelled, seed + len(name), ("r@x",)), ("r@x",))
    return found


def test_a_judge_that_was_calibrated_on_one_system_helps_another() -> None:
    tables = _two_systems(30)
    together = fit_together(tables, judge_model="independent")
    alone = fit(tables["second"], judge_model="independent", config="second")
    shared = row_of(together["second"], "rho")
    assert shared["sd"] < 0.3 * row_of(alone, "rho")["sd"]
    assert abs(shared["mean"] - TRUE["rho"]) < 3 * shared["sd"]
    assert abs(row_of(together["first"], "rho")["mean"] - TRUE["rho"]) < 3 * row_of(together["first"], "rho")["sd"]
    assert {one.config for one in together.values()} == {"first", "second"}
    for name in ("tpr[r@x]", "fpr[r@x]"):
        np.testing.assert_array_equal(*(together[one].draws[name].to_numpy() for one in tables))
    assert "fail" not in {one.status.status for one in together.values()}


def test_what_a_shared_judge_tells_is_known_before_sampling() -> None:
    """The second system's rho is identified by the judge's calibration on the first."""
    together = fit_together(_two_systems(30), judge_model="independent")
    assert row_of(together["second"], "rho")["identified"] == "identified"


def test_systems_with_different_judges_cannot_share_them() -> None:
    tables = {"a": table([(1, 0, 1, 1)], ("t@x",)), "b": table([(1, 0, 1, 1)], ("t@y",))}
    with pytest.raises(InputError, match=r"the same judges: 'b' has \['t@y'\]"):
        fit_together(tables)
