"""A user's label file, checked: what `rat-ray fit data=` reads.

Columns r, a and t hold trusted labels, `r@NAME`, `a@NAME` and `t@NAME` a judge's verdicts. Cells may be blank.
(Ten lines over the limit of a module: every check of a label file in one place, in the order of its messages.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.errors import InputError, did_you_mean
from rat_ray.model.label_files import LabelFile, open_label_file
from rat_ray.model.patterns import TRUSTED, USES, source_columns, trusted_sources
from rat_ray.model.strata import INCLUSION, STRATUM, strata_columns
from rat_ray.naming import MAX_NAME, reads_as_value, safe_name
from rat_ray.tables import ANNOTATIONS, LABEL

_ONE = {"1", "1.0", "true", "yes"}
_ZERO = {"0", "0.0", "false", "no"}
_MISSING = {"", "null", "nan", "na"}
_ACCEPTED = "a label is 0/1, 0.0/1.0, true/false or yes/no; blank, null, NaN and NA are missing"
_T_ZERO = ("refuse", "wrong")
_SHOWN = 10  # ids named in one message


@dataclass(frozen=True)
class Columns:
    """What the columns are called in the file."""

    r: str = "r"
    a: str = "a"
    t: str = "t"
    question_id: str = "question_id"
    stratum: str = "stratum"
    inclusion: str = "inclusion"
    use: str = "use"
    context: str = "context"

    def validate(self) -> None:
        """Raise InputError when two roles name the same column."""
        names = list(vars(self).values())
        for name in names:
            if not name or names.count(name) > 1:
                raise InputError(f"columns: {name!r} cannot be {names.count(name)} of {', '.join(vars(self))}")

    @property
    def optional(self) -> dict[str, str]:
        """What a file need not have: its role and the column's name."""
        return {role: getattr(self, role) for role in ("stratum", "inclusion", "use", "context")}


class Notes(NamedTuple):
    """What was read otherwise than it stands in the file."""

    t_not_applicable: int = 0  # t = 0 where a = 1: read as missing
    verdicts_set_aside: int = 0  # a judge's verdicts on T where a = 1
    a_implied: int = 0  # a = 0 because t = 1, or because t = 0 with t_zero=wrong
    trusted: tuple[str, ...] = ()  # sources that fill r, a or t, and one annotator's: never also judges

    def lines(self) -> list[str]:
        """In words, only what happened."""
        said = [
            (self.t_not_applicable, f"t = 0 where a = 1 is read as missing: {self.t_not_applicable} rows"),
            (self.verdicts_set_aside, f"verdicts on T where a = 1 are set aside: {self.verdicts_set_aside}"),
            (self.a_implied, f"a is blank and t known, so a = 0: {self.a_implied} rows"),
            (self.trusted, f"trusted, or one annotator's, so they are no judges: {', '.join(self.trusted)}"),
        ]
        return [text for happened, text in said if happened]


class Labels(NamedTuple):
    """table: config, question_id, r, a, t, the judges' columns, `error` where the file is our annotations, and where
    the file says so `stratum`, `stands_for`, `use` and `context` (see `patterns.patterns`).

    ignored: the file's columns that are not used.
    """

    table: pa.Table
    judges: list[str]
    ignored: list[str]
    notes: Notes

    def lines(self) -> list[str]:
        """What a reader must know of how the file was read, in words."""
        return [*self.notes.lines(), *([f"columns ignored: {', '.join(self.ignored)}"] if self.ignored else [])]

    def by_config(self) -> dict[str, pa.Table]:
        """The rows of each configuration, in the order in which they first occur."""
        column = self.table.column("config")
        return {name: self.table.filter(pc.equal(column, name)) for name in pc.unique(column).to_pylist()}


