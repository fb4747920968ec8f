"""The figures of an allocation study: error, width and coverage against cost; the formula beside the experiment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rat_ray.allocate import STRATEGIES
from rat_ray.report.estimates import number
from rat_ray.report.study import StudyPoint, points_of, pooled_config, study_points
from rat_ray.report.style import (
    GREY,
    INK,
    MARKERS,
    SERIES,
    drawing,
    label_lines,
    name_rows,
    new_figure,
    rows_height,
    to_svg,
)

_COLOURS, _MARKS = (*SERIES, INK, GREY), (*MARKERS, "X", "*")
_PANELS = {
    "rmse": "error of P(G=1) (RMSE)",
    "width": "mean width of the 95 % interval",
    "covered": "share of intervals that held the target",
}
_MEANT = 0.95


def allocation_figure(allocation: pa.Table, configs: Sequence[str] | None = None) -> str:
    """RMSE, mean interval width and coverage of P(G=1) against the cost of labels, a line per strategy.

    Bars are one Monte Carlo standard error to either side. Three panels per configuration. configs: which (the name of
    `study.pooled_config` among them); None: all of the table. Where no replicate gave an estimate, the figure says so.
    """
    points = study_points(allocation)
    known = list(dict.fromkeys(point.config for point in points))
    shown = [config for config in (known if configs is None else configs) if config in known]
    if not shown:
        return _no_estimates()
    strategies = in_order(point.strategy for point in points)
    pooled = pooled_config(allocation)
    with drawing("allocation"):
        figure = new_figure(0.8 + 3.2 * len(shown))
        grid = figure.subplots(len(shown), len(_PANELS), squeeze=False)
        for config, panels in zip(shown, grid, strict=True):
            mine = points_of(points, config)
            for axes, (what, words) in zip(panels, _PANELS.items(), strict=True):
                _panel(axes, mine, strategies, what)
                first = axes is panels[0] and len(known) > 1
                name = f"mean over {len(known) - 1} configurations" if config == pooled else config
                axes.set_title((f"{label_lines(name, 60, 2)}\n" if first else "") + words, loc="left")
        handles, names = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper right", ncols=len(names))
        return to_svg(figure, "Error, interval width and coverage against the cost of labels, per strategy")


def in_order(strategies: Any) -> list[str]:
    """Each name once: ours in the order of `allocate.STRATEGIES`, so that a colour means the same in every figure."""
    names = dict.fromkeys(strategies)
    return [*(name for name in STRATEGIES if name in names), *(name for name in names if name not in STRATEGIES)]


def look_of(strategy: str, strategies: Sequence[str]) -> dict[str, Any]:
    """A strategy's colour and marker; those of ours are always the same."""
    others = [name for name in strategies if name not in STRATEGIES]
    ours = list(STRATEGIES)
    index = ours.index(strategy) if strategy in ours else len(ours) + others.index(strategy)
    return {"color": _COLOURS[index % len(_COLOURS)], "marker": _MARKS[index % len(_MARKS)]}


def _no_estimates() -> str:
    words = "No replicate of the allocation study gave an estimate of P(G=1)."
    with drawing("allocation"):
        figure = new_figure(0.8)
        figure.text(0.5, 0.5, words, ha="center", va="center")
        return to_svg(figure, words)


def _panel(axes: Any, points: Sequence[StudyPoint], strategies: list[str], what: str) -> None:
    costs = sorted({point.budget for point in points})
    roots = np.sqrt(costs)
    gap = float(min(np.diff(roots), default=1.0))
    for index, strategy in enumerate(strategies):
        known = [point for point in points if point.strategy == strategy and getattr(point, what) is not None]
        mine = sorted(known, key=lambda point: point.budget)
        # A small shift per strategy keeps bars at the same cost apart.
        shift = (index - (len(strategies) - 1) / 2) * min(0.07, 0.4 / len(strategies)) * gap
        spent = np.array([point.budget if point.cost is None else point.cost for point in mine])
        axes.errorbar(
            np.maximum(np.sqrt(spent) + shift, 0.0) ** 2, [getattr(point, what) for point in mine],
            yerr=[getattr(point, f"{what}_se") or 0.0 for point in mine], label=strategy, capsize=2, lw=1.4, ms=5,
            elinewidth=1.0, **look_of(strategy, strategies),
        )  # fmt: skip
    # Widths fall with the root of the labels: on a root's scale the many small budgets have room, and 0 is there.
    axes.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0.0)), np.square))
    axes.set_xlim(max(float(roots[0]) - 0.6 * gap, 0.0) ** 2, (float(roots[-1]) + 0.6 * gap) ** 2)
    ticks = _apart(costs, roots)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("cost of the labels bought")
    axes.grid(axis="y")
    if what == "covered":
        lowest = min([point.covered for point in points if point.covered is not None], default=1.0)
        bottom = min(0.8, np.floor(10 * lowest) / 10)
        levels = np.arange(bottom, 1.001, 0.05 if bottom > 0.7 else 0.1)
        axes.set_ylim(bottom, 1.005)
        axes.set_yticks(levels, [number(float(level)) for level in levels])
        axes.axhline(_MEANT, color=GREY, lw=1.2, linestyle=(0, (3, 2)), zorder=1)
    else:
        axes.set_ylim(bottom=0)


