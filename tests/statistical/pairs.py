"""Two systems on the same questions: coverage of their true difference in P(G=1), from the joint fit and from two fits.

    python -m tests.statistical.pairs run --out pairs.jsonl                    # the whole study
    python -m tests.statistical.pairs run --out quick.jsonl --cells same-none --sets 60
    python -m tests.statistical.pairs table --out pairs.jsonl

A question's difficulty, standard normal, lowers R and T and raises A of both systems (on the logit scale), so that what
they do goes together; given the difficulty they are independent, except that with the same context R is one variable.
Both systems are labelled on the same random questions. Results are appended to a file, so that a kill loses nothing.
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
from scipy.special import expit

from rat_ray.model.compare import Comparison, compare_counts
from rat_ray.model.design import Options
from rat_ray.model.diagnostics import FAIL, DiagnosticsSettings
from rat_ray.model.engines import EngineSettings
from rat_ray.model.pair_design import PairCounts, pair_counts, pair_design
from rat_ray.model.patterns import patterns
from rat_ray.model.posterior import sample
from rat_ray.model.priors import Prior
from rat_ray.seeds import seed_for
from rat_ray.tables import LABEL
from tests.statistical.runs import Record, fit_digest, read, replace_block, run

LEVEL = 0.95
QUANTILES = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
ITEMS, LABELS, SETS = 300, 100, 500
ENGINE = EngineSettings(chains=2, warmup=400, samples=600)
OPTIONS = Options(finite=False, replicate=False)
NAMES = ("first", "second")
SURE = 0.975  # P(first > second) above it: a difference was found
JUDGED = ("rho", "alpha[0]", "alpha[1]", "tau[0]", "tau[1]", "p_g", "p_t")
SLOPE = 1.5  # of the difficulty, in every logit
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(80)


class System(NamedTuple):
    """Logits at difficulty 0: of R; of A and of T given R = 0 and 1."""

    rho: float
    alpha: tuple[float, float]
    tau: tuple[float, float]

    def rates(self, difficulty: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """P(R=1), P(A=1 | R) and P(T=1 | A=0, R), the latter two (2, items), per item."""
        hard = SLOPE * difficulty
        alpha, tau = (np.array(logits)[:, None] for logits in (self.alpha, self.tau))
        return expit(self.rho - hard), expit(alpha + hard), expit(tau - hard)

    @property
    def p_g(self) -> float:
        """P(G=1), over the difficulty (Gauss-Hermite quadrature)."""
        rho, alpha, tau = self.rates(_NODES)
        at = (1 - rho) * alpha[0] + rho * (1 - alpha[1]) * tau[1]
        return float(_WEIGHTS @ at / _WEIGHTS.sum())


FIRST = System(0.8, (-1.0, -3.5), (-1.0, 1.8))
SECOND = System(0.8, (-2.2, -3.5), (-1.0, 1.0))
TPR, FPR = 0.85, 0.2  # of the judge of T, for each system's answers by themselves


@dataclass(frozen=True)
class Cell:
    """What kind of data sets. judge: T is judged everywhere; equal: no difference.

    same_context: the share of questions on which both had the same passages, so that R is one variable there.
    """

    same_context: float
    judge: bool
    equal: bool = False
    sets: int = SETS

    @property
    def systems(self) -> tuple[System, System]:
        """The two systems."""
        return FIRST, FIRST if self.equal else SECOND

    @property
    def difference(self) -> float:
        """The true difference in P(G=1)."""
        first, second = self.systems
        return first.p_g - second.p_g


CELLS = {
    "same-none": Cell(1, False),
    "same-judge": Cell(1, True),
    "different-none": Cell(0, False),
    "different-judge": Cell(0, True),
    "half-none": Cell(0.5, False),
    "same-none-equal": Cell(1, False, equal=True, sets=200),
    "different-none-equal": Cell(0, False, equal=True, sets=200),
}


@dataclass(frozen=True)
class Case:
    """One data set of a cell."""

    cell: str
    number: int


class Simulated(NamedTuple):
    """Two label tables, the judges of each, and their joint counts."""

    tables: tuple[pa.Table, pa.Table]
    judges: list[str]
    counts: PairCounts


@dataclass(frozen=True)
class Outcome:
    """Intervals of the difference; p_greater: P(first > second). alone_*: from two independent fits.

    failed: the joint fit's status is `fail`.
    """

    cell: str
    number: int
    low: float
    high: float
    p_greater: float
    alone_low: float
    alone_high: float
    alone_p_greater: float
    failed: bool
    seconds: float


def simulate(case: Case, items: int = ITEMS, labels: int = LABELS) -> Simulated:
    """One data set. Its seed depends on the number and the contexts only: cells with and without judges share."""
    cell = CELLS[case.cell]
    some = [] if cell.same_context in (0, 1) else ["some"]
    rng = np.random.default_rng(seed_for(1, "pairs", int(cell.same_context == 1), case.number, *some))
    difficulty = rng.normal(size=items)
    known = rng.permutation(items) < labels
    luck = rng.random((2, 4, items))
    same = rng.random(items) < cell.same_context if some else np.full(items, cell.same_context == 1)
    luck[1, 0, same] = luck[0, 0, same]  # both systems have the same rho
    judges = ["t@x"] if cell.judge else []
    tables = [_table(system, difficulty, known, *both, judges) for system, both in zip(cell.systems, luck, strict=True)]
    if same.any():
        contexts = [[str(i) if alike else f"{name} {i}" for i, alike in enumerate(same)] for name in NAMES]
        tables = [one.append_column("context", pa.array(mine)) for one, mine in zip(tables, contexts, strict=True)]
    both_tables = (tables[0], tables[1])
    return Simulated(both_tables, judges, pair_counts(both_tables, [judges, judges], NAMES))


def _table(
    system: System,
    difficulty: np.ndarray,
    known: np.ndarray,
    luck_r: np.ndarray,
    luck_a: np.ndarray,
    luck_t: np.ndarray,
    luck_judge: np.ndarray,
    judges: Sequence[str],
) -> pa.Table:
    rho, alpha, tau = system.rates(difficulty)
    r = luck_r < rho
    a = luck_a < np.where(r, alpha[1], alpha[0])
    t = luck_t < np.where(r, tau[1], tau[0])
    columns = {
        "question_id": pa.array([f"q{i}" for i in range(len(r))]),
        "r": _column(r, known),
        "a": _column(a, np.ones_like(known)),
        "t": _column(t, known & ~a),
    }
    verdict = luck_judge < np.where(t, TPR, FPR)
    columns |= {judge: _column(verdict, ~a) for judge in judges}
    return pa.table(columns)


def _column(values: np.ndarray, known: np.ndarray) -> pa.Array:
    return pa.array(values.astype(np.int8), type=LABEL, mask=~known)


def run_case(case: Case) -> Outcome:
    """Simulate one data set; fit it jointly, and each system by itself."""
    made = simulate(case)
    start = time.perf_counter()
    joint = fit_jointly(made, case)
    seconds = time.perf_counter() - start
    first, second = (
        _alone(table, made.judges, f"{case.cell}/{case.number}/{k}") for k, table in enumerate(made.tables)
    )
    apart = first - second
    low, high = np.quantile(apart, QUANTILES)
    return Outcome(
        case.cell,
        case.number,
        low=_number(joint.value("p_g", "q2.5")),
        high=_number(joint.value("p_g", "q97.5")),
        p_greater=_number(joint.value("p_g", "p_greater")),
        alone_low=float(low),
        alone_high=float(high),
        alone_p_greater=float((apart > 0).mean()),
        failed=joint.status.status == FAIL,
        seconds=round(seconds, 3),
    )


def fit_jointly(made: Simulated, case: Case) -> Comparison:
    """The product's comparison."""
    judges = [made.judges, made.judges]
    return compare_counts(made.counts, judges, Prior(), ENGINE, case.number, NAMES, DiagnosticsSettings(), OPTIONS)


