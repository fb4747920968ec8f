"""How the judges' verdicts come about in each state: the two models of their errors, as matrices for the program.

panel: in each state the joint distribution of all judges' verdicts is free: complete combinations are the leaves of a
tree of splits, judge by judge, so that a Dirichlet over the combinations is a Beta per split (Connor, Mosimann 1969).
States that differ only in a variable of which nothing was ever observed share one distribution.
independent: every judge has a tpr and an fpr, tpr > fpr, independent of the other judges given the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rat_ray.errors import InputError, did_you_mean
from rat_ray.model.patterns import FAILED, MISSING, TRUSTED, Code
from rat_ray.model.priors import Prior
from rat_ray.model.states import STATES, UNDEFINED

PANEL, INDEPENDENT = "panel", "independent"
JUDGE_MODELS = (PANEL, INDEPENDENT)
MOST_IN_A_PANEL = 4
Split = tuple[tuple[int, ...], tuple[int, ...]]  # (a panel's states, the verdicts of the judges before)


def check_judge_model(model: str, judges: Sequence[str] = ()) -> None:
    """Raise InputError for an unknown model, or a panel of more judges than it can have."""
    if model not in JUDGE_MODELS:
        raise InputError(f"judge_model = {model!r} is unknown{did_you_mean(model, JUDGE_MODELS)}")
    if model == PANEL and len(judges) > MOST_IN_A_PANEL:
        raise InputError(
            f"judge_model = panel has at most {MOST_IN_A_PANEL} judges, here are {len(judges)} ({', '.join(judges)}); "
            "choose some with judges=[...], or judge_model=independent, which trusts that judges do not share errors"
        )


def judged_states(judges: Sequence[str]) -> np.ndarray:
    """(judges, 6): the judged variable in each state: 1, 0 or UNDEFINED."""
    rows = [STATES[:, TRUSTED.index(judge[0])] for judge in judges]
    return np.stack(rows) if rows else np.zeros((0, len(STATES)), dtype=np.int8)


def own_rate_judges(code: Code, judges: Sequence[str]) -> list[str]:
    """The judges of T with verdicts where A is unknown: abstentions there need verdict rates of their own."""
    used = code.labels[(code.use != FAILED) & (code.n > 0)]
    unknown = used[used[:, 1] == MISSING]
    return [
        judge
        for index, judge in enumerate(judges, start=len(TRUSTED))
        if judge.startswith("t@") and bool((unknown[:, index] != MISSING).any())
    ]


@dataclass(frozen=True)
class Verdicts:
    """One side's judges. Rows of says_one and says_zero: state (slowest), then combination; columns: the rates.

    combinations: (C, judges) of 0, 1 and, without a panel, MISSING; possible: (C, 6). rates: names of the columns;
    prior: (rates, 2), Beta(one, zero). pairs: judges whose errors may go together.
    """

    judges: tuple[str, ...]
    own: tuple[str, ...]
    panel: bool
    combinations: np.ndarray
    says_one: np.ndarray
    says_zero: np.ndarray
    possible: np.ndarray
    free: tuple[str, ...]  # rates that are neither fpr nor tpr of an independent judge
    prior: np.ndarray
    splits: tuple[Split, ...] = ()

    @property
    def independent(self) -> int:
        """How many judges have an fpr and a tpr of their own."""
        return 0 if self.panel else len(self.judges)

    @property
    def rates(self) -> list[str]:
        """The names of all rates, in the order of the columns: fpr, tpr, others."""
        if self.panel:
            return list(self.free)
        return [*(f"fpr[{j}]" for j in self.judges), *(f"tpr[{j}]" for j in self.judges), *self.free]

    def sums(self, verdicts: np.ndarray) -> np.ndarray:
        """(V, C): the complete combination agrees with the verdicts, (V, judges) of 0, 1 and MISSING."""
        agree = (verdicts[:, None, :] == MISSING) | (verdicts[:, None, :] == self.combinations)
        return np.asarray(agree.all(axis=2))


def independent(judges: Sequence[str], own: Sequence[str], combinations: np.ndarray, prior: Prior) -> Verdicts:
    """combinations: those that occur, missing verdicts included. Abstentions have the rates of `own` judges only."""
    states, many = judged_states(judges), len(judges)
    size = 2 * many + len(own)
    one, zero = np.zeros((6, len(combinations), size)), np.zeros((6, len(combinations), size))
    for j, judge in enumerate(judges):
        for s, value in enumerate(states[j].tolist()):
            if value == UNDEFINED and judge not in own:
                continue  # verdicts where A = 0 is known only: no factor here
            rate = 2 * many + list(own).index(judge) if value == UNDEFINED else many * value + j
            one[s, :, rate] = combinations[:, j] == 1
            zero[s, :, rate] = combinations[:, j] == 0
    betas = [*[prior.fpr] * many, *[prior.tpr] * many, *[prior.yes_abstained] * len(own)]
    return Verdicts(
        judges=tuple(judges),
        own=tuple(own),
        panel=False,
        combinations=combinations,
        says_one=one.reshape(6 * len(combinations), size),
        says_zero=zero.reshape(6 * len(combinations), size),
        possible=np.ones((len(combinations), 6)),
        free=tuple(f"yes[{judge},a=1]" for judge in own),
        prior=np.array(betas, dtype=float).reshape(-1, 2),
    )


class _Group(NamedTuple):
    """States that share one distribution of verdicts, and the judges that can give one there."""

    states: tuple[int, ...]
    judges: tuple[int, ...]
    truths: tuple[int, ...]  # of the judges' variables, UNDEFINED for T of an abstention


def panel(judges: Sequence[str], own: Sequence[str], observed: Sequence[bool], prior: Prior) -> Verdicts:
    """observed: whether anything, a label or a verdict, was ever observed of r, a and t."""
    many = len(judges)
    combinations = np.array([[c >> (many - 1 - j) & 1 for j in range(many)] for c in range(2**many)], dtype=np.int8)
    splits: dict[Split, int] = {}
    betas: list[tuple[float, float]] = []
    entries: list[tuple[int, int, int, bool]] = []
    possible = np.ones((len(combinations), 6))
    for group in _groups(judges, own, observed):
        weights = _concentrations(group, prior)
        for s in group.states:
            others = [j for j in range(many) if j not in group.judges]
            possible[:, s] = (combinations[:, others] == 0).all(axis=1)
            for c in np.flatnonzero(possible[:, s]).tolist():
                verdicts = tuple(combinations[c, list(group.judges)].tolist())
                for depth, verdict in enumerate(verdicts):
                    split = (group.states, verdicts[:depth])
                    if split not in splits:
                        splits[split] = len(splits)
                        betas.append(_beta(weights, verdicts[:depth]))
                    entries.append((s, c, splits[split], bool(verdict)))
    says = np.zeros((2, 6, len(combinations), len(splits)))
    for s, c, split_index, verdict in entries:
        says[0 if verdict else 1, s, c, split_index] = 1
    return Verdicts(
        judges=tuple(judges),
        own=tuple(own),
        panel=True,
        combinations=combinations,
        says_one=says[0].reshape(6 * len(combinations), len(splits)),
        says_zero=says[1].reshape(6 * len(combinations), len(splits)),
        possible=possible,
        free=tuple(f"split[{index}]" for index in range(len(splits))),
        prior=np.array(betas, dtype=float).reshape(-1, 2),
        splits=tuple(splits),
    )


def _groups(judges: Sequence[str], own: Sequence[str], observed: Sequence[bool]) -> list[_Group]:
    kept = [variable for variable in range(len(TRUSTED)) if observed[variable]]
    found: dict[tuple[int, ...], list[int]] = {}
    for s in range(len(STATES)):
        found.setdefault(tuple(STATES[s, kept].tolist()), []).append(s)
    groups = []
    for states in found.values():
        truths = judged_states(judges)[:, states]
        # A state that was never told from an abstention has no judge of T either, unless it has rates of its own.
        able = [j for j, judge in enumerate(judges) if judge in own or not (truths[j] == UNDEFINED).any()]
        groups.append(_Group(tuple(states), tuple(able), tuple(int(truths[j].max()) for j in able)))
    return groups


def _concentrations(group: _Group, prior: Prior) -> np.ndarray:
    """(2, 2, ...), one axis per judge: a floor for each combination, and a mass that leans to right verdicts."""
    weights = np.array(1.0)
    for truth in group.truths:
        right = {1: (1 - prior.panel_right, prior.panel_right), 0: (prior.panel_right, 1 - prior.panel_right)}
        weights = np.multiply.outer(weights, np.array(right.get(truth, (0.5, 0.5))))
    return prior.panel_floor + prior.panel_lean * weights


def _beta(weights: np.ndarray, before: tuple[int, ...]) -> tuple[float, float]:
    rest = weights[before]
    return float(rest[1].sum()), float(rest[0].sum())


def observed_variables(code: Code, judges: Sequence[str]) -> list[bool]:
    """Whether r, a and t were ever observed: a label on any item, or a judge of it."""
    used = code.labels[(code.use != FAILED) & (code.n > 0)]
    seen = (used[:, : len(TRUSTED)] != MISSING).any(axis=0)
    return [bool(seen[v]) or any(judge[0] == name for judge in judges) for v, name in enumerate(TRUSTED)]
