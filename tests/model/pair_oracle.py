"""The exact posterior of two systems on the same questions: a tree of independent Betas, completions summed over.

The order of the tree is r of both, a of both, t of both; with the same context there is one r. Written apart from the
product: it shares nothing with it but `Prior` and the floor of a split's prior.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import betaln

from rat_ray.model import Prior
from rat_ray.model.pair_design import FLOOR
from tests.model.tables import Row

STATES = [(0, 1, None), (0, 0, 0), (0, 0, 1), (1, 1, None), (1, 0, 0), (1, 0, 1)]
GOOD = (0, 5)
Path = tuple[int | None, ...]  # r1, r2, a1, a2, t1, t2 decided so far; None where T is undefined
Pair = tuple[int, int]  # states of the two systems


class Split(NamedTuple):
    """Path before it; prior (a, b) of its yes."""

    path: Path
    a: float
    b: float


def pairs(same: bool) -> list[Pair]:
    """The joint states."""
    return [(i, j) for i, j in itertools.product(range(6), repeat=2) if not same or STATES[i][0] == STATES[j][0]]


def path_of(pair: Pair) -> Path:
    """r1, r2, a1, a2, t1, t2."""
    one, two = (STATES[state] for state in pair)
    return tuple(value for both in zip(one, two, strict=True) for value in both)


def splits(same: bool, prior: Prior) -> list[Split]:
    """Every split with more than one way to go, once."""
    found: dict[Path, Split] = {}
    for pair in pairs(same):
        whole = path_of(pair)
        for depth, value in enumerate(whole):
            if value is None or (same and depth == 1):
                continue
            path = whole[:depth]
            found.setdefault(path, Split(path, *_beta(path, same, prior)))
    return list(found.values())


def _beta(path: Path, same: bool, prior: Prior) -> tuple[float, float]:
    side, other = len(path) % 2, 1 - len(path) % 2
    mine, theirs = path[side::2], path[other::2]
    own = (prior.rho, prior.alpha0, prior.tau0) if not mine or mine[0] == 0 else (None, prior.alpha1, prior.tau1)
    beta = own[len(mine)]
    assert beta is not None
    share = _chance(theirs, prior)
    if same and theirs:
        share /= _chance(theirs[:1], prior)
    share = max(share, min(1.0, FLOOR / min(beta)))
    return beta[0] * share, beta[1] * share


def _chance(path: Path, prior: Prior) -> float:
    """The prior mean of one system's values so far: r, a, t."""
    share = 1.0
    for depth, value in enumerate(path):
        if value is None:
            continue
        r1 = depth > 0 and path[0] == 1
        a, b = (prior.rho, prior.alpha1 if r1 else prior.alpha0, prior.tau1 if r1 else prior.tau0)[depth]
        share *= (a if value else b) / (a + b)
    return share


def draws(
    rows: Sequence[tuple[Row, Row]],
    same: bool,
    prior: Prior,
    many: int,
    seed: int,
    verdicts: Sequence[tuple[int | None, int | None]] | None = None,
) -> np.ndarray:
    """(36, draws) of the joint probabilities: from every completion of the items, each as often as it weighs.

    rows: (r, a, t) of both systems, None where missing. verdicts: of a panel of one judge of T for each system, only
    where it is known to have answered; then r, a and t must each be known in some row, so that no states share a rate.
    """
    tree, states = splits(same, prior), pairs(same)
    found = _completions(rows, states, verdicts or [(None, None)] * len(rows))
    cells = np.array(list(found)).reshape(-1, len(states), 3, 3)
    counts = cells.sum(axis=(2, 3))
    yes, no = (np.array([leads(split.path, state, value) for split in tree for state in states]).reshape(len(tree), -1)
               for value in (1, 0))  # fmt: skip
    a = np.array([split.a for split in tree]) + counts @ yes.T
    b = np.array([split.b for split in tree]) + counts @ no.T
    logs = np.log(np.array(list(found.values()), dtype=float)) + betaln(a, b).sum(axis=1)
    for side in range(2):
        logs = logs + _panel(cells.sum(axis=3 - side), [pair[side] for pair in states], prior)
    weights = np.exp(logs - logs.max())
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(weights), many, p=weights / weights.sum())
    log_yes, log_no = log_betas(rng, a[chosen], b[chosen])
    theta = np.exp(log_yes @ yes + log_no @ no)
    whole = np.zeros((36, many))
    for number, (i, j) in enumerate(states):
        whole[6 * i + j] = theta[:, number]
    return whole


