"""What a strategy sees and what it asks for."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np


class Items(NamedTuple):
    """The items beyond the base, in the order in which money reaches them. r, a, t: (items,) of 0, 1 or MISSING each.

    A strategy may look at `a`, and at the labels of an item that it would have bought before it decides on another:
    what it leaves unlabelled then depends on nothing but what the fit sees. chance: (items,), each item's own random
    number from 0 to 1; needed by `mixed` only.
    """

    r: np.ndarray
    a: np.ndarray
    t: np.ndarray
    chance: np.ndarray | None = None


class Wanted(NamedTuple):
    """(items,) of booleans each: buy R, buy T of this item when its turn comes. Neither: skip it, at no cost.

    A label that does not exist is not bought, whatever is wanted.
    """

    r: np.ndarray
    t: np.ndarray


class Strategy(Protocol):
    """Decides item by item what to label; where the budget ends is not its concern."""

    def __call__(self, items: Items) -> Wanted: ...
