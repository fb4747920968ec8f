"""Files with people's labels, row by row: CSV and TSV as spreadsheets write them, JSON lines, Parquet, Label Studio.

Only the form is read here; `people` says what the cells mean.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from rat_ray import tables
from rat_ray.annotate.people_cells import restore
from rat_ray.cells import next_row
from rat_ray.errors import InputError, did_you_mean

NEEDED: Final = ("variable", "item", "label")
OPTIONAL: Final = ("annotator", "question_id", "time", "comment", "question")
SUFFIXES: Final = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json", ".parquet")
_CELL = 1 << 30  # characters; a long context is one cell
_DELIMITERS = (",", ";", "\t", "|")


class Row(NamedTuple):
    """One judgement as it stands in a file. place: the file and the row; cells: by column, missing ones left out."""

    place: str
    cells: Mapping[str, str]


class PeopleFile(NamedTuple):
    """skipped: judgements that an annotator cancelled. notes: how it was read, where that is not self-evident."""

    path: str
    rows: list[Row]
    skipped: int = 0
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What an annotator is called whose name no column tells: the file without its endings."""
        return Path(self.path).name.partition(".")[0]


def read_file(file: str, named: str = "") -> PeopleFile:
    """named: what messages call it; empty: its path.

    Raises InputError for a file that is not there, cannot be read, or lacks a column.
    """
    path = named or file
    name = path.lower().removesuffix(".gz")
    suffix = Path(name).suffix
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: the ending {suffix!r} is unknown; files of labels end in {', '.join(SUFFIXES)}")
    if suffix == ".parquet":
        return _parquet(path, file)
    data = _bytes(path, file)
    if not data.strip():
        raise InputError(f"{path}: the file is empty")
    if suffix in (".jsonl", ".ndjson"):
        return _json_lines(path, data)
    return _json(path, data) if suffix == ".json" else _delimited(path, data)


def _bytes(path: str, file: str) -> bytes:
    try:
        data = Path(file).read_bytes()
        return gzip.decompress(data) if path.lower().endswith(".gz") else data
    except (OSError, EOFError) as error:
        why = "it is not there" if isinstance(error, FileNotFoundError) else str(error)
        raise InputError(f"{path}: cannot be read ({why})") from error


# --- CSV and TSV ------------------------------------------------------------------------------------------------------


def _delimited(path: str, data: bytes) -> PeopleFile:
    text, notes = _decoded(path, data)
    first, _, rest = text.partition("\n")
    if first.strip().lower().startswith("sep=") and len(first.strip()) == 5:  # Excel's own hint
        text = rest
    delimiter, header = _header(path, text)
    rows = []
    for number, cells in enumerate(_records(path, text, delimiter), start=0):
        if number == 0 or not any(cell.strip() for cell in cells):
            continue
        place = f"{path}, row {number + 1}"
        if any(cell.strip() for cell in cells[len(header) :]):
            raise InputError(
                f"{place}: {len(cells)} cells under a header of {len(header)}; a cell that holds {delimiter!r} or a "
                'line end stands in quotes ("), and a quote within it is written twice'
            )
        pairs = zip(header, cells, strict=False)
        rows.append(Row(place, {name: restore(cell) for name, cell in pairs if name and cell.strip()}))
    return PeopleFile(path, rows, notes=notes)


def _decoded(path: str, data: bytes) -> tuple[str, tuple[str, ...]]:
    """Excel writes UTF-8 with a byte order mark, UTF-16 ("Unicode text"), or the old Western code page."""
    marked = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encodings = ["utf-16"] if marked else ["utf-8-sig", "cp1252"]
    for encoding in encodings:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        notes = (f"{path}: not UTF-8, read as Windows-1252: look at the comments",) if encoding == "cp1252" else ()
        return text, notes
    raise InputError(f"{path}: its text is neither UTF-8 nor Windows-1252; save it as CSV UTF-8")


def _header(path: str, text: str) -> tuple[str, list[str]]:
    """The delimiter and the columns' names."""
    found: dict[str, list[str]] = {}
    for delimiter in _DELIMITERS:
        cells = next((cells for cells in _records(path, text[:100_000], delimiter, strict=False)), [])
        found[delimiter] = [cell.strip().lower() for cell in cells]
    delimiter = max(found, key=lambda one: (len(set(NEEDED) & set(found[one])), len(found[one])))
    _check_columns(path, found[delimiter])
    return delimiter, found[delimiter]


def _check_columns(path: str, names: Sequence[str]) -> None:
    for name in NEEDED:
        if name not in names:
            raise InputError(f"{path}: there is no column {name!r}{did_you_mean(name, [one for one in names if one])}")
    for name in (*NEEDED, *OPTIONAL):
        if list(names).count(name) > 1:
            raise InputError(f"{path}: the header names {name!r} more than once")


def _records(path: str, text: str, delimiter: str, strict: bool = True) -> Iterator[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=strict)
    start = 1
    try:
        while (cells := next_row(reader, _CELL)) is not None:
            yield cells
            start = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f'{path}, the row from line {start} on: its quotes (") do not pair up ({error}); a quoted cell ends with a '
            "quote, and a quote within it is written twice"
        ) from error


# --- JSON lines and Parquet -------------------------------------------------------------------------------------------


