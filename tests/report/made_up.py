"""Small tables with the real schemas, for the report's tests. Every number is chosen so that it is found again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from rat_ray import tables
from rat_ray.report.page import ReportInput

CONFIGS = ["demo-bm25-plain", "demo-hybrid_reciprocal_rank-abstains_without_evidence"]
MEANS = {
    "rho": 0.61, "alpha[0]": 0.32, "alpha[1]": 0.23, "tau[0]": 0.44, "tau[1]": 0.75, "p_t": 0.56, "p_g": 0.47,
    "tpr[t@local]": 0.88, "fpr[t@local]": 0.29,
}  # fmt: skip


def summary_row(config: str, quantity: str, mean: float) -> dict[str, Any]:
    """A healthy, identified row; the interval is mean ± 0.1."""
    return {
        "config": config, "quantity": quantity, "mean": mean, "sd": 0.05, "mcse": 0.001, "q2.5": mean - 0.1,
        "q5": mean - 0.08, "q50": mean, "q95": mean + 0.08, "q97.5": mean + 0.1, "r_hat": 1.002, "ess_bulk": 1500.0,
        "ess_tail": 1400.0, "identified": "identified", "prior_sd": 0.289, "items": 48, "divergences": 0,
        "status": "ok", "seconds": 0.7,
    }  # fmt: skip


Changes = Mapping[str, Mapping[str, Any]]


def summary(configs: list[str] = CONFIGS, changes: Changes | None = None) -> pa.Table:
    """All of MEANS per configuration, the second one 0.01 higher, and so on; changes: by quantity, then by column."""
    rows = [
        summary_row(config, quantity, mean + 0.01 * index) | dict((changes or {}).get(quantity, {}))
        for index, config in enumerate(configs)
        for quantity, mean in MEANS.items()
    ]
    table = pa.Table.from_pylist(rows, schema=tables.SUMMARY)
    tables.check_table(table, tables.SUMMARY, "made-up summary")
    return table


def draws(configs: list[str] = CONFIGS) -> dict[str, pa.Table]:
    """Forty draws of p_g per configuration, around .45."""
    return {config: pa.table({"p_g": [0.4 + 0.1 * (7 * draw % 40) / 40 for draw in range(40)]}) for config in configs}


def allocation(errors: dict[tuple[str, int], list[float | None]], config: str = CONFIGS[0]) -> pa.Table:
    """One row per strategy, budget and error; every interval is 0.2 wide."""
    rows = [
        {
            "config": config, "strategy": strategy, "budget": budget, "replicate": replicate, "quantity": "p_g",
            "base": 20, "target": "full_table", "resampling": "none", "target_value": 0.5, "error": error,
            "cost": float(budget), "width": None if error is None else 0.2,
            "mean": None if error is None else 0.5 + error, "q2.5": None if error is None else 0.4 + error,
            "q97.5": None if error is None else 0.6 + error,
            "covered": None if error is None else int(abs(error) <= 0.1), "status": "fail" if error is None else "ok",
        }
        for (strategy, budget), mine in errors.items()
        for replicate, error in enumerate(mine)
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=tables.ALLOCATION)
    tables.check_table(table, tables.ALLOCATION, "made-up allocation")
    return table


def patterns() -> pa.Table:
    """Five patterns that inform the fit, two of them alike but for a judge, and one of failed rows."""
    rows = [
        {"r": 0, "a": 1, "t": None, "t@local": None, "use": "fit", "n": 11},
        {"r": 1, "a": 0, "t": 1, "t@local": 1, "use": "fit", "n": 200},
        {"r": 1, "a": 0, "t": 1, "t@local": 0, "use": "fit", "n": 34},
        {"r": None, "a": 0, "t": None, "t@local": 1, "use": "fit", "n": 1717},
        {"r": None, "a": None, "t": None, "t@local": None, "use": "failed", "n": 999},
    ]
    return pa.Table.from_pylist(rows, schema=tables.patterns_schema(["t@local"]))


def full_report() -> ReportInput:
    """A report with every part filled."""
    errors: dict[tuple[str, int], list[float | None]] = {
        (strategy, budget): [0.1 / budget, -0.2 / budget, 0.3 / budget]
        for strategy in ("uniform", "answered first")
        for budget in (10, 20, 40)
    }
    full: dict[str, float | None] = {"rho": 0.593, "alpha[0]": None, "alpha[1]": 0.218, "p_t": 0.801, "p_g": 0.466}
    return ReportInput(
        title="Quickstart",
        summary=summary(),
        draws=draws(),
        states={CONFIGS[0]: [101, 102, 103, 104, 105, 106], CONFIGS[1]: [7, 0, 3, 11, 19, 23]},
        full_values={config: dict(full) for config in CONFIGS},
        allocation=allocation(errors),
        verdict_counts=[(CONFIGS[0], "t@local", {"ok": 41, "unparsed": 3, "not_asked": 4})],
        notes=["402 questions without qrels were left out."],
        provenance={"seed": "20260101", "rat_ray": "0.1.0", "answers": "3f9ac0de"},
    )
