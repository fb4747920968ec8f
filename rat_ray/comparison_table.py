"""The tables that `rat-ray compare` prints: ranks, and every two configurations."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.report.names import name_of

if TYPE_CHECKING:
    from rich.console import Console

_MOST_PAIRS = 30


def print_comparison(comparison: pa.Table, ranked: pa.Table, quantity: str, screen: Console) -> None:
    """comparison: `tables.COMPARISON`; ranked: `tables.RANKS`. Many pairs: only those next to each other in rank."""
    symbol = name_of(quantity).symbol
    lines = [f"Ranks by {symbol} (posterior mean, 90 % interval of the rank, probability of being best)"]
    order = ranked.to_pylist()
    width = max([len("configuration"), *(len(row["config"]) for row in order)])
    lines.append(f"{'configuration':<{width}}  {symbol:<8} rank      P(best)")
    for row in order:
        place = f"{row['rank_q5']:.0f}-{row['rank_q95']:.0f}"
        lines.append(f"{row['config']:<{width}}  {_share(row['mean']):<8} {place:<9} {_share(row['p_best'])}")
    rows = comparison.filter(pc.equal(comparison.column("quantity"), quantity)).to_pylist()
    if len(rows) > _MOST_PAIRS:
        names = [row["config"] for row in order]
        near = set(itertools.pairwise(names))
        rows = [row for row in rows if (row["first"], row["second"]) in near or (row["second"], row["first"]) in near]
        lines.append(f"Neighbours in rank ({comparison.num_rows} rows of all pairs are in comparison.parquet)")
    lines.append(f"First minus second in {symbol}: mean [95 % interval], P(first > second)")
    for row in rows:
        open_ = "" if row["identified"] else ", the labels leave it open"
        lines.append(f"{row['first']} - {row['second']}:  {_difference(row)}  {row['status']}{open_}")
    for line in lines:
        screen.print(line, highlight=False, markup=False, soft_wrap=True)


def _difference(row: dict[str, float | None]) -> str:
    if row["mean"] is None:
        return "no draws"
    mean, low, high = (_signed(row[name]) for name in ("mean", "q2.5", "q97.5"))
    return f"{mean} [{low}, {high}]  {_share(row['p_greater'])}"


def _share(value: float | None) -> str:
    return "-" if value is None else re.sub(r"^(-?)0\.", r"\1.", f"{value:.2f}")


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"
