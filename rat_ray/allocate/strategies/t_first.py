"""T first: where the answer is wrong, G = 0 whatever R was, and R is not bought. R alone where the system abstained."""

from __future__ import annotations

import numpy as np

from rat_ray.allocate.strategies.base import Items, Wanted


def t_first(items: Items) -> Wanted:
    answered = items.a == 0
    return Wanted(r=np.asarray(~answered | (items.t == 1)), t=np.asarray(answered))
