"""One call from a table of labels to a posterior: `fit(table)`. No Ray, no files, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rat_ray.errors import InputError
from rat_ray.model.checks import check_counts_table
from rat_ray.model.coverage import coverage_warnings
from rat_ray.model.design import Options
from rat_ray.model.diagnostics import DiagnosticsSettings, Status
from rat_ray.model.engines import IMPORTANCE, NUTS, EngineSettings
from rat_ray.model.identify import IDENTIFIED, Identification, identify_together
from rat_ray.model.notes import notes_on
from rat_ray.model.patterns import check_counts, default_judges, judges_of, patterns
from rat_ray.model.policy import Policy
from rat_ray.model.posterior import Sampled, item_count, sample_together
from rat_ray.model.priors import Prior
from rat_ray.model.summary import cell, status_of, summarise
from rat_ray.model.verdicts import PANEL, check_judge_model


@dataclass(frozen=True)
class Fit:
    """A fitted configuration.

    draws: `tables.posterior_schema`; summary: `tables.SUMMARY`; patterns: the count table; checks: `tables.CHECKS`,
    observed against replicated counts; items: how many informed the fit; seconds: of the sampling alone; notes: what a
    reader must know, in words.
    """

    config: str
    draws: pa.Table
    summary: pa.Table
    patterns: pa.Table
    checks: pa.Table
    identification: Identification
    status: Status
    items: int
    seconds: float
    notes: tuple[str, ...] = ()

    def value(self, quantity: str, column: str = "mean") -> float | str | None:
        """One cell of the summary, such as `fit.value("p_g", "q2.5")`. Raises KeyError for an unknown quantity."""
        return cell(self.summary, quantity, column)

    def to_arviz(self) -> Any:
        """The draws for ArviZ (an InferenceData, in ArviZ 1 an `xarray.DataTree`): posterior, sample_stats, log_prior,
        log_likelihood. Raises MissingExtraError without the extra `arviz`.
        """
        from rat_ray.model.arviz_data import to_arviz

        return to_arviz(self.draws)


def fit(
    table: pa.Table,
    judges: Sequence[str] | None = None,
    prior: Prior | None = None,
    engine: EngineSettings | None = None,
    seed: int = 1,
    config: str = "all",
    diagnostics: DiagnosticsSettings | None = None,
    judge_model: str = PANEL,
    policy: Policy | None = None,
) -> Fit:
    """Fit the RAT model to one configuration.

    table: labels with columns r, a, t (0, 1 or null) and any `r@NAME`, `a@NAME`, `t@NAME`, or a count table from
    `patterns`; also `stratum` or `inclusion`, `use` ("calibration" rows) and `error`. judges: the sources to use as
    judges; by default all that are not trusted. judge_model: "panel" or "independent". The same table, seed and config
    give the same draws in any process, whatever the order of the rows.

    Raises InputError for labels, priors or settings that make no sense, or when no item informs the fit.
    """
    return fit_together({config: table}, judges, prior, engine, seed, diagnostics, judge_model, policy)[config]


def fit_together(
    tables: Mapping[str, pa.Table],
    judges: Sequence[str] | None = None,
    prior: Prior | None = None,
    engine: EngineSettings | None = None,
    seed: int = 1,
    diagnostics: DiagnosticsSettings | None = None,
    judge_model: str = PANEL,
    policy: Policy | None = None,
) -> dict[str, Fit]:
    """Fit several configurations at once that share their judges' rates, by name: a judge calibrated on one helps all.

    All need the same judges. For the arguments and errors see `fit`.
    """
    if not tables:
        raise InputError("no tables to fit")
    prior, engine, diagnostics = prior or Prior(), engine or EngineSettings(), diagnostics or DiagnosticsSettings()
    options = Options(judge_model=judge_model, policy=policy or Policy())
    prior.validate()
    diagnostics.validate()
    options.policy.validate()
    counts = {name: _counts(table, judges) for name, table in tables.items()}
    check_judge_model(judge_model, judges_of(next(iter(counts.values()))))
    items = {name: item_count(one, name) for name, one in counts.items()}
    known = identify_together(counts, options)
    judged = judged_quantities(known)
    sampled = sample_together(counts, prior, engine, seed, options, judged, diagnostics)
    fits = {}
    for name, one in counts.items():
        made = sampled[name]
        summary = summarise(
            made.draws,
            one,
            prior,
            diagnostics,
            name,
            made.seconds,
            known[name],
            options,
            engine.max_treedepth,
            made.failure,
            made.sampler,
            made.pareto_k,
        )
        fits[name] = Fit(
            config=name,
            draws=made.draws,
            summary=summary,
            patterns=one,
            checks=check_counts_table(made.draws, one, name),
            identification=known[name],
            status=status_of(summary),
            items=items[name],
            seconds=made.seconds,
            notes=_notes(tables[name], one, known[name], made, engine),
        )
    return fits


def judged_quantities(known: Mapping[str, Identification]) -> list[str]:
    """The quantities on which a fit's status rests: those that are identified in every configuration.

    The shares among the table's items are left out: they follow from the others.
    """
    first = next(iter(known.values())).known
    return [
        name
        for name in first
        if not name.startswith("finite[")
        and all(one.known.get(name) is not None and one.known[name].identified == IDENTIFIED for one in known.values())
    ]


def _notes(
    table: pa.Table, counts: pa.Table, known: Identification, sampled: Sampled, engine: EngineSettings
) -> tuple[str, ...]:
    taken_over = engine.kind == IMPORTANCE and sampled.sampler == NUTS
    said = notes_on(known, counts, sampled.retried, taken_over, sampled.pareto_k)
    if not {"use", "n"} <= set(table.schema.names):
        said += coverage_warnings(table, judges_of(counts))
    return tuple(said)


def _counts(table: pa.Table, judges: Sequence[str] | None) -> pa.Table:
    if not isinstance(table, pa.Table | pa.RecordBatch):
        raise InputError(f"labels are a pyarrow.Table, not a {type(table).__name__}; see pyarrow.Table.from_pandas")
    if not {"use", "n"} <= set(table.schema.names):
        return patterns(table, default_judges(table) if judges is None else judges)
    if judges is not None and list(judges) != judges_of(table):
        raise InputError(f"the count table has the judges {judges_of(table)}, not {list(judges)}: group it again")
    return check_counts(table)
