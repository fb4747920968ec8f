"""Effective draws of P(G=1) per second: rat_ray against the same model in NumPyro, and against CmdStan where it is.

    pip install numpyro   # no dependency of rat_ray
    python benchmarks/fit_numpyro.py

One fit: 54 patterns, two independent judges, 4 x (1,000 + 1,000). Every chain method of NumPyro runs in a process of
its own, compiled and warm, all in turns; the best one counts. Bars: at least 10 times NumPyro, 1.5 times CmdStan.

NumPyro is timed twice. `jit` is the whole run under one jax.jit, so that nothing is compiled again. `mcmc.run` is
NumPyro's own call, made a second time on the same MCMC object (NumPyro 0.22 compiles the sampler again in each).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from count_tables import count_table

from rat_ray.model import EngineSettings, Fit, fit
from rat_ray.model.diagnostics import convergence
from rat_ray.model.states import STATES, UNDEFINED

JUDGES = ("r@x", "t@y")
CHAINS, WARMUP, SAMPLES = 4, 1000, 1000
NAMES = ("rho", "alpha[0]", "alpha[1]", "tau[0]", "tau[1]")
METHODS = ("vectorized", "sequential", "parallel")
BARS = {"numpyro": 10.0, "cmdstan": 1.5}


class Run(NamedTuple):
    """One fit. ess: bulk, of P(G=1); values: (mean, mcse) per quantity."""

    seconds: float
    ess: float
    values: dict[str, tuple[float, float]]

    @property
    def rate(self) -> float:
        return self.ess / self.seconds


# NumPyro


class Masks(NamedTuple):
    """Per pattern and state: agree: (P, 6); one, zero: (P, 6, 4), whether that rate says 1 or 0 there; n: (P,)."""

    agree: np.ndarray
    one: np.ndarray
    zero: np.ndarray
    n: np.ndarray


def masks(counts: pa.Table) -> Masks:
    """The likelihood's structure, from the columns of the count table alone."""
    labels = np.column_stack([np.array(counts.column(v).to_pylist(), dtype=float) for v in ("r", "a", "t")])
    agree = (np.isnan(labels)[:, None, :] | (labels[:, None, :] == STATES)).all(axis=2)
    one, zero = np.zeros((2, len(labels), len(STATES), 2 * len(JUDGES)))
    for j, judge in enumerate(JUDGES):
        verdict = np.array(counts.column(judge).to_pylist(), dtype=float)
        for s, truth in enumerate(STATES[:, "rat".index(judge[0])].tolist()):
            if truth != UNDEFINED:  # verdicts on T of a known abstention are set aside
                one[:, s, truth * len(JUDGES) + j] = verdict == 1
                zero[:, s, truth * len(JUDGES) + j] = verdict == 0
    return Masks(agree.astype(float), one, zero, counts.column("n").to_numpy().astype(float))


def model_of(data: Masks) -> Callable[[], None]:
    """The NumPyro model: uniform priors, and for each judge uniform on tpr > fpr.

    fpr ~ Beta(1, 2) and tpr uniform above it is that distribution; it takes half the leapfrog steps of ordered logits.
    """
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    patterns = len(data.n)
    agree, n = jnp.asarray(data.agree), jnp.asarray(data.n)
    one, zero = (jnp.asarray(part.reshape(patterns * len(STATES), -1)) for part in (data.one, data.zero))
    many = len(JUDGES)

    def model() -> None:
        p = numpyro.sample("p", dist.Beta(jnp.ones(5), jnp.ones(5)).to_event(1))
        fpr = numpyro.sample("fpr", dist.Beta(jnp.ones(many), 2 * jnp.ones(many)).to_event(1))
        above = numpyro.sample("above", dist.Uniform(jnp.zeros(many), jnp.ones(many)).to_event(1))
        tpr = numpyro.deterministic("tpr", fpr + above * (1 - fpr))
        r = jnp.stack([1 - p[0], p[0]])
        a, t = p[1:3], p[3:5]
        theta = (r[:, None] * jnp.stack([a, (1 - a) * (1 - t), (1 - a) * t], axis=1)).reshape(-1)  # as in STATES
        rates = jnp.concatenate([fpr, tpr])
        like = jnp.exp(one @ jnp.log(rates) + zero @ jnp.log1p(-rates)).reshape(patterns, len(STATES))
        numpyro.factor("counts", n @ jnp.log((agree * like) @ theta))
        numpyro.deterministic("p_g", theta[0] + theta[5])

    return model


