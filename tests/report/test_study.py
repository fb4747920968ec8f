"""The study condensed for the report, and its figures: by hand on small numbers."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import pyarrow as pa
import pytest

from rat_ray.allocate.information import PREDICTION
from rat_ray.report.allocation_figures import allocation_figure, in_order, information_figure, look_of
from rat_ray.report.page import ReportInput, render
from rat_ray.report.study import best_strategies, pooled_config, study_points
from tests.allocate.made_up import like_counts, study
from tests.report.made_up import allocation, summary
from tests.report.test_page import Reader

STRATEGIES = ["all_r", "all_t", "joint", "mixed", "t_first", "r_first", "mixed-0.25"]
CONFIGS = [f"nq-bm25-{index}" for index in range(27)]


@pytest.fixture(scope="module")
def paper() -> pa.Table:
    """27 configurations; joint is the best of the first, all_r of the others."""
    return pa.concat_tables(
        study(
            like_counts({"all_r": 3.0 if index else 0.2, "joint": 1.0}, index), ["all_r", "joint"], [50, 200], 20, one
        )
        for index, one in enumerate(CONFIGS)
    )


def test_rmse_width_coverage_and_standard_error_by_hand() -> None:
    (point,) = study_points(allocation({("uniform", 10): [0.05, -0.05, 0.15]}))
    squares = [0.0025, 0.0025, 0.0225]
    mean = sum(squares) / 3
    spread = math.sqrt(sum((square - mean) ** 2 for square in squares) / 2 / 3)
    assert point.rmse == pytest.approx(math.sqrt(mean))
    assert point.rmse_se == pytest.approx(spread / (2 * math.sqrt(mean)))
    assert point.width == pytest.approx(0.2)
    assert point.covered == pytest.approx(2 / 3)
    assert point.covered_se == pytest.approx(1 / 3)


def test_failed_replicates_are_counted_and_not_averaged() -> None:
    points = study_points(allocation({("uniform", 10): [0.1, None], ("other", 10): [None]}))
    assert [(point.strategy, point.replicates, point.failed) for point in points] == [("uniform", 1, 1)]
    assert points[0].rmse == pytest.approx(0.1)
    assert points[0].rmse_se is None


def test_the_best_strategy_at_the_largest_budget(paper: pa.Table) -> None:
    found = {one.config: one for one in best_strategies(paper)}
    assert list(found) == [*CONFIGS, "all"]
    first, second = found[CONFIGS[0]], found[CONFIGS[1]]
    assert (first.best.strategy, first.budget, first.difference, first.beyond_error) == ("joint", 200.0, None, False)
    assert (second.best.strategy, second.against.strategy if second.against else "") == ("all_r", "joint")
    assert second.best.rmse < (second.against.rmse if second.against else 0.0)
    assert second.difference is not None
    assert second.difference < 0
    assert sum(one.beyond_error for one in found.values()) > 5
    assert pooled_config(paper) == "all"


def test_a_figure_has_three_panels_and_every_strategy_and_is_the_same_every_time() -> None:
    made = study(like_counts(dict.fromkeys(STRATEGIES, 1.0)), STRATEGIES, [0, 50, 200], 4)
    svg = allocation_figure(made)
    text = " ".join(ET.fromstring(svg).itertext())
    for part in ("RMSE", "width", "held the target", *STRATEGIES):
        assert part in text
    assert allocation_figure(made) == svg


def test_seven_strategies_differ_by_colour_and_by_marker_and_keep_theirs() -> None:
    looks = [look_of(name, STRATEGIES) for name in in_order(STRATEGIES)]
    assert len({look["color"] for look in looks}) == len({look["marker"] for look in looks}) == 7
    assert look_of("joint", ["joint"]) == look_of("joint", STRATEGIES)


def test_only_the_configurations_asked_for_are_drawn(paper: pa.Table) -> None:
    text = " ".join(ET.fromstring(allocation_figure(paper, ["all"])).itertext())
    assert "mean over 27 configurations" in text
    assert CONFIGS[0] not in text
    assert CONFIGS[0] in " ".join(ET.fromstring(allocation_figure(paper, [CONFIGS[0]])).itertext())


def test_the_report_shows_many_configurations_in_one_figure_and_one_table(paper: pa.Table) -> None:
    page = Reader(render(ReportInput("paper", summary(CONFIGS[:1]), allocation=paper)))
    assert "mean over 27 configurations" in page.text
    best = [row for row in page.rows if len(row) == 6 and row[0] in CONFIGS and "[" not in row[2]]
    assert [row[2] for row in best] == ["joint", *["all_r"] * 26]
    assert best[0][5] == "–"
    assert {row[5] for row in best[1:]} <= {"yes", "no"}
    assert "among exactly its items" in page.text


def test_the_report_says_what_the_intervals_are_held_against() -> None:
    made = study(like_counts({"joint": 1.0}), ["joint"], [50], 4)
    truth = made.set_column(made.schema.get_field_index("target"), "target", pa.array(["truth"] * made.num_rows))
    assert "the truth that the tables were drawn from" in render(ReportInput("x", summary(["c"]), allocation=truth))


def test_the_information_figure_needs_both_sides() -> None:
    rows = [
        {"config": config, "strategy": strategy, "quantity": "p_g", "against": "joint", "bits_per_cost": bits,
         "expected_sd": 0.06, "bits_per_cost_low": bits - 0.1, "bits_per_cost_high": bits + 0.1, "rmse": 0.05,
         "rmse_ratio": 1.1, "rmse_ratio_low": 1.0, "rmse_ratio_high": 1.2}
        for config in CONFIGS[:3] for strategy, bits in (("all_r", 0.4), ("joint", 0.3))
    ]  # fmt: skip
    svg = information_figure(pa.Table.from_pylist(rows, schema=PREDICTION))
    assert svg is not None
    text = " ".join(ET.fromstring(svg).itertext())
    assert all(
        word in text
        for word in ("bits of G per cost", "formula: error over joint", "study: RMSE over joint", *CONFIGS[:3])
    )
    without = [row | {"bits_per_cost": None} for row in rows]
    assert information_figure(pa.Table.from_pylist(without, schema=PREDICTION)) is None
