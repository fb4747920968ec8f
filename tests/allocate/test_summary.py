"""Summaries of made-up studies, by hand; strategies paired by replicate; the check against NUTS; what is printed."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from rat_ray.allocate import STUDY_SUMMARY, print_study, summarise
from rat_ray.allocate.agreement import nuts_check
from rat_ray.allocate.show import nuts_words
from rat_ray.allocate.summary import PAIRED, paired, pooled_name, reference_of
from rat_ray.tables import ALLOCATION
from tests.allocate.made_up import like_counts, row, study, table

ERRORS, WIDTHS = [0.03, -0.05, 0.11], [0.2, 0.3, 0.4]


def by_hand() -> list[dict[str, object]]:
    rows = [row("joint", 5, i, error, width) for i, (error, width) in enumerate(zip(ERRORS, WIDTHS, strict=True))]
    rows[1] |= {"sampler": "nuts"}
    rows[2] |= {"cost": 4.0, "labels_t": 2}
    return [*rows, row("joint", 5, 3, None)]


def test_a_cell_by_hand() -> None:
    found = summarise(table(by_hand()))
    assert found.schema == STUDY_SUMMARY
    squares = np.square(ERRORS)
    rmse = math.sqrt(squares.mean())
    root = math.sqrt(3)
    [cell] = found.to_pylist()
    assert cell == {
        "config": "c", "strategy": "joint", "budget": 5.0, "quantity": "p_g", "configurations": 1, "replicates": 3,
        "failed": 1, "nuts": 1, "cost": pytest.approx(19 / 4), "labels_r": 5.0, "labels_t": 0.5,
        "bias": pytest.approx(0.03), "bias_se": pytest.approx(np.std(ERRORS, ddof=1) / root),
        "rmse": pytest.approx(rmse), "rmse_se": pytest.approx(squares.std(ddof=1) / root / (2 * rmse)),
        "width": pytest.approx(0.3), "width_se": pytest.approx(0.1 / root),
        # Among exactly the items: half a width to either side.
        "coverage": pytest.approx(3 / 3), "coverage_se": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize(("finite", "covered"), [(0, 0.0), (None, 1.0)])
def test_coverage_is_of_the_interval_that_goes_with_the_target(finite: int | None, covered: float) -> None:
    """The error lies outside the narrow interval among exactly the items and inside that on new questions."""
    [cell] = summarise(table([row("joint", 5, i, 0.15, 0.2, finite_covered=finite) for i in range(2)])).to_pylist()
    assert cell["coverage"] == covered


def test_what_has_too_few_replicates_has_no_standard_error() -> None:
    [cell] = summarise(table(by_hand()[:1])).to_pylist()
    assert [cell[f"{name}_se"] for name in ("bias", "rmse", "width", "coverage")] == [None] * 4
    [failed] = summarise(table(by_hand()[3:])).to_pylist()
    assert (failed["replicates"], failed["failed"], failed["cost"]) == (0, 1, 5.0)
    assert [failed[name] for name in ("bias", "rmse", "width", "coverage")] == [None] * 4
    assert summarise(ALLOCATION.empty_table()).equals(STUDY_SUMMARY.empty_table())
    assert paired(ALLOCATION.empty_table()).equals(PAIRED.empty_table())


def test_rows_over_all_configurations_are_means_and_follow() -> None:
    one, two = (study(like_counts({"joint": worth}), ["joint"], [50, 100], 6, name) for name, worth in
                (("one", 1.0), ("two", 3.0)))  # fmt: skip
    found = summarise(pa.concat_tables([one, two])).to_pylist()
    assert [row["config"] for row in found] == ["one", "one", "two", "two", "all", "all"]
    assert found[:2] == summarise(one).to_pylist()
    for index in (0, 1):
        first, second, pooled = found[index], found[index + 2], found[index + 4]
        assert (pooled["configurations"], pooled["replicates"]) == (2, 12)
        for name in ("rmse", "width", "coverage", "bias", "cost"):
            assert pooled[name] == pytest.approx((first[name] + second[name]) / 2)
        for name in ("rmse_se", "width_se"):
            assert pooled[name] == pytest.approx(math.hypot(first[name], second[name]) / 2)
    assert pooled_name(["x"]) is None
    assert pooled_name(["all", "x"]) == "all 2 configurations"


def test_a_configuration_without_a_value_is_not_in_the_mean() -> None:
    two = [row("joint", 5, i, None, config="two") for i in range(2)]
    pooled = summarise(table([*by_hand(), *two])).to_pylist()[-1]
    alone = summarise(table(by_hand())).to_pylist()[0]
    assert pooled["rmse"] == pytest.approx(alone["rmse"])
    assert pooled["rmse_se"] == pytest.approx(alone["rmse_se"])
    assert (pooled["failed"], pooled["replicates"], pooled["configurations"]) == (3, 3, 2)


def test_the_order_of_the_rows_changes_rounding_only() -> None:
    made = study(like_counts({"joint": 1.0, "all_r": 0.5}), ["joint", "all_r"], [10, 20], 20)
    backwards = made.take(list(range(made.num_rows - 1, -1, -1)))
    key = [("strategy", "ascending"), ("budget", "ascending")]
    one, two = (summarise(rows).sort_by(key).to_pylist() for rows in (made, backwards))
    for first, second in zip(one, two, strict=True):
        names = [name for name, value in first.items() if isinstance(value, float)]
        assert [first[name] for name in names] == pytest.approx([second[name] for name in names], rel=1e-12, abs=1e-14)


def test_differences_by_replicate_by_hand() -> None:
    joint = [row("joint", 5, i, error, 0.2) for i, error in enumerate([0.1, 0.2, 0.3, None])]
    other = [row("all_r", 5, i, error, width) for i, (error, width) in
             enumerate([(0.2, 0.25), (0.2, 0.35), (0.3, 0.30), (0.1, 0.3)])]  # fmt: skip
    found = paired(table([*other, *joint]))
    assert found.schema == PAIRED
    squares, widths = np.array([0.03, 0.0, 0.0]), np.array([0.05, 0.15, 0.10])
    assert found.to_pylist() == [
        {
            "config": "c", "strategy": "all_r", "budget": 5.0, "quantity": "p_g", "against": "joint",
            "configurations": 1, "pairs": 3, "cost_difference": 0.0,
            "mse_difference": pytest.approx(squares.mean()),
            "mse_difference_se": pytest.approx(squares.std(ddof=1) / math.sqrt(3)),
            "width_difference": pytest.approx(widths.mean()),
            "width_difference_se": pytest.approx(widths.std(ddof=1) / math.sqrt(3)),
        }
    ]  # fmt: skip


def test_pairing_cancels_what_replicates_share() -> None:
    made = study(like_counts({"joint": 1.0, "t_first": 1.05}), ["joint", "t_first"], [100], 60)
    cell = paired(made).to_pylist()[0]
    width = {row["strategy"]: row["width_se"] for row in summarise(made).to_pylist()}
    assert cell["width_difference_se"] < 0.1 * math.hypot(width["joint"], width["t_first"])
    assert cell["width_difference"] < -5 * cell["width_difference_se"]


def test_without_joint_the_first_strategy_is_the_reference() -> None:
    made = study(like_counts({"all_t": 1.0, "all_r": 0.5}), ["all_t", "all_r"], [10], 3)
    assert reference_of(made) == "all_t"
    assert [(row["strategy"], row["against"]) for row in paired(made).to_pylist()] == [("all_r", "all_t")]


def test_the_check_against_nuts_by_hand() -> None:
    rows = [row("joint", 5, i, 0.0, 0.2, ess=1600.0) for i in range(40)]
    rows += [row("joint", 5, i, 0.0, 0.2, quantity="rho") for i in range(40)]
    rows[0] |= {"nuts_mean": 0.51, "nuts_sd": 0.1, "nuts_q2.5": 0.3, "nuts_q97.5": 0.65}
    rows[1] |= {"sampler": "nuts"}
    found = nuts_check(table(rows))
    assert (found.fits, found.taken_over, found.refitted, found.compared) == (40, 1, 1, 1)
    assert found.mean_in_sd == pytest.approx(0.1)
    assert found.mean_in_mcse == pytest.approx(0.1 / math.sqrt(2 / 1600))
    assert found.ends_in_sd == pytest.approx(0.5)
    density = NormalDist().pdf(1.959964)
    assert found.ends_in_mcse == pytest.approx(0.5 * density / math.sqrt(2 * 0.025 * 0.975 / 1600), rel=1e-5)
    assert found.expected_mean == pytest.approx(0.6745, abs=1e-4)  # the median of one absolute normal number
    assert "1 refitted by NUTS" in nuts_words(found)
    assert "none refitted" in nuts_words(nuts_check(table(rows[5:])))


def test_every_strategy_and_budget_is_a_line_of_80_columns() -> None:
    strategies = ["all_r", "joint", "mixed-0.25"]
    made = study(like_counts(dict.fromkeys(strategies, 1.0)), strategies, [10, 2000], 3)
    screen = Console(width=80, record=True)
    print_study(made, screen)
    lines = screen.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    for strategy in strategies:
        assert [line.split()[1] for line in lines if line.startswith(f"{strategy} ")] == ["10", "2000"]
