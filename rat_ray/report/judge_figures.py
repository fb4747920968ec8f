"""The figure of a judge study: width and coverage against trusted labels, a line per number of judge labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from rat_ray.allocate.judge_summary import main_quantity
from rat_ray.report.estimates import number
from rat_ray.report.names import name_of
from rat_ray.report.style import GREY, INK, MARKERS, SERIES, drawing, label_lines, new_figure, to_svg


def judge_figure(summary: pa.Table, config: str = "", quantity: str = "") -> str | None:
    """Per judge two rows of panels, width above coverage, and a column per judge model.

    Labels are on a logarithmic scale: to the right of a point, the way to the line without a judge is what the judge is
    worth. Bars are one Monte Carlo standard error to either side. None where there is nothing to draw.
    summary: schema `allocate.judge_summary.JUDGE_SUMMARY`; config: empty for the first.
    """
    rows = summary.to_pylist()
    rows = [row for row in rows if row["config"] == (config or rows[0]["config"]) and row["width"] is not None]
    if not rows:
        return None
    shown = quantity or main_quantity(list(dict.fromkeys(row["quantity"] for row in rows)))
    rows = [row for row in rows if row["quantity"] == shown]
    judges = list(dict.fromkeys(row["judge"] for row in rows))
    models = list(dict.fromkeys(row["judge_model"] for row in rows))
    if not judges:
        return None
    symbol = name_of(shown).symbol
    with drawing("judges"):
        figure = new_figure(0.4 + 5.0 * len(judges))
        grid = figure.subplots(
            2 * len(judges), len(models), squeeze=False, sharex=True, height_ratios=[1.6, 1] * len(judges)
        )
        for place, judge in enumerate(judges):
            for column, model in enumerate(models):
                mine = [row for row in rows if (row["judge"], row["judge_model"]) == (judge, model)]
                upper, lower = grid[2 * place][column], grid[2 * place + 1][column]
                _lines(upper, mine, "width")
                _lines(lower, mine, "coverage")
                what = f"{model}: width of the 95 % interval of {symbol}"
                upper.set_title(f"{label_lines(judge, 60, 2)}\n{what}", loc="left")
                lower.set_title("share of intervals that hold the full table's value", loc="left")
                upper.set_ylim(bottom=0)
                lower.set_ylim(-0.03, 1.03)
                lower.axhline(0.95, color=GREY, lw=1, linestyle=(0, (4, 3)))
                upper.legend(title="labels of the judge", fontsize=9, title_fontsize=9)
        _scale(grid, rows)
        return to_svg(figure, f"Width and coverage for {symbol} against trusted labels, with and without a judge")


def _lines(axes: Any, rows: Sequence[dict[str, Any]], what: str) -> None:
    numbers = sorted({row["judge_labels"] for row in rows})
    for index, labels in enumerate(numbers):
        mine = [row for row in rows if row["judge_labels"] == labels and row[what] is not None]
        mine.sort(key=lambda row: row["trusted_labels"])
        style = {"color": INK, "lw": 1.2, "ms": 3.5, "marker": "."}
        if labels:
            style = {"color": SERIES[(index - 1) % len(SERIES)], "lw": 1.6, "ms": 5.5,
                     "marker": MARKERS[(index - 1) % len(MARKERS)]}  # fmt: skip
        axes.errorbar(
            [_place(row["trusted_labels"]) for row in mine],
            [row[what] for row in mine],
            yerr=[row[f"{what}_se"] or 0.0 for row in mine],
            label=f"{labels:,}" if labels else "none",
            capsize=2,
            **style,
        )
    axes.grid(axis="y")


def _place(labels: int) -> float:
    return max(labels, 0.5)  # none at all has a place on a logarithmic scale too


def _scale(grid: Any, rows: Sequence[dict[str, Any]]) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    numbers = {row["trusted_labels"] for row in rows}
    round_ones = [digit * 10**power for power in range(8) for digit in (1, 2, 5)]
    ticks = [tick for tick in round_ones if min(numbers) <= tick <= max(numbers)] or sorted(numbers)
    if 0 in numbers:
        ticks = [0, *ticks]
    for axes in grid.flat:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator([_place(tick) for tick in ticks]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticklabels([f"{tick:,}" for tick in ticks])
        axes.tick_params(labelbottom=True)
    for axes in grid[1::2].flat:
        axes.set_xlabel("trusted labels (items)")
        axes.set_yticks([0, 0.25, 0.5, 0.75, 0.95], [number(tick, 2) for tick in (0, 0.25, 0.5, 0.75, 0.95)])
