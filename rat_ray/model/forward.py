"""The program's arithmetic in numpy, without sampling: probabilities and quantities at given rates.

For what is asked before sampling (rank of the design, prior standard deviations) and for simulating data. Arrays may
have trailing axes (one point per draw) and may be complex (complex-step derivatives).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rat_ray.model.design import Design
from rat_ray.model.states import BITS, information


@dataclass(frozen=True)
class Point:
    """Rates between 0 and 1. splits: (splits, groups, ...); rates: (rates, ...), in the program's columns."""

    splits: np.ndarray
    rates: np.ndarray


def theta(design: Design, point: Point) -> np.ndarray:
    """(states, groups, ...) of state probabilities."""
    yes, no = design.tree.on_yes.astype(float), design.tree.on_no.astype(float)
    return np.asarray(
        np.exp(np.tensordot(yes, np.log(point.splits), 1) + np.tensordot(no, np.log(1 - point.splits), 1))
    )


def cells(design: Design, point: Point) -> list[np.ndarray]:
    """Per side (6, C, ...): the probability of each combination of verdicts in each state."""
    layout = design.layout
    one, zero = np.log(point.rates), np.log(1 - point.rates)
    found = []
    for b in range(len(design.sides)):
        logs = np.tensordot(layout.says_one[b], one, 1) + np.tensordot(layout.says_zero[b], zero, 1)
        probabilities = np.exp(logs).reshape(6, -1, *point.rates.shape[1:])
        possible = layout.possible[b].T
        found.append(probabilities * possible.reshape(possible.shape + (1,) * (point.rates.ndim - 1)))
    return found


def pattern_probabilities(design: Design, point: Point) -> np.ndarray:
    """(patterns,) for one point; for patterns that calibrate judges, given their labels."""
    items, layout = design.items, design.layout
    weights = items.agree * theta(design, point).T[items.group]
    labels = weights.sum(axis=1)
    for b, cell in enumerate(cells(design, point)):
        like = (layout.sums[b] @ cell.T) if design.sides[b].panel else cell.T
        weights = weights * like[layout.place[b]][:, design.tree.side_state[b]]
    return np.asarray(weights.sum(axis=1) / np.where(items.n_given > 0, labels, 1.0))


def output_shares(design: Design, output: int) -> np.ndarray:
    """(groups,): the share of each group in an output."""
    share = np.where(design.groups.output_of == output, design.groups.share_n, 0.0)
    if not share.sum():  # the prior alone
        share = (design.groups.output_of == output).astype(float)
    return np.asarray(share / share.sum())


def quantities(design: Design, point: Point, output: int = 0) -> dict[str, np.ndarray]:
    """Every quantity of an output but the finite shares; scalars, or (...,)."""
    states = np.tensordot(theta(design, point), output_shares(design, output), ((1,), (0,)))
    found = {
        name: np.tensordot(np.asarray(top, dtype=float), states, 1)
        / np.tensordot(np.asarray(bottom, dtype=float), states, 1)
        for name, (top, bottom) in design.ratios.items()
    }
    if design.informs:
        found |= dict(zip(BITS, information(states), strict=True))
    cell = cells(design, point)
    for rate in design.rates:
        if rate.parameter >= 0:
            found[rate.name] = point.rates[rate.parameter]
            continue
        says = np.tensordot(rate.cells.astype(float), cell[rate.side], ((0,), (1,)))
        weight = states[rate.states]
        found[rate.name] = (says[rate.states] * weight).sum(axis=0) / weight.sum(axis=0)
    for pair in design.pairs:
        first, second, both = (
            np.tensordot(chosen.astype(float), cell[pair.side], ((0,), (1,)))
            for chosen in (pair.first, pair.second, pair.first & pair.second)
        )
        sign = pair.sign.reshape(-1, *(1,) * (states.ndim - 1)).astype(float)
        judged = sign**2 * states
        together = (sign * states * (both - first * second)).sum(axis=0)
        spread = (judged * first * (1 - first)).sum(axis=0) * (judged * second * (1 - second)).sum(axis=0)
        found[pair.name] = together / np.sqrt(spread)
    return found


def prior_points(design: Design, draws: int, rng: np.random.Generator) -> Point:
    """Draws from the prior: (splits, groups, draws) and (rates, draws). tpr > fpr by drawing again."""
    splits = np.stack([rng.beta(a, b, (len(design.groups.output_of), draws)) for a, b in design.splits])
    layout = design.layout
    rates = np.stack([rng.beta(a, b, draws) for a, b in layout.prior]) if len(layout.prior) else np.zeros((0, draws))
    many = layout.independent
    for judge in range(many):
        for _ in range(1000):
            wrong = np.flatnonzero(rates[many + judge] <= rates[judge])
            if not len(wrong):
                break
            for row in (judge, many + judge):
                a, b = layout.prior[row]
                rates[row, wrong] = rng.beta(a, b, len(wrong))
    tiny = 1e-12
    return Point(np.clip(splits, tiny, 1 - tiny), np.clip(rates, tiny, 1 - tiny))
