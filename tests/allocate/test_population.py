"""Which items a study has, what their shares are, and which tables cannot be studied."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from rat_ray.allocate import AllocationSettings, check
from rat_ray.allocate.population import Population, code_of, counts_of, read_population, targets
from rat_ray.errors import InputError
from rat_ray.model.patterns import MISSING
from rat_ray.model.states import BASE_QUANTITIES
from rat_ray.tables import annotations_schema
from tests.allocate.planted import TRUSTED, planted, with_column

TABLE = planted(60)


def test_the_items_are_those_with_a_known_a() -> None:
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
    trusted = {"r": ["one", "two"], "a": ["one"], "t": ["one"]}
    found = read_population(table, trusted)
    items = found.population
    ids = ["abstained", "complete", "first-wins", "no-r", "no-t", "second-source", "zero-on-abstention"]
    assert items.question_ids == ids
    assert items.r.tolist() == [0, 1, 1, MISSING, 1, 0, 0]
    assert items.a.tolist() == [1, 0, 0, 0, 0, 0, 1]
    assert items.t.tolist() == [MISSING, 1, 0, 0, MISSING, 0, MISSING]
    assert items.complete.tolist() == [True, True, True, False, False, True, True]
    assert (items.whole, found.failed, found.unknown_a) == (False, 1, 1)
    said = " ".join(check(table, AllocationSettings(base=2, budgets=[2]), trusted))
    assert "1 of 9 rows have an error" in said
    assert "1 of 9 rows have no label of A in a@one" in said
    assert "2 of 7 items lack labels" in said


def test_a_label_file_holds_the_labels_itself() -> None:
    table = pa.table({"question_id": ["b", "a"], "r": [1, 0], "a": [0, 1], "t": [1, None]})
    found = read_population(table, {}).population
    assert (found.question_ids, found.r.tolist(), found.a.tolist(), found.t.tolist()) == (
        ["a", "b"],
        [0, 1],
        [1, 0],
        [MISSING, 1],
    )
    with pytest.raises(InputError, match="no column 't'"):
        read_population(table.drop_columns(["t"]), {})


def test_counts_are_of_every_pattern() -> None:
    items = read_population(TABLE, TRUSTED).population
    n = counts_of(items.r, items.a, items.t)
    code = code_of(n)
    assert n.sum() == 60
    for pattern, count in zip(code.labels.tolist(), n.tolist(), strict=True):
        same = (items.r == pattern[0]) & (items.a == pattern[1]) & (items.t == pattern[2])
        assert count == same.sum()


def test_targets_are_plain_shares() -> None:
    found = read_population(TABLE, TRUSTED).population
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
    assert check(TABLE, AllocationSettings(base=60, budgets=[0]), TRUSTED) == []


def test_strata_are_counted_alike_and_said() -> None:
    table = with_column(TABLE, "stratum", ["easy" if i % 3 else "hard" for i in range(60)])
    said = check(table, AllocationSettings(base=60, budgets=[0]), TRUSTED)
    assert [text for text in said if "2 strata" in text] == said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"r@evidence": None}, "no trusted label in r@evidence"),
        ({"a@phrase": None}, "no trusted label in a@phrase"),
        ({"t@match": None}, "no trusted label of an answered item in t@match"),
        ({"a@phrase": 1, "t@match": None}, r"answered none of its 60 items \(a@phrase"),
        ({"error": "timeout"}, "no trusted label in a@phrase"),
    ],
)
def test_tables_that_cannot_be_studied(change: dict[str, int | str | None], message: str) -> None:
    table = TABLE
    for name, value in change.items():
        table = with_column(table, name, [value] * 60)
    with pytest.raises(InputError, match=message):
        check(table, AllocationSettings(base=20, budgets=[10]), TRUSTED)


def test_a_base_beyond_the_complete_items_names_both_numbers() -> None:
    labels = TABLE.column("r@evidence").to_pylist()
    table = with_column(TABLE, "r@evidence", [*labels[:15], *[None] * 45])
    with pytest.raises(InputError, match="base=20, but only 15 of 60 items"):
        check(table, AllocationSettings(base=20, budgets=[10]), TRUSTED)


def test_a_base_that_is_small_or_absent() -> None:
    assert "allocation.base=9" in check(TABLE, AllocationSettings(base=9, budgets=[5]), TRUSTED)[0]
    for strategy, why in (("all_t", "0 to 100 %"), ("all_r", "prior of tau"), ("mixed-0.3", "only bounded")):
        alone = AllocationSettings(base=0, budgets=[5], strategies=[strategy])
        with pytest.raises(InputError, match=f"base=0 with strategy {strategy}.*{why}.*force=true"):
            check(TABLE, alone, TRUSTED)
        assert "so few items" in check(TABLE, dataclasses.replace(alone, force=True), TRUSTED)[0]
    complete = AllocationSettings(base=0, budgets=[5], strategies=["joint", "t_first", "r_first"])
    # What an adaptive strategy leaves out settles G all the same.
    assert len(check(TABLE, complete, TRUSTED)) == 1


def test_a_budget_that_cannot_be_spent_names_its_cell() -> None:
    items = read_population(TABLE, TRUSTED).population
    answered = int((items.a == 0).sum())
    settings = AllocationSettings(base=20, strategies=["all_r", "all_t"], budgets=[10, 40, 41])
    with pytest.raises(InputError, match=r"'bm25-planted', strategy all_r, budget 41: .* cost 40 at most"):
        check(TABLE, settings, TRUSTED)
    sure = answered - 20  # whichever items the base takes
    fits = dataclasses.replace(settings, strategies=["all_t"], budgets=[float(sure)])
    assert check(TABLE, fits, TRUSTED) == []
    said = check(TABLE, dataclasses.replace(fits, budgets=[float(sure + 1)]), TRUSTED)
    assert f"strategy all_t, budget {sure + 1}: some replicates run out" in said[0]
    most = answered - max(0, 20 - int((items.a == 1).sum()))
    with pytest.raises(InputError, match=f"strategy all_t, budget {most + 1}: .* cost {most} at most"):
        check(TABLE, dataclasses.replace(fits, budgets=[float(most + 1)]), TRUSTED)
    assert check(TABLE, dataclasses.replace(fits, resampling="bootstrap", budgets=[25.0]), TRUSTED)


def test_a_misspelt_source_is_named() -> None:
    with pytest.raises(InputError, match=r"'r@evidense'.*did you mean 'r@evidence'"):
        check(TABLE, AllocationSettings(), {**TRUSTED, "r": ["evidense"]})
    with pytest.raises(InputError, match=r"labels\.trusted\.t names no source"):
        check(TABLE, AllocationSettings(), {"r": ["evidence"], "a": ["phrase"]})
