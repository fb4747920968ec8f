"""The error to expect of a strategy by a formula: the Fisher information of what it labels, instead of bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rat_ray.allocate.behaviour import Behaviour, behaviours, seen
from rat_ray.allocate.costs import Costs
from rat_ray.model.states import PARAMETERS, RATIOS

_SINGULAR = 1e-9  # of an eigenvalue, when the largest is about 1
_STEP = 1e-30  # of complex-step differentiation, exact to rounding
_JOINT = Behaviour(1.0, np.ones(6, dtype=bool), np.ones(6, dtype=bool))
_NOTHING = Behaviour(1.0, np.zeros(6, dtype=bool), np.zeros(6, dtype=bool))


class Plan(NamedTuple):
    """What a study spends. finite: the target is the share among exactly its items."""

    base: int
    items: int
    costs: Costs
    finite: bool


def states_of(parameters: np.ndarray) -> np.ndarray:
    """(6, ...) shares of `states.STATES` from (5, ...) values of `states.PARAMETERS`, real or complex."""
    rho, a0, a1, t0, t1 = parameters
    low, high = (1 - rho) * (1 - a0), rho * (1 - a1)
    return np.stack([(1 - rho) * a0, low * (1 - t0), low * t0, rho * a1, high * (1 - t1), high * t1])


def parameters_of(theta: np.ndarray) -> np.ndarray:
    """(5, ...) values of `states.PARAMETERS` from (6, ...) shares of the states."""
    return np.stack([theta[RATIOS[name][0]].sum(axis=0) / theta[RATIOS[name][1]].sum(axis=0) for name in PARAMETERS])


def expected_sd(
    theta: np.ndarray, strategy: str, budgets: Sequence[float], plan: Plan, quantity: str = "p_g"
) -> np.ndarray:
    """(budgets,) the standard error of a quantity when a strategy has spent each budget, to first order.

    theta: (6,) shares of the states. The information of the base, of the items that the budget reaches, and of A on the
    rest is added; the variance is g' I^-1 g. Against the share among exactly the items it is smaller by that of a table
    in which everything is labelled (Hausman 1978: an efficient estimate is uncorrelated with what others lack of it).
    The prior is left out: it matters where a base is small. NaN where the labels do not settle the quantity.
    """
    parameters = parameters_of(theta)
    jacobian = np.stack([_derivative(states_of, parameters, index) for index in range(len(parameters))], axis=1)
    gradient = np.array([_derivative(lambda at: _ratio(states_of(at), quantity), parameters, i) for i in range(5)])
    whole = _information(theta, jacobian, _JOINT)
    least = _variance(gradient, plan.items * whole) if plan.finite else 0.0
    acts = behaviours(strategy)
    cost = sum(one.share * one.cost(theta, plan.costs) for one in acts)
    bought = sum(one.share * _information(theta, jacobian, one) for one in acts)
    nothing = _information(theta, jacobian, _NOTHING)
    found = []
    for budget in budgets:
        reached = min(budget / cost, plan.items - plan.base) if cost > 0 else 0.0
        rest = plan.items - plan.base - reached
        found.append(_variance(gradient, plan.base * whole + reached * bought + rest * nothing) - least)
    # Rounding may leave a little less than nothing.
    return np.sqrt(np.maximum(found, 0.0))


def _information(theta: np.ndarray, jacobian: np.ndarray, behaviour: Behaviour) -> np.ndarray:
    """(5, 5) Fisher information of one item of which this is seen beside A."""
    found = np.zeros((5, 5))
    for states in seen(behaviour):
        p, slope = theta[states].sum(), jacobian[states].sum(axis=0)
        if p > 0:
            found += np.outer(slope, slope) / p
    return found


def _variance(gradient: np.ndarray, information: np.ndarray) -> float:
    """g' I^-1 g; NaN where I is singular, or as good as that."""
    scale = np.sqrt(np.diag(information))
    if not (scale > 0).all():
        return float("nan")
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    if values[0] < _SINGULAR:
        return float("nan")
    return float(((vectors.T @ (gradient / scale)) ** 2 / values).sum())


def _ratio(theta: np.ndarray, quantity: str) -> np.ndarray:
    above, below = RATIOS[quantity]
    return np.asarray(theta[above].sum(axis=0) / theta[below].sum(axis=0))


def _derivative(function: object, parameters: np.ndarray, index: int) -> np.ndarray:
    assert callable(function)
    moved = parameters.astype(complex)
    moved[index] += 1j * _STEP
    return np.asarray(np.imag(function(moved)) / _STEP)
