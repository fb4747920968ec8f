"""The summary table read into one object per configuration, and how its numbers are written."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

MISSING = "–"
_SEVERITY = {"ok": 0, "warn": 1, "fail": 2}


class Powered(NamedTuple):
    """A prediction-powered estimate beside the model's, and whether the two contradict each other."""

    mean: float
    low: float
    high: float
    disagrees: bool


class Estimate(NamedTuple):
    """A posterior mean with its 95 % interval. low and high: the bounds, where the data only bound the quantity."""

    mean: float | None
    q_low: float | None
    q_high: float | None
    identified: str | None = None
    low: float | None = None
    high: float | None = None
    sd: float | None = None
    prior_sd: float | None = None
    sensitivity: str | None = None
    ppi: Powered | None = None

    @property
    def is_finding(self) -> bool:
        """False where the data only bound the quantity or say nothing about it, so that the prior shows through."""
        return self.identified not in ("bounded", "prior only")


class Fit(NamedTuple):
    """What one fit's rows say together: the worst status and reasons, the largest r_hat, the smallest ess_bulk."""

    status: str
    reasons: tuple[str, ...]
    items: int | None
    r_hat: float | None
    ess_bulk: float | None
    divergences: int | None
    seconds: float | None


@dataclass(frozen=True)
class Configuration:
    """One configuration's estimates by quantity, in the summary's order, and its fit."""

    config: str
    estimates: dict[str, Estimate]
    fit: Fit


def read_summary(summary: pa.Table) -> list[Configuration]:
    """The configurations of a table with the `tables.SUMMARY` schema, in order of first appearance."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in summary.to_pylist():
        rows.setdefault(row["config"], []).append(row)
    return [
        Configuration(config, {row["quantity"]: _estimate(row) for row in mine}, _fit(mine))
        for config, mine in rows.items()
    ]


def _estimate(row: dict[str, Any]) -> Estimate:
    ppi = None
    if row.get("ppi_mean") is not None:
        ppi = Powered(row["ppi_mean"], row["ppi_low"], row["ppi_high"], row["ppi_disagrees"] == 1)
    return Estimate(
        mean=row["mean"],
        q_low=row["q2.5"],
        q_high=row["q97.5"],
        identified=row["identified"],
        low=row["low"],
        high=row["high"],
        sd=row["sd"],
        prior_sd=row["prior_sd"],
        sensitivity=row.get("sensitivity"),
        ppi=ppi,
    )


def _fit(rows: list[dict[str, Any]]) -> Fit:
    def present(column: str) -> list[Any]:
        return [row[column] for row in rows if row[column] is not None]

    return Fit(
        # A status that is not known is treated as the worst, never hidden.
        status=max((row["status"] for row in rows), key=lambda status: _SEVERITY.get(status, len(_SEVERITY))),
        reasons=tuple(dict.fromkeys(reason for reason in present("reason") if reason)),
        items=max(present("items"), default=None),
        r_hat=max(present("r_hat"), default=None),
        ess_bulk=min(present("ess_bulk"), default=None),
        divergences=max(present("divergences"), default=None),
        seconds=max(present("seconds"), default=None),
    )


def number(value: float | None, digits: int = 2) -> str:
    """`.67`; one is `1.0` at two digits, so that columns keep their width. Missing is a dash, never 0 or NaN."""
    if value is None or math.isnan(value):
        return MISSING
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    if float(text) == 1 and digits > 1:
        return text[:-1]
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def interval(estimate: Estimate | None, digits: int = 2) -> str:
    """`.67 [.62, .72]`, or a dash where there is no estimate."""
    if estimate is None or estimate.mean is None:
        return MISSING
    return f"{number(estimate.mean, digits)} [{number(estimate.q_low, digits)}, {number(estimate.q_high, digits)}]"


def mean_cell(estimate: Estimate | None) -> str:
    """The mean at three digits, or a dash."""
    return MISSING if estimate is None else number(estimate.mean, 3)


def range_cell(estimate: Estimate | None) -> str:
    """The 95 % interval at three digits, or a dash."""
    if estimate is None or estimate.q_low is None:
        return MISSING
    return f"[{number(estimate.q_low, 3)}, {number(estimate.q_high, 3)}]"


def count_cell(value: int | None) -> str:
    """A count with thousands separated, or a dash."""
    return MISSING if value is None else f"{value:,}"
