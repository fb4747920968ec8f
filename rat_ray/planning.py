"""`dry_run=true`: a graph in numbers, printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rat_ray.graph import Graph, LevelPlan, Walk, plan_of
from rat_ray.progress import console

SHOWN = 6  # labels per level of what is in the store, where not all of it is


def print_plan(
    graph: Graph, walk: Walk, configurations: int, store: str, missing: Sequence[str], unreachable: str = ""
) -> None:
    """Print the levels of a graph, what of it is in the store, and what must be there before it can run.

    walk: through the store, by `Walk.find`. What follows from something that is not there yet has no key yet.
    unreachable: why the store could not be asked; then what is in it is not shown.
    """
    plan = plan_of(graph, walk)
    total = LevelPlan("all", *(sum(column) for column in list(zip(*plan, strict=True))[1:]))
    columns = f"{'in the store':>14}{'to make':>9}" + (f"{'not known':>11}" if total.unknown else "")
    lines = [f"{'level':<12}{'stages':>8}{'distinct':>10}" + ("" if unreachable else columns)]
    for row in plan:
        lines.append(_line(row, bool(unreachable), bool(total.unknown)))
        if 0 < row.stored < row.distinct:
            lines.append(f"    in the store: {_labels(graph, walk, row.level)}")
    lines.append(_line(total, bool(unreachable), bool(total.unknown)))
    if total.unknown and not unreachable:
        lines.append(
            "not known: a dataset was not read on this machine before, so the keys of its tables are not known here; "
            "they may be in the store, and are then reused"
        )
    if unreachable:
        lines.append(f"the store cannot be reached, so what is in it is not known: {unreachable}")
    lines.append(f"{configurations} configurations; store: {store}; a dry run: nothing was opened, made or written")
    lines += [f"not there yet: {text}" for text in missing]
    screen = console()
    for line in lines:
        screen.print(line, highlight=False, markup=False, soft_wrap=True)


def print_prompts(prompts: Mapping[str, str]) -> None:
    """Print the first prompts that would be asked, by what each is for."""
    screen = console()
    for heading, prompt in prompts.items():
        screen.print(f"\n--- {heading}", highlight=False, markup=False, soft_wrap=True)
        screen.print(prompt, highlight=False, markup=False, soft_wrap=True)


def _line(row: LevelPlan, unreachable: bool, some_unknown: bool) -> str:
    stored = "" if unreachable else f"{row.stored:>14}{row.distinct - row.stored - row.unknown:>9}"
    if some_unknown and not unreachable:
        stored += f"{row.unknown:>11}"
    return f"{row.level:<12}{row.stages:>8}{row.distinct:>10}{stored}"


def _labels(graph: Graph, walk: Walk, level: str) -> str:
    found = [node.label for node in graph.at(level) if node.id in walk.tables]
    more = f", … ({len(found) - SHOWN} more)" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more
