"""Grouping a table into its count table."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from rat_ray.errors import InputError
from rat_ray.model import merge, patterns
from rat_ray.tables import LABEL, check_table, patterns_schema
from tests.model.tables import table

OWN = ("stratum", "n", "stands_for")


def _random(rows: int, seed: int, judges: tuple[str, ...]) -> pa.Table:
    """Labels without contradictions, a third of them missing."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-1, 2, size=(rows, 3 + len(judges)))
    values[values[:, 2] >= 0, 1] = 0
    names = ["r", "a", "t", *judges]
    return pa.table(
        {name: pa.array(np.maximum(values[:, i], 0), LABEL, mask=values[:, i] < 0) for i, name in enumerate(names)}
    )


def _as_counter(counts: pa.Table) -> Counter[tuple[object, ...]]:
    rows = counts.to_pylist()
    assert all(row["stands_for"] == row["n"] and row["stratum"] is None for row in rows)
    return Counter({(*(v for k, v in row.items() if k not in OWN),): row["n"] for row in rows})


@pytest.mark.parametrize("judges", [(), ("r@x", "a@y"), tuple(f"r@{i}" for i in range(11))])
def test_patterns_are_the_counts_of_equal_rows(judges: tuple[str, ...]) -> None:
    labels = _random(3000, 1, judges)  # 14 columns are grouped by hashing instead of counting
    counts = patterns(labels, judges)
    check_table(counts, patterns_schema(list(judges)), "patterns")
    plain = Counter((*row.values(), "fit") for row in labels.to_pylist())
    assert _as_counter(counts) == plain
    assert len(plain) == counts.num_rows


def test_a_million_rows_are_a_thousand_a_thousand_times() -> None:
    labels = _random(1000, 2, ("r@x", "a@y"))
    small = patterns(labels, ["r@x", "a@y"])
    big = patterns(pa.concat_tables([labels] * 1000), ["r@x", "a@y"])
    assert big.drop_columns(["n", "stands_for"]).equals(small.drop_columns(["n", "stands_for"]))
    assert big["n"].to_pylist() == [1000 * n for n in small["n"].to_pylist()]


def test_merging_ranges_is_grouping_the_whole() -> None:
    labels = _random(1000, 3, ("r@x",))
    parts = [patterns(labels.slice(start, 300), ["r@x"]) for start in range(0, 1000, 300)]
    assert merge(parts).equals(patterns(labels, ["r@x"]))
    assert merge([patterns(labels.slice(0, 0), ["r@x"]), *parts]).equals(patterns(labels, ["r@x"]))


def test_no_rows_give_no_patterns() -> None:
    counts = patterns(table([]), [])
    check_table(counts, patterns_schema([]), "patterns")
    assert counts.num_rows == 0


def test_failed_rows_are_counted_apart() -> None:
    labels = table([(1, 0, 1), (1, 0, 1), (None, None, None)])
    labels = labels.append_column("error", pa.array([None, None, "out of memory"], pa.string()))
    assert patterns(labels, []).drop_columns(["stratum", "stands_for"]).to_pylist() == [
        {"r": 1, "a": 0, "t": 1, "use": "fit", "n": 2},
        {"r": None, "a": None, "t": None, "use": "failed", "n": 1},
    ]


def test_t_of_an_abstention_is_not_applicable() -> None:
    labels = table([(1, 1, 0, 1, 1), (1, 1, None, 0, 1), (1, 1, None, None, 1), (1, None, 1, 1, 0)], ("t@x", "r@y"))
    assert patterns(labels, ["t@x", "r@y"]).drop_columns(["stratum", "stands_for"]).to_pylist() == [
        {"r": 1, "a": 0, "t": 1, "t@x": 1, "r@y": 0, "use": "fit", "n": 1},
        {"r": 1, "a": 1, "t": None, "t@x": None, "r@y": 1, "use": "fit", "n": 3},
    ]


def test_other_types_of_columns_are_read_or_refused() -> None:
    labels = pa.table({"r": [1, 0, None], "a": [True, False, False], "t": pa.array([None, 1.0, None], pa.float64())})
    expected = patterns(table([(1, 1, None), (0, 0, 1), (None, 0, None)]), [])
    assert patterns(labels, []).equals(expected)
    with pytest.raises(InputError, match="column 'r' is double: labels are 0, 1 or null"):
        patterns(pa.table({"r": [0.5], "a": [1], "t": [None]}), [])
    with pytest.raises(InputError, match=r"column 'r' is string.*read_labels"):
        patterns(pa.table({"r": ["yes"], "a": [1], "t": [None]}), [])
    with pytest.raises(InputError, match="column 'a' holds 3: labels are 0, 1 or null"):
        patterns(pa.table({"r": [0], "a": [3], "t": [None]}), [])


def test_contradictions_are_refused() -> None:
    with pytest.raises(InputError, match=r"t = 1 on 2 row\(s\) with a = 1"):
        patterns(table([(1, 1, 1), (0, 1, 1), (1, 0, 1)]), [])
    with pytest.raises(InputError, match=r"t = 0 on 1 row\(s\) where a is missing"):
        patterns(table([(1, None, 0)]), [])


def test_column_names_are_checked() -> None:
    with pytest.raises(InputError, match=r"column 't@gpt-4' is missing \(did you mean 't@gpt4'"):
        patterns(table([(1, 0, 1, 1)], ("t@gpt4",)), ["t@gpt-4"])
    with pytest.raises(InputError, match="judge 'gpt4'"):
        patterns(table([(1, 0, 1)]), ["gpt4"])
    with pytest.raises(InputError, match="a name occurs twice"):
        patterns(table([(1, 0, 1, 1)], ("t@x",)), ["t@x", "t@x"])
