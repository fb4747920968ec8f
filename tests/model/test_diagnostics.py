"""R-hat, effective draws, energy, tree depth and the status of a fit."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from rat_ray.errors import InputError
from rat_ray.model.diagnostics import (
    Convergence,
    DiagnosticsSettings,
    SamplerStats,
    Status,
    array_stats,
    convergence,
    e_bfmi,
    judge_fit,
)

DEFAULT = DiagnosticsSettings()
NOTHING = Convergence(None, None, None, None)


def _draws(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(4, 1000, 2))


def _correlated(shape: tuple[int, int, int], rho: float, seed: int = 1) -> np.ndarray:
    """Autoregressive chains: each draw is rho times the last one, plus noise."""
    noise = np.random.default_rng(seed).normal(size=shape)
    values = noise.copy()
    for draw in range(1, shape[1]):
        values[:, draw] = rho * values[:, draw - 1] + np.sqrt(1 - rho**2) * noise[:, draw]
    return values


def _sampler(divergent: int = 0, deep: int = 0, energy: np.ndarray | None = None) -> SamplerStats:
    """Sampler statistics of 4 chains of 1,000 draws, of which so many diverged or hit the maximum depth of 10."""
    flags, depths = np.zeros(4000), np.full(4000, 3)
    flags[:divergent], depths[:deep] = 1, 10
    energy = np.random.default_rng(3).normal(size=(4, 1000)) if energy is None else energy
    return SamplerStats(flags.reshape(4, 1000), depths.reshape(4, 1000), energy, 10)


def _judge(values: np.ndarray, sampler: SamplerStats | None = None) -> Status:
    names = [f"q{index}" for index in range(values.shape[2])]
    return judge_fit(names, values, convergence(values), sampler or _sampler(), DEFAULT)


def _by_the_library(values: np.ndarray) -> Convergence:
    """values: (chains, draws), one quantity."""
    stats, axes = array_stats(), {"chain_axis": 0, "draw_axis": 1}
    return Convergence(
        float(stats.rhat(values, method="rank", **axes)),
        float(stats.ess(values, method="bulk", **axes)),
        float(stats.ess(values, method="tail", prob=(0.05, 0.95), **axes)),
        float(stats.mcse(values, method="mean", **axes)),
    )


def test_independent_draws_are_ok() -> None:
    values = _draws()
    for one in convergence(values):
        assert one.r_hat == pytest.approx(1.0, abs=0.01)
        assert one.ess_bulk == pytest.approx(4000, rel=0.15)
        assert one.ess_tail == pytest.approx(4000, rel=0.2)
        assert one.mcse == pytest.approx(1 / np.sqrt(4000), rel=0.1)
    assert _judge(values) == Status("ok", None)


def _cases() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    apart = _correlated((4, 500, 3), 0.3)
    apart[2] += 1.5
    repeated = np.repeat(rng.normal(size=(4, 250, 3)), 4, axis=1)
    few_values = rng.integers(0, 5, size=(4, 400, 3)).astype(float)
    skewed = np.exp(3 * _correlated((4, 1000, 3), 0.6))
    return {
        "independent": rng.normal(size=(4, 1000, 3)),
        "slow": _correlated((4, 1000, 3), 0.95),
        "antithetic": _correlated((4, 1000, 3), -0.5),
        "chains apart": apart,
        "repeated draws": repeated,
        "few values": few_values,
        "skewed": skewed,
        "tiny": 1e-9 * skewed,
        "two chains": _correlated((2, 300, 3), 0.5),
        "odd draws": _correlated((3, 333, 3), 0.5),
        **{f"{draws} draws": rng.normal(size=(4, draws, 3)) for draws in (4, 5, 6, 7, 8, 9, 10, 11)},
    }


@pytest.mark.parametrize("case", _cases())
def test_the_numbers_are_the_librarys(case: str) -> None:
    values = _cases()[case]
    for index, mine in enumerate(convergence(values)):
        assert mine == pytest.approx(_by_the_library(values[:, :, index]), rel=1e-6)


def test_one_chain_is_compared_by_its_halves() -> None:
    values = _correlated((1, 1000, 2), 0.5)
    values[0, 500:, 1] += 3
    good, drifting = convergence(values)
    assert good.r_hat == pytest.approx(1, abs=0.02)
    assert (drifting.r_hat or 0) > 1.5
    library = _by_the_library(values[:, :, 0])
    assert good[1:] == pytest.approx(library[1:], rel=1e-6)


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


def test_all_quantities_of_a_fit_cost_less_than_the_librarys_loop() -> None:
    values = _correlated((4, 1000, 25), 0.3)
    convergence(values), _by_the_library(values[:, :, 0])  # imports
    mine, librarys = [], []
    for _ in range(3):
        start = time.process_time()
        convergence(values)
        middle = time.process_time()
        for index in range(25):
            _by_the_library(values[:, :, index])
        mine.append(middle - start)
        librarys.append(time.process_time() - middle)
    assert min(mine) < min(librarys) / 2  # about a fifth, measured


def test_chains_apart_fail() -> None:
    values = _draws()
    values[0, :, 1] += 3
    status = _judge(values)
    assert status.status == "fail"
    assert status.reason is not None
    assert status.reason.startswith("r_hat of q1 is ")
    assert "above 1.05" in status.reason


def test_chains_that_stand_still_apart_fail() -> None:
    values = _draws()
    values[:, :, 1] = np.arange(4)[:, None]
    status = _judge(values)
    assert status.status == "fail"
    assert status.reason is not None
    assert status.reason.startswith("r_hat of q1 is ")


def test_few_effective_draws_warn() -> None:
    values = np.repeat(_draws(), 20, axis=1)[:, :1000]
    status = _judge(values[:, :, :1])
    assert status.status in ("warn", "fail")
    assert "ess_bulk of q0 is " in (status.reason or "")


def test_few_effective_draws_in_the_tails_warn() -> None:
    found = [Convergence(1.0, 2000.0, 250.0, 0.01), Convergence(1.0, 2000.0, 1000.0, 0.01)]
    status = judge_fit(["x", "y"], _draws(), found, _sampler(), DEFAULT)
    assert status == Status("warn", "ess_tail of x is 250, below 400")


def test_divergences_warn_and_fail() -> None:
    assert _judge(_draws(), _sampler(divergent=3)) == Status("warn", "3 of 4000 draws diverged")
    assert _judge(_draws(), _sampler(divergent=41)) == Status("fail", "41 of 4000 draws diverged")


def test_draws_at_the_maximum_depth_warn_and_fail() -> None:
    assert _judge(_draws(), _sampler(deep=40)) == Status("ok", None)
    deep = _judge(_draws(), _sampler(deep=41))
    assert deep == Status("warn", "41 of 4000 draws hit the maximum tree depth 10")
    assert _judge(_draws(), _sampler(deep=2001)).status == "fail"


def test_e_bfmi_of_chains_of_known_autocorrelation() -> None:
    # The mean squared step of an autoregressive chain is 2 (1 - rho) of its variance.
    energy = np.concatenate([_correlated((1, 20000, 1), rho)[:, :, 0] for rho in (0.0, 0.5, 0.9)])
    assert e_bfmi(energy) == pytest.approx([2.0, 1.0, 0.2], rel=0.05)
    by_hand = [np.sum(np.diff(one) ** 2) / np.sum((one - one.mean()) ** 2) for one in energy]
    assert e_bfmi(energy) == pytest.approx(by_hand, rel=1e-9)


def test_low_e_bfmi_warns_and_fails() -> None:
    energy = _sampler().energy
    slow, stuck = energy.copy(), energy.copy()
    slow[2] = _correlated((1, 1000, 1), 0.9)[0, :, 0]
    stuck[1] = _correlated((1, 1000, 1), 0.99)[0, :, 0]
    warned = _judge(_draws(), _sampler(energy=slow))
    assert warned.status == "warn"
    assert (warned.reason or "").startswith("e_bfmi of chain 2 is 0.2")
    failed = _judge(_draws(), _sampler(energy=stuck))
    assert failed.status == "fail"
    assert "below 0.1" in (failed.reason or "")


def test_energy_that_is_not_finite_fails_and_a_constant_one_says_nothing() -> None:
    energy = _sampler().energy.copy()
    energy[3, 7] = np.inf
    assert _judge(_draws(), _sampler(energy=energy)) == Status("fail", "the energy of chain 3 is not finite")
    assert _judge(_draws(), _sampler(energy=np.zeros((4, 1000)))) == Status("ok", None)


def test_all_problems_are_named_and_the_worst_decides() -> None:
    status = _judge(_draws(), _sampler(divergent=3, deep=3000))
    assert status == Status("fail", "3 of 4000 draws diverged; 3000 of 4000 draws hit the maximum tree depth 10")


@pytest.mark.parametrize("noise", [0.0, 1e-16, 1e-15])
@pytest.mark.parametrize("value", [0.5, 0.0, 1.0, 1e-6])
def test_a_constant_has_no_r_hat_and_is_no_failure(value: float, noise: float) -> None:
    values = _draws()
    # As a sum that is constant but for rounding; of the value's own size, as rounding is.
    values[:, :, 1] = value * (1 + noise * np.random.default_rng(2).integers(-1, 2, size=(4, 1000)))
    assert convergence(values)[1] == NOTHING
    assert _judge(values) == Status("ok", None)


def test_a_difference_of_equal_probabilities_is_constant() -> None:
    p = np.random.default_rng(2).random((4, 1000))
    values = np.stack([p, 0.3 * p + 0.7 * p - p], axis=2)
    assert np.ptp(values[:, :, 1]) > 0
    assert convergence(values)[1] == NOTHING


def test_small_probabilities_are_not_constants() -> None:
    values = 1e-6 * (1 + 1e-3 * _draws())
    assert None not in convergence(values)[0]


def test_a_chain_that_stands_still_is_not_a_constant() -> None:
    values = _draws()
    values[1:, :, 0] = 0.5
    assert (convergence(values)[0].r_hat or 0) > 1.05


def test_what_is_not_finite_fails() -> None:
    values = _draws()
    values[2, 5, 0] = np.nan
    assert convergence(values)[0] == NOTHING
    assert _judge(values) == Status("fail", "draws of q0 are not finite")


def test_nothing_identified_warns_and_does_not_hide_the_samplers_problems() -> None:
    nothing = np.zeros((4, 1000, 0))
    assert judge_fit([], nothing, [], _sampler(), DEFAULT).status == "warn"
    failed = judge_fit([], nothing, [], _sampler(divergent=100), DEFAULT)
    assert failed.status == "fail"
    assert "100 of 4000 draws diverged" in (failed.reason or "")


def test_thresholds_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(InputError, match=r"r_hat_warn = 1.2 and r_hat_fail = 1.05"):
        DiagnosticsSettings(r_hat_warn=1.2).validate()
    with pytest.raises(InputError, match="ess_bulk_warn = 50"):
        DiagnosticsSettings(ess_bulk_warn=50).validate()
    with pytest.raises(InputError, match=r"e_bfmi_warn = 0.05"):
        DiagnosticsSettings(e_bfmi_warn=0.05).validate()
    with pytest.raises(InputError, match=r"treedepth_warn = 0.9"):
        DiagnosticsSettings(treedepth_warn=0.9).validate()
    DEFAULT.validate()


def test_the_shipped_configuration_holds_the_defaults() -> None:
    import yaml

    path = Path(__file__).parents[2] / "conf" / "diagnostics" / "standard.yaml"
    assert DiagnosticsSettings(**yaml.safe_load(path.read_text(encoding="utf-8"))) == DEFAULT
