"""Patterns that need no sum: where labels and verdicts lead down the trees on one path, counts are all that matters.

A pattern whose states are all the leaves below one node of the tree has a probability that is a product of the splits
above that node. If the state is known, or there are no verdicts, so is that of its verdicts. The log likelihood of such
patterns is linear in the logs of the splits and rates, and their items can be added up before sampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rat_ray.model.layout import Items, Layout
from rat_ray.model.patterns import MISSING
from rat_ray.model.states import Tree
from rat_ray.model.verdicts import Verdicts


class Collapsed(NamedTuple):
    """yes, no: (splits, groups) of items that went either way; one, zero: (rates,); left: (rows,) of the patterns."""

    yes: np.ndarray
    no: np.ndarray
    one: np.ndarray
    zero: np.ndarray
    left: np.ndarray


def collapse(tree: Tree, items: Items, layout: Layout, sides: Sequence[Verdicts], groups: int) -> Collapsed:
    """Add up what can be added up; `left` are the other patterns."""
    splits, rates = tree.on_yes.shape[1], len(layout.prior)
    yes, no = np.zeros((splits, groups)), np.zeros((splits, groups))
    one, zero = np.zeros(rates), np.zeros(rates)
    left = []
    for row, agree in enumerate(items.agree):
        states = np.flatnonzero(agree)
        said = None if not len(states) else _rows_of(row, states, tree, items, layout, sides)
        if said is None or not _below_one_node(tree, agree):
            left.append(row)
            continue
        n, new = items.n[row], items.n[row] - items.n_given[row]  # labels of calibration items are given
        yes[:, items.group[row]] += new * tree.on_yes[states].all(axis=0)
        no[:, items.group[row]] += new * tree.on_no[states].all(axis=0)
        for side, place in enumerate(said):
            if place is not None:
                one += n * layout.says_one[side][place]
                zero += n * layout.says_zero[side][place]
    return Collapsed(yes, no, one, zero, np.array(left, dtype=np.int64))


def _below_one_node(tree: Tree, agree: np.ndarray) -> bool:
    """Whether the states are all those on their common path."""
    inside = agree.astype(bool)
    on_path = np.ones(len(agree), dtype=bool)
    for branch in (tree.on_yes, tree.on_no):
        common = branch[inside].all(axis=0)
        on_path &= branch[:, common].all(axis=1)
    return bool((on_path == inside).all())


def _rows_of(
    row: int, states: np.ndarray, tree: Tree, items: Items, layout: Layout, sides: Sequence[Verdicts]
) -> list[int | None] | None:
    """Per side the row of says_one that holds the pattern's verdicts; None for a side without any.

    None instead of a list: the verdicts are a sum over combinations or states.
    """
    found: list[int | None] = []
    for number, side in enumerate(sides):
        verdicts = items.verdicts[number][row]
        if (verdicts == MISSING).all():
            found.append(None)
            continue
        own = np.unique(tree.side_state[number][states])
        if len(own) > 1:
            return None
        state = int(own[0])
        if side.panel:
            places = np.flatnonzero(side.sums(verdicts[None, :])[0] & (side.possible[:, state] == 1))
        else:
            places = layout.place[number][[row]]
        if len(places) != 1:
            return None
        found.append(state * layout.possible.shape[1] + int(places[0]))
    return found
