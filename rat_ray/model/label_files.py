"""Label files of any format as Arrow columns: CSV, TSV, JSONL (each also .gz), Parquet, or a folder of Parquet."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TextIO

import pyarrow as pa

from rat_ray.errors import InputError

_BROKEN = (pa.ArrowInvalid, pa.ArrowTypeError, OSError, EOFError, UnicodeDecodeError)


class LabelFile(Protocol):
    """An opened file: the names of its columns, any of them as Arrow columns, and the line of a row in an editor."""

    names: list[str]

    def read(self, names: Sequence[str]) -> pa.Table:
        """These columns, one row per data row."""
        ...

    def line(self, row: int) -> int | None:
        """The line (from 1) on which a data row (from 0) ends; None where a file has no lines."""
        ...


def open_label_file(path: Path) -> LabelFile:
    """Choose the format by the file's ending. Raises InputError for a missing, empty or unreadable file."""
    if not path.exists():
        raise InputError(f"{path}: there is no such file; data= names the file with the labels")
    if path.is_dir():
        return ParquetLabels(path)
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty; the first line of a label file names its columns (r, a, t, ...)")
    ending = "".join(path.suffixes[-2:]).lower() if path.suffix.lower() == ".gz" else path.suffix.lower()
    try:
        match ending:
            case ".csv" | ".csv.gz":
                return CsvLabels(path, ",")
            case ".tsv" | ".tsv.gz":
                return CsvLabels(path, "\t")
            case ".jsonl" | ".jsonl.gz" | ".ndjson" | ".ndjson.gz":
                return JsonLabels(path)
            case ".parquet":
                return ParquetLabels(path)
    except _BROKEN as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    raise InputError(
        f"{path}: the ending {ending!r} is unknown; label files end in .csv, .tsv, .jsonl (also with .gz) or .parquet"
    )


class CsvLabels:
    """A delimited text file with a header; every column is read as text, blank cells as empty text."""

    def __init__(self, path: Path, delimiter: str) -> None:
        self._path, self._delimiter = path, delimiter
        with _open_text(path) as file:
            header = next((row for row in csv.reader(file, delimiter=delimiter) if row), [])
        if not header:
            raise InputError(f"{path}: the file is empty; its first line must name the columns (r, a, t, ...)")
        self._columns = {name.strip(): name for name in header}
        self.names = list(self._columns)
        if len(self.names) < len(header):
            twice = sorted({name for name in header if [n.strip() for n in header].count(name.strip()) > 1})
            raise InputError(f"{path}: the header names {', '.join(map(repr, twice))} more than once")
        if len(header) == 1 and any(sign in header[0] for sign in ";\t,|"):
            raise InputError(
                f"{path}: the header {header[0]!r} is one column; cells are separated by "
                f"{'tabs' if delimiter == chr(9) else 'commas'} in a {path.suffix} file"
            )

    def read(self, names: Sequence[str]) -> pa.Table:
        import pyarrow.csv

        columns = [self._columns[name] for name in names]
        try:
            table = pyarrow.csv.read_csv(
                self._path,
                parse_options=pyarrow.csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                convert_options=pyarrow.csv.ConvertOptions(
                    include_columns=columns, column_types={name: pa.string() for name in columns}
                ),
            )
        except _BROKEN as error:
            raise InputError(f"{self._path}: cannot be read: {error}") from error
        return table.rename_columns(list(names))

    def line(self, row: int) -> int | None:
        with _open_text(self._path) as file:
            reader = csv.reader(file, delimiter=self._delimiter)
            seen = -2  # the header is the first row that is not blank
            for cells in reader:
                seen += bool(cells)
                if seen == row:
                    return reader.line_num
        return None


class JsonLabels:
    """One JSON object per line; a key that a line lacks is null there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[int] = []
        self._rows: list[dict[str, object]] = []
        with _open_text(path) as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    self._lines.append(number)
                    self._rows.append(_json_object(path, number, line))
        names: dict[str, None] = {}
        for row in self._rows:
            names.update(dict.fromkeys(row))
        self.names = list(names)
        if not self._rows:
            raise InputError(f"{path}: the file is empty; each line must be an object with r, a and t")

    def read(self, names: Sequence[str]) -> pa.Table:
        columns = {name: [_text(row.get(name)) for row in self._rows] for name in names}
        return pa.table({name: pa.array(values, type=pa.string()) for name, values in columns.items()})

    def line(self, row: int) -> int | None:
        return self._lines[row]


class ParquetLabels:
    """A Parquet file, or a folder of them: `config=NAME/` in a path is a column."""

    def __init__(self, path: Path) -> None:
        import pyarrow.dataset

        self._path = path
        files = [str(file) for file in sorted(path.rglob("*.parquet"))] if path.is_dir() else [str(path)]
        if not files:
            raise InputError(f"{path}: the folder holds no .parquet file")
        base = str(path) if path.is_dir() else None
        try:
            found = pyarrow.dataset.dataset(
                files, format="parquet", partitioning="hive" if base else None, partition_base_dir=base
            )
            parts = [fragment.physical_schema for fragment in found.get_fragments()]
            self._dataset = found.replace_schema(pa.unify_schemas([found.schema, *parts]))
        except _BROKEN as error:
            raise InputError(f"{path}: cannot be read as Parquet: {error}") from error
        self.names = list(self._dataset.schema.names)

    def read(self, names: Sequence[str]) -> pa.Table:
        try:
            return self._dataset.to_table(columns=list(names))
        except _BROKEN as error:
            raise InputError(f"{self._path}: cannot be read as Parquet: {error}") from error

    def line(self, row: int) -> int | None:
        return None


def _open_text(path: Path) -> TextIO:
    if path.suffix.lower() == ".gz":
        return io.TextIOWrapper(gzip.open(path, "rb"), encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _json_object(path: Path, number: int, line: str) -> dict[str, object]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {number}: not JSON: {error}") from error
    if not isinstance(row, dict):
        raise InputError(f'{path}, line {number}: an object such as {{"r": 1, "a": 0, "t": 1}} is expected')
    return row


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value)
