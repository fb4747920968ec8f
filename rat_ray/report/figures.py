"""The figures of the report, each a self-contained SVG string, or None where there is nothing to draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.report.estimates import Configuration, Estimate, number
from rat_ray.report.names import HEADLINE, STATES, judge_of, name_of
from rat_ray.report.style import (
    BAND,
    BLUE,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    drawing,
    label_lines,
    name_rows,
    new_figure,
    rows_height,
    to_svg,
)

FullValues = Mapping[str, Mapping[str, float | None]]

# A fill and a hatch per state, in the order of names.STATES: plain blues keep the policy, hatched warm colours do not.
_FILLS = (BLUE, VERMILLION, PURPLE, "#F5D08A", ORANGE, SKY)
_HATCHES = ("", "////", "....", "\\\\\\\\", "xxx", "")
# Drawn so that the states with G = 1 come first: the length of the blue part is how often the system did right.
_BAR_ORDER = (0, 5, 3, 4, 1, 2)


class Panel(NamedTuple):
    """One column of an interval plot: an estimate per row, and beside it the full table's value where known."""

    title: str
    estimates: list[Estimate | None]
    full: list[float | None]


def interval_figure(configurations: Sequence[Configuration], full_values: FullValues) -> str | None:
    """The headline quantities, a panel each and a row per configuration, with the full-table values as diamonds."""
    shown = [name for name in HEADLINE if any(name in one.estimates for one in configurations)]
    if not shown:
        return None
    panels = [
        Panel(
            name_of(name).symbol,
            [one.estimates.get(name) for one in configurations],
            [full_values.get(one.config, {}).get(name) for one in configurations],
        )
        for name in shown
    ]
    rows = [one.config for one in configurations]
    return _interval_rows("intervals", rows, panels, "Posterior mean and 95 % interval of each probability")


def judge_figure(configurations: Sequence[Configuration]) -> str | None:
    """True and false positive rates of every judge, a row per configuration and judge."""
    pairs = [
        (one, judge)
        for one in configurations
        for judge in dict.fromkeys(judge_of(quantity) for quantity in one.estimates)
        if judge is not None
    ]
    if not pairs:
        return None
    panels = [
        Panel(title, [one.estimates.get(f"{rate}[{judge}]") for one, judge in pairs], [None] * len(pairs))
        for rate, title in (("tpr", "says 1 where the truth is 1 (TPR)"), ("fpr", "says 1 where the truth is 0 (FPR)"))
    ]
    rows = [f"{one.config} {judge}" for one, judge in pairs]
    return _interval_rows("judges", rows, panels, "True and false positive rate of each judge")


def _interval_rows(salt: str, rows: list[str], panels: list[Panel], label: str) -> str:
    labels = [label_lines(row) for row in rows]
    with drawing(salt):
        figure = new_figure(1.1 + rows_height(labels))
        columns = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        name_rows(columns[0], labels)
        for axes, panel in zip(columns, panels, strict=True):
            if axes is not columns[0]:
                _shade_like_first(axes, labels)
            _interval_panel(axes, panel)
        _interval_legend(figure, panels)
        return to_svg(figure, label)


def _shade_like_first(axes: Any, labels: list[str]) -> None:
    name_rows(axes, labels)
    axes.tick_params(axis="y", labelleft=False)


def _interval_panel(axes: Any, panel: Panel) -> None:
    for row, (estimate, full) in enumerate(zip(panel.estimates, panel.full, strict=True)):
        if estimate is not None and estimate.mean is not None:
            finding = estimate.is_finding
            colour = BLUE if finding else GREY
            if estimate.low is not None and estimate.high is not None and not finding:
                axes.plot([estimate.low, estimate.high], [row, row], color=BAND, lw=9, solid_capstyle="butt", zorder=1)
            style = "-" if finding else (0, (2, 1.5))
            axes.plot([estimate.q_low, estimate.q_high], [row, row], color=colour, lw=2.2, linestyle=style)
            axes.plot(estimate.mean, row, "o", color=colour, ms=6, mfc=colour if finding else "white")
        if full is not None:
            axes.plot(full, row, "D", color=VERMILLION, mfc="none", mew=1.6, ms=8, zorder=4, clip_on=False)
    axes.set_title(panel.title)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "", ".5", "", "1"])
    # In a tall figure the scale stands at both ends, so that it is in sight wherever one reads.
    tall = len(panel.estimates) > 12
    axes.tick_params(axis="x", top=tall, labeltop=tall)
    axes.grid(axis="x")


