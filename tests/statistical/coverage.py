"""Coverage of 95 % intervals of P(G=1) at fixed truths. Results are appended to a file, so that a kill loses nothing.

    python -m tests.statistical.coverage run --out coverage.jsonl            # the whole study
    python -m tests.statistical.coverage run --out quick.jsonl --parts panel-100 --sets 60
    python -m tests.statistical.coverage table --out coverage.jsonl

The seed of a data set depends on its names only (system, errors, number), so that models and numbers of labels are
compared on the same data sets, and a study that is continued is the same as one that was never stopped.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rat_ray.model.design import Options
from rat_ray.model.diagnostics import FAIL, DiagnosticsSettings, SamplerStats, convergence, judge_fit
from rat_ray.model.engines import EngineSettings
from rat_ray.model.patterns import patterns
from rat_ray.model.posterior import Sampled, design_for, draws_array, sample
from rat_ray.model.priors import Prior
from rat_ray.model.states import ABSTAINED, STATES
from rat_ray.seeds import seed_for
from tests.statistical.runs import Record, fit_digest, read, replace_block, run
from tests.statistical.truths import ERRORS, TRUTHS, Items, draw, label_table

LEVEL = 0.95
ITEMS = 500
QUANTILES = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
ENGINE = EngineSettings(chains=2, warmup=500, samples=1000)
# The quantities that decide whether a fit is sampled again: identified whenever R and T are labelled together.
JUDGED = ("rho", "alpha[0]", "alpha[1]", "tau[0]", "tau[1]", "p_g", "p_t")
EXACT_DRAWS = 20_000


@dataclass(frozen=True)
class Part:
    """One model at one number of labels: data sets of every system under every kind of errors."""

    model: str
    labels: int
    sets: int
    items: int = ITEMS


PARTS = {
    "panel-100": Part("panel", 100, 500),
    "independent-100": Part("independent", 100, 200),
    "panel-30": Part("panel", 30, 200),
    "panel-100-of-5000": Part("panel", 100, 100, 5000),
    "independent-100-of-5000": Part("independent", 100, 100, 5000),
}


@dataclass(frozen=True)
class Case:
    """One data set and how it is fitted."""

    truth: str
    errors: str
    number: int
    model: str
    labels: int
    items: int = ITEMS
    prior: str = ""  # "panel_lean=2,panel_floor=0.5"; empty: the default


@dataclass(frozen=True)
class Outcome:
    """low, high: the interval of P(G=1); null where there are no draws. alone: labels and A, no judges (exact).

    rows: the labelled rows only (exact). failed: the status is `fail` after the second try.
    """

    truth: str
    errors: str
    number: int
    model: str
    labels: int
    items: int
    prior: str
    low: float | None
    high: float | None
    mean: float | None
    alone_low: float
    alone_high: float
    rows_low: float
    rows_high: float
    retried: bool
    failed: bool
    failure: str | None  # why there are no draws
    seconds: float

    @property
    def case(self) -> Case:
        """What was fitted."""
        return Case(self.truth, self.errors, self.number, self.model, self.labels, self.items, self.prior)


def prior_of(text: str) -> Prior:
    """The default prior with some fields changed, such as `panel_lean=2`."""
    pairs = (part.split("=") for part in text.split(",") if part)
    return Prior(**{name: float(value) for name, value in pairs})  # type: ignore[arg-type]


class Simulated(NamedTuple):
    """A data set, its count table, and how it is fitted."""

    items: Items
    counts: pa.Table
    options: Options


def simulate(case: Case) -> Simulated:
    """One data set; its seed depends on the system, the errors and the number only."""
    errors = ERRORS[case.errors]
    size = [] if case.items == ITEMS else [case.items]
    seed = seed_for(1, "coverage", case.truth, case.errors, case.number, *size)
    items = draw(TRUTHS[case.truth], errors, case.items, seed)
    counts = patterns(label_table(items, errors, case.labels), list(errors.judges))
    return Simulated(items, counts, Options(judge_model=case.model, finite=False, replicate=False))


def run_case(case: Case) -> Outcome:
    """Simulate one data set and fit it."""
    items, counts, options = simulate(case)
    name = f"{case.truth}/{case.errors}/{case.number}"
    start = time.perf_counter()
    sampled = sample(counts, prior_of(case.prior), ENGINE, 1, name, options, JUDGED, DiagnosticsSettings())
    seconds = time.perf_counter() - start
    low, high, mean = _interval(sampled)
    rng = np.random.default_rng(seed_for(1, "exact", name))
    alone, rows = (np.quantile(without_judges(items, case.labels, rest, rng), QUANTILES) for rest in (True, False))
    return Outcome(
        **asdict(case),
        low=low,
        high=high,
        mean=mean,
        alone_low=float(alone[0]),
        alone_high=float(alone[1]),
        rows_low=float(rows[0]),
        rows_high=float(rows[1]),
        retried=sampled.retried,
        failed=failed(sampled, JUDGED, ENGINE),
        failure=sampled.failure,
        seconds=round(seconds, 3),
    )


def failed(sampled: Sampled, judged: Sequence[str], engine: EngineSettings) -> bool:
    """Whether the draws that were kept have the status `fail`, or there are none."""
    if sampled.failure is not None:
        return True
    values = draws_array(sampled.draws, list(judged))
    stats = draws_array(sampled.draws, ["divergent__", "treedepth__", "energy__"])
    sampler = SamplerStats(stats[:, :, 0], stats[:, :, 1], stats[:, :, 2], engine.max_treedepth)
    return judge_fit(list(judged), values, convergence(values), sampler, DiagnosticsSettings()).status == FAIL


def _interval(sampled: Sampled) -> tuple[float | None, float | None, float | None]:
    if sampled.failure is not None:
        return None, None, None
    values = draws_array(sampled.draws, ["p_g"])
    low, high = np.quantile(values, QUANTILES)
    return float(low), float(high), float(values.mean())


def without_judges(items: Items, labels: int, use_rest: bool, rng: np.random.Generator) -> np.ndarray:
    """Posterior draws of P(G=1) under uniform priors, from the labelled items and, if use_rest, A of the others.

    Drawn in the order A, then R given A, whose posterior is a Beta each, and weighted by the ratio of the two orders'
    priors: uniform rho, alpha[0], alpha[1] have the density 1 / (rho (1 - rho)) in the four cells of R and A.
    """
    n = np.bincount(items.state[items.order[:labels]], minlength=len(STATES))
    rest = items.state[items.order[labels:]] if use_rest else items.state[:0]
    unlabelled = int(ABSTAINED[rest].sum())
    abstained = rng.beta(1 + n[0] + n[3] + unlabelled, 1 + n[[1, 2, 4, 5]].sum() + len(rest) - unlabelled, EXACT_DRAWS)
    retrieved = rng.beta(1 + n[3], 1 + n[0], EXACT_DRAWS), rng.beta(1 + n[4] + n[5], 1 + n[1] + n[2], EXACT_DRAWS)
    rho = abstained * retrieved[0] + (1 - abstained) * retrieved[1]
    weight = abstained * (1 - abstained) / (rho * (1 - rho))
    tau = rng.beta(1 + n[5], 1 + n[4], EXACT_DRAWS)
    p_g = abstained * (1 - retrieved[0]) + (1 - abstained) * retrieved[1] * tau
    return np.asarray(rng.choice(p_g, EXACT_DRAWS, p=weight / weight.sum()))


def cases(parts: Iterable[Part], sets: int | None = None, prior: str = "") -> list[Case]:
    """Every case of the parts. sets: fewer data sets than planned."""
    return [
        Case(truth, errors, number, part.model, part.labels, part.items, prior)
        for part in parts
        for number in range(min(part.sets, sets or part.sets))
        for truth in TRUTHS
        for errors in ERRORS
    ]


def key(case: Case) -> str:
    """What a case's record is found by: its names, and a digest of what is sampled."""
    _, counts, options = simulate(case)
    digest = fit_digest(design_for({"all": counts}, prior_of(case.prior), options), ENGINE)
    return "/".join([*map(str, asdict(case).values()), digest])


