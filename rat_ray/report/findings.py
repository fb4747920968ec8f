"""The sections of the report that say what was found."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rat_ray.report import allocation_figures, figures
from rat_ray.report.content import ReportInput
from rat_ray.report.estimates import (
    MISSING,
    Configuration,
    Estimate,
    count_cell,
    interval,
    mean_cell,
    number,
    range_cell,
)
from rat_ray.report.html import Column, Row, bullets, details, figure, paragraph, section, table, terms
from rat_ray.report.names import HEADLINE, QUANTITIES, STATES, name_of
from rat_ray.report.study import Best, StudyPoint, best_strategies, pooled_config, study_points
from rat_ray.report.table import FOOTNOTES, TITLE, mark, marks_used, result_table

# More rows than this are folded away, so that the sections after them are found.
_MANY_ROWS = 40
_EDGES = (0.0, 1.0)


def results(report: ReportInput, configurations: Sequence[Configuration]) -> str:
    """The headline table, what its signs mean, and the interval plot."""
    rows = result_table(report.summary)
    columns = [
        Column("configuration", "name"),
        *(Column(name_of(name).symbol, "interval", name_of(name).description) for name in HEADLINE),
        Column("items"),
        Column("fit", "word"),
    ]
    cells = [
        Row(
            [
                row.config,
                *(interval(estimate) + mark(estimate) for estimate in row.estimates),
                count_cell(row.items),
                row.status,
            ],
            flag=row.status != "ok",
        )
        for row in rows
    ]
    beside = " A diamond is the value in the full table, with no label hidden." if report.full_values else ""
    grey = " Grey, dashed: the labels do not settle this quantity." if marks_used(rows) else ""
    return section(
        "Results",
        paragraph(f"{TITLE}. Each is a probability between 0 and 1.", "small"),
        table(columns, cells),
        *(paragraph(f"{sign} {FOOTNOTES[sign]}.", "small") for sign in marks_used(rows)),
        _bounds(configurations),
        terms([(name_of(name).symbol, name_of(name).description) for name in HEADLINE]),
        figure(
            figures.interval_figure(configurations, report.full_values),
            "How to read it: in each row the dot is the best estimate and the line its 95 % interval, so the shorter "
            f"the line, the more the labels tell.{beside}{grey}",
        ),
    )


def _bounds(configurations: Sequence[Configuration]) -> str:
    lines = [
        f"{one.config}: {name_of(quantity).symbol} lies between {number(estimate.low)} and {number(estimate.high)}"
        for one in configurations
        for quantity, estimate in one.estimates.items()
        if quantity in QUANTITIES
        and estimate.identified == "bounded"
        and estimate.low is not None
        and estimate.high is not None
    ]
    return details("Bounds that the labels set", bullets(lines)) if lines else ""


def against_full(report: ReportInput, configurations: Sequence[Configuration]) -> str:
    """A row per configuration and quantity: the estimate and the value that it stands for."""
    if not report.full_values:
        return ""
    rows: list[Row] = []
    verdicts: list[bool] = []
    for one in configurations:
        full = report.full_values.get(one.config, {})
        shown = [name for name in dict.fromkeys([*HEADLINE, *full]) if name in one.estimates or name in full]
        for position, name in enumerate(shown):
            estimate, value = one.estimates.get(name), full.get(name)
            inside = _inside(estimate, value)
            verdicts += [] if inside is None else [inside]
            rows.append(
                Row(
                    [
                        one.config if position == 0 else "",
                        name_of(name).symbol,
                        mean_cell(estimate) + mark(estimate),
                        range_cell(estimate),
                        number(value, 3),
                        "at the edge" if value in _EDGES else {True: "yes", False: "no", None: MISSING}[inside],
                    ],
                    flag=inside is False,
                    group=position == 0,
                )
            )
    columns = [
        Column("configuration", "name"),
        Column("quantity", "word"),
        Column("estimate"),
        Column("95 % interval"),
        Column("full-table value"),
        Column("inside?", "word"),
    ]
    whole = table(columns, rows)
    found = f"{sum(verdicts)} of {len(verdicts)} full-table values lie inside their interval. " if verdicts else ""
    return section(
        "Each estimate beside the full-table value",
        paragraph(
            f"The fit saw only part of the labels; the full table has them all. {found}"
            "No more than about one in twenty is expected to fall outside, and those of one configuration come "
            "together, since they share its items. A share of exactly 0 or 1 in so few items is at the edge: no "
            "interval for a probability reaches that far, so it is not counted."
        ),
        details(f"All {len(rows)} rows", whole) if len(rows) > _MANY_ROWS else whole,
    )


def _inside(estimate: Estimate | None, value: float | None) -> bool | None:
    if estimate is None or value is None or estimate.q_low is None or estimate.q_high is None or value in _EDGES:
        return None
    return estimate.q_low <= value <= estimate.q_high


def _complete(report: ReportInput) -> bool:
    return any(sum(counts) for counts in report.states.values())


def six_states(report: ReportInput) -> str:
    """The six states' counts, as a table and as bars; nothing where no item has all its labels."""
    if not _complete(report):
        return ""
    columns = [
        Column("configuration", "name"),
        *(Column(state.label, hint=state.description) for state in STATES),
        Column("all"),
    ]
    rows = [
        Row([config, *(count_cell(count) for count in counts), count_cell(sum(counts))])
        for config, counts in report.states.items()
    ]
    return section(
        "The six states",
        paragraph("Items whose labels are complete, by what retrieval, abstention and the answer came to."),
        table(columns, rows),
        figure(
            figures.states_figure(report.states),
            "How to read it: the plain blue part of each bar is what the system should do, so the longer it is the "
            "better, and the hatched parts are its four ways to go wrong.",
        ),
    )


