"""What depends on a list of patterns only, for thousands of tables that differ in how often each pattern occurs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rat_ray.model.collapse import collapse
from rat_ray.model.design import Design
from rat_ray.model.importance.density import Evaluated, times
from rat_ray.model.importance.joint import joint_of
from rat_ray.model.importance.shared_out import successes
from rat_ray.model.importance.structure import Builder, Counts, Structure
from rat_ray.model.importance.trees import Order, tree_by
from rat_ray.model.patterns import TRUSTED
from rat_ray.model.rates import Rate
from rat_ray.model.states import BITS, FINITE, STATES, information


class Shares(NamedTuple):
    """A quantity among the items of the table. certain: (rows,) 0 or 1 of each item; open: rows where neither is known.

    yes, any: (open rows, M), the products of the states that count and of all states of the pattern.
    """

    certain: np.ndarray
    open: np.ndarray
    yes: np.ndarray
    any: np.ndarray


class PatternList:
    """One system, one stratum. Made from a design in which every row of the list has one item."""

    def __init__(self, design: Design, quantities: Sequence[str], rows: np.ndarray, order: Order | None) -> None:
        """rows: of a table's list, those in the design. order: of the tree to sample in, None for the prior's."""
        self._rows = rows
        self._new = design.items.n_given == 0
        self._size = len(quantities)
        self._leaves = leaves = _Leaves(design, order)
        self._own = [(i, leaves.rates[q].parameter) for i, q in enumerate(quantities) if leaves.is_parameter(q)]
        self._bits = [(i, BITS.index(name)) for i, name in enumerate(quantities) if name in BITS]
        others = {i for i, _ in [*self._own, *self._bits]}
        self._plain = [i for i in range(self._size) if i not in others]
        ratios = [leaves.ratio(quantities[i]) for i in self._plain]
        finite = [i for i, name in enumerate(quantities) if name in FINITE and name in design.finite]
        open_terms = self._open_terms(design) if finite else {}
        self.structure: Structure = leaves.builder.structure()
        terms = len(self.structure.terms)
        self._top, self._bottom = (np.zeros((len(ratios), terms)) for _ in range(2))
        for row, sides in enumerate(ratios):
            for matrix, side in zip((self._top, self._bottom), sides, strict=True):
                matrix[row, : len(side)] = side
        self._states = np.zeros((len(STATES), terms))
        self._states[leaves.state, np.arange(len(leaves.state))] = 1
        self._powers, self._n = _weights_of_rows(design, leaves, self.structure)
        self.shares = {
            index: _shares(design, open_terms, terms, np.asarray(design.ratios[quantities[index]][0], dtype=bool))
            for index in finite
        }

    def counts(self, n: np.ndarray) -> Counts:
        """n: items of each row of the table's list."""
        weights = n[self._rows].astype(float)
        structure = self.structure
        return Counts(structure.base + weights @ self._powers, structure.base_n + weights @ self._n)

    def values(self, found: Evaluated) -> np.ndarray:
        """(quantities, draws)."""
        values = np.empty((self._size, found.products.shape[1]))
        if self._plain:
            top, bottom = times(self._top, found.products), times(self._bottom, found.products)
            for row, draw in np.argwhere(bottom == 0).tolist():
                top[row, draw], bottom[row, draw] = self._without_underflow(row, found.logs[:, draw])
            values[self._plain] = top / bottom
        if self._bits:
            bits = information(times(self._states, found.products))
            for index, which in self._bits:
                values[index] = bits[which]
        for index, parameter in self._own:
            values[index] = np.exp(self.structure.one[parameter] @ found.logs)
        return values

    def _without_underflow(self, row: int, logs: np.ndarray) -> tuple[float, float]:
        """A ratio's sides for one draw, in units of the largest product below the line. logs: (L,)."""
        exponents = self.structure.terms @ logs
        products = np.exp(np.minimum(exponents - exponents[self._bottom[row] > 0].max(), 0.0))
        return float(self._top[row] @ products), float(self._bottom[row] @ products)

    def finite(self, products: np.ndarray, n: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(shares, draws): shares among these items, each item's state drawn given its pattern."""
        n = np.where(self._new, n[self._rows], 0).astype(np.int64)
        items = max(int(n.sum()), 1)
        found = np.empty((len(self.shares), products.shape[1]))
        for drawn, share in zip(found, self.shares.values(), strict=True):
            drawn[:] = n @ share.certain
            some = np.flatnonzero(n[share.open])
            if len(some):
                p = np.minimum(times(share.yes[some], products) / times(share.any[some], products), 1.0)
                drawn += successes(n[share.open[some]], p, rng)
        return found / items

    def _open_terms(self, design: Design) -> dict[tuple[int, int], list[int]]:
        """(row, state): products, of the rows whose state is not known."""
        items, layout = design.items, design.layout
        rows = np.flatnonzero((items.agree.sum(axis=1) > 1) & self._new).tolist()
        return {
            (row, s): self._leaves.terms(s, layout.place[:, row].tolist())
            for row in rows
            for s in np.flatnonzero(items.agree[row]).tolist()
        }


class _Leaves:
    """The leaves of the tree: the six states, or with a panel the states with complete verdicts."""

    def __init__(self, design: Design, order: Order | None) -> None:
        data = design.data()
        joint = joint_of(data)
        self.joint = joint is not None
        self.rates = {rate.name: rate for rate in design.rates}
        self._ratios = design.ratios
        self._sums = np.asarray(data["sums"])
        if joint is None:
            # Verdicts may be in the order here too: those of a panel whose states share a rate.
            labels = [variable for variable in order or () if variable < len(TRUSTED)]
            self.builder = Builder(data, tree_by(STATES.T.astype(int), labels) if order else None)
            self.state = np.arange(len(STATES))
            return
        self.builder = Builder(joint.data, tree_by(joint.values, order) if order else None)
        self.state, self._combination = joint.state, joint.combination

    def is_parameter(self, quantity: str) -> bool:
        """Whether the quantity is a rate of its own."""
        return quantity in self.rates and self.rates[quantity].parameter >= 0

    def ratio(self, quantity: str) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the first products above and below the line."""
        if quantity not in self.rates:
            top, bottom = (np.asarray(side, dtype=float) for side in self._ratios[quantity])
            return top[self.state], bottom[self.state]
        rate = self.rates[quantity]
        if not self.joint:
            return self._of_cells(rate)
        below = rate.states[self.state]
        return (below & rate.cells[self._combination]).astype(float), below.astype(float)

    def _of_cells(self, rate: Rate) -> tuple[np.ndarray, np.ndarray]:
        """The same of a panel that is no part of the tree: each state's combinations are products of their own."""
        states, cells = np.flatnonzero(rate.states).tolist(), np.flatnonzero(rate.cells).tolist()
        found = [self.builder.terms.in_cell(0, s, c) for s in states for c in cells]
        places = [place for place in found if place is not None]
        top = np.zeros(max([len(STATES) - 1, *places]) + 1)
        np.add.at(top, places, 1)
        return top, np.asarray(rate.states, dtype=float)

    def terms(self, state: int, said: list[int]) -> list[int]:
        """The products of a state and what was said."""
        if not self.joint:
            return self.builder.terms.in_state(state, 0, said)
        agree = (self.state == state) & (self._sums[0, said[0]][self._combination] > 0)
        return np.flatnonzero(agree).tolist()


def _weights_of_rows(design: Design, leaves: _Leaves, structure: Structure) -> tuple[np.ndarray, np.ndarray]:
    """(rows, L) and (rows, N): the weights of the logs and of the sums that one item of each row adds."""
    items, layout, left = design.items, design.layout, design.collapsed.left
    powers, n = np.zeros((len(items.n), structure.known.shape[1])), np.zeros((len(items.n), len(structure.sums)))
    for row in range(len(items.n)):
        alone = layout._replace(place=layout.place[:, [row]])
        found = collapse(design.tree, items.take(np.array([row])), alone, design.sides, 1)
        if leaves.joint:
            known = np.concatenate([found.yes[:, 0], found.one, found.no[:, 0], found.zero])
        else:
            known = np.concatenate([found.yes[:, 0], found.no[:, 0]])
            powers[row] = found.one @ structure.one + found.zero @ structure.zero
        powers[row] += known @ structure.known
        n[row] = known @ structure.known_n
    powers[left] += structure.rows[: len(left)]
    n[left] += structure.rows_n[: len(left)]
    given = left[items.n_given[left] > 0]  # their labels' probability is taken back
    powers[given] -= structure.rows[len(left) :]
    n[given] -= structure.rows_n[len(left) :]
    return powers, n


def _shares(design: Design, open_terms: dict[tuple[int, int], list[int]], terms: int, counted: np.ndarray) -> Shares:
    agree = design.items.agree.astype(bool)
    certain = (agree & ~counted).sum(axis=1) == 0
    open_ = np.flatnonzero(~certain & (agree & counted).any(axis=1) & (design.items.n_given == 0))
    yes, either = np.zeros((len(open_), terms)), np.zeros((len(open_), terms))
    for place, row in enumerate(open_.tolist()):
        for s in np.flatnonzero(agree[row]).tolist():
            np.add.at(either[place], open_terms[row, s], 1)
            if counted[s]:
                np.add.at(yes[place], open_terms[row, s], 1)
    return Shares(certain.astype(float), open_, yes, either)
