"""Studies that cannot be run, and what a reader must know of one that can: before its first fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from rat_ray.allocate.population import Population, code_of, counts_of, read_population, trusted_columns
from rat_ray.allocate.settings import BOOTSTRAP, AllocationSettings
from rat_ray.allocate.spending import Replicate, spending_of
from rat_ray.allocate.strategies import STRATEGIES, share_of
from rat_ray.errors import InputError
from rat_ray.model.identify import IDENTIFIED, identify
from rat_ray.model.patterns import MISSING, to_table
from rat_ray.model.strata import read_strata

_FEW = 10  # complete items: below, the base alone says next to nothing
_SPREAD = 4.0  # standard deviations: a replicate whose labels cost more or less is as good as impossible
_WHY = {
    "all_t": (
        "without items that have both labels, T says nothing of R: P(G=1) is not identified, and its interval is what "
        "the prior makes of it (meant to cover 95 %, it covered 0 to 100 % in simulation, depending on the system)"
    ),
    "all_r": "without a label of T, P(G=1) stays as wide as the prior of tau makes it",
    "mixed": "R and T on different items: how they go together is not identified, and P(G=1) only bounded",
}


def check(annotations: pa.Table, settings: AllocationSettings, trusted: Mapping[str, Sequence[str]]) -> list[str]:
    """Refuse a study that cannot run; else warnings, in words. annotations: of one configuration.

    Raises InputError where a trusted source has no column or no label, no item was answered, the base does not fit, a
    budget could not be spent, or a strategy without a base leaves P(G=1) open and is not forced.
    """
    settings.validate()
    found = read_population(annotations, trusted)
    what, population = f"allocation: config {_config_of(annotations)!r}", found.population
    columns = {variable: ", ".join(names) for variable, names in trusted_columns(trusted).items()}
    _check_labels(what, population, columns, annotations.num_rows)
    complete = int(population.complete.sum())
    items = len(population.a)
    if settings.base > complete:
        raise InputError(
            f"{what}: allocation.base={settings.base}, but only {complete} of {items} items have complete trusted "
            "labels; lower the base or label more items"
        )
    check_identified(what, settings)
    said = [*base_warnings(settings), *check_budgets(what, population, settings)]
    for count, why in ((found.failed, "have an error"), (found.unknown_a, f"have no label of A in {columns['a']}")):
        if count:
            said.append(f"{count} of {annotations.num_rows} rows {why} and are no items of the study")
    strata = len(read_strata(annotations).names)
    if strata > 1:
        said.append(
            f"the items come from {strata} strata, or were chosen with unequal probabilities: the study counts every "
            "item alike and labels them at random"
        )
    if not population.whole:
        said.append(
            f"{items - complete} of {items} items lack labels, which no budget can buy; errors are taken from the "
            "posterior means given all labels there are"
        )
    return said


def base_warnings(settings: AllocationSettings) -> list[str]:
    """What is to be said of a small base."""
    if settings.base >= _FEW:
        return []
    return [
        f"allocation.base={settings.base}: so few items with all their labels leave the link of R and T to the prior; "
        f"at least {_FEW} are advisable"
    ]


def check_identified(what: str, settings: AllocationSettings) -> None:
    """Raise InputError where a strategy without a base leaves P(G=1) open, unless that is forced."""
    if settings.base or settings.force:
        return
    for name in settings.strategies:
        if not _identifies(name):
            why = _WHY.get(name.partition("-")[0], "its labels leave P(G=1) open")
            raise InputError(
                f"{what}: allocation.base=0 with strategy {name}: {why}; give a base, or allocation.force=true"
            )


def check_budgets(what: str, population: Population, settings: AllocationSettings) -> list[str]:
    """Warnings where some replicates run out of labels to buy before their budget is spent.

    Raises InputError for a budget that no replicate could spend.
    """
    said = []
    for name in settings.strategies:
        least, most = _buyable(population, name, settings)
        for budget in sorted(settings.budgets):
            cell = f"strategy {name}, budget {budget:g}"
            if budget > most:
                raise InputError(
                    f"{what}, {cell}: all labels that it can buy beyond the base cost {most:g} at most; give smaller "
                    "allocation.budgets, a smaller base, or more items"
                )
            if budget > least:
                said.append(f"{cell}: some replicates run out of labels to buy; the column cost says what they spent")
                break
    return said


def _check_labels(what: str, population: Population, columns: Mapping[str, str], rows: int) -> None:
    if not rows:
        raise InputError(f"{what} has no rows; choose other allocation.configurations")
    labelled = {"a": len(population.a) > 0, "r": bool((population.r != MISSING).any())}
    for variable, there in labelled.items():
        if not there:
            raise InputError(
                f"{what}: no trusted label in {columns[variable]} (of {rows} rows); label some items first"
            )
    answered = population.a == 0
    if not answered.any():
        raise InputError(
            f"{what}: the system answered none of its {len(answered)} items ({columns['a']} is nowhere 0), so there is "
            "no T to label; choose other allocation.configurations"
        )
    if not (population.t[answered] != MISSING).any():
        raise InputError(f"{what}: no trusted label of an answered item in {columns['t']}; label some items first")


def _identifies(strategy: str) -> bool:
    """Whether the labels of a strategy alone, on as many items as it likes, tell P(G=1)."""
    share = share_of(strategy)
    r, a, t = np.array([(r, a, t) for r in (0, 1) for a, t in ((0, 0), (0, 1), (1, MISSING))], dtype=np.int8).T
    seen = np.zeros(0)
    for chance in (0.5,) if share is None else (0.0, 1.0):
        items = Replicate(r, a, t, np.full(len(r), chance), 0)
        buys = spending_of(items, strategy, AllocationSettings().cost)
        n = counts_of(np.where(buys.r, r, MISSING), a, np.where(buys.t, t, MISSING))
        seen = n if not len(seen) else seen + n
    return identify(to_table(code_of(10 * seen), [])).known["p_g"].identified == IDENTIFIED


def _buyable(population: Population, strategy: str, settings: AllocationSettings) -> tuple[float, float]:
    """What the labels beyond the base cost at least and at most, over the replicates."""
    costs, share = settings.cost, share_of(strategy)
    r, a, t = population.r, population.a, population.t
    each = []
    for chance in (0.5,) if share is None else (0.0, 1.0):
        spent = spending_of(Replicate(r, a, t, np.full(len(r), chance), 0), strategy, costs).spent
        each.append(np.diff(spent, prepend=0.0))
    if share is None and settings.resampling != BOOTSTRAP:
        base = np.sort(each[0][population.complete])
        taken = settings.base
        total = each[0].sum()
        return float(total - base[len(base) - taken :].sum()), float(total - base[:taken].sum())
    weights = [1.0] if share is None else [share, 1.0 - share]
    mean = sum(w * one.mean() for w, one in zip(weights, each, strict=True))
    square = sum(w * (one**2).mean() for w, one in zip(weights, each, strict=True))
    beyond = len(r) - settings.base
    spread = _SPREAD * np.sqrt(beyond * max(square - mean**2, 0.0))
    return float(beyond * mean - spread), float(beyond * mean + spread)


def _config_of(annotations: pa.Table) -> str:
    return str(annotations.column("config")[0].as_py()) if annotations.num_rows else ""


# Every strategy whose name is refused has a reason.
assert set(_WHY) <= set(STRATEGIES)
