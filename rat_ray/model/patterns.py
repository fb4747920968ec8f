"""The count table: how often each pattern of labels and verdicts occurs. A fit needs nothing else.

A pattern is (r, a, t, every judge's verdict), each 0, 1 or missing. Grouping costs one pass over the label columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.errors import InputError, did_you_mean
from rat_ray.tables import LABEL, patterns_schema

TRUSTED = ("r", "a", "t")
MISSING = 2  # the digit of a missing label in a pattern's code
_MOST_COUNTED_COLUMNS = 12  # 3**12 counters are 4 MiB; wider tables are grouped by hashing
_BATCH_ROWS = 1 << 20


class Code(NamedTuple):
    """Patterns as numbers, one row each. labels: (patterns, 3 + judges) of 0, 1 or MISSING; n, failed: (patterns,)."""

    labels: np.ndarray
    failed: np.ndarray
    n: np.ndarray


def is_source(column: str) -> bool:
    """Whether a column name is a rule's or judge's: `r@NAME`, `a@NAME` or `t@NAME`."""
    variable, at, name = column.partition("@")
    return bool(at and name.strip()) and variable in TRUSTED


def source_columns(names: Sequence[str]) -> list[str]:
    """The source columns among the names, in their order."""
    return [name for name in names if is_source(name)]


def trusted_sources(table: pa.Table) -> set[str]:
    """The source columns that fill r, a or t, read from r_source, a_source and t_source; none without these columns.

    A trusted source must not be a judge in the same fit: it would leak the labels that were hidden.
    """
    found: set[str] = set()
    for variable in TRUSTED:
        if f"{variable}_source" in table.schema.names:
            names = pc.unique(table.column(f"{variable}_source")).to_pylist()
            # Our own tables name the column (`r@evidence`); other people's may name the source alone.
            found |= {n if n.startswith(f"{variable}@") else f"{variable}@{n}" for n in names if n is not None}
    return found


def default_judges(table: pa.Table) -> list[str]:
    """Every source column of the table that is not trusted."""
    trusted = trusted_sources(table)
    return [name for name in source_columns(table.schema.names) if name not in trusted]


def check_judges(judges: Sequence[str]) -> None:
    """Raise InputError unless every judge is named `r@NAME`, `a@NAME` or `t@NAME`, once."""
    for judge in judges:
        if not is_source(judge):
            raise InputError(f"judge {judge!r}: a judge is named after what it labels: r@NAME, a@NAME or t@NAME")
    if len(set(judges)) < len(judges):
        raise InputError(f"judges: a name occurs twice in {list(judges)}")


def check_columns(table: pa.Table, columns: Sequence[str]) -> None:
    """Raise InputError unless the table has each of these columns once."""
    names = table.schema.names
    for name in columns:
        if names.count(name) != 1:
            how = f"occurs {names.count(name)} times" if name in names else f"is missing{did_you_mean(name, names)}"
            raise InputError(f"column {name!r} {how}")


def check_counts(counts: pa.Table) -> pa.Table:
    """A count table that somebody else made, checked and in our order.

    Raises InputError for missing columns, labels that are not 0, 1 or null, impossible patterns, and other counts than
    whole numbers.
    """
    judges = judges_of(counts)
    check_judges(judges)
    check_columns(counts, [*TRUSTED, *judges, "use", "n"])
    n, use = counts.column("n"), set(counts.column("use").to_pylist())
    if not pa.types.is_integer(n.type) or n.null_count or (pc.min(n).as_py() or 0) < 0:
        raise InputError("column 'n' of a count table: whole numbers of at least 0 are expected, no nulls")
    if not use <= {"fit", "failed"}:
        raise InputError(
            f"column 'use' of a count table: 'fit' or 'failed' are expected, found {sorted(map(str, use))}"
        )
    labels = [_digits(counts.column(name), name) for name in (*TRUSTED, *judges)]
    failed = pc.equal(counts.column("use"), "failed").to_numpy().astype(bool)
    code = Code(np.stack(labels, axis=1).astype(np.int8), failed, n.to_numpy())
    return _to_table(_resolve(code, judges), judges)


def patterns(table: pa.Table, judges: Sequence[str]) -> pa.Table:
    """The count table of an annotations or label table (schema `tables.patterns_schema`), in a fixed order.

    Rows whose `error` is not null have use="failed". Where a = 1, t = 0 means "not applicable" and becomes missing,
    and verdicts on T are set aside; where t = 1, a is 0. Columns must be 0/1 numbers or booleans with nulls.

    Raises InputError for a missing column, another value than 0 or 1, t = 1 with a = 1, or t = 0 where a is missing
    (it may be an abstention; `read_labels(..., t_zero="wrong")` reads it as an answer).
    """
    check_judges(judges)
    columns = [*TRUSTED, *judges]
    names = table.schema.names
    check_columns(table, columns)
    leaked = sorted(trusted_sources(table) & set(judges))
    if leaked:
        raise InputError(f"{', '.join(leaked)} fills trusted labels and cannot be a judge in the same fit")
    failed = pc.is_valid(table.column("error")) if "error" in names else None
    labels = table.select(columns)
    code = _count(labels, failed) if len(columns) <= _MOST_COUNTED_COLUMNS else _group(labels, failed)
    return _to_table(_resolve(code, list(judges)), list(judges))


def merge(tables: Sequence[pa.Table]) -> pa.Table:
    """One count table from several with the same columns: the counts of equal patterns are added."""
    if not tables:
        raise InputError("no count table to merge")
    judges = judges_of(tables[0])
    whole = pa.concat_tables([table.select(patterns_schema(judges).names) for table in tables])
    return _to_table(to_code(whole), judges)


def judges_of(counts: pa.Table) -> list[str]:
    """The judges of a count table."""
    return [name for name in counts.schema.names if name not in (*TRUSTED, "use", "n")]


def to_code(counts: pa.Table) -> Code:
    """The count table as numbers."""
    columns = [*TRUSTED, *judges_of(counts)]
    labels = [pc.fill_null(counts.column(name), MISSING).to_numpy() for name in columns]
    failed = pc.equal(counts.column("use"), "failed").to_numpy()
    return Code(np.stack(labels, axis=1).astype(np.int8), failed.astype(bool), counts.column("n").to_numpy())


def _count(labels: pa.Table, failed: pa.ChunkedArray | None) -> Code:
    """Count by a number in base 3, one digit per column: several times faster than hashing."""
    width = labels.num_columns
    totals = np.zeros(2 * 3**width, dtype=np.int64)
    for start in range(0, labels.num_rows, _BATCH_ROWS):
        batch = labels.slice(start, _BATCH_ROWS)
        code = np.zeros(batch.num_rows, dtype=np.int32)
        if failed is not None:
            code += failed.slice(start, _BATCH_ROWS).to_numpy()
        for name in labels.column_names:
            code *= 3
            code += _digits(batch.column(name), name)
        totals += np.bincount(code, minlength=totals.size)
    codes = np.flatnonzero(totals)
    digits = codes[:, None] // 3 ** np.arange(width - 1, -1, -1) % 3
    return Code(digits.astype(np.int8), codes >= 3**width, totals[codes])


def _group(labels: pa.Table, failed: pa.ChunkedArray | None) -> Code:
    columns = {f"c{i}": pa.array(_digits(labels.column(i), name)) for i, name in enumerate(labels.column_names)}
    flags = np.zeros(labels.num_rows, dtype=bool) if failed is None else failed.to_numpy()
    grouped = pa.table({**columns, "failed": flags}).group_by([*columns, "failed"]).aggregate([([], "count_all")])
    digits = np.stack([grouped.column(name).to_numpy() for name in columns], axis=1)
    return Code(digits, grouped.column("failed").to_numpy(), grouped.column("count_all").to_numpy())


def _digits(column: pa.ChunkedArray, name: str) -> np.ndarray:
    """0, 1 or MISSING per row."""
    if column.type != LABEL:
        try:
            column = column.cast(LABEL)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(
                f"column {name!r} is {column.type}: labels are 0, 1 or null ({error}); "
                "read label files with rat_ray.model.read_labels"
            ) from error
    extremes = pc.min_max(column).as_py()
    if extremes["min"] is not None and not 0 <= extremes["min"] <= extremes["max"] <= 1:
        wrong = extremes["min"] if extremes["min"] < 0 else extremes["max"]
        raise InputError(f"column {name!r} holds {wrong}: labels are 0, 1 or null")
    return np.asarray(pc.fill_null(column, MISSING).to_numpy())


def _resolve(code: Code, judges: list[str]) -> Code:
    """Apply the definitions that tie t to a, on the patterns instead of the rows."""
    labels = code.labels.copy()
    a, t = labels[:, 1], labels[:, 2]
    contradiction = code.n[(a == 1) & (t == 1)].sum()
    if contradiction:
        raise InputError(
            f"t = 1 on {contradiction} row(s) with a = 1: an abstention cannot be a correct answer; correct a or t"
        )
    unclear = code.n[(a == MISSING) & (t == 0)].sum()
    if unclear:
        raise InputError(
            f"t = 0 on {unclear} row(s) where a is missing: it may be an abstention; label a, "
            "or set t_zero=wrong if t = 0 means an answer that is wrong"
        )
    t[a == 1] = MISSING
    a[t == 1] = 0
    for index, judge in enumerate(judges, start=len(TRUSTED)):
        if judge.startswith("t@"):
            labels[a == 1, index] = MISSING
    return code._replace(labels=labels)


def _to_table(code: Code, judges: list[str]) -> pa.Table:
    """Add equal patterns up, and sort: the order never depends on the order of the rows."""
    keys = np.column_stack([code.failed, code.labels])
    unique, inverse = np.unique(keys, axis=0, return_inverse=True)
    n = np.zeros(len(unique), dtype=np.int64)
    np.add.at(n, inverse.reshape(-1), code.n)
    columns = [
        pa.array(np.where(digits == MISSING, 0, digits), type=LABEL, mask=digits == MISSING)
        for digits in unique[:, 1:].T
    ]
    use = pa.array(np.where(unique[:, 0] == 1, "failed", "fit").tolist(), type=pa.string())
    return pa.Table.from_arrays([*columns, use, pa.array(n)], schema=patterns_schema(judges))
