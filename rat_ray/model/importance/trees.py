"""Trees of splits to sample in. The posterior of a tree whose first splits are the ones most observed is nearly a
product of Betas: with A known everywhere and R on some items, P(A) and P(R | A) are nearly independent, while rho and
alpha are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rat_ray.model.engines import StanData
from rat_ray.model.priors import Prior
from rat_ray.model.states import STATES


@dataclass(frozen=True, eq=False)
class Splits:
    """on_yes, on_no: (states, splits) booleans: the state lies on that side of the split."""

    on_yes: np.ndarray
    on_no: np.ndarray

    @cached_property
    def nodes(self) -> list[np.ndarray]:
        """The states below each split but the first one."""
        below = self.on_yes | self.on_no
        return [below[:, k] for k in range(below.shape[1]) if not below[:, k].all()]


def splits_of(data: StanData) -> Splits:
    """The tree of the program's data: that of the prior."""
    return Splits(np.asarray(data["on_yes"]) > 0, np.asarray(data["on_no"]) > 0)


Order = tuple[int, ...]  # variables: 0, 1, 2 for r, a, t, then the judges of a panel
_R, _A, _T = range(3)
_UNIFORM = 2.0  # a + b of a uniform Beta(a, b)


class Known(NamedTuple):
    """Items with a label of r and of a; and per variable, (variables,), how many answered ones have one of it.

    A prior that says more than a uniform one counts as items with a label of r, since its tree begins with r.
    """

    r: float
    a: float
    answered: np.ndarray


def known_by_prior(prior: Prior, judges: int) -> tuple[float, float]:
    """As if that many items, and that many answered ones, had a label of r. judges: of a panel."""
    rho, alpha0, alpha1, tau0, tau1 = (max(a + b - _UNIFORM, 0.0) for a, b in prior.splits)
    verdicts = 2**judges * prior.panel_floor + prior.panel_lean - _UNIFORM if judges else 0.0
    return rho + alpha0 + alpha1 + len(STATES) * max(verdicts, 0.0), tau0 + tau1


def order_of(known: Known) -> Order | None:
    """A first, then what is known of most answered items; None where r is known of more items than a."""
    if known.a < known.r:
        return None
    rest = [variable for variable in range(len(known.answered)) if variable != _A]
    return (_A, *sorted(rest, key=lambda variable: -known.answered[variable]))


def tree_by(values: np.ndarray, order: Sequence[int]) -> Splits:
    """values: (variables, leaves) of 0, 1, or -1 where undefined; splits in the order of the variables."""
    splits: list[tuple[np.ndarray, np.ndarray]] = []
    groups = [np.ones(values.shape[1], dtype=bool)]
    for variable in order:
        grown = []
        for group in groups:
            one, zero = group & (values[variable] == 1), group & (values[variable] == 0)
            if one.any() and zero.any():
                splits.append((one, zero))
                grown += [one, zero]
            else:
                grown.append(group)
        groups = grown
    return Splits(*(np.stack(side, axis=1) for side in zip(*splits, strict=True)))


def known_of(data: StanData, values: np.ndarray) -> Known:
    """values: (variables, leaves). What is counted at the splits has every label above them."""
    on_yes, on_no = np.asarray(data["on_yes"]) > 0, np.asarray(data["on_no"]) > 0
    yes, no = np.asarray(data["known_yes"]).sum(axis=1), np.asarray(data["known_no"]).sum(axis=1)
    r = a = 0.0
    answered = np.zeros(len(values))
    prior = np.maximum(np.asarray(data["prior_yes"]) + np.asarray(data["prior_no"]) - _UNIFORM, 0)
    for k in range(on_yes.shape[1]):
        told = values[:, on_yes[:, k]].min(axis=1) > values[:, on_no[:, k]].max(axis=1)
        variable = int(np.flatnonzero(told)[0])
        if variable == _T:
            answered[_R] += prior[k]
        else:
            r += prior[k]
        if variable == _R:
            r += yes[k] + no[k]
        elif variable == _A:
            a += yes[k] + no[k]
            answered[_R] += no[k]
        elif (values[_A, on_yes[:, k]] == 0).all():
            answered[variable] += yes[k] + no[k]
    for agree, n in zip(np.asarray(data["agree"]) > 0, np.asarray(data["n"]).tolist(), strict=True):
        some = values[:, agree]
        same = (some == some[:, :1]).all(axis=1)
        r, a = r + n * bool(same[_R]), a + n * bool(same[_A])
        if same[_A] and some[_A, 0] == 0:
            answered += n * same
    return Known(r, a, answered)


def tree_for(data: StanData) -> Splits | None:
    """The tree that suits the data's counts, None for the prior's; pairs of systems have that only."""
    if len(np.asarray(data["on_yes"])) != len(STATES):
        return None
    values = STATES.T.astype(int)
    order = order_of(known_of(data, values))
    return None if order is None else tree_by(values, order)


def below_one_node(tree: Splits, states: np.ndarray) -> bool:
    """Whether the states, (states,) booleans, are all those on their common path."""
    on_path = np.ones(len(states), dtype=bool)
    for branch in (tree.on_yes, tree.on_no):
        on_path &= branch[:, branch[states].all(axis=0)].all(axis=1)
    return bool((on_path == states).all())


def path_to(tree: Splits, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(splits,) each: the splits that all the states are on the yes side of, and on the no side."""
    return tree.on_yes[states].all(axis=0), tree.on_no[states].all(axis=0)