def outcome(record: Record) -> Outcome:
    """From a line of the file."""
    return Outcome(**{name: value for name, value in record.items() if name != "key"})


def work(case: Case) -> Record:
    """`run_case` as a record."""
    return asdict(run_case(case))


@dataclass(frozen=True)
class Row:
    """One cell of the study. bar: the lowest coverage within three Monte Carlo errors of 95 %."""

    truth: str
    errors: str
    model: str
    labels: int
    items: int
    prior: str
    sets: int
    coverage: float
    above: float  # the share of intervals that lie above the truth
    below: float
    width: float
    alone_coverage: float
    alone_width: float
    rows_coverage: float
    rows_width: float
    retried: int
    failed: int

    @property
    def errors_from_nominal(self) -> float:
        """Distance from 95 % in Monte Carlo errors."""
        return (self.coverage - LEVEL) / float(np.sqrt(LEVEL * (1 - LEVEL) / self.sets))


def summarise(outcomes: Sequence[Outcome]) -> list[Row]:
    """One row per cell, in the order of the study. A fit without draws is counted as not covering."""
    groups: dict[tuple[int, int, str, str, str, str], list[Outcome]] = {}
    for one in outcomes:
        groups.setdefault((one.items, -one.labels, one.model, one.prior, one.truth, one.errors), []).append(one)
    order = {name: number for number, name in enumerate([*TRUTHS, *ERRORS])}
    models = list(dict.fromkeys(part.model for part in PARTS.values()))
    keys = sorted(groups, key=lambda k: (*k[:2], models.index(k[2]), k[3], order[k[4]], order[k[5]]))
    return [_row(groups[key]) for key in keys]


