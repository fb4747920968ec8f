"""From count tables to the data of `stan/rat.stan`, and from the program's columns back to the names of quantities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rat_ray.errors import InputError
from rat_ray.model.cells import Cells, cells_of, join_cells, shift
from rat_ray.model.collapse import Collapsed, collapse
from rat_ray.model.engines import StanData
from rat_ray.model.layout import Items, Layout, lay_out
from rat_ray.model.patterns import CALIBRATION, FAILED, FIT, MISSING, TRUSTED, Code
from rat_ray.model.policy import Policy, quantities_of
from rat_ray.model.priors import Prior
from rat_ray.model.rates import Pair, Rate, as_columns, pairs_of, rates_of
from rat_ray.model.states import (
    BITS,
    STATES,
    Tree,
    finite_name,
    tree_of_one,
)
from rat_ray.model.verdicts import (
    PANEL,
    Verdicts,
    check_judge_model,
    independent,
    observed_variables,
    own_rate_judges,
    panel,
)

MOST_INT = 2**31 - 1  # of Stan's integers


@dataclass(frozen=True)
class Options:
    """What else shapes a fit. finite: also the shares among the items of the table; replicate: for checks."""

    judge_model: str = PANEL
    policy: Policy = Policy()
    finite: bool = True
    replicate: bool = True
    prior_only: bool = False


class Groups(NamedTuple):
    """Groups of items with state probabilities of their own. output_of, share_n: (groups,); names: of the outputs."""

    output_of: np.ndarray
    share_n: np.ndarray
    names: tuple[str, ...]

    @property
    def mixed(self) -> np.ndarray:
        """(outputs,): whether several groups make the output."""
        return np.bincount(self.output_of, minlength=len(self.names)) > 1


@dataclass(frozen=True)
class Design:
    """A fit, ready to sample. ratios: (numerator, denominator) over the tree's states, per quantity."""

    tree: Tree
    splits: np.ndarray
    items: Items
    groups: Groups
    sides: tuple[Verdicts, ...]
    ratios: Mapping[str, tuple[np.ndarray, np.ndarray]]
    finite: tuple[str, ...]
    cells_of_outputs: tuple[Cells, ...] = ()  # to replicate; strata number the groups
    prior_only: bool = False

    @cached_property
    def cells(self) -> Cells | None:
        """The cells of all outputs."""
        return join_cells(self.cells_of_outputs) if self.cells_of_outputs else None

    @property
    def informs(self) -> bool:
        """Whether there is information about G to report: of one system's six states."""
        return len(self.tree.on_yes) == len(STATES)

    @property
    def columns(self) -> dict[str, str]:
        """Every quantity of the first output, and the program's column that holds it."""
        return self.columns_of(0)

    def columns_of(self, output: int) -> dict[str, str]:
        """Every quantity of an output, and the program's column that holds it."""
        o = output + 1
        found = {name: f"ratio[{i},{o}]" for i, name in enumerate(self.ratios, start=1)}
        if self.informs:
            found |= {name: f"bits[{i},{o}]" for i, name in enumerate(BITS, start=1)}
        found |= {finite_name(name): f"finite[{i},{o}]" for i, name in enumerate(self.finite, start=1)}
        found |= {rate.name: f"rate[{i},{o}]" for i, rate in enumerate(self.rates, start=1)}
        return found | {pair.name: f"correlation[{i},{o}]" for i, pair in enumerate(self.pairs, start=1)}

    @property
    def rates(self) -> list[Rate]:
        """The judges' reported rates."""
        if len(self.sides) > 1:
            return []  # of a pair of systems each judge's rates are in the system's own fit
        return rates_of(self.sides)

    @property
    def pairs(self) -> list[Pair]:
        """Pairs of judges whose errors may go together."""
        if len(self.sides) > 1:
            return []
        return pairs_of(self.sides)

    def data(self) -> StanData:
        """The data block of `stan/rat.stan`."""
        return {**self._state_data(), **self._judge_data(), **self._result_data(), **self._cell_data()}

    @cached_property
    def collapsed(self) -> Collapsed:
        """What of the likelihood is a product of the splits' and rates' own powers, and which patterns are left."""
        return collapse(self.tree, self.items, self.layout, self.sides, len(self.groups.output_of))

    def _state_data(self) -> StanData:
        states, splits = self.tree.on_yes.shape
        left = self.collapsed.left
        items = self.items.take(left)
        return {
            "known_yes": self.collapsed.yes,
            "known_no": self.collapsed.no,
            "S": states,
            "on_yes": self.tree.on_yes.astype(float),
            "on_no": self.tree.on_no.astype(float),
            "prior_yes": self.splits[:, 0].reshape(splits),
            "prior_no": self.splits[:, 1].reshape(splits),
            "H": len(self.groups.output_of),
            "P": len(items.n),
            "n": items.n.astype(float),
            "n_given": items.n_given.astype(float),
            "agree": items.agree.astype(float).reshape(-1, states),
            "group": items.group + 1,
            "prior_only": int(self.prior_only),
        }

    def _judge_data(self) -> StanData:
        layout = self.layout
        sides = len(self.sides)
        rates = layout.prior.shape[0]
        return {
            "B": sides,
            "side_state": self.tree.side_state[:sides] + 1,
            "C": layout.possible.shape[1],
            "V": layout.used,
            "verdicts": layout.place[:, self.collapsed.left] + 1,
            "known_one": self.collapsed.one,
            "known_zero": self.collapsed.zero,
            "panel": int(any(side.panel for side in self.sides)),
            "sums": layout.sums.astype(float),
            "I": layout.independent,
            "Q": rates - 2 * layout.independent,
            "says_one": layout.says_one,
            "says_zero": layout.says_zero,
            "possible": layout.possible,
            "prior_one": layout.prior[:, 0].reshape(rates),
            "prior_zero": layout.prior[:, 1].reshape(rates),
        }

    def _result_data(self) -> StanData:
        states = self.tree.on_yes.shape[0]
        combinations = self.layout.possible.shape[1]
        rates, pairs, names = self.rates, self.pairs, list(self.ratios)
        open_, open_n, known = self._allocation()
        return {
            "O": len(self.groups.names),
            "output_of": self.groups.output_of + 1,
            "share_n": self.groups.share_n.astype(float),
            "mixed": self.groups.mixed.astype(int),
            "R": len(names),
            "numerator": np.array([self.ratios[name][0] for name in names], dtype=float).reshape(-1, states),
            "denominator": np.array([self.ratios[name][1] for name in names], dtype=float).reshape(-1, states),
            "informs": int(self.informs),
            "K": len(rates),
            "rate_side": np.array([rate.side + 1 for rate in rates], dtype=int),
            "rate_parameter": np.array([rate.parameter + 1 for rate in rates], dtype=int),
            "rate_cells": as_columns([rate.cells for rate in rates], combinations),
            "rate_states": as_columns([rate.states for rate in rates], len(STATES)),
            "M": len(pairs),
            "pair_side": np.array([pair.side + 1 for pair in pairs], dtype=int),
            "pair_first": as_columns([pair.first for pair in pairs], combinations),
            "pair_second": as_columns([pair.second for pair in pairs], combinations),
            "pair_sign": as_columns([pair.sign for pair in pairs], len(STATES)),
            "F": len(self.finite),
            "finite_row": np.array([names.index(name) + 1 for name in self.finite], dtype=int),
            "known": known if self.finite else np.zeros((0, len(self.groups.names))),
            "U": len(open_),
            "open_agree": self.items.agree[open_].astype(float).reshape(-1, states),
            "open_group": self.items.group[open_] + 1,
            "open_verdicts": self.layout.place[:, open_] + 1,
            "open_n": open_n,
        }

    def _cell_data(self) -> StanData:
        states, sides = self.tree.on_yes.shape[0], len(self.sides)
        if self.cells is None or not len(self.cells.n):
            return {
                "L": 0,
                "cell_agree": np.zeros((0, states)),
                "cell_group": np.zeros(0, dtype=int),
                "cell_verdicts": np.zeros((sides, 0), dtype=int),
                "G": 0,
                "block_start": np.zeros(0, dtype=int),
                "block_stop": np.zeros(0, dtype=int),
                "block_n": np.zeros(0, dtype=int),
            }
        cells = self.cells
        return {
            "L": len(cells.n),
            "cell_agree": agreement(cells.labels).astype(float),
            "cell_group": cells.stratum + 1,
            "cell_verdicts": self.layout.cell_place + 1,
            "G": len(cells.blocks),
            "block_start": cells.blocks[:, 0] + 1,
            "block_stop": cells.blocks[:, 1],
            "block_n": cells.block_n,
        }

    def _allocation(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Patterns that agree with several states, their items, and (states, outputs) items whose state is known."""
        items = self.items
        n = items.n - items.n_given
        several = (items.agree.sum(axis=1) > 1) & (n > 0) & bool(self.finite)
        known = np.zeros((items.agree.shape[1], len(self.groups.names)))
        output = self.groups.output_of[items.group]
        for row in np.flatnonzero(~several & (n > 0)).tolist():
            known[items.agree[row], output[row]] += n[row]
        return np.flatnonzero(several), n[several].astype(np.int64), known

    @cached_property
    def layout(self) -> Layout:
        """The judges' matrices over all sides, in the columns of the program."""
        return lay_out(self.sides, self.items, self.cells)


def agreement(labels: np.ndarray, states: np.ndarray = STATES) -> np.ndarray:
    """(patterns, 6) of booleans: the state agrees with the pattern's r, a and t. labels: (patterns, 3 or more)."""
    trusted = labels[:, None, : len(TRUSTED)]
    return np.asarray(((trusted == MISSING) | (trusted == states)).all(axis=2))


def informative(code: Code) -> Code:
    """The patterns that inform the fit or the judges."""
    return code.take((code.use != FAILED) & (code.n > 0))


def design_of(codes: Mapping[str, Code], judges: Sequence[str], prior: Prior, options: Options) -> Design:
    """The fit of one system (its count table by name), or of several that share their judges' rates.

    Raises InputError for an unknown judge model or too many judges for a panel.
    """
    check_judge_model(options.judge_model, judges)
    kept = {name: informative(code) for name, code in codes.items()}
    items, groups = _put_together(kept)
    whole = Code(
        np.concatenate([code.labels for code in kept.values()]),
        np.concatenate([code.use for code in kept.values()]),
        items.group.astype(np.int32),
        items.n,
        items.n,
    )
    weighted = any(not np.array_equal(code.stands_for, code.n) for code in kept.values())
    countable = bool(items.n.sum() <= MOST_INT)
    ratios, finite = quantities_of(options.policy)
    cells: list[Cells] = []
    if options.replicate and countable:
        first = np.cumsum([0, *(len(code.strata) for code in kept.values())])
        cells = [shift(cells_of(code, judges), int(start)) for code, start in zip(kept.values(), first, strict=False)]
    joined = join_cells(cells) if cells else None
    return Design(
        tree=tree_of_one(),
        splits=np.array(prior.splits),
        items=items,
        groups=groups,
        sides=(side_of(whole, judges, prior, options.judge_model, joined),) if judges else (),
        ratios=ratios,
        finite=tuple(finite) if options.finite and countable and not weighted else (),
        cells_of_outputs=tuple(cells),
        prior_only=options.prior_only,
    )


def side_of(code: Code, judges: Sequence[str], prior: Prior, judge_model: str, cells: Cells | None = None) -> Verdicts:
    """The judges of one system; it may have none where the other one of a pair has some."""
    own = own_rate_judges(code, judges)
    if judge_model == PANEL:
        return panel(judges, own, observed_variables(code, judges), prior)
    verdicts = code.labels[:, len(TRUSTED) :]
    if cells is not None:
        verdicts = np.concatenate([verdicts, cells.labels[:, len(TRUSTED) :]])
    distinct = np.unique(verdicts, axis=0) if judges else verdicts[:1]
    return independent(judges, own, distinct, prior)


def _put_together(codes: Mapping[str, Code]) -> tuple[Items, Groups]:
    group: list[np.ndarray] = []
    output_of: list[int] = []
    share_n: list[float] = []
    for number, code in enumerate(codes.values()):
        fit = np.where(code.use == FIT, code.stands_for, 0.0)
        share = np.bincount(code.stratum, weights=fit, minlength=len(code.strata))
        items = float(code.n[code.use == FIT].sum())
        group.append(code.stratum + len(output_of))
        output_of += [number] * len(code.strata)
        share_n += (share * (items / share.sum() if share.sum() else 1.0)).tolist()
    labels = np.concatenate([code.labels for code in codes.values()])
    n = np.concatenate([code.n for code in codes.values()])
    given = np.concatenate([np.where(code.use == CALIBRATION, code.n, 0) for code in codes.values()])
    items_ = Items(agreement(labels), (labels[:, len(TRUSTED) :],), np.concatenate(group), n, given)
    return items_, Groups(np.array(output_of, dtype=int), np.array(share_n), tuple(codes))


def check_items(codes: Mapping[str, Code]) -> dict[str, int]:
    """The items that inform each fit. Raises InputError where there are none."""
    found = {}
    for config, code in codes.items():
        found[config] = int(code.n[code.use == FIT].sum())
        if not found[config]:
            failed = int(code.n[code.use == FAILED].sum())
            why = "the table has no rows"
            if failed:
                why = f"all {failed} rows failed in generation (see their error column)"
            elif len(code.n):
                why = "all rows are calibration rows (see the column use)"
            raise InputError(f"config {config!r}: there are no items to fit: {why}")
    return found
