"""Strategies: what to label, item by item. A new one is one file and one entry here."""

from __future__ import annotations

from collections.abc import Mapping

from rat_ray.allocate.strategies.all_r import all_r
from rat_ray.allocate.strategies.all_t import all_t
from rat_ray.allocate.strategies.base import Items, Strategy, Wanted
from rat_ray.allocate.strategies.joint import joint
from rat_ray.allocate.strategies.mixed import mixed
from rat_ray.allocate.strategies.r_first import r_first
from rat_ray.allocate.strategies.t_first import t_first
from rat_ray.errors import InputError, did_you_mean

MIXED = "mixed"
_SHARE = 0.5  # of `mixed` without a number

STRATEGIES: Mapping[str, Strategy] = {
    "all_r": all_r,
    "all_t": all_t,
    "joint": joint,
    MIXED: mixed(_SHARE),
    "t_first": t_first,
    "r_first": r_first,
}

__all__ = ["MIXED", "STRATEGIES", "Items", "Strategy", "Wanted", "share_of", "strategy_of"]


def strategy_of(name: str, setting: str = "strategies") -> Strategy:
    """The strategy of this name; `mixed-0.25` is `mixed` with another share. setting: for the error.

    Raises InputError for a name that is not known, or a share that is not between 0 and 1.
    """
    share = share_of(name, setting)
    if share is not None:
        return mixed(share)
    if name not in STRATEGIES:
        raise InputError(f"{setting}: no {name!r}{did_you_mean(name, STRATEGIES)}")
    return STRATEGIES[name]


def share_of(name: str, setting: str = "strategies") -> float | None:
    """The share of items that get R of `mixed` and `mixed-SHARE`; None for any other name.

    Raises InputError for a share that is not between 0 and 1.
    """
    head, dash, text = name.partition("-")
    if head != MIXED:
        return None
    if not dash:
        return _SHARE
    try:
        share = float(text)
    except ValueError:
        share = float("nan")
    if not 0 < share < 1:
        raise InputError(f"{setting}: {name!r}: the share of items that get R is between 0 and 1, such as mixed-0.25")
    return share