def read_labels(
    path: str | Path, columns: Columns | None = None, by: Sequence[str] = (), t_zero: str = "refuse"
) -> Labels:
    """Read and check a label file (CSV, TSV, JSONL, each also .gz; Parquet, or a folder of it).

    by: columns whose values make a row's config, such as `gemma` for one column or `model-gemma.k-3` for two;
    without them the config is "all" (our own annotations: their config). t_zero: "refuse", or "wrong" when t = 0
    where a is blank means a wrong answer, never an abstention.

    Raises InputError, naming the place, for everything that is not as it should be.
    """
    columns = columns or Columns()
    columns.validate()
    if t_zero not in _T_ZERO:
        raise InputError(f"t_zero = {t_zero!r} is unknown{did_you_mean(t_zero, _T_ZERO)}")
    path = Path(path)
    file = open_label_file(path)
    _check_names(path, file.names, columns, by)
    ours = {"r_source", "a_source", "t_source", "config"} <= set(file.names)
    by = ["config"] if ours and not by else list(by)
    names = {"r": columns.r, "a": columns.a, "t": columns.t}
    has_ids = columns.question_id in file.names
    chosen = {role: name for role, name in columns.optional.items() if name in file.names and name not in by}
    used = [*names.values(), *([columns.question_id] if has_ids else []), *by, *chosen.values()]
    sources = [name for name in source_columns(file.names) if name not in used]
    extra = ["r_source", "a_source", "t_source", "error"] if ours else []
    raw = file.read(list(dict.fromkeys([*used, *sources, *(name for name in extra if name in file.names)])))
    if raw.num_rows == 0:
        raise InputError(f"{path}: the file has a header but no rows")

    trusted = trusted_sources(raw) | getattr(file, "trusted", set()) if ours else set()
    judges = [name for name in sources if name not in trusted]
    place = _Place(path, file, _ids(path, file, raw, columns.question_id if has_ids else None))
    config = _configs(place, raw, by)
    labels = {role: _labels(place, raw.column(name), name) for role, name in names.items()}
    labels |= {judge: _labels(place, raw.column(judge), judge) for judge in judges}
    if has_ids:
        _check_unique(place, config)
    labels, notes = _resolve(place, labels, judges, t_zero)
    table = pa.table({"config": config, "question_id": place.ids, **labels, **_chosen(place, raw, labels, chosen)})
    if ours and "error" in raw.schema.names:
        table = table.append_column("error", raw.column("error").cast(pa.string()))
    known = {*used, *judges, *(ANNOTATIONS.names if ours else [])}
    ignored = [name for name in file.names if name not in known]
    left_out = tuple(name for name in sources if name in trusted)
    return Labels(table, judges, ignored, notes._replace(trusted=left_out))


def _chosen(place: _Place, raw: pa.Table, labels: dict[str, pa.Array], chosen: dict[str, str]) -> dict[str, pa.Array]:
    """The columns that say how items were chosen and what for: stratum, stands_for, use."""
    texts = {role: _text_column(raw.column(name)) for role, name in chosen.items()}
    known = pa.table(labels | {role: text for role, text in texts.items() if role in (STRATUM, INCLUSION)})
    try:
        found = strata_columns(known)
    except InputError as error:
        raise InputError(f"{place.path}: {error}") from error
    if "context" in texts:
        found["context"] = texts["context"]
    use = texts.get("use")
    if use is None or use.null_count == len(use):
        return found
    wrong = pc.fill_null(pc.invert(pc.is_in(use, pa.array(USES))), False)
    wrong = pc.and_(wrong, pc.is_valid(use)).to_numpy(zero_copy_only=False)
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"{place.path}, {place.row(first)}: {chosen['use']} is {use[first].as_py()!r}"
            f"{did_you_mean(use[first].as_py(), USES)}; blank means fit"
        )
    return {**found, "use": use}


def _text_column(column: pa.ChunkedArray) -> pa.Array:
    """As trimmed text, blanks null."""
    indices, values = _texts(column)
    blank = [None if value is None or value.lower() in _MISSING else value for value in values]
    return pa.array(blank, pa.string()).take(indices)


class _Place(NamedTuple):
    """Where a row is, for messages."""

    path: Path
    file: LabelFile
    ids: pa.Array

    def row(self, index: int) -> str:
        line = self.file.line(index)
        return f"row {index + 1}{f' (line {line})' if line else ''}, id {self.ids[index].as_py()!r:.80}"

    def list_ids(self, rows: np.ndarray) -> str:
        shown = ", ".join(str(name) for name in self.ids.take(pa.array(rows[:_SHOWN])).to_pylist())
        return shown + (f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else "")


def _check_names(path: Path, names: list[str], columns: Columns, by: Sequence[str]) -> None:
    for role in TRUSTED:
        name = getattr(columns, role)
        if name not in names:
            raise InputError(
                f"{path}: the required column {name!r} is missing{did_you_mean(name, names)}; "
                f"if it has another name, say columns.{role}=NAME; if nothing is known of it, add it with blank cells"
            )
    default = columns.question_id == Columns.question_id
    if not default and columns.question_id not in names:
        raise InputError(
            f"{path}: the column {columns.question_id!r} (columns.question_id) is missing"
            f"{did_you_mean(columns.question_id, names)}"
        )
    for role, name in columns.optional.items():
        if name != role and name not in names:
            raise InputError(f"{path}: the column {name!r} (columns.{role}) is missing{did_you_mean(name, names)}")
    for name in by:
        if name not in names:
            raise InputError(f"{path}: the column {name!r} of by= is missing{did_you_mean(name, names)}")
    if len(set(by)) < len(by):
        raise InputError(f"by= names a column twice: {', '.join(by)}")


