"""R first: where retrieval failed and the system answered, G = 0 whatever T was, and T is not bought."""

from __future__ import annotations

import numpy as np

from rat_ray.allocate.strategies.base import Items, Wanted


def r_first(items: Items) -> Wanted:
    return Wanted(r=np.ones(len(items.a), dtype=bool), t=np.asarray((items.a == 0) & (items.r == 1)))
