"""Simulation-based calibration (Talts et al. 2018): parameters from the prior, data from them, ranks of the truth.

    python -m tests.statistical.sbc --draws 2000 --processes 2 --out sbc.jsonl

Tables have 80 to 150 items, labels of R and T on random items (in half of the tables on fewer than 20), verdicts of two
judges missing here and there, and in half of the tables A missing on some items, so that judges of T give verdicts on
answers that may be abstentions. What is missing never depends on a value.

Data are simulated from the definitions here, state by state, not by `rat_ray.model.forward`: priors of the panel as
Dirichlets over verdicts, judges' rates as Betas. What is ranked: every split of states and of the panel, every rate,
the derived rates and error correlations, P(G=1), and the log likelihood, without which a fit that ignored the data
would pass (Modrak et al. 2023). A data set's kind and number alone decide its seed.

The tests are held together by Bonferroni: half of the level for what all kinds of data sets share, pooled over them
(the five parameters, P(G=1), the log likelihood), half for the judges' quantities of each kind.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rat_ray.model.design import Design, Options
from rat_ray.model.diagnostics import FAIL, DiagnosticsSettings, SamplerStats, convergence, judge_fit
from rat_ray.model.engines import Draws, EngineSettings
from rat_ray.model.patterns import patterns
from rat_ray.model.posterior import design_for, draw_twice
from rat_ray.model.priors import Beta, Prior
from rat_ray.model.states import BITS, FOLLOWS, PARAMETERS, STATES, UNDEFINED
from rat_ray.model.verdicts import INDEPENDENT, PANEL
from rat_ray.seeds import seed_for
from rat_ray.tables import LABEL
from tests.statistical.runs import Record, fit_digest, run
from tests.statistical.uniform import Uniformity, uniformity

ENGINE = EngineSettings(chains=4, warmup=500, samples=750)
RANKED = 100  # draws that the truth is ranked among: every 30th
POOLED = "all: "  # the names of what is pooled over the kinds begin with this


class Kind(NamedTuple):
    """A judge model and the judges."""

    model: str
    judges: tuple[str, str]


KINDS: Mapping[str, Kind] = {
    "panel, R and T": Kind(PANEL, ("r@x", "t@y")),
    "panel, T and T": Kind(PANEL, ("t@x", "t@y")),
    "independent, R and T": Kind(INDEPENDENT, ("r@x", "t@y")),
    "independent, T and T": Kind(INDEPENDENT, ("t@x", "t@y")),
}


@dataclass(frozen=True)
class Job:
    """A data set, and how it is fitted: wrongly, to see that the test notices."""

    kind: str
    number: int
    prior: Prior = Prior()  # of the fit; the data are always from the default
    model: str = ""  # of the fit; empty: the kind's
    prior_only: bool = False  # a fit that ignores the data


class Truth(NamedTuple):
    """theta: (6,); splits: the five parameters; says: (6, 2, 2), P(first, second verdict | state)."""

    theta: np.ndarray
    splits: np.ndarray
    says: np.ndarray
    rates: Mapping[str, float]  # of independent judges


class Masks(NamedTuple):
    """(items,) booleans: what is observed; verdicts: (items, 2)."""

    r: np.ndarray
    a: np.ndarray
    t: np.ndarray
    verdicts: np.ndarray


def masks(number: int, rng: np.random.Generator) -> Masks:
    """What is observed. Odd numbers have fewer than 20 labels; the upper half of each four has A missing on some."""
    items = int(rng.integers(80, 151))
    labels = int(rng.integers(5, 20) if number % 2 else rng.integers(20, 61))
    order = rng.permutation(items)
    r, t = np.zeros(items, dtype=bool), np.zeros(items, dtype=bool)
    r[order[:labels]] = True
    shift = int(rng.integers(0, labels // 2 + 1))  # R and T are labelled on sets of items that overlap
    t[order[shift : labels + shift]] = True
    a = np.ones(items, dtype=bool)
    if number % 4 >= 2:
        a = t | (rng.random(items) > 0.3)  # T can be labelled only where A is
    return Masks(r, a, t, rng.random((items, 2)) > 0.15)


def draw_truth(kind: Kind, own: bool, rng: np.random.Generator) -> Truth:
    """From the default prior. own: judges of T give verdicts on abstentions."""
    prior = Prior()
    rho, *rest = (rng.beta(*beta) for beta in prior.splits)
    alpha, tau = rest[:2], rest[2:]
    theta = np.array([
        (rho if r else 1 - rho) * (alpha[r] if a else (1 - alpha[r]) * (tau[r] if t else 1 - tau[r]))
        for r, a, t in STATES
    ])  # fmt: skip
    says, rates = _panel(kind, own, prior, rng) if kind.model == PANEL else _independent(kind, own, prior, rng)
    return Truth(theta, np.array([rho, *rest]), says, rates)


def _truths(kind: Kind, state: int) -> list[int]:
    return [int(STATES[state, "rat".index(judge[0])]) for judge in kind.judges]


def _panel(kind: Kind, own: bool, prior: Prior, rng: np.random.Generator) -> tuple[np.ndarray, Mapping[str, float]]:
    """Per state a Dirichlet over the verdicts of those who can give one; a judge that cannot is said to say 0."""
    says = np.zeros((6, 2, 2))
    for s in range(6):
        truths = _truths(kind, s)
        able = [own or truth != UNDEFINED for truth in truths]
        cells = [(i, j) for i in range(2) for j in range(2) if (able[0] or i == 0) and (able[1] or j == 0)]
        weights = [
            prior.panel_floor
            + prior.panel_lean * np.prod([_right(prior, truths[j], cell[j]) for j in range(2) if able[j]])
            for cell in cells
        ]
        for cell, probability in zip(cells, rng.dirichlet(weights), strict=True):
            says[s][cell] = probability
    return says, {}


def _right(prior: Prior, truth: int, verdict: int) -> float:
    if truth == UNDEFINED:
        return 0.5
    return prior.panel_right if truth == verdict else 1 - prior.panel_right


def _independent(
    kind: Kind, own: bool, prior: Prior, rng: np.random.Generator
) -> tuple[np.ndarray, Mapping[str, float]]:
    rates: dict[str, float] = {}
    one = np.zeros((6, 2))
    for j, judge in enumerate(kind.judges):
        tpr, fpr = _better_than_chance(prior.tpr, prior.fpr, rng)
        yes = rng.beta(*prior.yes_abstained)
        rates |= {f"tpr[{judge}]": tpr, f"fpr[{judge}]": fpr}
        if own and judge[0] == "t":
            rates[f"yes[{judge},a=1]"] = yes
        one[:, j] = [{1: tpr, 0: fpr, UNDEFINED: yes if own else 0.0}[_truths(kind, s)[j]] for s in range(6)]
    each = np.stack([1 - one, one], axis=2)  # (state, judge, verdict)
    return each[:, 0, :, None] * each[:, 1, None, :], rates


def _better_than_chance(tpr: Beta, fpr: Beta, rng: np.random.Generator) -> tuple[float, float]:
    while True:
        high, low = rng.beta(*tpr), rng.beta(*fpr)
        if high > low:
            return high, low


def observe(kind: Kind, truth: Truth, seen: Masks, rng: np.random.Generator) -> pa.Table:
    """A label table. Verdicts on T where an abstention is known are left out, as no judge is asked."""
    items = len(seen.r)
    state = rng.choice(6, size=items, p=truth.theta)
    combined = truth.says[state].reshape(items, 4).cumsum(axis=1)
    chosen = np.minimum((rng.random(items)[:, None] > combined).sum(axis=1), 3)
    verdicts = np.stack(np.divmod(chosen, 2), axis=1)
    r, a, t = STATES[state].T
    columns = {"r": (r, seen.r), "a": (a, seen.a), "t": (t, seen.t & (t != UNDEFINED))}
    for j, judge in enumerate(kind.judges):
        columns[judge] = (verdicts[:, j], seen.verdicts[:, j] & ~((judge[0] == "t") & seen.a & (a == 1)))
    return pa.table({
        name: pa.array(np.where(known, values, 0).astype(np.int8), type=LABEL, mask=~known)
        for name, (values, known) in columns.items()
    })  # fmt: skip


def log_likelihood(table: pa.Table, truth: Truth) -> float:
    """Of the table, item by item, from the definitions."""
    total = 0.0
    for row in zip(*(table.column(i).to_pylist() for i in range(5)), strict=True):
        labels, verdicts = row[:3], row[3:]
        agrees = [all(x is None or x == y for x, y in zip(labels, state, strict=True)) for state in STATES.tolist()]
        cell = tuple(slice(None) if v is None else slice(v, v + 1) for v in verdicts)
        said = truth.says[(slice(None), *cell)].sum(axis=(1, 2))
        total += float(np.log((truth.theta * agrees * said).sum()))
    return total


def true_values(kind: Kind, truth: Truth, design: Design) -> dict[str, tuple[str, float]]:
    """Quantity: (the program's column, the true value). Logits are given as probabilities."""
    found = {name: (f"ratio[{i},1]", float(truth.splits[i - 1])) for i, name in enumerate(PARAMETERS, start=1)}
    columns = design.columns
    found["p_g"] = (columns["p_g"], float(truth.theta[FOLLOWS].sum()))
    for name in (rate.name for rate in design.rates):
        found[name] = (columns[name], truth.rates[name] if truth.rates else _derived_rate(kind, truth, name))
    if kind.model == PANEL:
        found |= {
            f"cor[{','.join(kind.judges)}]": (columns[f"cor[{','.join(kind.judges)}]"], _correlation(kind, truth))
        }
        found |= _panel_splits(kind, truth, design)
    return found


def _derived_rate(kind: Kind, truth: Truth, name: str) -> float:
    """The rate of 1 over the states in which the judged variable is 1 (tpr), 0 (fpr) or undefined (yes)."""
    judge = name[name.index("[") + 1 :].split(",")[0].removesuffix("]")
    j = kind.judges.index(judge)
    value = {"tpr": 1, "fpr": 0, "yes": UNDEFINED}[name[:3]]
    states = [s for s in range(6) if _truths(kind, s)[j] == value]
    one = truth.says.sum(axis=2 - j)[:, 1]
    return float((truth.theta[states] * one[states]).sum() / truth.theta[states].sum())


def _correlation(kind: Kind, truth: Truth) -> float:
    """Within states, of the judges' errors, over the states in which both variables have a value."""
    shared = spread_first = spread_second = 0.0
    for s in range(6):
        truths = _truths(kind, s)
        if UNDEFINED in truths:
            continue
        wrong = truth.says[s][::-1] if truths[0] else truth.says[s]  # axis 0: first is right, wrong
        wrong = wrong[:, ::-1] if truths[1] else wrong
        first, second = wrong[1].sum(), wrong[:, 1].sum()
        shared += truth.theta[s] * (wrong[1, 1] - first * second)
        spread_first += truth.theta[s] * first * (1 - first)
        spread_second += truth.theta[s] * second * (1 - second)
    return float(shared / np.sqrt(spread_first * spread_second))


def _panel_splits(kind: Kind, truth: Truth, design: Design) -> dict[str, tuple[str, float]]:
    found = {}
    for q, (states, before) in enumerate(design.sides[0].splits, start=1):
        (s,) = states  # everything is observed somewhere, so that no states are lumped
        own = bool(design.sides[0].own)
        able = [j for j in range(2) if own or _truths(kind, s)[j] != UNDEFINED]
        says = truth.says[s]
        value = says[before[0], 1] / says[before[0]].sum() if before else says.sum(axis=1 - able[0])[1]
        found[f"split {STATES[s].tolist()} {list(before)}"] = (f"z_rate[{q}]", float(value))
    return found


class Simulated(NamedTuple):
    """Parameters, data from them, and the fit."""

    truth: Truth
    table: pa.Table
    design: Design


def simulate(job: Job) -> Simulated:
    """Draw from the prior, and data from that. Only the design depends on how the job is fitted."""
    kind = KINDS[job.kind]
    rng = np.random.default_rng(seed_for(1, "sbc", job.kind, job.number))
    seen = masks(job.number, rng)
    own = not seen.a.all()
    truth = draw_truth(kind, own, rng)
    table = observe(kind, truth, seen, rng)
    options = Options(judge_model=job.model or kind.model, finite=False, replicate=False, prior_only=job.prior_only)
    design = design_for({"all": patterns(table, list(kind.judges))}, job.prior, options)
    expected = sum(judge[0] == "t" for judge in kind.judges) if own else 0
    assert len(design.sides[0].own) == expected, "the simulated prior is not that of the fit"
    return Simulated(truth, table, design)


def work(job: Job) -> Record:
    """Simulate one data set, fit it, and rank the true values among the draws."""
    truth, table, design = simulate(job)
    start = time.perf_counter()
    fit_seed = seed_for(1, "sbc fit", job.kind, job.number)
    drawn, failure, retried = draw_twice(design, ENGINE, fit_seed, (_judged(design), DiagnosticsSettings()))
    seconds = round(time.perf_counter() - start, 3)
    reason = failure if drawn is None else _reason(drawn, design)
    record: Record = {"kind": job.kind, "retried": retried, "failure": reason, "seconds": seconds}
    if drawn is None:
        return {**record, "ranks": {}}
    wanted = {"log likelihood": ("log_likelihood", log_likelihood(table, truth))}
    if job.model:  # the model's rates are others than those simulated
        wanted |= {"p_g": (design.columns["p_g"], float(truth.theta[FOLLOWS].sum()))}
    else:
        wanted |= true_values(KINDS[job.kind], truth, design)
    return {**record, "ranks": {name: _rank(drawn, *one) for name, one in wanted.items()}}


def _rank(drawn: Draws, column: str, value: float) -> int:
    draws = drawn.values[:, :: ENGINE.samples * ENGINE.chains // RANKED, drawn.names.index(column)]
    if column.startswith("z_"):
        value = float(np.log(value) - np.log1p(-value))
    return int((draws < value).sum())


def _judged(design: Design) -> list[str]:
    """What decides whether a fit failed: every quantity that a user would see, but the bits of information."""
    return [name for name in design.columns if name not in BITS]


def _reason(drawn: Draws, design: Design) -> str | None:
    names = _judged(design)
    values = drawn.values[:, :, [drawn.names.index(design.columns[name]) for name in names]]
    stats = SamplerStats(drawn.divergent, drawn.treedepth, drawn.energy, ENGINE.max_treedepth)
    status = judge_fit(names, values, convergence(values), stats, DiagnosticsSettings())
    return status.reason if status.status == FAIL else None


@dataclass(frozen=True)
class Result:
    """tests: quantity (shared ones pooled over the kinds, as "all: rho"): its uniformity."""

    tests: Mapping[str, Uniformity]
    sets: int
    failures: tuple[str, ...]
    retried: int
    seconds: float

    @property
    def corrected(self) -> dict[str, float]:
        """Quantity: its p-value times the number of tests that share its half of the level."""
        shared = sum(name.startswith(POOLED) for name in self.tests)
        many = {True: 2 * shared, False: 2 * (len(self.tests) - shared)}
        return {name: min(1.0, test.p_value * many[name.startswith(POOLED)]) for name, test in self.tests.items()}

    @property
    def p_value(self) -> float:
        """Of all tests together."""
        return min(self.corrected.values())

    @property
    def worst(self) -> str:
        """The quantity with the smallest corrected p-value."""
        return min(self.corrected, key=self.corrected.__getitem__)

    def table(self) -> str:
        """For docs/validation.md."""
        lines = ["| quantity | ranks | largest ECDF deviation | p of the band |", "| --- | --- | --- | --- |"]
        lines += [
            f"| {name} | {test.ranks} | {test.deviation:.3f} | {test.p_value:.3f} |"
            for name, test in self.tests.items()
        ]
        return "\n".join(lines)


def study(jobs: Sequence[Job], path: Path | None = None, processes: int = 1, report_every: int = 0) -> Result:
    """Run the jobs and test the ranks of every quantity."""
    start = time.perf_counter()
    records = run(jobs, _key, work, path, processes, report_every)
    ranks: dict[str, list[int]] = {}
    for record in records:
        for name, rank in record["ranks"].items():
            group = POOLED if name in (*PARAMETERS, "p_g", "log likelihood") else record["kind"] + ": "
            ranks.setdefault(group + name, []).append(rank)
    return Result(
        {name: uniformity(np.array(found), RANKED) for name, found in ranks.items()},
        len(records),
        tuple(f"{r['key']}: {r['failure']}" for r in records if r["failure"]),
        sum(r["retried"] for r in records),
        time.perf_counter() - start,
    )


def _key(job: Job) -> str:
    """Its names, and a digest of what is sampled: the model, the prior and the data."""
    return f"{job.kind}/{job.number}/{fit_digest(simulate(job).design, ENGINE)}"


def jobs(draws: int) -> list[Job]:
    """At least this many data sets, equally many of each kind."""
    each = -(-draws // len(KINDS))
    return [Job(kind, number) for number in range(each) for kind in KINDS]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, print the table, and exit with 1 when a quantity is outside its band or a fit failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="a JSONL file; what it holds is not run again")
    given = parser.parse_args(arguments)
    result = study(jobs(given.draws), given.out, given.processes, report_every=200)
    print(result.table())
    worst = result.tests[result.worst]
    print(f"\n{result.sets} draws from the prior, {result.retried} fits sampled twice, {len(result.failures)} failed")
    print(f"p = {result.p_value:.3f} (corrected for {len(result.tests)} tests); worst: {result.worst} {worst}")
    print("\n".join(result.failures))
    if result.failures or result.p_value < 0.05:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
