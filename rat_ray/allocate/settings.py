"""What a study runs: its settings, and the list of its fits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from rat_ray.allocate.strategies import STRATEGIES
from rat_ray.errors import InputError, did_you_mean
from rat_ray.model import EngineSettings, Prior
from rat_ray.model.engines import program_digest
from rat_ray.model.states import BASE_QUANTITIES
from rat_ray.tables import ALLOCATION

# The columns that name a fit.
TASKS = pa.schema([ALLOCATION.field(name) for name in ("config", "strategy", "budget", "replicate")])
TASK_IDS = tuple(TASKS.names)


@dataclass(frozen=True)
class AllocationSettings:
    """Everything behind `conf/allocation/`.

    configuration: the one to study; empty means the first. base: fully labelled items. budgets: cost to spend beyond
    the base; 0 is the base alone. cost_r, cost_t: of one label. chains, warmup, samples: of each of the many fits.
    """

    enabled: bool = False
    configuration: str = ""
    base: int = 20
    strategies: list[str] = field(default_factory=lambda: list(STRATEGIES))
    budgets: list[int] = field(default_factory=lambda: [10, 20, 40])
    replicates: int = 20
    cost_r: float = 1.0
    cost_t: float = 1.0
    quantities: list[str] = field(default_factory=lambda: ["p_g", "p_t", "rho"])
    chains: int = 2
    warmup: int = 300
    samples: int = 500

    def validate(self) -> None:
        """Raise InputError for a misspelt or doubled name, or a number that makes no sense."""
        _check_names("allocation.strategies", self.strategies, list(STRATEGIES))
        _check_names("allocation.quantities", self.quantities, list(BASE_QUANTITIES))
        for name in ("base", "replicates", "chains", "warmup"):
            if getattr(self, name) < 1:
                raise InputError(f"allocation.{name}={getattr(self, name)}: at least 1")
        if self.samples < 4:
            raise InputError(f"allocation.samples={self.samples}: at least 4")
        if not self.budgets or min(self.budgets) < 0 or len(set(self.budgets)) < len(self.budgets):
            raise InputError(
                f"allocation.budgets={self.budgets}: give distinct costs of at least 0, for example [10,20,40]"
            )
        for name in ("cost_r", "cost_t"):
            cost = getattr(self, name)
            if not (math.isfinite(cost) and cost > 0):
                raise InputError(f"allocation.{name}={cost}: a label's cost is a positive number")


@dataclass(frozen=True)
class StudySettings:
    """What the result of one fit depends on, besides its task and the annotations.

    trusted: the source columns that fill r, a and t, first first: {"r": ["evidence"], …}.
    program: the digest of the Stan program.
    """

    config: str
    trusted: dict[str, list[str]]
    base: int
    cost_r: float
    cost_t: float
    quantities: list[str]
    chains: int
    warmup: int
    samples: int
    prior: Prior
    seed: int
    program: str = field(default_factory=program_digest)

    @classmethod
    def of(
        cls,
        config: str,
        trusted: Mapping[str, Sequence[str]],
        allocation: AllocationSettings,
        prior: Prior,
        seed: int,
    ) -> StudySettings:
        """The part of the settings that every fit of a study on this configuration depends on."""
        return cls(
            config=config,
            trusted={variable: list(sources) for variable, sources in trusted.items()},
            base=allocation.base,
            cost_r=allocation.cost_r,
            cost_t=allocation.cost_t,
            quantities=allocation.quantities,
            chains=allocation.chains,
            warmup=allocation.warmup,
            samples=allocation.samples,
            prior=prior,
            seed=seed,
        )

    @property
    def engine(self) -> EngineSettings:
        """How each fit samples."""
        return EngineSettings(chains=self.chains, warmup=self.warmup, samples=self.samples)


def tasks(settings: AllocationSettings, config: str) -> pa.Table:
    """One row per fit (schema TASKS). A replicate's rows stand together: they share its order of the items."""
    rows = [
        {"config": config, "strategy": strategy, "budget": budget, "replicate": replicate}
        for replicate in range(settings.replicates)
        for strategy in settings.strategies
        for budget in settings.budgets
    ]
    return pa.Table.from_pylist(rows, schema=TASKS)


def _check_names(setting: str, names: Sequence[str], known: Sequence[str]) -> None:
    if not names:
        raise InputError(f"{setting}=[]: name at least one of {', '.join(known)}")
    for name in names:
        if name not in known:
            raise InputError(f"{setting}: no {name!r}{did_you_mean(name, known)}")
    if len(set(names)) < len(names):
        raise InputError(f"{setting}={list(names)}: a name occurs twice")
