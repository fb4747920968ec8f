"""What `rat-ray plan` prints."""

from __future__ import annotations

from collections import Counter

import numpy as np

from rat_ray.allocate.costs import Costs
from rat_ray.allocate.plan_ahead import Ahead
from rat_ray.allocate.plan_choice import Choice, Reach
from rat_ray.allocate.plan_goal import DECIDE, Goal
from rat_ray.allocate.plan_make import Plan
from rat_ray.allocate.plan_next import full_items
from rat_ray.allocate.plan_pool import Pool

_FEW = 20  # items with all labels: what lies ahead is a guess


def plan_lines(made: Plan, pool: Pool, goal: Goal, costs: Costs, where: str) -> list[str]:
    """In words: what is known, whether to stop, what to do next."""
    lines = [f"goal: {goal.words()}"]
    if made.why_base is not None:
        return [
            *lines,
            f"{where}: {made.why_base}.",
            f"So nothing can be looked ahead yet: label a base of random items fully first, {_counted(made)}; then "
            "plan again with these labels.",
        ]
    lines += _now(made, pool, goal)
    if made.reached:
        return [*lines, "STOP: the goal is reached by the labels that are there."]
    if made.choice is None:
        return [
            *lines,
            "The goal is not reached, and no label of R or T is left to ask for: it cannot be reached here.",
        ]
    best = made.choice.best
    if not made.can_reach:
        lines.append(_never(best, goal))
    elif best.cost is not None:
        error = "" if best.se is None else f" ± {best.se:.0f}"
        lines.append(
            f"go on with {best.strategy} ({made.choice.by}): the goal is expected at a cost of {best.cost:.0f}{error}, "
            f"R at {costs.r:g} and T at {costs.t:g}"
        )
    else:
        lines.append(f"go on with {best.strategy} ({made.choice.by})")
    if pool.shared:
        lines.append(
            "Some configurations share contexts: a label of R serves all of them and is paid once, and strategies that "
            "choose R by one configuration's labels are left out (docs/planner.md)"
        )
    fewest = min(full_items(side) for side in pool.sides)
    if fewest < _FEW:
        lines.append(f"WARNING: all this rests on {fewest} items with all labels: plan again after this round")
    return [*lines, f"this round: {_counted(made)}"]


def _now(made: Plan, pool: Pool, goal: Goal) -> list[str]:
    lines = []
    for side in pool.sides:
        name = f"{side.config}: " if len(pool.sides) > 1 else ""
        width = f", 95 % interval {made.widths[side.config]:.3f} wide"
        lines.append(
            f"now: {name}{full_items(side)} of {len(side.ids)} items with all labels; {goal.quantity} "
            f"{made.means[side.config]:.3f}{width}"
        )
    if goal.kind == DECIDE and made.greater is not None:
        lines.append(f"now: P({goal.quantity} of {goal.a} > that of {goal.b}) = {made.greater:.3f}, by a joint fit")
        if not made.reached:
            lines.append(
                "What lies ahead is looked at by a fit of each, with the correlation of the joint fit at hand; whether "
                "to stop is decided by the joint fit"
            )
    return lines


def _never(reach: Reach, goal: Goal) -> str:
    more = "more items are needed, or another goal"
    if goal.kind == DECIDE:
        return (
            f"With all labels that can be bought it decides in {100 * reach.at_all:.0f} % of futures, and not in "
            f"{100 * goal.chance:.0f} % (chance=): {more}"
        )
    return (
        "The goal cannot be reached with all labels that can be bought: the width is then about "
        f"{reach.at_all:.3f}; {more}"
    )


def _counted(made: Plan) -> str:
    counts = Counter(one.variable for one in made.asks)
    return f"{len(made.asks)} labels ({counts['r']} of R, {counts['t']} of T)"


def ahead_lines(ahead: Ahead, choice: Choice, goal: Goal) -> list[str]:
    """A line per strategy: the cost to the goal, and what each budget would bring."""
    what = "chance to decide" if goal.kind == DECIDE else "expected width of the 95 % interval"
    rows = [["strategy", "cost to the goal", *(f"{budget:.0f}" for budget in ahead.budgets.tolist())]]
    for s, name in enumerate(ahead.strategies):
        reach = choice.reaches[name]
        error = "" if reach.se is None else f" ± {reach.se:.0f}"
        cost = "never" if reach.cost is None else f"{reach.cost:.0f}{error}"
        cells = [_cell(ahead, goal, s, b) for b in range(len(ahead.budgets))]
        rows.append([f"{name} *" if name == choice.strategy else name, cost, *cells])
    sizes = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join([row[0].ljust(sizes[0]), *(c.rjust(w) for c, w in zip(row[1:], sizes[1:], strict=True))])
        for row in rows
    ]
    return [f"{what} after spending so much more (* is best):", "", *lines, ""]


def _cell(ahead: Ahead, goal: Goal, s: int, b: int) -> str:
    if goal.kind == DECIDE:
        p = ahead.greater[s, b]
        return f"{100 * float(np.mean((p >= goal.level) | (p <= 1 - goal.level))):.0f} %"
    widths = ahead.widths[s, b].max(axis=1)
    return f"{float(np.nanmean(widths)):.3f}" if np.isfinite(widths).any() else "-"