def sampler_of(method: str, model: Callable[[], None]) -> Callable[[int], dict[str, Any]]:
    """seed -> draws, (chains, draws, ...) per site."""
    import jax
    from numpyro.infer import MCMC, NUTS

    def mcmc(chains: int, chain_method: str = "vectorized") -> Any:
        kernel = NUTS(model, target_accept_prob=0.8, max_tree_depth=10)
        return MCMC(
            kernel,
            num_warmup=WARMUP,
            num_samples=SAMPLES,
            num_chains=chains,
            chain_method=chain_method,
            progress_bar=False,
        )

    def run(key: Any, chains: int) -> dict[str, Any]:
        made = mcmc(chains)
        made.run(key)
        draws: dict[str, Any] = made.get_samples(group_by_chain=chains > 1)
        return draws

    if method == "mcmc.run":
        own = mcmc(CHAINS)

        def again(seed: int) -> dict[str, Any]:
            own.run(jax.random.PRNGKey(seed))
            draws: dict[str, Any] = own.get_samples(group_by_chain=True)
            return draws

        return again
    together = jax.jit(lambda key: run(key, CHAINS))
    in_turn = jax.jit(lambda keys: jax.lax.map(lambda key: run(key, 1), keys))
    spread = jax.pmap(lambda key: run(key, 1))

    def compiled(seed: int) -> dict[str, Any]:
        key = jax.random.PRNGKey(seed)
        keys = jax.random.split(key, CHAINS)
        one_call = {
            "vectorized": lambda: together(key),
            "sequential": lambda: in_turn(keys),
            "parallel": lambda: spread(keys),
        }
        return _wait(one_call[method]())

    return compiled


def serve(method: str, counts: pa.Table, pipe: Connection) -> None:
    """A process of its own: compile, then a seed in, a Run out, until None."""
    import numpyro

    numpyro.enable_x64()
    if method == "parallel":
        numpyro.set_host_device_count(CHAINS)
    sampler = sampler_of(method, model_of(masks(counts)))
    _wait(sampler(0))
    pipe.send(None)
    while (seed := pipe.recv()) is not None:
        start = time.perf_counter()
        draws = _wait(sampler(seed))
        pipe.send(_run(time.perf_counter() - start, {name: np.asarray(value) for name, value in draws.items()}))


def _run(seconds: float, draws: dict[str, np.ndarray]) -> Run:
    named = {"p_g": draws["p_g"], **{name: draws["p"][..., i] for i, name in enumerate(NAMES)}}
    for j, judge in enumerate(JUDGES):
        named |= {f"{rate}[{judge}]": draws[rate][..., j] for rate in ("tpr", "fpr")}
    found = convergence(np.stack(list(named.values()), axis=2))
    values = {name: (float(x.mean()), one.mcse or 0.0) for (name, x), one in zip(named.items(), found, strict=True)}
    return Run(seconds, found[0].ess_bulk or 0.0, values)


def _wait(draws: dict[str, Any]) -> dict[str, Any]:
    """JAX answers before it has computed."""
    return {name: value.block_until_ready() for name, value in draws.items()}


class Child:
    """A NumPyro process, waiting for seeds."""

    def __init__(self, method: str, counts: pa.Table) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(method, counts, theirs), daemon=True)
        self._process.start()
        self._pipe.recv()

    def __call__(self, seed: int) -> Run:
        self._pipe.send(seed)
        run: Run = self._pipe.recv()
        return run

    def close(self) -> None:
        self._pipe.send(None)
        self._process.join()


# rat_ray


def ours(counts: pa.Table, engine: EngineSettings, seed: int) -> tuple[Run, float]:
    """The run, and the seconds of the whole `fit`: identification, sampling, summary, checks."""
    start = time.perf_counter()
    made = fit(counts, engine=engine, judge_model="independent", seed=seed)
    return Run(made.seconds, _cell(made, "p_g", "ess_bulk"), _values(made)), time.perf_counter() - start


def _cell(made: Fit, quantity: str, column: str) -> float:
    return float(made.value(quantity, column) or 0.0)


def _values(made: Fit) -> dict[str, tuple[float, float]]:
    names = ["p_g", *NAMES, *(f"{rate}[{judge}]" for rate in ("tpr", "fpr") for judge in JUDGES)]
    return {name: (_cell(made, name, "mean"), _cell(made, name, "mcse")) for name in names}


