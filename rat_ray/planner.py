"""`rat-ray plan`: which items to label next, and may one stop? Runs in this process."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from rich.console import Console

from rat_ray.allocate.costs import Costs
from rat_ray.allocate.plan_ahead import AheadSettings
from rat_ray.allocate.plan_goal import DECIDE, Goal, GoalSettings, check_configurations, parse_goal
from rat_ray.allocate.plan_make import PairNow, Plan, ahead_table, plan
from rat_ray.allocate.plan_next import Ask
from rat_ray.allocate.plan_pool import Pool, R, T, pool_of, shares
from rat_ray.allocate.plan_show import ahead_lines, plan_lines
from rat_ray.annotate.people import check_rule
from rat_ray.errors import InputError, StageError
from rat_ray.export import read_annotated
from rat_ray.fit_stages import check_engine
from rat_ray.keys import digest_of, key_of
from rat_ray.labelling.select import Selection, Wanted, in_order
from rat_ray.model import Columns, DiagnosticsSettings, EngineSettings, Policy, Prior
from rat_ray.model.compare import compare
from rat_ray.model.diagnostics import FAIL
from rat_ray.model.patterns import MISSING
from rat_ray.model.verdicts import PANEL, check_judge_model
from rat_ray.output import OutFolder
from rat_ray.planner_source import Source, chosen, from_data, from_run, items_of, label_table, next_csv
from rat_ray.progress import StageProgress, console
from rat_ray.settings import build, check_given
from rat_ray.store import StorageSettings, encode_part
from rat_ray.versions import provenance

if TYPE_CHECKING:
    from rat_ray.commands import Context

KIND = "plan"
_LOOKING = "looking ahead"


@dataclass(frozen=True)
class PlanSettings:
    """Everything behind `conf/plan.yaml`."""

    out: str
    prior: Prior
    engine: EngineSettings
    policy: Policy
    storage: StorageSettings
    data: str | None = None
    filled: list[str] = field(default_factory=list)
    run: str | None = None
    people: str | None = None
    goal: str | None = None
    quantity: str = "p_g"
    width: float | str | None = None
    interval: str = "new"
    a: str | None = None
    b: str | None = None
    level: float | str | None = None
    chance: float = 0.8
    cost: Costs = field(default_factory=Costs)
    budget: float | None = None
    strategies: list[str] = field(default_factory=list)
    base: int = 50
    n: int | None = None
    futures: int = 100
    seed: int = 1
    configs: list[str] = field(default_factory=list)
    judges: list[str] | None = None
    judge_model: str = PANEL
    by: list[str] = field(default_factory=list)
    t_zero: str = "refuse"
    resolve: str = "majority"
    columns: Columns = Columns()

    def validate(self) -> None:
        """Raise InputError for settings that make no sense, or do not go together."""
        check_given(out=self.out)
        if bool(self.data) == bool(self.run):
            both = "both data= and run=" if self.data else "neither data= nor run="
            raise InputError(f"{both}: give one of data=FILE with labels, or run=OUT of a finished `rat-ray evaluate`")
        if self.filled and not self.data:
            raise InputError("filled= goes with data=; with run= people=FILE keeps the labels")
        if self.people is not None and not self.run:
            raise InputError("people= goes with run=; with data= give filled=[round1/next.csv]")
        parse_goal(goal_of(self))
        check_look(self.cost, self.budget, self.base, self.n, self.futures)
        check_judge_model(self.judge_model)
        check_rule(self.resolve)
        if self.t_zero not in ("refuse", "wrong"):
            raise InputError(f"t_zero={self.t_zero}: must be refuse or wrong")


SETTINGS = PlanSettings


def goal_of(job: Any) -> GoalSettings:
    """The part of a command's settings that names the goal."""
    return GoalSettings(**{one.name: getattr(job, one.name) for one in dataclasses.fields(GoalSettings)})


def check_look(cost: Costs, budget: float | None, base: int, n: int | None, futures: int) -> None:
    """Raise InputError for numbers that make no sense."""
    cost.validate("cost")
    if budget is not None and not budget >= min(cost.r, cost.t):
        raise InputError(f"budget={budget:g}: give what at least one label costs")
    for name, value, least in (("base", base, 1), ("n", n, 1), ("futures", futures, 10)):
        if value is not None and value < least:
            raise InputError(f"{name}={value}: at least {least}")


