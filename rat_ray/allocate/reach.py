"""At what cost each strategy reaches the interval width that the reference has at a budget."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.allocate.grid import Means, grids, pooled_means, resampled
from rat_ray.allocate.summary import pooled_name, reference_of
from rat_ray.tables import ALLOCATION

INTERPOLATED, AT_MOST, NOT_REACHED = "interpolated", "at_most", "not_reached"

# budget: of the reference `against`, which at reference_cost has a mean interval of this width; cost: where the
# strategy has it, null where it never has within the budgets. how: interpolated | at_most (already at its smallest
# budget) | not_reached. ratio: cost / reference_cost. *_low, *_high: 95 % by drawing replicates anew; a null high
# end: in some of these the width was not reached. reached: the share of these in which it was. Null of one replicate.
REACH = pa.schema(
    [
        *(ALLOCATION.field(name) for name in ("config", "quantity", "budget")),
        pa.field("against", pa.string(), nullable=False),
        *(pa.field(name, pa.float64()) for name in ("reference_cost", "width")),
        ALLOCATION.field("strategy"),
        pa.field("how", pa.string(), nullable=False),
        *(pa.field(name + end, pa.float64()) for name in ("cost", "ratio") for end in ("", "_low", "_high")),
        pa.field("reached", pa.float64()),
    ]
)


class Crossing(NamedTuple):
    """(resamples,) each: the cost at which a width is reached, infinite where it is not; and whether at the start."""

    cost: np.ndarray
    at_start: np.ndarray


def reach(allocation: pa.Table, against: str = "") -> pa.Table:
    """Rows (schema REACH) per configuration, quantity, budget of the reference, and strategy; then over all of them.

    Mean width against mean cost is interpolated piecewise in 1 / width^2, which grows in proportion to the labels
    where they are few among many; the first crossing counts. Intervals: percentiles over replicates drawn anew with
    all their strategies and budgets (`grid.resampled`). against: empty for `summary.reference_of`.
    """
    against = against or reference_of(allocation)
    rows: list[dict[str, object]] = []
    for quantity in pc.unique(allocation.column("quantity")).to_pylist():
        found = grids(allocation, quantity)
        means = {config: resampled(config, grid) for config, grid in found.items()}
        pooled = pooled_name(list(means))
        if pooled is not None:
            means[pooled] = pooled_means(means)
        for config, one in means.items():
            grid = found[next(iter(found))]
            head = {"config": config, "quantity": quantity, "against": against}
            rows += [head | row for row in _rows(one, grid.strategies, grid.budgets, against)]
    place = {config: index for index, config in enumerate(dict.fromkeys(row["config"] for row in rows))}
    return pa.Table.from_pylist(sorted(rows, key=lambda row: place[row["config"]]), schema=REACH)


def _rows(
    means: Means, strategies: tuple[str, ...], budgets: tuple[float, ...], against: str
) -> list[dict[str, object]]:
    if against not in strategies:
        return []
    reference = strategies.index(against)
    rows: list[dict[str, object]] = []
    for at, budget in enumerate(budgets):
        width, cost = means.width[:, reference, at], means.cost[:, reference, at]
        if not (np.isfinite(width[0]) and cost[0] > 0):  # every replicate failed, or the base alone
            continue
        for index, strategy in enumerate(strategies):
            found = crossing(means.cost[:, index], means.width[:, index], width)
            shared = {"budget": budget, "reference_cost": float(cost[0]), "width": float(width[0])}
            rows.append({**shared, "strategy": strategy, **_numbers(found, cost, itself=index == reference)})
    return rows


def crossing(cost: np.ndarray, width: np.ndarray, target: np.ndarray) -> Crossing:
    """Where curves first come down to a width. cost, width: (resamples, budgets), by budget; target: (resamples,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, wanted = width**-2.0, target**-2.0
    # Rounding must not move the reference past its own point.
    enough = precision >= wanted[:, None] * (1 - 1e-12)
    first = np.argmax(enough, axis=1)
    rows = np.arange(len(target))
    before = np.maximum(first - 1, 0)
    low, high = precision[rows, before], precision[rows, first]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.clip((wanted - low) / (high - low), 0.0, 1.0)
    share = np.where(np.isnan(share), 1.0, share)  # every fit before it failed
    at_start = enough.any(axis=1) & (first == 0)
    share = np.where(at_start, 0.0, share)
    inside = cost[rows, before] + share * (cost[rows, first] - cost[rows, before])
    return Crossing(np.where(enough.any(axis=1), inside, np.inf), at_start)


def _numbers(found: Crossing, reference: np.ndarray, itself: bool) -> dict[str, object]:
    ratio = found.cost / reference
    how = NOT_REACHED if np.isinf(found.cost[0]) else AT_MOST if found.at_start[0] and not itself else INTERPOLATED
    row: dict[str, object] = {"how": how, "cost": _finite(found.cost[0]), "ratio": _finite(ratio[0])}
    if len(found.cost) == 1:  # one replicate
        return row
    row["reached"] = float(np.isfinite(found.cost[1:]).mean())
    for name, values in (("cost", found.cost), ("ratio", ratio)):
        ends = np.quantile(values[1:], [0.025, 0.975], method="closest_observation")
        row |= {f"{name}_low": _finite(ends[0]), f"{name}_high": _finite(ends[1])}
    return row


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
