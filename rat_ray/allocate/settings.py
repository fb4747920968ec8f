"""What a study runs: its settings, and the list of its fits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from rat_ray.allocate.costs import Costs
from rat_ray.allocate.strategies import STRATEGIES, share_of, strategy_of
from rat_ray.errors import InputError, did_you_mean
from rat_ray.model import EngineSettings, Prior
from rat_ray.model.engines import ENGINES, program_digest
from rat_ray.model.states import BASE_QUANTITIES, PARAMETERS
from rat_ray.tables import ALLOCATION

# The columns that name a fit.
TASKS = pa.schema([ALLOCATION.field(name) for name in ("config", "strategy", "budget", "replicate")])
TASK_IDS = tuple(TASKS.names)

# What a replicate's items are: the table's own, as many drawn from them with replacement, or new ones from a truth.
NONE, BOOTSTRAP, SIMULATED = "none", "bootstrap", "simulated"
RESAMPLING = (NONE, BOOTSTRAP)
_CHAINS, _WARMUP = 2, 300


@dataclass(frozen=True)
class AllocationSettings:
    """Everything behind `conf/allocation/`.

    configurations: those to study; empty: all. base: items with all their labels. budgets: cost to spend beyond the
    base; 0 is the base alone. engine, draws: of each of the many fits. check_share: of fits made again by NUTS. force:
    also study what cannot be known.
    """

    enabled: bool = False
    configurations: list[str] = field(default_factory=list)
    base: int = 50
    strategies: list[str] = field(default_factory=lambda: ["all_r", "all_t", "joint"])
    budgets: list[float] = field(default_factory=lambda: [25.0, 50.0, 100.0, 200.0, 400.0])
    replicates: int = 100
    resampling: str = NONE
    cost: Costs = Costs()
    quantities: list[str] = field(default_factory=lambda: ["p_g", "p_t", "rho"])
    engine: str = "importance"
    draws: int = 2000
    check_share: float = 0.01
    force: bool = False

    def validate(self) -> None:
        """Raise InputError for a misspelt or doubled name, or a number that makes no sense."""
        _check_names("allocation.strategies", self.strategies, list(STRATEGIES))
        for name in self.strategies:
            strategy_of(name, "allocation.strategies")
        shares = [share for name in self.strategies if (share := share_of(name)) is not None]
        if len(set(shares)) < len(shares):
            raise InputError(f"allocation.strategies={list(self.strategies)}: one share of mixed occurs twice")
        _check_names("allocation.quantities", self.quantities, list(BASE_QUANTITIES))
        for name in self.quantities:
            if name not in BASE_QUANTITIES:
                raise InputError(f"allocation.quantities: no {name!r}{did_you_mean(name, BASE_QUANTITIES)}")
        for setting, value, known in (
            ("resampling", self.resampling, RESAMPLING),
            ("engine", self.engine, tuple(ENGINES)),
        ):
            if value not in known:
                raise InputError(f"allocation.{setting}={value}: unknown{did_you_mean(value, known)}")
        if self.base < 0:
            raise InputError(f"allocation.base={self.base}: give how many items have all their labels")
        if self.replicates < 1:
            raise InputError(f"allocation.replicates={self.replicates}: at least 1")
        if self.draws < 100:
            raise InputError(f"allocation.draws={self.draws}: at least 100")
        if not 0 <= self.check_share <= 1:
            raise InputError(f"allocation.check_share={self.check_share}: give a share from 0 to 1")
        fine = all(math.isfinite(budget) and budget >= 0 for budget in self.budgets)
        if not self.budgets or not fine or len(set(self.budgets)) < len(self.budgets):
            listed = ",".join(f"{budget:g}" for budget in self.budgets)
            raise InputError(
                f"allocation.budgets=[{listed}]: give distinct costs of at least 0, for example [10,20,40]"
            )
        self.cost.validate("allocation.cost")

    def check_configurations(self, known: Sequence[str]) -> None:
        """Raise InputError for a configuration to study that there is not, or that is named twice."""
        for name in self.configurations:
            if name not in known:
                raise InputError(f"allocation.configurations: no configuration {name!r}{did_you_mean(name, known)}")
        if len(set(self.configurations)) < len(self.configurations):
            raise InputError(f"allocation.configurations={self.configurations}: a name occurs twice")

    @property
    def engine_settings(self) -> EngineSettings:
        """How each of the many fits is made."""
        return engine_of(self.engine, self.draws)


def engine_of(kind: str, draws: int) -> EngineSettings:
    """The engine of a study's fits; two chains, so that NUTS is looked at by comparing them."""
    return EngineSettings(kind=kind, chains=_CHAINS, warmup=_WARMUP, samples=max(draws // _CHAINS, 4))


@dataclass(frozen=True)
class System:
    """A known truth: P(R=1), P(A=1 | R=r) and P(T=1 | A=0, R=r)."""

    rho: float
    alpha0: float
    alpha1: float
    tau0: float
    tau1: float

    def validate(self) -> None:
        """Raise InputError for a value that is no probability."""
        for name, value in vars(self).items():
            if not 0 <= value <= 1:
                raise InputError(f"{name}={value}: a probability is from 0 to 1")

    @property
    def parameters(self) -> dict[str, float]:
        """By the names of `states.PARAMETERS`."""
        values = (self.rho, self.alpha0, self.alpha1, self.tau0, self.tau1)
        return dict(zip(PARAMETERS, values, strict=True))


@dataclass(frozen=True)
class StudySettings:
    """What the result of one fit depends on, besides its task and the annotations.

    trusted: the source columns that fill r, a and t, first first: {"r": ["evidence"], …}; {}: the columns r, a and t.
    truth, items: of a simulation, whose replicates draw so many new items each. program: the Stan program's digest.
    """

    config: str
    trusted: dict[str, list[str]]
    base: int
    resampling: str
    cost: Costs
    quantities: list[str]
    engine: str
    draws: int
    check_share: float
    prior: Prior
    seed: int
    truth: System | None = None
    items: int = 0
    program: str = field(default_factory=program_digest)

    @classmethod
    def of(
        cls,
        config: str,
        trusted: Mapping[str, Sequence[str]],
        allocation: AllocationSettings,
        prior: Prior,
        seed: int,
        truth: System | None = None,
        items: int = 0,
    ) -> StudySettings:
        """The part of the settings that every fit of a study on this configuration depends on."""
        return cls(
            config=config,
            trusted={variable: list(sources) for variable, sources in trusted.items()},
            base=allocation.base,
            resampling=allocation.resampling if truth is None else SIMULATED,
            cost=allocation.cost,
            quantities=allocation.quantities,
            engine=allocation.engine,
            draws=allocation.draws,
            check_share=allocation.check_share,
            prior=prior,
            seed=seed,
            truth=truth,
            items=items,
        )

    @property
    def engine_settings(self) -> EngineSettings:
        """How each fit is made."""
        return engine_of(self.engine, self.draws)


def tasks(settings: AllocationSettings, config: str, replicates: Iterable[int] | None = None) -> pa.Table:
    """One row per fit (schema TASKS). A replicate's rows stand together: they share its items and their order.

    replicates: only these, of which each has the same result as in the whole study.
    """
    chosen = range(settings.replicates) if replicates is None else list(replicates)
    each, cells = len(settings.budgets), len(settings.budgets) * len(settings.strategies)
    rows = len(chosen) * cells
    return pa.table(
        {
            "config": pa.repeat(pa.scalar(config, pa.string()), rows),
            "strategy": [name for _ in chosen for name in settings.strategies for _ in range(each)],
            "budget": [
                float(budget) for _ in range(len(chosen) * len(settings.strategies)) for budget in settings.budgets
            ],
            "replicate": [replicate for replicate in chosen for _ in range(cells)],
        },
        schema=TASKS,
    )


def _check_names(setting: str, names: Sequence[str], known: Sequence[str]) -> None:
    if not names:
        raise InputError(f"{setting}=[]: name at least one of {', '.join(known)}")
    if len(set(names)) < len(names):
        raise InputError(f"{setting}={list(names)}: a name occurs twice")