def _json_lines(path: str, data: bytes) -> PeopleFile:
    rows = []
    for number, line in enumerate(_utf8(path, data).split("\n"), start=1):
        if line.strip():
            rows.append(Row(f"{path}, line {number}", _flat(f"{path}, line {number}", _parsed(path, line, number))))
    return PeopleFile(path, rows)


def _utf8(path: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: {error}") from error


def _parsed(path: str, text: str, line: int | None = None) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}{f', line {line}' if line else ''}: not JSON: {error}") from error


def _flat(place: str, value: object) -> dict[str, str]:
    """The known fields of an object as texts; null is missing."""
    if not isinstance(value, dict):
        raise InputError(f'{place}: an object such as {{"variable": "r", "item": "r-…", "label": 1}} is expected')
    cells = {}
    for name in (*NEEDED, *OPTIONAL):
        text = _text(place, name, value.get(name))
        if text is not None and text.strip():
            cells[name] = text
    return cells


def _text(place: str, name: str, value: object) -> str | None:
    """1, 1.0 and "1" are the same; NaN is missing."""
    if isinstance(value, float):
        if math.isnan(value):
            return None
        value = int(value) if value.is_integer() else value
    if isinstance(value, list | dict):
        raise InputError(f"{place}: {name} is {value!r:.80}; a text or a number is expected")
    if value is None:
        return None
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{place}: {name} is {text!r:.80}, which is no text") from error
    return text


def _parquet(path: str, where: str) -> PeopleFile:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(where) as file:
            names = file.schema_arrow.names
            _check_columns(path, names)
            ours = all(field in list(file.schema_arrow) for field in tables.PEOPLE)
            table = file.read([name for name in (*NEEDED, *OPTIONAL) if name in names])
    except (pa.ArrowException, OSError) as error:
        why = "it is not there" if isinstance(error, FileNotFoundError) else str(error).splitlines()[0]
        raise InputError(f"{path}: cannot be read as Parquet ({why})") from error
    places = (f"{path}, row {number}" for number in range(1, table.num_rows + 1))
    rows = table.to_pylist()
    if ours:  # there a missing label is one that the annotator was unsure of
        rows = [{**row, "label": "unsure" if row["label"] is None else row["label"]} for row in rows]
    return PeopleFile(path, [Row(p, _flat(p, row)) for p, row in zip(places, rows, strict=True)])


# --- Label Studio -----------------------------------------------------------------------------------------------------


def _json(path: str, data: bytes) -> PeopleFile:
    """Label Studio's export: "JSON" (tasks with annotations) or "JSON-MIN" (one flat object per annotation)."""
    content = _parsed(path, _utf8(path, data))
    if not isinstance(content, list):
        raise InputError(f"{path}: a list is expected, as Label Studio exports it; JSON lines end in .jsonl")
    rows: list[Row] = []
    skipped = 0
    for number, task in enumerate(content, start=1):
        place = f"{path}, task {number}"
        if not isinstance(task, dict) or "annotations" not in task:
            rows.append(Row(place, _flat(place, _plain(task))))
            continue
        if not isinstance(task.get("data"), dict) or not isinstance(task["annotations"], list):
            raise InputError(f"{place}: data and annotations are expected, as Label Studio exports them")
        for one in task["annotations"]:
            if not isinstance(one, dict) or one.get("was_cancelled"):
                skipped += 1
                continue
            rows.append(Row(place, _flat(place, {**_known(task["data"]), **_annotation(place, one)})))
        if not task["annotations"]:
            rows.append(Row(place, _flat(place, _known(task["data"]))))
    return PeopleFile(path, rows, skipped)


def _known(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: data.get(name) for name in ("variable", "item", "question_id", "question")}


def _plain(task: Any) -> Any:
    """JSON-MIN writes several texts of one field as a list, and the annotator's number or address."""
    if not isinstance(task, dict):
        return task
    comment = task.get("comment")
    named = {**task, "time": task.get("updated_at") or task.get("created_at") or task.get("time")}
    return {**named, "comment": "\n".join(map(str, comment)) if isinstance(comment, list) else comment}


def _annotation(place: str, one: Mapping[str, Any]) -> dict[str, Any]:
    cells = {"annotator": _who(one.get("completed_by")), "time": one.get("updated_at") or one.get("created_at")}
    results = one.get("result") or []
    parts: list[Any] = results if isinstance(results, list) else [results]
    for result in parts:
        value = result.get("value") if isinstance(result, dict) else None
        if not isinstance(value, dict):
            raise InputError(f"{place}: a result without a value; export the project as JSON")
        if result.get("from_name") == "label":
            choices = value.get("choices")
            if not isinstance(choices, list) or len(choices) != 1 or "label" in cells:
                raise InputError(f"{place}: the label is {value!r:.80}; one choice is expected")
            cells["label"] = choices[0]
        elif result.get("from_name") == "comment":
            text = value.get("text")
            cells["comment"] = "\n".join(map(str, text)) if isinstance(text, list) else text
    return cells


def _who(completed_by: Any) -> str | None:
    """Label Studio writes the person's number, or an object with the address."""
    if isinstance(completed_by, dict):
        completed_by = completed_by.get("email") or completed_by.get("id")
    return None if completed_by is None else str(completed_by)
