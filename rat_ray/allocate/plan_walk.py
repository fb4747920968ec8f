"""Down the random order with a strategy: which labels it buys, what they cost, and the counts that a fit then sees."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rat_ray.allocate.costs import Costs
from rat_ray.allocate.plan_pool import A, Pool, R, Side, T
from rat_ray.allocate.strategies import Items, strategy_of
from rat_ray.errors import InputError, did_you_mean
from rat_ray.model.patterns import FIT, MISSING, Code

JOINT = "joint"
# Where a label of R serves several configurations: what one of them buys depends on nothing of another.
FOR_SHARED = (JOINT, "all_r", "all_t")
FOR_ANY = (*FOR_SHARED, "t_first", "r_first")
_ROUNDING = 1e-9  # ten labels at .1 cost 1


class Bought(NamedTuple):
    """(rows,) of one side: the labels that are bought when the walk reaches the row's question."""

    r: np.ndarray
    t: np.ndarray


class Walk(NamedTuple):
    """bought: per side; spent: (questions,), the cost of the first 1, 2, … questions of the order."""

    bought: tuple[Bought, ...]
    spent: np.ndarray

    def reached(self, budget: float) -> int:
        """How many questions of the order the budget pays; each whole or not at all."""
        return int(np.searchsorted(self.spent, budget + _ROUNDING, side="right"))

    def cost(self, questions: int) -> float:
        return float(self.spent[questions - 1]) if questions else 0.0


def strategies_for(pool: Pool, asked: Sequence[str]) -> tuple[str, ...]:
    """The strategies to compare. Raises InputError for one that would spoil the fits of this pool."""
    known = FOR_SHARED if pool.shared else FOR_ANY
    for name in asked:
        if name in FOR_ANY and name not in known:
            raise InputError(
                f"strategies: {name} chooses R by the answer of one configuration, and the label would serve others "
                "with the same context, in whose fits nothing says why it was chosen; with shared contexts give "
                f"{', '.join(known)}"
            )
        if name not in known:
            raise InputError(f"strategies: no {name!r}{did_you_mean(name, known)}")
    return tuple(dict.fromkeys(asked)) or known


def wanted(pool: Pool, strategy: str, labels: Sequence[np.ndarray]) -> tuple[Bought, ...]:
    """What the strategy buys of each row, given labels (rows, 3 or more) per side; a MISSING one tells it nothing.

    With the labels that are there: what to ask for now. With all labels filled in: what it buys in the end.
    """
    chosen = strategy_of(strategy)
    found = []
    for side, mine in zip(pool.sides, labels, strict=True):
        order = np.argsort(side.place, kind="stable")
        want = chosen(Items(mine[order, R], mine[order, A], mine[order, T]))
        back = np.argsort(order)
        found.append(Bought(want.r[back] & side.open_r, want.t[back] & side.open_t))
    return tuple(found)


def walk(pool: Pool, bought: tuple[Bought, ...], costs: Costs) -> Walk:
    """The cost of what is bought, question by question; of R once per context."""
    spent = np.zeros(pool.questions)
    paid = np.zeros(pool.contexts, dtype=bool)
    for side, mine in zip(pool.sides, bought, strict=True):
        pays = mine.r & ~paid[side.context]
        paid[side.context[pays]] = True
        spent += np.bincount(side.place, costs.r * pays + costs.t * mine.t, pool.questions)
    return Walk(bought, np.cumsum(spent))


class Book:
    """Counts of one side's patterns, in one fixed list: a fit's tables differ by their counts only."""

    def __init__(self, side: Side) -> None:
        self._side = side
        keys = [self._keys(side.labels, side.use)]
        fits = side.use == FIT
        for r, t in itertools.product((0, 1, MISSING), repeat=2):
            grown = side.labels[fits].copy()
            grown[:, R] = np.where(grown[:, R] == MISSING, r, grown[:, R])
            known = (grown[:, T] == MISSING) & (grown[:, A] == 0)
            grown[:, T] = np.where(known, t, grown[:, T])
            keys.append(self._keys(grown, side.use[fits]))
        self._known = np.unique(np.concatenate(keys))
        self.labels, self.use = self._unpacked()
        self.pattern = self._index(side.labels, side.use)  # of each row, as it is now
        self.now = np.bincount(self.pattern, minlength=len(self._known))

    def code(self, n: np.ndarray) -> Code:
        """The table of counts, (patterns,), as an Estimator takes it."""
        stratum = np.zeros(len(n), dtype=np.int32)
        return Code(self.labels, self.use, stratum, n.astype(np.int64), n.astype(float))

    def counts(self, bought: Bought, filled: np.ndarray, reached: Sequence[int]) -> list[np.ndarray]:
        """The counts when the first so many questions' labels were bought. filled: (rows, 3), every label."""
        rows = np.flatnonzero(bought.r | bought.t)
        rows = rows[np.argsort(self._side.place[rows], kind="stable")]
        after = self._side.labels[rows].copy()
        for column, buy in ((R, bought.r), (T, bought.t)):
            after[:, column] = np.where(buy[rows], filled[rows, column], after[:, column])
        old, new = self.pattern[rows], self._index(after, self._side.use[rows])
        ends = np.searchsorted(self._side.place[rows], list(reached), side="left")
        size = len(self._known)
        return [self.now - np.bincount(old[:e], minlength=size) + np.bincount(new[:e], minlength=size) for e in ends]

    def _keys(self, labels: np.ndarray, use: np.ndarray) -> np.ndarray:
        key = use.astype(np.int64)
        for column in labels.T:
            key = key * 3 + column
        return key

    def _index(self, labels: np.ndarray, use: np.ndarray) -> np.ndarray:
        return np.searchsorted(self._known, self._keys(labels, use))

    def _unpacked(self) -> tuple[np.ndarray, np.ndarray]:
        width = self._side.labels.shape[1]
        digits = self._known[:, None] // 3 ** np.arange(width - 1, -1, -1) % 3
        return digits.astype(np.int8), (self._known // 3**width).astype(np.int32)
