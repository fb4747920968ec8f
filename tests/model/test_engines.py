"""The program, the engine and the configuration files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

from rat_ray.errors import InputError
from rat_ray.model import DiagnosticsSettings, EngineSettings, Prior, patterns
from rat_ray.model.design import Options
from rat_ray.model.engines import program_path
from rat_ray.model.posterior import design_for, sample
from rat_ray.model.priors import BETAS
from tests.model.tables import table

PANEL = ("panel_floor", "panel_lean", "panel_right")
CONF = Path(__file__).resolve().parents[2] / "conf"


def test_the_program_is_found() -> None:
    assert program_path().name == "rat.stan"
    with pytest.raises(InputError, match=r"none.stan is neither in"):
        program_path("none.stan")


def test_the_defaults_in_conf_are_the_defaults_in_the_code() -> None:
    uniform = _prior("uniform")
    assert uniform == {name: list(value) if name in BETAS else value for name, value in asdict(Prior()).items()}
    for kind in ("stanli", "cmdstan", "importance"):
        engine = yaml.safe_load((CONF / "engine" / f"{kind}.yaml").read_text())
        assert engine == asdict(EngineSettings(kind=kind))
    diagnostics = yaml.safe_load((CONF / "diagnostics" / "standard.yaml").read_text())
    assert diagnostics == asdict(DiagnosticsSettings())


def test_the_priors_in_conf_are_what_they_are_called() -> None:
    jeffreys = Prior(**_prior("jeffreys"))  # lists, as YAML has them
    jeffreys.validate()
    assert {tuple(getattr(jeffreys, name)) for name in BETAS} == {(0.5, 0.5)}
    states = Prior(**_prior("states"))
    states.validate()
    # A Dirichlet's tree of splits: every node's Beta has the sums of its leaves.
    leaves = np.array([states.alpha0[0], *states.tau0[::-1], states.alpha1[0], *states.tau1[::-1]])
    assert len(set(leaves)) == 1
    assert tuple(states.rho) == (leaves[3:].sum(), leaves[:3].sum())
    assert states.alpha0[1] == sum(states.tau0)
    assert states.alpha1[1] == sum(states.tau1)
    kept = {name: _prior("states")[name] for name in ("tpr", "fpr", "yes_abstained", *PANEL)}
    assert kept == {name: _prior("uniform")[name] for name in kept}


def _prior(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CONF / "prior" / f"{name}.yaml").read_text())
    return found


@pytest.mark.parametrize("value", [[1.0], [1.0, -1.0], "uniform", [1.0, float("inf")], [True, 1.0]])
def test_a_prior_that_is_no_beta_is_refused(value: object) -> None:
    with pytest.raises(InputError, match=r"prior.alpha1 = .*give two positive numbers"):
        Prior(alpha1=value).validate()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"), [("panel_floor", 0.4), ("panel_lean", -1.0), ("panel_right", 0.3), ("panel_right", True)]
)
def test_a_panel_prior_that_makes_no_sense_is_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"prior.{name} = .*give a number from"):
        Prior(**{name: value}).validate()  # type: ignore[arg-type]


def _prior_draws(judge_model: str, prior: Prior) -> pa.Table:
    counts = patterns(table([(1, 0, 1, 1, 1)] * 500, ("r@x", "t@y")), ["r@x", "t@y"])
    options = Options(judge_model=judge_model, prior_only=True)
    return sample(counts, prior, EngineSettings(), seed=1, config="c", options=options).draws


def test_the_prior_alone_ignores_the_counts() -> None:
    prior = Prior(rho=(2, 6), alpha0=(3, 1), tpr=(4, 2), fpr=(1, 3))
    draws = _prior_draws("independent", prior)
    assert draws["rho"].to_numpy().mean() == pytest.approx(0.25, abs=0.015)
    assert draws["alpha[0]"].to_numpy().mean() == pytest.approx(0.75, abs=0.015)
    rng = np.random.default_rng(1)
    tpr, fpr = rng.beta(4, 2, 100_000), rng.beta(1, 3, 100_000)
    for judge in ("r@x", "t@y"):
        assert draws[f"tpr[{judge}]"].to_numpy().mean() == pytest.approx(tpr[tpr > fpr].mean(), abs=0.015)
        assert draws[f"fpr[{judge}]"].to_numpy().mean() == pytest.approx(fpr[tpr > fpr].mean(), abs=0.015)


def test_the_prior_of_a_panel_leans_to_right_verdicts() -> None:
    """A right answer at R = 1, two judges: a Dirichlet(.5 + l .64, .5 + l .16, .5 + l .16, .5 + l .04), l = lean."""
    lean, right = 3.0, 0.8
    draws = _prior_draws("panel", Prior(panel_lean=lean, panel_right=right))
    expected = (2 * 0.5 + lean * right) / (4 * 0.5 + lean)
    for name in ("tpr[t@y]", "fpr[t@y]"):
        mean = draws[name].to_numpy().mean()
        assert mean == pytest.approx(expected if name.startswith("tpr") else 1 - expected, abs=0.015), name
    # An abstained state has no verdict of the judge of T: one judge, two combinations.
    at_abstentions = (0.5 + lean * right) / (1 + lean)
    tpr, a1 = draws["tpr[r@x]"].to_numpy(), draws["alpha[1]"].to_numpy()
    assert tpr.mean() == pytest.approx(float(np.mean(a1 * at_abstentions + (1 - a1) * expected)), abs=0.015)


def test_the_data_do_not_grow_with_the_items() -> None:
    rows = [(1, 0, 1, 1), (0, 1, None, None), (None, 0, None, 0)]
    small, large = (
        design_for({"c": patterns(table(rows * many, ("t@y",)), ["t@y"])}, Prior()).data() for many in (1, 1000)
    )
    assert small["P"] == large["P"] == 1  # the others need no sum: their counts say all
    counts = {"n", "share_n", "known", "open_n", "block_n", "known_yes", "known_no", "known_one", "known_zero"}
    for name in counts:
        np.testing.assert_array_equal(np.asarray(large[name]), 1000 * np.asarray(small[name]), err_msg=name)
    for name in set(small) - counts:
        np.testing.assert_array_equal(np.asarray(large[name]), np.asarray(small[name]), err_msg=name)


def test_a_judge_that_is_better_than_chance_only_by_a_miracle_is_refused() -> None:
    from rat_ray.model.priors import judge_draws

    with pytest.raises(InputError, match="better than chance"):
        judge_draws(Prior(tpr=(1, 200), fpr=(200, 1)))