def _alone(table: pa.Table, judges: list[str], name: str) -> np.ndarray:
    counts = patterns(table, judges)
    sampled = sample(counts, Prior(), ENGINE, 1, name, OPTIONS, JUDGED, DiagnosticsSettings())
    return np.asarray(sampled.draws.column("p_g"), dtype=float)


def _number(value: float | str | None) -> float:
    """NaN where there are no draws: then no interval covers anything."""
    return float("nan") if value is None else float(value)


def cases(cells: Iterable[str], sets: int | None = None) -> list[Case]:
    """Every data set of the cells, number by number, so that a study that is cut short has some of each."""
    chosen = list(cells)
    most = max(CELLS[name].sets for name in chosen)
    return [
        Case(name, number) for number in range(most) for name in chosen if number < min(CELLS[name].sets, sets or most)
    ]


def key(case: Case) -> str:
    """What a case's record is found by: its names, and a digest of what is sampled."""
    made = simulate(case)
    design = pair_design(made.counts, [made.judges, made.judges], Prior(), OPTIONS)
    return f"{case.cell}/{case.number}/{fit_digest(design, ENGINE)}"


def outcome(record: Record) -> Outcome:
    """From a line of the file."""
    return Outcome(**{name: value for name, value in record.items() if name != "key"})


