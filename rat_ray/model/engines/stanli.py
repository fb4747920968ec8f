"""NUTS by stanli, a Stan interpreter in one wheel: no compiler, no files, chains in this process."""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path

import numpy as np

from rat_ray.model.engines import Draws, EngineSettings, StanData


def sample(program: Path, data: StanData, seed: int, settings: EngineSettings) -> Draws:
    """Draws of every parameter and generated quantity. seed: in [1, 2**31 - 1]; chain c has its own stream.

    Raises RuntimeError when a chain cannot start or the data do not fit the program.
    """
    import stanli

    model = stanli.Model(mir=compiled(program.read_text(encoding="utf-8")), data=dict(data))
    start = time.perf_counter()
    fit = model.sample(
        chains=settings.chains,
        seed=seed,
        warmup=settings.warmup,
        samples=settings.samples,
        delta=settings.adapt_delta,
        max_depth=settings.max_treedepth,
        metric=settings.metric,
        parallel_chains=settings.parallel_chains,
        refresh=0,
    )
    seconds = time.perf_counter() - start
    return Draws(
        names=list(fit.names),
        values=np.asarray(fit.draws()),
        lp=_column(fit, "lp__", settings),
        divergent=_column(fit, "divergent__", settings),
        treedepth=_column(fit, "treedepth__", settings),
        energy=_column(fit, "energy__", settings),
        seconds=seconds,
    )


@lru_cache(maxsize=8)
def compiled(source: str) -> str:
    """A program in the form that `stanli.Model(mir=…)` takes; the same text is compiled once per process."""
    import stanli

    return str(stanli.stan_to_mir(source))


def _column(fit: object, name: str, settings: EngineSettings) -> np.ndarray:
    return np.asarray(fit[name]).reshape(settings.chains, settings.samples)  # type: ignore[index]
