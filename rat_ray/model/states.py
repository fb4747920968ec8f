"""The states of an item, the tree of yes/no splits that makes them, and the quantities that are ratios over states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

# (r, a, t) of the six states; T of an abstention is undefined, which no label equals.
UNDEFINED = -1
STATES = np.array([[0, 1, UNDEFINED], [0, 0, 0], [0, 0, 1], [1, 1, UNDEFINED], [1, 0, 0], [1, 0, 1]], dtype=np.int8)

R0, R1 = STATES[:, 0] == 0, STATES[:, 0] == 1
ABSTAINED, ANSWERED = STATES[:, 1] == 1, STATES[:, 1] == 0
WRONG, RIGHT = STATES[:, 2] == 0, STATES[:, 2] == 1
FOLLOWS = (R0 & ABSTAINED) | (R1 & RIGHT)  # G = 1: abstain iff retrieval failed, and answer rightly
ALL = np.ones(len(STATES), dtype=bool)

PARAMETERS = ("rho", "alpha[0]", "alpha[1]", "tau[0]", "tau[1]")
# Quantity: (numerator, denominator), sets of states.
RATIOS: Mapping[str, tuple[np.ndarray, np.ndarray]] = {
    "rho": (R1, ALL),
    "alpha[0]": (R0 & ABSTAINED, R0),
    "alpha[1]": (R1 & ABSTAINED, R1),
    "tau[0]": (R0 & RIGHT, R0 & ANSWERED),
    "tau[1]": (R1 & RIGHT, R1 & ANSWERED),
    "p_g": (FOLLOWS, ALL),
    "p_t": (RIGHT, ALL),
    "p_a": (ABSTAINED, ALL),
    "accuracy": (RIGHT, ANSWERED),
    "p_g[r=0]": (R0 & ABSTAINED, R0),
    "p_g[r=1]": (R1 & RIGHT, R1),
    "guess": (R0 & ANSWERED, R0),
    "lucky": (R0 & RIGHT, ALL),
    # Shares of items whose G is known once R (or T) is: by the definition of G.
    "resolved[r]": (ABSTAINED | (R0 & ANSWERED), ALL),
    "resolved[t]": (WRONG, ALL),
}
# Bits that R, T, or both tell about G when A is known: I(G; R | A) and so on.
BITS = ("info[r]", "info[t]", "info[r,t]")
BASE_QUANTITIES = tuple(RATIOS)[:13]
# Shares that are also reported for exactly the items of the table, labelled ones known exactly.
FINITE = ("rho", "p_t", "p_a", "p_g", "lucky")


def finite_name(quantity: str) -> str:
    """The quantity's share among the items of the table, as a column's name: `finite[p_g]`."""
    return f"finite[{quantity}]"


class Tree(NamedTuple):
    """States as leaves of yes/no splits: (states, splits) booleans, on the split's yes side or on its no side.

    side_state: (sides, states), the state (0 to 5) of each system in each state; one side, or two for a pair.
    """

    on_yes: np.ndarray
    on_no: np.ndarray
    side_state: np.ndarray


def tree_of_one() -> Tree:
    """rho; alpha[0], alpha[1]; tau[0], tau[1]."""
    below = [ALL, R0, R1, R0 & ANSWERED, R1 & ANSWERED]
    yes = [R1, R0 & ABSTAINED, R1 & ABSTAINED, R0 & RIGHT, R1 & RIGHT]
    return _tree(yes, below, np.arange(len(STATES))[None, :])


def tree_of_pair(same_context: bool) -> Tree:
    """r of both, then a of both, then t of both; with the same context r is one variable, and 18 states are left."""
    first, second = np.divmod(np.arange(36), 6)
    if same_context:
        kept = STATES[first, 0] == STATES[second, 0]
        first, second = first[kept], second[kept]
    labels = [STATES[side] for side in (first, second)]
    columns = [(side, variable) for variable in range(3) for side in range(2)]
    yes: list[np.ndarray] = []
    below: list[np.ndarray] = []
    groups = [np.ones(len(first), dtype=bool)]
    for side, variable in columns:
        values = labels[side][:, variable]
        grown: list[np.ndarray] = []
        for group in groups:
            ones, zeros = group & (values == 1), group & (values == 0)
            if ones.any() and zeros.any():
                yes.append(ones)
                below.append(group & (values != UNDEFINED))
            grown += [part for part in (ones, zeros, group & (values == UNDEFINED)) if part.any()]
        groups = grown
    return _tree(yes, below, np.stack([first, second]))


def _tree(yes: list[np.ndarray], below: list[np.ndarray], side_state: np.ndarray) -> Tree:
    on_yes, all_below = np.stack(yes, axis=1), np.stack(below, axis=1)
    return Tree(on_yes, all_below & ~on_yes, side_state)


def derive(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Every base quantity from the five parameters (scalars or arrays, real or complex), as in `stan/rat.stan`."""
    rho, a0, a1, t0, t1 = (parameters[name] for name in PARAMETERS)
    lucky = (1 - rho) * (1 - a0) * t0
    right = rho * (1 - a1) * t1
    p_a = (1 - rho) * a0 + rho * a1
    return {
        **{name: parameters[name] for name in PARAMETERS},
        "p_g": (1 - rho) * a0 + right,
        "p_t": lucky + right,
        "p_a": p_a,
        "accuracy": (lucky + right) / (1 - p_a),
        "p_g[r=0]": a0,
        "p_g[r=1]": (1 - a1) * t1,
        "guess": 1 - a0,
        "lucky": lucky,
    }


def information(theta: np.ndarray) -> np.ndarray:
    """(3, ...) of BITS from (6, ...) state probabilities, real or complex."""
    abstained, answered = theta[0] + theta[3], theta[1] + theta[2] + theta[4] + theta[5]
    at_abstentions = abstained * _entropy(theta[0], theta[3])
    at_answers = answered * _entropy(theta[5], answered - theta[5])
    after_r = (theta[4] + theta[5]) * _entropy(theta[5], theta[4])
    after_t = (theta[2] + theta[5]) * _entropy(theta[5], theta[2])
    return np.stack([at_abstentions + at_answers - after_r, at_answers - after_t, at_abstentions + at_answers])


def _entropy(yes: np.ndarray, no: np.ndarray) -> np.ndarray:
    total = yes + no
    p = yes / np.where(total == 0, 1.0, total)
    return np.asarray(-(_plogp(p) + _plogp(1 - p)) / np.log(2))


def _plogp(p: np.ndarray) -> np.ndarray:
    """p log p, 0 at 0."""
    return np.asarray(p * np.log(np.where(p == 0, 1.0, p)))
