"""Simulation-based calibration, and that it notices what is wrong."""

from __future__ import annotations

import os

import numpy as np
import pytest

from rat_ray.model.priors import Prior
from tests.statistical.sbc import RANKED, Job, Result, jobs, study
from tests.statistical.simulation import KINDS
from tests.statistical.uniform import uniformity

LEVEL = 0.05
WRONG = 12  # data sets that are enough to notice a gross mistake


def assert_calibrated(result: Result) -> None:
    """Raise AssertionError for a failed fit or ranks outside their bands."""
    assert not result.failures, result.failures
    assert result.p_value > LEVEL, f"{result.worst}: {result.tests[result.worst]}\n{result.table()}"


@pytest.mark.slow
def test_ranks_of_a_small_study_are_uniform() -> None:
    result = study(jobs(60))
    assert {kind for kind in KINDS if any(name.startswith(kind) for name in result.tests)} == set(KINDS)
    assert_calibrated(result)


@pytest.mark.slow
def test_ranks_are_uniform() -> None:
    result = study(jobs(500), processes=os.cpu_count() or 1)
    print(result.table())
    assert_calibrated(result)


@pytest.mark.parametrize(
    ("quantity", "wrong"),
    [
        # Data are from rho ~ Beta(1, 1).
        ("all: rho", {"prior": Prior(rho=(30.0, 10.0))}),
        # Judges that are right 99 times in 100 by the prior, with the weight of 200 items.
        ("panel, T and T: ", {"prior": Prior(panel_lean=200.0, panel_right=0.99)}),
        # A fit that ignores the data has uniform ranks of every parameter, and a far too small log likelihood.
        ("all: log likelihood", {"prior_only": True}),
        # Judges that share errors, fitted as if they did not: a likelihood with a mistake.
        ("all: log likelihood", {"model": "independent"}),
    ],
)
def test_a_wrong_prior_or_likelihood_is_noticed(quantity: str, wrong: dict[str, object]) -> None:
    result = study([Job("panel, T and T", number, **wrong) for number in range(WRONG)])  # type: ignore[arg-type]
    assert result.p_value < LEVEL
    assert min(p for name, p in result.corrected.items() if name.startswith(quantity)) < LEVEL


def test_p_values_of_uniform_ranks_are_no_smaller_than_they_say() -> None:
    rng = np.random.default_rng(1)
    p = np.array([uniformity(rng.integers(0, RANKED + 1, 100), RANKED).p_value for _ in range(1000)])
    for level in (0.01, 0.05, 0.2):
        assert abs((p <= level).mean() - level) < 4 * np.sqrt(level * (1 - level) / 1000)


@pytest.mark.parametrize(
    "ranks",
    [
        lambda rng: rng.beta(1.5, 1.0, 300),  # draws too low
        lambda rng: rng.beta(1.5, 1.5, 300),  # intervals too wide
        lambda rng: rng.beta(0.7, 0.7, 300),  # intervals too narrow
        lambda rng: np.where(rng.random(300) < 0.05, 0.0, rng.random(300)),  # one in twenty fits far off
    ],
)
def test_ranks_that_are_not_uniform_are_noticed(ranks: object) -> None:
    u = ranks(np.random.default_rng(1))  # type: ignore[operator]
    assert uniformity(np.floor(u * (RANKED + 1)).astype(int), RANKED).p_value < 0.01
