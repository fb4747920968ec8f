"""Fixed truths for the coverage study: three systems, and four ways in which two judges may err.

A judge's rate of verdicts of 1 is a function of the item's state alone; the two judges are independent given the state,
except with shared errors, where the second copies the first most of the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rat_ray.model.states import ANSWERED, FOLLOWS, R1, STATES, UNDEFINED
from rat_ray.tables import LABEL


class Truth(NamedTuple):
    """A system: rho, alpha[r], tau[r]."""

    rho: float
    alpha: tuple[float, float]
    tau: tuple[float, float]

    @property
    def theta(self) -> np.ndarray:
        """(6,): the probabilities of the six states."""
        parts = []
        for r, share in ((0, 1 - self.rho), (1, self.rho)):
            a, t = self.alpha[r], self.tau[r]
            parts += [share * a, share * (1 - a) * (1 - t), share * (1 - a) * t]
        return np.array(parts)

    @property
    def p_g(self) -> float:
        """P(G=1)."""
        return float(self.theta[FOLLOWS].sum())


TRUTHS: Mapping[str, Truth] = {
    "abstainer": Truth(0.5, (0.85, 0.55), (0.3, 0.75)),
    "guesser": Truth(0.6, (0.05, 0.02), (0.1, 0.75)),
    "strong retriever": Truth(0.85, (0.5, 0.1), (0.2, 0.8)),
}


class Errors(NamedTuple):
    """Two judges. says_one: (2, 6), the rate of verdicts of 1 per state; copies: P(the second repeats the first)."""

    judges: tuple[str, str]
    says_one: np.ndarray
    copies: float = 0.0


def _rates(judge: str, tpr: float, fpr: float) -> np.ndarray:
    value = STATES[:, "rat".index(judge[0])]
    return np.where(value == 1, tpr, np.where(value == 0, fpr, 0.5))


def _by(states: np.ndarray, here: np.ndarray, elsewhere: np.ndarray) -> np.ndarray:
    return np.where(states, here, elsewhere)


ERRORS: Mapping[str, Errors] = {
    # Two good judges of T whose mistakes have nothing to do with each other.
    "independent": Errors(("t@x", "t@y"), np.stack([_rates("t@x", 0.85, 0.15), _rates("t@y", 0.8, 0.2)])),
    # Two judges of T of one family: nine times in ten the second says what the first said.
    "shared": Errors(("t@x", "t@y"), np.stack([_rates("t@x", 0.85, 0.25), _rates("t@y", 0.85, 0.25)]), 0.9),
    # A judge of R that is good where the system answered and near chance where it abstained.
    "by A": Errors(
        ("r@x", "t@y"),
        np.stack([_by(ANSWERED, _rates("r@x", 0.9, 0.1), _rates("r@x", 0.6, 0.4)), _rates("t@y", 0.8, 0.2)]),
    ),
    # Judges of T that take a well supported wrong answer for right, and an unsupported right one for wrong.
    "by R": Errors(
        ("t@x", "t@y"),
        np.stack(
            [
                _by(R1, _rates("t@x", 0.95, 0.4), _rates("t@x", 0.5, 0.05)),
                _by(R1, _rates("t@y", 0.9, 0.35), _rates("t@y", 0.55, 0.1)),
            ]
        ),
    ),
}


class Items(NamedTuple):
    """state: (items,) in 0..5; verdicts: (items, 2); order: a random order of the items, for choosing labels."""

    state: np.ndarray
    verdicts: np.ndarray
    order: np.ndarray


def draw(truth: Truth, errors: Errors, items: int, seed: int) -> Items:
    """A data set with every label and verdict."""
    rng = np.random.default_rng(seed)
    state = rng.choice(len(STATES), size=items, p=truth.theta)
    own = rng.random((2, items)) < errors.says_one[:, state]
    copied = rng.random(items) < errors.copies
    second = np.where(copied, own[0], own[1])
    return Items(state, np.stack([own[0], second], axis=1), rng.permutation(items))


def label_table(items: Items, errors: Errors, labels: int) -> pa.Table:
    """What an evaluator sees: A and both verdicts everywhere, R and T on the first `labels` of the random order."""
    known = np.zeros(len(items.state), dtype=bool)
    known[items.order[:labels]] = True
    r, a, t = STATES[items.state].T
    columns = {
        "r": _column(r, known),
        "a": _column(a, np.ones_like(known)),
        "t": _column(t, known & (t != UNDEFINED)),
    }
    for j, judge in enumerate(errors.judges):
        # A judge of T has nothing to judge where the system abstained.
        columns[judge] = _column(items.verdicts[:, j], (a == 0) | (judge[0] != "t"))
    return pa.table(columns)


def _column(values: np.ndarray, known: np.ndarray) -> pa.Array:
    return pa.array(np.where(known, values, 0).astype(np.int8), type=LABEL, mask=~known)
