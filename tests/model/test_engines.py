"""The program, the engine and the configuration files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import yaml

from rat_ray.errors import InputError
from rat_ray.model import EngineSettings, Prior, patterns
from rat_ray.model.engines import program_path
from rat_ray.model.posterior import sample, stan_data
from tests.model.tables import table

CONF = Path(__file__).resolve().parents[2] / "conf"


def test_the_program_is_found() -> None:
    assert program_path().name == "rat.stan"
    with pytest.raises(InputError, match=r"none.stan is neither in"):
        program_path("none.stan")


def test_the_defaults_in_conf_are_the_defaults_in_the_code() -> None:
    uniform = yaml.safe_load((CONF / "prior" / "uniform.yaml").read_text())
    assert {name: tuple(value) for name, value in uniform.items()} == asdict(Prior())
    engine = yaml.safe_load((CONF / "engine" / "stanli.yaml").read_text())
    assert engine == asdict(EngineSettings())
    jeffreys = yaml.safe_load((CONF / "prior" / "jeffreys.yaml").read_text())
    prior = Prior(**jeffreys)  # lists, as YAML has them
    prior.validate()
    assert set(map(tuple, asdict(prior).values())) == {(0.5, 0.5)}


@pytest.mark.parametrize("value", [[1.0], [1.0, -1.0], "uniform", [1.0, float("inf")], [True, 1.0]])
def test_a_prior_that_is_no_beta_is_refused(value: object) -> None:
    with pytest.raises(InputError, match=r"prior.alpha1 = .*give two positive numbers"):
        Prior(alpha1=value).validate()  # type: ignore[arg-type]


def test_the_prior_alone_ignores_the_counts() -> None:
    counts = patterns(table([(1, 0, 1, 1, 1)] * 500, ("r@x", "t@y")), ["r@x", "t@y"])
    prior = Prior(rho=(2, 6), alpha0=(3, 1), tpr=(4, 2), fpr=(1, 3))
    draws = sample(counts, prior, EngineSettings(), seed=1, config="c", prior_only=True).draws
    assert draws["rho"].to_numpy().mean() == pytest.approx(0.25, abs=0.015)
    assert draws["alpha[0]"].to_numpy().mean() == pytest.approx(0.75, abs=0.015)
    rng = np.random.default_rng(1)
    tpr, fpr = rng.beta(4, 2, 100_000), rng.beta(1, 3, 100_000)
    for judge in ("r@x", "t@y"):
        assert draws[f"tpr[{judge}]"].to_numpy().mean() == pytest.approx(tpr[tpr > fpr].mean(), abs=0.015)
        assert draws[f"fpr[{judge}]"].to_numpy().mean() == pytest.approx(fpr[tpr > fpr].mean(), abs=0.015)


def test_the_data_do_not_grow_with_the_items() -> None:
    rows = [(1, 0, 1, 1), (0, 1, None, None), (None, 0, None, 0)]
    small = stan_data(patterns(table(rows, ("t@y",)), ["t@y"]), Prior())
    large = stan_data(patterns(table(rows * 1000, ("t@y",)), ["t@y"]), Prior())
    assert small["P"] == large["P"] == 3
    np.testing.assert_array_equal(np.asarray(large["n"]), 1000 * np.asarray(small["n"]))
    for name in set(small) - {"n"}:
        np.testing.assert_array_equal(np.asarray(large[name]), np.asarray(small[name]), err_msg=name)


def test_a_judge_that_is_better_than_chance_only_by_a_miracle_is_refused() -> None:
    from rat_ray.model.priors import judge_draws

    with pytest.raises(InputError, match="better than chance"):
        judge_draws(Prior(tpr=(1, 200), fpr=(200, 1)))
