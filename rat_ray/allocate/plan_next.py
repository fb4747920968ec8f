"""The next round: which labels to ask for, in the random order, and why."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rat_ray.allocate.plan_pool import A, Pool, R, Side, T
from rat_ray.allocate.plan_walk import JOINT, Book, wanted
from rat_ray.model.design import Options
from rat_ray.model.identify import IDENTIFIED, Known, identify
from rat_ray.model.patterns import FIT, MISSING, to_table

MOST = 200  # labels in a round, unless the user says otherwise
LEAST, LEAST_SHARE = 10, 20
NARROW = 0.05

_BOTH = "R and T of one item together tell whether G = 1"
_REST = "the other label of this item is there; with both, G is known"
_ABSTAINED = "it abstained: G = 1 exactly if retrieval failed, which R says"
_WHY = {
    ("t_first", "t"): "T first: if it is wrong, G = 0 and R is not needed",
    ("t_first", "r"): "T is right: now R says whether G = 1",
    ("r_first", "r"): "R first: if retrieval failed, G = 0 since it answered, and T is not needed",
    ("r_first", "t"): "retrieval worked: now T says whether G = 1",
    ("all_r", "r"): "R of a random item: R tells most per cost here",
    ("all_t", "t"): "T of a random answer: T tells most per cost here",
}


class Ask(NamedTuple):
    """A label to ask for. place: of the question in the random order, from 0; serves: the configurations it is for."""

    variable: str
    config: str
    question_id: str
    place: int
    why: str
    serves: tuple[str, ...]


def next_asks(pool: Pool, strategy: str, questions: float, most: int) -> list[Ask]:
    """What the strategy asks for now of the first so many questions of the order; at most `most` labels.

    An adaptive strategy asks for what it looks at first; what follows from that is for the next round. A round has ten
    labels at least, and a twentieth of those that are there, as far as there are: less is not worth a round.
    """
    bought = wanted(pool, strategy, [side.labels for side in pool.sides])
    asks: list[Ask] = []
    served = _serving(pool)
    asked: set[int] = set()
    rows = sorted(
        (int(side.place[index]), number, index)
        for number, (side, mine) in enumerate(zip(pool.sides, bought, strict=True))
        for index in np.flatnonzero(mine.r | mine.t).tolist()
    )
    known = sum(int((side.labels[:, [R, T]] != MISSING).sum()) for side in pool.sides)
    least = min(max(LEAST, known // LEAST_SHARE), most)
    for place, number, index in rows:
        if place >= questions and len(asks) >= least:
            break
        side, mine = pool.sides[number], bought[number]
        context = int(side.context[index])
        if mine.r[index] and context not in asked:
            asked.add(context)
            asks.append(_ask("r", side, index, place, strategy, served[context]))
        if mine.t[index]:
            asks.append(_ask("t", side, index, place, strategy, (side.config,)))
    if strategy == "t_first":  # of one item, T stands first
        asks.sort(key=lambda one: (one.place, one.config, one.variable != "t"))
    return asks[:most]


def base_asks(pool: Pool, base: int) -> list[Ask]:
    """R and T of random items, until each configuration has `base` items with all labels."""
    needed = max(base - full_items(side) for side in pool.sides)
    bought = wanted(pool, JOINT, [side.labels for side in pool.sides])
    lacking = np.unique(
        np.concatenate([side.place[mine.r | mine.t] for side, mine in zip(pool.sides, bought, strict=True)])
    )
    if not len(lacking):
        return []
    end = int(lacking[min(max(needed, 1), len(lacking)) - 1]) + 1
    return next_asks(pool, JOINT, end, 10**9)


def full_items(side: Side) -> int:
    """Items whose R, and T where it answered, are known."""
    labels = side.labels[side.use == FIT]
    known = (labels[:, R] != MISSING) & (labels[:, A] != MISSING)
    return int((known & ((labels[:, A] == 1) | (labels[:, T] != MISSING))).sum())


def missing_words(pool: Pool, quantity: str, options: Options, narrow: float = NARROW) -> str | None:
    """Why the labels that are there leave the quantity open, per configuration; None where they do not.

    narrow: bounds closer than this leave little open (a kind of item that is so rare that none has labels yet, say).
    """
    said = []
    for side in pool.sides:
        labels = side.labels[side.use == FIT]
        has_r, has_t = ((labels[:, column] != MISSING).any() for column in (R, T))
        where = f"{side.config}: " if len(pool.sides) > 1 else ""
        if not has_r and not has_t:
            said.append(f"{where}no label of R or T at all")
            continue
        book = Book(side)
        code = book.code(book.now)
        found = identify(to_table(code.take(code.n > 0), list(side.judges)), options)
        if not _closed(found.known[quantity], narrow):
            lacking = [name for name, has in (("R", has_r), ("T", has_t)) if not has]
            words = f"no label of {lacking[0]}" if lacking else "R and T are hardly ever labelled on the same item"
            said.append(f"{where}the labels leave {quantity} open: {found.words[0] if found.words else words}")
    return "; ".join(said) or None


def _closed(known: Known, narrow: float) -> bool:
    if known.identified == IDENTIFIED:
        return True
    return known.low is not None and known.high is not None and known.high - known.low < narrow


def _serving(pool: Pool) -> dict[int, tuple[str, ...]]:
    found: dict[int, list[str]] = {}
    for side in pool.sides:
        for context in side.context[side.open_r].tolist():
            found.setdefault(context, []).append(side.config)
    return {context: tuple(dict.fromkeys(names)) for context, names in found.items()}


def _ask(variable: str, side: Side, index: int, place: int, strategy: str, serves: tuple[str, ...]) -> Ask:
    labels = side.labels[index]
    if variable == "r" and labels[A] == 1 and strategy != "all_r":
        why = _ABSTAINED
    elif (strategy, variable) in _WHY:
        why = _WHY[strategy, variable]
    else:
        other = labels[T if variable == "r" else R]
        why = _BOTH if other == MISSING else _REST
    return Ask(variable, side.config, side.ids[index], place, why, serves)
