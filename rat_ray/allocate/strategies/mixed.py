"""R of some random items, T of the others that were answered: no item gets both."""

from __future__ import annotations

import numpy as np

from rat_ray.allocate.strategies.base import Items, Strategy, Wanted


def mixed(share: float) -> Strategy:
    """share: the probability with which an item gets R instead of T."""

    def choose(items: Items) -> Wanted:
        if items.chance is None:
            raise ValueError("mixed needs each item's random number")
        takes_r = np.asarray(items.chance < share)
        return Wanted(r=takes_r, t=~takes_r & (items.a == 0))

    return choose
