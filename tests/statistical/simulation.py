"""Parameters from the prior and data from them, from the definitions: nothing here uses the design of a fit.

Priors of the panel are Dirichlets over the verdicts in a state, those of independent judges Betas given tpr > fpr.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rat_ray.model.priors import Beta, Prior
from rat_ray.model.states import STATES, UNDEFINED
from rat_ray.model.verdicts import INDEPENDENT, PANEL
from rat_ray.tables import LABEL


class Kind(NamedTuple):
    """A judge model and the judges."""

    model: str
    judges: tuple[str, str]


KINDS: Mapping[str, Kind] = {
    "panel, R and T": Kind(PANEL, ("r@x", "t@y")),
    "panel, T and T": Kind(PANEL, ("t@x", "t@y")),
    "independent, R and T": Kind(INDEPENDENT, ("r@x", "t@y")),
    "independent, T and T": Kind(INDEPENDENT, ("t@x", "t@y")),
}


class Truth(NamedTuple):
    """theta: (6,); splits: the five parameters; says: (6, 2, 2), P(first, second verdict | state)."""

    theta: np.ndarray
    splits: np.ndarray
    says: np.ndarray
    rates: Mapping[str, float]  # of independent judges


class Masks(NamedTuple):
    """(items,) booleans: what is observed; verdicts: (items, 2)."""

    r: np.ndarray
    a: np.ndarray
    t: np.ndarray
    verdicts: np.ndarray


def masks(number: int, rng: np.random.Generator) -> Masks:
    """What is observed. Odd numbers have fewer than 20 labels; the upper half of each four has A missing on some."""
    items = int(rng.integers(80, 151))
    labels = int(rng.integers(5, 20) if number % 2 else rng.integers(20, 61))
    order = rng.permutation(items)
    r, t = np.zeros(items, dtype=bool), np.zeros(items, dtype=bool)
    r[order[:labels]] = True
    shift = int(rng.integers(0, labels // 2 + 1))  # R and T are labelled on sets of items that overlap
    t[order[shift : labels + shift]] = True
    a = np.ones(items, dtype=bool)
    if number % 4 >= 2:
        a = t | (rng.random(items) > 0.3)  # T can be labelled only where A is
    return Masks(r, a, t, rng.random((items, 2)) > 0.15)


def draw_truth(kind: Kind, own: bool, rng: np.random.Generator) -> Truth:
    """From the default prior. own: judges of T give verdicts on abstentions."""
    prior = Prior()
    rho, *rest = (rng.beta(*beta) for beta in prior.splits)
    alpha, tau = rest[:2], rest[2:]
    theta = np.array([
        (rho if r else 1 - rho) * (alpha[r] if a else (1 - alpha[r]) * (tau[r] if t else 1 - tau[r]))
        for r, a, t in STATES
    ])  # fmt: skip
    says, rates = _panel(kind, own, prior, rng) if kind.model == PANEL else _independent(kind, own, prior, rng)
    return Truth(theta, np.array([rho, *rest]), says, rates)


def judged_values(kind: Kind, state: int) -> list[int]:
    """The value in a state of what each judge judges; UNDEFINED for T of an abstention."""
    return [int(STATES[state, "rat".index(judge[0])]) for judge in kind.judges]


def _panel(kind: Kind, own: bool, prior: Prior, rng: np.random.Generator) -> tuple[np.ndarray, Mapping[str, float]]:
    """Per state a Dirichlet over the verdicts of those who can give one; a judge that cannot is said to say 0."""
    says = np.zeros((6, 2, 2))
    for s in range(6):
        truths = judged_values(kind, s)
        able = [own or truth != UNDEFINED for truth in truths]
        cells = [(i, j) for i in range(2) for j in range(2) if (able[0] or i == 0) and (able[1] or j == 0)]
        weights = [
            prior.panel_floor
            + prior.panel_lean * np.prod([_right(prior, truths[j], cell[j]) for j in range(2) if able[j]])
            for cell in cells
        ]
        for cell, probability in zip(cells, rng.dirichlet(weights), strict=True):
            says[s][cell] = probability
    return says, {}


def _right(prior: Prior, truth: int, verdict: int) -> float:
    if truth == UNDEFINED:
        return 0.5
    return prior.panel_right if truth == verdict else 1 - prior.panel_right


def _independent(
    kind: Kind, own: bool, prior: Prior, rng: np.random.Generator
) -> tuple[np.ndarray, Mapping[str, float]]:
    rates: dict[str, float] = {}
    one = np.zeros((6, 2))
    for j, judge in enumerate(kind.judges):
        tpr, fpr = _better_than_chance(prior.tpr, prior.fpr, rng)
        yes = rng.beta(*prior.yes_abstained)
        rates |= {f"tpr[{judge}]": tpr, f"fpr[{judge}]": fpr}
        if own and judge[0] == "t":
            rates[f"yes[{judge},a=1]"] = yes
        one[:, j] = [{1: tpr, 0: fpr, UNDEFINED: yes if own else 0.0}[judged_values(kind, s)[j]] for s in range(6)]
    each = np.stack([1 - one, one], axis=2)  # (state, judge, verdict)
    return each[:, 0, :, None] * each[:, 1, None, :], rates


def _better_than_chance(tpr: Beta, fpr: Beta, rng: np.random.Generator) -> tuple[float, float]:
    while True:
        high, low = rng.beta(*tpr), rng.beta(*fpr)
        if high > low:
            return high, low


def observe(kind: Kind, truth: Truth, seen: Masks, rng: np.random.Generator) -> pa.Table:
    """A label table. Verdicts on T where an abstention is known are left out, as no judge is asked."""
    items = len(seen.r)
    state = rng.choice(6, size=items, p=truth.theta)
    combined = truth.says[state].reshape(items, 4).cumsum(axis=1)
    chosen = np.minimum((rng.random(items)[:, None] > combined).sum(axis=1), 3)
    verdicts = np.stack(np.divmod(chosen, 2), axis=1)
    r, a, t = STATES[state].T
    columns = {"r": (r, seen.r), "a": (a, seen.a), "t": (t, seen.t & (t != UNDEFINED))}
    for j, judge in enumerate(kind.judges):
        columns[judge] = (verdicts[:, j], seen.verdicts[:, j] & ~((judge[0] == "t") & seen.a & (a == 1)))
    return pa.table({
        name: pa.array(np.where(known, values, 0).astype(np.int8), type=LABEL, mask=~known)
        for name, (values, known) in columns.items()
    })  # fmt: skip


def log_likelihood(table: pa.Table, truth: Truth) -> float:
    """Of the table, item by item, from the definitions."""
    total = 0.0
    for row in zip(*(table.column(i).to_pylist() for i in range(5)), strict=True):
        labels, verdicts = row[:3], row[3:]
        agrees = [all(x is None or x == y for x, y in zip(labels, state, strict=True)) for state in STATES.tolist()]
        cell = tuple(slice(None) if v is None else slice(v, v + 1) for v in verdicts)
        said = truth.says[(slice(None), *cell)].sum(axis=(1, 2))
        total += float(np.log((truth.theta * agrees * said).sum()))
    return total


def derived_rate(kind: Kind, truth: Truth, name: str) -> float:
    """The rate of 1 over the states in which the judged variable is 1 (tpr), 0 (fpr) or undefined (yes)."""
    judge = name[name.index("[") + 1 :].split(",")[0].removesuffix("]")
    j = kind.judges.index(judge)
    value = {"tpr": 1, "fpr": 0, "yes": UNDEFINED}[name[:3]]
    states = [s for s in range(6) if judged_values(kind, s)[j] == value]
    one = truth.says.sum(axis=2 - j)[:, 1]
    return float((truth.theta[states] * one[states]).sum() / truth.theta[states].sum())


def correlation(kind: Kind, truth: Truth) -> float:
    """Within states, of the judges' errors, over the states in which both variables have a value."""
    shared = spread_first = spread_second = 0.0
    for s in range(6):
        truths = judged_values(kind, s)
        if UNDEFINED in truths:
            continue
        wrong = truth.says[s][::-1] if truths[0] else truth.says[s]  # axis 0: first is right, wrong
        wrong = wrong[:, ::-1] if truths[1] else wrong
        first, second = wrong[1].sum(), wrong[:, 1].sum()
        shared += truth.theta[s] * (wrong[1, 1] - first * second)
        spread_first += truth.theta[s] * first * (1 - first)
        spread_second += truth.theta[s] * second * (1 - second)
    return float(shared / np.sqrt(spread_first * spread_second))