def run(context: Context) -> str:
    """Print what is known and what lies ahead; write the items to label next."""
    job = build(PlanSettings, context.config)
    check_engine(job.engine)
    goal = parse_goal(goal_of(job))
    source, name = _read(job)
    ready = prepare(source, goal, job.configs, job.judges, job.judge_model, job.seed)
    out = OutFolder(context.folder(job.out), _own_settings(job, ready.source), KIND, storage=job.storage)
    out.check()
    screen = console()
    if (out.run() or {}).get("status") == "complete":  # somebody may have begun to fill it in
        screen.print(f"out: {out.url} holds this plan already; nothing was written", highlight=False, soft_wrap=True)
        return out.url
    made = make(ready, job)
    number = 1 + len(job.filled)
    lines = [*ready.source.notes, *plan_lines(made, ready.pool, goal, job.cost, name), *_hint(made, job)]
    out.claim()
    if made.ahead is not None:
        configs = tuple(side.config for side in ready.pool.sides)
        out.write_table("ahead.parquet", ahead_table(made.ahead, goal, configs))
    if made.asks:
        out.write_text("next.csv", next_csv(made.asks))
        out.write_table("selection.parquet", selection_table(made.asks, made.strategy, number))
    if job.data:
        out.write_table("labels.parquet", label_table(ready.source))
    out.finish({**_facts(made, goal, number), "notes": lines, "seed": job.seed, **provenance()})
    shown = [] if made.ahead is None or made.choice is None else ahead_lines(made.ahead, made.choice, goal)
    for line in [*shown, *lines]:
        screen.print(line, highlight=False, markup=False, soft_wrap=True)
    if made.asks:
        say = f"fill in the column label of {out.at('next.csv')}"
        earlier = ",".join([*job.filled, out.at("next.csv")])
        sheets = f"or get sheets with texts: rat-ray annotate export run={job.run} how=planner …"
        again = f"then plan again with another out= and 'filled=[{earlier}]'" if job.data else sheets
        screen.print(f"next: {say}, {again}", highlight=False, markup=False, soft_wrap=True)
    screen.print(f"out: {out.url}", highlight=False, markup=False, soft_wrap=True)
    return out.url


class Ready(NamedTuple):
    """What a plan is made of, checked."""

    source: Source
    pool: Pool
    goal: Goal


def prepare(
    source: Source, goal: Goal, configs: Sequence[str], judges: Sequence[str] | None, judge_model: str, seed: int
) -> Ready:
    """The pool of the configurations that the goal is about. Raises InputError for names that there are not.

    It counts as shared, too, where a label serves a configuration that the goal is not about: that one's fits get it.
    """
    check_configurations(goal, list(source.rows))
    if goal.kind == DECIDE:
        if configs and set(configs) != {goal.a, goal.b}:
            raise InputError("configs: goal=decide is about a and b")
        configs = [goal.a, goal.b]
    every, source = source.rows, chosen(source, configs, judges)
    for mine in source.judges.values():
        check_judge_model(judge_model, mine)
    pool = pool_of(source.rows, source.judges, seed, source.closed)
    return Ready(source, pool._replace(shared=shares(every, source.rows)), goal)


def make(ready: Ready, job: Any) -> Plan:
    """The plan, with progress on the screen. job: PlanSettings, or another command's with the same names."""
    settings = AheadSettings(
        goal=ready.goal,
        costs=job.cost,
        strategies=tuple(job.strategies),
        futures=job.futures,
        at=job.budget,
        seed=job.seed,
        judge_model=job.judge_model,
        prior=job.prior,
        policy=job.policy,
    )
    pair = (lambda: _pair(ready, job)) if ready.goal.kind == DECIDE else None
    with contextlib.ExitStack() as stack:
        shown: list[StageProgress] = []

        def progress(futures: int) -> None:
            if not shown:  # nothing may lie ahead
                shown.append(stack.enter_context(StageProgress(_LOOKING, job.futures, 0, console(), "futures")))
            shown[0].advance(futures)

        return plan(ready.pool, settings, job.base, job.n, pair, progress)


def _pair(ready: Ready, job: Any) -> PairNow:
    """From the joint fit of the pair."""
    goal, source = ready.goal, ready.source
    found = compare(
        source.rows[goal.a],
        source.rows[goal.b],
        sorted({judge for mine in source.judges.values() for judge in mine}),
        job.prior,
        job.engine,
        job.seed,
        (goal.a, goal.b),
        DiagnosticsSettings(),
        job.judge_model,
        job.policy,
    )
    p, correlation = (found.value(goal.quantity, column) for column in ("p_greater", "correlation"))
    if found.status.status == FAIL or not isinstance(p, float):
        raise StageError(f"the joint fit of {goal.a} and {goal.b} failed: {found.status.reason}")
    return PairNow(p, correlation if isinstance(correlation, float) else 0.0)