def _texts(column: pa.ChunkedArray) -> tuple[pa.Int32Array, list[str | None]]:
    """Per row an index into the distinct values, and these as trimmed text; no row becomes a Python object."""
    array = _nan_is_null(_plain(column))
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    array = array.dictionary_encode()
    values = array.dictionary.cast(pa.string()).to_pylist()
    return array.indices, [None if value is None else value.strip() for value in values]


def _plain(column: pa.ChunkedArray) -> pa.Array:
    """One array, no dictionary: a pandas category may hold values that no row has."""
    array = column.combine_chunks()
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _nan_is_null(array: pa.Array) -> pa.Array:
    if not pa.types.is_floating(array.type):
        return array
    return pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)


def _ids(path: Path, file: LabelFile, raw: pa.Table, name: str | None) -> pa.Array:
    """The ids as text, so that 1 and "1" are the same; without a column of ids the number of the row."""
    if name is None:
        return pa.array(np.arange(1, raw.num_rows + 1)).cast(pa.string())
    column = _nan_is_null(_plain(raw.column(name)))
    if pa.types.is_floating(column.type) and _whole(column):  # pandas makes whole numbers 1.0 where some are missing
        column = column.cast(pa.int64())
    if pa.types.is_nested(column.type):
        raise InputError(f"{path}: column {name!r} is {column.type}; an id is a text or a number")
    ids = pc.utf8_trim_whitespace(column.cast(pa.string()))
    blank = pc.fill_null(pc.equal(ids, ""), True).to_numpy(zero_copy_only=False)
    if blank.any():
        first = int(np.flatnonzero(blank)[0])
        line = file.line(first)
        where = f"row {first + 1}" + (f" (line {line})" if line else "")
        raise InputError(f"{path}, {where}: {name} is blank; give every row an id, or drop the column")
    return ids


def _whole(column: pa.Array) -> bool:
    """Whether all are whole numbers that int64 holds exactly."""
    exact = pc.less(pc.abs(column.cast(pa.float64())), float(1 << 63))
    return bool(pc.all(pc.and_(exact, pc.equal(column, pc.floor(column))), min_count=0).as_py())


def _labels(place: _Place, column: pa.ChunkedArray, name: str) -> pa.Array:
    """int8 labels. Raises InputError for the first row that holds anything else."""
    if pa.types.is_nested(column.type):
        raise InputError(f"{place.path}: column {name!r} is {column.type}; {_ACCEPTED}")
    indices, values = _texts(column)
    read = [_label(value) for value in values]
    wrong = [index for index, label in enumerate(read) if label == -1]
    if wrong:
        rows = np.flatnonzero(pc.is_in(indices, pa.array(wrong, indices.type)).to_numpy(zero_copy_only=False))
        first = int(rows[0])
        more = f" (and {len(rows) - 1} more rows)" if len(rows) > 1 else ""
        value = values[indices[first].as_py()]
        raise InputError(f"{place.path}, {place.row(first)}: {name} is {value!r:.80}{more}; {_ACCEPTED}")
    return pa.array(read, type=LABEL).take(indices)


def _label(value: str | None) -> int | None:
    """1, 0, None where missing, -1 where it is no label."""
    if value is None or value.lower() in _MISSING:
        return None
    if value.lower() in _ONE:
        return 1
    return 0 if value.lower() in _ZERO else -1


def _configs(place: _Place, raw: pa.Table, by: list[str]) -> pa.Array:
    """A row's config: a name that is safe in a path, the same for the same values of the `by` columns and no others."""
    if not by:
        return pa.repeat(pa.scalar("all", pa.string()), raw.num_rows)
    parts = []
    for name in by:
        if pa.types.is_nested(raw.column(name).type):
            raise InputError(
                f"{place.path}: the column {name!r} of by= is {raw.column(name).type}; give texts or numbers"
            )
        indices, values = _texts(raw.column(name))
        names = [_safe(name, value, alone=len(by) == 1) for value in values]
        blank = pc.fill_null(pc.is_in(indices, pa.array(_blanks(values), indices.type)), True).to_numpy(
            zero_copy_only=False
        )
        blank |= indices.is_null().to_numpy(zero_copy_only=False)
        if blank.any():
            row = place.row(int(np.flatnonzero(blank)[0]))
            raise InputError(f"{place.path}, {row}: the column {name!r} of by= is blank; every row belongs to a config")
        _check_distinct(place.path, name, values, names)
        parts.append(pa.array(names, type=pa.string()).take(indices))
    if len(parts) == 1:
        return _short(parts[0])
    joined = pc.binary_join_element_wise(*parts, ".")
    combinations = pa.table({str(i): part for i, part in enumerate(parts)}).group_by(
        [str(i) for i in range(len(parts))]
    )
    if combinations.aggregate([]).num_rows != len(pc.unique(joined)):
        raise InputError(
            f"{place.path}: by={','.join(by)} gives the same name to different values; rename some of them"
        )
    return _short(joined)


