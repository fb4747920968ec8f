"""What a report is made from."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True)
class ReportInput:
    """Everything that a report can show; only title and summary are needed.

    summary: the `tables.SUMMARY` schema. draws: posterior draws per configuration.
    states: six counts per configuration, in the order of `names.STATES`.
    full_values: per configuration and quantity the value in the table with no label hidden; None where it has none.
    allocation: the `tables.ALLOCATION` schema.
    verdict_counts: (configuration, judge such as `t@local`, status -> count).
    notes: what was left out, a sentence each. provenance: seed, versions, the key of each table.
    patterns: the `tables.patterns_schema` per configuration. prior_p_g: draws of P(G=1) from the prior.
    predictive: the `tables.CHECKS` schema. retrieval: `tables.RETRIEVAL`, over all configurations.
    """

    title: str
    summary: pa.Table
    draws: dict[str, pa.Table] = field(default_factory=dict)
    states: dict[str, list[int]] = field(default_factory=dict)
    full_values: dict[str, dict[str, float | None]] = field(default_factory=dict)
    allocation: pa.Table | None = None
    verdict_counts: list[tuple[str, str, dict[str, int]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    provenance: dict[str, str] = field(default_factory=dict)
    patterns: dict[str, pa.Table] = field(default_factory=dict)
    prior_p_g: tuple[float, ...] = ()
    predictive: pa.Table | None = None
    retrieval: pa.Table | None = None
