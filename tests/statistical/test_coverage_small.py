"""The coverage study's parts, and a small run of it. The whole study takes hours: `make coverage`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from rat_ray.model.design import Options
from rat_ray.model.engines import EngineSettings
from rat_ray.model.patterns import patterns
from rat_ray.model.posterior import sample
from rat_ray.model.priors import Prior
from rat_ray.model.states import STATES
from rat_ray.seeds import seed_for
from tests.statistical.coverage import ITEMS, Case, key, outcome, run_case, summarise, without_judges, work
from tests.statistical.runs import read, run
from tests.statistical.truths import ERRORS, TRUTHS, draw, label_table

SETS = 30


@pytest.mark.parametrize("name", list(TRUTHS))
def test_states_of_a_truth_occur_as_often_as_they_should(name: str) -> None:
    items = draw(TRUTHS[name], ERRORS["independent"], 200_000, 1)
    shares = np.bincount(items.state, minlength=len(STATES)) / 200_000
    assert np.abs(shares - TRUTHS[name].theta).max() < 0.005
    assert TRUTHS[name].theta.sum() == pytest.approx(1)


def test_errors_are_of_the_kind_that_their_name_says() -> None:
    truth = TRUTHS["abstainer"]

    def wrong(name: str) -> tuple[np.ndarray, np.ndarray]:
        items = draw(truth, ERRORS[name], 200_000, 1)
        values = np.stack([STATES[items.state, "rat".index(judge[0])] for judge in ERRORS[name].judges], axis=1)
        return items.state, (values != items.verdicts) & (values >= 0)

    for name, low, high in (("independent", -0.05, 0.05), ("shared", 0.6, 1.0)):
        state, errors = wrong(name)
        for s in (1, 2, 4, 5):
            assert low < np.corrcoef(errors[state == s].T)[0, 1] < high
    state, errors = wrong("by A")
    assert errors[np.isin(state, (0, 3)), 0].mean() > 3 * errors[np.isin(state, (1, 2, 4, 5)), 0].mean()
    state, errors = wrong("by R")
    assert errors[state == 4].mean() > 4 * errors[state == 1].mean()  # wrong answers taken for right, by R
    assert errors[state == 2].mean() > 4 * errors[state == 5].mean()  # right answers taken for wrong


def test_labels_of_t_are_only_where_the_system_answered_and_verdicts_too() -> None:
    errors = ERRORS["by A"]
    table = label_table(draw(TRUTHS["abstainer"], errors, ITEMS, 1), errors, 100)
    abstained = table.filter(pc.equal(table["a"], 1))
    assert table.num_rows == ITEMS
    assert table["a"].null_count == 0
    assert table["r"].null_count == ITEMS - 100
    assert abstained["t"].null_count == abstained.num_rows == abstained["t@y"].null_count
    assert abstained["r@x"].null_count == 0


def test_the_exact_posterior_without_judges_is_that_of_a_fit() -> None:
    errors = ERRORS["independent"]
    items = draw(TRUTHS["strong retriever"], errors, ITEMS, 3)
    table = label_table(items, errors, 60).select(["r", "a", "t"])
    engine = EngineSettings(chains=2, warmup=500, samples=4000)
    options = Options(finite=False, replicate=False)
    fitted = np.asarray(sample(patterns(table, []), Prior(), engine, 1, "one", options).draws["p_g"])
    exact = without_judges(items, 60, True, np.random.default_rng(1))
    assert fitted.mean() == pytest.approx(exact.mean(), abs=0.005)
    for q in (0.025, 0.5, 0.975):
        assert np.quantile(fitted, q) == pytest.approx(np.quantile(exact, q), abs=0.012)


def test_a_panel_covers_where_independent_judges_do_not() -> None:
    """Two judges of T that share their errors: thirty data sets tell the two models apart."""
    found = {}
    for model in ("panel", "independent"):
        (row,) = summarise([run_case(Case("strong retriever", "shared", n, model, 100)) for n in range(SETS)])
        assert row.failed == 0
        found[model] = row.coverage
    least = 0.95 - 3 * np.sqrt(0.95 * 0.05 / SETS)
    assert found["independent"] < least <= found["panel"]


def test_a_study_that_was_killed_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "some" / "results.jsonl"
    wanted = [Case("guesser", "independent", n, "independent", 30) for n in range(3)]
    whole = run(wanted, key, work, path)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text(lines[0] + lines[1][:40], encoding="utf-8")  # killed while it wrote the second
    again = run(wanted, key, work, path)
    same = [name for name in whole[0] if name != "seconds"]
    assert [[one[name] for name in same] for one in again] == [[one[name] for name in same] for one in whole]
    assert len(read(path)) == 3
    assert [outcome(record).case for record in again] == wanted


def test_a_case_depends_on_its_names_only() -> None:
    one = draw(TRUTHS["guesser"], ERRORS["shared"], ITEMS, seed_for(1, "coverage", "guesser", "shared", 0))
    other = draw(TRUTHS["guesser"], ERRORS["shared"], ITEMS, seed_for(1, "coverage", "guesser", "shared", 0))
    assert all(np.array_equal(x, y) for x, y in zip(one, other, strict=True))