def _short(names: pa.Array) -> pa.Array:
    """The names, the long ones cut so that they fit into a path; they stay distinct."""
    encoded = names.dictionary_encode()
    short = [safe_name(name) if len(name) > MAX_NAME else name for name in encoded.dictionary.to_pylist()]
    return pa.array(short, pa.string()).take(encoded.indices)


def _blanks(values: list[str | None]) -> list[int]:
    return [index for index, value in enumerate(values) if not value]


def _safe(column: str, value: str | None, alone: bool) -> str:
    text = re.sub(r"[^A-Za-z0-9_.-]+", "_", value or "")
    if alone and text.strip(".") and not reads_as_value(text):
        return text
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", column) + "-" + text


def _check_distinct(path: Path, column: str, values: list[str | None], names: list[str]) -> None:
    first: dict[str, str | None] = {}
    for value, name in zip(values, names, strict=True):
        if first.setdefault(name, value) != value:
            raise InputError(
                f"{path}: in the column {column!r} of by=, {first[name]!r} and {value!r} would both be named {name!r} "
                "(names are made of letters, digits, '_', '.' and '-'); rename one of them"
            )


def _check_unique(place: _Place, config: pa.Array) -> None:
    table = pa.table({"config": config, "id": place.ids})
    counted = table.group_by(["config", "id"]).aggregate([([], "count_all")])
    twice = counted.filter(pc.greater(counted.column("count_all"), 1))
    if twice.num_rows == 0:
        return
    name, config_name = twice.column("id")[0].as_py(), twice.column("config")[0].as_py()
    same = pc.and_(pc.equal(place.ids, name), pc.equal(config, config_name)).to_numpy(zero_copy_only=False)
    rows = ", ".join(str(row + 1) for row in np.flatnonzero(same)[:_SHOWN].tolist())
    where = "" if config_name == "all" else f" in config {config_name!r}"
    raise InputError(
        f"{place.path}: the question id {name!r} occurs more than once{where} (rows {rows}; {twice.num_rows} such "
        "ids); one row per question and config: name the columns that tell configs apart with by="
    )


def _resolve(
    place: _Place, labels: dict[str, pa.Array], judges: list[str], t_zero: str
) -> tuple[dict[str, pa.Array], Notes]:
    """Apply the definitions that tie t to a."""
    a, t = labels["a"], labels["t"]
    contradiction = _where(pc.and_(_is(a, 1), _is(t, 1)))
    if len(contradiction):
        raise InputError(
            f"{place.path}: t = 1 with a = 1 on {len(contradiction)} row(s): an abstention cannot be a correct answer; "
            f"correct a or t of: {place.list_ids(contradiction)}"
        )
    unclear = _where(pc.and_(a.is_null(), _is(t, 0)))
    if len(unclear) and t_zero == "refuse":
        raise InputError(
            f"{place.path}: t = 0 where a is blank on {len(unclear)} row(s): it may be an abstention; fill in a, or "
            f"set t_zero=wrong if t = 0 there always means a wrong answer. Ids: {place.list_ids(unclear)}"
        )
    abstained = _is(a, 1)
    implied = pc.and_(a.is_null(), t.is_valid())
    changed = {
        "a": pc.if_else(implied, pa.scalar(0, LABEL), a),
        "t": pc.if_else(abstained, pa.scalar(None, LABEL), t),
    }
    set_aside = 0
    for judge in judges:
        if judge.startswith("t@"):
            set_aside += len(_where(pc.and_(abstained, labels[judge].is_valid())))
            changed[judge] = pc.if_else(abstained, pa.scalar(None, LABEL), labels[judge])
    notes = Notes(
        t_not_applicable=len(_where(pc.and_(abstained, _is(t, 0)))),
        verdicts_set_aside=set_aside,
        a_implied=len(_where(implied)),
    )
    return labels | changed, notes


def _is(labels: pa.Array, value: int) -> pa.BooleanArray:
    return pc.fill_null(pc.equal(labels, value), False)


def _where(flags: pa.BooleanArray) -> np.ndarray:
    return np.flatnonzero(flags.to_numpy(zero_copy_only=False))
