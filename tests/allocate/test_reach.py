"""The cost at which a width is reached: on curves whose answer is known."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from rat_ray.allocate.information import prediction
from rat_ray.allocate.reach import AT_MOST, INTERPOLATED, NOT_REACHED, REACH, crossing, reach
from rat_ray.allocate.show import print_reach
from rat_ray.allocate.summary import summarise
from tests.allocate.made_up import like_counts, row, study, table

WORTH = {"joint": 1.0, "t_first": 1.5, "all_t": 0.3}
BUDGETS = [25, 100, 400]
Rows = dict[tuple[str, float], dict[str, object]]


def found(made: pa.Table, config: str = "c") -> Rows:
    rows = reach(made)
    assert rows.schema == REACH
    return {(row["strategy"], row["budget"]): row for row in rows.to_pylist() if row["config"] == config}


@pytest.fixture(scope="module")
def rows() -> Rows:
    return found(study(like_counts(WORTH), list(WORTH), BUDGETS, 20))


def test_where_labels_are_worth_more_or_less_the_cost_is_as_much_smaller_or_larger(rows: Rows) -> None:
    """Widths fall with 1 / sqrt(50 + worth * cost): the interpolation is exact, noise in common cancels."""
    for budget in (100.0, 400.0):
        faster = rows["t_first", budget]
        assert faster["how"] == INTERPOLATED
        assert faster["cost"] == pytest.approx(budget / 1.5)
        assert faster["ratio"] == pytest.approx(1 / 1.5)
        assert faster["ratio_low"] == pytest.approx(1 / 1.5, rel=0.01)
        assert faster["ratio_high"] == pytest.approx(1 / 1.5, rel=0.01)
    assert rows["all_t", 100.0]["cost"] == pytest.approx(100 / 0.3)


def test_the_reference_reaches_its_own_width_at_its_own_cost(rows: Rows) -> None:
    for budget in map(float, BUDGETS):
        own = rows["joint", budget]
        assert (own["how"], own["cost"], own["ratio"], own["reached"]) == (INTERPOLATED, budget, 1.0, 1.0)
        assert own["ratio_low"] == own["ratio_high"] == 1.0


def test_what_is_never_reached_is_null(rows: Rows) -> None:
    never = rows["all_t", 400.0]
    assert never["how"] == NOT_REACHED
    assert [never[name] for name in ("cost", "ratio", "cost_low", "cost_high")] == [None] * 4
    assert never["reached"] == 0.0


def test_what_is_reached_before_the_first_budget_is_an_upper_bound(rows: Rows) -> None:
    early = rows["t_first", 25.0]
    assert (early["how"], early["cost"], early["ratio"]) == (AT_MOST, 25.0, 1.0)


def test_the_interval_is_as_wide_as_the_replicates_vary() -> None:
    """One strategy's widths vary on their own; the standard error of its mean says how far the cost may be off."""
    rng = np.random.default_rng(4)
    rows = []
    for replicate in range(50):
        for budget in BUDGETS:
            width = 1.96 / np.sqrt(50 + budget)
            rows.append(row("joint", budget, replicate, 0.01, width))
            rows.append(row("all_r", budget, replicate, 0.01, width * 1.1 * (1 + 0.1 * rng.normal())))
    made = table(rows)
    one = found(made)["all_r", 100.0]
    cell = next(r for r in summarise(made).to_pylist() if (r["strategy"], r["budget"]) == ("all_r", 100.0))
    # precision = (50 + cost) / 1.96^2 / 1.1^2; d cost / cost = 2 d width / width * (50 + cost) / cost
    spread = 2 * cell["width_se"] / cell["width"] * (50 + 100) * 1.1**2 / 100
    assert one["ratio_low"] < 1.315 < one["ratio_high"]
    assert 2 * 1.96 * spread * 0.5 < one["ratio_high"] - one["ratio_low"] < 2 * 1.96 * spread * 1.3


def test_of_one_replicate_nobody_knows_how_others_would_vary() -> None:
    made = study(like_counts(WORTH), list(WORTH), BUDGETS, 1)
    one = found(made)["t_first", 100.0]
    assert (one["how"], one["ratio"]) == (INTERPOLATED, pytest.approx(1 / 1.5))
    assert [one[name] for name in ("cost_low", "cost_high", "ratio_low", "ratio_high", "reached")] == [None] * 5
    rows = prediction(made, {}).to_pylist()
    assert all(row["width"] and row["width_ratio"] for row in rows)
    assert {row[name] for row in rows for name in ("best_width", "best_rmse", "width_ratio_low")} == {None}


def test_an_open_end_where_some_of_the_resampled_studies_do_not_reach_it() -> None:
    made = study(like_counts({"joint": 1.0}), ["joint"], BUDGETS, 20)
    rng = np.random.default_rng(5)
    last = 1.96 / np.sqrt(450)
    rows = [row("all_r", budget, i, 0.01, 0.3 if budget < 400 else last * (1 + 0.2 * rng.normal()))
            for i in range(20) for budget in BUDGETS]  # fmt: skip
    one = found(pa.concat_tables([made, table(rows)]))["all_r", 400.0]
    assert 0 < float(str(one["reached"])) < 1
    assert one["cost_high"] is None


def test_over_all_configurations_mean_width_is_held_against_mean_width() -> None:
    parts = [study(like_counts(WORTH), list(WORTH), BUDGETS, 5, name) for name in ("one", "two")]
    both = pa.concat_tables(parts)
    assert reach(both).column("config").to_pylist() == ["one"] * 9 + ["two"] * 9 + ["all"] * 9
    assert found(both, "all")["t_first", 100.0]["ratio"] == pytest.approx(1 / 1.5)


def test_a_base_alone_and_failed_cells_have_no_row() -> None:
    rows = [row("joint", budget, i, None if budget == 100 else 0.01, 0.2) for i in range(3) for budget in (0, 100, 200)]
    assert [budget for _, budget in found(table(rows))] == [200.0]


def test_the_first_crossing_counts() -> None:
    cost, width = np.array([[10.0, 20.0, 30.0]]), np.array([[0.4, 0.2, 0.3]])
    assert crossing(cost, width, np.array([0.3])).cost[0] == pytest.approx(
        10 + 10 * (0.3**-2 - 0.4**-2) / (0.2**-2 - 0.4**-2)
    )


def test_many_strategies_of_long_names_are_printed_in_80_columns() -> None:
    strategies = ["joint", "all_r", "all_t", "mixed", "mixed-0.333333", "t_first", "r_first"]
    made = study(like_counts(dict.fromkeys(strategies, 1.0) | WORTH), strategies, BUDGETS, 4)
    screen = Console(width=200, record=True)
    print_reach(reach(made), screen)
    lines = screen.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    assert [word for line in lines if line.startswith(" budget") for word in line.split()[2:]] == strategies[1:]


def test_it_is_printed_in_80_columns() -> None:
    strategies = ["joint", "all_r", "all_t", "mixed", "mixed-0.25", "t_first", "r_first"]
    made = study(like_counts(dict.fromkeys(strategies, 1.0) | WORTH), strategies, BUDGETS, 4)
    screen = Console(width=80, record=True)
    print_reach(reach(made), screen)
    lines = screen.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1].split() == ["400", ".094", "1.00", "-", "1.00", "1.00", "0.67", "1.00"]
