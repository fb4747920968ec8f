"""Everything on the task: T of random answered items."""

from __future__ import annotations

import numpy as np

from rat_ray.allocate.strategies.base import Items, Wanted


def all_t(items: Items) -> Wanted:
    return Wanted(r=np.zeros(len(items.a), dtype=bool), t=items.a == 0)
