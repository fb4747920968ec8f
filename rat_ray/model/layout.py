"""The judges of all sides of a fit, put together in the columns of the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rat_ray.model.cells import Cells
from rat_ray.model.patterns import TRUSTED
from rat_ray.model.verdicts import Verdicts


class Items(NamedTuple):
    """Patterns as the program sees them. agree: (P, states); verdicts: per side (P, judges); the rest: (P,)."""

    agree: np.ndarray
    verdicts: tuple[np.ndarray, ...]
    group: np.ndarray
    n: np.ndarray
    n_given: np.ndarray

    def take(self, rows: np.ndarray) -> Items:
        """Some of the patterns."""
        verdicts = tuple(side[rows] for side in self.verdicts)
        return Items(self.agree[rows], verdicts, self.group[rows], self.n[rows], self.n_given[rows])


class Layout(NamedTuple):
    """The judges of all sides. place: (sides, P); cell_place: (sides, L); prior: (rates, 2); used: distinct verdicts.

    says_one, says_zero: (sides, 6 C, rates), state slowest; possible: (sides, C, 6); sums: (sides, V, C) of a panel.
    """

    independent: int
    place: np.ndarray
    cell_place: np.ndarray
    used: int
    sums: np.ndarray
    says_one: np.ndarray
    says_zero: np.ndarray
    possible: np.ndarray
    prior: np.ndarray


def lay_out(sides: Sequence[Verdicts], items: Items, cells: Cells | None) -> Layout:
    if not sides:
        return Layout(
            0,
            np.zeros((0, len(items.n)), dtype=int),
            np.zeros((0, 0), dtype=int),
            0,
            np.zeros((0, 0, 0)),
            np.zeros((0, 0, 0)),
            np.zeros((0, 0, 0)),
            np.zeros((0, 0, 6)),
            np.zeros((0, 2)),
        )
    many = sum(side.independent for side in sides)
    rates = 2 * many + sum(len(side.free) for side in sides)
    size = max(len(side.combinations) for side in sides)
    listed = [_listed(side, items.verdicts[b], cells) for b, side in enumerate(sides)]
    used = max(size if not side.panel else len(rows) for side, (rows, _, _) in zip(sides, listed, strict=True))
    panel_used = used if sides[0].panel else 0
    says = np.zeros((2, len(sides), 6, size, rates))
    possible, sums = np.zeros((len(sides), size, 6)), np.zeros((len(sides), panel_used, size))
    prior = np.ones((rates, 2))
    first_judge, first_free = 0, 2 * many
    for b, (side, (rows, _, _)) in enumerate(zip(sides, listed, strict=True)):
        c, own = len(side.combinations), side.independent
        columns = [
            *range(first_judge, first_judge + own),
            *range(many + first_judge, many + first_judge + own),
            *range(first_free, first_free + len(side.free)),
        ]
        for kind, matrix in enumerate((side.says_one, side.says_zero)):
            says[kind, b, :, :c][:, :, columns] = matrix.reshape(6, c, len(columns))
        prior[columns] = side.prior
        possible[b, :c] = side.possible
        if side.panel:
            sums[b, : len(rows), :c] = side.sums(rows)
        first_judge, first_free = first_judge + own, first_free + len(side.free)
    return Layout(
        independent=many,
        place=np.stack([index for _, index, _ in listed]),
        cell_place=np.stack([index for _, _, index in listed]),
        used=used,
        sums=sums,
        says_one=says[0].reshape(len(sides), 6 * size, rates),
        says_zero=says[1].reshape(len(sides), 6 * size, rates),
        possible=possible,
        prior=prior,
    )


def _listed(side: Verdicts, verdicts: np.ndarray, cells: Cells | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct verdicts of the side, and for each pattern and each cell which of them it has."""
    extra = np.zeros((0, verdicts.shape[1]), dtype=verdicts.dtype) if cells is None else cells.labels[:, len(TRUSTED) :]
    every = np.concatenate([verdicts, extra])
    if side.panel:
        rows, index = np.unique(every, axis=0, return_inverse=True)
    else:
        rows = side.combinations
        place = {tuple(row): number for number, row in enumerate(rows.tolist())}
        index = np.array([place[tuple(row)] for row in every.tolist()], dtype=int)
    index = index.reshape(-1)
    return rows, index[: len(verdicts)], index[len(verdicts) :]