def _row(group: Sequence[Outcome]) -> Row:
    first = group[0]
    truth = TRUTHS[first.truth].p_g
    drawn = [(one.low, one.high) for one in group if one.low is not None and one.high is not None]
    ends = np.array(drawn).reshape(-1, 2)
    alone = np.array([(one.alone_low, one.alone_high) for one in group])
    rows = np.array([(one.rows_low, one.rows_high) for one in group])
    return Row(
        first.truth,
        first.errors,
        first.model,
        first.labels,
        first.items,
        first.prior,
        len(group),
        float(_covers(ends, truth).sum() / len(group)),
        float((ends[:, 0] > truth).mean()),
        float((ends[:, 1] < truth).mean()),
        float(np.diff(ends).mean()),
        float(_covers(alone, truth).mean()),
        float(np.diff(alone).mean()),
        float(_covers(rows, truth).mean()),
        float(np.diff(rows).mean()),
        sum(one.retried for one in group),
        sum(one.failed for one in group),
    )


def _covers(ends: np.ndarray, truth: float) -> np.ndarray:
    return np.asarray((ends[:, 0] <= truth) & (truth <= ends[:, 1]))


def markdown(rows: Sequence[Row]) -> str:
    """The tables of docs/validation.md, one per model and number of labels."""
    parts: dict[str, list[Row]] = {}
    for row in rows:
        model = f"{row.model} ({row.prior})" if row.prior else row.model
        parts.setdefault(f"**`{model}`, R and T labelled on {row.labels} of {row.items:,} items**", []).append(row)
    return "\n".join(f"{title}\n\n{_table(part)}" for title, part in parts.items())


def _table(rows: Sequence[Row]) -> str:
    head = [
        "system", "judges' errors", "sets", "coverage %", "MC errors from 95", "too high / too low %", "width",
        "no judges: coverage %", "width", "labelled rows: coverage %", "width", "retried", "failed",
    ]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        cells = [
            row.truth, row.errors, row.sets, f"{100 * row.coverage:.1f}", f"{row.errors_from_nominal:+.1f}",
            f"{100 * row.above:.1f} / {100 * row.below:.1f}", f"{row.width:.3f}", f"{100 * row.alone_coverage:.1f}",
            f"{row.alone_width:.3f}", f"{100 * row.rows_coverage:.1f}", f"{row.rows_width:.3f}",
            row.retried, row.failed,
        ]  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study, or print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--out", type=Path, required=True, help="a JSONL file; what it holds is not run again")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--truths", nargs="+", choices=list(TRUTHS), default=list(TRUTHS))
    parser.add_argument("--errors", nargs="+", choices=list(ERRORS), default=list(ERRORS))
    parser.add_argument("--sets", type=int, help="fewer data sets per cell")
    parser.add_argument("--prior", default="", help="panel_lean=2,panel_floor=0.5")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--docs", type=Path, help="also put the tables between the marks in this file")
    given = parser.parse_args(arguments)
    wanted = cases([PARTS[name] for name in given.parts], given.sets, given.prior)
    wanted = [case for case in wanted if case.truth in given.truths and case.errors in given.errors]
    if given.what == "run":
        found = list(map(outcome, run(wanted, key, work, given.out, given.processes, report_every=600)))
    else:
        chosen = set(wanted)
        found = [one for one in map(outcome, read(given.out)) if one.case in chosen]
    text = markdown(summarise(found))
    print(text)
    if given.docs:
        replace_block(given.docs, "coverage", text)


if __name__ == "__main__":
    main()
