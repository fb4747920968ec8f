"""Strategies: what to label, item by item. A new one is one file and one entry here."""

from __future__ import annotations

from collections.abc import Mapping

from rat_ray.allocate.strategies.all_r import all_r
from rat_ray.allocate.strategies.all_t import all_t
from rat_ray.allocate.strategies.base import Items, Strategy, Wanted
from rat_ray.allocate.strategies.joint import joint

STRATEGIES: Mapping[str, Strategy] = {"all_r": all_r, "all_t": all_t, "joint": joint}

__all__ = ["STRATEGIES", "Items", "Strategy", "Wanted"]