def work(case: Case) -> Record:
    """`run_case` as a record."""
    return asdict(run_case(case))


@dataclass(frozen=True)
class Row:
    """One cell of the study; shares of data sets, mean widths. found: how often P(first > second) was sure."""

    cell: str
    difference: float
    sets: int
    coverage: float
    width: float
    found: float
    alone_coverage: float
    alone_width: float
    alone_found: float
    failed: int
    seconds: float

    @property
    def ratio(self) -> float:
        """Mean width of the joint fit's interval over that of two fits."""
        return self.width / self.alone_width


def summarise(outcomes: Sequence[Outcome]) -> list[Row]:
    """One row per cell, in the order of the study."""
    return [_row(name, mine) for name in CELLS if (mine := [one for one in outcomes if one.cell == name])]


def _row(name: str, mine: Sequence[Outcome]) -> Row:
    truth = CELLS[name].difference
    joint = np.array([(one.low, one.high) for one in mine])
    alone = np.array([(one.alone_low, one.alone_high) for one in mine])
    return Row(
        name,
        truth,
        len(mine),
        _covers(joint, truth),
        float(np.diff(joint).mean()),
        _found([one.p_greater for one in mine]),
        _covers(alone, truth),
        float(np.diff(alone).mean()),
        _found([one.alone_p_greater for one in mine]),
        sum(one.failed for one in mine),
        float(np.mean([one.seconds for one in mine])),
    )


def _covers(ends: np.ndarray, truth: float) -> float:
    return float(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean())


def _found(p_greater: Sequence[float]) -> float:
    return float((np.array(p_greater) > SURE).mean())


def markdown(rows: Sequence[Row]) -> str:
    """The table of docs/validation.md."""
    head = [
        "cell", "true difference", "sets", "coverage %", "width", "found %", "two fits: coverage %", "width", "found %",
        "ratio of widths", "failed", "s per joint fit",
    ]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        cells = [
            row.cell, f"{row.difference:.3f}", row.sets, f"{100 * row.coverage:.1f}", f"{row.width:.3f}",
            f"{100 * row.found:.1f}", f"{100 * row.alone_coverage:.1f}", f"{row.alone_width:.3f}",
            f"{100 * row.alone_found:.1f}", f"{row.ratio:.2f}", row.failed, f"{row.seconds:.1f}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study, or print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--out", type=Path, required=True, help="a JSONL file; what it holds is not run again")
    parser.add_argument("--cells", nargs="+", choices=list(CELLS), default=list(CELLS))
    parser.add_argument("--docs", type=Path, help="also put the table between the marks in this file")
    parser.add_argument("--sets", type=int, help="fewer data sets per cell")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args(arguments)
    wanted = cases(given.cells, given.sets)
    if given.what == "run":
        found = list(map(outcome, run(wanted, key, work, given.out, given.processes, report_every=100)))
    else:
        chosen = set(wanted)
        found = [one for one in map(outcome, read(given.out)) if Case(one.cell, one.number) in chosen]
    text = markdown(summarise(found))
    print(text)
    if given.docs:
        replace_block(given.docs, "pairs", text)


if __name__ == "__main__":
    main()
