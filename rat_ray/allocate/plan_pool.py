"""What a plan chooses from: the rows of all configurations, in one random order of their questions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.errors import InputError
from rat_ray.model.patterns import FAILED, FIT, MISSING, TRUSTED, USES, digits_of
from rat_ray.seeds import rank_key

R, A, T = range(len(TRUSTED))
Asked = tuple[str, str, str]  # variable, config, question_id


class Side(NamedTuple):
    """The rows of one configuration, (rows,) each. labels: (rows, 3 + judges) of 0, 1 or MISSING.

    place: of the row's question in the random order. context: its number, over all configurations.
    open_r, open_t: the label is not there and can be bought. use: an index into `patterns.USES`.
    """

    config: str
    judges: tuple[str, ...]
    ids: list[str]
    labels: np.ndarray
    use: np.ndarray
    place: np.ndarray
    context: np.ndarray
    open_r: np.ndarray
    open_t: np.ndarray


class Pool(NamedTuple):
    """All configurations of a plan. shared: some of them had the same context, so that a label of R serves
    several, or gave the same answer.

    questions: how many there are; contexts: how many distinct ones.
    """

    sides: tuple[Side, ...]
    shared: bool
    questions: int
    contexts: int

    def side(self, config: str) -> Side:
        return next(side for side in self.sides if side.config == config)


def pool_of(
    rows: Mapping[str, pa.Table],
    judges: Mapping[str, Sequence[str]],
    seed: int,
    closed: Collection[Asked] = (),
) -> Pool:
    """rows: label tables as for `model.fit`, with question_id and, where it is known, context.

    The order of the questions depends on the seed and their ids alone. A label of R holds for every configuration that
    had the same context. closed: labels that nobody could give, and that are not asked for again.

    Raises InputError for strata, labels of R that differ on one context, and a configuration without a known A.
    """
    tables = {config: _usable(table, config) for config, table in rows.items()}
    every = {config: [str(one) for one in table.column("question_id").to_pylist()] for config, table in tables.items()}
    ordered = sorted(
        {name for ids in every.values() for name in ids}, key=lambda one: (rank_key(seed, "plan", one), one)
    )
    place = {name: index for index, name in enumerate(ordered)}
    contexts, numbers = _contexts(tables, every)
    known: dict[int, int] = {}
    sides = [
        _side(config, table, tuple(judges[config]), every[config], place, contexts[config], known)
        for config, table in tables.items()
    ]
    shut = {
        int(number)
        for side in sides
        for name, number in zip(side.ids, side.context.tolist(), strict=True)
        if ("r", side.config, name) in closed
    }
    done = [_finished(side, known, shut, closed) for side in sides]
    return Pool(tuple(done), shares(tables, tables), len(ordered), numbers)


def shares(rows: Mapping[str, pa.Table], configs: Collection[str]) -> bool:
    """Whether a label for one of `configs` serves another configuration, too: of R by the context, of T, in a run, by
    the answer.
    """
    owners: dict[tuple[str, ...], set[str]] = {}
    for config, table in rows.items():
        if "context" in table.schema.names:
            for question, context in zip(*_texts(table, "question_id", "context"), strict=True):
                if context is not None:
                    owners.setdefault(("r", str(question), str(context)), set()).add(config)
        if "t_item" in table.schema.names:
            for item in pc.drop_null(table.column("t_item")).to_pylist():
                owners.setdefault(("t", str(item)), set()).add(config)
    return any(len(names) > 1 and not names.isdisjoint(configs) for names in owners.values())


def _texts(table: pa.Table, *names: str) -> list[list[Any]]:
    return [table.column(name).to_pylist() for name in names]


def _usable(table: pa.Table, config: str) -> pa.Table:
    if "error" in table.schema.names:
        table = table.filter(pc.is_null(table.column("error")))
    for name in ("stratum", "inclusion", "stands_for"):
        if name in table.schema.names and table.column(name).null_count < table.num_rows:
            raise InputError(
                f"config {config!r}: has a column {name}: its labels were not drawn at random over all items, and the "
                "planner goes on in one random order; plan each stratum by itself, as a file of its own"
            )
    if table.num_rows == 0:
        raise InputError(f"config {config!r}: there are no items to plan for")
    return table


def _contexts(tables: Mapping[str, pa.Table], every: Mapping[str, list[str]]) -> tuple[dict[str, np.ndarray], int]:
    """A number per row; rows of several configurations have the same one where question and context are the same.

    Also how many there are.
    """
    numbers: dict[tuple[str, str], int] = {}
    found, size = {}, 0
    for config, table in tables.items():
        has = "context" in table.schema.names
        texts = table.column("context").to_pylist() if has else [None] * table.num_rows
        mine = np.zeros(table.num_rows, dtype=np.int64)
        for index, (name, text) in enumerate(zip(every[config], texts, strict=True)):
            number = size if text is None else numbers.setdefault((name, str(text)), size)
            size += number == size
            mine[index] = number
        found[config] = mine
    return found, size


def _side(
    config: str,
    table: pa.Table,
    judges: tuple[str, ...],
    ids: list[str],
    place: Mapping[str, int],
    context: np.ndarray,
    known: dict[int, int],
) -> Side:
    labels = np.stack([digits_of(table.column(name), name) for name in (*TRUSTED, *judges)], axis=1).astype(np.int8)
    use = _uses(table)
    labels[labels[:, T] == 1, A] = 0
    abstained = labels[:, A] == 1
    for column in (T, *(i for i, judge in enumerate(judges, len(TRUSTED)) if judge.startswith("t@"))):
        labels[abstained, column] = MISSING
    if not (labels[:, A] != MISSING).any():
        raise InputError(
            f"config {config!r}: a is blank on every item; what to label depends on whether it was answered"
        )
    for index in np.flatnonzero((labels[:, R] != MISSING) & (use == FIT)).tolist():
        r = int(labels[index, R])
        if known.setdefault(int(context[index]), r) != r:
            raise InputError(
                f"config {config!r}, question {ids[index]!r}: r is {r}, and another configuration with the same "
                "context says otherwise; whether the evidence is there has one answer"
            )
    places = np.array([place[name] for name in ids], dtype=np.int64)
    nothing = np.zeros(len(ids), dtype=bool)
    return Side(config, judges, ids, labels, use, places, context, nothing, nothing)


def _finished(side: Side, known: Mapping[int, int], shut: Collection[int], closed: Collection[Asked]) -> Side:
    """With the labels of R that other configurations have, and what can be bought. shut: contexts without a label."""
    labels = side.labels.copy()
    blank = np.flatnonzero((labels[:, R] == MISSING) & (side.use == FIT))
    labels[blank, R] = [known.get(number, MISSING) for number in side.context[blank].tolist()]
    usable = (side.use == FIT) & (labels[:, A] != MISSING)
    ask_r = ~np.isin(side.context, sorted(shut))
    ask_t = np.array([("t", side.config, name) not in closed for name in side.ids], dtype=bool)
    return side._replace(
        labels=labels,
        open_r=usable & (labels[:, R] == MISSING) & ask_r,
        open_t=usable & (labels[:, T] == MISSING) & (labels[:, A] == 0) & ask_t,
    )


def _uses(table: pa.Table) -> np.ndarray:
    if "use" not in table.schema.names:
        return np.full(table.num_rows, FIT, dtype=np.int32)
    texts = [text or USES[FIT] for text in table.column("use").to_pylist()]
    return np.array([USES.index(text) if text in USES else FAILED for text in texts], dtype=np.int32)