def _hint(made: Plan, job: PlanSettings) -> list[str]:
    """Where a run's rules are trusted, there is nothing that people could add."""
    if made.reached or made.asks or not job.run or job.people is not None:
        return []
    return [
        "The run's own trusted labels of R and T are taken as they are; to plan for people's labels give people=FILE "
        "(it need not be there yet): R and T are theirs then, and rules are judges"
    ]


def planned_selection(job: Any, screen: Console) -> Selection | None:
    """For `rat-ray annotate export how=planner`: the plan in words, and what it asks for; None where that is nothing.

    job: AnnotateSettings.
    """
    check_engine(job.engine)
    goal = parse_goal(goal_of(job))
    _, facts, annotations = read_annotated(job.run, job.storage)
    source = from_run(annotations, facts["trusted"], job.people, job.resolve, job.storage)
    ready = prepare(source, goal, job.configurations, job.judges, job.judge_model, job.seed)
    made = make(ready, job)
    for line in [*ready.source.notes, *plan_lines(made, ready.pool, goal, job.cost, job.run)]:
        screen.print(line, highlight=False, markup=False, soft_wrap=True)
    if not made.asks:
        screen.print("there is nothing to label; nothing was written", highlight=False, soft_wrap=True)
        return None
    items = items_of(ready.source)
    wanted = [Wanted(one.variable, *items[one.variable, one.config, one.question_id], why=one.why) for one in made.asks]
    return in_order(wanted, *_counts(ready.pool), made.strategy)


def _counts(pool: Pool) -> tuple[dict[str, int], dict[str, int]]:
    """Items per variable that can be labelled, and those that are: of R contexts, of T answers."""
    left, labelled = dict.fromkeys("rt", 0), dict.fromkeys("rt", 0)
    contexts: dict[str, set[int]] = {"open": set(), "known": set()}
    for side in pool.sides:
        contexts["open"].update(side.context[side.open_r].tolist())
        contexts["known"].update(side.context[side.labels[:, R] != MISSING].tolist())
        left["t"] += int(side.open_t.sum())
        labelled["t"] += int((side.labels[:, T] != MISSING).sum())
    left["r"], labelled["r"] = len(contexts["open"]), len(contexts["known"])
    return left, labelled


def _read(job: PlanSettings) -> tuple[Source, str]:
    """The labels, and how messages call where they are from."""
    if job.data:
        return from_data(job.data, job.filled, job.columns, job.by, job.t_zero, job.resolve, job.storage), job.data
    assert job.run is not None
    _, facts, annotations = read_annotated(job.run, job.storage)
    return from_run(annotations, facts["trusted"], job.people, job.resolve, job.storage), job.run


def selection_table(asks: Sequence[Ask], strategy: str, number: int | None) -> pa.Table:
    """How the round was chosen. place: of the question in the random order that all rounds share."""
    rows = [
        {**one._asdict(), "serves": list(one.serves), "order": order, "strategy": strategy, "round": number}
        for order, one in enumerate(asks, start=1)
    ]
    text = pa.string()
    fields: list[tuple[str, pa.DataType]] = [
        ("config", text),
        ("question_id", text),
        ("variable", text),
        ("order", pa.int64()),
        ("place", pa.int64()),
        ("strategy", text),
        ("round", pa.int32()),
        ("why", text),
        ("serves", pa.list_(text)),
    ]
    return pa.Table.from_pylist(rows, pa.schema(fields))


def _facts(made: Plan, goal: Goal, number: int) -> dict[str, Any]:
    reaches = {} if made.choice is None else {name: one._asdict() for name, one in made.choice.reaches.items()}
    return {
        "goal": goal.words(),
        "round": number,
        "stop": made.reached,
        "can_reach": made.can_reach,
        "why_base": made.why_base,
        "strategy": made.strategy if made.asks else None,
        "now": {"widths": made.widths, "means": made.means, "greater": made.greater},
        "reaches": reaches,
        "asks": len(made.asks),
    }


def _own_settings(job: PlanSettings, source: Source) -> dict[str, Any]:
    left = ("out", "storage", "prior", "engine", "policy", "cost", "columns")
    own = {one.name: getattr(job, one.name) for one in dataclasses.fields(job) if one.name not in left}
    keyed = {name: key_of(getattr(job, name)) for name in ("prior", "policy", "cost", "columns")}
    labels = {name: encode_part(rows, {})[1] for name, rows in source.rows.items()}
    return {**own, **keyed, "labels": labels, "closed": digest_of(sorted(source.closed))}
