"""Both on the same random items: R and T, or R alone where the system abstained."""

from __future__ import annotations

import numpy as np

from rat_ray.allocate.strategies.base import Items, Wanted


def joint(items: Items) -> Wanted:
    return Wanted(r=np.ones(len(items.a), dtype=bool), t=items.a == 0)
