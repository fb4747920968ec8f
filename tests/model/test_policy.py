"""What each outcome is worth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rat_ray.errors import InputError
from rat_ray.model import EngineSettings, Policy, fit
from tests.model.tables import Row, row_of, table

SMALL = EngineSettings(chains=2, warmup=200, samples=200)
ROWS: Sequence[Row] = [(1, 0, 1), (0, 1, None), (1, 0, 0), (0, 0, 1), (1, 1, None), (0, 0, 0), (1, 0, 1)] * 5
CAREFUL = Policy("careful", 0.5, -2.0, 0.25, 0.0, -1.0, 1.0)


def _states(result: object) -> np.ndarray:
    """(draws, 6) from the parameters."""
    draws = result.draws  # type: ignore[attr-defined]
    rho, a0, a1, t0, t1 = (draws[name].to_numpy() for name in ("rho", "alpha[0]", "alpha[1]", "tau[0]", "tau[1]"))
    return np.stack(
        [
            (1 - rho) * a0,
            (1 - rho) * (1 - a0) * (1 - t0),
            (1 - rho) * (1 - a0) * t0,
            rho * a1,
            rho * (1 - a1) * (1 - t1),
            rho * (1 - a1) * t1,
        ],
        axis=1,
    )


def test_expected_utility_is_the_mean_over_the_states() -> None:
    result = fit(table(ROWS), policy=CAREFUL, engine=SMALL)
    expected = _states(result) @ [0.5, -2.0, 0.25, 0.0, -1.0, 1.0]
    np.testing.assert_allclose(result.draws["utility"].to_numpy(), expected, rtol=1e-9, atol=1e-12)
    row = row_of(result, "utility")
    assert row["identified"] == "identified"
    assert row["prior_sd"] > row["sd"]
    exact = (0.5 - 2 + 0.25 - 1 + 2) / 7
    assert row_of(result, "finite[utility]")["mean"] == pytest.approx(exact)


def test_the_default_is_g_and_is_not_said_twice() -> None:
    assert Policy().is_default
    assert "utility" not in fit(table(ROWS), engine=SMALL).summary["quantity"].to_pylist()
    by_name = Policy("mine", r0_abstained=1.0, r1_right=1.0)
    assert by_name.is_default
    harsh = fit(table(ROWS), policy=Policy("harsh", r1_wrong=-1e-9), engine=SMALL)
    np.testing.assert_allclose(harsh.draws["utility"].to_numpy(), harsh.draws["p_g"].to_numpy(), atol=1e-8)


def test_a_policy_never_changes_the_posterior() -> None:
    plain, with_policy = (fit(table(ROWS), policy=policy, engine=SMALL) for policy in (None, CAREFUL))
    for name in ("rho", "p_g", "tau[1]"):
        np.testing.assert_array_equal(plain.draws[name].to_numpy(), with_policy.draws[name].to_numpy())


def test_utility_is_bounded_by_the_worst_and_best_of_what_is_open() -> None:
    """Without any T: .4 abstained, .4 answered at R=1 and .2 at R=0, of which all or none may be right."""
    rows: Sequence[Row] = [(0, 1, None)] * 2 + [(1, 1, None)] * 2 + [(1, 0, None)] * 4 + [(0, 0, None)] * 2
    row = row_of(fit(table(rows), policy=CAREFUL, engine=SMALL), "utility")
    assert row["identified"] == "bounded"
    fixed = 0.2 * 0.5
    assert row["low"] == pytest.approx(fixed + 0.4 * -1 + 0.2 * -2, abs=1e-4)
    assert row["high"] == pytest.approx(fixed + 0.4 * 1 + 0.2 * 0.25, abs=1e-4)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e7])
def test_a_utility_that_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(InputError, match=r"policy.r0_wrong = .*: a number from -1e\+06 to 1e\+06 is expected"):
        fit(table(ROWS), policy=Policy(r0_wrong=value))
