"""Coverage of 95 % intervals of P(G=1) at fixed truths. Results are appended to a file, so that a kill loses nothing.

    python -m tests.statistical.coverage run --out coverage.jsonl            # the whole study
    python -m tests.statistical.coverage run --out quick.jsonl --parts panel-100 --sets 60
    python -m tests.statistical.coverage table --out coverage.jsonl

The seed of a data set depends on its names only (system, errors, number), so that models and numbers of labels are
compared on the same data sets, and a study that is continued is the same as one that was never stopped.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.special import betaln, gammaln

from rat_ray.model.design import Options
from rat_ray.model.diagnostics import FAIL, DiagnosticsSettings, SamplerStats, convergence, judge_fit
from rat_ray.model.engines import EngineSettings
from rat_ray.model.patterns import patterns
from rat_ray.model.posterior import Sampled, draws_array, sample
from rat_ray.model.priors import Prior
from rat_ray.model.states import STATES
from rat_ray.seeds import seed_for
from tests.statistical.truths import ERRORS, ITEMS, TRUTHS, Items, draw, label_table

LEVEL = 0.95
QUANTILES = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
ENGINE = EngineSettings(chains=2, warmup=500, samples=1000)
# The quantities that decide whether a fit is sampled again: identified whenever R and T are labelled together.
JUDGED = ("rho", "alpha[0]", "alpha[1]", "tau[0]", "tau[1]", "p_g", "p_t")
EXACT_DRAWS = 4000


@dataclass(frozen=True)
class Part:
    """One model at one number of labels: data sets of every system under every kind of errors."""

    model: str
    labels: int
    sets: int


PARTS = {
    "panel-100": Part("panel", 100, 500),
    "independent-100": Part("independent", 100, 200),
    "panel-30": Part("panel", 30, 500),
    "independent-30": Part("independent", 30, 200),
}


@dataclass(frozen=True)
class Case:
    """One data set and how it is fitted."""

    truth: str
    errors: str
    number: int
    model: str
    labels: int
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
    seconds: float

    @property
    def case(self) -> Case:
        """What was fitted."""
        return Case(self.truth, self.errors, self.number, self.model, self.labels, self.prior)


def prior_of(text: str) -> Prior:
    """The default prior with some fields changed, such as `panel_lean=2`."""
    pairs = (part.split("=") for part in text.split(",") if part)
    return Prior(**{name: float(value) for name, value in pairs})  # type: ignore[arg-type]


def run_case(case: Case) -> Outcome:
    """Simulate one data set and fit it."""
    errors = ERRORS[case.errors]
    items = draw(TRUTHS[case.truth], errors, ITEMS, seed_for(1, "coverage", case.truth, case.errors, case.number))
    counts = patterns(label_table(items, errors, case.labels), list(errors.judges))
    options = Options(judge_model=case.model, finite=False, replicate=False)
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
        seconds=round(seconds, 3),
    )


def failed(sampled: Sampled, judged: Sequence[str], engine: EngineSettings) -> bool:
    """Whether the draws that were kept have the status `fail`, or there are none."""
    if sampled.failure is not None:
        return True
    values = draws_array(sampled.draws, list(judged))
    stats = (draws_array(sampled.draws, [f"{what}__"])[:, :, 0] for what in ("divergent", "treedepth", "energy"))
    sampler = SamplerStats(*stats, engine.max_treedepth)
    return judge_fit(list(judged), values, convergence(values), sampler, DiagnosticsSettings()).status == FAIL


def _interval(sampled: Sampled) -> tuple[float | None, float | None, float | None]:
    if sampled.failure is not None:
        return None, None, None
    values = draws_array(sampled.draws, ["p_g"])
    low, high = np.quantile(values, QUANTILES)
    return float(low), float(high), float(values.mean())


def without_judges(items: Items, labels: int, use_rest: bool, rng: np.random.Generator) -> np.ndarray:
    """Exact posterior draws of P(G=1) under uniform priors, from the labelled items and, if use_rest, A of the others.

    Of the u abstentions and v answers without an R label some k and j have R = 1: a mixture of Betas over all (k, j).
    """
    n = np.bincount(items.state[items.order[:labels]], minlength=len(STATES))
    rest = np.bincount(items.state[items.order[labels:]], minlength=len(STATES)) if use_rest else np.zeros(6, dtype=int)
    u, v = int(rest[0] + rest[3]), int(rest[1:3].sum() + rest[4:].sum())
    k, j = np.arange(u + 1)[:, None], np.arange(v + 1)[None, :]
    abstained, answered = (n[0] + u - k, n[3] + k), (n[1] + n[2] + v - j, n[4] + n[5] + j)  # by R
    weight = _log_choose(u, k) + _log_choose(v, j)
    weight = weight + betaln(1 + abstained[1] + answered[1], 1 + abstained[0] + answered[0])
    weight = weight + sum(betaln(1 + abstained[r], 1 + answered[r]) for r in (0, 1))
    p = np.exp(weight - weight.max()).reshape(-1)
    which_k, which_j = np.divmod(rng.choice(len(p), EXACT_DRAWS, p=p / p.sum()), v + 1)
    a0, a1 = n[0] + u - which_k, n[3] + which_k
    b0, b1 = n[1] + n[2] + v - which_j, n[4] + n[5] + which_j
    rho = rng.beta(1 + a1 + b1, 1 + a0 + b0)
    alpha = rng.beta(1 + a0, 1 + b0), rng.beta(1 + a1, 1 + b1)
    tau = rng.beta(1 + n[5], 1 + n[4], EXACT_DRAWS)
    return np.asarray((1 - rho) * alpha[0] + rho * (1 - alpha[1]) * tau)


def _log_choose(n: int, k: np.ndarray) -> np.ndarray:
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def cases(parts: Iterable[Part], sets: int | None = None, prior: str = "") -> list[Case]:
    """Every case of the parts. sets: fewer data sets than planned."""
    return [
        Case(truth, errors, number, part.model, part.labels, prior)
        for part in parts
        for number in range(min(part.sets, sets or part.sets))
        for truth in TRUTHS
        for errors in ERRORS
    ]


def read(path: Path) -> list[Outcome]:
    """What is finished; a half-written last line is left out."""
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]  # a line is whole once its end is written
    return [Outcome(**json.loads(line)) for line in lines]


def run(wanted: Sequence[Case], path: Path, processes: int = 1) -> None:
    """Run the cases that are not in the file yet, and append them."""
    finished = read(path)
    if path.is_file():
        path.write_text("".join(json.dumps(asdict(one)) + "\n" for one in finished), encoding="utf-8")
    done = {one.case for one in finished}
    left = [case for case in wanted if case not in done]
    start = time.perf_counter()
    with path.open("a", encoding="utf-8") as file, multiprocessing.get_context("spawn").Pool(processes) as pool:
        for number, outcome in enumerate(pool.imap_unordered(run_case, left, chunksize=4), start=1):
            file.write(json.dumps(asdict(outcome)) + "\n")
            file.flush()
            if number % 600 == 0 or number == len(left):
                print(f"{number} of {len(left)} fits, {time.perf_counter() - start:.0f} s", flush=True)


@dataclass(frozen=True)
class Row:
    """One cell of the study. bar: the lowest coverage within three Monte Carlo errors of 95 %."""

    truth: str
    errors: str
    model: str
    labels: int
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
    groups: dict[tuple[str, int, str, str, str], list[Outcome]] = {}
    for one in outcomes:
        groups.setdefault((one.model, one.labels, one.prior, one.truth, one.errors), []).append(one)
    order = {name: number for number, name in enumerate([*TRUTHS, *ERRORS])}
    models = list(dict.fromkeys(part.model for part in PARTS.values()))
    keys = sorted(groups, key=lambda k: (-k[1], models.index(k[0]), k[2], order[k[3]], order[k[4]]))
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
    """The table of docs/validation.md."""
    head = [
        "system", "errors", "model", "labels", "sets", "coverage %", "MC errors from 95", "too high / too low %",
        "width", "width, no judges", "coverage, no judges %", "width, labelled rows", "retried", "failed",
    ]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        model = f"{row.model} ({row.prior})" if row.prior else row.model
        cells = [
            row.truth, row.errors, model, row.labels, row.sets, f"{100 * row.coverage:.1f}",
            f"{row.errors_from_nominal:+.1f}", f"{100 * row.above:.1f} / {100 * row.below:.1f}", f"{row.width:.3f}",
            f"{row.alone_width:.3f}", f"{100 * row.alone_coverage:.1f}", f"{row.rows_width:.3f}", row.retried, row.failed,
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
    given = parser.parse_args(arguments)
    wanted = cases([PARTS[name] for name in given.parts], given.sets, given.prior)
    wanted = [case for case in wanted if case.truth in given.truths and case.errors in given.errors]
    if given.what == "run":
        given.out.parent.mkdir(parents=True, exist_ok=True)
        run(wanted, given.out, given.processes)
    chosen = set(wanted)
    print(markdown(summarise([one for one in read(given.out) if one.case in chosen])))


if __name__ == "__main__":
    main()
