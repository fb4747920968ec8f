"""Does the planner keep what it promises? Plan, label, plan again until the goal is reached, beside always `joint`.

    nice python -m tests.statistical.planner run --out planner.jsonl --sets 100
    python -m tests.statistical.planner table --out planner.jsonl --docs docs/planner.md

Results are appended to a file, so that a kill loses nothing. The seed of a data set depends on its system and number
only: ways and costs are compared on the same data sets, and the base is the same for all.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rat_ray.allocate.costs import Costs
from rat_ray.allocate.plan_ahead import AheadSettings
from rat_ray.allocate.plan_goal import WIDTH, Goal
from rat_ray.allocate.plan_make import plan
from rat_ray.allocate.plan_pool import Pool, pool_of
from rat_ray.allocate.plan_walk import JOINT, Book, walk, wanted
from rat_ray.model.engines import EngineSettings
from rat_ray.model.estimate import Estimates, Estimator
from rat_ray.model.patterns import MISSING, Code
from rat_ray.model.states import STATES
from rat_ray.seeds import seed_for
from rat_ray.tables import LABEL
from tests.statistical.runs import Record, read, replace_block, run
from tests.statistical.truths import TRUTHS, Truth

ITEMS, BASE, FUTURES, ROUND, ROUNDS = 1000, 50, 10, 150, 15
ENGINE = EngineSettings(kind="importance", chains=2, samples=500)  # of the looks ahead: half the usual draws
# The paper's figures: P(T=1) about .24 for each, P(G=1) .164, .414 and .496.
SYSTEMS: Mapping[str, Truth] = {
    "Gemma-like": Truth(0.3, (0.36, 0.1), (0.18, 0.6)),
    "Apertus-like": Truth(0.3, (0.03, 0.01), (0.12, 0.48)),
    "Qwen-like": Truth(0.3, (0.5, 0.12), (0.27, 0.55)),
    **TRUTHS,
}
WIDTHS = {"Apertus-like": 0.08, "strong retriever": 0.08}  # the goal; of the others:
USUAL_WIDTH = 0.1
COSTS = {"1:1": Costs(1, 1), "1:2": Costs(1, 2), "2:1": Costs(2, 1)}
WAYS = ("planner", "joint")


@dataclass(frozen=True)
class Case:
    """One data set, labelled one way until the goal is reached."""

    system: str
    costs: str
    number: int
    way: str


@dataclass(frozen=True)
class Outcome:
    """mean, low, high, width: of P(G=1) at the end. expected: the cost that the first plan expected.

    joint_*: on the same data set `joint` for the same cost in one go. again: the width of the last fit with another
    seed, to see whether chance stopped it. strategies: of the rounds.
    """

    system: str
    costs: str
    number: int
    way: str
    cost: float
    expected: float | None
    rounds: int
    reached: bool
    mean: float
    low: float
    high: float
    again: float
    joint_mean: float
    joint_width: float
    strategies: str


class Labels(NamedTuple):
    """The truth of a data set, (items, 3), and which labels were bought."""

    full: np.ndarray
    r: np.ndarray
    t: np.ndarray

    def table(self) -> pa.Table:
        r, a, t = self.full.T
        return pa.table(
            {
                "question_id": [f"q{i}" for i in range(len(r))],
                "r": _column(r, self.r),
                "a": _column(a, np.ones(len(r), dtype=bool)),
                "t": _column(t, self.t & (a == 0)),
            }
        )


def _column(values: np.ndarray, known: np.ndarray) -> pa.Array:
    return pa.array(np.where(known, values, 0).astype(np.int8), type=LABEL, mask=~known)


def data_set(system: str, number: int) -> Labels:
    """The base is the first items of the order: any order is as good."""
    rng = np.random.default_rng(seed_for(1, "planner", system, number))
    full = STATES[rng.choice(len(STATES), size=ITEMS, p=SYSTEMS[system].theta)].copy()
    full[full[:, 1] == 1, 2] = MISSING
    base = np.arange(ITEMS) < BASE
    return Labels(full, base.copy(), base.copy())


def goal_of(system: str) -> Goal:
    return Goal(WIDTH, "p_g", WIDTHS.get(system, USUAL_WIDTH), False, "", "", float("nan"), float("nan"))


def run_case(case: Case) -> Outcome:
    """Rounds of at most ROUND labels."""
    labels, costs, goal = data_set(case.system, case.number), COSTS[case.costs], goal_of(case.system)
    start = labels._replace(r=labels.r.copy(), t=labels.t.copy())
    strategies = (JOINT,) if case.way == JOINT else ()
    spent, expected, used, reached = 0.0, None, list[str](), False
    for number in range(ROUNDS + 1):
        seed = seed_for(1, "planner", case.system, case.number)
        settings = AheadSettings(goal, costs, strategies, FUTURES, budgets=6, seed=seed, engine=ENGINE)
        made = plan(_pool(labels, seed), settings, most=ROUND)
        if number == 0 and made.choice is not None:
            expected = made.choice.best.cost
        reached = made.reached
        if reached or not made.asks or number == ROUNDS:
            break
        used.append(made.strategy)
        for one in made.asks:
            (labels.r if one.variable == "r" else labels.t)[int(one.question_id[1:])] = True
            spent += costs.r if one.variable == "r" else costs.t
    final, again = (_fit(_code(labels, seed), seed_for(seed, name)) for name in ("final", "again"))
    joint = _joint(start, costs, spent, seed)
    return Outcome(
        **asdict(case),
        cost=spent,
        expected=expected,
        rounds=len(used),
        reached=reached,
        mean=float(final.mean[0]),
        low=float(final.low[0]),
        high=float(final.high[0]),
        again=float(again.high[0] - again.low[0]),
        joint_mean=float(joint.mean[0]),
        joint_width=float(joint.high[0] - joint.low[0]),
        strategies=" ".join(used),
    )


def _pool(labels: Labels, seed: int) -> Pool:
    return pool_of({"all": labels.table()}, {"all": []}, seed)


def _code(labels: Labels, seed: int) -> Code:
    book = Book(_pool(labels, seed).sides[0])
    return book.code(book.now)


def _joint(start: Labels, costs: Costs, budget: float, seed: int) -> Estimates:
    pool = _pool(start, seed)
    path = walk(pool, wanted(pool, JOINT, [start.full]), costs)
    book = Book(pool.sides[0])
    [counts] = book.counts(path.bought[0], start.full, [path.reached(budget)])
    return _fit(book.code(counts), seed_for(seed, "joint"))


def _fit(code: Code, seed: int) -> Estimates:
    return Estimator(["p_g"], finite=False).estimate(code, seed)


def cases(systems: Sequence[str], costs: Sequence[str], sets: int, first: int = 0) -> list[Case]:
    return [
        Case(system, cost, number, way)
        for number in range(first, sets)
        for cost in costs
        for system in systems
        for way in WAYS
    ]


def key(case: Case) -> str:
    """What a case's record is found by: its names, and what it depends on."""
    facts = (ITEMS, BASE, FUTURES, ROUND, ROUNDS, SYSTEMS[case.system], goal_of(case.system), COSTS[case.costs])
    return "/".join([*map(str, asdict(case).values()), hashlib.sha256(repr(facts).encode()).hexdigest()[:12]])