def log_betas(rng: np.random.Generator, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log p and log(1 - p) of Beta draws; of small a and b, p itself would often be 0 or 1 to rounding."""
    one, two = (np.maximum(rng.gamma(shape), 1e-300) for shape in (a, b))
    return np.log(one) - np.log(one + two), np.log(two) - np.log(one + two)


def leads(path: Path, state: Pair, value: int) -> bool:
    """Whether the split at the path, taken to that value, leads to the state."""
    whole = path_of(state)
    return whole[: len(path)] == path and whole[len(path)] == value


def _panel(said: np.ndarray, own: Sequence[int], prior: Prior) -> np.ndarray:
    """Log probability of a judge's verdicts on T. said: (completions, states, 0, 1 or none); own: the states."""
    total = np.zeros(len(said))
    for state, (_, _, t) in enumerate(STATES):
        if t is None:
            continue
        zeros, ones = said[:, np.array(own) == state].sum(axis=1)[:, :2].T
        right = prior.panel_right if t else 1 - prior.panel_right
        a, b = (prior.panel_floor + prior.panel_lean * share for share in (right, 1 - right))
        total += betaln(a + ones, b + zeros) - betaln(a, b)
    return total


def _completions(
    rows: Sequence[tuple[Row, Row]], states: Sequence[Pair], verdicts: Sequence[tuple[int | None, int | None]]
) -> Counter[tuple[int, ...]]:
    """How often each vector of counts over (state, first's verdict, second's verdict) comes about."""
    found: Counter[tuple[int, ...]] = Counter({(0,) * (9 * len(states)): 1})
    for both, said in zip(rows, verdicts, strict=True):
        one, two = (2 if verdict is None else verdict for verdict in said)
        fitting = [
            9 * number + 3 * one + two
            for number, pair in enumerate(states)
            if all(
                label is None or label == value
                for row, state in zip(both, pair, strict=True)
                for label, value in zip(row, STATES[state], strict=True)
            )
        ]
        grown: Counter[tuple[int, ...]] = Counter()
        for counts, ways in found.items():
            for cell in fitting:
                grown[(*counts[:cell], counts[cell] + 1, *counts[cell + 1 :])] += ways
        found = grown
    return found


def ratios(theta: np.ndarray) -> list[dict[str, np.ndarray]]:
    """Quantities of both systems from (36, draws)."""
    grid = theta.reshape(6, 6, -1)
    return [_ratios(grid.sum(axis=1)), _ratios(grid.sum(axis=0))]


def _ratios(own: np.ndarray) -> dict[str, np.ndarray]:
    abstained0, wrong0, right0, abstained1, wrong1, right1 = own
    r0, r1 = own[:3].sum(axis=0), own[3:].sum(axis=0)
    return {
        "rho": r1,
        "alpha[0]": abstained0 / r0,
        "alpha[1]": abstained1 / r1,
        "tau[0]": right0 / (wrong0 + right0),
        "tau[1]": right1 / (wrong1 + right1),
        "p_g": abstained0 + right1,
        "p_t": right0 + right1,
        "p_a": abstained0 + abstained1,
        "accuracy": (right0 + right1) / (wrong0 + right0 + wrong1 + right1),
        "p_g[r=0]": abstained0 / r0,
        "p_g[r=1]": right1 / r1,
        "guess": 1 - abstained0 / r0,
        "lucky": right0,
        "resolved[r]": 1 - wrong1 - right1,
        "resolved[t]": wrong0 + wrong1,
    }
