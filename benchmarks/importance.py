"""Effective draws of P(G=1) per second: the engine `importance` against `stanli`, one thread each, in one run.

    PYTHONPATH=. OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/importance.py

Study tables of 1,000 items and 50 to 350 labels as the tests have them: without judges (bar: 15 times), with two
independent judges (40 times), and with a panel of two or three (no bar); and a table of 2,000 items, 600 labels and
two independent judges, 54 patterns (40 times). Both through `Estimator.estimate`, without the shares among the items:
from counts to estimates. stanli: 2 chains of 300 + 1,000, a short warmup in its favour. Importance: 2,000 proposals;
what it leaves to NUTS counts with NUTS' time and draws. Tables in turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import NamedTuple

from count_tables import count_table

from rat_ray.model import EngineSettings
from rat_ray.model.estimate import Estimates, Estimator
from rat_ray.model.patterns import Code, check_counts, to_code
from tests.model.study_tables import R_AND_T, study_table

NUTS = EngineSettings(kind="stanli", chains=2, warmup=300, samples=1000)
IN_TURN = 20  # importance fits of a table for one by NUTS


class Case(NamedTuple):
    """What is fitted. bar: how many times as fast; full: on the table of 54 patterns."""

    name: str
    judges: tuple[str, ...]
    model: str
    bar: float | None
    full: bool = False


CASES = [
    Case("no judges", (), "panel", 15.0),
    Case("two independent judges", R_AND_T, "independent", 40.0),
    Case("two independent judges, 600 labels", R_AND_T, "independent", 40.0, full=True),
    Case("panel of two", R_AND_T, "panel", None),
    Case("panel of three", (*R_AND_T, "t@z"), "panel", None),
]


class Timed(NamedTuple):
    """Of one table: effective draws per second, seconds per fit, and how many of the fits NUTS made."""

    rate: float
    seconds: float
    nuts: int


def timed(estimator: Estimator, code: Code, seeds: range) -> Timed:
    """The mean over the seeds."""
    start = time.perf_counter()
    found: list[Estimates] = [estimator.estimate(code, seed) for seed in seeds]
    seconds = time.perf_counter() - start
    return Timed(
        sum(one.ess for one in found) / seconds, seconds / len(seeds), sum(one.sampler == "nuts" for one in found)
    )


def run(case: Case, tables: int) -> bool:
    """Print a row; whether the bar is passed."""
    fast = Estimator(("p_g",), case.judges, case.model, finite=False)
    slow = fast.with_engine(NUTS)
    mine: list[Timed] = []
    theirs: list[Timed] = []
    for number in range(tables):
        code = study_table(1000 + number, case.judges)
        if case.full:
            code = to_code(check_counts(count_table(case.judges)))
        for estimator in (fast, slow):
            estimator.estimate(code, 0)  # what is cached
        mine.append(timed(fast, code, range(1, 1 + IN_TURN)))
        theirs.append(timed(slow, code, range(1, 2)))
    ratios = [one.rate / two.rate for one, two in zip(mine, theirs, strict=True)]
    median = statistics.median(ratios)
    passed = case.bar is None or median >= case.bar
    left = sum(one.nuts for one in mine)
    seconds = [statistics.median(one.seconds for one in both) for both in (mine, theirs)]
    rates = [statistics.median(one.rate for one in both) for both in (mine, theirs)]
    cells = [case.name, f"{1e3 * seconds[0]:.1f}", f"{1e3 * seconds[1]:.0f}", f"{rates[0]:.0f}", f"{rates[1]:.0f}"]
    cells += [f"{median:.0f} ({min(ratios):.0f} to {max(ratios):.0f})", f"{case.bar or ''}"]
    print(f"| {' | '.join(cells)} | {left} of {len(mine) * IN_TURN} |", flush=True)
    return passed


def main() -> None:
    """Print the table; exit with 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=10, help="of each case")
    given = parser.parse_args()
    print("| | ms per fit | ms by stanli | draws/s | by stanli | times | bar | left to NUTS |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    passed = [run(case, given.tables) for case in CASES]
    if not all(passed):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
