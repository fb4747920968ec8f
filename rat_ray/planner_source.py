"""What `rat-ray plan` plans for: a label file with what was filled in since, or a finished run with people's labels."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from rat_ray.allocate.plan_next import Ask
from rat_ray.allocate.plan_pool import Asked
from rat_ray.annotate.labels import judge_columns
from rat_ray.annotate.people import Judgement, PeopleLabels, join, judgements, people_table
from rat_ray.annotate.people_cells import protect
from rat_ray.errors import InputError, did_you_mean
from rat_ray.fetching import local_copy
from rat_ray.labelling.keep import LabelsFile, read_back
from rat_ray.labelling.run import Place
from rat_ray.model import Columns, read_labels
from rat_ray.store import StorageSettings
from rat_ray.tables import LABEL

_VARIABLES = ("r", "t")
NEXT = ("item", "config", "question_id", "variable", "order", "why", "label", "annotator", "comment")
_BOM = "\ufeff"  # without it Excel takes UTF-8 for an old code page


class Source(NamedTuple):
    """rows: label tables by configuration; judges: likewise; closed: asked for, and nobody could tell.

    notes: in words, how it was read.
    """

    rows: dict[str, pa.Table]
    judges: dict[str, list[str]]
    closed: set[Asked]
    notes: list[str]


# --- data= ------------------------------------------------------------------------------------------------------------


def from_data(
    data: str,
    filled: Sequence[str],
    columns: Columns,
    by: Sequence[str],
    t_zero: str,
    resolve: str,
    storage: StorageSettings,
) -> Source:
    """A label file, and the rounds' files with labels filled in. Raises InputError for whatever is wrong with them."""
    with local_copy(data, storage) as path:
        labels = read_labels(path, columns, list(by), t_zero)
    rows = labels.by_config()
    found = [one for name in dict.fromkeys(filled) for one in _filled(name, rows, storage)]
    joined = join(one for one in found if one.answered)
    people = PeopleLabels(people_table(joined.judgements.values()), resolve)
    asked = {(one.variable, one.item) for one in joined.judgements.values()}
    rows = {config: _with_filled(table, config, people, rows) for config, table in rows.items()}
    closed = {(v, *_split(item)) for v, item in asked if people.label(v, item) is None}
    notes = labels.lines()
    if filled:
        notes.append(f"labels filled in: {len(asked) - len(closed)}, undecided: {len(closed)}")
    return Source(rows, dict.fromkeys(rows, labels.judges), closed, notes)


def _item(config: str, question_id: str) -> str:
    return f"{config}/{question_id}"


def _split(item: str) -> tuple[str, str]:
    """Configurations' names hold no slash."""
    config, _, question_id = item.partition("/")
    return config, question_id


def _filled(path: str, rows: Mapping[str, pa.Table], storage: StorageSettings) -> list[Judgement]:
    """The judgements of one file, every one of an item of the data."""
    known = {config: set(table.column("question_id").to_pylist()) for config, table in rows.items()}
    found = list(judgements(read_back(path, storage, "filled")))
    for one in found:
        config, question_id = _split(one.item)
        if config not in known:
            raise InputError(f"{one.place}: item {one.item!r:.80}: no such configuration{did_you_mean(config, known)}")
        if question_id not in known[config]:
            raise InputError(f"{one.place}: item {one.item!r:.80}: data= has no such question")
        if one.question_id is not None and one.question_id != question_id:
            raise InputError(
                f"{one.place}: question_id {one.question_id!r:.80} beside item {one.item!r:.80}; were some columns "
                "sorted without the others?"
            )
        if one.variable not in _VARIABLES:
            raise InputError(f"{one.place}: variable is {one.variable!r}; the planner asks for r and t")
    return found


def _with_filled(table: pa.Table, config: str, people: PeopleLabels, rows: Mapping[str, pa.Table]) -> pa.Table:
    """The labels of the file, and those that were filled in; of R also those of another row with the same context."""
    of = _by_context(people, rows)
    ids = table.column("question_id").to_pylist()
    contexts = table.column("context").to_pylist() if "context" in table.schema.names else [None] * len(ids)
    for variable in _VARIABLES:
        old = table.column(variable).to_pylist()
        new = []
        for name, context, label in zip(ids, contexts, old, strict=True):
            said = people.label(variable, _item(config, name))
            if said is None and variable == "r" and context is not None:
                said = of.get((name, context))
            if said is not None and label is not None and said != label:
                raise InputError(
                    f"filled: {variable} of {_item(config, name)} is {said}, data= says {label}; take one of them out"
                )
            new.append(label if said is None else said)
        table = table.set_column(table.schema.get_field_index(variable), variable, pa.array(new, LABEL))
    wrong = [
        name
        for name, a, t in zip(ids, table.column("a").to_pylist(), table.column("t").to_pylist(), strict=True)
        if a == 1 and t is not None
    ]
    if wrong:
        raise InputError(f"filled: t of {_item(config, wrong[0])} is labelled, and data= says that it abstained")
    return table


