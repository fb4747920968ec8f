"""One call from a table of labels to a posterior: `fit(table)`. No Ray, no files, no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from rat_ray.errors import InputError
from rat_ray.model.diagnostics import DiagnosticsSettings, Status
from rat_ray.model.engines import EngineSettings
from rat_ray.model.identify import Identification, identify
from rat_ray.model.patterns import check_counts, default_judges, judges_of, patterns
from rat_ray.model.posterior import item_count, sample
from rat_ray.model.priors import Prior
from rat_ray.model.summary import status_of, summarise


@dataclass(frozen=True)
class Fit:
    """A fitted configuration.

    draws: `tables.posterior_schema`; summary: `tables.SUMMARY`; patterns: the count table; items: how many informed
    the fit; seconds: of the sampling alone.
    """

    config: str
    draws: pa.Table
    summary: pa.Table
    patterns: pa.Table
    identification: Identification
    status: Status
    items: int
    seconds: float

    def value(self, quantity: str, column: str = "mean") -> float | str | None:
        """One cell of the summary, such as `fit.value("p_g", "q2.5")`. Raises KeyError for an unknown quantity."""
        names = self.summary.column("quantity").to_pylist()
        if quantity not in names:
            raise KeyError(f"{quantity} is none of {', '.join(names)}")
        cell: float | str | None = self.summary.column(column)[names.index(quantity)].as_py()
        return cell


def fit(
    table: pa.Table,
    judges: Sequence[str] | None = None,
    prior: Prior | None = None,
    engine: EngineSettings | None = None,
    seed: int = 1,
    config: str = "all",
    diagnostics: DiagnosticsSettings | None = None,
) -> Fit:
    """Fit the RAT model to one configuration.

    table: labels with columns r, a, t (0, 1 or null) and any `r@NAME`, `a@NAME`, `t@NAME`, or a count table from
    `patterns`. judges: the sources to use as judges; by default all that are not trusted. The same table, seed and
    config give the same draws in any process, whatever the order of the rows.

    Raises InputError for labels, priors or settings that make no sense, or when no item informs the fit.
    """
    prior, diagnostics = prior or Prior(), diagnostics or DiagnosticsSettings()
    diagnostics.validate()
    counts = _counts(table, judges)
    items = item_count(counts, config)
    identification = identify(counts)
    sampled = sample(counts, prior, engine or EngineSettings(), seed, config)
    summary = summarise(sampled.draws, counts, prior, diagnostics, config, sampled.seconds, identification)
    return Fit(
        config=config,
        draws=sampled.draws,
        summary=summary,
        patterns=counts,
        identification=identification,
        status=status_of(summary),
        items=items,
        seconds=sampled.seconds,
    )


def _counts(table: pa.Table, judges: Sequence[str] | None) -> pa.Table:
    if not isinstance(table, pa.Table | pa.RecordBatch):
        raise InputError(f"labels are a pyarrow.Table, not a {type(table).__name__}; see pyarrow.Table.from_pandas")
    if not {"use", "n"} <= set(table.schema.names):
        return patterns(table, default_judges(table) if judges is None else judges)
    if judges is not None and list(judges) != judges_of(table):
        raise InputError(f"the count table has the judges {judges_of(table)}, not {list(judges)}: group it again")
    return check_counts(table)
