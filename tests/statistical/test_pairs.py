"""The pairs study: its parts, and a small run of it. The whole takes an hour: `python -m tests.statistical.pairs`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from tests.statistical.pairs import (
    CELLS,
    FIRST,
    ITEMS,
    LABELS,
    LEVEL,
    SECOND,
    Case,
    cases,
    key,
    outcome,
    run_case,
    simulate,
    summarise,
    work,
)
from tests.statistical.runs import read, run

SETS = 16
MANY = 100_000


@pytest.mark.parametrize("name", ["same-none", "different-judge"])
def test_the_true_difference_is_that_of_many_items(name: str) -> None:
    made = simulate(Case(name, 1), items=MANY, labels=MANY)
    shares = []
    for table in made.tables:
        r, a, t = (pc.fill_null(table[column], 0).to_numpy() for column in "rat")
        shares.append(((r == 0) & (a == 1)) | ((r == 1) & (a == 0) & (t == 1)))
    assert shares[0].mean() - shares[1].mean() == pytest.approx(CELLS[name].difference, abs=0.008)
    assert shares[0].mean() == pytest.approx(FIRST.p_g, abs=0.006)
    assert shares[1].mean() == pytest.approx(SECOND.p_g, abs=0.006)
    # What both do goes together, more so with one R.
    low, high = (0.3, 0.6) if CELLS[name].same_context == 1 else (0.1, 0.3)
    assert low < np.corrcoef(*shares)[0, 1] < high


def test_both_systems_are_labelled_on_the_same_questions() -> None:
    for name, cell in CELLS.items():
        made = simulate(Case(name, 3))
        first, second = made.tables
        assert first["r"].is_valid().equals(second["r"].is_valid())
        assert ITEMS - first["r"].null_count == LABELS
        assert first["a"].null_count == 0
        assert made.counts.same_context == pytest.approx(
            ITEMS * cell.same_context, abs=40 if name == "half-none" else 0
        )
        assert first["r"].equals(second["r"]) == (cell.same_context == 1)
        answered = first.filter(pc.equal(first["a"], 0))
        assert answered["t"].null_count == answered["r"].null_count
        assert first["t"].null_count > first["r"].null_count
        if cell.judge:
            assert answered["t@x"].null_count == 0
            assert first["t@x"].null_count == first.num_rows - answered.num_rows


def test_the_joint_fit_covers_and_is_narrower() -> None:
    (row,) = summarise([run_case(case) for case in cases(["same-none"], SETS)])
    assert row.sets == SETS
    assert row.failed == 0
    assert row.coverage >= LEVEL - 3 * np.sqrt(LEVEL * (1 - LEVEL) / SETS)
    assert row.ratio < 0.85
    assert row.found >= row.alone_found


def test_a_study_that_was_killed_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    wanted = cases(["same-none"], 2)
    whole = run(wanted, key, work, path)
    path.write_text(path.read_text(encoding="utf-8")[:-30], encoding="utf-8")
    again = run(wanted, key, work, path)
    same = [name for name in whole[0] if name != "seconds"]
    assert [[one[name] for name in same] for one in again] == [[one[name] for name in same] for one in whole]
    assert [(one.cell, one.number) for one in map(outcome, read(path))] == [("same-none", 0), ("same-none", 1)]