def _interval_legend(figure: Any, panels: list[Panel]) -> None:
    from matplotlib.lines import Line2D

    estimates = [estimate for panel in panels for estimate in panel.estimates if estimate is not None]
    handles = [Line2D([], [], color=BLUE, marker="o", lw=2.2, label="posterior mean, 95 % interval")]
    if any(not estimate.is_finding for estimate in estimates):
        style = (0, (2, 1.5))
        handles.append(
            Line2D([], [], color=GREY, marker="o", mfc="white", lw=2.2, linestyle=style, label="prior only or bounded")
        )
    if any(not estimate.is_finding and estimate.low is not None for estimate in estimates):
        handles.append(Line2D([], [], color=BAND, lw=9, solid_capstyle="butt", label="bounds set by the labels"))
    if any(value is not None for panel in panels for value in panel.full):
        handles.append(
            Line2D([], [], color=VERMILLION, marker="D", mfc="none", mew=1.6, ms=8, lw=0, label="full-table value")
        )
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles))


def states_figure(states: Mapping[str, Sequence[int]]) -> str | None:
    """Stacked bars of the six states' counts, a bar per configuration; shares where the numbers of items differ much.

    states: six counts per configuration, in the order of `names.STATES`.
    """
    totals = {config: sum(counts) for config, counts in states.items()}
    configs = [config for config, total in totals.items() if total > 0]
    if not configs:
        return None
    shares = max(totals[config] for config in configs) > 3 * min(totals[config] for config in configs)
    labels = [label_lines(f"{config} (n={totals[config]:,})" if shares else config) for config in configs]
    widest = 1.0 if shares else float(max(totals.values()))
    with drawing("states"):
        figure = new_figure(1.5 + rows_height(labels))
        axes = figure.subplots()
        name_rows(axes, labels)
        for row, config in enumerate(configs):
            _stack(axes, row, states[config], totals[config] if shares else 1, widest)
        axes.set_xlim(0, widest)
        axes.set_xlabel("share of the items" if shares else "items")
        _states_legend(figure)
        return to_svg(figure, "Counts of the six states per configuration")


def _stack(axes: Any, row: int, counts: Sequence[int], divisor: int, widest: float) -> None:
    left = 0.0
    for state in _BAR_ORDER:
        length = counts[state] / divisor
        axes.barh(
            row, length, left=left, height=0.72, color=_FILLS[state], hatch=_HATCHES[state], edgecolor="white", lw=0.8
        )
        # A count is written only where its part is wide enough for the digits.
        if length > widest * 0.011 * (1 + len(f"{counts[state]:,}")):
            box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
            axes.text(left + length / 2, row, f"{counts[state]:,}", ha="center", va="center", fontsize=9, bbox=box)
        left += length


def _states_legend(figure: Any) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(
            facecolor=_FILLS[state],
            hatch=_HATCHES[state],
            edgecolor="white",
            label=STATES[state].label + (" (as it should, G=1)" if STATES[state].follows else ""),
        )
        for state in _BAR_ORDER
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=3, handlelength=2.6, handleheight=1.1)


def patterns_figure(patterns: Mapping[str, pa.Table]) -> str | None:
    """How often each combination of observed and missing r, a, t occurs: a grid of counts, a row per configuration.

    patterns: tables with the columns r, a, t, n, and optionally use (then only "fit" rows count); the judges'
    columns are summed out.
    """
    counts = {config: _pattern_counts(table) for config, table in patterns.items()}
    configs = [config for config, mine in counts.items() if mine]
    if not configs:
        return None
    columns = sorted({pattern for mine in counts.values() for pattern in mine}, key=lambda one: one.replace("?", "~"))
    labels = [label_lines(config) for config in configs]
    with drawing("patterns"):
        figure = new_figure(1.3 + rows_height(labels))
        axes = figure.subplots()
        grid = np.array([[counts[config].get(pattern, 0) for pattern in columns] for config in configs], dtype=float)
        shares = grid / grid.sum(axis=1, keepdims=True)
        axes.pcolormesh(np.arange(len(columns) + 1) - 0.5, np.arange(len(configs) + 1) - 0.5, shares, cmap="Blues",
                        vmin=0, vmax=1, edgecolors="white", linewidth=2)  # fmt: skip
        for (row, column), count in np.ndenumerate(grid):
            colour = "white" if shares[row, column] > 0.5 else INK
            text = f"{int(count):,}" if count else "·"
            axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=9)
        axes.set_ylim(len(configs) - 0.5, -0.5)
        axes.set_yticks(range(len(configs)), labels)
        ticks = ["\n".join(f"{name}={sign}" for name, sign in zip("RAT", one, strict=True)) for one in columns]
        axes.set_xticks(range(len(columns)), ticks, fontsize=9)
        axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        axes.spines[:].set_visible(False)
        return to_svg(figure, "Items per pattern of observed labels")


