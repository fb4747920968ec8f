"""Everything on retrieval: R of random items."""

from __future__ import annotations

import numpy as np

from rat_ray.allocate.strategies.base import Items, Wanted


def all_r(items: Items) -> Wanted:
    return Wanted(r=np.ones(len(items.a), dtype=bool), t=np.zeros(len(items.a), dtype=bool))
