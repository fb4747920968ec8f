"""A panel as part of the tree: the leaves are states with complete verdicts, the panel's splits are splits like any.

The tree to sample in then begins with what is most observed, be it labels or verdicts. With verdicts on most items and
R on few, P(verdicts | A) and P(R | A, verdicts) are nearly independent Betas, while the panel's rates given the
state are strongly tied to rho.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rat_ray.model.engines import StanData
from rat_ray.model.importance.trees import Splits, known_of, order_of, tree_by
from rat_ray.model.states import STATES


class Joint(NamedTuple):
    """data: of a program without judges whose states are the leaves; tree: None for the prior's.

    state, combination: (leaves,); values: (variables, leaves) of r, a, t and the judges' verdicts.
    """

    data: StanData
    tree: Splits | None
    state: np.ndarray
    combination: np.ndarray
    values: np.ndarray


def joint_of(data: StanData) -> Joint | None:
    """None where the data are not one system's with a panel, or states share a rate. tree: what suits the counts."""
    if not data["panel"] or int(data["H"]) > 1 or int(data["B"]) > 1 or int(data["S"]) != len(STATES):
        return None
    possible = np.asarray(data["possible"])[0] > 0
    state, combination = np.nonzero(possible.T)
    rows = state * int(data["C"]) + combination
    one, zero = (np.asarray(data[name])[0][rows] > 0 for name in ("says_one", "says_zero"))
    used = one | zero
    if any(len(set(state[used[:, q]].tolist())) > 1 for q in range(used.shape[1])):
        return None
    on_yes = np.concatenate([np.asarray(data["on_yes"])[state] > 0, one], axis=1).astype(float)
    on_no = np.concatenate([np.asarray(data["on_no"])[state] > 0, zero], axis=1).astype(float)
    verdicts = np.asarray(data["verdicts"])[0] - 1
    labels = np.asarray(data["agree"])[:, state]
    agree = labels * np.asarray(data["sums"])[0][verdicts][:, combination]
    whole: dict[str, int | np.ndarray] = {
        "S": len(state),
        "on_yes": on_yes,
        "on_no": on_no,
        "prior_yes": np.concatenate([np.asarray(data["prior_yes"]), np.asarray(data["prior_one"])]),
        "prior_no": np.concatenate([np.asarray(data["prior_no"]), np.asarray(data["prior_zero"])]),
        "H": 1,
        "known_yes": np.concatenate([np.asarray(data["known_yes"])[:, 0], np.asarray(data["known_one"])])[:, None],
        "known_no": np.concatenate([np.asarray(data["known_no"])[:, 0], np.asarray(data["known_zero"])])[:, None],
        "P": data["P"],
        "n": data["n"],
        "n_given": data["n_given"],
        "agree": agree,
        "agree_given": labels,
        "group": data["group"],
        "B": 0,
        "verdicts": np.zeros((0, len(agree)), dtype=int),
        "C": 0,
        "panel": 0,
        "I": 0,
        "Q": 0,
        "prior_one": np.zeros(0),
        "prior_zero": np.zeros(0),
        "known_one": np.zeros(0),
        "known_zero": np.zeros(0),
        "prior_only": data["prior_only"],
    }
    values = leaf_values(state, combination, int(data["C"]).bit_length() - 1)
    order = order_of(known_of(whole, values))
    return Joint(whole, tree_by(values, order) if order else None, state, combination, values)


def leaf_values(state: np.ndarray, combination: np.ndarray, judges: int) -> np.ndarray:
    """(variables, leaves): r, a, t (-1 where undefined), and every judge's verdict."""
    verdicts = [combination >> (judges - 1 - j) & 1 for j in range(judges)]
    return np.concatenate([STATES[state].T.astype(int), np.array(verdicts, dtype=int).reshape(judges, -1)])
