"""From draws of the logits to the program's probabilities, whatever tree they were drawn in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rat_ray.model.engines import StanData
from rat_ray.model.importance.density import logs_of, times
from rat_ray.model.importance.joint import Joint
from rat_ray.model.importance.structure import Counts, Structure

Density = dict[str, np.ndarray]


class Point(NamedTuple):
    """theta: (groups, states, draws); log_one, log_zero: (rates, draws); densities: (draws,) by the program's names."""

    theta: np.ndarray
    log_one: np.ndarray
    log_zero: np.ndarray
    densities: Density


def point_of(data: StanData, structure: Structure, counts: Counts, joint: Joint | None, u: np.ndarray) -> Point:
    """u: (D, draws)."""
    logs = logs_of(u, structure)
    products = np.exp(times(structure.terms, logs))
    densities = _densities(structure, counts, logs, products)
    draws = u.shape[1]
    if joint is None:
        states, groups = np.asarray(data["on_yes"]).shape[0], len(np.asarray(data["output_of"]))
        theta = products[: states * groups].reshape(groups, states, draws)
        return Point(theta, times(structure.one, logs), times(structure.zero, logs), densities)
    leaves = products[: len(joint.state)]
    theta = np.zeros((1, 6, draws))
    np.add.at(theta[0], joint.state, leaves)
    splits = np.asarray(data["on_yes"]).shape[1]
    yes, no = (times(np.asarray(joint.data[side])[:, splits:].T, leaves) for side in ("on_yes", "on_no"))
    whole = np.log(yes + no)
    return Point(theta, np.log(yes) - whole, np.log(no) - whole, densities)


def _densities(structure: Structure, counts: Counts, logs: np.ndarray, products: np.ndarray) -> Density:
    with np.errstate(divide="ignore"):
        sums = np.log(times(structure.sums, products))
    parts = {
        "log_prior": (structure.base - structure.jacobian, structure.base_n - structure.jacobian_n),
        "log_jacobian": (structure.jacobian, structure.jacobian_n),
        "log_likelihood": (counts.powers - structure.base, counts.n - structure.base_n),
    }
    return {name: times(powers[None], logs)[0] + times(n[None], sums)[0] for name, (powers, n) in parts.items()}