def _by_context(people: PeopleLabels, rows: Mapping[str, pa.Table]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    labelled = {item: label for item, label in people.items("r").items() if label is not None}
    for config, table in rows.items():
        if "context" not in table.schema.names:
            continue
        for name, context in zip(
            table.column("question_id").to_pylist(), table.column("context").to_pylist(), strict=True
        ):
            label = labelled.get(_item(config, name))
            if context is None or label is None:
                continue
            if found.setdefault((name, context), label) != label:
                raise InputError(
                    f"filled: r of question {name!r} is 0 and 1 on the same context; take one of the two out"
                )
    return found


def next_csv(asks: Sequence[Ask]) -> str:
    """The round as a sheet: label, annotator and comment are to be filled in."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(NEXT)
    for order, one in enumerate(asks, start=1):
        cells = [_item(one.config, one.question_id), one.config, one.question_id, one.variable, str(order), one.why]
        writer.writerow([*map(protect, cells), "", "", ""])
    return _BOM + stream.getvalue()


# --- run= -------------------------------------------------------------------------------------------------------------


def from_run(
    annotations: Mapping[str, pa.Table],
    trusted: Mapping[str, Sequence[str]],
    people: str | None,
    resolve: str,
    storage: StorageSettings,
) -> Source:
    """The annotations of a finished run. people: the file that keeps people's labels, which need not be there yet.

    With people=, R and T are what people said, as with `labels=people`, and rules are judges. What the planner takes
    for one context is the item that R is judged on.
    """
    if people is None:
        judges = {name: judge_columns(trusted, table.schema.names) for name, table in annotations.items()}
        return Source({name: _by_item(table) for name, table in annotations.items()}, judges, set(), [])
    said = LabelsFile(people, storage).read()
    labels = PeopleLabels(people_table(said), resolve)
    answered = {(one.variable, one.item) for one in said}
    own = {"r": ["people"], "t": ["people"], "a": ["people", *trusted.get("a", ())]}
    judges = {name: judge_columns(own, table.schema.names) for name, table in annotations.items()}
    rows, closed = {}, set[Asked]()
    for config, table in annotations.items():
        rows[config], shut = _with_people(_by_item(table), config, labels, answered)
        closed |= shut
    return Source(rows, judges, closed, [f"people: {len(said)} judgements in {people}"])


def _by_item(table: pa.Table) -> pa.Table:
    """With what R is judged on as the context."""
    if "context" in table.schema.names:
        table = table.drop_columns(["context"])
    return table.append_column("context", table.column("r_item"))


def _with_people(
    table: pa.Table, config: str, people: PeopleLabels, answered: Collection[tuple[str, str]]
) -> tuple[pa.Table, set[Asked]]:
    columns = {name: table.column(name).to_pylist() for name in ("question_id", "r_item", "t_item", "a")}
    made: dict[str, list[int | None]] = {"r": [], "a": [], "t": []}
    closed = set[Asked]()
    for question_id, r_item, t_item, a in zip(*columns.values(), strict=True):
        a = next((one for one in (people.label("a", t_item), a) if one is not None), None)
        r, t = people.label("r", r_item), people.label("t", t_item) if a != 1 else None
        for variable, item, label in (("r", r_item, r), ("t", t_item, t)):
            if label is None and (variable, item) in answered:
                closed.add((variable, config, question_id))
        made["r"].append(r)
        made["a"].append(0 if t == 1 else a)
        made["t"].append(None if a is None and t == 0 else t)
    for name, values in made.items():
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values, LABEL))
    sources = [name for name in ("r_source", "a_source", "t_source") if name in table.schema.names]
    return table.drop_columns(sources), closed


def items_of(source: Source) -> dict[Asked, tuple[str, Place, int]]:
    """For each label that may be asked for of a run: what people judge, a row that it serves, and how many."""
    found: dict[Asked, tuple[str, Place]] = {}
    for config, table in source.rows.items():
        names = ("question_id", "dataset", "r_item", "t_item")
        for question_id, dataset, *items in zip(*(table.column(name).to_pylist() for name in names), strict=True):
            place = Place(config, dataset or "", question_id, {})
            found |= {(v, config, question_id): (one, place) for v, one in zip(_VARIABLES, items, strict=True) if one}
    serves = Counter((variable, item) for (variable, *_), (item, _) in found.items())
    return {key: (item, place, serves[key[0], item]) for key, (item, place) in found.items()}


def chosen(source: Source, configs: Sequence[str], judges: Sequence[str] | None) -> Source:
    """Only these configurations and judges. Raises InputError for one that there is not."""
    names = list(configs) or list(source.rows)
    for name in names:
        if name not in source.rows:
            raise InputError(f"configs: {name!r} is not there{did_you_mean(name, source.rows)}")
    every = sorted({one for mine in source.judges.values() for one in mine})
    for one in judges or ():
        if one not in every:
            raise InputError(f"judges: {one!r} is no judge here{did_you_mean(one, every)}")
    kept = {name: [one for one in source.judges[name] if judges is None or one in judges] for name in names}
    return source._replace(rows={name: source.rows[name] for name in dict.fromkeys(names)}, judges=kept)


def label_table(source: Source) -> pa.Table:
    """All labels together, as `rat-ray fit data=labels.parquet by=config` reads them."""
    tables: list[Any] = []
    for config, table in source.rows.items():
        names = ["question_id", "r", "a", "t", *source.judges[config]]
        names += [name for name in ("context", "use", "error") if name in table.schema.names]
        own = table.select(names)
        tables.append(own.add_column(0, "config", pa.array([config] * own.num_rows, pa.string())))
    return pa.concat_tables(tables, promote_options="default")
