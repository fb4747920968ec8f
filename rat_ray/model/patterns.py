"""The count table: how often each pattern of labels and verdicts occurs. A fit needs nothing else.

A pattern is (r, a, t, every judge's verdict), each 0, 1 or missing, the stratum where there are strata, and what it is
used for. Grouping costs one pass over these columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.errors import InputError, did_you_mean
from rat_ray.model.strata import STRATUM, Strata, read_strata
from rat_ray.tables import LABEL, patterns_schema

TRUSTED = ("r", "a", "t")
USES = ("fit", "calibration", "failed")  # informs the fit; informs the judges' rates only; left out and counted
FIT, CALIBRATION, FAILED = range(len(USES))
MISSING = 2  # the digit of a missing label in a pattern's code
_MOST_COUNTED_COLUMNS = 12  # 3**12 counters are 4 MiB; wider tables are grouped by hashing
_BATCH_ROWS = 1 << 20


class Code(NamedTuple):
    """Patterns as numbers, one row each. labels: (patterns, 3 + judges) of 0, 1 or MISSING; the rest: (patterns,).

    use: an index into USES; stratum: an index into `strata`, the sorted names (one that is None without strata);
    n: items; stands_for: how many items of the population they stand for, n unless they were drawn unequally.
    """

    labels: np.ndarray
    use: np.ndarray
    stratum: np.ndarray
    n: np.ndarray
    stands_for: np.ndarray
    strata: tuple[str | None, ...] = (None,)

    def take(self, rows: np.ndarray) -> Code:
        """Some of the patterns; the strata stay."""
        labels, use, stratum, n, stands_for = (part[rows] for part in self[:5])
        return Code(labels, use, stratum, n, stands_for, self.strata)


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
    n = counts.column("n")
    if not pa.types.is_integer(n.type) or n.null_count or (pc.min(n).as_py() or 0) < 0:
        raise InputError("column 'n' of a count table: whole numbers of at least 0 are expected, no nulls")
    wrong = sorted(set(map(str, counts.column("use").to_pylist())) - set(USES))
    if wrong:
        raise InputError(
            f"column 'use' of a count table holds {', '.join(wrong)}: one of {', '.join(USES)} is expected"
        )
    for name in (*TRUSTED, *judges):
        digits_of(counts.column(name), name)
    names = counts.schema.names
    if STRATUM not in names:
        counts = counts.append_column(STRATUM, pa.nulls(counts.num_rows, pa.string()))
    if "stands_for" not in names:
        counts = counts.append_column("stands_for", n.cast(pa.float64()))
    return to_table(resolve(to_code(counts), judges), judges)


def patterns(table: pa.Table, judges: Sequence[str]) -> pa.Table:
    """The count table of an annotations or label table (schema `tables.patterns_schema`), in a fixed order.

    Rows whose `error` is not null have use="failed"; those whose `use` is "calibration" inform the judges only. Where
    a = 1, t = 0 means "not applicable" and becomes missing, and verdicts on T are set aside; where t = 1, a is 0.
    Columns must be 0/1 numbers or booleans with nulls. A column `stratum` (or `inclusion`, see `strata`) that is not
    all null makes strata.

    Raises InputError for a missing column, another value than 0 or 1, t = 1 with a = 1, t = 0 where a is missing
    (it may be an abstention; `read_labels(..., t_zero="wrong")` reads it as an answer), or an unusable stratum.
    """
    check_judges(judges)
    columns = [*TRUSTED, *judges]
    check_columns(table, columns)
    leaked = sorted(trusted_sources(table) & set(judges))
    if leaked:
        raise InputError(f"{', '.join(leaked)} fills trusted labels and cannot be a judge in the same fit")
    labels = table.select(columns)
    use, strata = _uses(table), read_strata(table)
    wide = len(columns) > _MOST_COUNTED_COLUMNS or len(strata.names) * 3 ** len(columns) > 3**_MOST_COUNTED_COLUMNS
    code = (_group if wide else _count)(labels, use, strata)
    return to_table(resolve(code, list(judges)), list(judges))


def _uses(table: pa.Table) -> np.ndarray | None:
    """Per row an index into USES; None where all rows inform the fit."""
    names = table.schema.names
    use = None
    if "use" in names and table.column("use").null_count < table.num_rows:
        texts = pc.fill_null(table.column("use").cast(pa.string()), "fit")
        texts = pc.if_else(pc.equal(texts, ""), "fit", texts)
        found = pc.index_in(texts, value_set=pa.array(USES))
        if found.null_count:
            wrong = texts.filter(pc.is_null(found))[0].as_py()
            raise InputError(f"column 'use' holds {wrong!r}{did_you_mean(wrong, USES)}; blank means fit")
        use = found.to_numpy().astype(np.int32)
    if "error" not in names or table.column("error").null_count == table.num_rows:
        return use
    failed = pc.is_valid(table.column("error")).to_numpy()
    return np.where(failed, FAILED, FIT if use is None else use).astype(np.int32)


def merge(tables: Sequence[pa.Table]) -> pa.Table:
    """One count table from several with the same columns: the counts of equal patterns are added."""
    if not tables:
        raise InputError("no count table to merge")
    judges = judges_of(tables[0])
    whole = pa.concat_tables([table.select(patterns_schema(judges).names) for table in tables])
    return to_table(to_code(whole), judges)


def judges_of(counts: pa.Table) -> list[str]:
    """The judges of a count table."""
    own = (*TRUSTED, STRATUM, "use", "n", "stands_for")
    return [name for name in counts.schema.names if name not in own]


def to_code(counts: pa.Table) -> Code:
    """The count table as numbers."""
    columns = [*TRUSTED, *judges_of(counts)]
    labels = [pc.fill_null(counts.column(name).cast(LABEL), MISSING).to_numpy() for name in columns]
    texts = counts.column(STRATUM).to_pylist()
    strata = tuple(sorted({text for text in texts if text is not None})) or (None,)
    index = {name: number for number, name in enumerate(strata)}
    return Code(
        np.stack(labels, axis=1).astype(np.int8),
        np.array([USES.index(use) for use in counts.column("use").to_pylist()], dtype=np.int32),
        np.array([index.get(text, 0) for text in texts], dtype=np.int32),
        counts.column("n").to_numpy(),
        counts.column("stands_for").to_numpy(),
        strata,
    )


def _count(labels: pa.Table, use: np.ndarray | None, strata: Strata) -> Code:
    """Count by a number in base 3, one digit per column: several times faster than hashing."""
    width, size = labels.num_columns, len(USES) * len(strata.names) * 3**labels.num_columns
    totals = np.zeros(size, dtype=np.int64)
    weights = None if strata.weight is None else np.zeros(size)
    for start in range(0, labels.num_rows, _BATCH_ROWS):
        stop = start + _BATCH_ROWS
        batch = labels.slice(start, _BATCH_ROWS)
        code = np.zeros(batch.num_rows, dtype=np.int32)
        if use is not None:
            code += use[start:stop] * len(strata.names)
        if strata.place is not None:
            code += strata.place[start:stop]
        for name in labels.column_names:
            code *= 3
            code += digits_of(batch.column(name), name)
        totals += np.bincount(code, minlength=size)
        if weights is not None and strata.weight is not None:
            weights += np.bincount(code, weights=strata.weight[start:stop], minlength=size)
    codes = np.flatnonzero(totals)
    digits = codes[:, None] // 3 ** np.arange(width - 1, -1, -1) % 3
    uses, stratum = np.divmod(codes // 3**width, len(strata.names))
    n = totals[codes]
    stands_for = n.astype(float) if weights is None else weights[codes]
    return Code(digits.astype(np.int8), uses, stratum, n, stands_for, strata.names)


def _group(labels: pa.Table, use: np.ndarray | None, strata: Strata) -> Code:
    rows = labels.num_rows
    columns = {f"c{i}": pa.array(digits_of(labels.column(i), name)) for i, name in enumerate(labels.column_names)}
    columns["use"] = pa.array(np.zeros(rows, dtype=np.int32) if use is None else use)
    columns["stratum"] = pa.array(np.zeros(rows, dtype=np.int32) if strata.place is None else strata.place)
    weight = np.ones(rows) if strata.weight is None else strata.weight
    grouped = pa.table({**columns, "weight": weight}).group_by(list(columns))
    found = grouped.aggregate([([], "count_all"), ("weight", "sum")])
    digits = np.stack([found.column(f"c{i}").to_numpy() for i in range(labels.num_columns)], axis=1)
    uses, stratum, n, weights = (
        found.column(name).to_numpy() for name in ("use", "stratum", "count_all", "weight_sum")
    )
    return Code(digits, uses, stratum, n, weights, strata.names)


def digits_of(column: pa.ChunkedArray, name: str) -> np.ndarray:
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


def resolve(code: Code, judges: Sequence[str]) -> Code:
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


def to_table(code: Code, judges: list[str]) -> pa.Table:
    """Add equal patterns up, and sort: the order never depends on the order of the rows."""
    keys = np.column_stack([code.use, code.stratum, code.labels])
    unique, inverse = np.unique(keys, axis=0, return_inverse=True)
    n, stands_for = np.zeros(len(unique), dtype=np.int64), np.zeros(len(unique))
    np.add.at(n, inverse.reshape(-1), code.n)
    np.add.at(stands_for, inverse.reshape(-1), code.stands_for)
    columns = [
        pa.array(np.where(digits == MISSING, 0, digits), type=LABEL, mask=digits == MISSING)
        for digits in unique[:, 2:].T
    ]
    rest = [
        pa.array([code.strata[index] for index in unique[:, 1]], pa.string()),
        pa.array([USES[index] for index in unique[:, 0]], pa.string()),
        pa.array(n),
        pa.array(stands_for),
    ]
    return pa.Table.from_arrays([*columns, *rest], schema=patterns_schema(judges))