def work(case: Case) -> Record:
    return asdict(run_case(case))


# --- the tables -------------------------------------------------------------------------------------------------------


def markdown(found: Sequence[Outcome]) -> str:
    """Cost to the goal, and what was found there; means with one Monte Carlo standard error."""
    goal = [_head("sets", "width asked", "cost, planner", "cost, joint", "saved %", "rounds", "expected / spent")]
    end = [
        _head(
            *("coverage %, planner", "coverage %, joint", "width at the end", "RMSE, planner"),
            *("RMSE of joint, same cost", "RMSE ratio", "too early %", "too late %"),
        )
    ]
    for system, costs, pairs in _cells(found):
        mine, joint = ([pair[i] for pair in pairs] for i in (0, 1))
        spent, other = (np.array([one.cost for one in part]) for part in (mine, joint))
        saved = 100 * (other - spent) / other.mean()
        expected = [one.expected / one.cost for one in mine if one.expected and one.cost]
        truth, width = SYSTEMS[system].p_g, goal_of(system).width
        rounds = np.mean([one.rounds for one in mine])
        goal.append(
            f"| {system} | {costs} | {len(pairs)} | {width:g} | {_with_error(spent, 0)} | {_with_error(other, 0)} | "
            f"{_with_error(saved, 1)} | {rounds:.1f} | {_with_error(np.array(expected), 2)} |"
        )
        errors = np.array([one.mean - truth for one in mine]) ** 2
        same = np.array([one.joint_mean - truth for one in mine]) ** 2
        early = np.mean([one.reached and one.again > 1.02 * width for one in mine])
        late = np.mean([one.high - one.low < 0.9 * width for one in mine])
        end.append(
            f"| {system} | {costs} | {_coverage(mine, truth)} | {_coverage(joint, truth)} | "
            f"{np.mean([one.high - one.low for one in mine]):.3f} | {np.sqrt(errors.mean()):.4f} | "
            f"{np.sqrt(same.mean()):.4f} | {_ratio(errors, same)} | {100 * early:.0f} | {100 * late:.0f} |"
        )
    return "\n".join([*goal, "", *end, "", _total(found)])


