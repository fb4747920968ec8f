"""Engines: what samples `stan/rat.stan`. Data, a seed and settings go in; draws and sampler statistics come out.

A new engine is one module with a function `sample` of the type `Sampler`, and one entry in `ENGINES`.
"""

from __future__ import annotations

import hashlib
import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Protocol, cast

import numpy as np

from rat_ray.errors import InputError, did_you_mean

# kind: the module that holds its `sample`; imported only when chosen.
ENGINES = {
    "stanli": "rat_ray.model.engines.stanli",
    "cmdstan": "rat_ray.model.engines.cmdstan",
    "importance": "rat_ray.model.engines.importance",
}

NUTS, IMPORTANCE = "nuts", "importance"  # of Draws.sampler
METRICS = ("auto", "diag_e", "dense_e")

StanData = Mapping[str, int | np.ndarray]


@dataclass(frozen=True)
class EngineSettings:
    """How to sample. warmup and samples are per chain; parallel_chains never changes the draws.

    metric: diag_e, dense_e, or auto: dense_e for few independent judges (`posterior.metric_of`).
    exe_file: for `cmdstan` only, a ready executable of the program, or a folder of them named after their programs.
    It is no part of a stage's key: the engine refuses an executable of another program, so it never changes what is
    sampled.
    """

    kind: str = "stanli"
    chains: int = 4
    warmup: int = 1000
    samples: int = 1000
    adapt_delta: float = 0.8
    max_treedepth: int = 10
    metric: str = "auto"
    parallel_chains: int = field(default=1, metadata={"key": False})
    exe_file: str = field(default="", metadata={"key": False})

    def validate(self) -> None:
        """Raise InputError for an unknown kind or a number that makes no sense."""
        if self.kind not in ENGINES:
            raise InputError(f"engine.kind = {self.kind!r} is unknown{did_you_mean(self.kind, ENGINES)}")
        for name, least in (("chains", 1), ("warmup", 1), ("samples", 4), ("max_treedepth", 1), ("parallel_chains", 1)):
            value = getattr(self, name)
            if value < least:
                raise InputError(f"engine.{name} = {value}: at least {least}")
        if not (math.isfinite(self.adapt_delta) and 0 < self.adapt_delta < 1):
            raise InputError(f"engine.adapt_delta = {self.adapt_delta}: between 0 and 1")
        if self.metric not in METRICS:
            raise InputError(f"engine.metric = {self.metric!r} is unknown{did_you_mean(self.metric, METRICS)}")
        if self.exe_file and self.kind != "cmdstan":
            raise InputError(f"engine.exe_file = {self.exe_file!r}: only engine.kind=cmdstan runs an executable")


class Draws(NamedTuple):
    """names: Stan's columns such as `alpha[1]`; values: (chains, draws, columns); the rest: (chains, draws).

    sampler: what made the draws in the end, "nuts" or "importance"; pareto_k: of the importance weights, also where
    they were too uneven and NUTS took over; None where there were none.
    """

    names: list[str]
    values: np.ndarray
    lp: np.ndarray
    divergent: np.ndarray
    treedepth: np.ndarray
    energy: np.ndarray
    seconds: float  # of the sampling alone
    sampler: str = NUTS
    pareto_k: float | None = None


class Sampler(Protocol):
    """The one function of an engine module. The same arguments give the same draws in any process."""

    def __call__(self, program: Path, data: StanData, seed: int, settings: EngineSettings) -> Draws: ...


def sample(program: Path, data: StanData, seed: int, settings: EngineSettings | None = None) -> Draws:
    """Sample the program at this path with the engine that the settings name."""
    settings = settings or EngineSettings()
    settings.validate()
    if settings.metric == "auto":
        settings = replace(settings, metric="diag_e")
    sampler = cast(Sampler, importlib.import_module(ENGINES[settings.kind]).sample)
    return sampler(program, data, seed, settings)


def check(settings: EngineSettings, program: Path | None = None) -> None:
    """Raise InputError when the engine cannot run here (no CmdStan, say): call it before expensive work.

    program: by default `stan/rat.stan`.
    """
    settings.validate()
    check_engine = getattr(importlib.import_module(ENGINES[settings.kind]), "check", None)
    if check_engine is not None:  # an engine that comes with rat_ray has nothing to check
        check_engine(settings, program or program_path())


def program_digest() -> str:
    """What identifies the Stan program: a changed program samples anew."""
    return hashlib.sha256(program_path().read_bytes()).hexdigest()[:16]


def program_path(name: str = "rat.stan") -> Path:
    """The Stan program: in an installed wheel `rat_ray/stan/`, in a checkout `stan/`."""
    package = Path(__file__).resolve().parents[2]
    for folder in (package / "stan", package.parent / "stan"):
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{name} is neither in {package / 'stan'} nor in {package.parent / 'stan'}: reinstall rat_ray")
