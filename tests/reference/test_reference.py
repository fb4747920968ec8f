"""Every engine against the reference posteriors."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import beta

from rat_ray.model import EngineSettings
from rat_ray.model.engines import program_path
from tests.model.cmdstan_cli import write_executable
from tests.reference.cases import FOLDER, STATISTICS, make_cases, numbers_of, read_case, read_reference

NAMES = sorted(path.parent.name for path in FOLDER.glob("*/reference.json"))
REAL_CMDSTAN = bool(os.environ.get("RAT_CMDSTAN_EXE") or os.environ.get("CMDSTAN"))
# Without CmdStan its test executable samples through stanli: two cases are enough to see that the columns arrive.
RUNS = [(kind, name) for kind in ("stanli", "importance") for name in NAMES]
RUNS += [("cmdstan", name) for name in (NAMES if REAL_CMDSTAN else ["missing-plain", "two_judges-panel"])]
SETTINGS = EngineSettings(chains=4, warmup=500, samples=1000, adapt_delta=0.9)
# Of some 800 numbers, in standard errors: by chance one run in a thousand has one beyond.
FAR = 5.0


def _engine(kind: str, folder: Path) -> EngineSettings:
    if kind != "cmdstan":
        return replace(SETTINGS, kind=kind)
    pytest.importorskip("cmdstanpy")
    mine = replace(SETTINGS, kind=kind)
    if REAL_CMDSTAN:
        return mine
    return replace(mine, exe_file=str(write_executable(folder / "rat", program_path())))


def test_there_is_a_reference_of_every_case() -> None:
    assert sorted(case.name for case in make_cases()) == NAMES
    assert len(NAMES) >= 4


@pytest.mark.parametrize("name", NAMES)
def test_the_data_and_the_model_are_those_of_the_maker(name: str) -> None:
    """So that `make` would sample the same again."""
    case = next(case for case in make_cases() if case.name == name)
    kept = read_case(name)
    assert kept.counts.equals(case.counts)
    assert (kept.prior, kept.options) == (case.prior, case.options)


@pytest.mark.parametrize(("kind", "name"), RUNS)
def test_an_engine_agrees_with_the_reference(kind: str, name: str, tmp_path: Path) -> None:
    found, reference = numbers_of(read_case(name), _engine(kind, tmp_path), seed=7), read_reference(name)
    assert list(found) == list(reference)
    far = []
    for quantity, numbers in reference.items():
        mine = found[quantity]
        # Shares among the items are discrete: a quantile may fall on either side of a step.
        for statistic in ("mean", "sd") if quantity.startswith("finite[") else STATISTICS:
            error = math.hypot(mine[f"mcse_{statistic}"], numbers[f"mcse_{statistic}"])
            if abs(mine[statistic] - numbers[statistic]) > FAR * error + 1e-6:
                far.append(f"{quantity} {statistic}: {mine[statistic]} is not {numbers[statistic]} +- {error:.2g}")
    assert not far


def test_the_reference_of_complete_data_is_exact() -> None:
    reference = read_reference("complete-plain")
    for name, (a, b) in {"rho": (217, 106), "alpha[0]": (39, 68), "tau[1]": (170, 24)}.items():
        exact, numbers = beta(a, b), reference[name]
        expected = {"mean": exact.mean(), "sd": exact.std(), "q2.5": exact.ppf(0.025), "q97.5": exact.ppf(0.975)}
        for statistic, value in expected.items():
            assert abs(numbers[statistic] - value) < 4 * numbers[f"mcse_{statistic}"], f"{name} {statistic}"