def _total(found: Sequence[Outcome]) -> str:
    """Over all cells; data sets are shared between costs, so errors are those of data sets' means."""
    whole = [one for one in found if one.way == "planner"]
    scaled = [(SYSTEMS[one.system].p_g, goal_of(one.system).width, one) for one in whole]
    errors = np.array([((one.mean - truth) / width) ** 2 for truth, width, one in scaled])
    same = np.array([((one.joint_mean - truth) / width) ** 2 for truth, width, one in scaled])
    sets = np.unique([f"{one.system}/{one.number}" for one in whole], return_inverse=True)[1]
    errors, same = (np.bincount(sets, part) / np.bincount(sets) for part in (errors, same))
    usual = _pooled([one for one in found if one.way == JOINT])
    return (
        f"Over all {len(whole)} runs of the planner, on {len(errors)} data sets: coverage {_pooled(whole)} (of always "
        f"`joint` {usual}); RMSE, in units of the width asked, over that of `joint` for the same cost "
        f"{_ratio(errors, same)}; {sum(not one.reached for one in whole)} did not get there within {ROUNDS} rounds."
    )


def _pooled(part: Sequence[Outcome]) -> str:
    """Coverage over cells, with its standard error between data sets."""
    hit: dict[tuple[str, int], list[bool]] = {}
    for one in part:
        hit.setdefault((one.system, one.number), []).append(one.low <= SYSTEMS[one.system].p_g <= one.high)
    means = np.array([np.mean(inner) for inner in hit.values()])
    return f"{100 * means.mean():.1f} ± {100 * means.std(ddof=1) / np.sqrt(len(means)):.1f} %"


def _head(*columns: str) -> str:
    names = ["system", "costs R:T", *columns]
    return f"| {' | '.join(names)} |\n|{' --- |' * len(names)}"


def _cells(found: Sequence[Outcome]) -> Iterator[tuple[str, str, list[tuple[Outcome, Outcome]]]]:
    known = {(one.system, one.costs, one.number, one.way): one for one in found}
    for system in SYSTEMS:
        for costs in COSTS:
            numbers = sorted({one.number for one in found if (one.system, one.costs) == (system, costs)})
            both = [[known.get((system, costs, n, way)) for way in WAYS] for n in numbers]
            pairs = [(one, two) for one, two in both if one is not None and two is not None]
            if pairs:
                yield system, costs, pairs


def _with_error(values: np.ndarray, digits: int) -> str:
    error = f" ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{error}"


def _coverage(part: Sequence[Outcome], truth: float) -> str:
    return f"{100 * np.mean([one.low <= truth <= one.high for one in part]):.1f}"


def _ratio(errors: np.ndarray, same: np.ndarray) -> str:
    """Of the RMSEs, with its standard error by the delta method, paired by data set."""
    ratio = np.sqrt(errors.mean() / same.mean())
    parts = errors / errors.mean() - same / same.mean()
    if len(parts) < 2:
        return f"{ratio:.2f}"
    return f"{ratio:.2f} ± {ratio / 2 * parts.std(ddof=1) / np.sqrt(len(parts)):.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study, or print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--out", type=Path, required=True, help="a JSONL file; what it holds is not run again")
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--costs", nargs="+", choices=list(COSTS), default=list(COSTS))
    parser.add_argument("--sets", type=int, default=100, help="data sets per cell")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--docs", type=Path, help="also put the tables between the marks in this file")
    given = parser.parse_args(arguments)
    if given.what == "run":
        wanted_cases = cases(given.systems, given.costs, given.sets)
        records = run(wanted_cases, key, work, given.out, given.processes, report_every=100)
    else:
        records = read(given.out)
    text = markdown([Outcome(**{name: v for name, v in one.items() if name != "key"}) for one in records])
    print(text)
    if given.docs:
        replace_block(given.docs, "planner", text)


if __name__ == "__main__":
    main()