def _pattern_counts(table: pa.Table) -> dict[str, int]:
    """Items per pattern, keyed by three signs for r, a, t, such as `10?`."""
    if "use" in table.column_names:
        table = table.filter(pc.equal(table["use"], "fit"))
    counts: dict[str, int] = {}
    for row in table.select(["r", "a", "t", "n"]).to_pylist():
        pattern = "".join(_sign(row, name) for name in "rat")
        counts[pattern] = counts.get(pattern, 0) + row["n"]
    return {pattern: count for pattern, count in counts.items() if count}


def _sign(row: Mapping[str, int | None], name: str) -> str:
    if name == "t" and row["a"] == 1:
        return "–"  # an abstention has no T: that is no missing label
    return "?" if row[name] is None else str(row[name])


def density_figure(draws: Mapping[str, pa.Table], quantity: str = "p_g", prior: Sequence[float] = ()) -> str | None:
    """The posterior density of one probability, a ridge per configuration; the prior's as a dashed line.

    draws: posterior draws per configuration; those without the quantity are left out. prior: draws from the prior.
    """
    values = {
        config: table[quantity].drop_null().to_numpy()
        for config, table in draws.items()
        if quantity in table.schema.names
    }
    configs = [config for config, mine in values.items() if len(mine) > 1]
    if not configs:
        return None
    labels = [label_lines(config) for config in configs]
    grid = np.linspace(0, 1, 401)
    with drawing("density"):
        figure = new_figure(1.2 + max(1.2, 1.5 * rows_height(labels)))
        axes = figure.subplots()
        name_rows(axes, labels)
        before = _density(np.asarray(prior, dtype=float), grid) if len(prior) > 1 else None
        for row, config in enumerate(configs):
            _ridge(axes, row, grid, _density(values[config], grid), before)
            axes.plot(float(values[config].mean()), row + 0.4, "|", color=INK, ms=8, mew=1.5)
        axes.set_xlim(0, 1)
        axes.set_xticks(np.linspace(0, 1, 11), [number(tick, 1) for tick in np.linspace(0, 1, 11)])
        axes.grid(axis="x")
        axes.set_xlabel(name_of(quantity).symbol)
        _density_legend(figure, before is not None)
        return to_svg(figure, f"Posterior density of {name_of(quantity).symbol} per configuration")


def _ridge(axes: Any, row: int, grid: Any, density: Any, before: Any) -> None:
    # Each ridge fills its own row: heights compare a posterior with its prior, not one row with another.
    scale = 0.8 / density.max()
    floor = row + 0.4
    axes.fill_between(grid, floor, floor - scale * density, color=SKY, alpha=0.7, lw=0)
    axes.plot(grid, floor - scale * density, color=BLUE, lw=1.5)
    if before is not None:
        axes.plot(grid, np.maximum(floor - scale * before, row - 0.45), color=GREY, lw=1.2, linestyle=(0, (3, 2)))


def _density_legend(figure: Any, with_prior: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(facecolor=SKY, edgecolor=BLUE, label="posterior"),
        Line2D([], [], color=INK, marker="|", ms=8, mew=1.5, lw=0, label="posterior mean"),
    ]
    if with_prior:
        handles.append(Line2D([], [], color=GREY, lw=1.2, linestyle=(0, (3, 2)), label="prior"))
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles))


def _density(values: Any, grid: Any) -> Any:
    """Gaussian kernel density on [0, 1], reflected at both ends, with Silverman's bandwidth; binned to the grid."""
    spread = max(float(values.std()), 1e-3)
    width = max(1.06 * spread * len(values) ** -0.2, grid[1])
    counts, _ = np.histogram(values, bins=len(grid), range=(0, 1))
    centres = (np.arange(len(grid)) + 0.5) / len(grid)
    images = np.stack([centres, -centres, 2 - centres])[:, None, :]
    kernel = np.exp(-0.5 * ((grid[None, :, None] - images) / width) ** 2).sum(axis=0)
    return kernel @ counts / (len(values) * width * np.sqrt(2 * np.pi))
