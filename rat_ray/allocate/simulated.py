"""Studies of systems whose truth is known: every replicate draws its items anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rat_ray.allocate.checks import base_warnings, check_budgets, check_identified
from rat_ray.allocate.population import drawn_from
from rat_ray.allocate.settings import BOOTSTRAP, NONE, AllocationSettings, StudySettings, System
from rat_ray.allocate.study import allocation_stage
from rat_ray.cluster import Resources
from rat_ray.errors import InputError
from rat_ray.model import Prior
from rat_ray.seeds import seed_for
from rat_ray.stage import Stage
from rat_ray.store import Table


@dataclass(frozen=True)
class SimulationSettings:
    """Everything behind `conf/simulation/`. items: of each replicate's table; systems: the truths by name."""

    items: int = 1000
    systems: dict[str, System] = field(default_factory=dict)

    def validate(self) -> None:
        """Raise InputError for no system or no items."""
        if self.items < 1:
            raise InputError(f"simulation.items={self.items}: at least 1")
        if not self.systems:
            raise InputError("simulation.systems: name at least one, each with rho, alpha0, alpha1, tau0 and tau1")


def chosen(allocation: AllocationSettings, simulation: SimulationSettings) -> list[str]:
    """The systems to study. Raises InputError for one that the simulation has not."""
    allocation.check_configurations(list(simulation.systems))
    return allocation.configurations or list(simulation.systems)


def check_simulation(allocation: AllocationSettings, simulation: SimulationSettings) -> list[str]:
    """Refuse a study that cannot run; else warnings, in words.

    Raises InputError for a base of more items than there are, a budget that cannot be spent, a system
    that answers nothing, or a strategy without a base that leaves P(G=1) open and is not forced.
    """
    allocation.validate()
    if allocation.resampling != NONE:
        raise InputError(f"allocation.resampling={allocation.resampling}: a simulation draws its items anew already")
    if allocation.base > simulation.items:
        raise InputError(f"allocation.base={allocation.base}: more than simulation.items={simulation.items}")
    said = base_warnings(allocation)
    for name in chosen(allocation, simulation):
        what, truth = f"simulation: system {name!r}", simulation.systems[name]
        if (1 - truth.rho) * (1 - truth.alpha0) + truth.rho * (1 - truth.alpha1) == 0:
            raise InputError(f"{what} answers nothing, so there is no T to label; give smaller alpha0 and alpha1")
        check_identified(what, allocation)
        drawn = drawn_from(truth, simulation.items, np.random.default_rng(seed_for(0, "simulation", name)))
        # Its costs vary as those of a bootstrap from one large table do.
        said += [f"{name}: {text}" for text in check_budgets(what, drawn, _as_bootstrap(allocation))]
    return said


def truth_of(simulation: SimulationSettings, config: str) -> Sequence[float]:
    """The five parameters of a system, in the order of `states.PARAMETERS`."""
    return tuple(simulation.systems[config].parameters.values())


def simulation_stage(
    tasks: Table,
    config: str,
    simulation: SimulationSettings,
    allocation: AllocationSettings,
    prior: Prior,
    seed: int,
    resources: Resources,
) -> Stage:
    """The stage that runs the study's tasks (schema TASKS) on items drawn from one system's truth."""
    truth = simulation.systems[config]
    settings = StudySettings.of(config, {}, allocation, prior, seed, truth, simulation.items)
    return allocation_stage(tasks, {}, settings, resources)


def _as_bootstrap(allocation: AllocationSettings) -> AllocationSettings:
    return replace(allocation, resampling=BOOTSTRAP)
