"""R-hat, effective draws and the status of a fit."""

from __future__ import annotations

import numpy as np
import pytest

from rat_ray.errors import InputError
from rat_ray.model.diagnostics import Convergence, DiagnosticsSettings, Status, convergence, judge_fit

DEFAULT = DiagnosticsSettings()
QUIET = np.zeros(4000)


def _draws(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(4, 1000, 2))


def _judge(values: np.ndarray, divergent: np.ndarray = QUIET) -> Status:
    names = [f"q{index}" for index in range(values.shape[2])]
    return judge_fit(names, values, convergence(values), divergent, DEFAULT)


def test_independent_draws_are_ok() -> None:
    values = _draws()
    for one in convergence(values):
        assert one.r_hat == pytest.approx(1.0, abs=0.01)
        assert one.ess_bulk == pytest.approx(4000, rel=0.15)
        assert one.ess_tail == pytest.approx(4000, rel=0.2)
        assert one.mcse == pytest.approx(1 / np.sqrt(4000), rel=0.1)
    assert _judge(values) == Status("ok", None)


def test_the_numbers_agree_with_stans_own() -> None:
    import stanli

    model = stanli.Model(stan_code="parameters { real x; } model { x ~ student_t(3, 0, 1); }", data={})
    fit = model.sample(seed=2, refresh=0, samples=300)
    stan = fit.summary()["x"]
    mine = convergence(fit.draws("x")[:, :, None])[0]
    assert mine.r_hat == pytest.approx(stan["r_hat"], abs=1e-4)
    assert mine.ess_bulk == pytest.approx(stan["ess_bulk"], rel=0.02)
    assert mine.ess_tail == pytest.approx(stan["ess_tail"], rel=0.05)
    assert mine.mcse == pytest.approx(stan["mcse_mean"], rel=0.02)


def test_chains_apart_fail() -> None:
    values = _draws()
    values[0, :, 1] += 3
    status = _judge(values)
    assert status.status == "fail"
    assert status.reason is not None
    assert status.reason.startswith("r_hat of q1 is ")
    assert "above 1.05" in status.reason


def test_few_effective_draws_warn() -> None:
    values = np.repeat(_draws(), 20, axis=1)[:, :1000]
    status = _judge(values[:, :, :1])
    assert status.status in ("warn", "fail")
    assert "ess_bulk of q0 is " in (status.reason or "")


def test_divergences_warn_and_fail() -> None:
    few, many = QUIET.copy(), QUIET.copy()
    few[:3], many[:41] = 1, 1
    assert _judge(_draws(), few) == Status("warn", "3 of 4000 draws diverged")
    assert _judge(_draws(), many) == Status("fail", "41 of 4000 draws diverged")


def test_a_constant_has_no_r_hat_and_is_no_failure() -> None:
    values = _draws()
    values[:, :, 1] = 0.5
    assert convergence(values)[1] == Convergence(None, None, None, None)
    assert _judge(values) == Status("ok", None)


def test_what_is_not_finite_fails() -> None:
    values = _draws()
    values[2, 5, 0] = np.nan
    assert convergence(values)[0] == Convergence(None, None, None, None)
    assert _judge(values) == Status("fail", "draws of q0 are not finite")


def test_nothing_identified_warns() -> None:
    status = judge_fit([], np.zeros((4, 10, 0)), [], np.zeros(40), DEFAULT)
    assert status.status == "warn"


def test_thresholds_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(InputError, match=r"r_hat_warn = 1.2 and r_hat_fail = 1.05"):
        DiagnosticsSettings(r_hat_warn=1.2).validate()
    with pytest.raises(InputError, match="ess_bulk_warn = 50"):
        DiagnosticsSettings(ess_bulk_warn=50).validate()
    DEFAULT.validate()
