"""The sections of the report that say how far its findings can be relied on."""

from __future__ import annotations

from collections.abc import Sequence

from rat_ray.report.content import ReportInput
from rat_ray.report.estimates import (
    MISSING,
    Configuration,
    count_cell,
    interval,
    mean_cell,
    number,
    range_cell,
)
from rat_ray.report.html import Column, Row, bullets, details, paragraph, section, table, text
from rat_ray.report.names import judge_of, name_of
from rat_ray.report.table import FOOTNOTES, mark

_VERDICTS = ("ok", "unparsed", "not_asked", "error")


def warnings(configurations: Sequence[Configuration]) -> str:
    """A box that names the fits whose status is not ok; nothing if all are."""
    lines = [
        f"{one.config}: {one.fit.status}" + (f" ({'; '.join(one.fit.reasons)})" if one.fit.reasons else "")
        for one in configurations
        if one.fit.status != "ok"
    ]
    if not lines:
        return ""
    head = text(f"{len(lines)} of {len(configurations)} fits need a look before their numbers are used:")
    return f'<div class="warning" role="note">{head}{bullets(lines)}</div>'


def judges(report: ReportInput, configurations: Sequence[Configuration]) -> str:
    """Every judge's error rates, and how many verdicts were read, unreadable or never asked for."""
    estimates = {one.config: one.estimates for one in configurations}
    counts = {(config, judge): mine for config, judge, mine in report.verdict_counts}
    pairs = [
        (one.config, judge)
        for one in configurations
        for judge in dict.fromkeys(judge_of(quantity) for quantity in one.estimates)
        if judge is not None
    ]
    pairs = list(dict.fromkeys([*pairs, *counts]))
    others = sorted({status for mine in counts.values() for status in mine} - set(_VERDICTS))
    statuses = [*_VERDICTS, *others] if counts else []
    columns = [
        Column("configuration", "name"),
        Column("judge", "word"),
        Column("TPR", "interval"),
        Column("FPR", "interval"),
        *(Column({"ok": "verdicts"}.get(status, status.replace("_", " "))) for status in statuses),
    ]
    rows = []
    used: set[str] = set()
    for config, judge in pairs:
        tpr, fpr = (estimates.get(config, {}).get(f"{rate}[{judge}]") for rate in ("tpr", "fpr"))
        mine = counts.get((config, judge))
        tally = [MISSING if mine is None else count_cell(mine.get(status, 0)) for status in statuses]
        rates = [interval(tpr) + mark(tpr), interval(fpr) + mark(fpr)]
        used |= {mark(tpr), mark(fpr)}
        rows.append(Row([config, judge, *rates, *tally], flag=mine is not None and mine.get("error", 0) > 0))
    if not rows:
        return ""
    return section(
        "Judges",
        paragraph(
            "TPR: how often the judge says 1 where the truth is 1; FPR: how often it says 1 where the truth is 0. "
            "A verdict that could not be read (unparsed) or was never asked for counts as missing, not as a no."
        ),
        table(columns, rows),
        *(paragraph(f"{sign} {note}.", "small") for sign, note in FOOTNOTES.items() if sign in used),
    )


def diagnostics(configurations: Sequence[Configuration]) -> str:
    """What the sampler said of itself, a row per fit."""
    reasons = any(one.fit.reasons for one in configurations)
    columns = [
        Column("configuration", "name"),
        Column("fit", "word"),
        Column("worst r_hat", hint="close to 1 when the chains agree"),
        Column("lowest ess_bulk", hint="effective number of draws"),
        Column("divergences", hint="should be 0"),
        Column("items"),
        Column("seconds"),
        *([Column("reason", "prose")] if reasons else []),
    ]
    rows = [
        Row(
            [
                one.config,
                one.fit.status,
                MISSING if one.fit.r_hat is None else f"{one.fit.r_hat:.3f}",
                MISSING if one.fit.ess_bulk is None else f"{one.fit.ess_bulk:,.0f}",
                count_cell(one.fit.divergences),
                count_cell(one.fit.items),
                MISSING if one.fit.seconds is None else f"{one.fit.seconds:.1f}",
                *(["; ".join(one.fit.reasons)] if reasons else []),
            ],
            flag=one.fit.status != "ok",
        )
        for one in configurations
    ]
    return section(
        "Did the fits work?",
        paragraph("Healthy: r_hat below 1.01, ess_bulk of some hundreds or more, no divergences."),
        table(columns, rows),
    )


def background(report: ReportInput, configurations: Sequence[Configuration]) -> str:
    """All quantities and the provenance, folded away."""
    columns = [
        Column("configuration", "name"),
        Column("quantity", "word"),
        Column("mean"),
        Column("sd"),
        Column("95 % interval"),
        Column("prior sd"),
        Column("what the labels settle", "prose"),
        Column("prior against data", "prose", "power-scaling sensitivity"),
    ]
    rows = [
        Row(
            [
                one.config if position == 0 else "",
                quantity if name_of(quantity).symbol == quantity else f"{name_of(quantity).symbol} ({quantity})",
                mean_cell(estimate) + mark(estimate),
                number(estimate.sd, 3),
                range_cell(estimate),
                number(estimate.prior_sd, 3),
                estimate.identified or MISSING,
                estimate.sensitivity or "",
            ],
            group=position == 0,
        )
        for one in configurations
        for position, (quantity, estimate) in enumerate(one.estimates.items())
    ]
    settings = [Row([name, value]) for name, value in report.provenance.items()]
    return section(
        "Background",
        details("Every quantity of every fit", table(columns, rows)),
        details("Settings and provenance", table([Column("what", "name"), Column("value", "prose")], settings)),
    )
