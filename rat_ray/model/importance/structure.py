"""What a fit's log density is made of, from the data of `stan/rat.stan`: powers of rates, and sums of such products.

All parameters are logits u, (D,): the splits of a tree by group (group slowest), then fpr, above (tpr = fpr + (1 - fpr)
above, so that tpr > fpr) and the other rates. Logs, (L,): log p and log(1 - p) of every parameter, then log tpr of
every independent judge. A product of rates is a row of exponents over the logs; a pattern's probability is a sum of
such products.

The tree need not be the prior's: `trees` has others. The prior is then written with the masses of its own tree's nodes,
which are one more kind of pattern (with any real weight).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rat_ray.model.engines import StanData
from rat_ray.model.importance.trees import Splits, below_one_node, path_to, splits_of

MOST_TERMS = 3000  # beyond them NUTS' own vectorised sums cost less than ours


class TooManyTerms(RuntimeError):
    """Pairs of systems with two panels: sums over too many combinations."""


@dataclass(frozen=True)
class Structure:
    """What depends on the patterns only.

    parameters: D; judges: independent ones, I; fpr: the first of their parameters. terms: (M, L) exponents of the
    products, those of the states of each group first (group slowest). sums: (N, M), which products a sum adds up.
    base, base_n: (L,) and (N,), weights of the logs and of the sums by prior and Jacobian; jacobian, jacobian_n: by the
    latter alone.
    rows, rows_n: (P + given, L) and (P + given, N), weights that an item of each pattern adds.
    known, known_n: (2 splits, L) and (2 splits, N), of an item that went the yes way of each split, then the no way.
    one, zero: (rates, L) exponents of each rate and of its complement, in the columns of the program.
    judged: (2, I, states of all groups), where each independent judge's variable is 1, and 0.
    """

    parameters: int
    judges: int
    fpr: int
    terms: np.ndarray
    sums: np.ndarray
    base: np.ndarray
    base_n: np.ndarray
    jacobian: np.ndarray
    jacobian_n: np.ndarray
    rows: np.ndarray
    rows_n: np.ndarray
    known: np.ndarray
    known_n: np.ndarray
    one: np.ndarray
    zero: np.ndarray
    judged: np.ndarray


class Counts(NamedTuple):
    """The weights of the logs, (L,), and of the sums, (N,), in the log density."""

    powers: np.ndarray
    n: np.ndarray


def counts_of(data: StanData, structure: Structure) -> Counts:
    """The counts of the data that the structure was made from."""
    if data["prior_only"]:
        return Counts(structure.base, structure.base_n)
    known = np.concatenate([np.asarray(data[name]).T.reshape(-1) for name in ("known_yes", "known_no")])
    given = np.asarray(data["n_given"])
    n = np.concatenate([np.asarray(data["n"]), -given[given > 0]])
    powers = structure.base + known @ structure.known + n @ structure.rows
    powers += np.asarray(data["known_one"]) @ structure.one + np.asarray(data["known_zero"]) @ structure.zero
    return Counts(powers, structure.base_n + known @ structure.known_n + n @ structure.rows_n)


class Builder:
    """Makes a structure; who wants more products than the patterns' asks for them before."""

    def __init__(self, data: StanData, tree: Splits | None = None) -> None:
        self._data = data
        self._prior_tree = splits_of(data)
        self._tree = tree or self._prior_tree
        groups, many, other = _whole(data["H"]), _whole(data["I"]), _whole(data["Q"])
        self._splits = self._tree.on_yes.shape[1] * groups
        self._judges = many
        self._parameters = self._splits + 2 * many + other
        self._logs = 2 * self._parameters + many
        self._rates = _rates(self._splits, many, other, self._parameters, self._logs)
        self.terms = Terms(data, self._tree, self._parameters, self._logs, self._rates)
        self._sums: list[list[int]] = []
        self._patterns = self._of_patterns()
        self._lifted = self._lift()
        self._nodes = [] if self._tree is self._prior_tree else self._masses_of_nodes()

    def structure(self) -> Structure:
        terms = self.terms.rows()
        sums = np.zeros((len(self._sums), len(terms)))
        for row, places in enumerate(self._sums):
            np.add.at(sums[row], places, 1)
        rows, rows_n = self._put(self._patterns)
        known, known_n = self._put(self._lifted)
        jacobian, jacobian_n = self._jacobian()
        prior, prior_n = self._prior(known, known_n)
        return Structure(
            self._parameters,
            self._judges,
            self._splits,
            terms,
            sums,
            jacobian + prior,
            jacobian_n + prior_n,
            jacobian,
            jacobian_n,
            rows,
            rows_n,
            known,
            known_n,
            self._rates.one,
            self._rates.zero,
            self._judged(),
        )

    def _judged(self) -> np.ndarray:
        """Of the first side that a judge speaks on; everywhere where it never did."""
        data, many = self._data, self._judges
        found = np.zeros((2, many, _whole(data["S"])))
        for j in range(many):
            for side in range(_whole(data["B"])):
                said = np.asarray(data["says_one"])[side] + np.asarray(data["says_zero"])[side]
                told = said.reshape(6, _whole(data["C"]), said.shape[1]).any(axis=1)
                own = np.asarray(data["side_state"])[side] - 1
                one, zero = told[own, many + j], told[own, j]
                if one.any() and zero.any():
                    found[0, j], found[1, j] = one, zero
                    break
            else:
                found[:, j] = 1
        return np.tile(found, (1, 1, _whole(data["H"])))

    def _prior(self, known: np.ndarray, known_n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Betas of the prior's splits and of the rates."""
        data, rates, groups = self._data, self._rates, _whole(self._data["H"])
        betas = np.concatenate([np.tile(np.asarray(data[f"prior_{side}"]) - 1, groups) for side in ("yes", "no")])
        of_rates = (np.asarray(data["prior_one"]) - 1) @ rates.one + (np.asarray(data["prior_zero"]) - 1) @ rates.zero
        return betas @ known + of_rates, betas @ known_n

    def _jacobian(self) -> tuple[np.ndarray, np.ndarray]:
        """Of the logits, p (1 - p), and of the tree: leaves' probabilities by splits, the masses of all nodes."""
        powers, n = np.ones(self._logs), np.zeros(len(self._sums))
        powers[2 * self._parameters :] = 0
        powers[self._parameters + self._splits : self._parameters + self._splits + self._judges] = 2  # of tpr by above
        of_logs, of_sums = self._put(self._nodes)
        return powers + of_logs.sum(axis=0), n + of_sums.sum(axis=0)

    def _masses_of_nodes(self) -> list[list[_Part]]:
        groups = range(_whole(self._data["H"]))
        both = ((self._tree, 1.0), (self._prior_tree, -1.0))
        return [self._mass(node, group, sign) for tree, sign in both for group in groups for node in tree.nodes]

    def _lift(self) -> list[list[_Part]]:
        """Per group and split of the prior's tree, first yes, then no: its share as masses over masses."""
        tree, found = self._prior_tree, []
        for side in (tree.on_yes, tree.on_no):
            for group in range(_whole(self._data["H"])):
                for split in range(tree.on_yes.shape[1]):
                    if self._tree is tree:
                        found.append([_Part(1.0, self._share(split, group, side is tree.on_yes), None)])
                        continue
                    below = tree.on_yes[:, split] | tree.on_no[:, split]
                    found.append([*self._mass(side[:, split], group, 1.0), *self._mass(below, group, -1.0)])
        return found

    def _share(self, split: int, group: int, yes: bool) -> np.ndarray:
        row = np.zeros(self._logs)
        row[(0 if yes else self._parameters) + group * self._tree.on_yes.shape[1] + split] = 1
        return row

    def _of_patterns(self) -> list[list[_Part]]:
        """The patterns, then the labels alone of those that calibrate judges."""
        data = self._data
        agree, group = np.asarray(data["agree"]) > 0, np.asarray(data["group"]) - 1
        verdicts = np.asarray(data["verdicts"]) - 1
        found = [self._pattern(agree[p], group[p], verdicts[:, p].tolist()) for p in range(len(agree))]
        given = np.flatnonzero(np.asarray(data["n_given"]) > 0)
        labels = np.asarray(data.get("agree_given", agree)) > 0
        return found + [self._mass(labels[p], group[p], 1.0) for p in given.tolist()]

    def _pattern(self, agree: np.ndarray, group: int, said: list[int]) -> list[_Part]:
        if self.terms.silent(said):
            return self._mass(agree, group, 1.0)
        states = np.flatnonzero(agree).tolist()
        return [self._sum([term for s in states for term in self.terms.in_state(s, group, said)], 1.0)]

    def _mass(self, states: np.ndarray, group: int, sign: float) -> list[_Part]:
        """The log of the probability of some states: a product if they are a node of the tree, else a sum."""
        if states.all():
            return []
        if below_one_node(self._tree, states):
            yes, no = path_to(self._tree, states)
            return [_Part(sign, self.terms.path(yes, no, group), None)]
        first = group * len(states)
        return [self._sum((first + np.flatnonzero(states)).tolist(), sign)]

    def _sum(self, terms: list[int], sign: float) -> _Part:
        if terms not in self._sums:
            self._sums.append(terms)
        return _Part(sign, None, self._sums.index(terms))

    def _put(self, rows: list[list[_Part]]) -> tuple[np.ndarray, np.ndarray]:
        """(rows, L) and (rows, N)."""
        powers, n = np.zeros((len(rows), self._logs)), np.zeros((len(rows), len(self._sums)))
        for row, parts in enumerate(rows):
            for part in parts:
                if part.powers is not None:
                    powers[row] += part.sign * part.powers
                elif part.sum is not None:
                    n[row, part.sum] += part.sign
        return powers, n


class _Part(NamedTuple):
    """A factor of a probability: a product of powers, or one of the sums."""

    sign: float
    powers: np.ndarray | None
    sum: int | None


class Rates(NamedTuple):
    """The program's rates among the logs. one, zero: (rates, L)."""

    one: np.ndarray
    zero: np.ndarray


def _whole(value: int | np.ndarray) -> int:
    return int(value)


def _rates(splits: int, many: int, other: int, parameters: int, logs: int) -> Rates:
    """fpr, tpr, others: log(1 - tpr) = log(1 - fpr) + log(1 - above)."""
    one, zero = np.zeros((2 * many + other, logs)), np.zeros((2 * many + other, logs))
    for j in range(many):
        one[j, splits + j] = 1
        zero[[j, many + j], parameters + splits + j] = 1
        one[many + j, 2 * parameters + j] = 1
        zero[many + j, parameters + splits + many + j] = 1
    for q in range(other):
        one[2 * many + q, splits + 2 * many + q] = 1
        zero[2 * many + q, parameters + splits + 2 * many + q] = 1
    return Rates(one, zero)


class Terms:
    """The distinct products, numbered as they come; the states of each group are the first."""

    def __init__(self, data: StanData, tree: Splits, parameters: int, logs: int, rates: Rates) -> None:
        self._data, self._tree, self._rates = data, tree, rates
        self._parameters, self._logs = parameters, logs
        self._states = _whole(data["S"])
        leaves = [(tree.on_yes[s], tree.on_no[s]) for s in range(self._states)]
        self._rows = [self.path(yes, no, group) for group in range(_whole(data["H"])) for yes, no in leaves]
        self._number = {row.tobytes(): index for index, row in enumerate(self._rows)}

    def rows(self) -> np.ndarray:
        return np.stack(self._rows)

    def path(self, yes: np.ndarray, no: np.ndarray, group: int) -> np.ndarray:
        """Exponents of a path down the tree of a group. yes, no: (splits,)."""
        row = np.zeros(self._logs)
        first = group * len(yes)
        row[first : first + len(yes)] = yes
        row[self._parameters + first : self._parameters + first + len(yes)] = no
        return row

    def silent(self, said: list[int]) -> bool:
        """Whether no judge said anything."""
        return all(self._silent(side, verdict) for side, verdict in enumerate(said))

    def in_state(self, state: int, group: int, said: list[int]) -> list[int]:
        """The products of one state and what the sides' judges said."""
        rows = [self._rows[group * self._states + state]]
        for side, verdict in enumerate(said):
            if self._silent(side, verdict):
                continue
            cells = [verdict]
            if self._data["panel"]:
                cells = np.flatnonzero(np.asarray(self._data["sums"])[side, verdict]).tolist()
            factors = self._cells(side, state, cells)
            if len(rows) * len(factors) > MOST_TERMS:
                raise TooManyTerms
            rows = [row + factor for row in rows for factor in factors]
        return [self._place(row) for row in rows]

    def in_cell(self, side: int, state: int, combination: int) -> int | None:
        """The product of a state of the first group and a complete combination; None where it cannot be."""
        factors = self._cells(side, state, [combination])
        return self._place(self._rows[state] + factors[0]) if factors else None

    def _silent(self, side: int, verdict: int) -> bool:
        if self._data["panel"]:
            return bool((np.asarray(self._data["sums"])[side, verdict] > 0).all())
        rows = slice(verdict, None, _whole(self._data["C"]))
        return not any(np.asarray(self._data[name])[side][rows].any() for name in ("says_one", "says_zero"))

    def _place(self, row: np.ndarray) -> int:
        key = row.tobytes()
        if key not in self._number:
            if len(self._rows) >= MOST_TERMS:
                raise TooManyTerms
            self._number[key] = len(self._rows)
            self._rows.append(row)
        return self._number[key]

    def _cells(self, side: int, state: int, combinations: list[int]) -> list[np.ndarray]:
        """Exponents of the judges' combinations in a state."""
        data = self._data
        own = int(np.asarray(data["side_state"])[side, state]) - 1
        possible = np.asarray(data["possible"])[side][:, own] > 0
        places = [own * _whole(data["C"]) + c for c in combinations if possible[c]]
        one, zero = np.asarray(data["says_one"])[side], np.asarray(data["says_zero"])[side]
        return [one[p] @ self._rates.one + zero[p] @ self._rates.zero for p in places]
