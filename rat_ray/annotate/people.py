"""People's labels: read from files, one judgement per annotator and item, resolved where several people judged one.

A judgement is tied to what was judged (`annotate.items`), not to a run. "unsure" is kept, as a missing label.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import pyarrow as pa

from rat_ray import tables
from rat_ray.annotate.people_cells import SIGN
from rat_ray.annotate.people_files import PeopleFile, Row, read_file
from rat_ray.errors import InputError, did_you_mean

VARIABLES: Final = ("r", "a", "t")
# How the labels of several people become one. Whatever is tied or undecided is missing.
RESOLVE: Final = ("majority", "unanimous", "first", "latest")

# As people write them, and as spreadsheets in their languages rewrite them.
_ONE = frozenset(["1", "yes", "y", "true", "ja", "oui", "sí", "si", "sì", "wahr", "vrai", "vero", "verdadero"])
_ZERO = frozenset(["0", "no", "n", "false", "nein", "non", "falsch", "faux", "falso"])
_UNSURE = frozenset(["unsure", "?", "skip", "skipped"])
_DECIMALS = re.compile(r"(?<=[0-9])[.,]0+$")
_BLANK = frozenset(["", "null", "nan", "na", "n/a"])


class Judgement(NamedTuple):
    """What one annotator said of one item. answered: False where the label was left blank; label: None for unsure too.

    place: where it stands; question: the text that stood beside it, if any.
    """

    variable: str
    item: str
    label: int | None
    annotator: str
    question_id: str | None
    time: str | None
    comment: str | None
    place: str
    question: str | None
    answered: bool

    @property
    def key(self) -> tuple[str, str, str]:
        """Of which there is one judgement."""
        return self.variable, self.item, self.annotator


class Joined(NamedTuple):
    """judgements: one per key, in the order in which they first occur. doubled: those that said the same again."""

    judgements: dict[tuple[str, str, str], Judgement]
    doubled: list[Judgement]


def read_people(paths: Sequence[str], read: Callable[[str], PeopleFile] = read_file) -> pa.Table:
    """The judgements of files of labels (CSV, TSV, JSONL, Parquet, Label Studio's JSON), with the schema tables.PEOPLE.

    read: how a file is read, by its path. Blank labels are left out, equal ones of an annotator count once. An
    annotator that no column names is called as the file is. Raises InputError, with file, row, column and value, for
    whatever is not as it should be, and for two different labels of one annotator for one item.
    """
    found = (one for path in paths for one in judgements(read(path)))
    return people_table(join(one for one in found if one.answered).judgements.values())


def judgements(file: PeopleFile, annotator: str = "") -> Iterator[Judgement]:
    """The rows of a file with their meaning. annotator: who it was where no column says so; empty: the file's name."""
    for row in file.rows:
        yield _judgement(row, annotator.strip() or file.name)


def join(found: Iterable[Judgement]) -> Joined:
    """One judgement per annotator and item. Raises InputError for two that differ."""
    joined, doubled = dict[tuple[str, str, str], Judgement](), list[Judgement]()
    for one in found:
        known = joined.setdefault(one.key, one)
        if known is one:
            continue
        if known.label != one.label:
            raise InputError(
                f"{one.place}: {one.annotator} says {label_text(one.label)} of {one.variable} of {one.item}, and "
                f"{label_text(known.label)} at {known.place}; take one of the two out"
            )
        doubled.append(one)
    return Joined(joined, doubled)


def people_table(found: Iterable[Judgement]) -> pa.Table:
    """With the schema tables.PEOPLE."""
    rows = [{name: getattr(one, name) for name in tables.PEOPLE.names} for one in found]
    return pa.Table.from_pylist(rows, schema=tables.PEOPLE)


def label_text(label: int | None) -> str:
    """For messages."""
    return "unsure" if label is None else str(label)


def parse_label(text: str) -> tuple[bool, int | None] | None:
    """Whether something was said, and what; None for what is no label. `1.0` and `1,00` are a spreadsheet's 1."""
    word = _DECIMALS.sub("", text.strip().casefold())
    if word in _BLANK:
        return False, None
    if word in _UNSURE:
        return True, None
    return (True, 1) if word in _ONE else (True, 0) if word in _ZERO else None


def _judgement(row: Row, annotator: str) -> Judgement:
    cells = row.cells
    variable = cells.get("variable", "").strip().lower()
    if variable not in VARIABLES:
        raise InputError(f"{row.place}: variable is {variable!r}; give r, a or t")
    item = cells.get("item", "").strip().lstrip(SIGN)  # no item begins with one
    if not item:
        raise InputError(f"{row.place}: item is blank; it names what was judged, leave it as it was exported")
    said = parse_label(cells.get("label", ""))
    if said is None:
        raise InputError(
            f"{row.place}: label is {cells['label']!r:.80}; give 1 or yes, 0 or no, unsure, or leave it blank"
        )
    return Judgement(
        variable=variable,
        item=item,
        label=said[1],
        annotator=unicodedata.normalize("NFC", cells.get("annotator", "").strip() or annotator),
        question_id=cells.get("question_id"),
        time=_time(cells.get("time")),
        comment=cells.get("comment"),
        place=row.place,
        question=cells.get("question"),
        answered=said[0],
    )


def _time(text: str | None) -> str | None:
    """In UTC, so that times of several tools can be compared; one that is not ISO 8601 stays as it is."""
    moment = _moment(text)
    return text if moment is None else moment.isoformat()


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text or "")
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):  # before the year 1 or after 9999 in UTC
        return None


