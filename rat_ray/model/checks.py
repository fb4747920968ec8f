"""Posterior predictive checks: the observed count of each pattern against the counts that the posterior replicates.

A tail probability near 0 says that data like the observed ones are rare under the fitted model (Gelman, Meng, Stern
1996). What is replicated given what is told in `cells`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rat_ray.model.asking import chosen_by_the_other
from rat_ray.model.cells import LABELS, Cells, cells_of
from rat_ray.model.patterns import MISSING, TRUSTED, judges_of, to_code
from rat_ray.model.posterior import REPLICATED, draws_array
from rat_ray.tables import CHECKS

OVERALL = "all"


def check_counts_table(draws: pa.Table, counts: pa.Table, config: str) -> pa.Table:
    """One row per cell, and one per part for its overall fit (schema `tables.CHECKS`); no rows without replicates.

    A cell's tail is the two-sided probability of a replicated count as far out as the observed one. The overall
    discrepancy is Freeman and Tukey's (1950), sum (sqrt(n) - sqrt(expected))^2, its tail that of a greater one. No
    rows of the labels where what is labelled clearly depends on the other label (`asking`): they are replicated given
    which labels there are, and would never agree.
    """
    names = [name for name in draws.schema.names if name.startswith(f"{REPLICATED}[")]
    if not names or draws.column(names[0]).null_count:
        return CHECKS.empty_table()
    cells = cells_of(to_code(counts), judges_of(counts))
    replicated = draws_array(draws, names).reshape(draws.num_rows, -1)
    rows = _cell_rows(cells, replicated, judges_of(counts), to_code(counts).strata)
    rows += _overall_rows(cells, replicated)
    if chosen_by_the_other(counts):
        rows = [row for row in rows if row["part"] != LABELS]
    return pa.Table.from_pylist([{"config": config, **row} for row in rows], schema=CHECKS)


def _cell_rows(
    cells: Cells, replicated: np.ndarray, judges: list[str], strata: tuple[str | None, ...]
) -> list[dict[str, object]]:
    low, high = np.quantile(replicated, [0.025, 0.975], axis=0)
    below, above = (replicated <= cells.n).mean(axis=0), (replicated >= cells.n).mean(axis=0)
    tails = np.minimum(1.0, 2 * np.minimum(below, above))
    return [
        {
            "part": cells.part[i],
            "stratum": strata[cells.stratum[i]],
            "pattern": _pattern(cells.labels[i].tolist(), [*TRUSTED, *judges]),
            "observed": float(cells.n[i]),
            "mean": float(replicated[:, i].mean()),
            "q2.5": float(low[i]),
            "q97.5": float(high[i]),
            "tail": float(tails[i]),
        }
        for i in range(len(cells.n))
    ]


def _overall_rows(cells: Cells, replicated: np.ndarray) -> list[dict[str, object]]:
    parts = np.array(cells.part)
    rows: list[dict[str, object]] = []
    for part in dict.fromkeys(cells.part):
        mine = parts == part
        expected = np.sqrt(replicated[:, mine].mean(axis=0))
        observed = float(((np.sqrt(cells.n[mine]) - expected) ** 2).sum())
        drawn = ((np.sqrt(replicated[:, mine]) - expected) ** 2).sum(axis=1)
        low, high = np.quantile(drawn, [0.025, 0.975])
        rows.append(
            {
                "part": part,
                "pattern": OVERALL,
                "observed": observed,
                "mean": float(drawn.mean()),
                "q2.5": float(low),
                "q97.5": float(high),
                "tail": float((drawn >= observed).mean()),
            }
        )
    return rows


def _pattern(labels: list[int], names: list[str]) -> str:
    known = [f"{name}={value}" for name, value in zip(names, labels, strict=True) if value != MISSING]
    return " ".join(known) or "nothing observed"
