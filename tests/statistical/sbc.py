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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rat_ray.model.design import Design, Options
from rat_ray.model.diagnostics import FAIL, DiagnosticsSettings, SamplerStats, convergence, judge_fit
from rat_ray.model.engines import ENGINES, NUTS, Draws, EngineSettings
from rat_ray.model.patterns import patterns
from rat_ray.model.posterior import design_for, draw_twice
from rat_ray.model.priors import Prior
from rat_ray.model.states import BITS, FOLLOWS, PARAMETERS, STATES, UNDEFINED
from rat_ray.model.verdicts import PANEL
from rat_ray.seeds import seed_for
from tests.statistical.runs import Record, fit_digest, replace_block, run
from tests.statistical.simulation import (
    KINDS,
    Kind,
    Truth,
    correlation,
    derived_rate,
    draw_truth,
    judged_values,
    log_likelihood,
    masks,
    observe,
)
from tests.statistical.uniform import Uniformity, uniformity

ENGINE = EngineSettings(chains=4, warmup=500, samples=750)
RANKED = 100  # draws that the truth is ranked among: every 30th
POOLED = "all: "  # the names of what is pooled over the kinds begin with this


@dataclass(frozen=True)
class Job:
    """A data set, and how it is fitted: wrongly, to see that the test notices."""

    kind: str
    number: int
    prior: Prior = Prior()  # of the fit; the data are always from the default
    model: str = ""  # of the fit; empty: the kind's
    prior_only: bool = False  # a fit that ignores the data
    engine: EngineSettings = ENGINE


def true_values(kind: Kind, truth: Truth, design: Design) -> dict[str, tuple[str, float]]:
    """Quantity: (the program's column, the true value). Logits are given as probabilities."""
    found = {name: (f"ratio[{i},1]", float(truth.splits[i - 1])) for i, name in enumerate(PARAMETERS, start=1)}
    columns = design.columns
    found["p_g"] = (columns["p_g"], float(truth.theta[FOLLOWS].sum()))
    for name in (rate.name for rate in design.rates):
        found[name] = (columns[name], truth.rates[name] if truth.rates else derived_rate(kind, truth, name))
    if kind.model == PANEL:
        found |= {f"cor[{','.join(kind.judges)}]": (columns[f"cor[{','.join(kind.judges)}]"], correlation(kind, truth))}
        found |= _panel_splits(kind, truth, design)
    return found


def _panel_splits(kind: Kind, truth: Truth, design: Design) -> dict[str, tuple[str, float]]:
    found = {}
    for q, (states, before) in enumerate(design.sides[0].splits, start=1):
        (s,) = states  # everything is observed somewhere, so that no states are lumped
        own = bool(design.sides[0].own)
        able = [j for j in range(2) if own or judged_values(kind, s)[j] != UNDEFINED]
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
    drawn, failure, retried = draw_twice(design, job.engine, fit_seed, (_judged(design), DiagnosticsSettings()))
    seconds = round(time.perf_counter() - start, 3)
    reason = failure if drawn is None else _reason(drawn, design)
    record: Record = {"kind": job.kind, "retried": retried, "failure": reason, "seconds": seconds}
    record["nuts"] = drawn is None or drawn.sampler == NUTS
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
    sampling: float  # seconds
    nuts: int = 0  # fits that NUTS made

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
        """One row per quantity."""
        lines = [
            "| quantity | ranks | largest ECDF deviation | p of the band | p corrected |",
            "| --- | --- | --- | --- | --- |",
        ]
        for name, test in self.tests.items():
            numbers = f"{test.deviation:.3f} | {test.p_value:.4f} | {self.corrected[name]:.2f}"
            lines.append(f"| {name} | {test.ranks} | {numbers} |")
        return "\n".join(lines)

    def text(self) -> str:
        """For docs/validation.md."""
        worst = self.tests[self.worst]
        said = [
            f"{self.sets} draws from the prior; {self.retried} fits sampled twice, {len(self.failures)} failed; "
            f"{self.sampling:.0f} s of sampling on one core; {self.nuts} fits by NUTS.",
            f"Smallest p-value, corrected for {len(self.tests)} tests: {self.p_value:.2f} ({self.worst}: largest ECDF "
            f"deviation {worst.deviation:.3f} over {worst.ranks} ranks).",
            *self.failures,
        ]
        return "\n\n".join([*said, self.table()]) + "\n"


def study(jobs: Sequence[Job], path: Path | None = None, processes: int = 1, report_every: int = 0) -> Result:
    """Run the jobs and test the ranks of every quantity."""
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
        sum(r["seconds"] for r in records),
        sum(r.get("nuts", True) for r in records),
    )


def _key(job: Job) -> str:
    """Its names, and a digest of what is sampled: the model, the prior and the data."""
    return f"{job.kind}/{job.number}/{fit_digest(simulate(job).design, job.engine)}"


def jobs(draws: int, engine: EngineSettings = ENGINE) -> list[Job]:
    """At least this many data sets, equally many of each kind."""
    each = -(-draws // len(KINDS))
    return [Job(kind, number, engine=engine) for number in range(each) for kind in KINDS]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, print the table, and exit with 1 when a quantity is outside its band or a fit failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--engine", default=ENGINE.kind, choices=ENGINES)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="a JSONL file; what it holds is not run again")
    parser.add_argument("--docs", type=Path, help="also put the result between the marks in this file")
    given = parser.parse_args(arguments)
    engine = replace(ENGINE, kind=given.engine)
    result = study(jobs(given.draws, engine), given.out, given.processes, report_every=200)
    text = result.text()
    print(text)
    if given.docs:
        replace_block(given.docs, "sbc", text)
    if result.failures or result.p_value < 0.05:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