class PeopleLabels:
    """The labels of a table with the schema tables.PEOPLE, by what was judged."""

    def __init__(self, table: pa.Table, rule: str = "majority") -> None:
        """Raises InputError for an unknown rule."""
        check_rule(rule)
        self._rule = rule
        self._said: dict[tuple[str, str], list[_Said]] = {}
        names = ("variable", "item", "label", "annotator", "time")
        columns = (table.column(name).to_pylist() for name in names)
        for variable, item, label, annotator, time in zip(*columns, strict=True):
            if label is not None:
                self._said.setdefault((variable, item), []).append(_Said(annotator, label, _moment(time)))
        self._resolved = {key: _resolve(said, rule) for key, said in self._said.items()}

    @property
    def annotators(self) -> list[str]:
        """Who gave at least one label, sorted."""
        return sorted({one.annotator for said in self._said.values() for one in said})

    def label(self, variable: str, item: str | None) -> int | None:
        """The people's label, or None where there is none or they do not agree as the rule wants."""
        return self._resolved.get((variable, item)) if item is not None else None

    def by(self, annotator: str, variable: str, item: str | None) -> int | None:
        """What one of them said."""
        said = self._said.get((variable, item), []) if item is not None else []
        return next((one.label for one in said if one.annotator == annotator), None)

    def items(self, variable: str) -> dict[str, int | None]:
        """Every item of which somebody said 1 or 0, with the resolved label."""
        return {item: label for (of, item), label in self._resolved.items() if of == variable}


class _Said(NamedTuple):
    annotator: str
    label: int
    time: datetime | None


def check_rule(rule: str, setting: str = "resolve") -> None:
    """Raise InputError for a rule that there is not."""
    if rule not in RESOLVE:
        raise InputError(f"{setting}={rule}: unknown{did_you_mean(rule, RESOLVE)}")


def _resolve(said: Sequence[_Said], rule: str) -> int | None:
    labels = [one.label for one in said]
    ones = sum(labels)
    if rule == "majority":
        return None if 2 * ones == len(labels) else int(2 * ones > len(labels))
    if rule == "unanimous":
        return labels[0] if ones in (0, len(labels)) else None
    never = datetime.min.replace(tzinfo=UTC)  # without a time the order in the table decides
    ordered = sorted(said, key=lambda one: one.time or never)
    return ordered[0].label if rule == "first" else ordered[-1].label


class Agreement(NamedTuple):
    """How far people agree on one variable. items: with a label; several: with labels of two people or more.

    raw: the share of equal labels among all pairs of labels of one item, each item weighing the same. alpha:
    Krippendorff's, nominal; None where it is not defined (no item was labelled twice, or every label is the same).
    """

    variable: str
    items: int
    several: int
    raw: float | None
    alpha: float | None


def agreement(table: pa.Table) -> dict[str, Agreement]:
    """Per variable that has a label, of a table with the schema tables.PEOPLE."""
    counts: dict[str, dict[str, list[int]]] = {}
    columns = (table.column(name).to_pylist() for name in ("variable", "item", "label"))
    for variable, item, label in zip(*columns, strict=True):
        if label is not None:
            counts.setdefault(variable, {}).setdefault(item, [0, 0])[label] += 1
    return {variable: _agreement(variable, counts[variable]) for variable in VARIABLES if variable in counts}


def _agreement(variable: str, counts: Mapping[str, list[int]]) -> Agreement:
    several = [pair for pair in counts.values() if sum(pair) > 1]
    if not several:
        return Agreement(variable, len(counts), 0, None, None)
    pairs = [(no * (no - 1) + yes * (yes - 1)) / ((no + yes) * (no + yes - 1)) for no, yes in several]
    return Agreement(variable, len(counts), len(several), sum(pairs) / len(pairs), _alpha(several))


def _alpha(counts: Sequence[Sequence[int]]) -> float | None:
    if any(not sum(pair[label] for pair in counts) for label in (0, 1)):
        return None
    import krippendorff
    import numpy as np

    return float(krippendorff.alpha(value_counts=np.array(counts), level_of_measurement="nominal"))
