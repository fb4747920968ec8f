"""The allocation table condensed: by hand on small numbers."""

from __future__ import annotations

import math

import pytest

from rat_ray.report.study import study_points
from tests.report.made_up import allocation


def test_rmse_width_coverage_and_standard_error_by_hand() -> None:
    (point,) = study_points(allocation({("uniform", 10): [0.05, -0.05, 0.15]}))
    squares = [0.0025, 0.0025, 0.0225]
    mean = sum(squares) / 3
    spread = math.sqrt(sum((square - mean) ** 2 for square in squares) / 2 / 3)
    assert point.rmse == pytest.approx(math.sqrt(mean))
    assert point.rmse_se == pytest.approx(spread / (2 * math.sqrt(mean)))
    assert point.width == pytest.approx(0.2)
    assert point.covered == pytest.approx(2 / 3)


def test_failed_replicates_are_counted_and_not_averaged() -> None:
    points = study_points(allocation({("uniform", 10): [0.1, None], ("other", 10): [None]}))
    assert [(point.strategy, point.replicates, point.failed) for point in points] == [("uniform", 1, 1)]
    assert points[0].rmse == pytest.approx(0.1)
    assert points[0].rmse_se is None