def compare(mine: Run, other: Run, what: str) -> None:
    """Stop where a posterior mean differs by more than 4 of its Monte Carlo errors: then it is another model."""
    apart = {
        name: abs(mean - other.values[name][0]) / float(np.hypot(mcse, other.values[name][1]))
        for name, (mean, mcse) in mine.values.items()
    }
    worst = max(apart, key=lambda name: apart[name])
    print(f"posterior means, rat_ray and {what}: at most {apart[worst]:.1f} Monte Carlo errors apart ({worst})")
    if apart[worst] > 4:
        raise SystemExit(f"{what} samples another posterior: {mine.values[worst]} and {other.values[worst]}")


def engines() -> dict[str, EngineSettings]:
    """By name, all with 4 x (1,000 + 1,000)."""
    cores = os.cpu_count() or 1
    base = EngineSettings(chains=CHAINS, warmup=WARMUP, samples=SAMPLES)
    found = {"rat_ray, one core": base, f"rat_ray, {cores} cores": _spread(base, min(CHAINS, cores))}
    if os.environ.get("CMDSTAN") or os.environ.get("RAT_CMDSTAN_EXE"):
        found["cmdstan"] = EngineSettings(kind="cmdstan", chains=CHAINS, warmup=WARMUP, samples=SAMPLES)
    return found


def _spread(base: EngineSettings, chains: int) -> EngineSettings:
    return EngineSettings(base.kind, base.chains, base.warmup, base.samples, parallel_chains=chains)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--no-mcmc-run", action="store_true", help="leave out NumPyro's own call, which compiles again")
    options = parser.parse_args()
    counts = count_table(JUDGES)
    assert counts.num_rows == 54
    children = {method: Child(method, counts) for method in options.methods}
    if not options.no_mcmc_run:
        children["mcmc.run"] = Child("mcmc.run", counts)
    mine = engines()
    for engine in mine.values():
        ours(counts, engine, 1)  # warm
    runs: dict[str, list[Run]] = {}
    whole: list[float] = []
    for seed in range(1, options.repeats + 1):  # in turns, so that a busy machine slows all alike
        for name, engine in mine.items():
            run, seconds = ours(counts, engine, seed)
            runs.setdefault(name, []).append(run)
            whole += [seconds] if name == "rat_ray, one core" else []
        for method, child in children.items():
            if method != "mcmc.run" or seed <= 2:
                runs.setdefault(_label(method), []).append(child(seed))
    for child in children.values():
        child.close()
    report(runs, whole)


def _label(method: str) -> str:
    return "numpyro mcmc.run again" if method == "mcmc.run" else f"numpyro jit {method}"


def report(runs: dict[str, list[Run]], whole: list[float]) -> None:
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    rates = {name: statistics.median(run.rate for run in done) for name, done in runs.items()}
    for name, done in runs.items():
        seconds, ess = (statistics.median(getattr(run, what) for run in done) for what in ("seconds", "ess"))
        print(f"{name:<26} {seconds:7.3f} s, {ess:6.0f} effective draws, {rates[name]:7.0f} per second (n={len(done)})")
    print(f"the whole of fit(), one core: {statistics.median(whole):.3f} s")
    first = "rat_ray, one core"
    best_mine = max((name for name in rates if name.startswith("rat_ray")), key=lambda name: rates[name])
    compiled = [name for name in rates if name.startswith("numpyro jit")]
    for name in rates:
        if not name.startswith("rat_ray"):
            compare(runs[first][0], runs[name][0], name)
    if compiled:
        best = max(compiled, key=lambda name: rates[name])
        bar = BARS["numpyro"]
        print(f"{first} / {best}: {rates[first] / rates[best]:.2f} (bar: {bar:g})")
        print(f"{best_mine} / {best}: {rates[best_mine] / rates[best]:.2f} (bar: {bar:g})")
    if _label("mcmc.run") in rates:
        print(f"{first} / {_label('mcmc.run')}: {rates[first] / rates[_label('mcmc.run')]:.1f} (no bar)")
    if "cmdstan" in rates:
        print(f"{first} / cmdstan: {rates[first] / rates['cmdstan']:.2f} (bar: {BARS['cmdstan']:g})")
    else:
        print("CmdStan is not here (neither CMDSTAN nor RAT_CMDSTAN_EXE is set): not compared")


if __name__ == "__main__":
    main()
