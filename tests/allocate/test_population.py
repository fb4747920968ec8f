"""Which items a study has, what their shares are, and which tables cannot be studied."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rat_ray.allocate import AllocationSettings, check
from rat_ray.allocate.population import Population, read_population, targets
from rat_ray.errors import InputError
from rat_ray.model.patterns import MISSING
from rat_ray.model.states import BASE_QUANTITIES
from rat_ray.tables import annotations_schema
from tests.allocate.planted import TRUSTED, planted, with_column

TABLE = planted(60)


def test_incomplete_and_failed_rows_are_left_out() -> None:
    rows = [
        {"question_id": "complete", "r@one": 1, "a@one": 0, "t@one": 1},
        {"question_id": "abstained", "r@one": 0, "a@one": 1},
        {"question_id": "zero-on-abstention", "r@one": 0, "a@one": 1, "t@one": 0},
        {"question_id": "second-source", "r@two": 0, "a@one": 0, "t@one": 0},
        {"question_id": "first-wins", "r@one": 1, "r@two": 0, "a@one": 0, "t@one": 0},
        {"question_id": "no-r", "a@one": 0, "t@one": 0},
        {"question_id": "no-a", "r@one": 1, "t@one": 1},
        {"question_id": "no-t", "r@one": 1, "a@one": 0},
        {"question_id": "failed", "r@one": 1, "a@one": 0, "t@one": 1, "error": "out of memory"},
    ]
    schema = annotations_schema(["r@one", "r@two", "a@one", "t@one"])
    table = pa.Table.from_pylist([{"config": "c", **row} for row in rows], schema=schema)
    found = read_population(table, {"r": ["one", "two"], "a": ["one"], "t": ["one"]})
    assert found.question_ids == ["complete", "abstained", "zero-on-abstention", "second-source", "first-wins"]
    assert found.r.tolist() == [1, 0, 0, 0, 1]
    assert found.a.tolist() == [0, 1, 1, 0, 0]
    assert found.t.tolist() == [1, MISSING, MISSING, 0, 0]


def test_targets_are_plain_shares() -> None:
    found = read_population(TABLE, TRUSTED)
    r, a, t = found.r, found.a, found.t
    expected = {
        "rho": r.mean(),
        "p_a": a.mean(),
        "p_t": (t == 1).mean(),
        "p_g": (((r == 0) & (a == 1)) | ((r == 1) & (t == 1))).mean(),
        "lucky": ((r == 0) & (t == 1)).mean(),
        "accuracy": (t == 1).sum() / (a == 0).sum(),
        "alpha[0]": a[r == 0].mean(),
        "tau[1]": t[(r == 1) & (a == 0)].mean(),
        "p_g[r=1]": (t[r == 1] == 1).mean(),
        "guess": (a[r == 0] == 0).mean(),
    }
    assert targets(found, list(expected)) == pytest.approx(expected)


def test_a_share_of_nothing_has_no_target() -> None:
    """Retrieval never failed: what is given R = 0 is undefined, the rest is not."""
    ones = np.ones(4, dtype=np.int8)
    found = targets(Population(list("abcd"), ones, 0 * ones, np.array([1, 1, 0, 0])), BASE_QUANTITIES)
    undefined = {name for name, value in found.items() if value is None}
    assert undefined == {"alpha[0]", "tau[0]", "p_g[r=0]", "guess"}
    assert (found["p_g"], found["p_t"], found["lucky"]) == (0.5, 0.5, 0.0)


def test_always_abstaining_leaves_the_accuracy_open() -> None:
    ones = np.ones(4, dtype=np.int8)
    found = targets(Population(list("abcd"), np.array([0, 0, 0, 1]), ones, MISSING * ones), BASE_QUANTITIES)
    assert {name for name, value in found.items() if value is None} == {"tau[0]", "tau[1]", "accuracy"}
    assert found["p_g"] == 0.75


def test_a_table_that_can_be_studied_passes() -> None:
    check(TABLE, AllocationSettings(base=60), TRUSTED)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"r@evidence": None}, "no trusted label in r@evidence"),
        ({"a@phrase": None}, "no trusted label in a@phrase"),
        ({"t@match": None}, "no trusted label of an answered item in t@match"),
        ({"a@phrase": 1, "t@match": None}, r"answered none of its 60 items \(a@phrase"),
        ({"error": "timeout"}, "no rows without an error"),
    ],
)
def test_tables_that_cannot_be_studied(change: dict[str, int | str | None], message: str) -> None:
    table = TABLE
    for name, value in change.items():
        table = with_column(table, name, [value] * 60)
    with pytest.raises(InputError, match=message):
        check(table, AllocationSettings(), TRUSTED)


def test_a_base_beyond_the_complete_items_names_both_numbers() -> None:
    labels = TABLE.column("r@evidence").to_pylist()
    table = with_column(TABLE, "r@evidence", [*labels[:15], *[None] * 45])
    with pytest.raises(InputError, match="base=20, but only 15 of 60 items"):
        check(table, AllocationSettings(base=20), TRUSTED)


def test_a_misspelt_source_is_named() -> None:
    with pytest.raises(InputError, match=r"'r@evidense'.*did you mean 'r@evidence'"):
        check(TABLE, AllocationSettings(), {**TRUSTED, "r": ["evidense"]})
    with pytest.raises(InputError, match=r"labels\.trusted\.t names no source"):
        check(TABLE, AllocationSettings(), {"r": ["evidence"], "a": ["phrase"]})
