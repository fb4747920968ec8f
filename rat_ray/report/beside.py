"""The sections of the report that set the model's estimates beside others, and the data beside the model's."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from rat_ray.report.content import ReportInput
from rat_ray.report.estimates import MISSING, Configuration, Estimate, Powered, interval, number
from rat_ray.report.html import Column, Row, paragraph, section, table
from rat_ray.report.names import name_of
from rat_ray.report.table import mark

_OVERALL = "all"
_RARE = 0.01


def other_estimates(configurations: Sequence[Configuration]) -> str:
    """P(G=1), P(T=1) and any utility: for new questions, among these items, and prediction-powered."""
    names = [name for name in ("p_g", "p_t", "utility") if any(name in one.estimates for one in configurations)]
    rows = []
    for one in configurations:
        for position, name in enumerate(names):
            mine, here = one.estimates.get(name), one.estimates.get(f"finite[{name}]")
            powered = None if mine is None else mine.ppi
            rows.append(
                Row(
                    [
                        one.config if position == 0 else "",
                        name_of(name).symbol,
                        interval(mine) + mark(mine),
                        interval(here) + mark(here),
                        _powered(powered),
                        "yes" if powered and powered.disagrees else "no" if powered else MISSING,
                    ],
                    flag=bool(powered and powered.disagrees),
                    group=position == 0,
                )
            )
    columns = [
        Column("configuration", "name"),
        Column("quantity", "word"),
        Column("on new questions", "interval", "the parameter: what would happen on questions like these"),
        Column("among these items", "interval", "the share in this table; labelled items are known exactly"),
        Column("prediction-powered", "interval", "the labelled items, corrected by the judges; no model of them"),
        Column("contradiction", "word"),
    ]
    return section(
        "From other sides",
        paragraph(
            "The model speaks of new questions like these. Among exactly these items less is unknown, since labelled "
            "ones are known. The prediction-powered estimate (PPI++) uses no model of the judges; where it and the "
            "model contradict each other, look at the judges before you believe either."
        ),
        table(columns, rows),
    )


def predictive(report: ReportInput) -> str:
    """How well the fitted model reproduces the counts that were observed."""
    if report.predictive is None or not report.predictive.num_rows:
        return ""
    overall = report.predictive.filter(pc.equal(report.predictive.column("pattern"), _OVERALL)).to_pylist()
    rows = [
        Row(
            [row["config"], row["part"], number(row["observed"], 1), number(row["mean"], 1), number(row["tail"], 3)],
            flag=row["tail"] < _RARE,
        )
        for row in overall
    ]
    columns = [
        Column("configuration", "name"),
        Column("counts of", "word"),
        Column("observed", hint="distance of the observed counts from what the model expects"),
        Column("replicated", hint="mean distance of counts that the model makes itself"),
        Column("tail", hint="probability of a greater distance; near 0 the model does not reproduce the data"),
    ]
    return section(
        "Does the model reproduce the data?",
        paragraph(
            "Counts of labels and of verdicts, observed and as the fitted model makes them (posterior predictive "
            "checks). A tail near 0 says that the observed ones are rare under the model; every cell is in "
            "checks.parquet."
        ),
        table(columns, rows),
    )


def _powered(powered: Powered | None) -> str:
    return MISSING if powered is None else interval(Estimate(powered.mean, powered.low, powered.high))