def _apart(costs: Sequence[float], roots: np.ndarray) -> list[float]:
    """The costs whose labels have room beside each other, from the largest down."""
    least = 0.09 * float(roots[-1] - roots[0])
    kept: list[int] = []
    for index in range(len(costs) - 1, -1, -1):
        if not kept or roots[kept[-1]] - roots[index] >= least:
            kept.append(index)
    return [costs[index] for index in reversed(kept)]


def information_figure(prediction: pa.Table, measure: str = "rmse") -> str | None:
    """A row per configuration: bits of G per cost, the expected error and the study's, the last two over joint's.

    prediction: schema `allocate.information.PREDICTION`; rows over all configurations are left out. None where no
    configuration has both a formula and a study.
    """
    rows = [row for row in prediction.to_pylist() if row["bits_per_cost"] is not None and row[f"{measure}_ratio"]]
    configs = list(dict.fromkeys(row["config"] for row in rows))
    if not configs:
        return None
    strategies = in_order(row["strategy"] for row in rows)
    labels = [label_lines(config, 26) for config in configs]
    against, words = rows[0]["against"], {"rmse": "RMSE", "width": "width"}[measure]
    rows = _with_expected(rows, against)
    with drawing("information"):
        figure = new_figure(1.3 + max(1.0, 1.6 * rows_height(labels)))
        columns = figure.subplots(1, 3)
        panels = {
            "bits_per_cost": "formula: bits of G per cost",
            "expected_ratio": f"formula: error over {against}'s",
            f"{measure}_ratio": f"study: {words} over {against}'s",
        }
        for axes, (column, title) in zip(columns, panels.items(), strict=True):
            name_rows(axes, labels)
            _rows(axes, rows, configs, strategies, column)
            axes.set_title(title, loc="left")
            axes.set_xlabel("more is better" if axes is columns[0] else "less is better")
            axes.spines["left"].set_visible(False)
            axes.grid(axis="x")
            if axes is not columns[0]:
                axes.tick_params(axis="y", labelleft=False)
                axes.axvline(1.0, color=GREY, lw=1.2, linestyle=(0, (3, 2)), zorder=1)
        columns[0].set_xlim(left=0)
        handles, names = columns[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper right", ncols=len(names))
        return to_svg(figure, "What formulas say a label is worth beside what the study found, per configuration")


def _with_expected(rows: list[dict[str, Any]], against: str) -> list[dict[str, Any]]:
    """The rows with the expected error over that of `against`, where both are known."""
    known = {row["config"]: row["expected_sd"] for row in rows if row["strategy"] == against}
    ratios = [
        row["expected_sd"] / known[row["config"]] if row["expected_sd"] and known.get(row["config"]) else None
        for row in rows
    ]
    return [row | {"expected_ratio": ratio} for row, ratio in zip(rows, ratios, strict=True)]


def _rows(axes: Any, rows: list[dict[str, Any]], configs: list[str], strategies: list[str], column: str) -> None:
    step = 0.7 / max(len(strategies), 1)
    for index, strategy in enumerate(strategies):
        mine = [row for row in rows if row["strategy"] == strategy and row[column] is not None]
        places = [configs.index(row["config"]) + (index - (len(strategies) - 1) / 2) * step for row in mine]
        # What has no interval stands as a marker alone.
        ends = [
            [max(row[column] - _or(row.get(f"{column}_low"), row[column]), 0.0) for row in mine],
            [max(_or(row.get(f"{column}_high"), row[column]) - row[column], 0.0) for row in mine],
        ]
        axes.errorbar(
            [row[column] for row in mine], places, xerr=ends, label=strategy, ls="none", lw=1.4, ms=5,
            **look_of(strategy, strategies),
        )  # fmt: skip


def _or(value: float | None, instead: float) -> float:
    return instead if value is None else value