def observed_patterns(report: ReportInput) -> str:
    """The pattern grid stands in for the six states where no complete counts are given."""
    if _complete(report):
        return ""
    return section(
        "Which labels were there",
        figure(
            figures.patterns_figure(report.patterns),
            "How to read it: each cell counts the items with this combination of labels, a question mark is a missing "
            "label, a dash means that an abstention has no T, and the darker the cell the larger its share of the row.",
        ),
    )


def third_figure(report: ReportInput, configurations: Sequence[Configuration]) -> str:
    """The allocation study, else the density of P(G=1), else the judges: what the data allow."""
    if report.allocation is not None and report.allocation.num_rows:
        return _allocation(report.allocation)
    density = figures.density_figure(report.draws, prior=report.prior_p_g)
    if density is not None:
        before = " The dashed line is what was assumed before any label was seen." if report.prior_p_g else ""
        caption = (
            "How to read it: where the curve is high, P(G=1) is likely to lie, and a narrow curve means that the "
            f"labels settle it well.{before}"
        )
        return section("How sure we are of P(G=1)", figure(density, caption))
    return section(
        "How good the judges are",
        figure(
            figures.judge_figure(configurations),
            "How to read it: a useful judge has its left dot near 1 and its right dot near 0; where the two are alike, "
            "its verdicts say nothing.",
        ),
    )


def _allocation(allocation: pa.Table) -> str:
    """The study of one configuration, or over all of them with the best strategy of each."""
    pooled = pooled_config(allocation)
    points = study_points(allocation)
    shown = [pooled] if pooled is not None else None
    several = "" if pooled is None else "Each point is a mean over the configurations. "
    return section(
        "Which labels to buy",
        figure(
            allocation_figures.allocation_figure(allocation, shown),
            "How to read it: the lower a line, the closer (left) and the surer (middle) the estimate for the same "
            f"money; right, the dashed line is what the intervals promise. {several}Bars are one Monte Carlo standard "
            "error each way, so lines whose bars overlap may not differ.",
        ),
        _best_per_configuration(allocation, pooled),
        paragraph(_what_is_compared(allocation), "small"),
        details("The numbers behind it (± one Monte Carlo standard error)", table(_STUDY_COLUMNS, _study_rows(points))),
    )


def _what_is_compared(allocation: pa.Table) -> str:
    """What the intervals are held against, in words."""
    kinds = set(allocation.column("target").to_pylist()), set(allocation.column("resampling").to_pylist())
    if kinds[0] == {"truth"}:
        return "The target is the truth that the tables were drawn from, and the interval that on new questions."
    if kinds[1] == {"bootstrap"}:
        return (
            "The target is the value in the full table, from which the items of each replicate were drawn with "
            "replacement; the interval is that on new questions."
        )
    return (
        "The target is the value in the full table, and the interval, where the quantity has one, that among exactly "
        "its items: the labels that a fit saw are known, so it closes as the budget buys the whole table."
    )


_STUDY_COLUMNS = (
    Column("configuration", "name"),
    Column("strategy", "word"),
    Column("budget"),
    Column("spent"),
    Column("RMSE of P(G=1)"),
    Column("mean interval width"),
    Column("interval held the target"),
    Column("replicates"),
)


def _study_rows(points: Sequence[StudyPoint]) -> list[Row]:
    return [
        Row(
            [
                point.config if first else "",
                point.strategy,
                f"{point.budget:g}",
                MISSING if point.cost is None else f"{point.cost:.1f}",
                _with_error(point.rmse, point.rmse_se),
                _with_error(point.width, point.width_se),
                MISSING if point.covered is None else f"{100 * point.covered:.0f} %",
                f"{point.replicates}" + (f" ({point.failed} failed)" if point.failed else ""),
            ],
            flag=point.failed > 0,
            group=first,
        )
        for index, point in enumerate(points)
        for first in [index == 0 or points[index - 1].config != point.config]
    ]


def _best_per_configuration(allocation: pa.Table, pooled: str | None) -> str:
    """A row per configuration: the strategy with the least error at the largest budget, beside joint's."""
    found = [one for one in best_strategies(allocation) if one.config != pooled]
    if pooled is None or not found:
        return ""
    against = next((one.against.strategy for one in found if one.against is not None), "")
    columns = [
        Column("configuration", "name"),
        Column("budget"),
        Column("least RMSE", "word"),
        Column("RMSE of P(G=1)"),
        *([Column(f"{against}'s RMSE"), Column("beyond Monte Carlo error?", "word")] if against else []),
    ]
    rows = [
        Row(
            [
                one.config,
                f"{one.budget:g}",
                one.best.strategy,
                _with_error(one.best.rmse, one.best.rmse_se),
                *([number(None if one.against is None else one.against.rmse, 3), _beyond(one)] if against else []),
            ]
        )
        for one in found
    ]
    return paragraph("The best strategy of each configuration, at the largest budget:") + "\n" + table(columns, rows)


def _beyond(one: Best) -> str:
    if one.difference is None:
        return MISSING
    return "yes" if one.beyond_error else "no"


def _with_error(value: float | None, error: float | None) -> str:
    return number(value, 3) + ("" if error is None else f" ± {number(error, 3)}")
