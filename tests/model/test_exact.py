"""Missing labels, with and without a judge, against the exact posterior."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rat_ray.model import fit
from tests.model.oracle import completions, exact_moments
from tests.model.tables import Row, row_of, simulate, table


def _random_rows(seed: int, items: int, judge: str | None) -> list[Row]:
    """Items of which every label is missing with probability 0.4."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for r, a, t in simulate(items, seed, 0.6, (0.5, 0.2), (0.3, 0.8)).tolist():
        labels: list[int | None] = [r, a, t if t >= 0 else None]
        labels = [None if rng.random() < 0.4 else label for label in labels]
        if labels[2] is not None:
            labels[1] = 0  # a known t says that there was an answer
        if judge is None:
            rows.append(tuple(labels))
            continue
        truth = {"r": r, "a": a, "t": t}[judge[0]]
        verdict: int | None = int(rng.random() < (0.8 if truth == 1 else 0.3))
        if rng.random() < 0.3 or (judge[0] == "t" and labels[1] == 1):
            verdict = None
        rows.append((*labels, verdict))
    return rows


def test_the_oracle_counts_every_completion() -> None:
    found = completions([(None, None, None), (1, None, None), (1, 0, None)])
    assert sum(found.values()) == 6 * 3 * 2


def test_the_oracle_is_conjugate_on_complete_data() -> None:
    moments = exact_moments([(1, 0, 1), (1, 0, 0), (0, 1, None)])
    assert moments["rho"] == pytest.approx((3 / 5, math.sqrt(3 * 2 / (25 * 6))))
    assert moments["tau[1]"][0] == pytest.approx(1 / 2)
    assert moments["tau[0]"] == pytest.approx((1 / 2, math.sqrt(1 / 12)))


@pytest.mark.parametrize("judge", [None, "r@x", "a@x", "t@x"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_missing_labels_give_the_exact_posterior(seed: int, judge: str | None) -> None:
    rows = _random_rows(seed, 9, judge)
    result = fit(table(rows, (judge,) if judge else ()), seed=seed)
    for name, (mean, sd) in exact_moments(rows, judge).items():
        row = row_of(result, name)
        assert abs(row["mean"] - mean) < 4 * row["mcse"], f"{name}: {row['mean']} is not {mean}"
        if math.isfinite(sd):
            assert row["sd"] == pytest.approx(sd, rel=0.07), name
