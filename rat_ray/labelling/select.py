"""Which items to label next: a simple random sample, or one that is balanced over strata, for a seed always the same.

Questions are taken in one random order for all variables and configurations, so that most answers that get a label of
T also get one of R, and configurations are compared on the same questions. The order says nothing of the run's results.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rat_ray.errors import InputError, did_you_mean
from rat_ray.labelling.run import LabelledRun, Place
from rat_ray.seeds import rank_key

PLANNER: Final = "planner"
HOW: Final = ("random", "stratified", PLANNER)


class Chosen(NamedTuple):
    """An item to label. serves: how many rows of the run its label fills. stratum: in words, with how=stratified.

    inclusion: the probability with which an item of its stratum (without strata: any item) that had no label yet was
    drawn; None with how=planner. order: its place among all that were drawn for the variable, from 0; with how=planner
    among all. why: the planner's reason.
    """

    variable: str
    item: str
    place: Place
    serves: int
    stratum: str | None
    inclusion: float | None
    order: int
    why: str | None = None


class Wanted(NamedTuple):
    """A label that the planner asks for."""

    variable: str
    item: str
    place: Place
    serves: int
    why: str


class Stratum(NamedTuple):
    """left: items without a label; drawn: of these."""

    variable: str
    name: str | None
    left: int
    drawn: int


class Selection(NamedTuple):
    """labelled: items per variable that had a label already, and were left out. strategy: the planner's."""

    chosen: list[Chosen]
    strata: list[Stratum]
    labelled: dict[str, int]
    strategy: str | None = None


def check_how(how: str) -> None:
    """Raise InputError for a way of choosing that there is not."""
    if how not in HOW:
        raise InputError(f"how={how}: unknown{did_you_mean(how, HOW)}")


def select(
    run: LabelledRun,
    variables: Sequence[str],
    n: int,
    strata: Mapping[str, Sequence[str]] | None,
    configurations: Sequence[str],
    labelled: Mapping[str, Collection[str]],
    seed: int,
) -> Selection:
    """At most n items of each variable. strata: the columns per variable to balance over; None: a plain random sample.

    labelled: items that are left out, per variable. Raises InputError where nothing is left to label, and where there
    are more strata than items to draw.
    """
    chosen: list[Chosen] = []
    counted: list[Stratum] = []
    skipped: dict[str, int] = {}
    for variable in variables:
        columns = [] if strata is None else list(strata[variable])
        items = run.items(variable, configurations, columns)
        left = {item: places for item, places in items.items() if item not in labelled.get(variable, ())}
        skipped[variable] = len(items) - len(left)
        found, sizes = _draw(variable, left, n, None if strata is None else columns, seed)
        chosen += found
        counted += sizes
    if not chosen:
        rest = f"; {sum(skipped.values())} items have a label already" if any(skipped.values()) else ""
        raise InputError(f"run: there is nothing to label for variables={','.join(variables)}{rest}")
    return Selection(chosen, counted, skipped)


def in_order(asked: Sequence[Wanted], left: Mapping[str, int], labelled: Mapping[str, int], strategy: str) -> Selection:
    """What the planner asks for, in its order; an item that several rows share once.

    left, labelled: items per variable without and with a label.
    """
    once = {(one.variable, one.item): one for one in reversed(asked)}
    kept = [one for one in asked if once[one.variable, one.item] is one]
    chosen = [
        Chosen(one.variable, one.item, one.place, one.serves, None, None, order, one.why)
        for order, one in enumerate(kept)
    ]
    strata = [Stratum(v, None, left[v], sum(one.variable == v for one in chosen)) for v in left]
    return Selection(chosen, strata, dict(labelled), strategy)


def _draw(
    variable: str, items: Mapping[str, Sequence[Place]], n: int, columns: Sequence[str] | None, seed: int
) -> tuple[list[Chosen], list[Stratum]]:
    homes = {item: _home(item, places, seed) for item, places in items.items()}
    order = sorted(homes, key=lambda item: _order(item, homes[item], seed))
    groups: dict[str | None, list[str]] = {}
    for item in order:
        name = None if columns is None else stratum_name(homes[item].known, columns)
        groups.setdefault(name, []).append(item)
    if len(groups) > n:
        raise InputError(
            f"n={n}: {len(groups)} strata of {variable}, and each needs an item; give a larger n, or fewer in by="
        )
    shares = allot({name: len(group) for name, group in groups.items()}, n)
    ways = {item: (name, shares[name] / len(group)) for name, group in groups.items() for item in group[: shares[name]]}
    drawn = [item for item in order if item in ways]
    chosen = [
        Chosen(variable, item, homes[item], len(items[item]), *ways[item], index) for index, item in enumerate(drawn)
    ]
    sizes = [Stratum(variable, name, len(group), shares[name]) for name, group in groups.items()]
    return chosen, sorted(sizes, key=lambda one: one.name or "")


def _home(item: str, places: Sequence[Place], seed: int) -> Place:
    """The row that stands for an item of several rows; its stratum is the item's."""
    return min(places, key=lambda place: rank_key(seed, "home", item, place.config, place.question_id))


def _order(item: str, home: Place, seed: int) -> tuple[int, int]:
    question = rank_key(seed, "question", home.dataset, home.question_id)
    return question, rank_key(seed, "item", item)


def stratum_name(known: Mapping[str, Any], columns: Sequence[str]) -> str:
    """Such as `config=bm25-gemma a=0 t@match=1`; what is missing is `?`."""
    return " ".join(f"{name}={'?' if known.get(name) is None else known[name]}" for name in columns)


def allot(sizes: Mapping[str | None, int], n: int) -> dict[str | None, int]:
    """How many of each group: equal numbers, and what a small group cannot give is taken from the others."""
    shares = dict.fromkeys(sizes, 0)
    left = min(n, sum(sizes.values()))
    while left:
        open_groups = [name for name, size in sizes.items() if shares[name] < size]
        each = max(1, left // len(open_groups))
        for name in open_groups[:left] if each == 1 else open_groups:
            taken = min(each, sizes[name] - shares[name])
            shares[name] += taken
            left -= taken
    return shares


def assign(chosen: Sequence[Chosen], annotators: int, overlap: float, seed: int) -> list[tuple[int, ...]]:
    """Who labels each item, from 1: `overlap` of the items of each variable go to two people, the others to one."""
    doubly: set[tuple[str, str]] = set()
    for variable in dict.fromkeys(one.variable for one in chosen):
        of = sorted((rank_key(seed, "overlap", one.item), one.item) for one in chosen if one.variable == variable)
        share = round(overlap * len(of)) if annotators > 1 else 0
        doubly |= {(variable, item) for _, item in of[:share]}
    given: list[tuple[int, ...]] = []
    load: dict[tuple[str, int], int] = {}
    pairs: dict[tuple[int, ...], int] = {}
    for one in chosen:
        people = sorted(range(1, annotators + 1), key=lambda who: (load.get((one.variable, who), 0), who))
        who: tuple[int, ...] = (people[0],)
        if (one.variable, one.item) in doubly:  # every two people meet equally often
            two = [(a, b) for a in range(1, annotators + 1) for b in range(a + 1, annotators + 1)]
            who = min(two, key=lambda pair: (pairs.get(pair, 0), sum(load.get((one.variable, w), 0) for w in pair)))
            pairs[who] = pairs.get(who, 0) + 1
        for person in who:
            load[one.variable, person] = load.get((one.variable, person), 0) + 1
        given.append(who)
    return given
